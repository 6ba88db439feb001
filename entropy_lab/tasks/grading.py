"""Grades many texts with any task, and refuses to go on with a grader that fails too often (pitfall T6)."""

from collections import Counter
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from entropy_lab.tasks.protocol import Grade, Problem, Task

FEWEST_GRADES = 20
FEWEST_ALL = 4


@runtime_checkable
class GradesMany(Protocol):
    """A task that grades faster in bulk."""

    def grade_many(self, pairs: Sequence[tuple[Problem, str]]) -> list[Grade]:
        """Grade each text against its problem, in order."""


class GraderFailure(RuntimeError):
    """The grader failed on more answers than a run may carry; the answers are not to blame and stay ungraded."""


def grade_all(task: Task, problems: Sequence[Problem], texts: Sequence[str]) -> list[Grade]:
    """Grade `texts[i]` as an answer to `problems[i]`.

    A task that raises on a text gives `correct` None, code "grader-error" and the error's kind as a flag, never a
    wrong answer; `require_working_grader` then decides whether the run may go on.
    """
    pairs = list(zip(problems, texts, strict=True))
    if isinstance(task, GradesMany):
        return [_checked(grade) for grade in task.grade_many(pairs)]
    return [_grade(task, problem, text) for problem, text in pairs]


def require_working_grader(grades: Sequence[Grade], most_failures: float = 0.1) -> None:
    """Raise GraderFailure if too many grades are unknown.

    Too many are more than the share `most_failures` of at least FEWEST_GRADES, or all of at least FEWEST_ALL.
    """
    failed = Counter(" ".join((grade.code, *grade.flags)) for grade in grades if grade.correct is None)
    count = failed.total()
    enough = len(grades) >= FEWEST_GRADES or count == len(grades) >= FEWEST_ALL
    if enough and count > most_failures * len(grades):
        kinds = ", ".join(f"{kind} ({times})" for kind, times in failed.most_common(3))
        raise GraderFailure(
            f"the grader failed on {count} of {len(grades)} answers: {kinds}; more than {most_failures:.0%} unknown "
            "would bias every number; look at these answers, mend the grader or raise its time limit."
        )


def _grade(task: Task, problem: Problem, text: str) -> Grade:
    try:
        return _checked(task.grade(problem, text))
    except (Exception, SystemExit) as error:  # counted apart, so that a broken grader is not read as a weak policy
        said = " ".join(str(error).split())[:80]
        return Grade(None, "grader-error", flags=(f"{type(error).__name__}: {said}" if said else type(error).__name__,))


def _checked(grade: object) -> Grade:
    """A grade whose fields can be stored; anything else is a fault of the grader."""
    sound = (
        isinstance(grade, Grade)
        and (grade.correct is None or isinstance(grade.correct, bool))
        and isinstance(grade.code, str)
        and all(isinstance(one, str | None) for one in (grade.answer, grade.family, grade.first_calculation))
    )
    return grade if isinstance(grade, Grade) and sound else Grade(None, "grader-error", flags=("not-a-grade",))
