import base64
import hashlib
import json
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from synthetic import HOSTILE

from entropy_lab.diagnostics.metric import Metric
from entropy_lab.reports.contents import Diagnosis
from entropy_lab.reports.page import page, write_page
from entropy_lab.reports.visible import visible

KINDS = ("single", "compared", "hostile", "empty")
VOID = {"meta", "link", "input", "br", "img"}


class Parsed(HTMLParser):
    """What a browser would see: tags, attributes, text outside script and style, and the bodies of those."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []
        self.bodies: dict[str, list[str]] = {"script": [], "style": []}
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag in self.bodies:
            self.bodies[tag].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in self.bodies:
            self.bodies[self.open[-1]][-1] += data
        else:
            self.text.append(data)


def refuse(name: str) -> Any:
    raise ValueError(name)


@pytest.fixture(scope="module", params=KINDS)
def parsed(request: pytest.FixtureRequest) -> Parsed:
    return Parsed(page(request.getfixturevalue(request.param)))


def data_of(parsed: Parsed) -> dict[str, Any]:
    return json.loads(parsed.bodies["script"][0], parse_constant=refuse)


def test_every_element_is_closed_and_every_id_is_unique(parsed: Parsed) -> None:
    assert parsed.open == []
    ids = Counter(value for _, name, value in parsed.attributes if name == "id")
    assert [name for name, count in ids.items() if count > 1] == []


def test_references_lead_to_ids_of_the_page(parsed: Parsed) -> None:
    ids = {value for _, name, value in parsed.attributes if name == "id"}
    for _, name, value in parsed.attributes:
        if name in {"href", "xlink:href"} and value.startswith("#"):
            assert value[1:] in ids
        if name == "aria-labelledby":
            assert value in ids
        assert set(re.findall(r"url\(#([^)]*)\)", value)) <= ids


def test_nothing_leaves_the_page(parsed: Parsed) -> None:
    """The page works without a network: no address in any attribute, style or script of ours."""
    for tag, name, value in parsed.attributes:
        assert name not in {"src", "srcset", "action", "formaction", "poster", "ping", "background"}
        assert not name.startswith("on")
        if name.endswith("href"):
            assert value.startswith("#") or (tag, value) == ("link", "data:,")
        if tag != "option":
            assert not re.search(r"(https?:)?//", value)
    own = parsed.bodies["style"] + parsed.bodies["script"][1:]
    assert not any(re.search(r"https?://|@import|url\((?!#)", body) for body in own)
    assert not parsed.tags & Counter(["img", "iframe", "object", "embed", "base", "audio", "video"])


def test_only_our_script_may_run(parsed: Parsed) -> None:
    """G5: one script, named by its hash in the policy, and one data block."""
    script = (files("entropy_lab.reports") / "page.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = next(value for tag, name, value in parsed.attributes if tag == "meta" and name == "content")
    assert parsed.tags["script"] == 2
    assert parsed.bodies["script"][1] == script
    assert policy.startswith("default-src 'none';")
    assert f"script-src 'sha256-{digest}';" in policy
    assert "unsafe-inline'; script" in policy
    assert script.count("innerHTML") + script.count("insertAdjacentHTML") + script.count("eval(") == 0


def test_numbers_that_do_not_exist_are_never_spelled(parsed: Parsed) -> None:
    """G2: strict JSON and no NaN or Infinity in text or figures."""
    data_of(parsed)
    everything = "\n".join([*parsed.text, *(value for _, _, value in parsed.attributes)])
    assert re.findall(r"\b(?:NaN|nan|inf|Infinity|undefined|None)\b", everything) == []


def test_hostile_text_is_verbatim_in_text_and_data(hostile: Diagnosis) -> None:
    """G5."""
    parsed = Parsed(page(hostile))
    shown, strings = set(parsed.text), set(data_of(parsed)["strings"])
    for text in HOSTILE:
        assert visible(text) in strings
        assert visible(text) in shown or text == ""
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", page(hostile))


def test_the_data_gives_the_trajectories_back(compared: Diagnosis) -> None:
    """G5, L3: each token keeps its own entropy, log-prob, alternatives and block."""
    data = data_of(Parsed(page(compared)))
    views = [view for checkpoint in compared.checkpoints for view in checkpoint.trajectories]
    assert len(data["trajectories"]) == len(views)
    for row, view in zip(data["trajectories"], views, strict=True):
        assert data["checkpoints"][row["c"]] == view.checkpoint
        assert [data["strings"][at] for at in row["t"]] == [token.text for token in view.tokens]
        assert [h / 1000 for h in row["h"]] == pytest.approx([token.entropy for token in view.tokens], abs=5e-4)
        assert [-l / 1000 for l in row["l"]] == pytest.approx([token.logprob for token in view.tokens], abs=5e-4)  # noqa: E741
        assert [(block[0], block[1]) for block in row["b"]] == [(block.start, block.stop) for block in view.blocks]
        assert row["g"] is view.correct
        for at, token in enumerate(view.tokens):
            others = row["o"][str(at)]
            assert [data["strings"][place] for place in others[::2]] == [other.text for other in token.alternatives]
            assert others[1::2] == pytest.approx([other.probability for other in token.alternatives], abs=5e-5)


def test_the_table_shows_every_metric_and_each_note(compared: Diagnosis) -> None:
    parsed = Parsed(page(compared))
    for metric in compared.checkpoints[0].metrics:
        assert metric.metric in parsed.text
        assert not metric.note or metric.note in parsed.text
    assert "[−0.051, 0.013], n = 100" in parsed.text
    assert "fewer than 2 graded samples" in parsed.text


def test_a_number_without_interval_stands_in_the_table_only(single: Diagnosis) -> None:
    bare = replace(single.checkpoints[0], metrics=(Metric("pass@1", 0.777, None, None, "share", 100),))
    text = page(replace(single, checkpoints=(bare,)))
    assert 'class="card"' not in text
    assert Parsed(text).text.count("0.777") == 1
    assert "no number with an interval was measured" in text


def test_settings_and_versions_are_listed_flat(single: Diagnosis) -> None:
    text = Parsed(page(single)).text
    assert text[text.index("sampling.temperature") + 1] == "1.0"
    assert text[text.index("sampling.top_k") + 1] == "—"
    assert "versions.torch" in text


def test_shading_saturates_near_the_largest_entropies_shown(single: Diagnosis) -> None:
    parsed = Parsed(page(single))
    data = data_of(parsed)
    values = sorted(h / 1000 for row in data["trajectories"] for h in row["h"])
    assert values[int(0.95 * len(values))] < data["scale"] <= values[-1] + 0.1


def test_the_same_diagnosis_gives_the_same_page(compared: Diagnosis, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_page(compared, tmp_path / name / "report.html")
    assert (tmp_path / "a/report.html").read_bytes() == (tmp_path / "b/report.html").read_bytes()


def luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [1, 2])
def test_both_themes_have_the_contrast_of_wcag_aa(scheme: int) -> None:
    css = (files("entropy_lab.reports") / "page.css").read_text("utf-8")
    colours = {match[0]: match[scheme] for match in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", css)}
    for ground in ("paper", "panel"):
        assert contrast(colours["ink"], colours[ground]) >= 7
        assert contrast(colours["muted"], colours[ground]) >= 4.5
    assert contrast(colours["ink"], colours["heat"]) >= 4.5
    for name in ("focus", "outline", *(f"series-{index}" for index in range(1, 5))):
        assert contrast(colours[name], colours["paper"]) >= 3, name
