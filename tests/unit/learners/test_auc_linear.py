"""OPAUC, SOLAM and SPAM-NET: their statistics, their gradients against finite differences, and what they reach on real rows."""

from collections.abc import Callable

import numpy as np
import pytest
from datasets import german
from harness import run
from oracles.auc_linear import saddle_function
from reference import Floats, syn_binary

from streamlearn.learners.auc_linear import Opauc, Solam, SpamNet
from streamlearn.learners.protocol import Learner, Task
from streamlearn.quality import auc


def differences(function: Callable[[Floats], float], at: Floats, h: float = 1e-6) -> Floats:
    return np.array([(function(at + e) - function(at - e)) / (2 * h) for e in h * np.eye(len(at))])


def test_opauc_statistics_are_those_of_the_batch() -> None:
    X, y = syn_binary()
    pool = run(Opauc(), X, y, Task.RANKING).pool
    for index, label in enumerate((-1.0, 1.0)):
        rows = X[y == label]
        np.testing.assert_allclose(pool["class_means"][0, index], rows.mean(axis=0), atol=1e-14)
        np.testing.assert_allclose(pool["covariances"][0, index], np.cov(rows.T, bias=True), atol=1e-14)


@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_opauc_step_is_the_gradient_over_all_pairs(label: float) -> None:
    """One event after a history: (w before - w after) / eta against the finite differences of the mean pairwise loss."""
    X, y = syn_binary()
    X, y, x = X[:50], y[:50], X[50]
    before = run(Opauc(eta=0.05), X, y, Task.RANKING).pool["weights"][0, 0]
    after = run(Opauc(eta=0.05), np.vstack([X, x]), np.append(y, label), Task.RANKING).pool["weights"][0, 0]
    loss = differences(lambda w: float(np.mean((1 - label * (x - X[y == -label]) @ w) ** 2) / 2), before)
    np.testing.assert_allclose((before - after) / 0.05, loss, rtol=1e-6)


@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_solam_step_follows_the_saddle_function(label: float) -> None:
    """One event from a given state: descent in w, a and b, ascent in alpha."""
    x, w, saddle = np.array([0.3, -0.2, 0.5]), np.array([0.2, 0.4, -0.1]), np.array([0.3, -0.2, 0.1])
    state = {"weights": w[None], "saddle": saddle, "seen": np.array([3, 2 if label > 0 else 3])}
    seen = state["seen"] + ([0, 1] if label > 0 else [1, 0])
    p, step = seen[1] / seen.sum(), 0.1 / np.sqrt(seen.sum())
    pool = run(Solam(eta=0.1), x[None], np.array([label]), Task.RANKING, state=state).pool

    start = np.concatenate([w, saddle])
    slopes = differences(lambda v: saddle_function(v[:3], v[3], v[4], v[5], x, label, p), start)
    moved = (np.concatenate([pool["weights"][0, 0], pool["saddle"][0]]) - start) / step
    np.testing.assert_allclose(moved, slopes * [-1, -1, -1, -1, -1, 1], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_spam_net_step_follows_the_saddle_function_at_its_solution(label: float) -> None:
    """a and b are the means' scores and alpha their difference; the step is in w alone."""
    X, y = syn_binary()
    X, y, x = X[:50], y[:50], X[50]
    learner = SpamNet(eta=0.05, reg=0.0, l1=0.0)
    before = run(learner, X, y, Task.RANKING).pool
    after = run(learner, np.vstack([X, x]), np.append(y, label), Task.RANKING).pool
    X, y = np.vstack([X, x]), np.append(y, label)
    w = before["weights"][0, 0]
    a, b = X[y > 0].mean(axis=0) @ w, X[y < 0].mean(axis=0) @ w
    slopes = differences(lambda v: saddle_function(v, a, b, b - a, x, label, float(np.mean(y > 0))), w)
    step = 0.05 / np.sqrt(after["steps"][0])
    np.testing.assert_allclose((w - after["weights"][0, 0]) / step, slopes, rtol=1e-6)


def test_spam_net_proximal_step_makes_zeros() -> None:
    X, y = syn_binary()
    weights = run(SpamNet(eta=0.1, l1=0.2), X, y, Task.RANKING).pool["weights"][0, 0]
    assert 0 < np.count_nonzero(weights) < 6


def test_solam_stays_in_its_ball() -> None:
    X, y = syn_binary()
    pool = run(Solam(eta=50.0, radius=0.5), 10 * X, y, Task.RANKING).pool
    assert np.linalg.norm(pool["weights"][0, 0]) <= 0.5 + 1e-12
    assert np.abs(pool["saddle"][0]).max() <= 1.0


@pytest.mark.parametrize("learner", [Opauc(), Solam(), SpamNet()], ids=str)
def test_defaults_rank_german(learner: Learner) -> None:
    """Standardised german, untuned: well above chance after 500 events (a batch logistic regression reaches about 0.79)."""
    X, y = german().order(1)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    scores = run(learner, X, y, Task.RANKING).scores[:, 0]
    assert auc(scores[500:], y[500:]) > 0.7
