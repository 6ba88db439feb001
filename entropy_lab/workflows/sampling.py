"""From problems to graded trajectories in a run directory, batch by batch; finished batches are never sampled again."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from entropy_lab.checkpoints import Checkpoint
from entropy_lab.engines.protocol import Engine, Request, Sampling, Trajectory
from entropy_lab.errors import InputError
from entropy_lab.progress import Progress
from entropy_lab.prompts import encode_prompt
from entropy_lab.rollouts import Rollouts
from entropy_lab.runs import Run
from entropy_lab.tasks.grading import grade_all, require_working_grader
from entropy_lab.tasks.protocol import Problem, Task
from entropy_lab.texts import completion_text


@dataclass(frozen=True)
class Order:
    """What is sampled: requests whose samples of one problem have different indices, each prompt encoded once.

    `arm` names the order where one checkpoint is asked in several ways, with other prompts or forced beginnings.
    """

    checkpoint: Checkpoint
    task: Task
    problems: Sequence[Problem]
    requests: Sequence[Request]
    sampling: Sampling
    arm: str = ""

    @property
    def name(self) -> str:
        """The name under which rollouts and metrics stand."""
        return self.arm or self.checkpoint.name


def order_of(
    checkpoint: Checkpoint, task: Task, problems: Sequence[Problem], samples: int, sampling: Sampling, prompt: str
) -> Order:
    """Ask `checkpoint` for `samples` trajectories of each problem.

    Raises:
        InputError: a prompt that cannot be built or encoded.
    """
    requests = []
    for problem in problems:
        try:
            messages = task.messages(problem)
        except Exception as error:  # a user's task may raise anything
            raise InputError(
                f"Task {task.name}: messages() fails on problem {problem.id!r} ({type(error).__name__}: {error})."
            ) from error
        requests.append(Request(problem.id, encode_prompt(checkpoint, messages, prompt), samples))
    return Order(checkpoint, task, problems, requests, sampling)


def sample_into(run: Run, first_part: int, order: Order, engine: Engine, progress: Progress) -> int:
    """Sample `order` into parts `first_part` … of `run`, skipping parts that are there; returns the next free part.

    A part is one batch of the engine's partition. A batch cut short by a kill is sampled again whole: the same rows
    then run together, so that even rounding repeats and the run ends with the numbers of an uninterrupted one.
    """
    rows = engine.rows(order.requests, order.sampling)
    run.note(rows={**run.record.get("rows", {}), order.name: rows})
    batches = engine.partition(order.requests, order.sampling)
    parts = range(first_part, first_part + len(batches))
    sizes = [sum(request.count for request in batch) for batch in batches]
    done = sum(size for part, size in zip(parts, sizes, strict=True) if run.part(part).is_file())
    began, tokens = time.monotonic(), 0
    with progress.stage(f"sample {order.name}", sum(sizes), "trajectory", done) as stage:
        for part, batch in zip(parts, batches, strict=True):
            if run.part(part).is_file():
                _check_part(run, part, batch)
                continue
            trajectories = []
            for trajectory in engine.sample(batch, order.sampling):
                trajectories.append(trajectory)
                tokens += len(trajectory.token_ids)
                stage.advance()
            run.write_part(part, graded(order, trajectories))
    if tokens:
        rate = tokens / (time.monotonic() - began)
        timings = {
            **run.record.get("timings", {}),
            order.name: {"sampled_tokens_per_second": round(rate, 1)},
        }
        run.note(timings=timings)
    return parts.stop


def _check_part(run: Run, part: int, batch: Sequence[Request]) -> None:
    """A finished part must hold the trajectories of its batch, or it is another run's."""
    kept = Rollouts.read(run.part(part)).table
    asked = sorted((one.problem_id, one.first_sample + i) for one in batch for i in range(one.count))
    if sorted(zip(kept["problem_id"].to_pylist(), kept["sample_index"].to_pylist(), strict=True)) != asked:
        raise InputError(f"{run.part(part)} holds other trajectories than this run's; delete it and run again.")


def graded(order: Order, trajectories: Sequence[Trajectory]) -> Rollouts:
    """Trajectories as rollouts with text and grade, in the order of problems and samples.

    What a trajectory was forced to begin with stands at the end of its `prompt_ids`, and `branch_position` counts those
    tokens; its text and grade are of the whole completion.
    """
    position = {problem.id: index for index, problem in enumerate(order.problems)}
    ordered = sorted(trajectories, key=lambda row: (position[row.problem_id], row.sample_index))
    checkpoint = order.checkpoint
    prefixes = _prefixes(order.requests)
    forced = [prefixes.get((row.problem_id, row.sample_index), ()) for row in ordered]
    texts = [
        completion_text(checkpoint.tokenizer, [*prefix, *row.token_ids.tolist()], checkpoint.end_ids)
        for prefix, row in zip(forced, ordered, strict=True)
    ]
    grades = grade_all(order.task, [order.problems[position[row.problem_id]] for row in ordered], texts)
    require_working_grader(grades)
    return Rollouts.from_rows(
        {
            "checkpoint": order.name,
            "problem_id": row.problem_id,
            "sample_index": row.sample_index,
            "group_id": f"{row.problem_id} {row.stream}" if row.stream else row.problem_id,
            "branch_position": len(prefix) if prefix else None,
            "prompt_ids": row.prompt_ids + prefix,
            "token_ids": row.token_ids,
            "logprobs": row.logprobs,
            "text": text,
            "finish_reason": row.finish_reason,
            "seed": row.seed,
            "temperature": row.temperature,
            "correct": grade.correct,
            "code": grade.code,
            "answer": grade.answer,
            "family": grade.family,
            "first_calculation": grade.first_calculation,
            "logprob": row.logprob,
            "entropy": row.entropy,
            "varentropy": row.varentropy,
        }
        for row, prefix, text, grade in zip(ordered, forced, texts, grades, strict=True)
    )


def _prefixes(requests: Sequence[Request]) -> dict[tuple[str, int], tuple[int, ...]]:
    """(problem, sample) → what it was forced to begin with, where it was."""
    return {
        (one.problem_id, one.first_sample + index): one.prefix_ids
        for one in requests
        if one.prefix_ids
        for index in range(one.count)
    }
