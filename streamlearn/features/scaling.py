"""Online scaling of features and regression targets, one set of statistics per model slot."""

import numpy as np

from streamlearn.features.compiled import Array, inlined, kernel

CLIP = 8.0  # standard deviations; one absurd value must not dominate a kernel
LARGEST_FEATURE = 1e140  # features count as at most this, so that sums of squared differences do not overflow
LARGEST_TARGET = 1e30  # targets and predictions count as at most this, so that neither statistics nor float32 scores overflow


@kernel
def standardise(X: Array, learned: Array, slots: Array, count: Array, mean: Array, m2: Array, out: Array) -> None:
    """Welford's update, then (x - mean) / sd clipped to +-CLIP. A row that is not learned is scaled but leaves the statistics alone."""
    for i in range(X.shape[0]):
        s = slots[i]
        if learned[i]:
            count[s] += 1
            for j in range(X.shape[1]):
                x = _bounded(X[i, j])
                difference = x - mean[s, j]
                mean[s, j] += difference / count[s]
                m2[s, j] += difference * (x - mean[s, j])
        for j in range(X.shape[1]):
            z = 0.0
            if m2[s, j] > 0.0:
                z = (_bounded(X[i, j]) - mean[s, j]) / np.sqrt(m2[s, j] / count[s])
            out[i, j] = min(max(z, -CLIP), CLIP)


@kernel
def normalise_range(X: Array, learned: Array, slots: Array, low: Array, high: Array, out: Array) -> None:
    """Running minimum and maximum, then (x - low) / (high - low) clipped to [0, 1]; 0 where only one value was seen."""
    for i in range(X.shape[0]):
        s = slots[i]
        if learned[i]:
            for j in range(X.shape[1]):
                low[s, j] = min(low[s, j], _bounded(X[i, j]))
                high[s, j] = max(high[s, j], _bounded(X[i, j]))
        for j in range(X.shape[1]):
            z = 0.0
            if high[s, j] > low[s, j]:
                z = (_bounded(X[i, j]) - low[s, j]) / (high[s, j] - low[s, j])
            out[i, j] = min(max(z, 0.0), 1.0)


@inlined
def _bounded(x: float) -> float:
    return min(max(x, -LARGEST_FEATURE), LARGEST_FEATURE)


@kernel
def standardise_targets(y: Array, slots: Array, count: Array, mean: Array, m2: Array, out: Array, centres: Array, spreads: Array) -> None:
    """out [n] = (y - mean) / sd clipped to +-CLIP, the event included in both; NaN stays. float64, Welford's update as in `standardise`.

    centres and spreads [n] are mean and sd before the event: its prediction must not know its label.
    """
    for i in range(len(y)):
        s = slots[i]
        centres[i] = mean[s]
        spreads[i] = np.sqrt(m2[s] / max(count[s], 1))
        out[i] = y[i]
        if not np.isnan(y[i]):
            target = min(max(y[i], -LARGEST_TARGET), LARGEST_TARGET)
            count[s] += 1
            difference = target - mean[s]
            mean[s] += difference / count[s]
            m2[s] += difference * (target - mean[s])
            z = (target - mean[s]) / np.sqrt(m2[s] / count[s]) if m2[s] > 0.0 else 0.0
            out[i] = min(max(z, -CLIP), CLIP)


@kernel
def restore_targets(scores: Array, centres: Array, spreads: Array) -> None:
    """scores [n, 1] of standardised targets, in place, to the targets' own units."""
    for i in range(len(scores)):
        score = centres[i] + spreads[i] * scores[i, 0]
        scores[i, 0] = min(max(score, -LARGEST_TARGET), LARGEST_TARGET)
