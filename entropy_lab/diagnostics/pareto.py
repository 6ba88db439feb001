"""Which of several points no other point beats in every respect."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def pareto(points_ND: ArrayLike) -> NDArray[np.bool_]:
    """Mask (N,) of the points that no other dominates, more being better in each of the D columns.

    A point dominates another if it is at least as good in every column and better in one, so equal points stay
    together. A point with a NaN is never marked and dominates nothing.
    """
    points: NDArray[np.float64] = np.asarray(points_ND, np.float64)
    if not len(points):
        return np.zeros(0, bool)
    as_good_NN = np.all(points[None, :] >= points[:, None], axis=2)
    better_NN = np.any(points[None, :] > points[:, None], axis=2)
    beaten_N: NDArray[np.bool_] = np.any(as_good_NN & better_NN, axis=1) | np.any(np.isnan(points), axis=1)
    return ~beaten_N
