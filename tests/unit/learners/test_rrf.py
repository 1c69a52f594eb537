"""RRF: published traces, gradients against finite differences, and its limit without learned widths."""

import numpy as np
import pytest
from harness import Run, run
from oracles.losses import margin_loss, slopes
from oracles.rrf import Rrf as Oracle
from reference import Floats, ParkMiller, syn_binary, syn_regression, syn_three_classes

from streamlearn.learners.fourier import Fogd
from streamlearn.learners.protocol import Task
from streamlearn.learners.rrf import Rrf


def reference_run(loss: str, eta: float, eta_scale: float) -> Run:
    draws = ParkMiller(12345)
    weights = 0.01 * draws.normal(1, 200)
    draws.normal(6, 100)  # the program draws a matrix that it does not use
    learner = Rrf(frequencies=100, sigma=1, eta=eta, eta_scale=eta_scale, loss=loss)
    return run(learner, *syn_binary(), Task.BINARY, shared={"noise": draws.normal(6, 100)}, state={"weights": weights})


@pytest.mark.parametrize(
    ("loss", "eta", "eta_scale", "counts", "norm"),
    [
        ("hinge", 0.003, 0.0001, [22, 40, 57, 64, 71, 85, 97, 106, 118, 124], 0.8382046963),
        ("hinge", 0.01, 0.001, [19, 38, 50, 61, 69, 84, 94, 104, 119, 125], 1.479708449),
        ("logistic", 0.01, 0.001, [19, 34, 47, 55, 62, 75, 84, 94, 107, 114], 1.248716318),
    ],
)
def test_syn(loss: str, eta: float, eta_scale: float, counts: list[int], norm: float) -> None:
    result = reference_run(loss, eta, eta_scale)
    assert result.counts(60) == counts
    assert np.linalg.norm(result.pool["weights"][0]) == pytest.approx(norm, rel=1e-9)


@pytest.mark.parametrize(
    ("loss", "eta", "eta_scale", "mistakes", "norm"),
    [("hinge", 0.01, 0.0, 123, 1.482276969), ("logistic", 0.003, 0.0001, 127, 0.6689269619)],
)
def test_syn_totals(loss: str, eta: float, eta_scale: float, mistakes: int, norm: float) -> None:
    result = reference_run(loss, eta, eta_scale)
    assert result.mistakes.sum() == mistakes
    assert np.linalg.norm(result.pool["weights"][0]) == pytest.approx(norm, rel=1e-9)


def test_syn_log_scales() -> None:
    log_scales = reference_run("hinge", 0.01, 0.001).pool["log_scales"][0]
    expected = [0.0147135, 0.04026611, 0.02878616, -0.01916133, -0.00549029, -0.03081188]
    np.testing.assert_allclose(log_scales, expected, atol=5e-9)


def test_without_learned_widths_it_is_fogd() -> None:
    X, y = syn_three_classes()
    fixed = Rrf(frequencies=30, sigma=0.7, eta=0.02, eta_scale=0.0, loss="logistic", seed=3)
    fogd = Fogd(frequencies=30, sigma=0.7, eta=0.02, loss="logistic", seed=3)
    scores = [run(learner, X, y, Task.MULTICLASS, classes=3).scores for learner in (fixed, fogd)]
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-10)


def test_one_step_follows_finite_differences_of_the_loss() -> None:
    """Both parameters move by -eta times the slope of the loss at the old ones, measured, not derived."""
    draws = ParkMiller(7)
    weights, noise, x = draws.normal(3, 8), draws.normal(5, 4), draws.normal(5)
    oracle = Oracle(Task.MULTICLASS, noise, outputs=3, declared=3, sigma=0.9, eta=1, eta_scale=1, reg=0, loss="logistic")

    def loss(parameters: Floats) -> float:
        oracle.weights, oracle.log_scales = parameters[:24].reshape(3, 8), parameters[24:]
        f = oracle.f(x)
        return margin_loss("logistic", f[1] - max(f[0], f[2]))

    start = np.concatenate([weights.ravel(), np.full(5, -np.log(0.9))])
    h = 1e-6
    gradient = np.array([(loss(start + h * direction) - loss(start - h * direction)) / (2 * h) for direction in np.eye(29)])
    learner = Rrf(frequencies=4, sigma=0.9, eta=0.1, eta_scale=0.2, loss="logistic")
    pool = run(learner, x[None], np.array([1.0]), Task.MULTICLASS, classes=3, shared={"noise": noise}, state={"weights": weights}).pool
    np.testing.assert_allclose((weights - pool["weights"][0]).ravel() / 0.1, gradient[:24], atol=1e-8)
    np.testing.assert_allclose((start[24:] - pool["log_scales"][0]) / 0.2, gradient[24:], atol=1e-8)


def test_oracle_slopes_are_derivatives_of_the_oracle_losses() -> None:
    known = np.ones(1, np.bool_)
    for loss in ("hinge", "smooth-hinge", "logistic"):
        for margin in (-30.0, -0.4, 0.2, 0.7, 0.9, 1.3, 30.0):
            difference = (margin_loss(loss, margin + 1e-6) - margin_loss(loss, margin - 1e-6)) / 2e-6
            assert slopes(Task.BINARY, loss, 1.0, np.array([margin]), known)[0] == pytest.approx(difference, abs=1e-5)


def test_first_weights_have_the_spread_asked_for_and_do_not_depend_on_the_number_of_classes() -> None:
    X, y = syn_three_classes()
    two, three = (run(Rrf(frequencies=500, spread=0.01), X[:0], y[:0], Task.MULTICLASS, classes=n).pool["weights"][0] for n in (2, 3))
    assert np.std(three) == pytest.approx(0.01, rel=0.1)
    np.testing.assert_array_equal(two, three[:2])


def test_l2_does_not_diverge_whatever_the_step() -> None:
    result = run(Rrf(frequencies=100, eta=10.0, eta_scale=0.0), *syn_regression(), Task.REGRESSION)
    assert np.abs(result.scores).max() < 100


def test_log_scales_stay_bounded_on_absurd_features() -> None:
    X, y = syn_binary()
    result = run(Rrf(frequencies=20, eta=0.05, eta_scale=1.0), 1e12 * X, y, Task.BINARY, dtype=np.float32)
    assert np.abs(result.pool["log_scales"]).max() <= 20
    assert np.isfinite(result.scores).all()
