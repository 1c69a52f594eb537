"""RRF with its gradients written as sums over frequencies."""

import math

import numpy as np
from oracles.losses import slopes
from oracles.unbudgeted import Matrix, Vector

from streamlearn.learners.protocol import Task


class Rrf:
    """Nguyen et al., Algorithm 1, both gradients at the old parameters; noise [dim, D]."""

    def __init__(
        self, task: Task, noise: Matrix, *, outputs: int = 1, declared: int = 0, sigma: float, eta: float, eta_scale: float, reg: float,
        loss: str, epsilon: float = 0.1,
    ) -> None:  # fmt: skip
        self.task, self.noise, self.eta, self.eta_scale, self.reg, self.loss, self.epsilon = task, noise, eta, eta_scale, reg, loss, epsilon
        self.known = np.arange(outputs) < (declared if task is Task.MULTICLASS else 1)
        self.weights = np.zeros((outputs, 2 * noise.shape[1]))
        self.log_scales = np.full(len(noise), -math.log(sigma))

    def angles(self, x: Vector) -> Vector:
        return np.asarray((np.exp(self.log_scales) * x) @ self.noise)

    def f(self, x: Vector) -> Vector:
        angles = self.angles(x)
        return np.asarray(self.weights @ np.concatenate([np.cos(angles), np.sin(angles)]))

    def learn(self, x: Vector, label: float) -> None:
        if self.task is Task.MULTICLASS:
            self.known[int(label)] = True
        slope = slopes(self.task, self.loss, label, self.f(x), self.known, epsilon=self.epsilon)
        weights, log_scales = self.gradients(x, slope)
        self.weights = self.weights - self.eta * (weights + self.reg * self.weights)
        self.log_scales = np.clip(self.log_scales - self.eta_scale * log_scales, -20, 20)

    def gradients(self, x: Vector, slope: Vector) -> tuple[Matrix, Vector]:
        """d loss / d weights and d loss / d log_scales, given d loss / d f."""
        D = self.noise.shape[1]
        cos, sin = np.cos(self.angles(x)), np.sin(self.angles(x))
        log_scales = np.zeros(len(x))
        for j in range(len(x)):
            for c in range(len(slope)):
                for i in range(D):
                    turn = -sin[i] * self.weights[c, i] + cos[i] * self.weights[c, D + i]
                    log_scales[j] += slope[c] * turn * self.noise[j, i] * x[j] * math.exp(self.log_scales[j])
        return np.outer(slope, np.concatenate([cos, sin])), log_scales


def play(model: Rrf, X: Matrix, y: Vector) -> Matrix:
    """Scores before each update [n, outputs], -inf for classes not met. A NaN label is not learned."""
    scores = np.empty((len(X), len(model.known)))
    for x, label, row in zip(X, y, scores, strict=True):
        row[:] = np.where(model.known, model.f(x), -np.inf)
        if not np.isnan(label):
            model.learn(x, label)
    return scores
