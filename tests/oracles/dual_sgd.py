"""DualSGD one term at a time, norms from whole kernel matrices."""

import math
from typing import Any

import numpy as np
from oracles.losses import slopes
from oracles.unbudgeted import KernelModel, Matrix, Vector

from streamlearn.learners.protocol import Task


def random_features(x: Vector, frequencies: Matrix) -> Vector:
    angles = [math.fsum(u * v for u, v in zip(frequency, x, strict=True)) for frequency in frequencies.T]
    return np.array([math.cos(angle) for angle in angles] + [math.sin(angle) for angle in angles]) / math.sqrt(len(angles))


class DualSgd(KernelModel):
    """k-merging. A term -slope Phi(x) counts 1 / (reg t) after t events: its first step 1 / (reg s), shrunk t - s times by (r - 1) / r.

    Terms are kept without that factor, so that slopes of one size stay exactly equal: outputs and sizes are compared.
    """

    def __init__(self, task: Task, frequencies: Matrix, budget: int, rank: int, reg: float, loss: str, **parameters: Any) -> None:
        super().__init__(task, **parameters)
        self.frequencies, self.budget, self.rank, self.reg, self.loss = frequencies, budget, min(rank, budget), reg, loss
        self.weights = np.zeros((len(self.known), 2 * frequencies.shape[1]))
        self.rounds, self.largest = 0, 0.0

    def f(self, x: Vector) -> Vector:
        return (super().f(x) + self.weights @ random_features(x, self.frequencies)) / (self.reg * max(self.rounds, 1))

    def learn(self, x: Vector, label: float) -> None:
        slope = slopes(self.task, self.loss, label, self.f(x), self.known, epsilon=self.epsilon)
        self.rounds += 1
        if len(self.vectors) == self.budget:
            self.move_smallest()
        self.append(x, -slope)
        if self.loss == "l2" and self.reg <= 1:
            self.project(label)

    def move_smallest(self) -> None:
        by_size = sorted(range(self.budget), key=lambda i: (abs(self.coefficients[i]).max(), i))
        for i in sorted(by_size[: self.rank], reverse=True):
            self.weights += np.outer(self.coefficients[i], random_features(self.vectors[i], self.frequencies))
            self.remove(i)

    def project(self, label: float) -> None:
        self.largest = max(self.largest, abs(label))
        gram = np.array([self.similarities(x) for x in self.vectors])
        a = np.array(self.coefficients)[:, 0]
        norm = math.sqrt(max(a @ gram @ a, 0.0) + (self.weights**2).sum()) / (self.reg * self.rounds)
        radius = self.largest / math.sqrt(self.reg)
        if norm > radius:
            self.coefficients = [radius / norm * a for a in self.coefficients]
            self.weights *= radius / norm
