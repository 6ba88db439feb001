"""Which of a problem's solutions and entrance families the samples reached, and how evenly they start.

Needs the whole solution space of each problem; problems without one (unsolvable, or too large to enumerate) have no
value and are counted in the note, never as 0.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from entropy_lab.diagnostics.columns import Column, samples_note
from entropy_lab.tasks.protocol import Space


def coverage_columns(
    problem_ids: Sequence[str],
    spaces: Mapping[str, Space],
    rows: Sequence[tuple[str, bool | None, str | None, str | None, str | None]],
) -> list[Column]:
    """Coverage and access of each problem in `problem_ids`; `rows` holds (problem, correct, answer, family, first
    calculation) of every sample, answers in canonical form.

    `coverage.solution` and `coverage.family` are the shares of the space that correct samples reached.
    `access.support_mass` is the share of first calculations that lie in the menu; `access.top1`, `access.entropy`
    (nats, plug-in) and `access.gini` describe how those in the menu spread over it.
    """
    samples: dict[str, list[tuple[bool | None, str | None, str | None, str | None]]] = {one: [] for one in problem_ids}
    for problem, *sample in rows:
        samples[problem].append(tuple(sample))  # type: ignore[arg-type]
    table = np.full((len(problem_ids), 6), np.nan)
    for row, problem in enumerate(problem_ids):
        space = spaces.get(problem)
        if space is None or not space.solutions:
            continue
        right = [(answer, family) for correct, answer, family, _ in samples[problem] if correct]
        table[row, 0] = len({answer for answer, _ in right} & space.solutions) / len(space.solutions)
        if space.menu:
            table[row, 1] = len({family for _, family in right} & space.menu) / len(space.menu)
            table[row, 2:] = _access([first for *_, first in samples[problem]], space.menu)
    note = samples_note(np.array([len(samples[problem]) for problem in problem_ids]))
    return [Column(name, unit, table[:, place], missing, note) for place, (name, unit, missing) in enumerate(COLUMNS)]


COLUMNS = (
    ("coverage.solution", "share", "no enumerated solution"),
    ("coverage.family", "share", "no enumerated solution"),
    ("access.support_mass", "share", "no enumerated solution, or no calculation"),
    ("access.top1", "share", "no enumerated solution, or no start within the menu"),
    ("access.entropy", "nats", "no enumerated solution, or no start within the menu"),
    ("access.gini", "index", "no enumerated solution, or no start within the menu"),
)


def _access(firsts: Sequence[str | None], menu: frozenset[str]) -> tuple[float, float, float, float]:
    """Support mass, top-1 share, entropy and Gini; the last three are NaN where nothing starts within the menu."""
    counted = Counter(first for first in firsts if first is not None)
    total = sum(counted.values())
    inside = np.array([counted[family] for family in sorted(menu)], float)
    if total == 0:
        return np.nan, np.nan, np.nan, np.nan
    if inside.sum() == 0:
        return 0.0, np.nan, np.nan, np.nan
    share = inside / inside.sum()
    taken = share[share > 0]
    return float(inside.sum() / total), float(share.max()), float(-(taken * np.log(taken)).sum()), gini(share)


def gini(share: np.ndarray) -> float:
    """Gini index of non-negative shares over M families: 0 when even, (M − 1)/M when one has all."""
    ordered = np.sort(np.asarray(share, float))
    ranks = np.arange(1, len(ordered) + 1)
    return float((2 * ranks - len(ordered) - 1) @ ordered / (len(ordered) * ordered.sum()))
