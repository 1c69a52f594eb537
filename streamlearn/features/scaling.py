"""Online scaling of features, one set of statistics per model slot."""

import numpy as np

from streamlearn.features.compiled import Array, kernel

CLIP = 8.0  # standard deviations; one absurd value must not dominate a kernel


@kernel
def standardise(X: Array, learned: Array, slots: Array, count: Array, mean: Array, m2: Array, out: Array) -> None:
    """Welford's update, then (x - mean) / sd clipped to +-CLIP. A row that is not learned is scaled but leaves the statistics alone."""
    for i in range(X.shape[0]):
        s = slots[i]
        if learned[i]:
            count[s] += 1
            for j in range(X.shape[1]):
                difference = X[i, j] - mean[s, j]
                mean[s, j] += difference / count[s]
                m2[s, j] += difference * (X[i, j] - mean[s, j])
        for j in range(X.shape[1]):
            z = 0.0
            if m2[s, j] > 0.0:
                z = (X[i, j] - mean[s, j]) / np.sqrt(m2[s, j] / count[s])
            out[i, j] = min(max(z, -CLIP), CLIP)


@kernel
def normalise_range(X: Array, learned: Array, slots: Array, low: Array, high: Array, out: Array) -> None:
    """Running minimum and maximum, then (x - low) / (high - low) clipped to [0, 1]; 0 where only one value was seen."""
    for i in range(X.shape[0]):
        s = slots[i]
        if learned[i]:
            for j in range(X.shape[1]):
                low[s, j] = min(low[s, j], X[i, j])
                high[s, j] = max(high[s, j], X[i, j])
        for j in range(X.shape[1]):
            z = 0.0
            if high[s, j] > low[s, j]:
                z = (X[i, j] - low[s, j]) / (high[s, j] - low[s, j])
            out[i, j] = min(max(z, 0.0), 1.0)
