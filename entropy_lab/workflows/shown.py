"""Which trajectories a report shows, what each of their tokens could have been, and a second opinion on their scores.

The shown trajectories are scored once more by the teacher-forced pass: it gives the alternatives, and its gap to the
log-probs kept while sampling tells whether sampler and scorer agree.
"""

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
    """Rows to show: of the first problems, the first right and the first wrong sample, then the next ones."""
    correct = rollouts.correct()
    by_problem: dict[str | None, list[int]] = {}
    for row, problem in enumerate(rollouts.strings("problem_id")):
        by_problem.setdefault(problem, []).append(row)
    chosen: list[int] = []
    for rows in list(by_problem.values())[:SHOWN_PROBLEMS]:
        first_of_kind = {float(correct[row]): row for row in reversed(rows) if not np.isnan(correct[row])}
        order = dict.fromkeys([*first_of_kind.values(), *rows])
        chosen += sorted(list(order)[:SHOWN_SAMPLES])
    return chosen


def rescore(
    checkpoint: Checkpoint, rollouts: Rollouts, rows: Sequence[int], mask_unused: bool, progress: Progress
) -> list[TokenScores]:
    """The shown trajectories through the teacher-forced pass, with alternatives at every token."""
    table = rollouts.table.take(list(rows))
    return score(
        checkpoint,
        table["problem_id"].to_pylist(),
        table["prompt_ids"].to_pylist(),
        table["token_ids"].to_pylist(),
        temperature=float(table["temperature"][0].as_py() or 1.0) if len(table) else 1.0,
        alternatives=ALTERNATIVES,
        mask_unused=mask_unused,
        progress=progress,
    )


def agreement(
    name: str, rollouts: Rollouts, rows: Sequence[int], scores: Sequence[TokenScores], seed: int
) -> tuple[Metric, ...]:
    """|log-prob while sampling − log-prob teacher-forced| on the shown tokens, and the mass on unused head rows."""
    table = rollouts.table.take(list(rows))
    _, problem_N = np.unique(np.array(table["problem_id"].to_pylist()), return_inverse=True)
    problems = int(problem_N.max()) + 1 if len(problem_N) else 0
    columns = []
    note = f"{len(rows)} trajectories scored twice"
    if not table["logprob"].null_count:
        gaps = [
            np.abs(np.asarray(kept, np.float32) - again.logprob)
            for kept, again in zip(table["logprob"].to_pylist(), scores, strict=True)
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
                    BlockView(int(start), int(stop), float(peak), float(mean), float(share))
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
