"""DualSVRG: no published trace can be trusted, so it is held to what its equations imply."""

from typing import Literal

import numpy as np
import pytest
from harness import run
from oracles.dual_svrg import DualSvrg as Oracle
from oracles.dual_svrg import play
from reference import syn_binary, syn_three_classes

from streamlearn.features.compiled import Array
from streamlearn.features.fourier import draw_frequencies
from streamlearn.learners.dual_svrg import ANCHOR, MODEL, DualSvrg
from streamlearn.learners.protocol import Pool, Shape, Task

LOSSES: tuple[Literal["smooth-hinge", "logistic"], ...] = ("smooth-hinge", "logistic")


@pytest.mark.parametrize("loss", LOSSES)
def test_with_a_memory_of_one_it_is_gradient_descent_whatever_the_anchor(loss: Literal["smooth-hinge", "logistic"]) -> None:
    X, y = syn_binary()
    learner = DualSvrg(oracle="always-move", frequencies=50, memory=1, period=1000, loss=loss, eta=0.3, reg=0.01)
    anchor = np.zeros((4, 1, 100))
    anchor[ANCHOR] = np.random.RandomState(5).normal(size=(1, 100))
    anchored = run(learner, X, y, Task.BINARY, state={"weights": anchor})

    angles = X @ draw_frequencies(6, 50, learner.seed)
    Z = np.concatenate([np.cos(angles), np.sin(angles)], axis=1) / np.sqrt(50)
    w, expected = np.zeros(100), np.empty(len(X))
    for t, (z, label) in enumerate(zip(Z, y, strict=True)):
        expected[t] = w @ z
        margin = label * expected[t]
        slope = -1 / (1 + np.exp(margin)) if loss == "logistic" else -np.clip((1 - margin) / 0.5, 0, 1)
        w = (w - 0.3 * slope * label * z) / (1 + 0.3 * 0.01)
    np.testing.assert_allclose(anchored.scores[:, 0], expected, atol=1e-10)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_budget_for_every_event_equals_the_brute_force_kernel_expansion(loss: Literal["smooth-hinge", "logistic"]) -> None:
    X, y = (rows[:120] for rows in syn_three_classes())
    learner = DualSvrg(budget=120, memory=20, period=30, loss=loss, eta=0.5, reg=0.02)
    oracle = Oracle(
        Task.MULTICLASS, np.empty((6, 0)), outputs=3, declared=3, oracle="budget", budget=120, theta=1, memory=20, period=30, loss=loss,
        eta=0.5, reg=0.02, sigma=1,
    )  # fmt: skip
    np.testing.assert_allclose(run(learner, X, y, Task.MULTICLASS, classes=3).scores, play(oracle, X, y), atol=1e-10)


def test_always_moving_approaches_the_kernel_expansion_with_more_features() -> None:
    X, y = syn_binary()
    exact = run(DualSvrg(budget=600, memory=50, period=50, eta=0.2, reg=0.01), X, y, Task.BINARY).scores
    few, many = (
        run(DualSvrg(oracle="always-move", frequencies=count, memory=50, period=50, eta=0.2, reg=0.01), X, y, Task.BINARY).scores
        for count in (100, 10_000)
    )
    assert np.abs(many - exact).mean() < 0.03 * np.abs(exact).mean()
    assert np.abs(many - exact).mean() < 0.2 * np.abs(few - exact).mean()


@pytest.mark.parametrize("oracle", ["budget", "coverage", "always-move"])
def test_after_every_period_the_model_is_the_mean_of_its_iterates(oracle: Literal["budget", "coverage", "always-move"]) -> None:
    """The iterates of a period come from a twin that starts from the same state and never closes a period."""
    X, y = syn_binary()
    learner, endless = (DualSvrg(oracle=oracle, budget=30, frequencies=10, memory=15, period=n, eta=0.3, theta=0.9) for n in (20, 10**6))
    shape = Shape(6, Task.BINARY, np.dtype(np.float64))
    pool, twin = Pool(learner, shape, slots=1), Pool(endless, shape, slots=1)
    slot, scores = np.zeros(1, np.int64), np.empty((1, 1))
    for period in range(4):
        twin.write(0, pool.read(0))
        iterates: dict[str, list[Array]] = {"coefficients": [], "weights": []}
        for t in range(20 * period, 20 * period + 20):
            endless.step(twin, slot, X[t : t + 1], y[t : t + 1], scores)
            learner.step(pool, slot, X[t : t + 1], y[t : t + 1], scores)
            for name, models in iterates.items():
                models.append(twin[name][0, MODEL].copy())
        for name, models in iterates.items():
            np.testing.assert_allclose(pool[name][0, MODEL], np.mean(models, axis=0), atol=1e-12)
            np.testing.assert_array_equal(pool[name][0, ANCHOR], pool[name][0, MODEL])


def test_coverage_opens_a_core_farther_than_theta_from_all_others() -> None:
    X = np.array([[0.0], [0.9], [1.0], [1.1], [3.0], [2.0]])
    pool = run(DualSvrg(oracle="coverage", theta=1.0), X, np.ones(6), Task.BINARY).pool
    np.testing.assert_array_equal(pool["support"][0][0, : pool["size"][0]], [0.0, 1.1, 3.0])


def test_step_size_of_the_experiments() -> None:
    assert DualSvrg(smoothness=2.0).step_size == pytest.approx(0.00658, abs=5e-6)
    assert DualSvrg(eta=0.3).step_size == 0.3
