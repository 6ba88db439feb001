"""A recipe: everything that decides a training run, as tables of TOML, each checked field by field."""

from typing import Annotated, Literal, Self

from pydantic import Field, InstanceOf, model_validator

from entropy_lab.training.advantages import AdvantageStep
from entropy_lab.training.controllers import Controller
from entropy_lab.training.exploration import Exploration
from entropy_lab.training.objectives import Objective
from entropy_lab.training.penalties import Penalty
from entropy_lab.training.piece import Section
from entropy_lab.training.rewards import Reward

Positive = Annotated[int, Field(gt=0)]
NotNegative = Annotated[int, Field(ge=0)]
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
RungName = Annotated[str, Field(pattern=NAME, max_length=100)]


class ModelShape(Section):
    """A fresh Llama-architecture model; heads × 32 or 64 = hidden size (vLLM's CPU kernels want these head sizes)."""

    hidden_size: Positive
    layers: Positive
    heads: Positive
    key_value_heads: Positive
    intermediate_size: Positive
    context: Positive = 128
    largest_number: Positive = 225
    """Its tokenizer has one token for each number up to this."""

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        if self.hidden_size % self.heads or self.heads % self.key_value_heads:
            raise ValueError("hidden_size must be a multiple of heads, and heads of key_value_heads")
        return self


class Start(Section):
    """What training begins from: a checkpoint, or a fresh model of a shape."""

    checkpoint: str = "builtin:sft"
    fresh: ModelShape | None = None
    """Takes the place of `checkpoint`."""
    device: str = "auto"
    trust_remote_code: bool = False


class Data(Section):
    """What is asked: a task by name, as `--task` everywhere, its first `problems` (all if absent)."""

    task: str = "countdown-train"
    problems: Positive | None = None
    prompt: Literal["auto", "chat", "raw"] = "auto"


class Optimizer(Section):
    """AdamW and how a batch is cut into updates."""

    learning_rate: Annotated[float, Field(gt=0, le=1e3)] = 5e-5
    warmup_steps: NotNegative = 0
    schedule: Literal["constant", "cosine"] = "constant"
    """`cosine` falls to a tenth of the peak at the last step."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.999)
    clip_norm: Annotated[float, Field(gt=0)] = 1.0
    epochs: Positive = 1
    """Passes over an iteration's batch."""
    minibatches: Positive = 1
    """Updates a pass."""
    token_budget: Positive = 16_384
    """Prompt and completion tokens in one forward pass; changes memory, not the gradient."""


class Drawing(Section):
    """How completions are drawn."""

    temperature: Annotated[float, Field(ge=1e-3, le=1e3)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: NotNegative = 0
    max_new_tokens: Positive = 40
    staleness: NotNegative = 0
    """Sample with the weights of this many iterations ago."""


class Numerics(Section):
    """Number formats of the training pass; weights, log-probs and losses are float32 in any case."""

    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    softmax_fix: bool = True
    """Give the sampled token's logit the gradient that makes its row sum to 0 where rounding would lose it."""


class Lora(Section):
    """Low-rank adapters in place of full fine-tuning; checkpoints hold the merged weights."""

    rank: Positive = 16
    alpha: Annotated[float, Field(gt=0)] = 32.0
    targets: Annotated[tuple[str, ...], Field(min_length=1)] | Literal["all-linear"] = "all-linear"


class Teacher(Section):
    """A second checkpoint whose log-probs an advantage step compares the policy's with; same tokenizer."""

    checkpoint: str
    device: str = "auto"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Of its weights."""
    trust_remote_code: bool = False


class Evaluation(Section):
    """A small evaluation every so many steps (0: never), also before the first and after the last."""

    every: NotNegative = 25
    task: str = "countdown"
    problems: Positive = 80
    samples: Positive = 32
    seed: int = 1_000_003


class Save(Section):
    """Checkpoints every so many steps, of which the last `keep` stay; rungs are named and always stay."""

    every: Positive = 25
    keep: Positive = 2
    rungs: dict[RungName, Positive] = Field(default_factory=dict)
    """Name (of a folder) → the step after which the checkpoint is kept, in 16 bits, if the run is that long."""
    rollouts_every: NotNegative = 1
    """Keep the trajectories of every so many iterations; 0 keeps none."""
    trackers: tuple[Literal["tensorboard", "wandb", "trackio"], ...] = ("tensorboard",)


class Recipe(Section):
    """One training run."""

    name: Annotated[str, Field(pattern=NAME, max_length=100)]
    """Of the run's folder, where no other is given."""
    steps: Positive
    seed: NotNegative = 0
    start: Start = Start()
    data: Data = Data()
    exploration: InstanceOf[Exploration]
    rewards: tuple[InstanceOf[Reward], ...] = ()
    advantage: tuple[InstanceOf[AdvantageStep], ...] = ()
    objective: InstanceOf[Objective]
    penalties: tuple[InstanceOf[Penalty], ...] = ()
    controllers: tuple[InstanceOf[Controller], ...] = ()
    optimizer: Optimizer = Optimizer()
    sampling: Drawing = Drawing()
    numerics: Numerics = Numerics()
    lora: Lora | None = None
    teacher: Teacher | None = None
    evaluation: Evaluation = Evaluation()
    save: Save = Save()

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        taken = [name for name in self.save.rungs if name.startswith("step-")]
        if taken:
            raise ValueError(f"rung {taken[0]} has the name of a step's own checkpoint; choose another")
        if self.exploration.asks_policy and not self.rewards:
            raise ValueError("an exploration that samples needs at least one of [[rewards]]")
        if self.objective.needs_old and not self.advantage:
            raise ValueError("this objective weighs log-probs by an advantage; give [[advantage]]")
        asking = next((one.piece for one in self.advantage if one.needs_teacher), None)
        if asking and self.teacher is None:
            raise ValueError(f"advantage step {asking} needs a teacher; name one in [teacher] checkpoint")
        return self
