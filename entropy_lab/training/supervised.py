"""Supervised training of a small fresh model on Countdown solutions: the straight line from a recipe to its rungs.

The loss is the next-token cross-entropy (nats) over completion tokens, mean over all of them in the batch.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from entropy_lab.checkpoints import save_checkpoint
from entropy_lab.errors import InputError
from entropy_lab.files import write_bytes
from entropy_lab.progress import Progress, Silent
from entropy_lab.tasks.countdown.rules import Rules
from entropy_lab.tasks.countdown.task import LADDER_RULES, Countdown, countdown_problem
from entropy_lab.training.countdown_corpus import SolvedCorpus, build_corpus
from entropy_lab.training.number_tokenizer import END, number_tokenizer
from entropy_lab.training.recipe import ModelShape, Optimizer, Recipe
from entropy_lab.training.state import load_state, save_state

STATE_EVERY = 100
LOG_EVERY = 10


@dataclass(frozen=True)
class Batch:
    """Right-padded token ids (B, L) and targets (B, L): the next token where it belongs to a completion, else −100."""

    tokens_BL: torch.Tensor
    targets_BL: torch.Tensor


def train_supervised(recipe: Recipe, out: Path, progress: Progress | None = None) -> list[Path]:
    """Run `recipe` into folder `out`; continues where an earlier run of the same recipe stopped.

    Leaves one Hugging Face folder a rung (`out/NAME`, 16-bit weights), `test.jsonl` with the held-out problems,
    `metrics.jsonl` and `recipe.json`. Returns the rung folders.

    Raises:
        InputError: `out` holds the run of another recipe.
    """
    progress = progress or Silent()
    out.mkdir(parents=True, exist_ok=True)
    _claim(recipe, out)
    rules = LADDER_RULES
    corpus = build_corpus(recipe.corpus, rules, recipe.seed)
    _write_test_problems(corpus, recipe.seed, out / "test.jsonl")
    tokenizer = number_tokenizer(rules.max_value or recipe.corpus.largest_target)
    model = fresh_model(recipe.model, tokenizer, recipe.seed)
    optimizer = torch.optim.AdamW(
        model.parameters(), recipe.optimizer.learning_rate, weight_decay=recipe.optimizer.weight_decay
    )
    state = out / "state.safetensors"
    done = load_state(state, model, optimizer) if state.is_file() else 0
    _forget_after(out / "metrics.jsonl", done)
    progress.note(f"{sum(p.numel() for p in model.parameters()):,} parameters, {len(corpus.train):,} training problems")

    with progress.stage(f"train {recipe.name}", recipe.steps, "step", done) as stage:
        for step in range(done, recipe.steps):
            examples = corpus.examples(recipe.seed, step, recipe.optimizer.batch_size)
            loss, norm = _update(model, optimizer, encode(examples, tokenizer, rules), recipe, step)
            finished = step + 1
            if finished % LOG_EVERY == 0:
                with (out / "metrics.jsonl").open("a", encoding="utf-8") as log:
                    log.write(json.dumps({"step": finished, "loss": loss, "gradient_norm": norm}) + "\n")
            for name, depth in recipe.rungs.items():
                if finished == depth:
                    save_checkpoint(model, tokenizer, out / name, dtype=torch.float16)
            if finished % STATE_EVERY == 0 or finished == recipe.steps:
                save_state(state, model, optimizer, finished)
            stage.advance()
    return [out / name for name, depth in recipe.rungs.items() if depth <= recipe.steps]


def fresh_model(shape: ModelShape, tokenizer: PreTrainedTokenizerFast, seed: int) -> LlamaForCausalLM:
    """A randomly initialised Llama with tied embeddings, its vocabulary the tokenizer's."""
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=shape.hidden_size,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_value_heads,
        intermediate_size=shape.intermediate_size,
        max_position_embeddings=shape.context,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config)


def encode(
    examples: Sequence[tuple[tuple[int, ...], int, str]], tokenizer: PreTrainedTokenizerFast, rules: Rules
) -> Batch:
    """Token ids and targets of (numbers, target, answer) examples; the prompt is the one the ladder is asked with."""
    task = Countdown((), "steps", rules)
    prompts = [
        tokenizer.apply_chat_template(task.messages(countdown_problem(nums, target)), tokenize=False)
        for nums, target, _ in examples
    ]
    prompt_ids = tokenizer(prompts, add_special_tokens=False)["input_ids"]
    answer_ids = tokenizer([answer + END for _, _, answer in examples], add_special_tokens=False)["input_ids"]
    width = max(len(prompt) + len(answer) for prompt, answer in zip(prompt_ids, answer_ids, strict=True)) - 1
    tokens_BL = torch.full((len(examples), width), tokenizer.pad_token_id)
    targets_BL = torch.full((len(examples), width), -100)
    for row, (prompt, answer) in enumerate(zip(prompt_ids, answer_ids, strict=True)):
        ids = torch.tensor(prompt + answer)
        tokens_BL[row, : len(ids) - 1] = ids[:-1]
        targets_BL[row, len(prompt) - 1 : len(ids) - 1] = ids[len(prompt) :]
    return Batch(tokens_BL, targets_BL)


def learning_rate(optimizer: Optimizer, step: int, steps: int) -> float:
    """Linear warm-up, then cosine from the peak to a tenth of it."""
    if step < optimizer.warmup_steps:
        return optimizer.learning_rate * (step + 1) / optimizer.warmup_steps
    progress = (step - optimizer.warmup_steps) / max(1, steps - optimizer.warmup_steps)
    return optimizer.learning_rate * (0.55 + 0.45 * math.cos(math.pi * progress))


def _update(
    model: LlamaForCausalLM, optimizer: torch.optim.Optimizer, batch: Batch, recipe: Recipe, step: int
) -> tuple[float, float]:
    """One step; returns the loss (nats a token) and the gradient norm before clipping."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(recipe.optimizer, step, recipe.steps)
    # Padding stands right of every completion, so the causal mask alone keeps it out.
    hidden_BLH = model.model(input_ids=batch.tokens_BL, use_cache=False).last_hidden_state
    taught_BL = batch.targets_BL != -100
    loss = cross_entropy(model.lm_head(hidden_BLH[taught_BL]).float(), batch.targets_BL[taught_BL])
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.optimizer.clip_norm)
    optimizer.step()
    return loss.item(), norm.item()


def _claim(recipe: Recipe, out: Path) -> None:
    """Mark `out` as this recipe's, or refuse when it is another's."""
    effective = recipe.model_dump_json(indent=2)
    path = out / "recipe.json"
    if path.is_file() and path.read_text(encoding="utf-8") != effective:
        raise InputError(f"{out} holds a run of another recipe ({path}); give another --out or delete it.")
    write_bytes(path, effective.encode())


def _forget_after(log: Path, step: int) -> None:
    """Drop log lines of steps that a killed run had not yet saved; a torn last line goes with them."""
    if not log.is_file():
        return
    kept = []
    for line in log.read_text(encoding="utf-8").splitlines():
        if not line.endswith("}") or json.loads(line)["step"] > step:
            break
        kept.append(line + "\n")
    write_bytes(log, "".join(kept).encode())


def _write_test_problems(corpus: SolvedCorpus, seed: int, path: Path) -> None:
    generator = np.random.default_rng(seed)
    rows = [
        json.dumps(
            {
                "nums": generator.permutation(problem.nums).tolist(),
                "target": problem.target,
                "format": "steps",
                "rules": {name: value for name, value in asdict(corpus.rules).items() if value != getattr(Rules, name)},
            }
        )
        for problem in corpus.test
    ]
    write_bytes(path, ("\n".join(rows) + "\n").encode())
