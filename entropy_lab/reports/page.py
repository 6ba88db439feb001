"""One self-contained HTML page: what was measured, the figures, every number, and the trajectories token by token.

The page asks nothing of any network: style, script, figures and data are inside, and its content policy allows one
script, by hash. Text from models and files reaches it as text only.
"""

import base64
import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from entropy_lab.files import write_bytes
from entropy_lab.reports.contents import Diagnosis, TokenView, TrajectoryView
from entropy_lab.reports.figures import draw
from entropy_lab.reports.names import metric_name
from entropy_lab.reports.selection import decision_rows, headline_rows, is_pair, metric_groups, metric_rows, pair_rows
from entropy_lab.reports.sentences import sentence
from entropy_lab.reports.style import SERIES, inline_svg
from entropy_lab.reports.visible import label, short_name, visible
from entropy_lab.reports.wording import (
    ABSENT,
    difference_words,
    finite,
    is_clear,
    number,
    parts,
    percent,
    scope,
    spoken_unit,
)

_DECISION_TOKENS = 12
_NAME_LIMIT = 72
_VALUE_AND_INTERVAL = re.compile(r"\S+ \[\S+, \S+\]")


def _resource(name: str) -> str:
    return (files("entropy_lab.reports") / name).read_text("utf-8")


def _json(value: object) -> Markup:
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


class _Strings:
    """Every text of the page's data once; trajectories hold its place."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def place(self, text: str) -> int:
        return self._places.setdefault(text, len(self._places))

    def shown(self) -> list[str]:
        return [visible(text) for text in self._places]


def _thousandths(value: float) -> int | None:
    return round(1000 * value) if math.isfinite(value) else None


def _rounded(value: float) -> float | None:
    return round(value, 4) if math.isfinite(value) else None


def _others(token: TokenView, strings: _Strings) -> list[float | None]:
    return [part for other in token.alternatives for part in (strings.place(other.text), _rounded(other.probability))]


def _trajectory(view: TrajectoryView, checkpoint: int, reasons: Sequence[str], strings: _Strings) -> dict[str, Any]:
    return {
        "c": checkpoint,
        "p": strings.place(view.problem_id),
        "q": strings.place(view.question),
        "i": view.sample_index,
        "g": view.correct,
        "v": strings.place(view.code),
        "a": None if view.answer is None else strings.place(view.answer),
        "f": reasons.index(view.finish_reason),
        "t": [strings.place(token.text) for token in view.tokens],
        "h": [_thousandths(token.entropy) for token in view.tokens],
        "l": [_thousandths(-token.logprob) for token in view.tokens],
        "o": {str(at): _others(token, strings) for at, token in enumerate(view.tokens) if token.alternatives},
        "b": [
            [block.start, block.stop, *map(_rounded, (block.peak_entropy, block.mean_entropy, block.share))]
            for block in view.blocks
        ],
    }


def _scale(diagnosis: Diagnosis) -> float:
    """Where the shading saturates: the 0.99 quantile of the entropies shown, at least a tenth of a nat."""
    entropies = np.array(
        [token.entropy for part in diagnosis.checkpoints for view in part.trajectories for token in view.tokens]
    )
    known = entropies[np.isfinite(entropies)]
    return max(0.1, math.ceil(10 * float(np.quantile(known, 0.99))) / 10) if len(known) else 1.0


def _data(diagnosis: Diagnosis, reasons: Sequence[str], scale: float) -> dict[str, Any]:
    strings = _Strings()
    trajectories = [
        _trajectory(view, index, reasons, strings)
        for index, checkpoint in enumerate(diagnosis.checkpoints)
        for view in checkpoint.trajectories
    ]
    return {
        "scale": scale,
        "checkpoints": [short_name(checkpoint.name, _NAME_LIMIT) for checkpoint in diagnosis.checkpoints],
        "reasons": [visible(reason) for reason in reasons],
        "measured": sum(checkpoint.trajectory_count for checkpoint in diagnosis.checkpoints),
        "strings": strings.shown(),
        "trajectories": trajectories,
    }


def _settings(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Nested settings as dotted names and text; what is not a finite number is a dash."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _settings(part, f"{name}.{key}" if name else str(key))
    else:
        yield visible(name), visible(_setting(value))


def _setting(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: ABSENT}[value]
    if isinstance(value, float):
        return ABSENT if finite(value) is None else repr(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_setting(part)}" for key, part in value.items())
    if isinstance(value, Sequence):
        return ", ".join(_setting(part) for part in value)
    return str(value)


def _unbroken(text: str) -> str:
    """No line break between a value and its interval."""
    return _VALUE_AND_INTERVAL.sub(lambda match: match.group().replace(" ", "\u00a0"), text)


def page(diagnosis: Diagnosis) -> str:
    """The page as text; the same diagnosis gives the same text."""
    script = _resource("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    views = [view for checkpoint in diagnosis.checkpoints for view in checkpoint.trajectories]
    reasons = sorted({view.finish_reason for view in views})
    scale = _scale(diagnosis)
    environment = Environment(autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    environment.filters["thousands"] = "{:,}".format
    return environment.from_string(_resource("page.html.j2")).render(
        title=visible(diagnosis.title),
        task=visible(diagnosis.task),
        names=[short_name(checkpoint.name, _NAME_LIMIT) for checkpoint in diagnosis.checkpoints],
        scopes=list(dict.fromkeys(filter(None, map(scope, diagnosis.checkpoints)))),
        sentence=_unbroken(sentence(diagnosis)),
        headlines=headline_rows(diagnosis),
        notes=[visible(note) for note in diagnosis.notes],
        figures=[
            {"title": drawing.title, "caption": drawing.caption, "svg": Markup(inline_svg(drawing))}
            for drawing in draw(diagnosis)
        ],
        decisions=decision_rows(diagnosis, _DECISION_TOKENS),
        groups=metric_groups(metric_rows(diagnosis)),
        compared=is_pair(diagnosis),
        pairs=pair_rows(diagnosis),
        clear=is_clear,
        colours=len(SERIES),
        level=percent(diagnosis.confidence),
        trajectories=bool(views),
        reasons=[label(reason, 24) for reason in reasons],
        scale=number(scale),
        shades=range(11),
        settings=list(_settings(diagnosis.settings)),
        css=Markup(_resource("page.css")),
        script=Markup(script),
        script_hash=Markup(f"sha256-{digest}"),
        data=_json(_data(diagnosis, reasons, scale)),
        absent=ABSENT,
        parts=parts,
        spoken_unit=spoken_unit,
        visible=visible,
        number=number,
        token=lambda text: label(text, 24, spaces=True),
        difference=lambda metric: _unbroken(difference_words(replace(metric, unit=""))),
        metric_name=lambda name: visible(metric_name(name, diagnosis.early_tokens)),
    )


def write_page(diagnosis: Diagnosis, path: Path) -> None:
    """Write the page to `path`, whole or not at all."""
    write_bytes(path, page(diagnosis).encode())
