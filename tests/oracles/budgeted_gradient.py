"""BOGD, kernel Pegasos and BSGD, with every coefficient shrunk in every round and every candidate tried out."""

from collections.abc import Callable
from typing import Any

import numpy as np
from oracles.losses import slopes
from oracles.perceptron_family import Budgeted
from oracles.unbudgeted import KernelModel, Vector, similarity

from streamlearn.learners.protocol import Task

IN_SPAN = 1e-8


class Bogd(Budgeted):
    def __init__(self, task: Task, budget: int, strategy: str, reg: float, bound: float, state: int, **parameters: Any) -> None:
        super().__init__(task, budget, **parameters)
        self.strategy = strategy or ("uniform" if task is Task.BINARY else "oldest")
        self.reg, self.bound, self.state = reg, bound, state

    def draw(self) -> float:
        self.state = 16807 * self.state % (2**31 - 1)
        return self.state / (2**31 - 1)

    def learn(self, x: Vector, label: float) -> None:
        f = self.f(x)
        loss = "squared" if self.task is Task.REGRESSION else "hinge"
        slope = slopes(self.task, loss, label, f, self.known, epsilon=self.epsilon)
        if self.task is Task.BINARY and label * f[0] == 1:
            slope = np.array([-label])
        self.coefficients = [max(0.0, 1 - self.eta * self.reg) * a for a in self.coefficients]
        if not slope.any():
            return
        random_removal = self.full and self.strategy != "oldest"
        if self.full:
            self.make_room()
        self.append(x, -self.eta * slope)
        if random_removal:
            largest = max(float(np.abs(a).max()) for a in self.coefficients)
            self.coefficients = [min(1.0, self.bound * self.eta / largest) * a for a in self.coefficients]

    def make_room(self) -> None:
        if self.strategy == "oldest":
            self.remove(0)
            return
        p = self.removal_probabilities()
        if self.strategy == "uniform":
            age = int(self.budget * self.draw())
        else:
            age = min(int(np.searchsorted(np.cumsum(p), self.draw(), side="right")), self.budget - 1)
        self.coefficients = [a / (1 - q) if q < 1 else a for a, q in zip(self.coefficients, p, strict=True)]
        self.remove(age)

    def removal_probabilities(self) -> Vector:
        norms = np.array([np.linalg.norm(a) for a in self.coefficients])
        if self.strategy == "uniform" or self.budget == 1 or norms.sum() == 0:
            return np.full(self.budget, 1 / self.budget)
        return np.array([(1 - norm / norms.sum()) / (self.budget - 1) for norm in norms.tolist()])


class Pegasos(KernelModel):
    def __init__(self, task: Task, reg: float, **parameters: Any) -> None:
        super().__init__(task, **parameters)
        self.reg, self.t = reg, 0

    def f(self, x: Vector) -> Vector:
        """Rounded, so that outputs which differ by rounding errors only are equal."""
        return np.array([round(output, 10) for output in super().f(x).tolist()])

    def learn(self, x: Vector, label: float) -> None:
        slope = slopes(self.task, "hinge", label, self.f(x), self.known)
        self.t += 1
        self.coefficients = [(1 - 1 / self.t) * a for a in self.coefficients]
        if slope.any():
            self.step(x, -slope / (self.reg * self.t))

    def step(self, x: Vector, coefficient: Vector) -> None:
        self.append(x, coefficient)


class Bsgd(Pegasos):
    """Vectors in the order of their age; a merged vector takes the place of the partner."""

    def __init__(self, task: Task, budget: int, strategy: str, **parameters: Any) -> None:
        super().__init__(task, **parameters)
        self.budget, self.strategy = budget, strategy

    def step(self, x: Vector, coefficient: Vector) -> None:
        if self.strategy == "projection" and self.vectors:
            weights, distance = self.projection(x)
            if distance <= IN_SPAN:
                self.add(weights, coefficient)
                return
        self.append(x, coefficient)
        if len(self.vectors) > self.budget:
            self.maintain()

    def maintain(self) -> None:
        norms = np.array([np.linalg.norm(a) for a in self.coefficients])
        r = int(np.argmax(norms <= norms.min() * (1 + 1e-9)))
        x, coefficient = self.vectors[r], self.coefficients[r]
        self.remove(r)
        if self.strategy == "projection":
            weights, _ = self.projection(x)
            self.add(weights, coefficient)
        elif self.strategy == "merging":
            self.merge(x, coefficient)

    def projection(self, x: Vector) -> tuple[Vector, float]:
        k = self.similarities(x)
        weights: Vector = np.linalg.solve(np.array([self.similarities(v) for v in self.vectors]), k)
        return weights, float(1 - k @ weights)

    def add(self, weights: Vector, coefficient: Vector) -> None:
        self.coefficients = [a + weight * coefficient for a, weight in zip(self.coefficients, weights.tolist(), strict=True)]

    def merge(self, x: Vector, coefficient: Vector) -> None:
        candidates = [self.merged(x, coefficient, v, a) for v, a in zip(self.vectors, self.coefficients, strict=True)]
        losses = np.array([loss for loss, _, _ in candidates])
        partner = int(np.argmax(losses <= losses.min() + 1e-9 * float(coefficient @ coefficient)))
        _, self.vectors[partner], self.coefficients[partner] = candidates[partner]

    def merged(self, x: Vector, a: Vector, other: Vector, b: Vector) -> tuple[float, Vector, Vector]:
        """The squared norm lost by the best merge, its vector and its coefficients."""

        def at(h: float) -> tuple[float, Vector, Vector]:
            z = h * x + (1 - h) * other
            coefficient = a * similarity(self.kernel, self.sigma, x, z) + b * similarity(self.kernel, self.sigma, other, z)
            return float(coefficient @ coefficient), z, coefficient

        def slope(h: float) -> float:
            """The derivative of ||coefficient||^2 at h, up to a positive factor."""
            z = h * x + (1 - h) * other
            of_x, of_other = a * similarity(self.kernel, self.sigma, x, z), b * similarity(self.kernel, self.sigma, other, z)
            return float((of_x + of_other) @ ((1 - h) * of_x - h * of_other))

        options = [0.0, 0.5, falling_root(slope, 0.0, 0.5)]
        if a @ b < 0:
            options += [-5.0, falling_root(slope, -5.0, 0.0)]
        kept, z, coefficient = max(map(at, options), key=lambda option: option[0])
        before = a @ a + b @ b + 2 * (a @ b) * similarity(self.kernel, self.sigma, x, other)
        return float(before) - kept, z, coefficient


def falling_root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where `function` turns from positive to negative in [low, high], by halving."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) > 0 else (low, middle)
    return (low + high) / 2
