"""Online scaling against its plain definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from streamlearn.evaluation.study import spec_for
from streamlearn.events.files import Arrays
from streamlearn.features.compiled import Array
from streamlearn.features.scaling import CLIP, LARGEST_TARGET, normalise_range, restore_targets, standardise, standardise_targets
from streamlearn.learners.fourier import Fogd
from streamlearn.learners.pairwise import OgdPair
from streamlearn.learners.pipeline import Pipeline, Scaling, TargetScaling
from streamlearn.learners.protocol import Pool, Shape, Task

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


def standardised_targets(y: Array) -> tuple[Array, Array, Array]:
    count, mean, m2 = np.zeros(1, np.int64), np.zeros(1), np.zeros(1)
    out, centres, spreads = np.empty_like(y), np.empty_like(y), np.empty_like(y)
    standardise_targets(y, np.zeros(len(y), np.int64), count, mean, m2, out, centres, spreads)
    return out, centres, spreads


def test_targets_are_scaled_by_those_so_far_and_predictions_by_those_before() -> None:
    y = 1000.0 + 50.0 * np.random.default_rng(0).normal(size=40)
    y[[0, 7, 20]] = np.nan
    out, centres, spreads = standardised_targets(y)
    for i in range(len(y)):
        before, so_far = y[:i][~np.isnan(y[:i])], y[: i + 1][~np.isnan(y[: i + 1])]
        assert centres[i] == pytest.approx(before.mean() if len(before) else 0.0)
        assert spreads[i] == pytest.approx(before.std() if len(before) else 0.0, abs=1e-6)
        if np.isnan(y[i]):
            assert np.isnan(out[i])
        elif len(so_far) > 1:
            assert out[i] == pytest.approx((y[i] - so_far.mean()) / so_far.std())
        else:
            assert out[i] == 0.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_targets_and_scores_stay_finite(dtype: type) -> None:
    y = np.array([0.0, 1e300, -1e300, 1e-300, 5.0])
    out, centres, spreads = standardised_targets(y)
    scores: Array = np.full((5, 1), np.finfo(dtype).max, dtype)
    restore_targets(scores, centres, spreads)
    assert np.isfinite([*out, *centres, *spreads, *scores[:, 0]]).all()
    assert np.abs(scores).max() <= np.float64(dtype(LARGEST_TARGET))


def test_a_pipeline_learns_standardised_targets_in_their_own_units() -> None:
    generator = np.random.default_rng(1)
    X = generator.normal(size=(600, 3))
    y = 5e4 + 3e3 * np.sin(X[:, 0])
    studies = {}
    for scaling in ("none", "standard"):
        pipeline = Pipeline(learner=Fogd(frequencies=50), target_scaling=scaling)
        pool = Pool(pipeline, Shape(3, Task.REGRESSION, np.dtype(np.float64)), slots=1)
        scores = np.empty((len(X), 1))
        pipeline.step(pool, np.zeros(len(X), np.int64), X, y, scores)
        studies[scaling] = float(np.mean((scores[100:, 0] - y[100:]) ** 2)) / y.var()
    assert studies["standard"] < 0.3
    assert studies["none"] > 2 * studies["standard"]


def test_backtests_scale_targets_with_the_features_or_not_at_all() -> None:
    arrays = Arrays(np.eye(3), np.arange(3.0), None)
    expected: dict[Scaling, TargetScaling] = {"none": "none", "standard": "standard", "min-max": "standard"}
    for scaling, targets in expected.items():
        spec, _ = spec_for(Fogd(), Task.REGRESSION, arrays, "float32", scaling)
        assert (spec.pipeline.scaling, spec.pipeline.target_scaling) == (scaling, targets)


def test_only_regression_has_targets_to_scale() -> None:
    for task in Task:
        shape = Shape(3, task, np.dtype(np.float32))
        assert ("target_mean" in Pipeline(learner=OgdPair() if task is Task.RANKING else Fogd()).fields(shape)) == (task is Task.REGRESSION)
