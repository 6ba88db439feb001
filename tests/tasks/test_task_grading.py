import pytest

from entropy_lab.tasks.grading import GraderFailure, grade_all, require_working_grader
from entropy_lab.tasks.protocol import Grade, Problem

PROBLEM = Problem("p", "Q?")


class Plain:
    name = "plain"

    def problems(self):
        return [PROBLEM]

    def messages(self, problem):
        return [{"role": "user", "content": problem.question}]

    def grade(self, problem, text):
        if text == "boom":
            raise ZeroDivisionError
        return Grade(text == problem.id, "correct" if text == problem.id else "wrong-value")


class Bulk(Plain):
    def grade_many(self, pairs):
        return [Grade(True, "bulk") for _ in pairs]


def test_grades_come_in_order_and_a_raising_grader_is_unknown():
    """T6"""
    grades = grade_all(Plain(), [PROBLEM] * 3, ["p", "boom", "q"])
    assert [grade.correct for grade in grades] == [True, None, False]
    assert (grades[1].code, grades[1].flags) == ("grader-error", ("ZeroDivisionError",))


def test_bulk_grading_is_used_where_a_task_has_it():
    assert [grade.code for grade in grade_all(Bulk(), [PROBLEM] * 2, ["p", "q"])] == ["bulk", "bulk"]


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="zip"):
        grade_all(Plain(), [PROBLEM], [])


def test_too_many_unknown_grades_stop_the_run():
    """T6: the run stops past a limit, and says what failed."""
    unknown, wrong = Grade(None, "grader-error", flags=("KeyError",)), Grade(False, "wrong-value")
    require_working_grader([unknown] * 10 + [wrong] * 90)
    with pytest.raises(GraderFailure, match=r"11 of 100 answers: grader-error KeyError \(11\)"):
        require_working_grader([unknown] * 11 + [wrong] * 89)
    require_working_grader([unknown] * 18 + [wrong])
    with pytest.raises(GraderFailure, match="4 of 4"):
        require_working_grader([unknown] * 4)
    require_working_grader([unknown] * 3)
    require_working_grader([])
