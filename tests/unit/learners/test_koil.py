"""KOIL: its step is a gradient step in the kernel's space, budgets are kept, and it ranks what a linear learner cannot."""

import numpy as np
import pytest
from datasets import german
from harness import run
from reference import Floats, syn_binary

from streamlearn.learners.koil import Koil
from streamlearn.learners.pairwise import OgdPair
from streamlearn.learners.protocol import Learner, Pool, Task
from streamlearn.quality import auc

SIGMA = 3**0.5  # gamma = 1/d of the synthetic stream

VARIANTS = [
    Koil(sigma=SIGMA, budget=20, replacement=replacement, compensate=compensate)
    for replacement in ("fifo", "reservoir")
    for compensate in (False, True)
]  # fmt: skip


def gaussian(A: Floats, B: Floats, sigma: float) -> Floats:
    return np.asarray(np.exp(-np.sum((A[:, None] - B[None]) ** 2, axis=2) / (2 * sigma**2)))


def expansion(pool: Pool) -> tuple[Floats, Floats, Floats]:
    """Support vectors [n, dim], coefficients [n] and labels [n] of the pool's only model."""
    size = int(pool["size"][0])
    return pool["support"][0, :, :size].T, pool["coefficients"][0, :size, 0], np.where(pool["label"][0, :size] == 1, 1.0, -1.0)


@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_step_is_a_gradient_step_in_the_kernel_space(label: float) -> None:
    """K (alpha' - alpha) = -eta dJ/dalpha for J = |f|^2 / 2 + C sum over the chosen pairs of their hinge loss."""
    X, y = syn_binary()
    X, y, x = X[:30], y[:30], X[30]
    learner = Koil(sigma=1.0, neighbours=3, eta=0.02, C=2.0)
    _, old, labels = expansion(run(learner, X, y, Task.RANKING).pool)
    everything, new, _ = expansion(run(learner, np.vstack([X, x]), np.append(y, label), Task.RANKING).pool)
    K = gaussian(everything, everything, 1.0)
    old = np.append(old, 0.0)

    f = K @ old
    misranked = [b for b in np.flatnonzero(labels == -label) if 1 - label * (f[-1] - f[b]) > 0]
    chosen = sorted(misranked, key=lambda b: -K[-1, b])[:3]

    def objective(alpha: Floats) -> float:
        f = K @ alpha
        return float(alpha @ f / 2 + 2.0 * sum(1 - label * (f[-1] - f[b]) for b in chosen))

    slopes = [(objective(old + h) - objective(old - h)) / 2e-6 for h in 1e-6 * np.eye(len(old))]
    np.testing.assert_allclose(K @ (new - old), -0.02 * np.array(slopes), atol=1e-8)


@pytest.mark.parametrize("learner", VARIANTS, ids=str)
def test_state_describes_one_expansion(learner: Koil) -> None:
    """Budgets hold, kernel values match the vectors, and the next score is the expansion at the next event."""
    X, y = syn_binary()
    pool = run(learner, X[:400], y[:400], Task.RANKING).pool
    vectors, coefficients, labels = expansion(pool)
    assert pool["stored"][0].tolist() == [20, 20]
    assert [int(np.sum(labels == label)) for label in (-1.0, 1.0)] == [20, 20]
    np.testing.assert_allclose(pool["gram"][0], gaussian(vectors, vectors, SIGMA), rtol=1e-12)
    score = run(learner, X[:401], y[:401], Task.RANKING).scores[400, 0]
    assert score == pytest.approx((coefficients @ gaussian(vectors, X[400:401], SIGMA))[0])


def test_fifo_stores_the_newest() -> None:
    X, y = syn_binary()
    learner = Koil(budget=20, replacement="fifo", C=1e-6)  # every event is misranked, so every event is stored
    vectors, _, labels = expansion(run(learner, X[:400], y[:400], Task.RANKING).pool)
    for label in (-1.0, 1.0):
        newest = X[:400][y[:400] == label][-20:]
        assert {tuple(row) for row in vectors[labels == label]} == {tuple(row) for row in newest}


def test_compensation_keeps_the_weight_of_each_class() -> None:
    """Without shrinkage, KOIL++ keeps what it drops: the coefficients add up as if nothing had ever been dropped."""
    X, y = syn_binary()
    kept = expansion(run(Koil(budget=10, eta=1e-9, C=1e3), X, y, Task.RANKING).pool)[1]
    plain = expansion(run(Koil(budget=10, eta=1e-9, C=1e3, compensate=False), X, y, Task.RANKING).pool)[1]
    unlimited = expansion(run(Koil(budget=600, eta=1e-9, C=1e3), X, y, Task.RANKING).pool)[1]
    assert np.sum(kept) == pytest.approx(np.sum(unlimited), abs=1e-9)
    assert abs(np.sum(plain) - np.sum(unlimited)) > 1e-5


@pytest.mark.parametrize("learner", [Koil(), Koil(replacement="fifo"), Koil(budget=600)], ids=str)
def test_ranks_what_a_linear_learner_cannot(learner: Learner) -> None:
    X, y = syn_binary()
    scores = run(learner, X, y, Task.RANKING).scores[:, 0]
    linear = run(OgdPair(), X, y, Task.RANKING).scores[:, 0]
    assert auc(scores[300:], y[300:]) > auc(linear[300:], y[300:]) > 0.7


def test_defaults_rank_german() -> None:
    X, y = german().order(1)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    scores = run(Koil(sigma=12**0.5), X, y, Task.RANKING).scores[:, 0]
    assert auc(scores[500:], y[500:]) > 0.68
