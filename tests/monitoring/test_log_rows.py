"""Every kind of log gives the same rows; broken ones are located."""

import json
import struct

import pytest
from tensorboardX import SummaryWriter

from entropy_lab.errors import InputError
from entropy_lab.monitoring.curves import curve, known_names, read_keys
from entropy_lab.monitoring.rows import read_log

ENTROPIES = {1: 0.5, 2: 0.4, 3: 0.25}


def json_lines(folder, rows, name="metrics.jsonl", end="\n"):
    path = folder / name
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows) + end)
    return path


def rows_of(key="entropy.token_mean"):
    return [{"step": step, key: value, "reward.mean": step / 10} for step, value in ENTROPIES.items()]


def found(log, quantity="entropy", key=None):
    one = curve(log, quantity, key)
    return dict(zip(one.steps.tolist(), one.values.tolist(), strict=True))


def test_our_own_log_and_its_folder(tmp_path):
    path = json_lines(tmp_path, [{"step": 0, "evaluation.pass@1": 0.3}, *rows_of()])
    for source in (path, tmp_path):
        assert found(read_log(source)) == ENTROPIES
        assert found(read_log(source), "reward") == {1: 0.1, 2: 0.2, 3: pytest.approx(0.3)}


def test_trainer_state(tmp_path):
    history = [{"step": step, "entropy": value, "reward": 0.5, "epoch": 0.1} for step, value in ENTROPIES.items()]
    state = {"log_history": [*history, {"step": 3, "eval_loss": 1.0}], "global_step": 3}
    folder = tmp_path / "out" / "checkpoint-3"
    folder.mkdir(parents=True)
    (folder / "trainer_state.json").write_text(json.dumps(state))
    for source in (folder / "trainer_state.json", folder, tmp_path / "out"):
        log = read_log(source)
        assert found(log) == ENTROPIES
        assert log.kind == "trainer_state.json"


def test_trl_s_own_state_is_read(tmp_path):
    """As transformers writes it."""
    from transformers import TrainerState

    state = TrainerState(log_history=[{"step": step, "entropy": value} for step, value in ENTROPIES.items()])
    state.save_to_json(str(tmp_path / "trainer_state.json"))
    assert found(read_log(tmp_path)) == ENTROPIES


def events(folder):
    with SummaryWriter(str(folder)) as writer:
        for step, value in ENTROPIES.items():
            writer.add_scalar("train/entropy", value, step)
            writer.add_text("note", "text is no number", step)
    return next(folder.glob("*tfevents*"))


def test_tensorboard(tmp_path):
    path = events(tmp_path / "tb")
    for source in (path, tmp_path):
        assert found(read_log(source)) == pytest.approx(ENTROPIES)


def test_a_torn_last_record_is_left_out_and_a_damaged_one_is_said(tmp_path):
    path = events(tmp_path / "tb")
    content = path.read_bytes()
    path.write_bytes(content[:-3])
    assert set(found(read_log(path))) <= set(ENTROPIES)
    (length,) = struct.unpack_from("<Q", content)
    broken = bytearray(content)
    broken[12 + length // 2] ^= 1
    path.write_bytes(bytes(broken))
    with pytest.raises(InputError, match="record at byte 0 is damaged"):
        read_log(path)


def test_a_restart_counts_once(tmp_path):
    rows = [*rows_of(), {"step": 2, "entropy.token_mean": 0.9}]
    assert found(read_log(json_lines(tmp_path, rows))) == {**ENTROPIES, 2: 0.9}


def test_a_running_writer_s_last_line_is_read_when_whole(tmp_path):
    path = json_lines(tmp_path, [*rows_of(), '{"step": 4, "entropy.tok'], end="")
    log = read_log(path)
    assert found(log) == ENTROPIES
    assert log.notes == ()
    path = json_lines(tmp_path, [*rows_of(), '{"step": 4, "entropy.token_mean": 0.1}'], end="")
    assert found(read_log(path)) == {**ENTROPIES, 4: 0.1}


def test_broken_lines_are_located_up_to_a_limit(tmp_path):
    many = [{"step": step, "entropy": 0.5} for step in range(30)]
    log = read_log(json_lines(tmp_path, [*many[:7], "Traceback (most recent call last):", *many[7:]]))
    assert log.notes == ("1 broken lines left out, the first is line 8",)
    assert len(log.rows) == 30
    with pytest.raises(InputError, match="3 of 3 lines are no JSON objects, the first is line 1"):
        read_log(json_lines(tmp_path, ["a", "[1]", "3"]))


def test_numbers_that_are_none_are_left_out(tmp_path):
    rows = ['{"step": 1, "entropy": NaN}', '{"step": 2, "entropy": null}', '{"step": 3, "entropy": 0.5, "done": true}']
    log = read_log(json_lines(tmp_path, rows))
    assert found(log) == {3: 0.5}
    assert known_names(log.rows) == ["entropy"]


def test_nested_tables_and_keys_of_one_s_own(tmp_path):
    rows = [{"global": {"n": step}, "actor": {"h": value}} for step, value in ENTROPIES.items()]
    log = read_log(json_lines(tmp_path, rows), "global.n")
    assert found(log, key="actor.h") == ENTROPIES
    with pytest.raises(InputError, match=r"did you mean actor\.h\?"):
        curve(log, "entropy", "actor.hh")
    assert curve(log, "entropy") is None


def test_without_a_step_lines_count(tmp_path):
    assert found(read_log(json_lines(tmp_path, [{"entropy": 0.5}, {"entropy": 0.4}]))) == {1: 0.5, 2: 0.4}


@pytest.mark.parametrize("keys", [["entropy"], ["entropy="], ["loss=a"], ["=x"]])
def test_keys_of_another_form(keys):
    with pytest.raises(InputError, match="--key"):
        read_keys(keys)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"log_history": 3}', '{"log_history": [3]}'])
def test_other_json_is_no_trainer_state(tmp_path, content):
    (tmp_path / "trainer_state.json").write_text(content)
    with pytest.raises(InputError, match="log_history"):
        read_log(tmp_path)


def test_nothing_to_read(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_log(tmp_path / "nowhere.jsonl")
    with pytest.raises(InputError, match="holds no metrics"):
        read_log(tmp_path)
