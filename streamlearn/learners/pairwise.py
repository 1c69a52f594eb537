"""Ranking by stored instances of the other class: FPOGD, its last-point form, Kar's sample buffers, and OAM.

An event (z, y) and a stored instance b of the other class have margin y w.(z - b), positive when the pair is ranked
rightly. Each learner is a rule for what to store, and a step on the losses of the event's pairs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from streamlearn.features.compiled import Array, inlined, kernel
from streamlearn.features.fourier import BLOCK, draw_frequencies, fourier_row, projections
from streamlearn.features.generator import initial_state, pick, uniform
from streamlearn.learners.linear import bounded_dot, descend, is_finite, kernel_step, move_average, soft_threshold, stable_step
from streamlearn.learners.parameters import Count, KernelName, NonNegative, Positive, Seed, Width, width_of
from streamlearn.learners.protocol import Field, Pool, Shape, Task

CALIBRATION = 1000  # events after which an automatic distance threshold is frozen
_INT64 = np.dtype(np.int64)
_FLOAT64 = np.dtype(np.float64)
_RANKING = frozenset({Task.RANKING})


def _instance_fields(shape: Shape, features: int, room: int, seed: int) -> dict[str, Field]:
    """Weights, and room for `room` instances of each class; index 0 is the negative class, 1 the positive one."""
    return {
        "weights": Field((1, features), shape.dtype),
        "instances": Field((2, room, features), shape.dtype),
        "size": Field((2,), _INT64),  # instances stored
        "seen": Field((2,), _INT64),  # events learned
        "generator": Field((), _INT64, initial_state(seed)),
    }


class Strata(NamedTuple):
    """Each class in at most s strata: one stored instance, the centroid and the number of members of each. Axes [slot, class, ...]."""

    instances: Array  # [.., s, features]
    centroids: Array  # [.., s, features]
    members: Array  # int64 [.., s]
    size: Array  # int64, strata opened
    seen: Array  # int64, events learned


class Spread(NamedTuple):
    """Of a model's first events. The mean squared distance of a random pair is twice the mean squared deviation."""

    mean: Array  # [slots, features]
    deviations: Array  # float64 [slots], sum of squared ones


def _strata_fields(shape: Shape, features: int, strata: int, seed: int) -> dict[str, Field]:
    return _instance_fields(shape, features, strata, seed) | {
        "centroids": Field((2, strata, features), shape.dtype),
        "members": Field((2, strata), _INT64),
        "spread_mean": Field((features,), shape.dtype),
        "spread": Field((), _FLOAT64),
    }


def _strata(pool: Pool) -> Strata:
    return Strata(pool["instances"], pool["centroids"], pool["members"], pool["size"], pool["seen"])


@dataclass(frozen=True, kw_only=True)
class Fpogd:
    """FPOGD: pairwise gradient descent on random Fourier features, against one stored instance per stratum of the other class.

    Source: AlQuabeh, Mukhoty and Gu, Variance Reduced Online Gradient Descent for Kernelized Pairwise Learning with
    Limited Memory (2023), Algorithm 1 with its online stratified sampling. With C_j the strata of the other class, b_j
    their stored instances and n the number of its events so far, w <- (1 - eta reg) w - eta v with v = sum_j |C_j|/n
    grad (1 - y w.(z - b_j))^2 / 2. Then z joins the nearest stratum of its own class, or opens a new one if there is
    room and it is farther than epsilon from every centroid.

    Readings adopted where the paper is ambiguous. Frequencies are drawn once (its box draws them in the loop).
    z = [cos, sin] / sqrt(frequencies), so that z.z = 1; its D is 2 * frequencies. Strata are per class, because only
    pairs of opposite labels have a loss, and |C_j|/n counts that class alone. A centroid is the mean of its members
    (the published program moves it away from them). A step is shortened to 2 / sum_j |C_j|/n ||z - b_j||^2 if longer,
    beyond which it would overshoot: never the case on Fourier features with eta <= 1/2.

    Cost per event (2 d + 22 strata + 20) frequencies flops. Memory per model (2 + 4 strata) F itemsize + 16 strata + 48
    bytes with F = 2 frequencies (linear: F = d); shared by all models d frequencies itemsize.

    map: fourier, or linear (z = x). frequencies: >= 1. sigma: kernel width, > 0, or auto; the paper has sqrt(d / 2),
    that is gamma = 1/d. eta: step size, > 0; default 0.03 over the sum above, whatever the scale of the features. reg: weight
    of the l2 penalty, >= 0. l1: weight of the l1 penalty (soft threshold, as in the published program), >= 0. strata:
    at most this many per class, >= 1. epsilon: squared distance, >= 0; default the mean squared distance of a random
    pair of the model's first 1000 events, running until then. replacement: a stratum stores its newest member (fifo) or
    a uniform sample of its members (reservoir: unbiased, but the same few instances for long, which ranks worse).
    kernel: gaussian, laplacian or cauchy. seed: of frequencies and samples.
    """

    name: ClassVar[str] = "fpogd"
    tasks: ClassVar[frozenset[Task]] = _RANKING

    map: Literal["fourier", "linear"] = "fourier"
    frequencies: Count = 200
    sigma: Width = "auto"
    eta: Positive | None = None
    reg: NonNegative = 0.0
    l1: NonNegative = 0.0
    strata: Count = 4
    epsilon: NonNegative | None = None
    replacement: Literal["fifo", "reservoir"] = "fifo"
    kernel: KernelName = "gaussian"
    seed: Seed = 1

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        features = 2 * self.frequencies if self.map == "fourier" else shape.dim
        return _strata_fields(shape, features, self.strata, self.seed)

    def shared(self, shape: Shape) -> Mapping[str, Array]:
        if self.map == "linear":
            return {}
        drawn = draw_frequencies(shape.dim, self.frequencies, self.seed, self.kernel) / width_of(self.sigma)
        return {"frequencies": drawn.astype(shape.dtype)}

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        epsilon = -1.0 if self.epsilon is None else self.epsilon
        spread = Spread(pool["spread_mean"], pool["spread"])
        for rows, Z in self._features(pool, X):
            _learn_strata(
                kernel_step(self.eta), self.reg, self.l1, epsilon, self.replacement == "fifo", pool["weights"], _strata(pool),
                spread, pool["generator"], slots[rows], Z, y[rows], scores[rows],
            )  # fmt: skip

    def _features(self, pool: Pool, X: Array) -> Iterator[tuple[slice, Array]]:
        if self.map == "linear":
            yield slice(None), X
            return
        Z = np.empty((BLOCK, 2 * self.frequencies), X.dtype)
        for rows, angles in projections(X, pool.shared["frequencies"]):
            _fourier_rows(angles, 1.0 / np.sqrt(self.frequencies), Z)
            yield rows, Z[: len(angles)]


@dataclass(frozen=True, kw_only=True)
class OgdPair:
    """Pairwise gradient descent against the last event of the other class only: FPOGD, linear, with one stratum.

    Source: Yang et al., Simple Stochastic and Online Gradient Descent Algorithms for Pairwise Learning (2021), as FPOGD
    compares with it: w <- (1 - eta reg) w - eta grad (1 - y w.(x - b))^2 / 2. A step is shortened to 2 / ||x - b||^2 if
    longer.

    Cost per event 16 d flops; memory per model 6 d itemsize + 64 bytes.

    eta: step size, > 0; default 0.03 / ||x - b||^2. reg: weight of the l2 penalty, >= 0. l1: weight of the l1 penalty
    (soft threshold), >= 0.
    """

    name: ClassVar[str] = "ogd-pair"
    tasks: ClassVar[frozenset[Task]] = _RANKING

    eta: Positive | None = None
    reg: NonNegative = 0.0
    l1: NonNegative = 0.0

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        return Fpogd(map="linear", strata=1).fields(shape)

    def shared(self, shape: Shape) -> Mapping[str, Array]:
        return {}

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        learner = Fpogd(map="linear", strata=1, epsilon=0.0, eta=self.eta, reg=self.reg, l1=self.l1)
        learner.step(pool, slots, X, y, scores)


@dataclass(frozen=True, kw_only=True)
class Kar:
    """Pairwise gradient descent against a buffer of independent samples of the other class (RS-x), linear.

    Source: Kar, Sriperumbudur, Jain and Karnick, On the Generalization Ability of Online Learning Algorithms for
    Pairwise Loss Functions (2013), in the form FPOGD compares with: the first `budget` events of a class fill its
    buffer; after that each place takes the class's n-th event with probability 1/n, independently. The step is that of
    FPOGD with all places weighted equally.

    Cost per event 8 d budget flops; memory per model (1 + 2 budget) d itemsize + 40 bytes.

    budget: instances stored per class (x), >= 1. eta: step size, > 0; default 0.03 / the mean of ||x - b||^2. reg:
    weight of the l2 penalty, >= 0. l1: weight of the l1 penalty (soft threshold), >= 0. seed: of the samples.
    """

    name: ClassVar[str] = "kar"
    tasks: ClassVar[frozenset[Task]] = _RANKING

    budget: Count = 50
    eta: Positive | None = None
    reg: NonNegative = 0.0
    l1: NonNegative = 0.0
    seed: Seed = 1

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        return _instance_fields(shape, shape.dim, self.budget, self.seed)

    def shared(self, shape: Shape) -> Mapping[str, Array]:
        return {}

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        _learn_samples(
            kernel_step(self.eta), self.reg, self.l1, pool["weights"], pool["instances"], pool["size"], pool["seen"],
            pool["generator"], slots, X, y, scores,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Oam:
    """OAM: hinge steps against a reservoir of the other class, linear.

    Source: Zhao, Hoi, Jin and Yang, Online AUC Maximization (2011). An event joins its class's reservoir (a uniform
    sample without replacement), then learns from every b in the other one. With C_t = C max(1, n / budget), n the events
    of the other class so far:
    sequential: in turn, w += tau y (x - b), tau = min(C_t / 2, max(0, 1 - y w.(x - b)) / ||x - b||^2);
    gradient: w += C_t / 2 * the sum of y (x - b) over the pairs with y w.(x - b) <= 1, all judged at the old w.
    The known re-implementation projects w onto a ball and ranks by its running mean; the paper does neither, nor does
    this.

    Cost per event 8 d budget flops; memory per model (1 + 2 budget) d itemsize + 40 bytes.

    update: sequential or gradient. budget: instances stored per class, >= 1. C: weight of the loss, > 0. seed: of the
    reservoirs.
    """

    name: ClassVar[str] = "oam"
    tasks: ClassVar[frozenset[Task]] = _RANKING

    update: Literal["sequential", "gradient"] = "sequential"
    budget: Count = 100
    C: Positive = 0.0001
    seed: Seed = 1

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        return _instance_fields(shape, shape.dim, self.budget, self.seed)

    def shared(self, shape: Shape) -> Mapping[str, Array]:
        return {}

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        _learn_reservoirs(
            self.C, self.update == "sequential", pool["weights"], pool["instances"], pool["size"], pool["seen"],
            pool["generator"], slots, X, y, scores,
        )  # fmt: skip


@kernel
def _fourier_rows(angles: Array, scale: float, Z: Array) -> None:
    for i in range(len(angles)):
        fourier_row(angles[i], scale, Z[i])


@kernel
def _learn_strata(
    eta: float, reg: float, l1: float, epsilon: float, newest: bool, weights: Array, strata: Strata, spread: Spread,
    generator: Array, slots: Array, Z: Array, y: Array, scores: Array,
) -> None:  # fmt: skip
    shares = np.empty(strata.members.shape[2], Z.dtype)
    gradient = np.empty(Z.shape[1], Z.dtype)
    for i in range(len(slots)):
        s, z = slots[i], Z[i]
        w = weights[s, 0]
        scores[i, 0] = bounded_dot(w, z)
        if np.isnan(y[i]):
            continue
        own = 1 if y[i] > 0.0 else 0
        other = 1 - own
        for j in range(strata.size[s, other]):
            shares[j] = strata.members[s, other, j] / strata.seen[s, other]
        _pairwise_step(eta, reg, l1, w, 2.0 * own - 1.0, z, strata.instances[s, other], shares, strata.size[s, other], gradient)
        threshold = epsilon if epsilon >= 0.0 else _mean_squared_distance(spread, strata.seen, s, z)
        _join_stratum(strata, s, own, z, threshold, newest, generator)


@kernel
def _learn_samples(
    eta: float, reg: float, l1: float, weights: Array, instances: Array, size: Array, seen: Array, generator: Array,
    slots: Array, X: Array, y: Array, scores: Array,
) -> None:  # fmt: skip
    shares = np.empty(instances.shape[2], X.dtype)
    gradient = np.empty(X.shape[1], X.dtype)
    for i in range(len(slots)):
        s, x = slots[i], X[i]
        w = weights[s, 0]
        scores[i, 0] = bounded_dot(w, x)
        if np.isnan(y[i]):
            continue
        own = 1 if y[i] > 0.0 else 0
        other = 1 - own
        shares[:] = 1.0 / max(size[s, other], 1)
        _pairwise_step(eta, reg, l1, w, 2.0 * own - 1.0, x, instances[s, other], shares, size[s, other], gradient)
        seen[s, own] += 1
        _sample_independently(instances[s, own], size[s], own, seen[s, own], x, generator, s)


@kernel
def _learn_reservoirs(
    C: float, sequential: bool, weights: Array, instances: Array, size: Array, seen: Array, generator: Array,
    slots: Array, X: Array, y: Array, scores: Array,
) -> None:  # fmt: skip
    direction = np.empty(X.shape[1], X.dtype)
    budget = instances.shape[2]
    for i in range(len(slots)):
        s, x = slots[i], X[i]
        w = weights[s, 0]
        scores[i, 0] = bounded_dot(w, x)
        if np.isnan(y[i]):
            continue
        own = 1 if y[i] > 0.0 else 0
        other = 1 - own
        sign = 2.0 * own - 1.0
        seen[s, own] += 1
        _sample_reservoir(instances[s, own], size[s], own, seen[s, own], x, generator, s)
        limit = 0.5 * C * max(1.0, seen[s, other] / budget)
        if sequential:
            _step_in_turn(w, sign, x, instances[s, other], size[s, other], limit, direction)
        else:
            _step_at_once(w, sign, x, instances[s, other], size[s, other], limit, direction)


@kernel
def _step_in_turn(w: Array, sign: float, x: Array, instances: Array, size: int, limit: float, direction: Array) -> None:
    """For every instance in turn, w += sign tau (x - instance) with tau as large as its loss needs, at most `limit`."""
    for b in range(size):
        margin, distance = _margin_and_distance(w, x, instances, b)
        loss = max(0.0, 1.0 - sign * margin)
        tau = min(limit, loss / distance) if distance > 0.0 else limit
        if tau > 0.0:
            for j in range(len(x)):
                direction[j] = x[j] - instances[b, j]
            descend(w, -sign * tau, direction, 1.0)


@kernel
def _step_at_once(w: Array, sign: float, x: Array, instances: Array, size: int, step: float, total: Array) -> None:
    """w += sign step * the sum of x - instance over the instances that w does not rank more than a margin 1 from x."""
    total[:] = 0.0
    for b in range(size):
        margin, _ = _margin_and_distance(w, x, instances, b)
        if sign * margin <= 1.0:
            for j in range(len(x)):
                total[j] += x[j] - instances[b, j]
    descend(w, -sign * step, total, 1.0)


@kernel
def _pairwise_step(
    eta: float, reg: float, l1: float, w: Array, sign: float, z: Array, instances: Array, shares: Array, size: int,
    gradient: Array,
) -> None:  # fmt: skip
    """One step on sum_j shares[j] (1 - sign w.(z - instances[j]))^2 / 2 and the penalties; none while there is no instance."""
    if size > 0:
        curvature = squared_pairwise_gradient(w, sign, z, instances, shares, size, gradient)
        step = stable_step(eta, curvature)
        descend(w, step, gradient, max(0.0, 1.0 - step * reg))
        soft_threshold(w, step * l1)


@kernel
def squared_pairwise_gradient(w: Array, sign: float, z: Array, instances: Array, shares: Array, size: int, gradient: Array) -> float:
    """Write the gradient in w of sum_j shares[j] (1 - sign w.(z - instances[j]))^2 / 2; returns the trace of its second derivative."""
    gradient[:] = 0.0
    curvature = 0.0
    for b in range(size):
        margin, distance = _margin_and_distance(w, z, instances, b)
        slope = z.dtype.type(shares[b] * (margin - sign))
        for j in range(len(z)):
            gradient[j] += slope * (z[j] - instances[b, j])
        curvature += shares[b] * distance
    return curvature


@inlined
def _margin_and_distance(w: Array, z: Array, instances: Array, b: int) -> tuple[float, float]:
    """w.(z - instances[b]) and ||z - instances[b]||^2."""
    margin = z.dtype.type(0.0)
    distance = z.dtype.type(0.0)
    for j in range(len(z)):
        difference = z[j] - instances[b, j]
        margin += w[j] * difference
        distance += difference * difference
    return float(margin), float(distance)


@kernel
def _join_stratum(strata: Strata, s: int, own: int, z: Array, epsilon: float, newest: bool, generator: Array) -> None:
    strata.seen[s, own] += 1
    size = strata.size[s, own]
    nearest, distance = _nearest(strata.centroids[s, own], size, z)
    if size == 0 or (distance > epsilon and size < strata.members.shape[2]):
        strata.size[s, own] += 1
        strata.members[s, own, size] = 1
        strata.instances[s, own, size] = z
        strata.centroids[s, own, size] = z
        return
    strata.members[s, own, nearest] += 1
    members = strata.members[s, own, nearest]
    if newest or uniform(generator, s) * members < 1.0:
        strata.instances[s, own, nearest] = z
    move_average(strata.centroids[s, own, nearest], z, 1.0 / members)


@kernel
def _nearest(centroids: Array, size: int, z: Array) -> tuple[int, float]:
    """The nearest centroid, the lowest index on ties, and its squared distance."""
    nearest, smallest = 0, np.inf
    for c in range(size):
        distance = z.dtype.type(0.0)
        for j in range(len(z)):
            difference = z[j] - centroids[c, j]
            distance += difference * difference
        if distance < smallest:
            nearest, smallest = c, distance
    return nearest, smallest


@kernel
def _mean_squared_distance(spread: Spread, seen: Array, s: int, z: Array) -> float:
    """Mean squared distance of all pairs, each with itself too, of the model's first CALIBRATION events, z the latest of them."""
    count = min(seen[s, 0] + seen[s, 1] + 1, CALIBRATION)
    if seen[s, 0] + seen[s, 1] < CALIBRATION:
        mean = spread.mean[s]
        deviations = 0.0
        for j in range(len(z)):
            deviations += (float(z[j]) - float(mean[j])) ** 2
        move_average(mean, z, 1.0 / count)
        total = spread.deviations[s] + deviations * ((count - 1) / count)
        if is_finite(total):
            spread.deviations[s] = total
    return float(2.0 * spread.deviations[s] / count)


@kernel
def _sample_independently(instances: Array, size: Array, own: int, seen: int, x: Array, generator: Array, s: int) -> None:
    if size[own] < len(instances):
        instances[size[own]] = x
        size[own] += 1
        return
    for b in range(len(instances)):
        if uniform(generator, s) * seen < 1.0:
            instances[b] = x


@kernel
def _sample_reservoir(instances: Array, size: Array, own: int, seen: int, x: Array, generator: Array, s: int) -> None:
    if size[own] < len(instances):
        instances[size[own]] = x
        size[own] += 1
    elif uniform(generator, s) * seen < len(instances):
        instances[pick(generator, s, len(instances))] = x
