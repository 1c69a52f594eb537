"""DualSGD: published trace, the order in which terms move, and the ball of the l2 loss."""

import numpy as np
import pytest
from harness import run
from reference import ParkMiller, syn_binary, syn_regression

from streamlearn.learners.dual_sgd import DualSgd
from streamlearn.learners.protocol import Task

GAMMA_1 = 2**-0.5  # sigma
REG = 2 / 600


def test_syn_logistic() -> None:
    frequencies = 2 * ParkMiller(12345).normal(6, 100)
    learner = DualSgd(sigma=GAMMA_1, reg=REG, budget=50, rank=20, frequencies=100, loss="logistic")
    result = run(learner, *syn_binary(), Task.BINARY, shared={"frequencies": frequencies})
    weights = result.pool["weights"][0, 0] / (REG * 600)
    assert result.counts(60) == [17, 29, 42, 63, 77, 93, 105, 116, 127, 138]
    assert result.pool["size"][0] == 40
    assert np.linalg.norm(weights) == pytest.approx(7.444621368, abs=5e-10)
    assert weights.sum() == pytest.approx(7.621563058, abs=5e-10)


def test_terms_of_one_size_move_oldest_first_and_zeros_before_them() -> None:
    """Far apart events: slope -1 for a label +1 at f = 0. The third is correct with margin 1/reg and has slope 0."""
    X = np.array([[0.0], [100.0], [0.0], [200.0], [300.0], [400.0]])
    learner = DualSgd(sigma=1, reg=0.1, budget=4, rank=2, frequencies=3)
    pool = run(learner, X[:5], np.ones(5), Task.BINARY).pool
    assert sorted(pool["born"][0, : pool["size"][0]]) == [2, 4, 5]
    np.testing.assert_allclose(np.linalg.norm(pool["weights"][0]), 1.0)  # only event 1 moved with a coefficient
    pool = run(learner, X, np.ones(6), Task.BINARY).pool
    assert sorted(pool["born"][0, : pool["size"][0]]) == [2, 4, 5, 6]


def test_l2_stays_in_the_ball() -> None:
    X, y = syn_regression()
    learner = DualSgd(sigma=GAMMA_1, reg=REG, budget=50, loss="l2")
    result = run(learner, X, y, Task.REGRESSION)
    assert np.abs(result.scores).max() <= np.abs(y).max() / np.sqrt(REG) * 1.5  # random features: k(x, x) = 1 up to their error
    assert result.mean_squared_loss < 3


def test_the_norm_kept_for_the_ball_is_the_norm() -> None:
    X, y = syn_regression()
    pool = run(DualSgd(sigma=GAMMA_1, reg=REG, budget=50, loss="l2"), X, y, Task.REGRESSION).pool
    size = int(pool["size"][0])
    support, coefficients = pool["support"][0][:, :size].T, pool["coefficients"][0, :size, 0]
    gram = np.exp(-((support[:, None] - support[None]) ** 2).sum(axis=2))
    assert pool["expansion_norm"][0] == pytest.approx(coefficients @ gram @ coefficients, rel=1e-9)
