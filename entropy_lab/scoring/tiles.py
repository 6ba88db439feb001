"""Where logit tiles come from: the product of hidden states and the head, or logits that exist already.

Shape letters: N tokens, H hidden size, V head rows, n tokens of a block, v ids of a tile.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from entropy_lab.errors import InputError
from entropy_lab.scoring.moments import LOG_2

_CPU_BUDGET, _DEVICE_BUDGET = 48 * 2**20, 192 * 2**20
_CPU_SIDE, _DEVICE_SIDE = 1024, 2048


def tile_shape(tokens: int, hidden_size: int, device: torch.device, itemsize: int) -> tuple[int, int]:
    """Rows and columns of a tile: near-square so that the product is compute-bound, small enough to stay in cache.

    Two tile buffers, two hidden blocks and a cast of the head's rows take at most 48 MiB on a CPU and 192 MiB on
    an accelerator, whose launches cost more than its memory. Few tokens (a decode step) get wider tiles.
    """
    budget, side = (_CPU_BUDGET, _CPU_SIDE) if device.type == "cpu" else (_DEVICE_BUDGET, _DEVICE_SIDE)
    rows = max(1, min(tokens, side))
    columns = side * side // rows
    while (2 * rows * columns + (2 * rows + columns) * hidden_size) * itemsize > budget and rows * columns > 1:
        if columns > rows:
            columns //= 2
        else:
            rows //= 2
    return rows, columns


@dataclass(frozen=True)
class LogitMap:
    """From the product r = hidden·weight to the logits z the softmax sees: z = cap(scale·r + bias)/T."""

    temperature: float
    soft_cap: float | None = None
    scale: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.temperature < float("inf"):
            raise InputError(
                f"temperature must be a positive number, not {self.temperature!r}; greedy decoding has no entropy."
            )
        if self.soft_cap is not None and not 0 < self.soft_cap < float("inf"):
            raise InputError(f"soft_cap must be None or a positive number, not {self.soft_cap!r}.")
        if not -float("inf") < self.scale < float("inf"):
            raise InputError(f"scale must be a finite number, not {self.scale!r}.")


class HeadTiles:
    """Tiles of the product hidden·weight, accumulated and kept in float32 or better, in reused buffers.

    Logits count in powers of two from the start: the factor 1/log 2 goes into the hidden states for nothing.
    """

    unit = LOG_2

    def __init__(self, hidden_NH: Tensor, weight_VH: Tensor, bias_V: Tensor | None, logit_map: LogitMap) -> None:
        self.dtype = torch.float64 if torch.float64 in (hidden_NH.dtype, weight_VH.dtype) else torch.float32
        self._hidden, self._weight, self._bias = hidden_NH, weight_VH, bias_V
        self._cap = logit_map.soft_cap
        self._outer = 1 / (logit_map.temperature * LOG_2)
        self.inner = self._outer if self._cap is None else 1 / self._cap
        """What scale·r + bias is multiplied by before the cap, if any."""
        self._scale = logit_map.scale
        tokens, device = hidden_NH.shape[0], hidden_NH.device
        self.rows, self.columns = tile_shape(tokens, hidden_NH.shape[1], device, self.dtype.itemsize)
        size = self.rows * min(self.columns, weight_VH.shape[0])
        self._buffer, self.scratch = (torch.empty(size, dtype=self.dtype, device=device) for _ in range(2))

    def open(self, first: int, last: int) -> None:
        """Cast and scale the block of hidden states once, so that no tile has to be scaled."""
        self.hidden_nH = self._hidden[first:last].to(self.dtype) * (self._scale * self.inner)

    def weight_rows(self, start: int, stop: int) -> Tensor:
        """Head rows start … stop in the type of the product."""
        return self._weight[start:stop].to(self.dtype)

    def tile(self, start: int, stop: int) -> Tensor:
        """Logits of the open rows for ids start … stop, in the shared buffer."""
        z_nv = self._buffer[: len(self.hidden_nH) * (stop - start)].view(-1, stop - start)
        torch.mm(self.hidden_nH, self.weight_rows(start, stop).T, out=z_nv)
        if self._bias is not None:
            z_nv.add_(self._bias[start:stop].to(self.dtype) * self.inner)
        if self._cap is not None:
            z_nv.tanh_().mul_(self._cap * self._outer)
        return z_nv

    def slope(self, z_nv: Tensor) -> Tensor | float:
        """Derivative of z (in nats) by scale·r + bias: a number, or with a cap, shape (n, v)."""
        if self._cap is None:
            return self.inner * LOG_2
        return (z_nv / (self._cap * self._outer)).square_().neg_().add_(1).mul_(self._outer * LOG_2)


class LogitTiles:
    """Tiles cut from logits that exist already, cast to float32 or better; the temperature waits for the shift."""

    def __init__(self, logits_NV: Tensor, logit_map: LogitMap) -> None:
        dtype = torch.float64 if logits_NV.dtype == torch.float64 else torch.float32
        self.rows, self.columns = tile_shape(logits_NV.shape[0], 0, logits_NV.device, dtype.itemsize)
        size = self.rows * min(self.columns, logits_NV.shape[1])
        self._buffer, self.scratch = (torch.empty(size, dtype=dtype, device=logits_NV.device) for _ in range(2))
        self._logits, self.unit = logits_NV, 1 / logit_map.temperature

    def open(self, first: int, last: int) -> None:
        """Turn to the rows first … last."""
        self._rows = self._logits[first:last]

    def tile(self, start: int, stop: int) -> Tensor:
        """A copy of the open rows' logits for ids start … stop, in the shared buffer."""
        part = self._rows[:, start:stop]
        return self._buffer[: part.numel()].view(part.shape).copy_(part)
