"""Forced beginnings and their rollouts: which samples belong to which prefix, and what came of each family."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from entropy_lab.checkpoints import Checkpoint
from entropy_lab.diagnostics.forcing import FORCED, FamilyTable
from entropy_lab.engines.protocol import Request
from entropy_lab.files import whole
from entropy_lab.interventions.forcing import Prefix, encode_text, prefix_ids
from entropy_lab.interventions.prefix_ladder import Ladder
from entropy_lab.progress import Progress
from entropy_lab.rollouts import Rollouts
from entropy_lab.runs import Run
from entropy_lab.scoring.teacher_forced import score
from entropy_lab.workflows.sampling import Order


@dataclass(frozen=True)
class Forced:
    """Requests for every prefix of every ladder; `prefix_of` tells a sample's prefix by its problem and index."""

    requests: tuple[Request, ...]
    prefix_of: Mapping[tuple[str, int], Prefix]


def forced_requests(
    checkpoint: Checkpoint, prompts: Sequence[Request], ladders: Sequence[Ladder], continuations: int
) -> Forced:
    """Add to each problem's free samples its forced ones, indices counting on; `prompts` align with `ladders`.

    A family's continuations at one level are shared evenly over its second operands, the first ones getting what is
    left over (ours). Requests of one size stand together, so that they run together.

    Raises:
        InputError: the tokenizer cannot spell a prefix.
    """
    requests: list[Request] = []
    prefix_of: dict[tuple[str, int], Prefix] = {}
    for prompt, steps in zip(prompts, ladders, strict=True):
        following = 0
        for (level, _), group in groupby(steps.prefixes, key=lambda one: (one.level, one.family)):
            prefixes = list(group)
            total = prompt.count if level == "empty" else continuations
            for place, prefix in enumerate(prefixes):
                count = total // len(prefixes) + (place < total % len(prefixes))
                if not count:
                    continue
                ids = prefix_ids(checkpoint, prefix)
                requests.append(
                    replace(prompt, count=count, first_sample=following, prefix_ids=ids, stream=prefix.stream)
                )
                prefix_of.update({(prompt.problem_id, following + index): prefix for index in range(count)})
                following += count
    requests.sort(key=lambda request: -request.count)
    return Forced(tuple(requests), prefix_of)


def entrance_masses(
    order: Order, prompts: Sequence[Request], ladders: Sequence[Ladder], progress: Progress
) -> dict[tuple[str, str], float]:
    """(problem, family of the menu) → summed log p (nats) of its entrance tokens after prompt and scaffold.

    At the temperature of sampling, or 1 where that is greedy.
    """
    checkpoint, sampling = order.checkpoint, order.sampling
    entrances = [
        (prompt.prompt_ids + encode_text(checkpoint, one.scaffold), one)
        for prompt, steps in zip(prompts, ladders, strict=True)
        for one in steps.prefixes
        if one.level == "entrance"
    ]
    scores = score(
        checkpoint,
        [one.problem.id for _, one in entrances],
        [ids for ids, _ in entrances],
        [encode_text(checkpoint, one.body) for _, one in entrances],
        temperature=sampling.temperature or 1.0,
        mask_unused=sampling.mask_unused,
        progress=progress,
    )
    return {
        (one.problem.id, one.family): float(found.logprob.sum(dtype=np.float64))
        for (_, one), found in zip(entrances, scores, strict=True)
    }


def family_table(
    rollouts: Rollouts,
    prefix_of: Mapping[tuple[str, int], Prefix],
    ladders: Sequence[Ladder],
    masses: Mapping[tuple[str, str], float],
) -> FamilyTable:
    """Count what came of every (problem, family): the menu's families, then those of the infeasible control."""
    keys = [
        (problem, steps.problem.id, family)
        for problem, steps in enumerate(ladders)
        for family in (*steps.menu, *steps.infeasible)
    ]
    row_of = {(name, family): row for row, (_, name, family) in enumerate(keys)}
    place_of = {steps.problem.id: place for place, steps in enumerate(ladders)}
    first, right = np.zeros((2, len(keys)), np.int64)
    samples, started, solved = np.zeros((3, len(ladders)), np.int64)
    completed = {level: np.zeros(len(keys), np.int64) for level in FORCED}
    asked = {level: np.zeros(len(keys), np.int64) for level in FORCED}

    def count(level: str, row: int, good: bool) -> None:
        asked[level][row] += 1
        completed[level][row] += good

    names = ("problem_id", "sample_index", "correct", "family", "first_calculation", "text")
    for name, index, correct, family, beginning, text in zip(
        *(rollouts.table[column].to_pylist() for column in names), strict=True
    ):
        if correct is None:
            continue
        prefix, place = prefix_of[name, index], place_of[name]
        if prefix.level == "empty":
            samples[place] += 1
            started[place] += beginning is not None
            solved[place] += correct
            if (name, beginning) in row_of:
                first[row_of[name, beginning]] += 1
            if correct and (name, family) in row_of:
                right[row_of[name, family]] += 1
            continue
        row = row_of[name, prefix.family]
        count(prefix.level, row, correct and (prefix.level not in ("entrance", "value") or family == prefix.family))
        if prefix.continued is not None:
            rest = prefix.scaffold + text.removeprefix(prefix.text)
            count("continued", row, bool(prefix.task.grade(prefix.continued, rest).correct))
    return FamilyTable(
        problem_F=np.array([problem for problem, _, _ in keys], np.int64),
        family_F=tuple(family for _, _, family in keys),
        offered_F=np.array([(name, family) in masses for _, name, family in keys], bool),
        first_F=first,
        free_correct_F=right,
        log_mass_F=np.array([masses.get((name, family), np.nan) for _, name, family in keys]),
        completed=completed,
        asked=asked,
        samples_P=samples,
        started_P=started,
        solved_P=solved,
    )


def write_families(run: Run, table: FamilyTable, problem_ids: Sequence[str]) -> None:
    """Write `families.parquet`: one row a (problem, family), shares with null where undefined.

    `offered` tells the menu from the infeasible control; `free_correct` is the share of free samples that are correct
    and in the family, `infeasible` the share of continuations from an entrance outside the menu that are correct.
    """
    shares = {
        "access_sampled": table.access_sampled(),
        "access_mass": table.access_mass(),
        "free_correct": table.free(),
        "execution": table.share("entrance"),
        "execution_value": table.share("value"),
        "infeasible": table.share("infeasible"),
        "corrupted": table.share("corrupted"),
        "corrupted_continued": table.share("continued"),
    }
    columns = {
        "problem_id": pa.array([problem_ids[place] for place in table.problem_F], pa.string()),
        "family": pa.array(table.family_F, pa.string()),
        "offered": pa.array(table.offered_F, pa.bool_()),
        **{name: pa.array(values, pa.float64(), from_pandas=True) for name, values in shares.items()},
    }
    with whole(run.folder / "families.parquet") as partial:
        pq.write_table(pa.table(columns), partial, compression="zstd")
