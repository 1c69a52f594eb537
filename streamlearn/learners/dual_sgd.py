"""DualSGD: a budgeted kernel expansion whose smallest terms move to random features (Le et al., Dual Space Gradient Descent, 2016)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from streamlearn.features.compiled import Array, kernel
from streamlearn.features.fourier import BLOCK, draw_frequencies, fourier_row, projections
from streamlearn.features.tiles import product
from streamlearn.learners.ball import factor_into_ball, norm_gained, scale_rows
from streamlearn.learners.linear import gradient_step, linear_outputs
from streamlearn.learners.losses import SQUARED, Objective, class_fields, objective, output_slopes, publish_scores
from streamlearn.learners.parameters import Count, KernelName, NonNegative, Positive, Seed, Width, width_of
from streamlearn.learners.protocol import Field, Pool, Shape, Task
from streamlearn.learners.support import KERNELS, expansion, kernel_row, load, move, store, support_fields


@dataclass(frozen=True, kw_only=True)
class DualSgd:
    """DualSGD: SGD with steps 1 / (reg t); when B terms are stored, the k with the smallest coefficients move to D random features.

    Source: Le et al. (2016), k-merging, as run in Le et al., DualSVRG. f = sum_i a_i k(x_i, x) + w . phi(x) with phi =
    [cos(u_i'x)]_i followed by [sin(u_i'x)]_i, / sqrt(D). Every learned event shrinks the model by (t-1)/t and appends
    itself with coefficient -slope / (reg t), even if that is 0. The model is stored without the common factor
    1 / (reg t), so shrinking is free and coefficients of equal size compare equal: ties move the oldest first.

    The authors' program differs: its frequencies have standard deviation 2 gamma (here 1 / sigma = sqrt(2 gamma), which
    the kernel needs), its ties are decided by rounding, it steps at a margin of exactly 1, and its l2 loss diverges
    for a small reg; here w is then projected on the ball of radius max |y| / sqrt(reg), as AVM does, if reg <= 1.

    Cost per event O(d (B + D) + (B + D) outputs) and, on average, one more projection d D; l2: twice the kernel rows.
    Memory per model (B (d + outputs) + 2 D outputs) * itemsize + 8 B + outputs + 32 bytes, and d D * itemsize shared.

    budget: B, >= 1. rank: k, how many move at a time, >= 1, at most B is used; default 0.2 B, at least 1. frequencies:
    D, >= 1. sigma: kernel width, > 0, or auto. reg: lambda of reg / 2 ||w||^2, > 0; default 0.001, or 0.03 for
    regression; the papers use about 2 / n for a stream of n events. loss: hinge, smooth-hinge or logistic; l1, l2 or
    eps for regression. epsilon: half-width of the zone without slope (eps), >= 0. kernel: gaussian, laplacian or
    cauchy. seed: of the frequencies.
    """

    name: ClassVar[str] = "dualsgd"
    tasks: ClassVar[frozenset[Task]] = frozenset({Task.BINARY, Task.MULTICLASS, Task.REGRESSION})

    budget: Count = 100
    rank: Count | None = None
    frequencies: Count = 200
    sigma: Width = "auto"
    reg: Positive | None = None
    loss: str = ""  # "": hinge, or eps for regression
    epsilon: NonNegative = 0.1
    kernel: KernelName = "gaussian"
    seed: Seed = 1

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        return (
            class_fields(shape)
            | support_fields(shape, self.budget)
            | {
                "born": Field((self.budget,), np.dtype(np.int64)),
                "weights": Field((shape.outputs, 2 * self.frequencies), shape.dtype),
                "rounds": Field((), np.dtype(np.int64)),
                "expansion_norm": Field((), np.dtype(np.float64)),
                "largest_label": Field((), np.dtype(np.float64)),
            }
        )

    def shared(self, shape: Shape) -> Mapping[str, Array]:
        drawn = draw_frequencies(shape.dim, self.frequencies, self.seed, self.kernel) / width_of(self.sigma)
        return {"frequencies": drawn.astype(shape.dtype)}

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        regression = pool.shape.task is Task.REGRESSION
        loss = self.loss or ("eps" if regression else "hinge")
        reg = self.reg or (0.03 if regression else 0.001)
        moving = min(self.rank or max(round(0.2 * self.budget), 1), self.budget)
        aim = objective(pool.shape.task, loss, epsilon=self.epsilon)
        in_ball = regression and aim.loss == SQUARED and reg <= 1.0
        rule = Rule(aim, KERNELS[self.kernel], width_of(self.sigma), reg, moving, in_ball)
        models = Models(**{name: pool[name] for name in Models._fields})
        frequencies = pool.shared["frequencies"]
        for rows, angles in projections(X, frequencies):
            _descend(rule, models, frequencies, slots[rows], X[rows], angles, y[rows], scores[rows])


class Rule(NamedTuple):
    """The hyper-parameters, as the kernels take them."""

    aim: Objective
    code: int
    sigma: float
    reg: float
    moving: int  # k
    in_ball: bool


class Models(NamedTuple):
    """The pool's arrays, all with a leading slot axis."""

    known: Array
    support: Array
    coefficients: Array
    born: Array
    size: Array
    weights: Array
    rounds: Array
    expansion_norm: Array
    largest_label: Array


class Terms(NamedTuple):
    """Terms of the expansion on their way to random features."""

    x: Array  # [.., dim]
    coefficients: Array  # [.., outputs]
    angles: Array  # [.., D]


@kernel
def _descend(rule: Rule, models: Models, frequencies: Array, slots: Array, X: Array, angles: Array, y: Array, scores: Array) -> None:
    outputs, count = scores.shape[1], angles.shape[1]
    row, z = np.empty(models.support.shape[2], X.dtype), np.empty(2 * count, X.dtype)
    f, slopes = np.empty(outputs, X.dtype), np.empty(outputs, X.dtype)
    block = min(rule.moving, BLOCK)
    terms = Terms(np.empty((block, X.shape[1]), X.dtype), np.empty((block, outputs), X.dtype), np.empty((block, count), X.dtype))
    for i in range(len(slots)):
        s = slots[i]
        kernel_row(rule.code, rule.sigma, models.support[s], models.size[s], X[i], row)
        fourier_row(angles[i], 1.0 / np.sqrt(count), z)
        expansion(row, models.coefficients[s], models.size[s], slopes)
        linear_outputs(models.weights[s], z, f)
        factor = 1.0 / (rule.reg * max(models.rounds[s], 1))
        for c in range(outputs):
            f[c] = factor * (slopes[c] + f[c])
        publish_scores(f, models.known[s], scores[i])
        if np.isnan(y[i]):
            continue
        output_slopes(rule.aim, y[i], f, models.known[s], slopes)
        models.rounds[s] += 1
        if models.size[s] == models.support.shape[2]:
            for first in range(0, rule.moving, BLOCK):
                _move_smallest(rule, models, s, min(BLOCK, rule.moving - first), frequencies, terms, row, z, f)
        if rule.in_ball:
            _follow_norm(rule, models, s, X[i], -slopes[0], row, f)
        models.born[s, models.size[s]] = models.rounds[s]
        store(models.support[s], models.coefficients[s], models.size[s], X[i], slopes, 1.0)
        models.size[s] += 1
        if rule.in_ball:
            _project(rule, models, s, y[i])


@kernel
def _move_smallest(
    rule: Rule, models: Models, s: int, number: int, frequencies: Array, terms: Terms, row: Array, z: Array, f: Array
) -> None:  # fmt: skip
    """Move the smallest terms to random features, all projected at once; the last one closes a gap. terms to f are scratch."""
    support, coefficients, born = models.support[s], models.coefficients[s], models.born[s]
    for m in range(number):
        b = _smallest(coefficients, born, models.size[s])
        load(support, b, terms.x[m])
        for c in range(coefficients.shape[1]):
            terms.coefficients[m, c] = coefficients[b, c]
        if rule.in_ball:
            _follow_norm(rule, models, s, terms.x[m], -coefficients[b, 0], row, f)
        models.size[s] -= 1
        move(support, coefficients, models.size[s], b)
        born[b] = born[models.size[s]]
    product(terms.x[:number], frequencies, terms.angles[:number])
    for m in range(number):
        fourier_row(terms.angles[m], 1.0 / np.sqrt(frequencies.shape[1]), z)
        gradient_step(models.weights[s], -1.0, terms.coefficients[m], z)


@kernel
def _smallest(coefficients: Array, born: Array, size: int) -> int:
    """The support vector with the smallest coefficient (multi-class: its largest entry), the oldest on ties."""
    best, least = 0, np.inf
    for b in range(size):
        length = abs(coefficients[b, 0])
        for c in range(1, coefficients.shape[1]):
            length = max(length, abs(coefficients[b, c]))
        if length < least or (length == least and born[b] < born[best]):
            best, least = b, length
    return best


@kernel
def _follow_norm(rule: Rule, models: Models, s: int, x: Array, coefficient: float, row: Array, f: Array) -> None:
    """Account for coefficient * Phi(x) joining the expansion. row and f are scratch."""
    kernel_row(rule.code, rule.sigma, models.support[s], models.size[s], x, row)
    expansion(row, models.coefficients[s], models.size[s], f)
    models.expansion_norm[s] += norm_gained(coefficient, f[0])


@kernel
def _project(rule: Rule, models: Models, s: int, label: float) -> None:
    """Bring both parts of the model back into the ball."""
    models.largest_label[s] = max(models.largest_label[s], abs(label))
    squared_norm = models.expansion_norm[s] + np.sum(models.weights[s] * models.weights[s])
    factor = factor_into_ball(squared_norm, models.largest_label[s], rule.reg, models.rounds[s])
    if factor < 1.0:
        scale_rows(models.coefficients[s], models.size[s], factor)
        scale_rows(models.weights[s], 1, factor)
        models.expansion_norm[s] *= factor * factor
