"""DualSVRG by brute force: a coefficient for every event of the stream, every iterate of a period kept, gradients as the equations say."""

import math

import numpy as np
from oracles.dual_sgd import random_features
from oracles.losses import slopes
from oracles.unbudgeted import Matrix, Vector, similarity

from streamlearn.learners.protocol import Task


class DualSvrg:
    """Le et al., equations 5 to 8 and Algorithms 1 to 4. A model is [events, outputs] coefficients of the Phi_i, each in its space."""

    def __init__(
        self, task: Task, frequencies: Matrix, *, outputs: int = 1, declared: int = 0, oracle: str, budget: int, theta: float, memory: int,
        period: int, loss: str, eta: float, reg: float, sigma: float,
    ) -> None:  # fmt: skip
        self.task, self.frequencies, self.sigma, self.loss, self.eta, self.reg = task, frequencies, sigma, loss, eta, reg
        self.oracle, self.budget, self.theta, self.memory, self.period = oracle, budget, theta, memory, period
        self.known = np.arange(outputs) < (declared if task is Task.MULTICLASS else 1)
        self.events: list[tuple[Vector, float, bool]] = []  # x, label, in random features
        self.rivals: list[np.ndarray[tuple[int], np.dtype[np.bool_]]] = []  # the classes known when an event's slope at u was taken
        self.products: list[list[float]] = []
        self.w = np.zeros((0, outputs))
        self.u = np.zeros((0, outputs))
        self.iterates: list[Matrix] = []

    def inner_product(self, i: int, x: Vector) -> float:
        """<Phi_i, x>, in the space of event i."""
        other, _, moved = self.events[i]
        if moved:
            return float(random_features(other, self.frequencies) @ random_features(x, self.frequencies))
        return similarity("gaussian", self.sigma, other, x)

    def f(self, model: Matrix, x: Vector) -> Vector:
        return sum((a * self.inner_product(i, x) for i, a in enumerate(model)), np.zeros(len(self.known)))

    def f_at(self, model: Matrix, t: int) -> Vector:
        """f of a past event; its inner products are kept, or this would take minutes."""
        row = self.products[t]
        row.extend(self.inner_product(i, self.events[t][0]) for i in range(len(row), len(model)))
        return np.array(row[: len(model)]) @ model if len(model) else np.zeros(len(self.known))

    def moves(self, x: Vector) -> bool:
        cores = [core for core, _, moved in self.events if not moved]
        if self.oracle == "always-move" or len(cores) >= self.budget:
            return True
        return self.oracle == "coverage" and any(math.dist(core, x) <= self.theta for core in cores)

    def slopes_at(self, model: Matrix, t: int) -> Vector:
        label = self.events[t][1]
        return slopes(self.task, self.loss, label, self.f_at(model, t), self.rivals[t])

    def learn(self, x: Vector, label: float) -> None:
        if self.task is Task.MULTICLASS:
            self.known[int(label)] = True
        self.events.append((x, label, self.moves(x)))
        self.products.append([])
        self.rivals.append(self.known.copy())
        t = len(self.events) - 1
        v = np.zeros((t + 1, len(self.known)))
        v[t] = self.slopes_at(self.w, t) - self.slopes_at(self.u, t)
        remembered = range(max(0, t + 1 - self.memory), t + 1)
        for i in remembered:
            v[i] += self.slopes_at(self.u, i) / len(remembered)
        self.w = (grown(self.w, t + 1) - self.eta * v) / (1 + self.eta * self.reg)
        self.iterates.append(self.w)
        if len(self.events) % self.period == 0:
            self.u = sum((grown(w, t + 1) for w in self.iterates), np.zeros_like(self.w)) / self.period
            self.w = self.u
            self.iterates = []
            self.rivals = [self.known.copy() for _ in self.events]


def grown(model: Matrix, length: int) -> Matrix:
    return np.concatenate([model, np.zeros((length - len(model), model.shape[1]))])


def play(model: DualSvrg, X: Matrix, y: Vector) -> Matrix:
    """Scores before each update [n, outputs], -inf for classes not met. A NaN label is not learned."""
    scores = np.empty((len(X), len(model.known)))
    for x, label, row in zip(X, y, scores, strict=True):
        row[:] = np.where(model.known, model.f(model.w, x), -np.inf)
        if not np.isnan(label):
            model.learn(x, label)
    return scores
