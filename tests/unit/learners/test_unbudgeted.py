"""Perceptron and OGD reproduce the reference runs."""

import datasets
import numpy as np
import pytest
from harness import Run, run
from reference import syn_binary, syn_regression, syn_three_classes

from streamlearn.learners.protocol import Learner, Task
from streamlearn.learners.unbudgeted import Ogd, Perceptron

GERMAN = {
    Perceptron(sigma=8.0): [347, 351, 352, 341, 352, 349, 363, 344, 350, 349, 362, 351, 374, 345, 341, 360, 367, 356, 348, 342],
    Ogd(sigma=8.0, eta=0.2): [293, 298, 299, 292, 296, 300, 302, 297, 295, 296, 305, 281, 297, 293, 300, 300, 299, 288, 285, 300],
}


def coefficients(result: Run) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.asarray(result.pool["coefficients"][0, : int(result.pool["size"][0])])


def test_perceptron_binary_trace() -> None:
    result = run(Perceptron(sigma=1.0), *syn_binary(), Task.BINARY)
    assert result.counts(60) == [17, 33, 43, 62, 77, 90, 102, 112, 126, 137]
    assert coefficients(result).sum() == 1


def test_ogd_binary_trace() -> None:
    result = run(Ogd(sigma=1.0, eta=0.2), *syn_binary(), Task.BINARY)
    assert result.counts(60) == [18, 34, 47, 56, 65, 80, 91, 99, 111, 119]
    assert len(coefficients(result)) == 389
    assert np.abs(coefficients(result)).sum() == pytest.approx(77.8, rel=1e-12)


@pytest.mark.parametrize(
    ("learner", "trace"),
    [
        (Perceptron(sigma=1.0), [33, 60, 86, 111, 134, 161, 187, 212, 238, 257]),
        (Ogd(sigma=1.0, eta=0.5), [40, 67, 90, 110, 129, 155, 177, 198, 215, 229]),
    ],
)
def test_three_class_trace(learner: Learner, trace: list[int]) -> None:
    assert run(learner, *syn_three_classes(), Task.MULTICLASS, classes=3).counts(60) == trace


@pytest.mark.parametrize(
    ("learner", "mean_squared_loss", "updates"),
    [(Perceptron(sigma=1.0, eta=0.1), 0.106109298841, 459), (Ogd(sigma=1.0, eta=0.1), 0.128569305506, 464)],
)
def test_regression_trace(learner: Learner, mean_squared_loss: float, updates: int) -> None:
    result = run(learner, *syn_regression(), Task.REGRESSION)
    assert result.mean_squared_loss == pytest.approx(mean_squared_loss, abs=5e-13)
    assert len(coefficients(result)) == updates


@pytest.mark.parametrize(("learner", "mistakes"), GERMAN.items())
def test_german_permutations(learner: Learner, mistakes: list[int]) -> None:
    assert [int(run(learner, *datasets.german().order(i), Task.BINARY).mistakes.sum()) for i in range(1, 21)] == mistakes


def test_perceptron_german_first_permutation() -> None:
    result = run(Perceptron(sigma=8.0), *datasets.german().order(1), Task.BINARY)
    assert result.counts(100) == [38, 76, 110, 145, 180, 213, 251, 287, 315, 347]
    a = coefficients(result)
    assert (a.sum(), np.abs(a).sum()) == (-3, 347)
    assert np.linalg.norm(a) == pytest.approx(18.627936, abs=5e-7)


def test_ogd_german_first_permutation() -> None:
    result = run(Ogd(sigma=8.0, eta=0.2), *datasets.german().order(1), Task.BINARY)
    assert result.counts(100) == [29, 59, 83, 111, 132, 164, 196, 226, 254, 293]
    a = coefficients(result)
    assert len(a) == 686
    assert (a.sum(), np.abs(a).sum()) == pytest.approx((-17.2, 137.2), rel=1e-12)
    assert np.linalg.norm(a) == pytest.approx(5.2383203, abs=5e-8)


@pytest.mark.parametrize(
    ("learner", "first", "mean", "deviation"),
    [
        (Perceptron(sigma=8.0), [83, 139, 179, 220, 258, 286, 315, 350, 390, 421], 20.460, 0.770),
        (Ogd(sigma=8.0, eta=0.5), [91, 146, 180, 206, 240, 255, 274, 293, 314, 329], 16.095, 0.476),
    ],
)
def test_dna_permutations(learner: Learner, first: list[int], mean: float, deviation: float) -> None:
    runs = [run(learner, *datasets.dna().order(i), Task.MULTICLASS, classes=3) for i in range(1, 21)]
    assert runs[0].counts(200) == first
    percent = [100 * result.mistakes.mean() for result in runs]
    assert np.mean(percent) == pytest.approx(mean, abs=5e-4)
    assert np.std(percent, ddof=1) == pytest.approx(deviation, abs=5e-4)


@pytest.mark.parametrize(
    ("learner", "mean", "deviation"),
    [
        (Perceptron(sigma=8.0, eta=0.1), 0.04018, 0.00080),
        (Ogd(sigma=8.0, eta=0.3), 0.04017, 0.00043),
        (Ogd(sigma=8.0, eta=0.1), 0.04192, None),
    ],
)
def test_housing_permutations(learner: Learner, mean: float, deviation: float | None) -> None:
    losses = [run(learner, *datasets.housing().order(i), Task.REGRESSION).mean_squared_loss for i in range(1, 21)]
    assert np.mean(losses) == pytest.approx(mean, abs=5e-6)
    if deviation is not None:
        assert np.std(losses, ddof=1) == pytest.approx(deviation, abs=5e-6)
