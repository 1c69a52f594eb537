"""Linear learners, with the identity in place of a feature map: Perceptron, Passive-Aggressive and online gradient descent."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from streamlearn.features.compiled import Array, lean
from streamlearn.features.memory import rows
from streamlearn.learners.linear import dot, gradient_step, linear_outputs, stable_step
from streamlearn.learners.losses import (
    SQUARED,
    Objective,
    class_fields,
    mistakes_only,
    objective,
    output_slopes,
    publish_scores,
)  # fmt: skip
from streamlearn.learners.parameters import NonNegative, Positive
from streamlearn.learners.passive_aggressive import VARIANTS, Variant, passive_aggressive_objective, passive_aggressive_step, suffered_loss
from streamlearn.learners.protocol import Field, Pool, Shape, Task

LARGEST_FEATURE = 1e9  # features are clipped to +-this, so that sums of their products stay finite in float32

SMALLEST_NORM = 1e-12  # squared norms of features count as at least this when a step is divided by them

_CONSTANT, _NORMALISED = -1, -2  # rules of steps, besides the variants of Passive-Aggressive


@dataclass(frozen=True, kw_only=True)
class _LinearModel:
    """What the linear learners have in common: everything but the rule of their steps."""

    tasks: ClassVar[frozenset[Task]] = frozenset({Task.BINARY, Task.MULTICLASS, Task.REGRESSION})

    intercept: bool = True

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        return class_fields(shape) | {"weights": Field((shape.outputs, shape.dim + self.intercept), shape.dtype)}

    def shared(self, shape: Shape) -> Mapping[str, Array]:
        return {}


@dataclass(frozen=True, kw_only=True)
class LinearPerceptron(_LinearModel):
    """Linear Perceptron: a mistake adds the event's features to the weights of its class (and subtracts them from those of the best wrong).

    Source: Rosenblatt (1958); multi-class as Crammer and Singer (2003). Regression steps by eta * sign(y - f) while
    |y - f| > epsilon. Features are clipped to +-1e9. Cost per event O(d outputs); memory (d + 1) outputs itemsize + outputs
    bytes per model.

    eta: size of an update (binary and multi-class predictions do not depend on it), > 0. epsilon: half-width of the
    zone without updates (regression), >= 0. intercept: learn a constant term, as the weight of a feature that is always
    1.
    """

    name: ClassVar[str] = "linear-perceptron"

    eta: Positive = 0.01
    epsilon: NonNegative = 0.1

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        aim = mistakes_only(pool.shape.task, self.epsilon)
        _step(aim, _CONSTANT, self.eta, pool, slots, X, y, scores)


@dataclass(frozen=True, kw_only=True)
class LinearPassiveAggressive(_LinearModel):
    """Linear Passive-Aggressive: the smallest change of the weights that removes the loss of the event, damped by C.

    Source: Crammer et al., Online Passive-Aggressive Algorithms (2006), figure 1 and sections 5 and 7. With n the squared norm of
    the features (twice that for the pair of the right class and the best wrong class), tau = min(C, loss / n) (PA-I) or
    loss / (n + 1 / (2 C)) (PA-II). Losses: hinge; for regression |y - f| - epsilon above 0. Features are clipped to +-1e9.
    Cost per event O(d outputs); memory (d + 1) outputs itemsize + outputs bytes per model.

    variant: PA-I or PA-II. C: aggressiveness, > 0; for regression in units of the target. epsilon: half-width of the zone without
    loss (regression), >= 0. intercept: learn a constant term, as the weight of a feature that is always 1.
    """

    name: ClassVar[str] = "linear-pa"

    variant: Variant = "PA-I"
    C: Positive = 0.02
    epsilon: NonNegative = 0.1

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        aim = passive_aggressive_objective(pool.shape.task, self.epsilon)
        _step(aim, VARIANTS[self.variant], self.C, pool, slots, X, y, scores)


@dataclass(frozen=True, kw_only=True)
class LinearOgd(_LinearModel):
    """Linear online gradient descent for every loss, with a step size that is relative to the features or constant.

    Source: Zinkevich (2003); the form of Lu et al. with the identity as feature map. `normalise` divides the step of an event by the
    squared norm of its features (at least 1e-12), as in normalised least mean squares: eta then depends neither on the number of
    features nor on their scale. For the squared loss a step is never longer than 2 / ||z||^2, beyond which it would enlarge the error
    it corrects. Features are clipped to +-1e9. Cost per event O(d outputs); memory (d + 1) outputs itemsize + outputs bytes per model.

    eta: step size, > 0; default 1, or 0.1 for regression, meant for normalised steps. normalise: see above. loss:
    hinge, smooth-hinge or logistic; squared, l1, l2 or eps for regression. epsilon: half-width of the zone without
    updates (squared, eps), >= 0. intercept: learn a constant term, as the weight of a feature that is always 1.
    """

    name: ClassVar[str] = "linear-ogd"

    eta: Positive | None = None
    loss: str = ""  # "": logistic, or squared for regression
    epsilon: NonNegative = 0.1
    normalise: bool = True

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        task = pool.shape.task
        aim = objective(task, self.loss or ("squared" if task is Task.REGRESSION else "logistic"), epsilon=self.epsilon)
        rule = _NORMALISED if self.normalise else _CONSTANT
        eta = self.eta or (0.1 if task is Task.REGRESSION else 1.0)
        _step(aim, rule, eta, pool, slots, X, y, scores)


def _step(aim: Objective, rule: int, size: float, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
    """size: eta of a gradient step, or C of Passive-Aggressive."""
    known, weights = pool["known"], pool["weights"]
    scratch = rows(X.dtype, weights.shape[2], pool.shape.outputs, pool.shape.outputs)
    _learn(aim, rule, size, known, weights, slots, X, y, scores, scratch)


@lean
def _learn(
    aim: Objective, rule: int, size: float, known: Array, weights: Array,
    slots: Array, X: Array, y: Array, scores: Array, scratch: tuple[Array, ...],
) -> None:  # fmt: skip
    dim = X.shape[1]
    z, f, slopes = scratch
    z[-1] = 1.0  # the intercept's feature, where there is one
    for i in range(len(slots)):
        s = slots[i]
        for j in range(dim):
            z[j] = min(max(X[i, j], -LARGEST_FEATURE), LARGEST_FEATURE)
        linear_outputs(weights[s], z, f)
        publish_scores(f, known[s], scores[i])
        if np.isnan(y[i]) or not output_slopes(aim, y[i], f, known[s], slopes):
            continue
        norm = dot(z, z)
        if rule < 0:  # not a variant of Passive-Aggressive
            step = size if rule == _CONSTANT else size / max(norm, SMALLEST_NORM)
            if aim.loss == SQUARED:
                step = stable_step(step, norm)
        else:
            step = passive_aggressive_step(rule, size, suffered_loss(aim, y[i], f, slopes), norm * dot(slopes, slopes))
        gradient_step(weights[s], step, slopes, z)
