import sys
import types

import pyarrow
import pyarrow.parquet
import pytest

from entropy_lab.errors import InputError
from entropy_lab.tasks.problem_files import first_row, is_hub_name, read_rows


def test_json_lines_keep_order_and_number_lines_with_blank_ones(tmp_path):
    path = tmp_path / "set.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": "x\\u2028y"}\r\n\n{"a": "\xe2\x80\xa8"}')
    assert list(read_rows(path)) == [(f"{path}:1", {"a": "x\u2028y"}), (f"{path}:3", {"a": "\u2028"})]


def test_parquet_gives_the_same_rows_as_json(tmp_path):
    rows = [
        {"prompt": [{"role": "user", "content": str(i)}], "reward_model": {"ground_truth": "3"}} for i in range(600)
    ]
    path = tmp_path / "set.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    read = list(read_rows(str(path)))
    assert [row for _, row in read] == rows
    assert read[-1][0] == f"{path}, row 600"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"a": 1', ":2: not valid JSON"),
        (b"[1]", ":2: holds a JSON list"),
        (b'{"a": "\xff"}', ":2: byte 7 is not UTF-8"),
        (b"[" * 200_000, ":2: not valid JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", ":2: not valid JSON"),
    ],
)
def test_broken_lines_are_named(tmp_path, line, words):
    path = tmp_path / "set.jsonl"
    path.write_bytes(b'{"a": 1}\n' + line + b"\n")
    with pytest.raises(InputError, match="set") as caught:
        list(read_rows(path))
    assert f"{path}{words}" in str(caught.value)


def test_other_sources_are_refused(tmp_path):
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        list(read_rows(tmp_path / "broken.parquet"))
    with pytest.raises(InputError, match="no such file"):
        read_rows(tmp_path / "absent.jsonl")
    (tmp_path / "set.csv").write_text("a,b")
    with pytest.raises(InputError, match="or from a hub set"):
        read_rows(tmp_path / "set.csv")
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(InputError, match="holds no rows"):
        first_row(tmp_path / "empty.jsonl")


def fake_datasets(monkeypatch, splits):
    asked = []

    def load_dataset(repository, config):
        asked.append((repository, config))
        if repository == "nobody/nothing":
            raise ConnectionError("offline")
        return splits

    module = types.ModuleType("datasets")
    module.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", module)
    return asked


def test_hub_sets_take_config_and_split(monkeypatch):
    asked = fake_datasets(monkeypatch, {"train": [{"a": 1}], "test": [{"a": 2}]})
    assert list(read_rows("openai/gsm8k:main")) == [("openai/gsm8k:main, row 1", {"a": 2})]
    assert next(iter(read_rows("openai/gsm8k@train")))[1] == {"a": 1}
    assert asked == [("openai/gsm8k", "main"), ("openai/gsm8k", None)]
    with pytest.raises(InputError, match="no split 'dev'; it has train, test"):
        list(read_rows("openai/gsm8k@dev"))
    with pytest.raises(InputError, match="ConnectionError: offline"):
        list(read_rows("nobody/nothing"))


def test_hub_set_without_the_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match="needs the package `datasets`"):
        list(read_rows("openai/gsm8k"))


@pytest.mark.parametrize(("name", "is_hub"), [("a/b", True), ("a/b:c@d", True), ("./b", False), ("a/b/c", False)])
def test_hub_names_have_one_slash(name, is_hub):
    assert is_hub_name(name) is is_hub
