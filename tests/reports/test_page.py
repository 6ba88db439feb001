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
from entropy_lab.reports.contents import CheckpointDiagnosis, Diagnosis
from entropy_lab.reports.page import page, write_page
from entropy_lab.reports.style import SERIES
from entropy_lab.reports.visible import visible
from entropy_lab.reports.wording import parts

KINDS = ("single", "compared", "hostile", "empty", "several", "many", "forced", "shifted")
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


def cells_of(text: str, table: str) -> list[list[str]]:
    """The rows of the table of that class: the text of its cells."""
    body = re.search(rf'<table class="{table}">(.*?)</table>', text, re.S)
    assert body is not None
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", body[1], re.S)
    return [
        [" ".join("".join(Parsed(cell).text).split()) for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.S)]
        for row in rows
    ]


def test_arms_stand_in_one_table_with_interval_and_n(many: Diagnosis) -> None:
    text = page(many)
    head, *rows = cells_of(text, "metrics arms")
    assert head[1] == "pass@1n = 100"
    assert head[-2] == "family coverage, on problems solved by alln = 40"
    assert 'class="card"' not in text
    assert len(rows) == 12
    for row, checkpoint in zip(rows, many.checkpoints, strict=True):
        assert row[0] == checkpoint.name
        metric = checkpoint.metrics[0]
        value, interval = parts(metric)
        assert row[1] == f"{value}{interval}"


def test_an_arm_with_another_n_says_so(several: Diagnosis) -> None:
    first, *rest = several.checkpoints
    fewer = replace(first, metrics=tuple(replace(metric, n=7) for metric in first.metrics))
    head, row, *_ = cells_of(page(replace(several, checkpoints=(fewer, *rest))), "metrics arms")
    assert head[1] == "pass@1"
    assert row[1].endswith("], n = 7")


def test_every_pair_has_a_row_of_its_own(several: Diagnosis) -> None:
    text = page(several)
    rows = cells_of(text, "metrics pairs")[1:]
    assert len(rows) == len(several.differences)
    expected = [metric for metric in several.differences if metric.metric == "pass@1"]
    assert [row[-3] for row in rows[:3]] == [f"{metric.checkpoint}{metric.note}" for metric in expected]
    for row, metric in zip(rows, expected, strict=False):
        value, interval = parts(metric)
        assert row[-2] == f"{value}{interval}, n = {metric.n}"
    clear = sum(not metric.low <= 0 <= metric.high for metric in several.differences)
    assert text.count('class="numeric clear"') == clear
    assert "Difference</th>" in text
    assert "paired by problem" in text


def test_two_checkpoints_keep_their_difference_beside_them(compared: Diagnosis) -> None:
    text = page(compared)
    assert 'id="differences"' not in text
    assert 'class="metrics arms"' not in text


def test_tables_scroll_in_containers_of_their_own(many: Diagnosis) -> None:
    """A page of twelve arms does not scroll sideways as a whole."""
    text = page(many)
    for match in re.finditer("<table", text):
        assert re.search(r'<div class="scroll"[^>]*tabindex="0">\s*$', text[: match.start()])


def test_keys_repeat_after_the_colours_there_are(many: Diagnosis) -> None:
    text, css = page(many), (files("entropy_lab.reports") / "page.css").read_text("utf-8")
    used = [int(number) for number in re.findall(r'class="key key-(\d+)"', text)]
    assert used[:12] == [1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4]
    for index in range(2, len(SERIES) + 1):
        assert f".key-{index} {{" in css
        assert f"--series-{index}:" in css
    assert f"COLOURS = {len(SERIES)};" in (files("entropy_lab.reports") / "page.js").read_text("utf-8")


def test_a_page_without_trajectories_and_curves_opens(forced: Diagnosis) -> None:
    parsed = Parsed(page(forced))
    assert data_of(parsed)["trajectories"] == []
    assert parsed.tags["svg"] == 0
    assert "Trajectories" not in parsed.text
    assert "low-access families, forced" in parsed.text


def test_hostile_pairs_and_arms_are_text(hostile: Diagnosis) -> None:
    """G5."""
    arms = tuple(
        CheckpointDiagnosis.of_metrics(text, [Metric("pass@1", 0.5, 0.4, 0.6, "share", 3, text)]) for text in HOSTILE
    )
    pairs = tuple(Metric(text, 0.5, 0.4, 0.6, text, 3, text, text) for text in HOSTILE)
    parsed = Parsed(page(Diagnosis("T", "countdown", arms, pairs)))
    assert parsed.tags["script"] == 2
    for text in HOSTILE[:7]:
        assert parsed.text.count(visible(text)) >= 3


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
    for name in ("focus", "outline", *(f"series-{index}" for index in range(1, 9))):
        assert contrast(colours[name], colours["paper"]) >= 3, name
