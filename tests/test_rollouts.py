import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entropy_lab.errors import InputError
from entropy_lab.ragged import Ragged
from entropy_lab.rollouts import SCHEMA, Rollouts


def row(**fields):
    return {
        "checkpoint": "c",
        "problem_id": "p",
        "sample_index": 0,
        "token_ids": [1, 2, 3],
        "entropy": [0.5, 0.25, 0.0],
        "text": "abc",
        "finish_reason": "stop",
        **fields,
    }


def test_parquet_round_trip_keeps_every_column(tmp_path):
    rollouts = Rollouts.from_rows([row(), row(sample_index=1, token_ids=[], entropy=[], correct=True)])
    rollouts.write(tmp_path / "r.parquet")
    again = Rollouts.read(tmp_path / "r.parquet")
    assert again.table.equals(rollouts.table)
    assert again.table.schema == SCHEMA
    assert list(tmp_path.iterdir()) == [tmp_path / "r.parquet"]


def test_jsonl_needs_little(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(json.dumps({"problem_id": 7, "text": "x", "correct": flag}) for flag in (1, 0)))
    rollouts = Rollouts.read(path)
    assert rollouts.strings("problem_id") == ["7", "7"]
    assert rollouts.strings("checkpoint") == ["mine", "mine"]
    assert rollouts.table["sample_index"].to_pylist() == [0, 1]
    assert rollouts.correct().tolist() == [1.0, 0.0]
    assert rollouts.ragged("entropy") is None


def test_ragged_survives_slices_and_chunks():
    rollouts = Rollouts.concat([Rollouts.from_rows([row(), row(entropy=[1.0, 2.0, 3.0])]), Rollouts.from_rows([row()])])
    later = Rollouts(rollouts.table.slice(1, 2)).ragged("entropy")
    assert [part.tolist() for part in later] == [[1.0, 2.0, 3.0], [0.5, 0.25, 0.0]]
    assert Rollouts.from_rows([]).ragged("entropy").offsets.tolist() == [0]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"problem_id": "p", "text": "x"}\n{"problem_id"', ":2 is not valid JSON"),
        ('{"text": "x"}', "rollouts need `problem_id`"),
        ('{"problem_id": "p"}', "`text` or `token_ids`"),
        ("[1]", ":1 holds list"),
        ('{"problem_id": "p", "token_ids": [1], "entropy": [NaN]}', "NaN or infinity"),
        ('{"problem_id": "p", "token_ids": [1], "entropy": [0.1, 0.2]}', "different lengths"),
        ('{"problem_id": "p", "token_ids": ["a"]}', "column `token_ids`"),
        ('{"problem_id": "p", "text": "x", "finish_reason": "bored"}', "'bored'"),
        ('{"problem_id": "p", "token_ids": [1], "logprob": [0.5]}', "above 0"),
        ('{"problem_id": "p", "token_ids": [1], "logprobs": [NaN]}', "NaN or infinity"),
        ('{"problem_id": "p", "text": "x", "sample_index": 1}\n' * 2, "stands there twice"),
        ('{"problem_id": "p", "text": "\\ud800"}', "lone surrogate"),
        ('{"problem_id": null, "text": "x"}', "has empty entries"),
    ],
)
def test_broken_jsonl_is_located(tmp_path, content, told):
    path = tmp_path / "broken.jsonl"
    path.write_text(content)
    with pytest.raises(InputError, match=told.replace("(", r"\(")) as error:
        Rollouts.read(path)
    assert "broken.jsonl" in str(error.value)


def test_a_truncated_parquet_is_refused(tmp_path):
    path = tmp_path / "part-00000.parquet"
    Rollouts.from_rows([row()]).write(path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InputError, match="part-00000"):
        Rollouts.read(path)


def test_foreign_files_are_refused(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text("x")
    (tmp_path / "c.jsonl").write_bytes(b"\xff\xfe")
    for name in ("a.parquet", "b.csv", "c.jsonl", "absent.parquet", "."):
        with pytest.raises(InputError):
            Rollouts.read(tmp_path / name)


@given(st.lists(st.lists(st.floats(0, 5, width=32), max_size=6), max_size=8))
def test_ragged_rows_positions_and_ids(rows):
    ragged = Ragged.of(rows, np.float32)
    assert [part.tolist() for part in ragged] == [list(map(float, np.array(each, np.float32))) for each in rows]
    assert ragged.positions().tolist() == [place for each in rows for place in range(len(each))]
    assert ragged.row_ids().tolist() == [index for index, each in enumerate(rows) for _ in each]
