"""The ceiling law of reward and entropy: R = −a·e^H + b, fitted along a training run (Cui et al. 2025)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

FEWEST = 5
"""Points below which nothing is fitted (ours)."""


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class CeilingLaw:
    """`ceiling` = b − a is the reward at H = 0, where entropy is spent; `r2` the share of variance explained."""

    a: Estimate
    b: Estimate
    ceiling: Estimate
    r2: float
    n: int


def fit_ceiling(entropy: ArrayLike, reward: ArrayLike) -> CeilingLaw | str:
    """Linear least squares of reward on (−e^H, 1); or, as text, why there is no fit.

    Intervals are t intervals. Along a run residuals follow one another, so their variance is widened by
    (1 + ρ)/(1 − ρ) for a lag-one correlation ρ > 0, as for an autoregressive series (ours). H = log 2, R = 14 and
    H = 0, R = 38 lie on a = 24, b = 62.
    """
    H, R = np.asarray(entropy, np.float64), np.asarray(reward, np.float64)
    known = np.isfinite(H) & np.isfinite(R)
    H, R = H[known], R[known]
    n = len(H)
    if n < FEWEST:
        return f"{n} points with entropy and reward, {FEWEST} needed"
    if np.ptp(H) < 1e-9:
        return "entropy is the same everywhere"
    X = np.stack([-np.exp(H), np.ones(n)], axis=1)
    solution, *_ = np.linalg.lstsq(X, R, rcond=None)
    residual = R - X @ solution
    total = float(((R - R.mean()) ** 2).sum())
    scale = float(residual @ residual) / (n - 2) * _widening(residual)
    covariance = scale * np.linalg.inv(X.T @ X)
    half = float(stats.t.ppf(0.975, n - 2))

    def estimate(weights: tuple[float, float]) -> Estimate:
        w = np.array(weights)
        value, error = float(w @ solution), half * float(np.sqrt(max(w @ covariance @ w, 0.0)))
        return Estimate(value, value - error, value + error)

    r2 = 1 - float(residual @ residual) / total if total > 0 else float("nan")
    return CeilingLaw(estimate((1, 0)), estimate((0, 1)), estimate((-1, 1)), r2, n)


def _widening(residual: NDArray[np.float64]) -> float:
    power = float(residual @ residual)
    if power <= 0:
        return 1.0
    rho = min(max(float(residual[:-1] @ residual[1:]) / power, 0.0), 0.99)
    return (1 + rho) / (1 - rho)
