"""Linear Perceptron, Passive-Aggressive and gradient descent on explicit weight vectors."""

import numpy as np
from oracles.losses import slopes
from oracles.passive_aggressive import hinge, step_size
from oracles.unbudgeted import Matrix, Vector, strongest_rival

from streamlearn.learners.protocol import Task


class LinearModel:
    """f(x) = W z [outputs], z the features, clipped to +-1e9 and followed by a 1 if there is an intercept."""

    def __init__(
        self, task: Task, dim: int, *, outputs: int, declared: int, intercept: bool, epsilon: float = 0.1,
        eta: float = 0.25, normalise: bool = False, C: float = 1.0, variant: str = "PA-I", loss: str = "hinge",
    ) -> None:  # fmt: skip
        self.task, self.intercept, self.epsilon = task, intercept, epsilon
        self.eta, self.normalise, self.C, self.variant, self.loss = eta, normalise, C, variant, loss
        self.known = np.arange(outputs) < (declared if task is Task.MULTICLASS else 1)
        self.W = np.zeros((outputs, dim + intercept))

    def features(self, x: Vector) -> Vector:
        clipped = np.clip(x, -1e9, 1e9)
        return np.append(clipped, 1.0) if self.intercept else clipped

    def play(self, X: Matrix, y: Vector) -> Matrix:
        scores = np.empty((len(X), len(self.known)))
        for x, label, row in zip(X, y, scores, strict=True):
            z = self.features(x)
            f = self.W @ z
            row[:] = np.where(self.known, f, -np.inf)
            if not np.isnan(label):
                if self.task is Task.MULTICLASS:
                    self.known[int(label)] = True
                self.W += np.outer(self.step(z, f, label), z)
        return scores

    def step(self, z: Vector, f: Vector, label: float) -> Vector:
        """How far the weights of each output move along z."""
        raise NotImplementedError


class LinearPerceptron(LinearModel):
    def step(self, z: Vector, f: Vector, label: float) -> Vector:
        if self.task is Task.REGRESSION:
            error = label - f
            return np.array([self.eta * np.sign(error[0]) if abs(error[0]) > self.epsilon else 0.0])
        if self.task is Task.BINARY:
            return np.array([self.eta * label if (f[0] >= 0) != (label > 0) else 0.0])
        rival = strongest_rival(f, self.known, int(label))
        if rival is None or (f[int(label)], -int(label)) > (f[rival], -rival):
            return np.zeros(len(f))
        direction = np.zeros(len(f))
        direction[int(label)], direction[rival] = self.eta, -self.eta
        return direction


class LinearPassiveAggressive(LinearModel):
    def step(self, z: Vector, f: Vector, label: float) -> Vector:
        if self.task is Task.REGRESSION:
            loss, direction = max(0.0, abs(label - f[0]) - self.epsilon), np.sign(label - f)
        else:
            loss, direction = hinge(self.task, label, f, self.known)
        return step_size(self.variant, self.C, loss, float(direction @ direction) * float(z @ z)) * direction


class LinearOgd(LinearModel):
    def step(self, z: Vector, f: Vector, label: float) -> Vector:
        norm = float(z @ z)
        eta = self.eta / max(norm, 1e-12) if self.normalise else self.eta
        if self.loss in ("squared", "l2") and norm > 0:
            eta = min(eta, 2 / norm)
        return -eta * slopes(self.task, self.loss, label, f, self.known, epsilon=self.epsilon)
