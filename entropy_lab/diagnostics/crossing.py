"""The k at which two checkpoints' pass@k curves cross, with its interval, or that they do not cross up to n."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from entropy_lab.diagnostics.intervals import resample_weights
from entropy_lab.diagnostics.pass_at_k import pass_at_k
from entropy_lab.errors import InputError

Floats = NDArray[np.float64]

_RESAMPLES = 2000


@dataclass(frozen=True)
class Crossing:
    """Where the lead changes: `k` is NaN if it never does up to `up_to`, and `note` says so.

    `k` is interpolated between whole ks. `low` and `high` are percentile bounds over resampled problems; a resample
    without crossing counts as crossing beyond `up_to`, so `high` is infinite where too many have none. `resampled`
    is the share of resamples in which the lead changes. `first_leads` tells who is ahead at small k; `n` counts
    problems.
    """

    k: float
    low: float
    high: float
    up_to: int
    resampled: float
    first_leads: bool | None
    n: int
    note: str


def crossing(
    first_correct_P: ArrayLike,
    first_samples_P: ArrayLike,
    second_correct_P: ArrayLike,
    second_samples_P: ArrayLike,
    *,
    confidence: float = 0.95,
    seed: int = 0,
) -> Crossing:
    """Compare the mean pass@k curves of two checkpoints on the same problems, for every k up to the smallest n.

    Problems are resampled in pairs. Raises InputError where the vectors differ in length.
    """
    counts = [np.asarray(c, np.int64) for c in (first_correct_P, first_samples_P, second_correct_P, second_samples_P)]
    if len({count.shape for count in counts}) != 1:
        raise InputError("A crossing needs the same problems on both sides: align both by problem first.")
    first_correct, first_samples, second_correct, second_samples = counts
    problems = len(first_correct)
    up_to = int(min(first_samples.min(), second_samples.min())) if problems else 0
    if up_to == 0:
        return Crossing(np.nan, np.nan, np.nan, up_to, np.nan, None, problems, "no problem has samples on both sides")
    ks = range(1, up_to + 1)
    lead_PK = pass_at_k(first_correct, first_samples, ks) - pass_at_k(second_correct, second_samples, ks)
    lead_1K = _settle(lead_PK.mean(axis=0, keepdims=True))
    leading = lead_1K[lead_1K != 0]
    if len(leading) == 0:
        return Crossing(np.nan, np.nan, np.nan, up_to, np.nan, None, problems, f"none up to n = {up_to}: curves agree")
    sign = np.sign(leading[0])
    k = float(_crossings(sign * lead_1K)[0])
    resampled_B = np.concatenate(
        [
            _crossings(sign * _settle(weights @ lead_PK / problems))
            for weights in resample_weights(problems, _RESAMPLES, seed)
        ]
    )
    share = float(np.isfinite(resampled_B).mean())
    first_leads = bool(sign > 0)
    if not np.isfinite(k):
        note = f"none up to n = {up_to}; {share:.0%} of the resamples cross"
        return Crossing(np.nan, np.nan, np.nan, up_to, share, first_leads, problems, note)
    tail = (1 - confidence) / 2
    low, high = np.quantile(resampled_B, (tail, 1 - tail), method="inverted_cdf")
    note = "" if np.isfinite(high) else f"upper bound beyond n = {up_to}; {share:.0%} of the resamples cross"
    return Crossing(k, float(low), float(high), up_to, share, first_leads, problems, note)


def _settle(lead: Floats) -> Floats:
    """Differences of rounding size become 0."""
    return np.where(np.abs(lead) < 1e-12, 0.0, lead)


def _crossings(lead_BK: Floats) -> Floats:
    """The k at which each row first falls below 0, interpolated; inf where it never does, 1 where it starts below."""
    below_BK = lead_BK < 0
    at_B = below_BK.argmax(axis=1)
    rows = np.arange(len(lead_BK))
    after_B = lead_BK[rows, at_B]
    before_B = lead_BK[rows, np.maximum(at_B - 1, 0)]
    with np.errstate(invalid="ignore", divide="ignore"):
        inside_B = np.where(at_B > 0, at_B + before_B / (before_B - after_B), 1.0)
    return np.where(below_BK.any(axis=1), inside_B, np.inf)
