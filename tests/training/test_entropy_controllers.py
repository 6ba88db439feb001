"""Controllers that hold the entropy near a target, and SAF's schedule: iteration by iteration."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entropy_lab.training.controllers.adapo import Adapo
from entropy_lab.training.controllers.adaptive_stare import AdaptiveStare
from entropy_lab.training.controllers.saf_schedule import SafSchedule
from entropy_lab.training.controllers.zeta import Zeta
from entropy_lab.training.recipe_files import load_recipe, with_field

LOW, HIGH, EQUAL = 0.1, 0.5, 0.3


def followed(controller, measured, key, metric="entropy.token_mean"):
    memory = controller.start()
    found = [memory[key]]
    for value in measured:
        memory = controller(memory, {} if value is None else {metric: value})
        found.append(memory[key])
    return found


def zetas(measured, **fields):
    controller = Zeta(target=EQUAL, **fields)
    return followed(controller, measured, f"advantage.{controller.step}.zeta")


def test_zeta_of_repo_r_is_doubled_up_to_its_largest():
    assert zetas([LOW] * 7) == pytest.approx([1e-3, 2e-3, 4e-3, 8e-3, 0.016, 0.032, 0.05, 0.05])


def test_zeta_of_repo_r_is_halved_and_changes_sign_below_its_least():
    found = zetas([HIGH] * 5 + [EQUAL, None] + [HIGH] * 9)
    assert found[:6] == pytest.approx([1e-3, 5e-4, 2.5e-4, 1.25e-4, -1e-4, -2e-4])
    assert found[6:8] == pytest.approx([-2e-4, -2e-4])
    assert found[-1] == pytest.approx(-0.05)


def test_the_way_up_is_the_mirror_image():
    memory = {"advantage.repo-r.zeta": -4e-4, "target": EQUAL}
    found = []
    for _ in range(4):
        memory = Zeta(target=EQUAL)(memory, {"entropy.token_mean": LOW})
        found.append(memory["advantage.repo-r.zeta"])
    assert found == pytest.approx([-2e-4, -1e-4, 1e-4, 2e-4])


@pytest.mark.parametrize(("entropy", "expected"), [(LOW, 1e-4), (HIGH, -1e-4), (EQUAL, 0.0)])
def test_from_zero(entropy, expected):
    memory = {"advantage.repo-r.zeta": 0.0, "target": EQUAL}
    assert Zeta()(memory, {"entropy.token_mean": entropy})["advantage.repo-r.zeta"] == pytest.approx(expected)


@given(st.floats(-0.05, 0.05))
def test_pushes_are_mirror_images(zeta):
    def pushed(start, entropy):
        memory = {"advantage.repo-r.zeta": start, "target": EQUAL}
        return Zeta()(memory, {"entropy.token_mean": entropy})["advantage.repo-r.zeta"]

    assert pushed(zeta, LOW) == -pushed(-zeta, HIGH)
    assert 1e-4 <= abs(pushed(zeta, LOW)) <= 0.05


def test_zeta_of_repo_d_stays_positive():
    assert zetas([HIGH] * 5, step="repo-d") == pytest.approx([0.01, 0.005, 0.0025, 0.00125, 0.001, 0.001])
    assert zetas([LOW] * 12, step="repo-d")[-1] == 10


def test_the_first_iteration_is_the_target():
    key = "advantage.repo-r.zeta"
    assert followed(Zeta(), [0.4, 0.39, 0.41], key) == pytest.approx([1e-3, 1e-3, 2e-3, 1e-3])


def test_stare_moves_both_weights_within_their_bounds():
    lift, damp = "advantage.stare.lift", "advantage.stare.damp"
    assert followed(AdaptiveStare(), [LOW, LOW, None, EQUAL, HIGH], lift) == pytest.approx(
        [1.1, 1.11, 1.12, 1.12, 1.12, 1.11]
    )
    assert followed(AdaptiveStare(), [LOW, LOW, None, EQUAL, HIGH], damp) == pytest.approx(
        [0.9, 0.89, 0.88, 0.88, 0.88, 0.89]
    )
    assert followed(AdaptiveStare(), [LOW] * 60, lift)[-1] == 1.5
    assert followed(AdaptiveStare(), [LOW] * 60, damp)[-1] == 0.5
    assert followed(AdaptiveStare(), [HIGH] * 60, lift)[-1] == followed(AdaptiveStare(), [HIGH] * 60, damp)[-1] == 1


def test_adapo_opens_and_closes_the_upper_bound():
    found = followed(Adapo(), [EQUAL, LOW, LOW, HIGH, None, EQUAL], "objective.high")
    assert found == pytest.approx([0.28, 0.28, 0.308, 0.3388, 0.308, 0.308, 0.308])
    assert followed(Adapo(target=EQUAL), [LOW] * 40, "objective.high")[-1] == 1
    assert followed(Adapo(target=EQUAL), [HIGH] * 40, "objective.high")[-1] == 0.05


def factors(measured, **fields):
    return followed(SafSchedule(**fields), measured, "advantage.saf.factor", "kl.teacher")


def test_saf_warms_up_then_anneals():
    found = factors([1.0] * 8, warmup=4, anneal=4)
    assert found == pytest.approx([0, 0.25, 0.5, 0.75, 1, 0.75, 0.5, 0.25, 0])
    assert factors([1.0] * 8, warmup=4, anneal=4, floor=0.2)[-1] == pytest.approx(0.2)


def test_saf_s_warm_up_ends_early_and_freezes():
    found = factors([1.0, 0.9, 0.79, 0.8, 0.8], warmup=10, anneal=0)
    assert found == pytest.approx([0, 0.1, 0.2, 0.2, 0.2, 0.2])
    annealed = factors([1.0, 0.9, 0.79, 0.8, 0.8], warmup=10, anneal=2)
    assert annealed == pytest.approx([0, 0.1, 0.2, 0.2, 0.1, 0])


def test_saf_s_stages_are_switched_apart():
    assert factors([1.0] * 4, warmup=0, anneal=4) == pytest.approx([1, 0.75, 0.5, 0.25, 0])
    assert factors([1.0] * 4, warmup=2, anneal=0) == pytest.approx([0, 0.5, 1, 1, 1])
    assert factors([1.0] * 3, warmup=0, anneal=0) == [1, 1, 1, 1]


def test_saf_does_not_end_early_where_teacher_and_policy_begin_alike():
    assert factors([0.0, 0.0, 0.1, None], warmup=10, anneal=0) == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])


@pytest.mark.parametrize("name", ["repo-r", "repo-d", "stare", "adapo", "saf"])
def test_shipped_recipes_hold_the_fields_that_are_set(name):
    recipe = load_recipe(name)
    (controller,) = recipe.controllers
    memory = controller.start()
    for key, value in memory.items():
        if "." in key:
            recipe = with_field(recipe, key, value)
    assert json.loads(json.dumps(memory, allow_nan=False)) == memory


@given(st.lists(st.sampled_from([LOW, EQUAL, HIGH, 0.0, 3.0]), max_size=30))
def test_every_value_that_is_set_is_accepted(measured):
    for name in ("repo-r", "repo-d", "stare", "adapo"):
        recipe = load_recipe(name)
        (controller,) = recipe.controllers
        memory = controller.start()
        for entropy in measured:
            memory = controller(memory, {"entropy.token_mean": entropy})
        for key, value in memory.items():
            if "." in key:
                with_field(recipe, key, value)
