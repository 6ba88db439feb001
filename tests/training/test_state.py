"""State folders: whole or not at all, pruned, and exact."""

import pytest
import torch

from entropy_lab import load_checkpoint
from entropy_lab.errors import InputError
from entropy_lab.training import state
from tests.training.test_policy import tiny


@pytest.fixture(scope="module")
def tokenizer():
    return load_checkpoint("builtin:sft-early").tokenizer


def trained(seed):
    """A model with its optimizer after a step."""
    model = tiny(torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    torch.manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    return model, optimizer, dict(model.named_parameters())


def test_what_is_kept_comes_back_to_the_bit(tmp_path, tokenizer):
    model, optimizer, parameters = trained(1)
    progressed = state.Progressed(3, 72, 999, {"adaptive-entropy": {"target": 0.1 + 0.2}})
    extra = {"0/weight": torch.arange(3.0)}
    target = state.step_folder(tmp_path, 3)
    state.save_state(target, model, tokenizer, parameters, optimizer, progressed, extra)
    other, other_optimizer, others = trained(2)
    found, found_extra = state.load_state(target, others, other_optimizer)
    assert found == progressed
    assert torch.equal(found_extra["0/weight"], extra["0/weight"])
    for name, parameter in parameters.items():
        assert torch.equal(parameter, others[name])
        first, second = optimizer.state[parameter], other_optimizer.state[others[name]]
        assert first.keys() == second.keys()
        assert all(torch.equal(first[key], second[key]) for key in first)
    assert torch.equal(other.lm_head.weight, model.lm_head.weight)


def test_a_save_that_fails_leaves_the_last_one(tmp_path, tokenizer, monkeypatch):
    model, optimizer, parameters = trained(1)
    state.save_state(state.step_folder(tmp_path, 1), model, tokenizer, parameters, optimizer, state.Progressed(1), {})

    def full(*_):
        raise OSError("disk full")

    monkeypatch.setattr(state, "save_file", full)
    with pytest.raises(OSError, match="disk full"):
        state.save_state(
            state.step_folder(tmp_path, 2), model, tokenizer, parameters, optimizer, state.Progressed(2), {}
        )
    assert state.latest(tmp_path) == state.step_folder(tmp_path, 1)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-00001"]


def test_only_the_newest_stay_and_rungs_always_do(tmp_path):
    for step in (5, 10, 100, 20):
        folder = state.step_folder(tmp_path, step)
        folder.mkdir(parents=True)
        (folder / state.STATE_FILE).touch()
    (tmp_path / "checkpoints" / "grpo-50").mkdir()
    state.prune(tmp_path, 2)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["grpo-50", "step-00020", "step-00100"]
    latest = state.latest(tmp_path)
    assert latest is not None
    assert state.step_of(latest) == 100


def test_a_state_of_another_model_is_refused(tmp_path, tokenizer):
    model, optimizer, parameters = trained(1)
    target = state.step_folder(tmp_path, 1)
    state.save_state(target, model, tokenizer, parameters, optimizer, state.Progressed(1), {})
    with pytest.raises(InputError, match="not a state of this run"):
        state.load_state(target, {"other": torch.zeros(2)}, optimizer)


def test_folders_of_one_s_own_names_are_left_alone(tmp_path):
    """And steps are ordered as numbers, however many digits they have."""
    names = ["step-00001", "step-99999", "step-100000", "step-00001-best", "step-old", "step-backup"]
    for name in names:
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
        (tmp_path / "checkpoints" / name / state.STATE_FILE).touch()
    assert state.latest(tmp_path).name == "step-100000"
    state.prune(tmp_path, 2)
    assert {path.name for path in (tmp_path / "checkpoints").iterdir()} == set(names) - {"step-00001"}
