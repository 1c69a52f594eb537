"""AVM: published traces (their radius is delta / 2), the room for cores, and the ball of the l2 loss."""

import numpy as np
import pytest
from harness import run
from reference import syn_binary, syn_regression

from streamlearn.features.compiled import Array
from streamlearn.learners.avm import Avm
from streamlearn.learners.protocol import Pool, Shape, Task

GAMMA_1 = 2**-0.5  # sigma
REG = 2 / 600


@pytest.mark.parametrize(
    ("loss", "radius", "cores", "counts"),
    [
        ("hinge", 0.3, 597, [18, 30, 43, 55, 61, 75, 86, 96, 108, 115]),
        ("hinge", 0.8, 205, [18, 34, 48, 62, 73, 86, 97, 106, 118, 126]),
        ("hinge", 1.2, 53, [19, 41, 55, 65, 77, 92, 104, 115, 127, 138]),
        ("logistic", 0.8, 205, [18, 34, 47, 59, 68, 82, 92, 100, 111, 118]),
        ("logistic", 1.2, 53, [16, 35, 46, 57, 69, 85, 96, 106, 120, 128]),
    ],
)
def test_syn_hypersphere(loss: str, radius: float, cores: int, counts: list[int]) -> None:
    result = run(Avm(sigma=GAMMA_1, reg=REG, delta=2 * radius, loss=loss), *syn_binary(), Task.BINARY)
    assert result.counts(60) == counts
    assert result.pool["size"][0] == cores


def test_syn_logistic_small_cells() -> None:
    assert run(Avm(sigma=GAMMA_1, reg=REG, delta=0.6, loss="logistic"), *syn_binary(), Task.BINARY).mistakes.sum() == 113


def test_syn_logistic_sum_of_coefficients() -> None:
    pool = run(Avm(sigma=GAMMA_1, reg=REG, delta=1.6, loss="logistic"), *syn_binary(), Task.BINARY).pool
    assert pool["coefficients"][0].sum() / (REG * 600) == pytest.approx(1.982198466, abs=5e-10)


def test_syn_hyperrectangle() -> None:
    half_side = 0.4
    result = run(Avm(sigma=GAMMA_1, reg=REG, delta=2 * half_side * np.sqrt(6), cell="hyperrectangle"), *syn_binary(), Task.BINARY)
    assert result.mistakes.sum() == 115
    assert result.pool["size"][0] == 386


@pytest.mark.parametrize(("loss", "mean_squared_loss"), [("l1", 6.0263), ("eps", 5.8739)])
def test_syn_regression(loss: str, mean_squared_loss: float) -> None:
    result = run(Avm(sigma=GAMMA_1, reg=REG, delta=1.6, loss=loss), *syn_regression(), Task.REGRESSION)
    assert result.mean_squared_loss == pytest.approx(mean_squared_loss, abs=5e-5)


def test_l2_stays_in_the_ball() -> None:
    X, y = syn_regression()
    result = run(Avm(sigma=GAMMA_1, reg=REG, delta=1.6, loss="l2"), X, y, Task.REGRESSION)
    pool, size = result.pool, int(result.pool["size"][0])
    support, coefficients = pool["support"][0][:, :size].T, pool["coefficients"][0, :size, 0]
    norm = coefficients @ np.exp(-((support[:, None] - support[None]) ** 2).sum(axis=2)) @ coefficients
    assert pool["squared_norm"][0] == pytest.approx(norm, rel=1e-9)
    assert np.sqrt(norm) / (REG * 600) <= np.abs(y).max() / np.sqrt(REG)
    assert np.abs(result.scores).max() <= np.abs(y).max() / np.sqrt(REG)


def test_a_budget_keeps_the_first_cores_and_the_nearest_stands_for_every_event() -> None:
    X, y = syn_binary()
    pool = run(Avm(sigma=GAMMA_1, reg=REG, delta=1e-6, budget=3), X, y, Task.BINARY).pool
    np.testing.assert_array_equal(pool["support"][0], X[:3].T)


def test_any_split_into_batches_gives_the_same_bits() -> None:
    X, y = syn_binary()
    learner, slots = Avm(sigma=1, delta=0.6, beta=2.0), np.arange(len(X)) % 2
    pools, scores = [], []
    for batch in (600, 1, 41):
        pool = Pool(learner, Shape(6, Task.BINARY, np.dtype(np.float32)), slots=2)
        published: Array = np.empty((len(X), 1), np.float32)
        for start in range(0, len(X), batch):
            rows = slice(start, start + batch)
            learner.step(pool, slots[rows], X[rows].astype(np.float32), y[rows], published[rows])
        pools.append(pool)
        scores.append(published)
    for pool, published in zip(pools[1:], scores[1:], strict=True):
        np.testing.assert_array_equal(published, scores[0])
        for name in pool.names:
            np.testing.assert_array_equal(pool[name], pools[0][name])
