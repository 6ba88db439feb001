"""Which trajectories a report shows, what each of their tokens could have been, and a second opinion on their scores.

The shown trajectories are scored once more by the teacher-forced pass: it gives the alternatives, and its gap to the
log-probs kept while sampling tells whether sampler and scorer agree.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from entropy_lab.checkpoints import Checkpoint
from entropy_lab.diagnostics.columns import Column
from entropy_lab.diagnostics.decision_points import Blocks
from entropy_lab.diagnostics.metric import Metric
from entropy_lab.diagnostics.tabulate import mean_metrics
from entropy_lab.diagnostics.trajectories import problem_means
from entropy_lab.progress import Progress
from entropy_lab.reports.contents import Alternative, BlockView, TokenView, TrajectoryView
from entropy_lab.rollouts import Rollouts
from entropy_lab.scoring.teacher_forced import TokenScores, score
from entropy_lab.texts import token_texts

SHOWN_PROBLEMS = 12
SHOWN_SAMPLES = 4
ALTERNATIVES = 4


def choose(rollouts: Rollouts) -> list[int]:
    """Rows to show: of the first problems, the first right and the first wrong sample, then the next ones.

    Only rows with prompt, tokens, entropies and log-probs can be shown.
    """
    columns = [rollouts.table[name] for name in ("prompt_ids", "token_ids", "entropy", "logprob")]
    whole = np.logical_and.reduce([column.is_valid().to_numpy() for column in columns])
    correct = rollouts.correct()
    by_problem: dict[str | None, list[int]] = {}
    for row, problem in enumerate(rollouts.strings("problem_id")):
        if whole[row]:
            by_problem.setdefault(problem, []).append(row)
    chosen: list[int] = []
    for rows in list(by_problem.values())[:SHOWN_PROBLEMS]:
        first_of_kind = {float(correct[row]): row for row in reversed(rows) if not np.isnan(correct[row])}
        order = dict.fromkeys([*first_of_kind.values(), *rows])
        chosen += sorted(list(order)[:SHOWN_SAMPLES])
    return chosen


def score_rows(
    checkpoint: Checkpoint,
    rollouts: Rollouts,
    rows: Sequence[int],
    *,
    alternatives: int = 0,
    mask_unused: bool = False,
    progress: Progress | None = None,
) -> list[TokenScores]:
    """Teacher-force some rows, in the order given, each at its own temperature (1 if unknown or greedy)."""
    columns = ("problem_id", "prompt_ids", "token_ids", "temperature")
    table = rollouts.take(rows).table.select(columns).to_pylist()
    by_temperature: dict[float, list[int]] = defaultdict(list)
    for place, record in enumerate(table):
        by_temperature[record["temperature"] or 1.0].append(place)
    scores: dict[int, TokenScores] = {}
    for temperature, places in by_temperature.items():
        found = score(
            checkpoint,
            [table[place]["problem_id"] for place in places],
            [table[place]["prompt_ids"] for place in places],
            [table[place]["token_ids"] for place in places],
            temperature=temperature,
            alternatives=alternatives,
            mask_unused=mask_unused,
            progress=progress,
        )
        scores.update(zip(places, found, strict=True))
    return [scores[place] for place in range(len(table))]


def agreement(
    name: str, rollouts: Rollouts, rows: Sequence[int], scores: Sequence[TokenScores], kept: str, seed: int
) -> tuple[Metric, ...]:
    """|log-prob kept by the sampler − log-prob teacher-forced| on the shown tokens, and the mass on unused head rows.

    `kept` is the column with the sampler's log-probs; without it in every row there is no gap to report.
    """
    table = rollouts.take(rows).table
    _, problem_N = np.unique(np.array(table["problem_id"].to_pylist()), return_inverse=True)
    problems = int(problem_N.max()) + 1 if len(problem_N) else 0
    columns = []
    note = f"{len(rows)} trajectories scored twice"
    if not table[kept].null_count:
        gaps = [
            np.abs(np.asarray(before, np.float32) - again.logprob)
            for before, again in zip(table[kept].to_pylist(), scores, strict=True)
        ]
        largest = max((float(gap.max()) for gap in gaps if len(gap)), default=0.0)
        mean_N = np.array([gap.mean() if len(gap) else np.nan for gap in gaps], float)
        per_problem = problem_means(mean_N, problem_N, problems)
        columns.append(Column("numerics.logprob_gap", "nats", per_problem, note=f"{note}; largest {largest:.2g} nats"))
    unused_N = np.array([again.unused_mass.mean() if len(again.unused_mass) else np.nan for again in scores], float)
    columns.append(Column("unused_mass", "probability", problem_means(unused_N, problem_N, problems), note=note))
    return mean_metrics(columns, name, seed=seed)


def views(
    checkpoint: Checkpoint,
    rollouts: Rollouts,
    rows: Sequence[int],
    scores: Sequence[TokenScores],
    blocks: Blocks,
    questions: Mapping[str, str],
) -> tuple[TrajectoryView, ...]:
    """The shown trajectories as text with the values of each token and the decision blocks outlined."""
    shown = []
    tokenizer = checkpoint.tokenizer
    for row, again in zip(rows, scores, strict=True):
        record = rollouts.table.slice(row, 1).to_pylist()[0]
        texts = token_texts(tokenizer, record["token_ids"])
        entropy, logprob = record["entropy"], record["logprob"]
        tokens = []
        for position, text in enumerate(texts):
            alternatives: tuple[Alternative, ...] = ()
            if again.alternatives is not None:
                ids = [int(token) for token in again.alternatives.token_ids[position]]
                chances = again.alternatives.probabilities[position]
                alternatives = tuple(
                    Alternative("".join(token_texts(tokenizer, [token])), float(chance))
                    for token, chance in zip(ids, chances, strict=True)
                )
            tokens.append(TokenView(text, entropy[position], logprob[position], alternatives))
        of_row = blocks.of(row)
        ends = np.cumsum([0, *map(len, texts)])
        shown.append(
            TrajectoryView(
                checkpoint=checkpoint.name,
                problem_id=record["problem_id"],
                question=questions.get(record["problem_id"], ""),
                sample_index=record["sample_index"],
                correct=record["correct"],
                code=record["code"] or "",
                answer=record["answer"],
                finish_reason=record["finish_reason"] or "",
                tokens=tuple(tokens),
                blocks=tuple(
                    BlockView(
                        start=int(start),
                        stop=int(stop),
                        characters=(int(ends[start]), int(ends[stop])),
                        peak_entropy=float(peak),
                        mean_entropy=float(mean),
                        share=float(share),
                    )
                    for start, stop, peak, mean, share in zip(
                        blocks.start[of_row],
                        blocks.stop[of_row],
                        blocks.peak_entropy[of_row],
                        blocks.mean_entropy[of_row],
                        blocks.share[of_row],
                        strict=True,
                    )
                ),
            )
        )
    return tuple(shown)
