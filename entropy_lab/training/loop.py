"""The training loop: explore → update → adapt → evaluate → keep, until the recipe's last step or a stop rule.

Knows no method: what happens in each place is a piece of the recipe. A run killed at any instant continues from its
last checkpoint and ends with the same weights and metrics.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from entropy_lab.checkpoints import Checkpoint, save_checkpoint
from entropy_lab.diagnostics.metric import Metric
from entropy_lab.engines.protocol import Engine
from entropy_lab.files import write_json
from entropy_lab.training import state
from entropy_lab.training.adapters import merged
from entropy_lab.training.assembly import Assembly, method_of
from entropy_lab.training.batch import batch_of
from entropy_lab.training.exploration import Explored
from entropy_lab.training.metrics_log import append, forget_after
from entropy_lab.training.recipe import Optimizer, Recipe
from entropy_lab.training.recipe_files import with_field
from entropy_lab.training.rollout import rollouts_table
from entropy_lab.training.sampled import sampled_metrics
from entropy_lab.training.stopping import StopRule, check
from entropy_lab.training.trackers import Trackers
from entropy_lab.training.view import View

Evaluate = Callable[[Checkpoint, Engine, str], Sequence[Metric]]


@dataclass(frozen=True)
class Trained:
    """How a run ended: after how many steps, by which stop rule if by one, and which checkpoints it left."""

    folder: Path
    step: int
    stopped: str | None
    checkpoints: tuple[Path, ...]
    metrics: Mapping[str, float | None]


def learning_rate(optimizer: Optimizer, step: int, steps: int) -> float:
    """Linear warm-up, then constant, or a cosine from the peak to a tenth of it; `step` counts from 0."""
    if step < optimizer.warmup_steps:
        return optimizer.learning_rate * (step + 1) / optimizer.warmup_steps
    if optimizer.schedule == "constant":
        return optimizer.learning_rate
    share = (step - optimizer.warmup_steps) / max(1, steps - optimizer.warmup_steps)
    return optimizer.learning_rate * (0.55 + 0.45 * math.cos(math.pi * share))


class Loop:
    """One process's stretch of a run."""

    def __init__(
        self,
        recipe: Recipe,
        parts: Assembly,
        folder: Path,
        *,
        evaluate: Evaluate | None,
        rules: Sequence[StopRule],
        view: View,
        trackers: Trackers,
    ) -> None:
        self.recipe = recipe
        self.parts = parts
        self.folder = folder
        self.rules = rules
        self.view = view
        self.trackers = trackers
        self.log = folder / "metrics.jsonl"
        self.evaluate = evaluate
        self.flat = False
        self.done = state.Progressed(memories={one.piece: one.start() for one in recipe.controllers})

    def run(self, last: Path | None) -> Trained:
        """Iterate from `last`, or from the start, to the end."""
        if last is not None:
            self._continue(last)
        forget_after(self.log, self.done.step)
        self.view.start(self.recipe, self.done.step)
        metrics: dict[str, float | None] = {}
        if last is None and self.evaluate is not None:
            metrics = self._told({"step": 0, **self._evaluated(self.evaluate, 0)})
            check([rule for rule in self.rules if rule.evaluated], metrics)  # a name that does not exist is said now
        stopped = None
        while self.done.step < self.recipe.steps:
            metrics = self._told(self._iterate())
            broken = check(self.rules, metrics)
            if broken is not None:
                stopped = str(broken)
                self.view.note(f"stopped after step {self.done.step}: {stopped}")
                break
            self._keep()
        kept = sorted(path.parent for path in (self.folder / "checkpoints").glob("[!.]*/config.json"))
        return Trained(self.folder, self.done.step, stopped, tuple(kept), metrics)

    def _iterate(self) -> dict[str, float | None]:
        """One iteration; its metrics."""
        began = time.monotonic()
        step, parts = self.done.step, self.parts
        recipe = self._adapted()
        rate = learning_rate(recipe.optimizer, step, recipe.steps)
        for group in parts.optimizer.param_groups:
            group["lr"] = rate
        if parts.lagged is not None:
            parts.lagged.advance()
        parts.world.begin(step)
        explored = recipe.exploration(parts.world, self.done.position)
        for note in explored.notes:
            self.view.note(f"step {step + 1}: {note}")
        batch = batch_of(explored.rollouts, parts.checkpoint.device)
        metrics: dict[str, float | None] = {**sampled_metrics(explored, parts.world), **explored.metrics}
        metrics |= parts.updater(batch, method_of(recipe))
        self._say_if_flat(len(batch), metrics)
        self._keep_rollouts(explored, step + 1)
        self.done.step = step + 1
        self.done.position = explored.position
        self.done.sampled_tokens += parts.world.sampled_tokens
        known = {name: value for name, value in metrics.items() if value is not None}
        for one in recipe.controllers:
            self.done.memories[one.piece] = one(self.done.memories[one.piece], known)
            metrics |= {f"controllers.{name}": value for name, value in self.done.memories[one.piece].items()}
        seconds = time.monotonic() - began
        metrics |= {
            "learning_rate": rate,
            "sampled_tokens": self.done.sampled_tokens,
            "tokens_per_second": parts.world.sampled_tokens / seconds,
            "seconds": seconds,
        }
        every = recipe.evaluation.every
        if self.evaluate is not None and (self.done.step % every == 0 or self.done.step == recipe.steps):
            metrics |= self._evaluated(self.evaluate, self.done.step)
        return {"step": self.done.step, **metrics}

    def _say_if_flat(self, rows: int, metrics: dict[str, float | None]) -> None:
        """Say, once a process, that an iteration had nothing to learn from."""
        if not self.flat and (not rows or (self.recipe.advantage and metrics.get("groups.degenerate") == 1)):
            self.flat = True
            what = "no group has rewards that differ" if rows else "no trajectory can be trained on"
            self.view.note(
                f"step {self.done.step + 1}: {what}, so nothing is learned from them (this is said once); ask more "
                "samples of a prompt, or problems that the policy solves now and then."
            )

    def _adapted(self) -> Recipe:
        """The recipe with the controllers' values in it."""
        recipe = self.recipe
        for memory in self.done.memories.values():
            for path, value in memory.items():
                if "." in path:
                    recipe = with_field(recipe, path, value)
        return recipe

    def _evaluated(self, evaluate: Evaluate, step: int) -> dict[str, float | None]:
        found = evaluate(self.parts.checkpoint, self.parts.engine, f"step {step}")
        write_json(self.folder / "evaluations" / f"step-{step:05d}.json", [asdict(metric) for metric in found])
        return evaluation_values(found)

    def _told(self, metrics: dict[str, float | None]) -> dict[str, float | None]:
        """Write an iteration's metrics down and show them."""
        written = append(self.log, metrics)
        self.trackers.log(self.done.step, written)
        self.view.iteration(written)
        return written

    def _keep(self) -> None:
        """Checkpoints that are due after this step."""
        save, step = self.recipe.save, self.done.step
        parts = self.parts
        for name, depth in save.rungs.items():
            if depth == step:
                save_checkpoint(
                    merged(parts.checkpoint.model),
                    parts.checkpoint.tokenizer,
                    self.folder / "checkpoints" / name,
                    dtype=torch.float16,
                )
        if step % save.every == 0 or step == self.recipe.steps:
            state.save_state(
                state.step_folder(self.folder, step),
                merged(parts.checkpoint.model),
                parts.checkpoint.tokenizer,
                parts.parameters,
                parts.optimizer,
                self.done,
                parts.lagged.tensors() if parts.lagged is not None else {},
            )
            state.prune(self.folder, save.keep)

    def _keep_rollouts(self, explored: Explored, step: int) -> None:
        every = self.recipe.save.rollouts_every
        if every and step % every == 0 and self.recipe.exploration.asks_policy:
            table = rollouts_table([*explored.others, *explored.rollouts], f"step {step}")
            table.write(self.folder / "rollouts" / f"part-{step:05d}.parquet")

    def _continue(self, last: Path) -> None:
        self.done, extra = state.load_state(last, self.parts.parameters, self.parts.optimizer)
        if self.parts.lagged is not None:
            self.parts.lagged.restore(extra)
        self.view.note(f"continuing after step {self.done.step}")


def evaluation_values(metrics: Sequence[Metric]) -> dict[str, float | None]:
    """An evaluation's values under the names of `metrics.jsonl`."""
    return {f"evaluation.{metric.metric}": metric.value for metric in metrics}
