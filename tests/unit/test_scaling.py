"""Online scaling against its plain definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from streamlearn.features.compiled import Array
from streamlearn.features.scaling import CLIP, normalise_range, standardise

ROWS = arrays(np.float64, st.tuples(st.integers(1, 20), st.integers(1, 4)), elements=st.floats(-1e6, 1e6, width=32))


def standardised(X: Array, labelled: Array) -> Array:
    """Each row by the mean and population standard deviation of the labelled rows up to and including it."""
    out = np.zeros_like(X)
    for i, row in enumerate(X):
        seen = X[: i + 1][labelled[: i + 1]]
        if len(seen):
            spread = seen.std(axis=0)
            known = spread > 1e-9 * (1 + np.abs(seen).max(axis=0))
            out[i, known] = np.clip((row - seen.mean(axis=0))[known] / spread[known], -CLIP, CLIP)
    return out


@settings(max_examples=100, deadline=None, derandomize=True)
@given(X=ROWS, seed=st.integers(0, 1000))
def test_standardise(X: Array, seed: int) -> None:
    labelled = np.random.RandomState(seed).uniform(size=len(X)) < 0.8
    d = X.shape[1]
    out = np.empty_like(X)
    standardise(X, labelled, np.zeros(len(X), np.int64), np.zeros(1, np.int64), np.zeros((1, d)), np.zeros((1, d)), out)
    expected = standardised(X, labelled)
    steady = expected != 0
    assert out[steady] == pytest.approx(expected[steady], rel=1e-5, abs=1e-5)
    assert np.abs(out).max() <= CLIP


@settings(max_examples=100, deadline=None, derandomize=True)
@given(X=ROWS)
def test_normalise_range(X: Array) -> None:
    d = X.shape[1]
    out = np.empty_like(X)
    normalise_range(X, np.ones(len(X), np.bool_), np.zeros(len(X), np.int64), np.full((1, d), np.inf), np.full((1, d), -np.inf), out)
    for i, row in enumerate(X):
        low, high = X[: i + 1].min(axis=0), X[: i + 1].max(axis=0)
        spread = np.where(high > low, high - low, 1.0)
        assert out[i] == pytest.approx(np.where(high > low, (row - low) / spread, 0.0))
