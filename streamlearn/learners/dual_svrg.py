"""DualSVRG: variance-reduced gradient steps in the kernel's own space and in random features (Le et al., snapshot memory, 2022)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from streamlearn.features.compiled import Array, kernel
from streamlearn.features.fourier import BLOCK, draw_frequencies, fourier_row, project_row, projections
from streamlearn.features.tiles import product, squared_distances
from streamlearn.learners.coverage import HYPERSPHERE, covering_core
from streamlearn.learners.linear import gradient_step, linear_outputs
from streamlearn.learners.losses import Objective, class_fields, objective, output_slopes, publish_scores
from streamlearn.learners.parameters import Count, KernelName, NonNegative, Positive, Seed, Width, width_of
from streamlearn.learners.protocol import Field, Pool, Shape, Task
from streamlearn.learners.support import KERNELS, expansion, kernel_row

BUDGET, COVERAGE, ALWAYS_MOVE = range(3)
ORACLES = {"budget": BUDGET, "coverage": COVERAGE, "always-move": ALWAYS_MOVE}

# The linear combinations that a model holds, as positions on the leading axis of `coefficients` and `weights`:
MODEL = 0  # w, which predicts
ANCHOR = 1  # u, the mean of the w's of the last period; the paper's dual checkpoint model
TOTAL = 2  # the sum of the w's of this period
MEMORY = 3  # the sum over the memory of d loss / d w at u


@dataclass(frozen=True, kw_only=True)
class DualSvrg:
    """DualSVRG: SGD whose gradient is corrected by that of an anchor model u over the last m events, in two spaces at once.

    Source: Le et al., Improving kernel online learning with a snapshot memory, equations 5 to 8 and Algorithms 1 to 4.
    An oracle places each learned event in the kernel's own space (as a core point) or in D random features
    [cos, sin] / sqrt(D). With Phi_i the event's features in its space,
    v_t = (slope at w - slope at u) Phi_t + mean over the last m events, t included, of (slope at u) Phi_i,
    w <- (w - eta v_t) / (1 + eta reg) in both spaces; after every n learned events u = mean of the last n w's and
    w = u. Before m events the mean is over those there are. Slopes of the memory are taken at the u of the period, so
    their sum changes by the event that joins and the one that leaves, and is made anew when u is.

    Oracles: budget keeps the first B events in the kernel's space; coverage those farther than theta from all cores (as
    the paper's Algorithm 4; its text says the opposite), B at most, which the paper leaves open; always-move none.
    The authors' program contradicts the paper (w is not reset to u, cores do not shrink, the middle piece of the smooth
    hinge has the wrong sign, other step sizes); the paper is followed here.

    Cost per event O(d (B + 2 D) + (B + D) outputs) plus, spread over a period, O(m / n) times the same. Memory per model
    (d B + 4 (B + 2 D) outputs + m (d + outputs)) * itemsize + 12 m + outputs + 16 bytes, and d D * itemsize shared.

    oracle: budget, coverage or always-move. budget: B, >= 1. theta: > 0, a radius: half of the diameters that the paper
    prints. frequencies: D, >= 1. memory: m, >= 1. period: n, >= 1. loss: smooth-hinge or logistic. tau: length of the
    quadratic piece of the smooth hinge, > 0. eta: step size, > 0. smoothness: M, the strong smoothness of the loss, >
    0; when given, the step size is 1 / (76 M) as in the paper's experiments (M = 1 / tau for the smooth hinge; for
    logistic 1/4, the program has 1), which is small: with one pass over thousands of events the default eta makes half
    the mistakes. reg: lambda of reg / 2 ||w||^2, >= 0. sigma: kernel width, > 0, or auto. kernel: gaussian, laplacian
    or cauchy. seed: of the frequencies.
    """

    name: ClassVar[str] = "dualsvrg"
    tasks: ClassVar[frozenset[Task]] = frozenset({Task.BINARY, Task.MULTICLASS})

    oracle: Literal["budget", "coverage", "always-move"] = "budget"
    budget: Count = 100
    theta: Positive = 1.0
    frequencies: Count = 200
    memory: Count = 100
    period: Count = 100
    loss: Literal["smooth-hinge", "logistic"] = "smooth-hinge"
    tau: Positive = 0.5
    eta: Positive = 0.5
    smoothness: Positive | None = None
    reg: NonNegative = 1e-4
    sigma: Width = "auto"
    kernel: KernelName = "gaussian"
    seed: Seed = 1

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        cores = 0 if ORACLES[self.oracle] == ALWAYS_MOVE else self.budget
        return class_fields(shape) | {
            "support": Field((shape.dim, cores), shape.dtype),
            "size": Field((), np.dtype(np.int64)),
            "coefficients": Field((4, cores, shape.outputs), shape.dtype),
            "weights": Field((4, shape.outputs, 2 * self.frequencies), shape.dtype),
            "memory": Field((self.memory, shape.dim), shape.dtype),
            "memory_labels": Field((self.memory,), np.dtype(np.float64)),
            "memory_cores": Field((self.memory,), np.dtype(np.int32)),
            "memory_slopes": Field((self.memory, shape.outputs), shape.dtype),
            "rounds": Field((), np.dtype(np.int64)),
        }

    def shared(self, shape: Shape) -> Mapping[str, Array]:
        drawn = draw_frequencies(shape.dim, self.frequencies, self.seed, self.kernel) / width_of(self.sigma)
        return {"frequencies": drawn.astype(shape.dtype)}

    @property
    def step_size(self) -> float:
        return self.eta if self.smoothness is None else 1.0 / (76.0 * self.smoothness)

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        rule = Rule(
            objective(pool.shape.task, self.loss, tau=self.tau), KERNELS[self.kernel], width_of(self.sigma), ORACLES[self.oracle],
            self.theta, self.step_size, self.reg, self.period,
        )  # fmt: skip
        models = Models(**{name: pool[name] for name in Models._fields})
        frequencies = pool.shared["frequencies"]
        for rows, angles in projections(X, frequencies):
            _descend(rule, models, frequencies, slots[rows], X[rows], angles, y[rows], scores[rows])


class Rule(NamedTuple):
    """The hyper-parameters, as the kernels take them."""

    aim: Objective
    code: int
    sigma: float
    oracle: int
    theta: float
    eta: float
    reg: float
    period: int


class Models(NamedTuple):
    """The pool's arrays, all with a leading slot axis."""

    known: Array
    support: Array
    size: Array
    coefficients: Array
    weights: Array
    memory: Array
    memory_labels: Array
    memory_cores: Array
    memory_slopes: Array
    rounds: Array


@kernel
def _descend(rule: Rule, models: Models, frequencies: Array, slots: Array, X: Array, angles: Array, y: Array, scores: Array) -> None:
    outputs = scores.shape[1]
    row, z = np.empty(models.support.shape[2], X.dtype), np.empty(2 * angles.shape[1], X.dtype)
    f, slopes, anchor_slopes = np.empty(outputs, X.dtype), np.empty(outputs, X.dtype), np.empty(outputs, X.dtype)
    distances = np.empty(len(row), X.dtype)
    past_angles, past_z = np.empty((min(BLOCK, models.memory.shape[1]), angles.shape[1]), X.dtype), np.empty(len(z), X.dtype)
    for i in range(len(slots)):
        s = slots[i]
        coefficients, weights, known = models.coefficients[s], models.weights[s], models.known[s]
        kernel_row(rule.code, rule.sigma, models.support[s], models.size[s], X[i], row)
        feature_row(angles[i], z)
        _outputs(coefficients[MODEL], weights[MODEL], models.size[s], row, z, f, slopes)
        publish_scores(f, known, scores[i])
        if np.isnan(y[i]):
            continue
        output_slopes(rule.aim, y[i], f, known, slopes)
        _outputs(coefficients[ANCHOR], weights[ANCHOR], models.size[s], row, z, f, anchor_slopes)
        output_slopes(rule.aim, y[i], f, known, anchor_slopes)

        core = _new_core(rule, models, s, X[i], distances)
        _step(coefficients[MODEL], weights[MODEL], core, rule.eta, slopes, z)
        _step(coefficients[MODEL], weights[MODEL], core, -rule.eta, anchor_slopes, z)
        _forget_oldest(models, s, frequencies, past_angles, past_z)
        _remember(models, s, X[i], y[i], core, anchor_slopes, z)
        models.rounds[s] += 1
        share, decay = rule.eta / _remembered(models, s), 1.0 / (1.0 + rule.eta * rule.reg)
        _follow_memory(coefficients, models.size[s], share, decay)
        _follow_memory(weights, outputs, share, decay)
        if models.rounds[s] % rule.period == 0:
            _move_anchor(coefficients, rule.period)
            _move_anchor(weights, rule.period)
            _renew_memory(rule, models, s, frequencies, row, past_angles, past_z, f, slopes)


@kernel
def feature_row(angles: Array, z: Array) -> None:
    """The random features of one event, with phi(x) . phi(x) = 1."""
    fourier_row(angles, 1.0 / np.sqrt(len(angles)), z)


@kernel
def _outputs(coefficients: Array, weights: Array, size: int, row: Array, z: Array, f: Array, scratch: Array) -> None:
    """f = outputs of one linear combination, from both spaces."""
    expansion(row, coefficients, size, scratch)
    linear_outputs(weights, z, f)
    for c in range(len(f)):
        f[c] += scratch[c]


@kernel
def _new_core(rule: Rule, models: Models, s: int, x: Array, distances: Array) -> int:
    """The event's position among the cores if the oracle keeps it in the kernel's own space (Z_t = 0), else -1. distances: scratch."""
    cores, size = models.support[s], models.size[s]
    if rule.oracle == ALWAYS_MOVE or size == cores.shape[1]:
        return -1
    if rule.oracle == COVERAGE:
        squared_distances(x, cores, size, distances)
        if covering_core(HYPERSPHERE, rule.theta, cores, size, x, distances) >= 0:
            return -1
    cores[:, size] = x
    models.size[s] += 1
    return int(size)


@kernel
def _step(coefficients: Array, weights: Array, core: int, eta: float, slopes: Array, z: Array) -> None:
    """Subtract eta * slopes * Phi(x), in the kernel's space if the event is the core `core`, in random features if core < 0."""
    if core < 0:
        gradient_step(weights, eta, slopes, z)
    else:
        for c in range(len(slopes)):
            coefficients[core, c] -= eta * slopes[c]


@kernel
def _remembered(models: Models, s: int) -> int:
    """How many events the memory holds."""
    return int(min(models.rounds[s], models.memory.shape[1]))


@kernel
def _remember(models: Models, s: int, x: Array, label: float, core: int, slopes: Array, z: Array) -> None:
    """Put an event with its slopes at the anchor into the place of the oldest."""
    place = models.rounds[s] % models.memory.shape[1]
    models.memory[s, place], models.memory_labels[s, place], models.memory_cores[s, place] = x, label, core
    models.memory_slopes[s, place] = slopes
    _step(models.coefficients[s, MEMORY], models.weights[s, MEMORY], core, -1.0, slopes, z)


@kernel
def _forget_oldest(models: Models, s: int, frequencies: Array, angles: Array, z: Array) -> None:
    """Take the oldest event's gradient out of the memory's sum, if the memory is full. angles and z are scratch."""
    place = models.rounds[s] % models.memory.shape[1]
    slopes, core = models.memory_slopes[s, place], models.memory_cores[s, place]
    if models.rounds[s] < models.memory.shape[1] or _all_zero(slopes):
        return
    if core < 0:
        project_row(models.memory[s, place], frequencies, angles[0])
        feature_row(angles[0], z)
    _step(models.coefficients[s, MEMORY], models.weights[s, MEMORY], core, 1.0, slopes, z)


@kernel
def _all_zero(slopes: Array) -> bool:
    others = 0
    for c in range(len(slopes)):
        others += slopes[c] != 0.0
    return others == 0


@kernel
def _renew_memory(
    rule: Rule, models: Models, s: int, frequencies: Array, row: Array, angles: Array, z: Array, f: Array, slopes: Array
) -> None:  # fmt: skip
    """Take all slopes of the memory at the new anchor and sum their gradients from nothing. row to slopes are scratch."""
    coefficients, weights = models.coefficients[s], models.weights[s]
    coefficients[MEMORY], weights[MEMORY] = 0.0, 0.0
    count = _remembered(models, s)
    for first in range(0, count, BLOCK):
        last = min(first + BLOCK, count)
        product(models.memory[s, first:last], frequencies, angles[: last - first])
        for place in range(first, last):
            kernel_row(rule.code, rule.sigma, models.support[s], models.size[s], models.memory[s, place], row)
            feature_row(angles[place - first], z)
            _outputs(coefficients[ANCHOR], weights[ANCHOR], models.size[s], row, z, f, slopes)
            output_slopes(rule.aim, models.memory_labels[s, place], f, models.known[s], slopes)
            models.memory_slopes[s, place] = slopes
            _step(coefficients[MEMORY], weights[MEMORY], models.memory_cores[s, place], -1.0, slopes, z)


@kernel
def _follow_memory(part: Array, rows: int, eta: float, decay: float) -> None:
    """w <- decay * (w - eta * memory), and add it to the period's total; part [4, rows or more, columns]."""
    eta, decay = part.dtype.type(eta), part.dtype.type(decay)
    model, total, memory = part[MODEL, :rows].reshape(-1), part[TOTAL, :rows].reshape(-1), part[MEMORY, :rows].reshape(-1)
    for j in range(len(model)):
        model[j] = decay * (model[j] - eta * memory[j])
        total[j] += model[j]


@kernel
def _move_anchor(part: Array, period: int) -> None:
    """u = w = the mean of the period."""
    part[ANCHOR] = part[TOTAL] * part.dtype.type(1.0 / period)
    part[MODEL] = part[ANCHOR]
    part[TOTAL] = 0.0
