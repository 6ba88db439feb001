"""One GRPO iteration, 24 prompts × 8 on builtin:sft, generation and two updates: ours against TRL's GRPOTrainer.

    python benchmarks/training.py --iterations 10

Same model in float32, prompts, grader, sampling, optimizer and learning rate; two passes over the batch; TRL without
gradient checkpointing. TRL lives in an environment of its own, whose interpreter is --peer-python (torch==2.13.0
trl==1.16.0). Contestants take turns; the ratio is the median over turns. Memory is how far a process rises in an
iteration above what it held before the first. Run with nothing else on the machine.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PEER_PYTHON = ROOT / ".venv-peers" / "bin" / "python"
PROMPTS, SAMPLES, LENGTH, RATE = 24, 8, 40, 5e-5


def memory_mib(field: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise KeyError(field)


class Turns:
    """A contestant's side of the table: waits for its turn before each iteration, tells how it went after it."""

    def __init__(self) -> None:
        self.began = 0.0
        self.base: float | None = None

    def begin(self) -> None:
        sys.stdin.readline()
        if self.base is None:
            Path("/proc/self/clear_refs").write_text("5")
            self.base = memory_mib("VmRSS")
        self.began = time.perf_counter()

    def end(self, tokens: float) -> None:
        assert self.base is not None
        told = {"seconds": time.perf_counter() - self.began, "mib": memory_mib("VmHWM") - self.base, "tokens": tokens}
        print("turn " + json.dumps(told), file=sys.__stdout__, flush=True)


def ours(iterations: int) -> None:
    """Our loop as a user runs it, with its log, event files and rollouts, without evaluations."""
    from entropy_lab.training.recipe_files import load_recipe
    from entropy_lab.training.view import SilentView
    from entropy_lab.workflows.train import train

    turns = Turns()

    class Watch(SilentView):
        def start(self, recipe: Any, done: int) -> None:
            self.tokens = 0.0
            turns.begin()

        def iteration(self, metrics: Any) -> None:
            turns.end(metrics["sampled_tokens"] - self.tokens)
            self.tokens = metrics["sampled_tokens"]
            if metrics["step"] < iterations:
                turns.begin()

    changes = [f"steps={iterations}", "evaluation.every=0", "save.every=1000000", f"optimizer.learning_rate={RATE}"]
    with tempfile.TemporaryDirectory() as folder:
        train(load_recipe("grpo", changes), Path(folder) / "run", view=Watch())


def peer(iterations: int) -> None:
    """TRL's trainer on the same problems."""
    sys.path.insert(0, str(ROOT))
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    from entropy_lab.tasks.loading import load_task

    task = load_task("countdown-train")
    problems = {problem.id: problem for problem in task.problems()}
    rows = [{"prompt": task.messages(problem), "problem": name} for name, problem in problems.items()]
    folder = ROOT / "entropy_lab" / "builtin" / "checkpoints" / "sft"
    turns, lengths = Turns(), []

    def reward(completions: Any, completion_ids: Any, problem: Any, **_: Any) -> list[float]:
        lengths.append(sum(map(len, completion_ids)))
        texts = [completion[0]["content"] for completion in completions]
        pairs = zip(problem, texts, strict=True)
        return [float(task.grade(problems[name], text.removesuffix("<end>")).correct is True) for name, text in pairs]

    class Watch(TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step % 2 == 0:
                turns.begin()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step % 2 == 0:
                turns.end(lengths[-1])

    with tempfile.TemporaryDirectory() as out:
        settings = GRPOConfig(
            output_dir=out,
            per_device_train_batch_size=PROMPTS * SAMPLES,
            num_generations=SAMPLES,
            steps_per_generation=1,
            num_iterations=2,
            max_steps=2 * iterations,
            max_completion_length=LENGTH,
            learning_rate=RATE,
            lr_scheduler_type="constant",
            weight_decay=0.0,
            loss_type="grpo",
            gradient_checkpointing=False,
            bf16=False,
            use_cpu=True,
            dataloader_pin_memory=False,
            report_to=[],
            save_strategy="no",
            logging_steps=10**6,
            disable_tqdm=True,
        )
        model = AutoModelForCausalLM.from_pretrained(folder, dtype="float32")
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=reward,
            args=settings,
            train_dataset=Dataset.from_list(rows),
            processing_class=AutoTokenizer.from_pretrained(folder, padding_side="left"),
            callbacks=[Watch()],
        )
        sys.stdout = sys.stderr  # the trainer prints its summary
        trainer.train()


class Contestant:
    """A process that takes its turns."""

    def __init__(self, python: str, role: str, iterations: int) -> None:
        command = [python, __file__, "--role", role, "--iterations", str(iterations)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)

    def turn(self) -> dict[str, float]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("turn "):
                return dict(json.loads(line.removeprefix("turn ")))
        raise SystemExit("A contestant ended early; its messages stand above.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=10, help="timed turns; two more come first")
    parser.add_argument("--peer-python", default=str(PEER_PYTHON))
    parser.add_argument("--role", choices=["ours", "peer"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.role is not None:
        (ours if arguments.role == "ours" else peer)(arguments.iterations)
        return
    warm = 2
    pythons = {"ours": sys.executable, "peer": arguments.peer_python}
    there = {role: python for role, python in pythons.items() if Path(python).exists()}
    players = {role: Contestant(python, role, arguments.iterations + warm) for role, python in there.items()}
    turns: dict[str, list[dict[str, float]]] = {role: [] for role in players}
    for _ in range(arguments.iterations + warm):
        for role, player in players.items():
            turns[role].append(player.turn())
    print(f"{'':<18}{'s an iteration':>16}{'tokens sampled':>16}{'peak MiB':>10}")
    for role, rows in turns.items():
        name = {"ours": "entropy-lab", "peer": "TRL 1.16"}[role]
        seconds = statistics.median(row["seconds"] for row in rows[warm:])
        tokens = statistics.median(row["tokens"] for row in rows[warm:])
        print(f"{name:<18}{seconds:>16.2f}{tokens:>16,.0f}{max(row['mib'] for row in rows):>10,.0f}")
    if "peer" in turns:
        pairs = zip(turns["peer"][warm:], turns["ours"][warm:], strict=True)
        ratios = sorted(theirs["seconds"] / mine["seconds"] for theirs, mine in pairs)
        print(f"TRL takes {statistics.median(ratios):.2f} × our time (turns: {ratios[0]:.2f} to {ratios[-1]:.2f})")


if __name__ == "__main__":
    main()
