"""AVM: SGD whose events are represented by the core points of cells that cover the data (Le et al., Approximation Vector Machines)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from streamlearn.features.compiled import Array, kernel
from streamlearn.features.generator import initial_state, uniform
from streamlearn.learners.ball import factor_into_ball, norm_gained, scale_rows
from streamlearn.learners.coverage import CELLS, HYPERSPHERE, CellName, covering_core, nearest_core
from streamlearn.learners.losses import SQUARED, Objective, class_fields, objective, output_slopes, publish_scores
from streamlearn.learners.parameters import Count, KernelName, NonNegative, Positive, Seed, Width, width_of
from streamlearn.learners.protocol import Field, Pool, Shape, Task
from streamlearn.learners.support import KERNELS, distances_and_row, expansion, kernel_row, load, support_fields


@dataclass(frozen=True, kw_only=True)
class Avm:
    """AVM: SGD with steps 1 / (reg t) in which the nearest core point stands for an event that falls into its cell.

    Source: Le et al., Algorithms 2 (binary, regression) and 5 (multi-class) with the coverage of Algorithm 3
    (hypersphere) or 4 (hyperrectangle). Every learned event shrinks the model by (t-1)/t; with probability
    max(0, 1 - beta / t^rho) it gives its step -slope / (reg t) to the nearest core whose cell holds it, otherwise it
    becomes a core with that coefficient, even if that is 0. The model is stored without the common factor 1 / (reg t),
    so shrinking is free. The last iterate predicts, not an average. With the l2 loss and reg <= 1 w is projected on the
    ball of radius max |y| / sqrt(reg), max over the labels so far; ||w||^2 is kept incrementally.

    delta is the diameter of a cell: a hypersphere has the radius delta / 2, a hyperrectangle the half-side
    delta / (2 sqrt(d)), borders included. In the authors' program delta is the radius, or the half-side; the paper's
    Algorithm 4 has the half-side delta / sqrt(d), which contradicts its own definition of diameter. The program also
    has beta / (t rho), steps at a margin of exactly 1, does not project, and drops events when its core set is full.

    Cost per event O(d S + S outputs) for S cores; l2: at most twice that. Memory per model
    S (d + outputs) * itemsize + outputs + 40 bytes. Without a budget S grows until the cells cover the data.

    delta: > 0, on the scale of sigma. cell: hypersphere or hyperrectangle. budget: S, the most cores, >= 1; when it is
    full the nearest core stands for any event; default no limit. beta, rho: of the probability above, >= 0; beta = 0:
    always. sigma: kernel width, > 0, or auto. reg: lambda of reg / 2 ||w||^2, > 0; default 0.001, or 0.03 for
    regression; the papers use about 5 / n for a stream of n events. loss: hinge, smooth-hinge or logistic; l1, l2 or
    eps for regression. epsilon: half-width of the zone without slope (eps), >= 0. kernel: gaussian, laplacian or
    cauchy. seed: of the random choices.
    """

    name: ClassVar[str] = "avm"
    tasks: ClassVar[frozenset[Task]] = frozenset({Task.BINARY, Task.MULTICLASS, Task.REGRESSION})

    delta: Positive = 1.0
    cell: CellName = "hypersphere"
    budget: Count | None = None
    beta: NonNegative = 0.0
    rho: NonNegative = 1.0
    sigma: Width = "auto"
    reg: Positive | None = None
    loss: str = ""  # "": hinge, or eps for regression
    epsilon: NonNegative = 0.1
    kernel: KernelName = "gaussian"
    seed: Seed = 1

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        return (
            class_fields(shape)
            | support_fields(shape, shape.support if self.budget is None else self.budget)
            | {
                "rounds": Field((), np.dtype(np.int64)),
                "squared_norm": Field((), np.dtype(np.float64)),
                "largest_label": Field((), np.dtype(np.float64)),
                "generator": Field((), np.dtype(np.int64), initial_state(self.seed)),
            }
        )

    def shared(self, shape: Shape) -> Mapping[str, Array]:
        return {}

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        regression = pool.shape.task is Task.REGRESSION
        aim = objective(pool.shape.task, self.loss or ("eps" if regression else "hinge"), epsilon=self.epsilon)
        reg = self.reg or (0.03 if regression else 0.001)
        cell = CELLS[self.cell]
        reach = self.delta / 2.0 if cell == HYPERSPHERE else self.delta / (2.0 * math.sqrt(pool.shape.dim))
        in_ball = regression and aim.loss == SQUARED and reg <= 1.0
        width, bounded = width_of(self.sigma), self.budget is not None
        rule = Rule(aim, KERNELS[self.kernel], width, reg, cell, reach, bounded, self.beta, self.rho, in_ball)
        start = 0
        while start < len(slots):
            models = Models(**{name: pool[name] for name in Models._fields})
            start = _descend(rule, models, start, slots, X, y, scores)
            if start < len(slots):
                pool.reserve(support=pool.shape.support + 1)


class Rule(NamedTuple):
    """The hyper-parameters, as the kernels take them."""

    aim: Objective
    code: int
    sigma: float
    reg: float
    cell: int
    reach: float
    capped: bool
    beta: float
    rho: float
    in_ball: bool


class Models(NamedTuple):
    """The pool's arrays, all with a leading slot axis."""

    known: Array
    support: Array
    coefficients: Array
    size: Array
    rounds: Array
    squared_norm: Array
    largest_label: Array
    generator: Array


@kernel
def _descend(rule: Rule, models: Models, start: int, slots: Array, X: Array, y: Array, scores: Array) -> int:
    """Learn the events from `start` on; returns the first one that may need more room for cores than there is, else len(slots)."""
    room = models.support.shape[2]
    row, distances, x = np.empty(room, X.dtype), np.empty(room, X.dtype), np.empty(X.shape[1], X.dtype)
    f, slopes = np.empty(scores.shape[1], X.dtype), np.empty(scores.shape[1], X.dtype)
    for i in range(start, len(slots)):
        s = slots[i]
        if models.size[s] == room and not rule.capped:
            return i
        distances_and_row(rule.code, rule.sigma, models.support[s], models.size[s], X[i], distances, row)
        expansion(row, models.coefficients[s], models.size[s], f)
        factor = 1.0 / (rule.reg * max(models.rounds[s], 1))
        for c in range(len(f)):
            f[c] *= factor
        publish_scores(f, models.known[s], scores[i])
        if np.isnan(y[i]):
            continue
        output_slopes(rule.aim, y[i], f, models.known[s], slopes)
        models.rounds[s] += 1
        core = _representative(rule, models, s, X[i], distances)
        if rule.in_ball:
            _follow_norm(rule, models, s, core, -slopes[0], row, x, f)
        for c in range(len(slopes)):
            models.coefficients[s, core, c] -= slopes[c]
        if rule.in_ball:
            _project(rule, models, s, y[i])
    return len(slots)


@kernel
def _representative(rule: Rule, models: Models, s: int, x: Array, distances: Array) -> int:
    """The core that stands for x; x itself becomes one if no cell holds it or the schedule says so. distances: of the cores from x."""
    cores, size = models.support[s], models.size[s]
    if size == cores.shape[1]:
        return int(nearest_core(distances, size))
    if rule.beta == 0.0 or uniform(models.generator, s) <= 1.0 - rule.beta / models.rounds[s] ** rule.rho:
        core = covering_core(rule.cell, rule.reach, cores, size, x, distances)
        if core >= 0:
            return int(core)
    cores[:, size] = x
    models.size[s] += 1
    return int(size)


@kernel
def _follow_norm(rule: Rule, models: Models, s: int, core: int, coefficient: float, row: Array, x: Array, f: Array) -> None:
    """Account for coefficient * Phi(core) joining the model. row, x and f are scratch."""
    load(models.support[s], core, x)
    kernel_row(rule.code, rule.sigma, models.support[s], models.size[s], x, row)
    expansion(row, models.coefficients[s], models.size[s], f)
    models.squared_norm[s] += norm_gained(coefficient, f[0])


@kernel
def _project(rule: Rule, models: Models, s: int, label: float) -> None:
    """Bring the model back into the ball."""
    models.largest_label[s] = max(models.largest_label[s], abs(label))
    factor = factor_into_ball(models.squared_norm[s], models.largest_label[s], rule.reg, models.rounds[s])
    if factor < 1.0:
        scale_rows(models.coefficients[s], models.size[s], factor)
        models.squared_norm[s] *= factor * factor
