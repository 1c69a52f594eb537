"""Gradient descent on random Fourier features, one event and one feature at a time."""

import math

import numpy as np
from oracles.unbudgeted import Matrix, Vector, pair, strongest_rival

from streamlearn.learners.protocol import Task


class Fogd:
    """Lu et al., Algorithms 1 and 3; frequencies [dim, D]. Hinge or logistic loss; squared loss outside +-epsilon for regression."""

    def __init__(
        self, task: Task, frequencies: Matrix, *, outputs: int = 1, declared: int = 0, eta: float, loss: str = "hinge",
        epsilon: float = 0.1, normalise: bool = False,
    ) -> None:  # fmt: skip
        self.task, self.frequencies, self.eta, self.loss, self.epsilon = task, frequencies, eta, loss, epsilon
        self.scale = 1 / math.sqrt(frequencies.shape[1]) if normalise else 1.0
        self.known = np.arange(outputs) < (declared if task is Task.MULTICLASS else 1)
        self.weights = np.zeros((outputs, 2 * frequencies.shape[1]))

    def features(self, x: Vector) -> Vector:
        angles = [math.fsum(u * v for u, v in zip(frequency, x, strict=True)) for frequency in self.frequencies.T]
        return self.scale * np.array([math.cos(angle) for angle in angles] + [math.sin(angle) for angle in angles])

    def learn(self, f: Vector, z: Vector, label: float) -> None:
        if self.task is Task.REGRESSION:
            error = label - f[0]
            self.weights[0] += self.eta * (error if abs(error) > self.epsilon else 0.0) * z
        elif self.task is Task.BINARY:
            self.weights[0] += self.eta * label * self.pull(label * f[0]) * z
        else:
            y = int(label)
            self.known[y] = True
            rival = strongest_rival(f, self.known, y)
            if rival is not None:
                self.weights += self.eta * self.pull(f[y] - f[rival]) * np.outer(pair(len(f), y, rival), z)

    def pull(self, margin: float) -> float:
        """Minus the derivative of the loss."""
        if self.loss == "logistic":
            return 1 / (1 + math.exp(margin))
        return 1.0 if margin < 1 else 0.0


def play(model: Fogd, X: Matrix, y: Vector) -> Matrix:
    """Scores before each update [n, outputs], -inf for classes not met. A NaN label is not learned."""
    scores = np.empty((len(X), len(model.known)))
    for x, label, row in zip(X, y, scores, strict=True):
        z = model.features(x)
        f = model.weights @ z
        row[:] = np.where(model.known, f, -np.inf)
        if not np.isnan(label):
            model.learn(f, z, label)
    return scores
