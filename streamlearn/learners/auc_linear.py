"""Linear ranking in one pass without stored instances: OPAUC, SOLAM and SPAM-NET keep moments of the two classes instead.

The mean squared loss over all pairs depends on the two classes' rates, means and covariances only, so a step on it
needs no past event. On class axes, index 0 is the negative class and 1 the positive one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from streamlearn.features.compiled import Array, kernel
from streamlearn.learners.linear import bounded_dot, descend, dot, is_finite, kernel_step, move_average, soft_threshold, stable_step
from streamlearn.learners.parameters import NonNegative, Positive
from streamlearn.learners.protocol import Field, Pool, Shape, Task

_INT64 = np.dtype(np.int64)
_FLOAT64 = np.dtype(np.float64)
_RANKING = frozenset({Task.RANKING})


@dataclass(frozen=True, kw_only=True)
class Opauc:
    """OPAUC: gradient descent on the squared loss against all past events of the other class, through their mean and covariance.

    Source: Gao, Jin, Zhu and Zhou, One-Pass AUC Optimization (2013). With c and S the mean and covariance of the other
    class so far: w <- w - eta (reg w - y (x - c) + (x - c)(x - c)'w + S w), once that class has been seen. A step is
    shortened to 2 / (||x - c||^2 + trace S) if longer.

    Cost per event 6 d^2 flops and memory per model (2 d^2 + 3 d) itemsize + 16 bytes: for up to some hundred features.

    eta: step size, > 0; default 0.03 / (||x - c||^2 + trace S). reg: weight of the l2 penalty, >= 0.
    """

    name: ClassVar[str] = "opauc"
    tasks: ClassVar[frozenset[Task]] = _RANKING

    eta: Positive | None = None
    reg: NonNegative = 0.0

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        return {
            "weights": Field((1, shape.dim), shape.dtype),
            "class_means": Field((2, shape.dim), shape.dtype),
            "covariances": Field((2, shape.dim, shape.dim), shape.dtype),
            "seen": Field((2,), _INT64),
        }

    def shared(self, shape: Shape) -> Mapping[str, Array]:
        return {}

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        _learn_covariances(
            kernel_step(self.eta), self.reg, pool["weights"], pool["class_means"], pool["covariances"], pool["seen"],
            slots, X, y, scores,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Solam:
    """SOLAM: stochastic steps to the saddle point that the squared AUC loss is equivalent to.

    Source: Ying, Wen and Lyu, Stochastic Online AUC Maximization (2016). With p the rate of positives so far, f = w.x
    and step g = eta / sqrt(t), descent in w, a, b and ascent in alpha:
    y = +1: w -= g 2(1-p)((f - a) - (1 + alpha)) x, a += g 2(1-p)(f - a), alpha -= g 2(1-p)(f + p alpha);
    y = -1: w -= g 2p((f - b) + (1 + alpha)) x, b += g 2p(f - b), alpha += g 2p(f - (1-p) alpha);
    then w is projected onto the ball of radius R, a and b onto [-R, R], alpha onto [-2R, 2R]. Ranks by the mean of w,
    weighted by g, the w of step t being the one before its update. All variables start at 0 (the published program
    starts at the bounds).

    Cost per event 10 d flops; memory per model 2 d itemsize + 48 bytes.

    eta: step size, > 0, for standardised features (rows of norm 1 take about d times as much). radius: R, > 0.
    """

    name: ClassVar[str] = "solam"
    tasks: ClassVar[frozenset[Task]] = _RANKING

    eta: Positive = 0.05
    radius: Positive = 10.0

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        return {
            "weights": Field((1, shape.dim), shape.dtype),
            "averaged": Field((1, shape.dim), shape.dtype),
            "saddle": Field((3,), _FLOAT64),  # a, b, alpha
            "step_total": Field((), _FLOAT64),
            "seen": Field((2,), _INT64),
        }

    def shared(self, shape: Shape) -> Mapping[str, Array]:
        return {}

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        _learn_saddle_point(
            self.eta, self.radius, pool["weights"], pool["averaged"], pool["saddle"], pool["step_total"], pool["seen"],
            slots, X, y, scores,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SpamNet:
    """SPAM-NET: the saddle-point problem of SOLAM with a, b and alpha solved exactly, and an elastic-net proximal step.

    Source: Natole, Ying and Lyu, Stochastic Proximal Algorithms for AUC Maximization (2018). With m+ and m- the class
    means, p the rate of positives and g = eta / sqrt(t):
    y = +1: u = w - g 2(1-p)(w.(x - m-) - 1) x; y = -1: u = w - g 2p(w.(x - m+) + 1) x;
    w = sign(u) max(0, |u| - g l1) / (1 + g reg). Ranks by the mean of w over all steps.

    Deviation: the paper takes p, m+ and m- from the whole training set in advance. Here they are the running rate and
    means, this event included, and steps begin when both classes have been seen. A step is shortened to
    2 / (2(1-p) ||x|| ||x - m-||), with p and m+ for y = -1, if longer, and w is kept in the ball of radius
    sqrt(1 / (2 reg)), which contains the solution (at w = 0 the loss is p(1-p) <= 1/4): large features must not make it
    diverge.

    Cost per event 14 d flops; memory per model 4 d itemsize + 24 bytes.

    eta: step size, > 0; default 2/d, for standardised features, whose squared norm is about d. reg: weight of the l2
    penalty (beta 1), >= 0. l1: weight of the l1 penalty (beta 2), >= 0.
    """

    name: ClassVar[str] = "spam-net"
    tasks: ClassVar[frozenset[Task]] = _RANKING

    eta: Positive | None = None
    reg: NonNegative = 0.0001
    l1: NonNegative = 0.0001

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        return {
            "weights": Field((1, shape.dim), shape.dtype),
            "averaged": Field((1, shape.dim), shape.dtype),
            "class_means": Field((2, shape.dim), shape.dtype),
            "seen": Field((2,), _INT64),
            "steps": Field((), _INT64),
        }

    def shared(self, shape: Shape) -> Mapping[str, Array]:
        return {}

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        eta = 2.0 / pool.shape.dim if self.eta is None else self.eta
        _learn_proximal(
            eta, self.reg, self.l1, pool["weights"], pool["averaged"], pool["class_means"], pool["seen"],
            pool["steps"], slots, X, y, scores,
        )  # fmt: skip


@kernel
def _learn_covariances(
    eta: float, reg: float, weights: Array, means: Array, covariances: Array, seen: Array,
    slots: Array, X: Array, y: Array, scores: Array,
) -> None:  # fmt: skip
    deviation = np.empty(X.shape[1], X.dtype)
    gradient = np.empty(X.shape[1], X.dtype)
    for i in range(len(slots)):
        s, x = slots[i], X[i]
        w = weights[s, 0]
        scores[i, 0] = bounded_dot(w, x)
        if np.isnan(y[i]):
            continue
        own = 1 if y[i] > 0.0 else 0
        other = 1 - own
        seen[s, own] += 1
        _add_to_covariance(means[s, own], covariances[s, own], seen[s, own], x, deviation)
        move_average(means[s, own], x, 1.0 / seen[s, own])
        if seen[s, other] > 0:
            curvature = _opposite_gradient(w, 2.0 * own - 1.0, x, means[s, other], covariances[s, other], deviation, gradient)
            step = stable_step(eta, curvature)
            descend(w, step, gradient, max(0.0, 1.0 - step * reg))


@kernel
def _learn_saddle_point(
    eta: float, radius: float, weights: Array, averaged: Array, saddle: Array, step_total: Array, seen: Array,
    slots: Array, X: Array, y: Array, scores: Array,
) -> None:  # fmt: skip
    gradient = np.empty(X.shape[1], X.dtype)
    for i in range(len(slots)):
        s, x = slots[i], X[i]
        w = weights[s, 0]
        scores[i, 0] = bounded_dot(averaged[s, 0], x)
        if np.isnan(y[i]):
            continue
        own = 1 if y[i] > 0.0 else 0
        seen[s, own] += 1
        t = seen[s, 0] + seen[s, 1]
        step = eta / np.sqrt(t)
        step_total[s] += step
        move_average(averaged[s, 0], w, step / step_total[s])
        slope = _saddle_step(step, radius, own, seen[s, 1] / t, dot(w, x), saddle[s])
        for j in range(len(x)):
            gradient[j] = slope * x[j]
        descend(w, step, gradient, 1.0)
        _project_to_ball(w, radius)


@kernel
def _learn_proximal(
    eta: float, reg: float, l1: float, weights: Array, averaged: Array, means: Array, seen: Array, steps: Array,
    slots: Array, X: Array, y: Array, scores: Array,
) -> None:  # fmt: skip
    gradient = np.empty(X.shape[1], X.dtype)
    for i in range(len(slots)):
        s, x = slots[i], X[i]
        w = weights[s, 0]
        scores[i, 0] = bounded_dot(averaged[s, 0], x)
        if np.isnan(y[i]):
            continue
        own = 1 if y[i] > 0.0 else 0
        other = 1 - own
        seen[s, own] += 1
        move_average(means[s, own], x, 1.0 / seen[s, own])
        if seen[s, other] == 0:
            continue
        steps[s] += 1
        rate_of_others = seen[s, other] / (seen[s, 0] + seen[s, 1])
        curvature = _proximal_gradient(w, 2.0 * own - 1.0, rate_of_others, x, means[s, other], gradient)
        step = stable_step(eta / np.sqrt(steps[s]), curvature)
        descend(w, step, gradient, 1.0)
        soft_threshold(w, step * l1)
        _shrink(w, 1.0 / (1.0 + step * reg))
        _project_to_ball(w, np.sqrt(0.5 / reg))
        move_average(averaged[s, 0], w, 1.0 / steps[s])


@kernel
def _opposite_gradient(w: Array, sign: float, x: Array, mean: Array, covariance: Array, deviation: Array, gradient: Array) -> float:
    """Gradient of the mean of (1 - sign w.(x - b))^2 / 2 over all b with this mean and covariance; returns the trace of its derivative."""
    for j in range(len(x)):
        deviation[j] = x[j] - mean[j]
    curvature = float(dot(deviation, deviation))
    slope = x.dtype.type(dot(w, deviation) - sign)
    for j in range(len(x)):
        gradient[j] = slope * deviation[j] + dot(covariance[j], w)
        curvature += covariance[j, j]
    return curvature


@kernel
def _saddle_step(step: float, radius: float, own: int, p: float, f: float, saddle: Array) -> float:
    """Move a, b and alpha; returns the slope of w's gradient, which is slope * x, at the old values."""
    rate = 2.0 * (1.0 - p) if own == 1 else 2.0 * p
    sign = 2.0 * own - 1.0
    centre = 0 if own == 1 else 1
    rival = p if own == 1 else 1.0 - p
    residual, alpha = f - saddle[centre], saddle[2]
    slope = rate * (residual - sign * (1.0 + alpha))
    if not is_finite(slope * step):
        return 0.0
    saddle[centre] = min(max(saddle[centre] + step * rate * residual, -radius), radius)
    saddle[2] = min(max(alpha - step * rate * (sign * f + rival * alpha), -2.0 * radius), 2.0 * radius)
    return float(slope)


@kernel
def _proximal_gradient(w: Array, sign: float, rate: float, x: Array, opposite_mean: Array, gradient: Array) -> float:
    """2 rate (w.(x - m) - sign) x with m the other class's mean and rate its share; returns the norm of its derivative in w."""
    margin = x.dtype.type(0.0)
    distance = x.dtype.type(0.0)
    for j in range(len(x)):
        difference = x[j] - opposite_mean[j]
        margin += w[j] * difference
        distance += difference * difference
    slope = x.dtype.type(2.0 * rate * (margin - sign))
    for j in range(len(x)):
        gradient[j] = slope * x[j]
    return float(2.0 * rate * np.sqrt(float(dot(x, x))) * np.sqrt(float(distance)))


@kernel
def _add_to_covariance(mean: Array, covariance: Array, count: int, x: Array, deviation: Array) -> None:
    """Make `covariance` (divided by the count) that of `count` rows, x the latest, `mean` still without it; not if that overflows."""
    for j in range(len(x)):
        deviation[j] = x[j] - mean[j]
    if not is_finite(dot(deviation, deviation)):
        return
    keep = x.dtype.type((count - 1.0) / count)
    share = x.dtype.type(1.0 / count)
    for j in range(len(x)):
        scaled = keep * share * deviation[j]
        for k in range(len(x)):
            covariance[j, k] = keep * covariance[j, k] + scaled * deviation[k]


@kernel
def _project_to_ball(w: Array, radius: float) -> None:
    norm = np.sqrt(float(dot(w, w)))
    if norm > radius:
        _shrink(w, radius / norm)


@kernel
def _shrink(w: Array, factor: float) -> None:
    w *= w.dtype.type(factor)
