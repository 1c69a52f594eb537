"""The learners of streamlearn.learners.pairwise as their papers state them: plain NumPy, whole histories kept, nothing incremental."""

from dataclasses import dataclass, field

import numpy as np
from reference import Floats, ParkMiller


def pairwise_loss(w: Floats, label: float, z: Floats, others: Floats, weights: Floats) -> float:
    """sum_j weights[j] (1 - label w.(z - others[j]))^2 / 2."""
    return float(sum(weight * (1 - label * w @ (z - b)) ** 2 / 2 for weight, b in zip(weights, others, strict=True)))


def pairwise_gradient(w: Floats, label: float, z: Floats, others: Floats, weights: Floats) -> Floats:
    gradient = np.zeros_like(w)
    for weight, b in zip(weights, others, strict=True):
        gradient += weight * -(1 - label * w @ (z - b)) * label * (z - b)
    return gradient


def gradient_step(w: Floats, label: float, z: Floats, others: Floats, weights: Floats, eta: float, reg: float, l1: float) -> Floats:
    curvature = sum(weight * np.sum((z - b) ** 2) for weight, b in zip(weights, others, strict=True))
    eta = min(eta, 2 / curvature) if curvature > 0 else eta
    w = max(0.0, 1 - eta * reg) * w - eta * pairwise_gradient(w, label, z, others, weights)
    return np.asarray(np.sign(w) * np.maximum(np.abs(w) - eta * l1, 0))


@dataclass
class Stratum:
    members: list[Floats]
    stored: Floats

    @property
    def centroid(self) -> Floats:
        first = self.members[0]
        return np.asarray(first + np.mean([member - first for member in self.members], axis=0))


@dataclass
class Fpogd:
    """`frequencies` None: linear."""

    dim: int
    frequencies: Floats | None
    eta: float
    reg: float
    l1: float
    strata: int
    epsilon: float | None
    reservoir: bool
    draws: ParkMiller
    w: Floats = field(init=False)
    groups: dict[float, list[Stratum]] = field(init=False)
    history: list[Floats] = field(init=False)

    def __post_init__(self) -> None:
        self.w = np.zeros(self.dim if self.frequencies is None else 2 * self.frequencies.shape[1])
        self.groups = {-1.0: [], 1.0: []}
        self.history = []

    def event(self, x: Floats, y: float) -> float:
        z = x if self.frequencies is None else self.features(x)
        score = float(self.w @ z)
        if np.isnan(y):
            return score
        others = self.groups[-y]
        if others:
            total = sum(len(stratum.members) for stratum in others)
            shares = np.array([len(stratum.members) / total for stratum in others])
            stored = np.array([stratum.stored for stratum in others])
            self.w = gradient_step(self.w, y, z, stored, shares, self.eta, self.reg, self.l1)
        self.history = [*self.history, z][:1000]
        self.join(self.groups[y], z)
        return score

    def features(self, x: Floats) -> Floats:
        assert self.frequencies is not None
        angles = x @ self.frequencies
        D = 2 * len(angles)
        return np.asarray(np.sqrt(2 / D) * np.concatenate([np.cos(angles), np.sin(angles)]))

    def join(self, own: list[Stratum], z: Floats) -> None:
        epsilon = self.epsilon
        if epsilon is None:
            epsilon = float(np.mean([np.sum((a - b) ** 2) for a in self.history for b in self.history]))
        distances = [float(np.sum((z - stratum.centroid) ** 2)) for stratum in own]
        if not own or (min(distances) > epsilon and len(own) < self.strata):
            own.append(Stratum([z], z))
            return
        stratum = own[int(np.argmin(distances))]
        stratum.members.append(z)
        if not self.reservoir or self.draws.uniform() < 1 / len(stratum.members):
            stratum.stored = z


@dataclass
class Buffers:
    """One buffer per class; what Kar's learner and OAM have in common."""

    dim: int
    budget: int
    draws: ParkMiller
    w: Floats = field(init=False)
    stored: dict[float, list[Floats]] = field(init=False)
    seen: dict[float, int] = field(init=False)

    def __post_init__(self) -> None:
        self.w = np.zeros(self.dim)
        self.stored = {-1.0: [], 1.0: []}
        self.seen = {-1.0: 0, 1.0: 0}


@dataclass
class Kar(Buffers):
    eta: float
    reg: float
    l1: float

    def event(self, x: Floats, y: float) -> float:
        score = float(self.w @ x)
        if np.isnan(y):
            return score
        others = self.stored[-y]
        if others:
            equal = np.full(len(others), 1 / len(others))
            self.w = gradient_step(self.w, y, x, np.array(others), equal, self.eta, self.reg, self.l1)
        self.seen[y] += 1
        own = self.stored[y]
        if len(own) < self.budget:
            own.append(x)
        else:
            self.stored[y] = [x if self.draws.uniform() < 1 / self.seen[y] else b for b in own]
        return score


@dataclass
class Oam(Buffers):
    C: float
    sequential: bool

    def event(self, x: Floats, y: float) -> float:
        score = float(self.w @ x)
        if np.isnan(y):
            return score
        self.seen[y] += 1
        own = self.stored[y]
        if len(own) < self.budget:
            own.append(x)
        elif self.draws.uniform() < self.budget / self.seen[y]:
            own[self.draws.pick(self.budget)] = x
        limit = self.C * max(1, self.seen[-y] / self.budget) / 2
        old = self.w
        for b in self.stored[-y]:
            if self.sequential:
                length = float(np.sum((x - b) ** 2))
                tau = min(limit, max(0.0, 1 - y * float(self.w @ (x - b))) / length) if length > 0 else limit
                self.w = self.w + tau * y * (x - b)
            elif y * old @ (x - b) <= 1:
                self.w = self.w + limit * y * (x - b)
        return score
