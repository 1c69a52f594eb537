"""The width of a kernel, found from the first events of a model: sigma = "auto"."""

import numpy as np

from streamlearn.features.compiled import Array, kernel

ROWS = 32  # labelled events after which the width is fixed; the median of their 496 distances is known to some per cent
FACTOR = 0.7  # width over median distance: best on average over learners and streams, see benchmarks/results/defaults.md
CLASSES_FACTOR = 0.45  # the same for more than two classes, whose regions are smaller
LARGEST = 1e30  # divided features stay within +-this, so that differences of float32 numbers stay finite


@kernel
def divide_by_width(
    X: Array, learned: Array, slots: Array, factor: float, manhattan: bool, rows: Array, count: Array, width: Array, out: Array,
) -> None:  # fmt: skip
    """out = X / width of each row's model, width being `factor` times the median distance between its first ROWS labelled events.

    It is found anew when a labelled event makes their number a power of two, before that event is divided, and fixed at ROWS; until
    then rows [slots, ROWS, dim] keeps them, afterwards zeros. Pairs of equal events do not count, and while there is no other pair the
    width stays what it was (float64 [slots]). Distances are Euclidean, or the sum of absolute differences if `manhattan`.
    """
    for i in range(X.shape[0]):
        s = slots[i]
        if learned[i] and count[s] < ROWS:
            for j in range(X.shape[1]):
                rows[s, count[s], j] = X[i, j]
            count[s] += 1
            if count[s] & (count[s] - 1) == 0:
                distance = _median_distance(rows[s, : count[s]], manhattan)
                width[s] = factor * distance if distance > 0.0 else width[s]
            if count[s] == ROWS:
                rows[s] = 0.0
        for j in range(X.shape[1]):
            out[i, j] = min(max(X[i, j] / width[s], -LARGEST), LARGEST)


@kernel
def _median_distance(rows: Array, manhattan: bool) -> float:
    """Of the pairs of rows that differ; 0 if none do."""
    count = len(rows)
    distances = np.empty(count * (count - 1) // 2)
    found = 0
    for a in range(count):
        for b in range(a):
            distance = 0.0
            for j in range(rows.shape[1]):
                difference = float(rows[a, j]) - float(rows[b, j])
                distance += abs(difference) if manhattan else difference * difference
            if 0.0 < distance < np.inf:
                distances[found] = distance if manhattan else np.sqrt(distance)
                found += 1
    return float(np.median(distances[:found])) if found else 0.0
