"""What several workflows ask alike: which problems, and the settings that decide the rollouts and so name a run."""

from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from entropy_lab.checkpoints import Checkpoint
from entropy_lab.engines import ENGINES
from entropy_lab.engines.protocol import Request, Sampling
from entropy_lab.errors import InputError
from entropy_lab.progress import Progress
from entropy_lab.prompts import prompt_mode
from entropy_lab.runs import Run, file_digest, versions
from entropy_lab.tasks.protocol import Problem, Task


def check_counts(problems: int | None, samples: int, ks: Sequence[int] | None, sampling: Sampling, engine: str) -> None:
    """Refuse counts, ks, a temperature or an engine that no number can be made of.

    Raises:
        InputError: naming the option and what to do.
    """
    if samples < 1:
        raise InputError(f"--samples is {samples}; at least 1 is needed.")
    if problems is not None and problems < 1:
        raise InputError(f"--problems is {problems}; at least 1 is needed.")
    for k in ks or ():
        if not 1 <= k <= samples:
            raise InputError(
                f"--k asks for pass@{k} from {samples} samples a problem: k must be from 1 to the number of "
                "samples (the number of problems does not help); raise --samples or lower --k."
            )
    if sampling.temperature == 0 and samples > 1:
        raise InputError(
            f"--temperature 0 gives {samples} equal samples, so pass@k and variety have no meaning; "
            "use --samples 1 or a temperature above 0."
        )
    if engine not in ENGINES:
        raise InputError(f"There is no engine {engine!r}; choose one of {', '.join(ENGINES)}.")


def announce(checkpoints: Sequence[Checkpoint], progress: Progress) -> None:
    """Say what was loaded, and which sampling defaults of its own are not used."""
    for checkpoint in checkpoints:
        progress.note(checkpoint.describe())
        if checkpoint.generation_defaults:
            progress.note(
                f"{checkpoint.name}: its own sampling defaults are not used: {dict(checkpoint.generation_defaults)}"
            )


def chosen_problems(task: Task, count: int | None) -> list[Problem]:
    """The first `count` problems (all if None), each with an id of its own.

    Raises:
        InputError: the task's problems cannot be read, there are none, or two share an id.
    """
    try:
        problems = list(task.problems())[:count]
    except InputError:
        raise
    except Exception as error:  # a user's task may raise anything
        raise InputError(f"Task {task.name}: problems() fails ({type(error).__name__}: {error}).") from error
    if not problems:
        raise InputError(f"Task {task.name} has no problems.")
    odd = next((one for one in problems if not isinstance(one, Problem)), None)
    if odd is not None:
        raise InputError(f"Task {task.name}: problems() gave {odd!r:.80}; it must give entropy_lab.Problem objects.")
    repeated = [name for name, times in Counter(problem.id for problem in problems).items() if times > 1]
    if repeated:
        raise InputError(f"Task {task.name}: several problems have the id {repeated[0]!r}; give each its own.")
    return problems


def checkpoint_settings(checkpoint: Checkpoint, prompt: str, requests: Sequence[Request]) -> dict[str, Any]:
    """What of a checkpoint decides its rollouts; prompts and prefixes count by their content."""
    return {
        "name": checkpoint.name,
        "fingerprint": checkpoint.fingerprint,
        "prompt": prompt_mode(checkpoint, prompt),
        "prompt_ids": digest([(one.problem_id, one.prompt_ids, *forced(one)) for one in requests]),
        "end_ids": list(checkpoint.end_ids),
        "device": checkpoint.device.type,
        "dtype": str(checkpoint.dtype).removeprefix("torch."),
    }


def forced(request: Request) -> tuple[object, ...]:
    """What a request fixes beyond its prompt; nothing for plain sampling."""
    return (request.prefix_ids, request.stream) if request.prefix_ids or request.stream else ()


def task_settings(task: Task, source: str, problems: int) -> dict[str, Any]:
    """The task by name and by the content of its file, so that an edited task never continues an old run."""
    return {"name": task.name, "source": Path(source).name, "problems": problems, "file": file_digest(source)}


def deciding_versions() -> dict[str, str]:
    """Versions of the libraries that decide what is sampled."""
    return {name: found for name, found in versions().items() if name in ("entropy-lab", "torch", "transformers")}


def digest(content: object) -> str:
    """Sixteen hex digits that name plain content."""
    return sha256(repr(content).encode()).hexdigest()[:16]


def rows_of(run: Run, name: str) -> int | None:
    """Rows a batch of an earlier start of this run, so that its batches come out the same."""
    rows = run.record.get("rows", {}).get(name)
    return None if rows is None else int(rows)
