"""metrics.jsonl: strict, complete after every line, cut back to a saved step after any kill."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from entropy_lab.errors import InputError
from entropy_lab.training.metrics_log import append, forget_after, read

VALUES = st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53)


def strict(path):
    """Every line through a parser that refuses NaN and Infinity."""

    def refuse(constant):
        raise AssertionError(constant)

    return [json.loads(line, parse_constant=refuse) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


@settings(max_examples=40)
@given(st.lists(st.dictionaries(st.text(max_size=8).filter(lambda name: name != "step"), VALUES, max_size=4)))
def test_what_is_appended_is_read_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("log") / "metrics.jsonl"
    for step, row in enumerate(rows):
        assert append(path, {"step": step, **row}) == {"step": step, **row}
        assert read(path)[-1] == {"step": step, **row}
        assert [type(value) for value in read(path)[-1].values()] == [int, *(type(value) for value in row.values())]
    if rows:
        assert [row["step"] for row in strict(path)] == list(range(len(rows)))


def test_what_is_not_finite_becomes_null_and_is_named(tmp_path):
    path = tmp_path / "metrics.jsonl"
    odd = {"step": 1, "loss": float("nan"), "ratio.max": float("inf"), "a": -np.inf, "b": torch.tensor(float("nan"))}
    assert append(path, odd) == {"step": 1, "loss": None, "ratio.max": None, "a": None, "b": None}
    (row,) = strict(path)
    assert row["notes"] == {"loss": "nan", "ratio.max": "inf", "a": "-inf", "b": "nan"}
    assert {name: value for name, value in row.items() if name != "notes"} == {
        **dict.fromkeys(odd),
        "step": 1,
    }


def test_numbers_of_numpy_and_torch_are_numbers(tmp_path):
    path = tmp_path / "metrics.jsonl"
    append(path, {"step": 1, "a": np.float32(0.5), "b": torch.tensor(2.0), "c": np.int64(7)})
    assert strict(path) == [{"step": 1, "a": 0.5, "b": 2.0, "c": 7.0}]


@settings(max_examples=40)
@given(st.integers(0, 6), st.integers(0, 200), st.booleans())
def test_a_log_cut_at_any_byte_is_cut_back_to_any_saved_step(tmp_path_factory, saved, cut, began_with_evaluation):
    """Kill while line after line is written, at any byte: lines up to the saved step stay as they are."""
    path = tmp_path_factory.mktemp("log") / "metrics.jsonl"
    for step in range(0 if began_with_evaluation else 1, 7):
        append(path, {"step": step, "Ähnlichkeit": step / 7})
    content = path.read_bytes()
    complete = b"".join(
        line for line in content.splitlines(keepends=True) if saved and json.loads(line)["step"] <= saved
    )
    torn = content[: max(len(complete), len(content) - cut)]
    path.write_bytes(torn)
    forget_after(path, saved)
    assert path.read_bytes() == complete
    append(path, {"step": saved + 1, "x": 1.0})
    assert path.read_bytes().startswith(complete)
    assert read(path)[-1] == {"step": saved + 1, "x": 1.0}


def test_nothing_is_rewritten_where_nothing_is_to_be_dropped(tmp_path):
    path = tmp_path / "metrics.jsonl"
    append(path, {"step": 3})
    before = path.stat().st_ino
    forget_after(path, 3)
    assert path.stat().st_ino == before
    forget_after(path, 2)
    assert path.read_bytes() == b""
    assert [entry.name for entry in tmp_path.iterdir()] == ["metrics.jsonl"]


@pytest.mark.parametrize(
    "line", ['{"step": 1, "lo', "[1]", '{"loss": 2.0}', '{"step": "1"}', '{"step": 1.5}', "\udcff"]
)
def test_damage_before_the_last_line_is_named(tmp_path, line):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1}\n' + line.encode("utf-8", "surrogateescape") + b'\n{"step": 2}\n')
    for reading in (read, lambda path: forget_after(path, 1)):
        with pytest.raises(InputError, match=r"metrics\.jsonl, line 2"):
            reading(path)
    assert path.read_bytes().count(b"\n") == 3


def test_a_missing_log_is_refused(tmp_path):
    with pytest.raises(InputError, match="absent"):
        read(tmp_path / "absent.jsonl")


def test_a_log_that_is_gone_is_said_where_something_was_saved(tmp_path):
    forget_after(tmp_path / "metrics.jsonl", 0)
    with pytest.raises(InputError, match="is gone, and the run has come to step 3"):
        forget_after(tmp_path / "metrics.jsonl", 3)
