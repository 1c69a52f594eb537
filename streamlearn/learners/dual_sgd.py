"""DualSGD: a budgeted kernel expansion whose smallest terms move to random features (Le et al., Dual Space Gradient Descent, 2016)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from streamlearn.features.compiled import Array, kernel
from streamlearn.features.fourier import draw_frequencies, fourier_row, project_row, projections
from streamlearn.learners.ball import factor_into_ball, norm_gained, scale_rows
from streamlearn.learners.linear import gradient_step, linear_outputs
from streamlearn.learners.losses import REGRESSION, SQUARED, Objective, class_fields, objective, output_slopes, publish_scores
from streamlearn.learners.parameters import Count, KernelName, NonNegative, Positive, Seed
from streamlearn.learners.protocol import Field, Pool, Shape, Task
from streamlearn.learners.support import KERNELS, expansion, kernel_row, load, store, support_fields


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

    budget: B, >= 1. rank: k, how many move at a time, >= 1, at most B is used; default 0.2 B, at least 1. frequencies: D,
    >= 1. sigma: kernel width, > 0. reg: lambda of reg / 2 ||w||^2, > 0; default 0.001, or 0.03 for regression; the papers
    use about 2 / n for a stream of n events. loss: hinge, smooth-hinge or logistic; l1, l2 or eps for regression. epsilon:
    half-width of the zone without slope (eps), >= 0. kernel: gaussian, laplacian or cauchy. seed: of the frequencies.
    """

    name: ClassVar[str] = "dualsgd"
    tasks: ClassVar[frozenset[Task]] = frozenset({Task.BINARY, Task.MULTICLASS, Task.REGRESSION})

    budget: Count = 100
    rank: Count | None = None
    frequencies: Count = 200
    sigma: Positive = 1.0
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
        drawn = draw_frequencies(shape.dim, self.frequencies, self.seed, self.kernel) / self.sigma
        return {"frequencies": drawn.astype(shape.dtype)}

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        loss = self.loss or ("eps" if pool.shape.task is Task.REGRESSION else "hinge")
        aim = objective(pool.shape.task, loss, epsilon=self.epsilon)
        reg = self.reg or (0.03 if pool.shape.task is Task.REGRESSION else 0.001)
        moving = min(self.rank or max(round(0.2 * self.budget), 1), self.budget)
        for rows, angles in projections(X, pool.shared["frequencies"]):
            _descend(
                aim, KERNELS[self.kernel], self.sigma, reg, moving, pool.shared["frequencies"], pool["known"], pool["support"],
                pool["coefficients"], pool["born"], pool["size"], pool["weights"], pool["rounds"], pool["expansion_norm"],
                pool["largest_label"], slots[rows], X[rows], angles, y[rows], scores[rows],
            )  # fmt: skip


@kernel
def _descend(
    aim: Objective, code: int, sigma: float, reg: float, moving: int, frequencies: Array, known: Array, support: Array,
    coefficients: Array, born: Array, size: Array, weights: Array, rounds: Array, expansion_norm: Array, largest_label: Array,
    slots: Array, X: Array, angles: Array, y: Array, scores: Array,
) -> None:  # fmt: skip
    budget, count = support.shape[2], frequencies.shape[1]
    row = np.empty(budget, X.dtype)
    z = np.empty(2 * count, X.dtype)
    moved_x, moved_angles, moved_z = np.empty(X.shape[1], X.dtype), np.empty(count, X.dtype), np.empty(2 * count, X.dtype)
    f, slopes = np.empty(scores.shape[1], X.dtype), np.empty(scores.shape[1], X.dtype)
    in_ball = aim.task == REGRESSION and aim.loss == SQUARED and reg <= 1.0
    for i in range(len(slots)):
        s = slots[i]
        kernel_row(code, sigma, support[s], size[s], X[i], row)
        fourier_row(angles[i], 1.0 / np.sqrt(count), z)
        expansion(row, coefficients[s], size[s], slopes)
        linear_outputs(weights[s], z, f)
        for c in range(len(f)):
            f[c] = (slopes[c] + f[c]) / (reg * max(rounds[s], 1))
        publish_scores(f, known[s], scores[i])
        if np.isnan(y[i]):
            continue
        rounds[s] += 1
        output_slopes(aim, y[i], f, known[s], slopes)
        if size[s] == budget:
            for _ in range(moving):
                b = _smallest(coefficients[s], born[s], size[s])
                load(support[s], b, moved_x)
                if in_ball:
                    kernel_row(code, sigma, support[s], size[s], moved_x, row)
                    expansion(row, coefficients[s], size[s], f)
                    expansion_norm[s] += norm_gained(-coefficients[s, b, 0], f[0])
                project_row(moved_x, frequencies, moved_angles)
                fourier_row(moved_angles, 1.0 / np.sqrt(count), moved_z)
                gradient_step(weights[s], -1.0, coefficients[s, b], moved_z)
                size[s] -= 1
                _replace(support[s], coefficients[s], born[s], b, size[s])
        if in_ball:
            kernel_row(code, sigma, support[s], size[s], X[i], row)
            expansion(row, coefficients[s], size[s], f)
            expansion_norm[s] += norm_gained(-slopes[0], f[0])
        store(support[s], coefficients[s], size[s], X[i], slopes, 1.0)
        born[s, size[s]] = rounds[s]
        size[s] += 1
        if in_ball:
            largest_label[s] = max(largest_label[s], abs(y[i]))
            factor = factor_into_ball(expansion_norm[s] + np.sum(weights[s] * weights[s]), largest_label[s], reg, rounds[s])
            scale_rows(coefficients[s], size[s], factor)
            scale_rows(weights[s], 1, factor)
            expansion_norm[s] *= factor * factor


@kernel
def _smallest(coefficients: Array, born: Array, size: int) -> int:
    """The support vector with the smallest coefficient (multi-class: its largest entry), the oldest on ties."""
    best, least = -1, np.inf
    for b in range(size):
        length = 0.0
        for c in range(coefficients.shape[1]):
            length = max(length, abs(coefficients[b, c]))
        if best < 0 or length < least or (length == least and born[b] < born[best]):
            best, least = b, length
    return best


@kernel
def _replace(support: Array, coefficients: Array, born: Array, position: int, last: int) -> None:
    """Close the gap at `position` with the support vector at `last`."""
    support[:, position] = support[:, last]
    coefficients[position] = coefficients[last]
    born[position] = born[last]
