"""Linear learners: what they are independent of, what they reach, what they withstand."""

import datasets
import numpy as np
import pytest
from harness import run
from reference import syn_regression, syn_three_classes

from streamlearn.learners.linear_models import LinearOgd, LinearPassiveAggressive, LinearPerceptron
from streamlearn.learners.protocol import Learner, Task

LEARNERS = [LinearPerceptron(), LinearPassiveAggressive(C=0.01), LinearPassiveAggressive(variant="PA-II", C=0.01), LinearOgd(eta=0.3)]


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_normalised_steps_do_not_depend_on_the_scale_of_the_features(scale: float) -> None:
    X, y = syn_three_classes()
    learner = LinearOgd(intercept=False, eta=0.3)
    scores = run(learner, X, y, Task.MULTICLASS, classes=3).scores
    np.testing.assert_allclose(run(learner, scale * X, y, Task.MULTICLASS, classes=3).scores, scores, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("learner", [LinearPerceptron, LinearPassiveAggressive, LinearOgd])
def test_an_intercept_is_a_constant_feature(learner: type[LinearPerceptron | LinearPassiveAggressive | LinearOgd]) -> None:
    X, y = syn_regression()
    extended = np.column_stack([X, np.ones(len(X))])
    with_intercept = run(learner(), X, y, Task.REGRESSION).scores
    np.testing.assert_array_equal(with_intercept, run(learner(intercept=False), extended, y, Task.REGRESSION).scores)


@pytest.mark.parametrize("variant", ["PA-I", "PA-II"])
def test_passive_aggressive_leaves_the_loss_it_promises(variant: str) -> None:
    """PA-I with a large C removes the loss; PA-II leaves loss / (1 + 2 C ||x||^2)."""
    X, y = syn_regression()
    learner = LinearPassiveAggressive(variant=variant, C=100.0, epsilon=0.05, intercept=False)  # type: ignore[arg-type]
    again = run(learner, X[[0, 0]], y[[0, 0]], Task.REGRESSION).scores[1, 0]
    loss = abs(y[0]) - 0.05
    expected = 0.0 if variant == "PA-I" else loss / (1 + 200 * X[0] @ X[0])
    assert abs(y[0] - again) - 0.05 == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("learner", "percent"), [(LinearPerceptron(), 17.0), (LinearPassiveAggressive(C=0.01), 13.0), (LinearOgd(eta=0.3), 16.0)]
)
def test_wide_zero_one_data(learner: Learner, percent: float) -> None:
    """On dna (180 features of 0 and 1) the kernel Perceptron makes 20.5 % mistakes, kernel gradient descent 16.1 %."""
    X, y = datasets.dna().order(1)
    assert 100 * run(learner, X, y, Task.MULTICLASS, classes=3).mistakes.mean() < percent


def test_regression_beats_the_mean() -> None:
    X, y = datasets.housing().order(1)
    assert run(LinearOgd(eta=0.3), X, y, Task.REGRESSION).mean_squared_loss < 0.65 * y.var()


@pytest.mark.parametrize("loss", ["squared", "l2"])
def test_the_squared_loss_does_not_diverge(loss: str) -> None:
    """A step of 5 on features of size 1000 would double the error 5 million times over."""
    X, y = syn_regression()
    result = run(LinearOgd(eta=5.0, loss=loss, normalise=False), 1000 * X, y, Task.REGRESSION)
    assert np.abs(result.scores).max() < 1e3


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("scale", [1e30, 1e-30])
def test_extreme_features_and_targets_stay_finite_in_float32(learner: Learner, scale: float) -> None:
    X, y = syn_regression()
    result = run(learner, scale * X, 1e30 * y, Task.REGRESSION, dtype=np.float32)
    assert np.isfinite(result.scores).all()
    assert np.isfinite(result.pool["weights"]).all()


def test_an_unknown_loss_is_refused() -> None:
    with pytest.raises(ValueError, match="loss = 'squared' is not for multiclass streams; use one of"):
        run(LinearOgd(loss="squared"), *syn_three_classes(), Task.MULTICLASS, classes=3)
