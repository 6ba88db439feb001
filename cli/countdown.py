"""`entropy-lab countdown`: solve a problem, grade answers, generate problem sets."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Json, Seed

if TYPE_CHECKING:
    from rich.table import Table

    from entropy_lab.tasks.countdown.rules import Rules

app = typer.Typer(help="Solve, grade and generate Countdown problems.", no_args_is_help=True, rich_markup_mode=None)

Use = Annotated[str, typer.Option("--use", help="all: every number exactly once; any: each at most once.")]
Integers = Annotated[bool, typer.Option("--integers", help="Every result on the way is a whole number.")]
Positive = Annotated[
    bool, typer.Option("--positive-integers", help="Every result on the way is a whole number from 1 up.")
]
MaxValue = Annotated[int | None, typer.Option("--max-value", help="No result on the way is larger.")]

SHOWN_FORMS = 40


@app.command()
def solve(
    nums: Annotated[list[int], typer.Argument(help="The numbers, as 3 5 7.")],
    target: Annotated[int, typer.Option(help="The number to reach.")],
    use: Use = "all",
    integers: Integers = False,
    positive_integers: Positive = False,
    max_value: MaxValue = None,
    json: Json = False,
) -> None:
    """All solutions of a problem in canonical form, their counts, and its menus of entrance families."""
    from entropy_lab.errors import InputError
    from entropy_lab.tasks.countdown.counting import function_count, ordered_count
    from entropy_lab.tasks.countdown.enumeration import solutions, steps_menu, written_menu
    from entropy_lab.tasks.countdown.expressions import form_text
    from entropy_lab.tasks.countdown.layouts import read_numbers
    from entropy_lab.tasks.countdown.task import LARGEST_ENUMERATED

    from .terminal import console, print_json

    rules = _rules(use, integers, positive_integers, max_value)
    read_numbers({"nums": nums, "target": target}, "countdown solve")
    if len(nums) > LARGEST_ENUMERATED:
        raise InputError(f"{len(nums)} numbers are too many to solve; give at most {LARGEST_ENUMERATED}.")
    forms = solutions(nums, target, rules)
    found = {
        "nums": nums,
        "target": target,
        "canonical": [form_text(form) for form in forms],
        "counts": {
            "canonical": len(forms),
            "function": function_count(forms),
            "ordered": ordered_count(forms, rules),
        },
        "families": {"written": _sorted(written_menu(forms)), "steps": _sorted(steps_menu(forms, rules))},
    }
    if json:
        print_json(found)
    else:
        console().print(_solutions_table(found, rules))


@app.command()
def grade(
    file: Annotated[Path, typer.Argument(help="A .jsonl (or .parquet) file; rows hold nums, target and text.")],
    format: Annotated[str, typer.Option(help="How answers are written: auto, steps or expression.")] = "auto",
    use: Use = "all",
    integers: Integers = False,
    positive_integers: Positive = False,
    max_value: MaxValue = None,
    json: Json = False,
) -> None:
    """Grade answers, one a row. A row's own `format` and `rules` go before the options."""
    from entropy_lab.tasks.countdown.answer_file import grade_file

    from .terminal import console, print_json

    grades = grade_file(file, format, _rules(use, integers, positive_integers, max_value))
    if json:
        fields = ("correct", "code", "family", "first_calculation", "flags")
        print_json({"rows": [{name: getattr(one, name) for name in fields} for one in grades]})
    else:
        console().print(_verdicts_table([one.code for one in grades]))


@app.command()
def generate(
    out: Annotated[Path, typer.Option("--out", help="The .jsonl or .parquet file to write.")],
    count: Annotated[int, typer.Option(min=1, help="How many problems.")] = 1000,
    numbers: Annotated[str, typer.Option(help="How many numbers a problem may have, as 3,4.")] = "3,4",
    smallest: Annotated[int, typer.Option(min=0, help="The smallest number.")] = 1,
    largest: Annotated[int, typer.Option(min=0, help="The largest number.")] = 99,
    target_min: Annotated[int, typer.Option(min=0, help="The smallest target.")] = 10,
    target_max: Annotated[int, typer.Option(min=0, help="The largest target.")] = 100,
    min_families: Annotated[int, typer.Option(min=1, help="Entrance families that a solvable problem has.")] = 1,
    solvable_share: Annotated[float, typer.Option(help="Share of problems with a solution; the rest has none.")] = 1.0,
    format: Annotated[str, typer.Option(help="How answers are to be written: expression or steps.")] = "expression",
    use: Use = "all",
    integers: Integers = False,
    positive_integers: Positive = False,
    max_value: MaxValue = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Draw new problems into a file that --task reads; the same command always writes the same problems."""
    from entropy_lab.errors import InputError
    from entropy_lab.tasks.countdown.generation import Wishes, check_out, overview, write_problems
    from entropy_lab.tasks.countdown.generation import generate as draw

    from .terminal import TerminalProgress, console, print_json

    if format not in ("expression", "steps"):
        raise InputError(f"--format is {format!r}; choose expression or steps.")
    try:
        sizes = tuple(sorted({int(part) for part in numbers.split(",")}))
    except ValueError as error:
        raise InputError(f"--numbers is {numbers!r}; write whole numbers separated by commas, as 3,4.") from error
    check_out(out)
    wishes = Wishes(
        count=count,
        numbers=sizes,
        smallest=smallest,
        largest=largest,
        target_min=target_min,
        target_max=target_max,
        min_families=min_families,
        solvable_share=solvable_share,
        form=format,  # type: ignore[arg-type]
        rules=_rules(use, integers, positive_integers, max_value),
        seed=seed,
    )
    problems = draw(wishes, TerminalProgress())
    write_problems(problems, wishes, out)
    made = overview(problems)
    if json:
        print_json({"file": str(out), **made})
    else:
        sizes_text = ", ".join(f"{times} of {size} numbers" for size, times in made["sizes"].items())
        families = "" if made["mean_families"] is None else f", {made['mean_families']:.1f} families on average"
        console().print(
            f"{made['problems']} problems ({sizes_text}); {made['solvable']} solvable{families}\nproblems {out}",
            markup=False,
            soft_wrap=True,
        )


def _rules(use: str, integers: bool, positive: bool, max_value: int | None) -> "Rules":
    from entropy_lab.errors import InputError
    from entropy_lab.tasks.countdown.rules import Rules

    if use not in ("all", "any"):
        raise InputError(f"--use is {use!r}; choose all or any.")
    if max_value is not None and max_value < 1:
        raise InputError(f"--max-value is {max_value}; at least 1 is needed.")
    return Rules(use, integers or positive, 1 if positive else None, max_value)  # type: ignore[arg-type]


def _sorted(families: Iterable[str]) -> list[str]:
    """By first operand, then by operator."""
    return sorted(families, key=lambda family: (int(family[:-1]), family[-1]))


def _solutions_table(found: dict[str, Any], rules: "Rules") -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    forms, counts, families = found["canonical"], found["counts"], found["families"]
    hidden = len(forms) - SHOWN_FORMS
    listed = "   ".join(forms[:SHOWN_FORMS]) + (f"   … and {hidden:,} more (--json lists all)" if hidden > 0 else "")
    for name, value in (
        ("problem", f"{' '.join(map(str, found['nums']))} → {found['target']}"),
        ("rules", rules.sentences()),
        ("solutions", listed or "none"),
        ("canonical forms", f"{counts['canonical']:,}"),
        ("distinct functions", f"{counts['function']:,}"),
        ("ordered trees", f"{counts['ordered']:,}"),
        ("written families", " ".join(families["written"]) or "none"),
        ("first steps", " ".join(families["steps"]) or "none"),
    ):
        table.add_row(name, Text(value))
    return table


def _verdicts_table(codes: Sequence[str]) -> "Table":
    from collections import Counter

    from rich.table import Table
    from rich.text import Text

    from entropy_lab.diagnostics.intervals import wilson

    table = Table(box=None, pad_edge=False)
    table.add_column("verdict")
    table.add_column("answers", justify="right")
    table.add_column("share", justify="right")
    table.add_column("95 % interval", justify="right")
    counts = Counter(codes)
    for code in ["correct", *(code for code, _ in counts.most_common() if code != "correct")]:
        times = counts[code]
        low, high = (float(end) for end in wilson(times, len(codes)))
        row = (code, f"{times:,}", f"{times / len(codes):.3f}", f"[{low:.3f}, {high:.3f}]")
        table.add_row(*map(Text, row), style="bold" if code == "correct" else None)
    table.caption = f"n = {len(codes):,} answers; Wilson intervals"
    return table
