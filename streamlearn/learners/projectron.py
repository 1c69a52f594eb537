"""Perceptrons that project onto their support vectors to stay within a budget: Projectron and Projectron++."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Lt

from streamlearn.features.compiled import Array, kernel, lean
from streamlearn.learners.budget_perceptrons import BudgetedPerceptron
from streamlearn.learners.gram import backward_substitution, factor_field, forward_substitution
from streamlearn.learners.linear import dot
from streamlearn.learners.losses import Objective, class_fields, mistakes_only, objective, output_slopes, publish_scores
from streamlearn.learners.parameters import Count, KernelName, Width, width_of
from streamlearn.learners.protocol import Field, Pool, Shape, Task
from streamlearn.learners.support import KERNELS, exact_row, expansion, kernel_row, store, support_fields

SMALLEST_REST = 1e-10  # squared norm; a smaller rest would make K singular

Residual = Annotated[float, Ge(0), Lt(1)]


@dataclass(frozen=True, kw_only=True)
class Projectron(BudgetedPerceptron):
    """Projectron: a mistake on a full budget adds the projection of its vector onto the span of the support vectors.

    Source: Orabona, Keshet and Caputo (2009); Lu et al., section 7. The original projects whenever the squared norm of
    what the projection leaves, k(x, x) - k' K^-1 k, is at most a threshold (`residual` here) and has no budget; as in Lu
    et al. the budget decides by default. A vector within 1e-10 of the span (float32: 1e-5) is always projected, because it
    would make K singular; the published program adds it and now and then a run of its fails. K is kept as its Cholesky
    factor, whose rounding errors grow with the square root of K's condition only.
    Regression steps by eta * sign(y - f) while |y - f| > epsilon, classification by 1.
    Cost per event O(B d), plus O(B^2) for an update; memory (d + outputs) B itemsize + 8 B^2 + outputs + 8 bytes per model.

    budget: B, >= 1. residual: see above, in [0, 1). sigma: kernel width, > 0, or auto. eta: size of an update
    (regression), > 0. epsilon: half-width of the zone without updates (regression), >= 0. kernel: gaussian, laplacian
    or cauchy.
    """

    name: ClassVar[str] = "projectron"

    residual: Residual = 0.0

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        return _fields(shape, self.budget)

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        mistake, eta = self.updates(pool.shape.task)
        _step(self, mistake, mistake, eta, pool, slots, X, y, scores)


@dataclass(frozen=True, kw_only=True)
class ProjectronPlusPlus:
    """Projectron++: Projectron that also learns a correct prediction with a margin below 1, if its projection is good enough.

    Source: Orabona, Keshet and Caputo (2009); Lu et al., section 7, with U = sqrt((B + 1) / ln(B + 1)) / 4. A margin error
    never adds a support vector: it moves by tau = min(loss / ||projection||^2, 1) within the span, provided that
    2 loss - tau ||projection||^2 - 2 U ||rest|| >= 0. Everything else as Projectron: cost
    per event O(B d), plus O(B^2) for an update; memory (d + outputs) B itemsize + 8 B^2 + outputs + 8 bytes per model.

    budget: B, >= 1. residual: squared norm of the rest up to which a mistake is projected before the budget is full,
    in [0, 1). sigma: kernel width, > 0, or auto. kernel: gaussian, laplacian or cauchy.
    """

    name: ClassVar[str] = "projectron++"
    tasks: ClassVar[frozenset[Task]] = frozenset({Task.BINARY, Task.MULTICLASS})

    budget: Count = 100
    residual: Residual = 0.0
    sigma: Width = "auto"
    kernel: KernelName = "gaussian"

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        return _fields(shape, self.budget)

    def shared(self, shape: Shape) -> Mapping[str, Array]:
        return {}

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        task = pool.shape.task
        _step(self, mistakes_only(task, 0.0), objective(task, "hinge"), 1.0, pool, slots, X, y, scores)


def _fields(shape: Shape, budget: int) -> dict[str, Field]:
    return class_fields(shape) | support_fields(shape, budget) | factor_field(budget)


def _step(
    learner: Projectron | ProjectronPlusPlus, mistakes: Objective, margins: Objective, eta: float,
    pool: Pool, slots: Array, X: Array, y: Array, scores: Array,
) -> None:  # fmt: skip
    in_span = max(learner.residual, SMALLEST_REST, 100.0 * float(np.finfo(X.dtype).eps))  # never below what rounding leaves of 0
    _project(
        mistakes, margins, KERNELS[learner.kernel], width_of(learner.sigma), eta, in_span, pool["known"], pool["support"],
        pool["coefficients"], pool["size"], pool["factor"], slots, X, y, scores,
    )  # fmt: skip


@kernel
def _project(
    mistakes: Objective, margins: Objective, code: int, sigma: float, eta: float, in_span: float, known: Array, support: Array,
    coefficients: Array, size: Array, factor: Array, slots: Array, X: Array, y: Array, scores: Array,
) -> None:  # fmt: skip
    budget = support.shape[2]
    U = math.sqrt((budget + 1.0) / math.log(budget + 1.0)) / 4.0
    row = np.empty(budget, X.dtype)
    exact, k, d = np.empty(support.shape[1:]), np.empty(budget), np.empty(budget)
    f = np.empty(scores.shape[1], X.dtype)
    slopes = np.empty(scores.shape[1], X.dtype)
    for i in range(len(slots)):
        s = slots[i]
        n = size[s]
        kernel_row(code, sigma, support[s], n, X[i], row)
        expansion(row, coefficients[s], n, f)
        publish_scores(f, known[s], scores[i])
        if np.isnan(y[i]):
            continue
        mistake = output_slopes(mistakes, y[i], f, known[s], slopes)
        margin_error = not mistake and n > 0 and output_slopes(margins, y[i], f, known[s], slopes)
        if not (mistake or margin_error):
            continue
        exact_row(code, sigma, support[s], n, X[i], exact, k)
        norm = forward_substitution(factor[s], n, k, d)
        rest = max(0.0, 1.0 - norm)
        if mistake and n < budget and rest > in_span:
            for b in range(n):
                factor[s, n, b] = d[b]
            factor[s, n, n] = math.sqrt(rest)
            store(support[s], coefficients[s], n, X[i], slopes, eta)
            size[s] += 1
            continue
        step = eta if mistake else _margin_step(1.0 + dot(slopes, f), norm, rest, U)
        if step > 0.0:
            backward_substitution(factor[s], n, d)
            _move(coefficients[s], n, step, slopes, d)


@lean
def _margin_step(loss: float, norm: float, rest: float, U: float) -> float:
    """tau of Projectron++, 0 where the projection is too poor. norm and rest are squared."""
    tau = min(loss / norm, 1.0) if norm > 0.0 else 1.0
    return tau if 2.0 * loss - tau * norm - 2.0 * U * math.sqrt(rest) >= 0.0 else 0.0


@lean
def _move(coefficients: Array, size: int, step: float, slopes: Array, d: Array) -> None:
    """coefficients[b] -= step * slopes * d[b] for b < size."""
    for b in range(size):
        for c in range(len(slopes)):
            coefficients[b, c] -= coefficients.dtype.type(step * slopes[c] * d[b])
