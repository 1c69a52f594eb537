"""FPOGD, OGD-pair, Kar and OAM: published traces, the exact pairwise gradient as a limit, strata by hand."""

from collections.abc import Mapping

import numpy as np
import pytest
from datasets import german
from harness import Run, run
from oracles.pairwise import gradient_step, pairwise_loss
from reference import Floats, syn_binary

from streamlearn.features.compiled import Array
from streamlearn.learners.auc_linear import Opauc
from streamlearn.learners.pairwise import Fpogd, Kar, Oam, OgdPair, squared_pairwise_gradient
from streamlearn.learners.protocol import Learner, Shape, Task
from streamlearn.quality import auc


def of_norm(X: Floats, norm: float) -> Floats:
    return np.asarray(norm * X / np.linalg.norm(X, axis=1, keepdims=True))


def starting_with_first_of_each_class(X: Floats, y: Floats) -> Mapping[str, Array]:
    """The published program's start: both buffers hold the first event of their class in the whole training set."""
    first = np.array([[X[y < 0][0]], [X[y > 0][0]]])
    return {"instances": first, "centroids": first, "members": np.ones((2, 1)), "size": np.ones(2), "seen": np.ones(2)}


def held_out_scores(learner: Learner, train: tuple[Floats, Floats], test: Floats, state: Mapping[str, Array]) -> Floats:
    X, y = np.vstack([train[0], test]), np.append(train[1], np.full(len(test), np.nan))
    scores: Floats = run(learner, X, y, Task.RANKING, state=state).scores[len(train[0]) :, 0]
    return scores


def published_auc(scores: Floats, y: Floats) -> float:
    """The published program ranks by a clipped logistic of the score, which ties the extremes."""
    return auc(1 / (1 + np.clip(np.exp(-scores), 0.001, 10)), y)


class TestPublishedTraces:
    def test_syn(self) -> None:
        X, y = syn_binary()
        X = of_norm(X, 4)
        state = starting_with_first_of_each_class(X[:300], y[:300])
        learner = OgdPair(eta=2**-6, l1=1e-7)
        trace = [
            published_auc(held_out_scores(learner, (X[:rounds], y[:rounds]), X[300:], state), y[300:])
            for rounds in (1, 51, 101, 151, 201, 251)
        ]  # fmt: skip
        assert np.round(trace, 6).tolist() == [0.562892, 0.813792, 0.779067, 0.802099, 0.795607, 0.797919]

    @pytest.mark.parametrize(("scaled", "mean", "sd"), [(True, 0.7768, 0.0057), (False, 0.6318, None)])
    def test_german(self, scaled: bool, mean: float, sd: float | None) -> None:
        """First 500 rows of permutations 1 to 5 train (451 rounds), the rest tests; columns in [-1, 1] or raw, rows of norm 2."""
        results = []
        for number in range(1, 6):
            X, y = german().order(number)
            low, high = X.min(axis=0), X.max(axis=0)
            X = of_norm(2 * (X - low) / (high - low) - 1 if scaled else X, 2)
            state = starting_with_first_of_each_class(X[:500], y[:500])
            scores = held_out_scores(OgdPair(eta=2**-6, l1=1e-8), (X[:451], y[:451]), X[500:], state)
            results.append(published_auc(scores, y[500:]))
        assert round(float(np.mean(results)), 4) == mean
        assert sd is None or round(float(np.std(results, ddof=1)), 4) == sd


def full_history(Z: Floats, y: Floats, eta: float, reg: float) -> Floats:
    """w after gradient descent on each event's mean squared loss with all past events of the other class."""
    w = np.zeros(Z.shape[1])
    for t in range(len(Z)):
        others = Z[:t][y[:t] != y[t]]
        if len(others):
            w = gradient_step(w, y[t], Z[t], others, np.full(len(others), 1 / len(others)), eta, reg, 0.0)
    return w


class TestFullPairwiseGradient:
    """With room for every event, every learner of the squared loss takes the exact gradient over all past opposite events."""

    X, y = syn_binary()[0][:120], syn_binary()[1][:120]

    @pytest.mark.parametrize("learner", [
        Fpogd(map="linear", strata=120, epsilon=0.0, eta=0.1, reg=0.05),
        Fpogd(map="linear", strata=120, epsilon=0.0, eta=0.1, reg=0.05, replacement="reservoir"),
        Kar(budget=120, eta=0.1, reg=0.05),
        Opauc(eta=0.1, reg=0.05),
    ], ids=lambda learner: learner.name)  # fmt: skip
    def test_linear(self, learner: Learner) -> None:
        weights = run(learner, self.X, self.y, Task.RANKING).pool["weights"][0, 0]
        np.testing.assert_allclose(weights, full_history(self.X, self.y, 0.1, 0.05), rtol=1e-10)

    def test_fourier(self) -> None:
        learner = Fpogd(frequencies=30, sigma=0.8, strata=120, epsilon=0.0, eta=0.3)
        result = run(learner, self.X, self.y, Task.RANKING)
        angles = self.X @ result.pool.shared["frequencies"]
        Z = np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(30)
        np.testing.assert_allclose(np.sum(Z * Z, axis=1), 1.0)
        np.testing.assert_allclose(result.pool["weights"][0, 0], full_history(Z, self.y, 0.3, 0.0), rtol=1e-9)
        assert result.pool["members"][0].max() == 1

    def test_fourier_features_approach_the_kernel(self) -> None:
        frequencies = Fpogd(frequencies=50_000, sigma=3**0.5).shared(Shape(6, Task.RANKING, np.dtype(np.float64)))["frequencies"]
        differences = (self.X[:20, None] - self.X[None, :20]) @ frequencies
        gamma = 1 / 6
        exact = np.exp(-gamma * np.sum((self.X[:20, None] - self.X[None, :20]) ** 2, axis=2))
        np.testing.assert_allclose(np.cos(differences).mean(axis=2), exact, atol=0.02)

    def test_last_point_is_fpogd_with_one_stratum(self) -> None:
        one = run(Fpogd(map="linear", strata=1, epsilon=1e9, eta=0.1), self.X, self.y, Task.RANKING)
        last = run(OgdPair(eta=0.1), self.X, self.y, Task.RANKING)
        np.testing.assert_array_equal(one.scores, last.scores)


def test_gradient_against_finite_differences() -> None:
    generator = np.random.RandomState(0)
    w, z, others = generator.standard_normal(5), generator.standard_normal(5), generator.standard_normal((3, 5))
    shares = np.array([0.5, 0.3, 0.2])
    gradient = np.empty(5)
    for label in (-1.0, 1.0):
        curvature = squared_pairwise_gradient(w, label, z, others, shares, 3, gradient)
        numeric = [
            (pairwise_loss(w + h, label, z, others, shares) - pairwise_loss(w - h, label, z, others, shares)) / 2e-6
            for h in 1e-6 * np.eye(5)
        ]  # fmt: skip
        np.testing.assert_allclose(gradient, numeric, rtol=1e-6)
        assert curvature == pytest.approx(float(shares @ np.sum((z - others) ** 2, axis=1)))


class TestStrata:
    def test_by_hand(self) -> None:
        """One class, one feature, epsilon 1, two strata: opened at 0 and 10, then 0.5 and 4 join the first, 20 the second."""
        learner = Fpogd(map="linear", strata=2, epsilon=1.0)
        result = run(learner, np.array([[0.0], [10.0], [0.5], [4.0], [20.0]]), np.ones(5), Task.RANKING)
        assert result.pool["members"][0, 1].tolist() == [3, 2]
        assert result.pool["instances"][0, 1, :, 0].tolist() == [4.0, 20.0]
        assert result.pool["centroids"][0, 1, :, 0].tolist() == [1.5, 15.0]
        assert result.pool["size"][0].tolist() == [0, 2]
        assert not result.pool["weights"].any()

    def test_reservoir_stores_a_uniform_member(self) -> None:
        """One stratum of ten members in 2000 models: each member is stored by about a tenth of them."""
        stored = np.array([
            run(Fpogd(map="linear", strata=1, replacement="reservoir", seed=seed), np.arange(10.0)[:, None], np.ones(10), Task.RANKING)
            .pool["instances"][0, 1, 0, 0]
            for seed in range(2000)
        ])  # fmt: skip
        counts = np.bincount(stored.astype(int), minlength=10)
        assert np.sum((counts - 200) ** 2 / 200) < 27.9  # chi-squared with 9 degrees of freedom, 0.1 %

    def test_automatic_epsilon_is_the_mean_squared_distance_of_pairs(self) -> None:
        X, y = syn_binary()
        pool = run(Fpogd(map="linear"), X[:200], y[:200], Task.RANKING).pool
        pairs = np.mean(np.sum((X[:200, None] - X[None, :200]) ** 2, axis=2))
        assert 2 * pool["spread"][0] / 200 == pytest.approx(pairs)


class TestBuffers:
    def test_kar_fills_then_replaces_independently(self) -> None:
        """After n events of a class each place holds a sample; the mean over places and models is that of the class."""
        X = np.arange(40.0)[:, None]
        pools = [run(Kar(budget=5, seed=seed), X, np.ones(40), Task.RANKING).pool for seed in range(400)]
        instances = np.array([pool["instances"][0, 1, :, 0] for pool in pools])
        assert abs(instances.mean() - 19.5) < 4 * 11.5 / np.sqrt(400)
        assert any(len(set(row)) < 5 for row in instances.tolist())  # places are independent, so an event can hold two

    def test_oam_reservoir_holds_distinct_events(self) -> None:
        X = np.arange(40.0)[:, None]
        pools = [run(Oam(budget=5, seed=seed), X, np.ones(40), Task.RANKING).pool for seed in range(400)]
        instances = np.array([pool["instances"][0, 1, :, 0] for pool in pools])
        assert abs(instances.mean() - 19.5) < 4 * 11.5 / np.sqrt(2000)
        assert all(len(set(row)) == 5 for row in instances.tolist())

    def test_oam_sequential_step_closes_the_margin_unless_limited(self) -> None:
        X, y = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1.0, -1.0])
        free = run(Oam(C=10.0), X, y, Task.RANKING).pool["weights"][0, 0]
        assert free.tolist() == [0.5, -0.5]  # w.(x+ - x-) = 1
        limited = run(Oam(C=0.2), X, y, Task.RANKING).pool["weights"][0, 0]
        assert limited == pytest.approx([0.1, -0.1])


def second_half_auc(result: Run) -> float:
    half = len(result.y) // 2
    return auc(result.scores[half:, 0], result.y[half:])


@pytest.mark.parametrize("learner", [
    Fpogd(sigma=12**0.5), Fpogd(sigma=12**0.5, replacement="reservoir"), Fpogd(map="linear"),
    OgdPair(), Kar(), Oam(), Oam(update="gradient"),
], ids=str)  # fmt: skip
def test_defaults_rank_german(learner: Learner) -> None:
    """Standardised german, untuned: well above chance after 500 events (a batch logistic regression reaches about 0.79)."""
    X, y = german().order(1)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    assert second_half_auc(run(learner, X, y, Task.RANKING)) > 0.66


def test_fourier_features_rank_what_linear_ones_cannot() -> None:
    X, y = syn_binary()
    fourier = second_half_auc(run(Fpogd(), X, y, Task.RANKING))
    linear = second_half_auc(run(Fpogd(map="linear"), X, y, Task.RANKING))
    assert fourier > linear + 0.03
    assert linear > 0.7
