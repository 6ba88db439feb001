"""What a report shows, as plain data: made by a workflow, read by figures, page and terminal summary."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from entropy_lab.diagnostics.metric import Metric

if TYPE_CHECKING:
    from entropy_lab.reports.style import Drawing  # needs matplotlib, which a terminal summary does without

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """A line with its band; `low` and `high` are NaN where no interval exists. `n` counts units at each x."""

    x: Floats
    value: Floats
    low: Floats
    high: Floats
    n: NDArray[np.int64]

    @classmethod
    def empty(cls) -> "Curve":
        """The curve of what was not measured."""
        none = np.zeros(0)
        return cls(none, none, none, none, np.zeros(0, np.int64))


@dataclass(frozen=True)
class Alternative:
    """A token the policy could have written instead."""

    text: str
    probability: float


@dataclass(frozen=True)
class TokenView:
    """One token as shown: `text` pieces joined give the decoded completion."""

    text: str
    entropy: float
    logprob: float
    alternatives: tuple[Alternative, ...] = ()


@dataclass(frozen=True)
class BlockView:
    """A decision block: tokens `start` to `stop` (exclusive), entropies in nats, its `share` of all the entropy."""

    start: int
    stop: int
    peak_entropy: float
    mean_entropy: float
    share: float
    characters: tuple[int, int] = (0, 0)
    """Its span in the decoded completion."""


@dataclass(frozen=True)
class TrajectoryView:
    """One trajectory as text, with what each token cost."""

    checkpoint: str
    problem_id: str
    question: str
    sample_index: int
    correct: bool | None
    code: str
    answer: str | None
    finish_reason: str
    tokens: tuple[TokenView, ...]
    blocks: tuple[BlockView, ...]


@dataclass(frozen=True)
class DecisionToken:
    """A token text that opens decision blocks: how often, its share of all blocks, its mean entropy there (nats)."""

    text: str
    count: int
    share: float
    mean_entropy: float


@dataclass(frozen=True)
class CheckpointDiagnosis:
    """All that is shown of one checkpoint."""

    name: str
    metrics: tuple[Metric, ...]
    entropy_by_position: Curve
    entropy_by_decile: Curve
    entropy_histogram: tuple[Floats, NDArray[np.int64]]
    """Bin edges in nats (B + 1) and token counts (B)."""
    pass_at_k: Curve
    decision_tokens: tuple[DecisionToken, ...]
    trajectories: tuple[TrajectoryView, ...]
    """The trajectories shown, a selection of those measured."""
    problems: int = 0
    """Problems measured; 0 where unknown, and then nothing is said of it."""
    samples: int | None = None
    """Samples of each problem; None where problems differ or it is unknown."""
    trajectory_count: int = 0
    """Trajectories measured, of which `trajectories` are shown; 0 where unknown."""

    @classmethod
    def of_metrics(
        cls,
        name: str,
        metrics: Sequence[Metric],
        problems: int = 0,
        samples: int | None = None,
        trajectory_count: int = 0,
    ) -> "CheckpointDiagnosis":
        """A checkpoint, or an arm of an experiment, of which only numbers are shown: no curves, no trajectories."""
        nothing, histogram = Curve.empty(), (np.zeros(1), np.zeros(0, np.int64))
        return cls(
            name, tuple(metrics), nothing, nothing, histogram, nothing, (), (), problems, samples, trajectory_count
        )


@dataclass(frozen=True)
class Diagnosis:
    """A whole run: its checkpoints or arms, and their paired differences."""

    title: str
    task: str
    checkpoints: tuple[CheckpointDiagnosis, ...]
    differences: tuple[Metric, ...] = ()
    """First minus second, named by the metric; `checkpoint` is "first - second", so there may be several pairs."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Seeds, effective sampling, versions, fingerprints: what `run.json` holds."""
    notes: tuple[str, ...] = ()
    """Things a reader must know: truncation, grader failures, what was left out."""
    early_tokens: int = 8
    """The m of `entropy.early`: how many first tokens of a completion count as early."""
    confidence: float = 0.95
    """Level of every interval in `metrics`, `differences` and curves."""
    drawings: tuple["Drawing", ...] = ()
    """Figures of the command's own, shown before the standard ones and in place of one with the same name."""
