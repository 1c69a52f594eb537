"""NOGD written with whole matrices."""

from typing import Any

import numpy as np
from oracles.losses import slopes
from oracles.unbudgeted import KernelModel, Vector, similarity

from streamlearn.learners.protocol import Task


class Nogd(KernelModel):
    """Lu et al., Algorithms 2, 4 and 6; the switch comes with the first loss after the budget is full."""

    def __init__(self, task: Task, budget: int, rank: int, loss: str, **parameters: Any) -> None:
        super().__init__(task, **parameters)
        self.budget, self.rank, self.loss = budget, min(rank, budget), loss
        self.map = np.zeros((0, 0))  # [k, B] once switched
        self.weights = np.zeros((len(self.known), 0))

    @property
    def switched(self) -> bool:
        return len(self.map) > 0

    def f(self, x: Vector) -> Vector:
        return self.weights @ self.map @ self.similarities(x) if self.switched else super().f(x)

    def learn(self, x: Vector, label: float) -> None:
        step = -self.eta * slopes(self.task, self.loss, label, self.f(x), self.known, epsilon=self.epsilon)
        if not step.any():
            return
        if not self.switched and len(self.vectors) < self.budget:
            self.append(x, step)
            return
        if not self.switched:
            self.switch()
        self.weights += np.outer(step, self.map @ self.similarities(x))

    def switch(self) -> None:
        K = np.array([[similarity(self.kernel, self.sigma, a, b) for a in self.vectors] for b in self.vectors])
        V, eigenvalues, _ = np.linalg.svd(K)
        kept = min(self.rank, int(np.sum(eigenvalues > 1e-12 * eigenvalues[0])))
        V, eigenvalues = V[:, :kept], eigenvalues[:kept]
        self.map = np.diag(eigenvalues**-0.5) @ V.T
        self.weights = np.array(self.coefficients).T @ np.linalg.pinv(self.map)
