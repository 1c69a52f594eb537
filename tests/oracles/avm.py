"""AVM one core and one distance at a time, norms from whole kernel matrices."""

import math
from typing import Any

import numpy as np
from oracles.losses import slopes
from oracles.unbudgeted import KernelModel, Vector

from streamlearn.learners.protocol import Task


class Avm(KernelModel):
    """Le et al., Algorithms 2 to 5. delta is a diameter.

    A step -slope / (reg s) Phi(core), shrunk t - s times by (r - 1) / r, is -slope / (reg t) Phi(core) after t events. Steps
    are kept without the factor 1 / (reg t), so that outputs of two classes that are equal stay exactly equal.
    """

    def __init__(
        self, task: Task, delta: float, cell: str, reg: float, loss: str, state: int, budget: int | None = None,
        beta: float = 0.0, rho: float = 1.0, **parameters: Any,
    ) -> None:  # fmt: skip
        super().__init__(task, **parameters)
        self.delta, self.cell, self.reg, self.loss, self.state = delta, cell, reg, loss, state
        self.budget, self.beta, self.rho = budget, beta, rho
        self.rounds, self.largest = 0, 0.0

    def f(self, x: Vector) -> Vector:
        return super().f(x) / (self.reg * max(self.rounds, 1))

    def learn(self, x: Vector, label: float) -> None:
        slope = slopes(self.task, self.loss, label, self.f(x), self.known, epsilon=self.epsilon)
        self.rounds += 1
        core = self.representative(x)
        if core is None:
            self.append(x, np.zeros(len(self.known)))
            core = len(self.vectors) - 1
        self.coefficients[core] = self.coefficients[core] - slope
        if self.loss == "l2" and self.reg <= 1:
            self.project(label)

    def representative(self, x: Vector) -> int | None:
        candidates = list(range(len(self.vectors)))
        if self.budget is None or len(candidates) < self.budget:
            if self.beta > 0 and self.draw() > 1 - self.beta / self.rounds**self.rho:
                return None
            candidates = [i for i in candidates if self.holds(self.vectors[i], x)]
        return min(candidates, key=lambda i: (math.dist(self.vectors[i], x), i)) if candidates else None

    def draw(self) -> float:
        self.state = 16807 * self.state % (2**31 - 1)
        return self.state / (2**31 - 1)

    def holds(self, core: Vector, x: Vector) -> bool:
        if self.cell == "hypersphere":
            return math.dist(core, x) <= self.delta / 2
        return bool(np.abs(core - x).max() <= self.delta / (2 * math.sqrt(len(x))))

    def project(self, label: float) -> None:
        self.largest = max(self.largest, abs(label))
        a = np.array(self.coefficients)[:, 0]
        gram = np.array([self.similarities(x) for x in self.vectors])
        norm = math.sqrt(max(a @ gram @ a, 0.0)) / (self.reg * self.rounds)
        radius = self.largest / math.sqrt(self.reg)
        if norm > radius:
            self.coefficients = [radius / norm * a for a in self.coefficients]
