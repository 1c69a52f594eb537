"""NOGD: published traces, and what happens around the switch."""

import datasets
import numpy as np
import pytest
from harness import run
from reference import syn_binary, syn_regression, syn_three_classes

from streamlearn.features.compiled import Array
from streamlearn.learners.nystrom import Nogd, leading_eigenpairs
from streamlearn.learners.protocol import Pool, Shape, Task


def test_syn_binary() -> None:
    result = run(Nogd(sigma=1, budget=50, rank=10, eta=0.2), *syn_binary(), Task.BINARY)
    assert result.counts(60) == [18, 32, 48, 59, 66, 80, 92, 103, 116, 127]
    assert np.abs(result.pool["coefficients"][0]).sum() == pytest.approx(10)


def test_syn_three_classes() -> None:
    result = run(Nogd(sigma=1, budget=50, rank=10, eta=0.5), *syn_three_classes(), Task.MULTICLASS, classes=3)
    assert result.counts(60) == [41, 69, 94, 121, 139, 170, 192, 216, 241, 262]


def test_syn_regression() -> None:
    result = run(Nogd(sigma=1, budget=30, rank=6, eta=0.1), *syn_regression(), Task.REGRESSION)
    assert result.mean_squared_loss == pytest.approx(0.182382466227, abs=5e-13)


def test_german_mistakes_of_every_permutation() -> None:
    learner, german = Nogd(sigma=8, budget=100, eta=0.2), datasets.german()
    runs = [run(learner, *german.order(number), Task.BINARY) for number in range(1, 21)]
    assert [int(result.mistakes.sum()) for result in runs] == [
        297, 306, 309, 319, 300, 309, 316, 305, 304, 298, 318, 293, 291, 294, 308, 314, 299, 297, 296, 307
    ]  # fmt: skip
    assert runs[0].counts(100) == [29, 58, 86, 115, 138, 171, 202, 232, 261, 297]


def test_dna_permutation_1() -> None:
    result = run(Nogd(sigma=8, budget=200, eta=0.5), *datasets.dna().order(1), Task.MULTICLASS, classes=3)
    assert result.counts(200) == [91, 148, 186, 222, 262, 293, 327, 358, 393, 430]


def test_housing_mean_and_deviation() -> None:
    learner, housing = Nogd(sigma=8, budget=30, eta=0.3), datasets.housing()
    losses = [run(learner, *housing.order(number), Task.REGRESSION).mean_squared_loss for number in range(1, 21)]
    assert np.mean(losses) == pytest.approx(0.04063, abs=5e-6)
    assert np.std(losses, ddof=1) == pytest.approx(0.00043, abs=5e-6)


def test_the_linear_model_starts_as_the_kernel_model() -> None:
    """With every eigenpair the switch itself changes no output: only the first linear step does."""
    X, y = syn_binary()
    learner = Nogd(sigma=0.5, budget=20, rank=20, eta=0.2)
    events = int(np.argmax(np.cumsum(run(learner, X, y, Task.BINARY).scores[:, 0] * y < 1) == 21)) + 1  # the 21st is the switching event
    switched = run(learner, X[:events], y[:events], Task.BINARY).pool
    kernel_model = run(Nogd(sigma=0.5, budget=21, eta=0.2), X[:events], y[:events], Task.BINARY).pool
    assert switched["switched"][0] == 1
    assert kernel_model["switched"][0] == 0
    # On the support vectors the Nystrom kernel is exact, the first linear step included.
    probes, unlabelled = np.ascontiguousarray(switched["support"][0].T), np.full(20, np.nan)
    scores, expected = np.empty((20, 1)), np.empty((20, 1))
    learner.step(switched, np.zeros(20, np.int64), probes, unlabelled, scores)
    kernel_model.learner.step(kernel_model, np.zeros(20, np.int64), probes, unlabelled, expected)
    np.testing.assert_allclose(scores, expected, atol=1e-9)


def test_any_split_into_batches_gives_the_same_bits() -> None:
    X, y = syn_three_classes()
    learner, slots = Nogd(sigma=1, budget=15), np.arange(len(X)) % 3
    pools, scores = [], []
    for batch in (600, 1, 37):
        pool = Pool(learner, Shape(6, Task.MULTICLASS, np.dtype(np.float32), outputs=3), slots=3)
        published: Array = np.empty((len(X), 3), np.float32)
        for start in range(0, len(X), batch):
            rows = slice(start, start + batch)
            learner.step(pool, slots[rows], X[rows].astype(np.float32), y[rows], published[rows])
        pools.append(pool)
        scores.append(published)
    for pool, published in zip(pools[1:], scores[1:], strict=True):
        np.testing.assert_array_equal(published, scores[0])
        for name in pool.names:
            np.testing.assert_array_equal(pool[name], pools[0][name])


def test_eigenvectors_that_are_rounding_noise_are_left_out() -> None:
    K = np.ones((4, 4))
    K[0, 1:] = K[1:, 0] = 0.5  # three equal support vectors and another one
    values, vectors = leading_eigenpairs(K, 4)
    assert len(values) == 2
    np.testing.assert_allclose(vectors @ np.diag(values) @ vectors.T, K, atol=1e-12)
