"""`countdown solve|grade|generate` in this process: what is printed, what is refused, what lies on disk afterwards."""

import json
from pathlib import Path

import pytest
from entropy_lab_cli import main

from entropy_lab.tasks.countdown.enumeration import steps_menu, written_menu
from entropy_lab.tasks.countdown.expressions import canonical, form_text, leaves, parse, value_of
from entropy_lab.tasks.countdown.rules import Rules
from entropy_lab.tasks.countdown.task import Countdown
from tests.oracles.countdown import all_solutions

DATA = Path(__file__).parents[1] / "data" / "countdown"
SMALL = ["--smallest", "1", "--largest", "15", "--target-min", "1", "--target-max", "60"]


@pytest.fixture
def entropy_lab(monkeypatch, capsys):
    """Run `entropy-lab countdown …`; gives exit code, stdout, stderr."""

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["entropy-lab", "countdown", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        printed = capsys.readouterr()
        return end.value.code or 0, printed.out, printed.err

    return run


def rows(name):
    return [json.loads(line) for line in (DATA / name).read_text().splitlines()]


def test_solve_prints_exactly_the_promised_document(entropy_lab):
    code, out, _ = entropy_lab("solve", 3, 5, 7, "--target", 22, "--json")
    found = json.loads(out)
    assert code == 0
    assert found == {
        "nums": [3, 5, 7],
        "target": 22,
        "canonical": ["7+(3*5)"],
        "counts": {"canonical": 1, "function": 1, "ordered": 4},
        "families": {"written": ["3*", "5*", "7+"], "steps": ["3*", "5*"]},
    }


@pytest.mark.parametrize(
    ("nums", "target", "options", "rules"),
    [
        ([1, 2, 3, 4], 10, [], Rules()),
        ([2, 10, 3], 5, ["--integers"], Rules(integers_only=True)),
        ([4, 6, 2, 2], 12, ["--max-value", "20"], Rules(max_value=20)),
        ([1, 1, 5], 5, ["--use", "any", "--positive-integers"], Rules("any", integers_only=True, minimum=1)),
    ],
)
def test_solve_agrees_with_brute_force_under_every_rule(entropy_lab, nums, target, options, rules):
    _, out, _ = entropy_lab("solve", *nums, "--target", target, *options, "--json")
    found = json.loads(out)
    whole = [nums] if rules.use == "all" else [[n for i, n in enumerate(nums) if m >> i & 1] for m in range(1, 8)]
    trees = {tree for chosen in whole for tree in all_solutions(chosen, target, rules)}
    assert found["counts"]["ordered"] == len(trees)
    assert set(found["canonical"]) == {form_text(canonical(tree)) for tree in trees}
    assert found["counts"]["canonical"] == len(found["canonical"])
    forms = [canonical(tree) for tree in trees]
    assert set(found["families"]["written"]) == written_menu(forms)
    assert set(found["families"]["steps"]) == steps_menu(forms, rules)
    for families in found["families"].values():
        assert families == sorted(families, key=lambda family: (int(family[:-1]), family[-1]))


def test_the_television_game(entropy_lab):
    arguments = ("--target", 765, "--use", "any", "--positive-integers", "--json")
    _, out, _ = entropy_lab("solve", 1, 3, 7, 10, 25, 50, *arguments)
    assert json.loads(out)["counts"]["ordered"] == 780


def test_solve_for_people(entropy_lab):
    code, out, _ = entropy_lab("solve", 3, 5, 7, "--target", 22)
    assert code == 0
    assert "7+(3*5)" in out
    assert "exactly once" in out
    assert max(map(len, out.splitlines())) <= 80
    assert "none" in entropy_lab("solve", 1, 1, "--target", 99)[1]


@pytest.mark.parametrize(("name", "format"), [("countdown_verifier.jsonl", "auto"), ("steps_answers.jsonl", "steps")])
def test_grade_gives_the_verdicts_of_the_case_files_in_order(entropy_lab, name, format):
    code, out, _ = entropy_lab("grade", DATA / name, "--format", format, "--json")
    found = json.loads(out)["rows"]
    assert code == 0
    assert all(list(row) == ["correct", "code", "family", "first_calculation", "flags"] for row in found)
    for row, case in zip(found, rows(name), strict=True):
        assert (row["correct"], row["code"]) == (case["correct"], case["code"]), case
        assert row["flags"] == case.get("flags", [])
        if "family" in case:
            assert row["family"] == case["family"]


def test_grade_applies_the_rules_and_a_row_may_bring_its_own(entropy_lab, tmp_path):
    answer = {"nums": [3, 5, 7], "target": 15, "text": "<answer>3*5</answer>"}
    file = tmp_path / "answers.jsonl"
    file.write_text("\n".join(map(json.dumps, [answer, {**answer, "rules": {"use": "all"}}])))
    _, out, _ = entropy_lab("grade", file, "--use", "any", "--json")
    assert [row["correct"] for row in json.loads(out)["rows"]] == [True, False]
    _, out, _ = entropy_lab("grade", file, "--json")
    assert [row["code"] for row in json.loads(out)["rows"]] == ["wrong-numbers"] * 2


def test_grade_for_people_counts_verdicts_with_intervals(entropy_lab):
    _, out, _ = entropy_lab("grade", DATA / "countdown_verifier.jsonl")
    cases = rows("countdown_verifier.jsonl")
    right = sum(case["correct"] for case in cases)
    first = out.splitlines()[1].split()
    assert first[:3] == ["correct", str(right), f"{right / len(cases):.3f}"]
    assert f"n = {len(cases)} answers" in out


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"nums": [3, 5], "target": 8}, "`text`"),
        ({"nums": [3, 5], "target": 8, "text": 8}, "`text`"),
        ({"nums": [3, "5"], "target": 8, "text": ""}, "`nums` holds '5'"),
        ({"text": "3+5"}, "fields found: text"),
    ],
)
def test_a_bad_row_is_one_error_with_its_line(entropy_lab, tmp_path, row, words):
    file = tmp_path / "answers.jsonl"
    file.write_text("\n".join(map(json.dumps, [{"nums": [3, 5], "target": 8, "text": ""}, row])))
    code, out, err = entropy_lab("grade", file, "--json")
    assert (code, out) == (2, "")
    assert f"{file}:2" in err
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_generate_writes_a_file_that_tasks_read(entropy_lab, tmp_path, ending):
    out = tmp_path / f"set.{ending}"
    arguments = ["--count", 40, *SMALL, "--format", "steps", "--integers", "--max-value", 100, "--out", out]
    code, printed, _ = entropy_lab("generate", *arguments, "--json")
    assert code == 0
    made = json.loads(printed)
    assert (made["file"], made["problems"], made["solvable"]) == (str(out), 40, 40)
    task = Countdown.from_file(out)
    assert (len(task.problems()), task.form, task.rules) == (40, "steps", Rules(integers_only=True, max_value=100))
    first = task.problems()[0]
    solution = parse(min(task.space(first).solutions))
    assert sorted(leaves(solution)) == sorted(first.data["nums"])
    assert value_of(solution) == first.data["target"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--count", 3, "--numbers", "3,x", "--out", "a.jsonl"], ["--numbers", "'3,x'"]),
        (["--count", 3, "--numbers", "9", "--out", "a.jsonl"], ["--numbers holds 9"]),
        (["--count", 3, "--smallest", 9, "--largest", 3, "--out", "a.jsonl"], ["--smallest 9", "--largest 3"]),
        (["--count", 3, "--solvable-share", "1.5", "--out", "a.jsonl"], ["--solvable-share"]),
        (["--count", 3, "--min-families", 17, "--out", "a.jsonl"], ["--min-families", "at most 16"]),
        (["--count", 3, "--out", "a.csv"], ["a.csv", ".parquet"]),
        (["--count", 3, "--use", "some", "--out", "a.jsonl"], ["--use", "'some'"]),
        (["--count", 3, "--format", "auto", "--out", "a.jsonl"], ["--format", "'auto'"]),
        (["--count", 999, "--numbers", 2, "--largest", 3, "--target-max", 99, "--out", "a.jsonl"], ["540 different"]),
    ],
)
def test_wishes_that_cannot_be_are_refused_before_anything_is_written(
    entropy_lab, monkeypatch, tmp_path, arguments, words
):
    monkeypatch.chdir(tmp_path)
    code, out, err = entropy_lab("generate", *arguments)
    assert (code, out) == (2, "")
    assert all(word in err for word in words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["solve", 3, 5, "--target", 8, "--use", "some"], "'some'"),
        (["solve", *range(1, 8), "--target", 8], "7 numbers"),
        (["solve", 3, 5, "--target", 8, "--max-value", 0], "--max-value"),
        (["grade", "absent.jsonl"], "no such file"),
    ],
)
def test_what_cannot_be_solved_or_graded_is_refused(entropy_lab, arguments, words):
    code, out, err = entropy_lab(*arguments)
    assert (code, out) == (2, "")
    assert words in err
