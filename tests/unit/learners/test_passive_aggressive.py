"""BPA-S reproduces the reference runs; the other Passive-Aggressive learners keep what their definitions promise."""

import datasets
import numpy as np
import pytest
from harness import Run, run
from reference import syn_binary, syn_regression, syn_three_classes

from streamlearn.features.compiled import Array
from streamlearn.learners.passive_aggressive import BpaNn, BpaP, BpaS, PassiveAggressive
from streamlearn.learners.protocol import Learner, Task

BUDGETED = [BpaS(budget=50, sigma=1.0, C=1.0), BpaNn(budget=50, sigma=1.0, C=1.0), BpaP(budget=50, sigma=1.0, C=1.0)]


def coefficients(result: Run) -> Array:
    return np.asarray(result.pool["coefficients"][0, : int(result.pool["size"][0])])


def test_bpa_s_binary_trace() -> None:
    result = run(BpaS(budget=50, sigma=1.0, C=1.0), *syn_binary(), Task.BINARY)
    assert result.counts(60) == [15, 31, 44, 56, 65, 80, 93, 110, 127, 139]
    assert np.abs(coefficients(result)).sum() == pytest.approx(73.73976032, abs=5e-9)


def test_bpa_s_three_class_trace() -> None:
    result = run(BpaS(budget=50, sigma=1.0, C=1.0), *syn_three_classes(), Task.MULTICLASS, classes=3)
    assert result.counts(60) == [39, 67, 97, 130, 155, 185, 224, 255, 282, 315]


def test_bpa_s_german_permutations() -> None:
    mistakes = [345, 360, 327, 343, 343, 329, 331, 338, 328, 327, 344, 352, 340, 330, 345, 349, 338, 346, 329, 335]
    assert [int(run(BpaS(sigma=8.0, C=1.0), *datasets.german().order(i), Task.BINARY).mistakes.sum()) for i in range(1, 21)] == mistakes


def test_bpa_s_german_first_permutation() -> None:
    result = run(BpaS(sigma=8.0, C=1.0), *datasets.german().order(1), Task.BINARY)
    assert result.counts(100) == [30, 65, 91, 126, 161, 192, 226, 262, 303, 345]
    a = coefficients(result)
    assert (a.sum(), np.abs(a).sum(), np.linalg.norm(a)) == pytest.approx((-9.430891, 135.48749, 14.148607), rel=1e-7)


def test_bpa_s_dna_permutations() -> None:
    runs = [run(BpaS(budget=200, sigma=8.0, C=1.0), *datasets.dna().order(i), Task.MULTICLASS, classes=3) for i in (1, 2, 3)]
    assert np.mean([100 * result.mistakes.mean() for result in runs]) == pytest.approx(24.0, abs=0.05)


@pytest.mark.parametrize(
    "learner", [BpaS(budget=600, sigma=1.0, C=1.0), BpaNn(budget=600, sigma=1.0, C=1.0), BpaP(budget=600, sigma=1.0, C=1.0)]
)
def test_room_for_every_loss_is_passive_aggressive(learner: Learner) -> None:
    scores = run(learner, *syn_three_classes(), Task.MULTICLASS, classes=3).scores
    np.testing.assert_allclose(
        scores, run(PassiveAggressive(sigma=1.0, C=1.0), *syn_three_classes(), Task.MULTICLASS, classes=3).scores, atol=1e-6
    )


@pytest.mark.parametrize("variant", ["PA-I", "PA-II"])
def test_the_loss_after_an_update_is_what_the_step_leaves(variant: str) -> None:
    """PA-I with a large C removes the loss; PA-II leaves loss / (1 + 2 C)."""
    X, y = syn_regression()
    learner = PassiveAggressive(variant=variant, C=100.0, epsilon=0.05, sigma=1.0)  # type: ignore[arg-type]  # both are variants
    first = run(learner, X[:1], y[:1], Task.REGRESSION)
    again = run(learner, X[[0, 0]], y[[0, 0]], Task.REGRESSION).scores[1, 0]
    loss = abs(y[0] - first.scores[0, 0]) - 0.05
    assert abs(y[0] - again) - 0.05 == pytest.approx(0.0 if variant == "PA-I" else loss / 201.0, abs=1e-12)


@pytest.mark.parametrize("learner", BUDGETED)
def test_the_budget_holds(learner: Learner) -> None:
    result = run(learner, *syn_binary(), Task.BINARY)
    assert result.pool["size"][0] == 50
    assert result.mistakes.sum() < 160


def test_more_to_project_onto_is_better() -> None:
    """Over the published orders of german: the mean of the mistakes falls from BPA-S to BPA-NN to BPA-P."""
    means = [
        np.mean([run(learner(sigma=8.0), *datasets.german().order(i), Task.BINARY).mistakes.mean() for i in range(1, 6)])
        for learner in (BpaS, BpaNn, BpaP)
    ]
    assert means == sorted(means, reverse=True)


def test_the_nearest_neighbours_are_up_to_date() -> None:
    pool = run(BpaNn(budget=50, sigma=1.0, C=1.0), *syn_binary(), Task.BINARY).pool
    vectors = pool["support"][0].T
    squared = ((vectors[:, None] - vectors) ** 2).sum(axis=2)
    np.fill_diagonal(squared, np.inf)
    np.testing.assert_array_equal(pool["neighbour"][0], squared.argmin(axis=1))
    np.testing.assert_allclose(pool["affinity"][0], np.exp(-squared.min(axis=1) / 2))


def test_the_factor_stays_that_of_the_kernel_matrix() -> None:
    """After hundreds of removals, among vectors of which many nearly lie in the span of the others."""
    X, y = syn_binary()
    pool = run(BpaP(budget=30, sigma=4.0, C=1.0), np.tile(X, (4, 1)), np.tile(y, 4), Task.BINARY).pool
    vectors = pool["support"][0, :, pool["order"][0, :30]]
    K = np.exp(-((vectors[:, None] - vectors) ** 2).sum(axis=2) / (2 * 4.0**2))
    L = np.tril(pool["factor"][0, :30, :30])
    np.testing.assert_allclose(L @ L.T, K, atol=1e-13)
    assert np.linalg.cond(K) > 1e5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_near_duplicates_do_not_break_the_projection(dtype: type) -> None:
    """A wide kernel puts almost every vector into the span of a few."""
    result = run(BpaP(budget=20, sigma=50.0, C=100.0), *syn_binary(), Task.BINARY, dtype=dtype)
    assert all(np.isfinite(result.pool[name]).all() for name in result.pool.names)
    assert np.abs(result.scores).max() < 1e3
