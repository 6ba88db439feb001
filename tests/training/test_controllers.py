"""The adaptive entropy bonus, iteration by iteration."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from entropy_lab.training.controllers.adaptive_entropy import AdaptiveEntropy
from entropy_lab.training.recipe_files import load_recipe, with_field

COEFFICIENT = "penalties.entropy-bonus.coefficient"
entropies = st.lists(st.one_of(st.none(), st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.7, 2.0])), max_size=25)


def run(controller: AdaptiveEntropy, measured: list[float | None]) -> list[float]:
    """The coefficient before the first iteration and after each."""
    memory = controller.start()
    found = [memory[COEFFICIENT]]
    for entropy in measured:
        memory = controller(memory, {} if entropy is None else {"entropy.token_mean": entropy, "reward.mean": 0.5})
        found.append(memory[COEFFICIENT])
    return found


def test_it_grows_below_the_target_pauses_above_and_resumes_where_it_was() -> None:
    measured = [0.2, 0.1, 0.2, 0.4, 0.3, 0.2, 0.1]
    expected = [0, 0.005, 0.01, 0.015, 0, 0, 0.015, 0.02]
    assert run(AdaptiveEntropy(target=0.3), measured) == pytest.approx(expected)


def test_the_first_iteration_sets_the_target() -> None:
    assert run(AdaptiveEntropy(), [0.3, 0.29, 0.31, 0.2]) == pytest.approx([0, 0, 0.005, 0, 0.005])


def test_iterations_without_an_entropy_change_nothing() -> None:
    """T3: where nothing was trained on, nothing is known."""
    assert run(AdaptiveEntropy(), [None, 0.3, 0.2, None, 0.2]) == pytest.approx([0, 0, 0, 0.005, 0.005, 0.01])


@given(measured=entropies, target=st.one_of(st.none(), st.sampled_from([0.0, 0.3, 1.0])), step=st.floats(1e-4, 0.1))
def test_by_definition(measured: list[float | None], target: float | None, step: float) -> None:
    """Never negative, nonzero only below the target, and never two steps at once."""
    controller = AdaptiveEntropy(step=step, target=target)
    expected, level, coefficient = [0.0], 0, 0.0  # level in steps
    for entropy in measured:
        if entropy is not None:
            target = entropy if target is None else target
            level = level + 1 if entropy < target else max(0, level - 1) if entropy > target else level
            coefficient = step * level if entropy < target else 0.0
        expected.append(coefficient)
    assert run(controller, measured) == pytest.approx(expected, abs=1e-9)


@given(measured=entropies)
def test_a_run_continues_from_its_saved_memory(measured: list[float | None]) -> None:
    """T1: memories go through JSON unchanged, and say all there is to say."""
    controller = AdaptiveEntropy()
    memory = controller.start()
    for entropy in measured:
        metrics = {} if entropy is None else {"entropy.token_mean": entropy}
        read_back = json.loads(json.dumps(memory, allow_nan=False))
        before = dict(memory)
        assert AdaptiveEntropy()(read_back, metrics) == controller(memory, metrics)
        assert memory == before
        memory = controller(memory, metrics)


def test_the_field_it_sets_exists() -> None:
    recipe = load_recipe("grpo", ['penalties=[{piece="entropy-bonus"}]', 'controllers=[{piece="adaptive-entropy"}]'])
    (controller,) = recipe.controllers
    (key,) = (key for key in controller.start() if "." in key)
    assert with_field(recipe, key, controller.start()[key]).penalties[0].model_dump() == {"coefficient": 0}


@pytest.mark.parametrize("fields", [{"step": 0}, {"target": -0.1}, {"goal": 0.3}])
def test_fields_that_make_no_sense(fields: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        AdaptiveEntropy.model_validate(fields)
