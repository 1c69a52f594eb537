"""Running and exact measures of how well scores predict labels. Pure: no learner, no clock, no Kafka."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from streamlearn.features.compiled import Array


def auc(scores: ArrayLike, labels: ArrayLike) -> float:
    """Area under the ROC curve: the share of (positive, negative) pairs in which the positive scores higher, ties counting 1/2.

    scores: finite or infinite numbers [n]; labels [n], positive means > 0. Exact (integer counts, one division) in
    O(n log n). NaN when a class is missing, because then there is no pair. Raises ValueError when the lengths differ or
    a score is NaN.
    """
    score = np.asarray(scores).ravel()
    positive = np.asarray(labels).ravel() > 0
    if len(score) != len(positive):
        raise ValueError(f"{len(score)} scores for {len(positive)} labels; auc needs one score per label")
    if np.isnan(score).any():
        raise ValueError(f"score {int(np.isnan(score).argmax())} is NaN; leave events without a score out of the AUC")
    negatives = np.sort(score[~positive])
    below = np.searchsorted(negatives, score[positive], side="left").sum(dtype=np.int64)
    not_above = np.searchsorted(negatives, score[positive], side="right").sum(dtype=np.int64)
    pairs = len(negatives) * int(positive.sum())
    return (int(below) + int(not_above)) / (2 * pairs) if pairs else math.nan


class Window:
    """The share of mistakes among the last `size` labelled events."""

    def __init__(self, size: int = 1000) -> None:
        self._wrong = np.zeros(size, np.bool_)
        self._seen = 0

    def add(self, wrong: Array) -> None:
        """Add events in order; wrong: bool [n]."""
        size = len(self._wrong)
        recent = wrong[-size:]
        positions = (self._seen + len(wrong) - len(recent) + np.arange(len(recent))) % size
        self._wrong[positions] = recent
        self._seen += len(wrong)

    @property
    def rate(self) -> float:
        """Share of mistakes, 0 before the first event."""
        filled = min(self._seen, len(self._wrong))
        return float(self._wrong[:filled].mean()) if filled else 0.0


class Rates(NamedTuple):
    """What the models of a partition have measured since they began."""

    measured: int  # labelled events
    mistake_rate: float
    majority_rate: float  # mistakes of always answering the most frequent label


def rates(learned: Array, mistakes: Array, label_counts: Array) -> Rates:
    """Rates over models: learned [m], mistakes [m], label_counts [m, classes]."""
    measured = int(learned.sum())
    if not measured:
        return Rates(0, 0.0, 0.0)
    return Rates(measured, float(mistakes.sum() / measured), 1.0 - float(label_counts.sum(axis=0).max() / measured))
