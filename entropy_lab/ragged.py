"""Lists of different lengths as one flat array and offsets; numpy only."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike, NDArray


@dataclass(frozen=True)
class Ragged:
    """N rows of different lengths, as Arrow keeps them: row i is `values[offsets[i]:offsets[i + 1]]`."""

    values: NDArray[np.generic]
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Sequence[Sequence[float] | NDArray[np.generic]], dtype: DTypeLike | None = None) -> "Ragged":
        """Build from a sequence of rows."""
        arrays = [np.asarray(row, dtype=dtype) for row in rows]
        offsets = np.zeros(len(arrays) + 1, np.int64)
        np.cumsum([len(array) for array in arrays], out=offsets[1:])
        values = np.concatenate(arrays) if arrays else np.zeros(0, dtype)
        return cls(values, offsets)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Length of each row, shape (N,)."""
        return np.diff(self.offsets)

    def row_ids(self) -> NDArray[np.int64]:
        """Row index of each value, shape (values,)."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def positions(self) -> NDArray[np.int64]:
        """Position of each value within its row, shape (values,)."""
        return np.arange(len(self.values)) - np.repeat(self.offsets[:-1], self.lengths)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> NDArray[np.generic]:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    def __iter__(self) -> Iterator[NDArray[np.generic]]:
        return (self[row] for row in range(len(self)))
