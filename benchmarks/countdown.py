"""Seconds to enumerate and to grade Countdown, on one core, from cold caches.

    python benchmarks/countdown.py [draws] [oracle draws]

Claims: six numbers ≤ 0.5 s in the median and ≤ 3 s in the worst case tried; 10,000 problems of three and four numbers
≤ 20 s; ≥ 50 × a pair-combining recursion; ≥ 20,000 answers/s; no text over 50 ms. Fails where a result is wrong, not
where it is slow.
"""

import random
import resource
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the oracle and the random texts are the tests' own

from entropy_lab.tasks.countdown.enumeration import solutions
from entropy_lab.tasks.countdown.expressions import Tree, form_text
from entropy_lab.tasks.countdown.task import Countdown, countdown_problem
from tests.oracles.countdown import pair_combining
from tests.tasks.countdown.test_fuzz import random_text, worst_seconds

SMALL, LARGE = [number for number in range(1, 11) for _ in range(2)], [25, 50, 75, 100]
REASONING = (
    "<think>We need 22 from 3, 5 and 7. Let me try 3 + 5 = 8, then 8 + 7 = 15, too small. 3 * 7 = 21, plus 5 is 26. "
    "5 * 7 = 35 is too much. 3*5 = 15 and 15 + 7 = 22, that works. Done.</think>"
)
ANSWERS = {
    "steps": ["3*5=15,15+7=22", "5*3=15, 7+15=22", "3*5=16,16+7=23", "3+5=8,8+7=15"],
    "expression": [
        *(f"{REASONING}<answer>{text}</answer>" for text in ("3*5+7", "(7 + 5)*3", "3+5")),
        REASONING + r"\boxed{3 \times 5 + 7}",
    ],
}


def six_numbers(generator: random.Random, index: int) -> tuple[list[int], int]:
    """In turn a draw of the television game and six uniform numbers up to 100."""
    large = generator.randrange(5)
    game = generator.sample(LARGE, large) + generator.sample(SMALL, 6 - large)
    nums = game if index % 2 == 0 else [generator.randint(1, 100) for _ in range(6)]
    return nums, generator.randint(100, 999)


def timed_solutions(nums: list[int], target: int) -> tuple[float, tuple[Tree, ...]]:
    form_text.cache_clear()
    began = time.process_time()
    forms = solutions(nums, target)
    return time.process_time() - began, forms


def answers_per_second(form: str, count: int = 20_000) -> float:
    problem = countdown_problem([3, 5, 7], 22)
    task, texts = Countdown((problem,), form=form), ANSWERS[form]  # type: ignore[arg-type]
    began = time.process_time()
    for index in range(count):
        task.grade(problem, texts[index % len(texts)])
    return count / (time.process_time() - began)


def main(draws: int = 40, oracle_draws: int = 1) -> int:
    generator = random.Random(0)
    problems = [six_numbers(generator, index) for index in range(draws)]
    times = [timed_solutions(*problem)[0] for problem in problems]
    hardest, hardest_forms = timed_solutions([1, 2, 3, 4, 5, 6], 10)
    wrong = len(hardest_forms) != 44_070

    form_text.cache_clear()
    began = time.process_time()
    for _ in range(10_000):
        solutions([generator.randint(1, 100) for _ in range(generator.choice([3, 4]))], generator.randint(1, 999))
    small = time.process_time() - began

    ratios = []
    for nums, target in problems[:oracle_draws]:
        seconds, forms = timed_solutions(nums, target)
        began = time.process_time()
        expected = pair_combining(nums, target)
        ratios.append((time.process_time() - began) / seconds)
        wrong |= set(forms) != expected
    slowest_text = worst_seconds(random_text(generator, long_share=0.005) for _ in range(20_000))

    rows = [
        (f"six numbers, median of {draws} draws, s", statistics.median(times), "≤ 0.5"),
        (f"six numbers, worst of {draws} draws, s", max(times), "≤ 3"),
        (f"1 2 3 4 5 6 → 10, {len(hardest_forms):,} forms, s", hardest, "≤ 3"),
        ("10,000 problems of 3 and 4 numbers, s", small, "≤ 20"),
        (f"times faster than pair-combining, least of {oracle_draws}", min(ratios, default=float("nan")), "≥ 50"),
        ("answers in steps graded per second", answers_per_second("steps"), "≥ 20,000"),
        ("reasoning and expression graded per second", answers_per_second("expression"), "≥ 20,000"),
        ("slowest of 20,000 random texts, ms", 1000 * slowest_text, "≤ 50"),
        ("peak memory, MiB", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, ""),
    ]
    print(f"{'CPU time on one core':<48}{'measured':>12}   target")
    for name, value, target_text in rows:
        print(f"{name:<48}{f'{value:,.0f}' if value >= 100 else f'{value:.3f}':>12}   {target_text}")
    if wrong:
        print("WRONG: the forms differ from those of the pair-combining recursion, or are not the 44,070 known.")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
