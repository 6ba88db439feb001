"""Brute-force references for diagnostics: loops, subset enumeration and floating point sums, nothing clever."""

import math
from itertools import combinations

import numpy as np


def subsets_at_k(flags, k, enough=1):
    """Share of all k-subsets of `flags` that hold at least `enough` correct ones."""
    draws = list(combinations(flags, k))
    return sum(sum(draw) >= enough for draw in draws) / len(draws)


def majority_by_subsets(answers, correct, k):
    """Mean credit of the majority answer over all k-subsets; ties share, None does not vote."""
    total = 0.0
    subsets = list(combinations(range(len(answers)), k))
    for subset in subsets:
        votes = {}
        for sample in subset:
            if answers[sample] is not None:
                votes.setdefault(answers[sample], []).append(correct[sample])
        if votes:
            most = max(len(v) for v in votes.values())
            winners = [v[0] for v in votes.values() if len(v) == most]
            total += sum(winners) / len(winners)
    return total / len(subsets)


def problem_mean(rows, problem_N, measure):
    """Mean over problems of the mean over a problem's non-empty rows of `measure(row)`."""
    by_problem = {}
    for row, problem in zip(rows, problem_N, strict=True):
        if len(row):
            by_problem.setdefault(int(problem), []).append(measure([float(x) for x in row]))
    return float(np.mean([np.mean(values) for values in by_problem.values()]))


def mean(row):
    return sum(row) / len(row)


def head(row, share=None, first=None):
    count = first if share is None else math.ceil(round(share * len(row), 9))
    return mean(row[:count])


def lowest(row, share):
    return mean(sorted(row)[: math.ceil(round(share * len(row), 9))])


def blocks(rows, picks, gap):
    """(row, start, stop, peak, peak entropy, mean, share) of each block, token by token."""
    found = []
    for index, (row, picked) in enumerate(zip(rows, picks, strict=True)):
        current = []
        runs = []
        for position in picked:
            if current and position - current[-1] > gap:
                runs.append(current)
                current = []
            current.append(position)
        if current:
            runs.append(current)
        for run in runs:
            start, stop = run[0], run[-1] + 1
            inside = [float(x) for x in row[start:stop]]
            peak = start + inside.index(max(inside))
            total = sum(float(x) for x in row)
            found.append(
                (index, start, stop, peak, max(inside), mean(inside), sum(inside) / total if total > 0 else 0.0)
            )
    return found


def pick(rows, kind, value, logprobs=None):
    """Picked positions of each row under a rule, by definition."""
    tokens = [float(x) for row in rows for x in row]
    level = float(np.quantile(np.array(tokens, np.float64), value)) if kind == "quantile" and tokens else value
    result = []
    for index, row in enumerate(rows):
        score = [-float(x) for x in logprobs[index]] if kind == "low-logprob" else [float(x) for x in row]
        if len(score) < 2 or max(score) == min(score):
            result.append([])
        elif kind == "quantile":
            result.append([t for t, h in enumerate(score) if h >= level and h > 0])
        elif kind == "threshold":
            result.append([t for t, h in enumerate(score) if h >= level])
        else:
            ranked = sorted(range(len(score)), key=lambda t: (-score[t], t))
            result.append(sorted(ranked[: int(value)]))
    return result
