"""Running and exact measures of how well scores predict labels. Pure: no learner, no clock, no Kafka."""

import math

import numpy as np
from numpy.typing import ArrayLike


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
