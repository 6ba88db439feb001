"""Weights of some iterations ago, to sample with: how far off-policy a run may go before it suffers."""

import copy
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from entropy_lab.checkpoints import Checkpoint


class Lagged:
    """A copy of `checkpoint` that follows its weights `staleness` iterations behind (or has the first ones)."""

    def __init__(self, checkpoint: Checkpoint, staleness: int) -> None:
        self.checkpoint = replace(checkpoint, model=copy.deepcopy(checkpoint.model))
        self._staleness = staleness
        self._newest = dict(checkpoint.model.named_parameters())
        self._waiting: list[dict[str, Tensor]] = []

    def advance(self) -> None:
        """Take the weights of now into the queue, and give the copy those that are due."""
        self._waiting.append({name: parameter.detach().clone() for name, parameter in self._newest.items()})
        due = self._waiting.pop(0) if len(self._waiting) > self._staleness else self._waiting[0]
        with torch.no_grad():
            for name, parameter in self.checkpoint.model.named_parameters():
                parameter.copy_(due[name])

    def tensors(self) -> dict[str, Tensor]:
        """The queue, for the run's state."""
        return {f"{place}/{name}": tensor for place, one in enumerate(self._waiting) for name, tensor in one.items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Put the queue back."""
        self._waiting = [{} for _ in range(len(tensors) // len(self._newest))]
        for key, tensor in tensors.items():
            place, name = key.split("/", 1)
            self._waiting[int(place)][name] = tensor.to(self._newest[name].device)
