"""What groups of rollouts can teach at a rate of success: their variance, and how often they teach nothing.

p success rate of a problem, g group size, c of n samples right. Shape letter: P problems. Numpy only.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

Floats = NDArray[np.float64]


def group_variance(p: ArrayLike, g: int) -> Floats:
    """E[variance of rewards within a group] = p(1 − p)(g − 1)/g, variances with divisor g; p = .02, g = 8: .01715."""
    rate = np.asarray(p, np.float64)
    return rate * (1 - rate) * (g - 1) / g


def degenerate_share(p: ArrayLike, g: int) -> Floats:
    """P(all of a group right, or all wrong) = p^g + (1 − p)^g."""
    rate = np.asarray(p, np.float64)
    return rate**g + (1 - rate) ** g


def degenerate_estimate(correct_P: ArrayLike, graded_P: ArrayLike, g: int) -> Floats:
    """Unbiased estimate of `degenerate_share` from c of n ≥ g samples: [C(c, g) + C(n − c, g)]/C(n, g); else NaN."""
    c, n = np.asarray(correct_P, np.float64), np.asarray(graded_P, np.float64)
    whole = _log_choose(np.maximum(n, g), g)
    found = np.exp(_log_choose(c, g) - whole) + np.exp(_log_choose(n - c, g) - whole)
    return np.where(n >= g, found, np.nan)


def variance_estimate(correct_P: ArrayLike, graded_P: ArrayLike, g: int) -> Floats:
    """Unbiased estimate of `group_variance` from c of n ≥ 2 samples, since c(n − c)/(n(n − 1)) has mean p(1 − p)."""
    c, n = np.asarray(correct_P, np.float64), np.asarray(graded_P, np.float64)
    found = c * (n - c) / np.where(n > 1, n * (n - 1), np.nan)
    return found * (g - 1) / g


def critical_rate(g: int) -> float:
    """p*(g) = 1 − 2^(−1/g), where half of all groups are all wrong; g = 4, 8, 16: .1591, .0830, .0424."""
    return float(-np.expm1(-np.log(2) / g))


def _log_choose(n: Floats, k: int) -> Floats:
    """log C(n, k), −∞ where n < k."""
    room = np.maximum(n - k, 0)
    return np.where(n >= k, gammaln(n + 1) - gammaln(k + 1) - gammaln(room + 1), -np.inf)
