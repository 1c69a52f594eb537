"""FOGD reproduces the reference runs, and its map approximates the kernels it is drawn for."""

import datasets
import numpy as np
import pytest
from harness import run
from oracles.unbudgeted import similarity
from reference import ParkMiller, syn_binary, syn_regression, syn_three_classes

from streamlearn.features.fourier import draw_frequencies
from streamlearn.learners.fourier import Fogd
from streamlearn.learners.protocol import Task
from streamlearn.learners.unbudgeted import Ogd


def frequencies(count: int) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    return {"frequencies": ParkMiller(12345).normal(6, count)}


@pytest.mark.parametrize(
    ("eta", "trace", "norm"),
    [
        (0.002, [19, 33, 49, 56, 62, 75, 84, 94, 107, 117], 0.6351074363),
        (0.02, [15, 30, 44, 54, 64, 80, 90, 102, 123, 132], 2.649017454),
    ],
)
def test_binary_trace(eta: float, trace: list[int], norm: float) -> None:
    result = run(Fogd(frequencies=200, eta=eta), *syn_binary(), Task.BINARY, shared=frequencies(200))
    assert result.counts(60) == trace
    assert np.linalg.norm(result.pool["weights"][0]) == pytest.approx(norm, rel=5e-10)


def test_three_class_trace() -> None:
    result = run(Fogd(frequencies=200, eta=0.005), *syn_three_classes(), Task.MULTICLASS, classes=3, shared=frequencies(200))
    assert result.counts(60) == [39, 63, 81, 105, 126, 150, 177, 201, 225, 241]


def test_regression_trace() -> None:
    result = run(Fogd(frequencies=450, eta=6e-4), *syn_regression(), Task.REGRESSION, shared=frequencies(450))
    assert result.mean_squared_loss == pytest.approx(0.0954325007783, abs=5e-14)


def test_normalised_features_need_a_step_size_d_times_as_large() -> None:
    plain = run(Fogd(frequencies=200, eta=0.002), *syn_binary(), Task.BINARY)
    normalised = run(Fogd(frequencies=200, eta=0.4, normalise=True), *syn_binary(), Task.BINARY)
    np.testing.assert_allclose(normalised.scores, plain.scores, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "cauchy"])
def test_features_approximate_the_kernel(kernel: str) -> None:
    a, b = np.random.default_rng(5).uniform(-1, 1, (2, 4))
    angles = (a - b) @ draw_frequencies(4, 200_000, seed=3, kernel=kernel) / 1.7
    assert np.cos(angles).mean() == pytest.approx(similarity(kernel, 1.7, a, b), abs=4 / np.sqrt(200_000))


def test_many_frequencies_approach_kernel_gradient_descent() -> None:
    X, y = syn_binary()
    exact = run(Ogd(sigma=1.0, eta=0.2), X, y, Task.BINARY).scores
    distances = [
        np.abs(run(Fogd(frequencies=D, eta=0.2, normalise=True), X, y, Task.BINARY).scores - exact).mean() for D in (100, 1_000, 10_000)
    ]
    assert distances[0] > 2 * distances[1] > 4 * distances[2]


def test_german_has_the_published_mistake_rate() -> None:
    """29.9 +- 0.7 % over 20 permutations with unpublished draws."""
    learner = [Fogd(frequencies=400, sigma=8.0, eta=0.002, seed=seed) for seed in range(20)]
    percent = [100 * run(learner[i], *datasets.german().order(i + 1), Task.BINARY).mistakes.mean() for i in range(20)]
    assert np.mean(percent) == pytest.approx(29.9, abs=1.4)
