"""Kernel expansions written out vector by vector, and the learners that never remove one."""

import math

import numpy as np

from streamlearn.learners.protocol import Task

Vector = np.ndarray[tuple[int], np.dtype[np.float64]]
Matrix = np.ndarray[tuple[int, int], np.dtype[np.float64]]


def similarity(kernel: str, sigma: float, a: Vector, b: Vector) -> float:
    scaled = [abs(p - q) / sigma for p, q in zip(a.tolist(), b.tolist(), strict=True)]
    if kernel == "laplacian":
        return math.exp(-sum(scaled))
    if kernel == "cauchy":
        return math.prod(1.0 / (1.0 + value * value) for value in scaled)
    return math.exp(-sum(value * value for value in scaled) / 2.0)


class KernelModel:
    """f(x) = sum_i coefficients[i] k(vectors[i], x) [outputs], oldest first, and the classes met so far."""

    def __init__(
        self, task: Task, *, outputs: int = 1, declared: int = 0, sigma: float = 1.0, eta: float = 1.0, epsilon: float = 0.1,
        kernel: str = "gaussian",
    ) -> None:  # fmt: skip
        self.task, self.sigma, self.eta, self.epsilon, self.kernel = task, sigma, eta, epsilon, kernel
        self.known = np.arange(outputs) < (declared if task is Task.MULTICLASS else 1)
        self.vectors: list[Vector] = []
        self.coefficients: list[Vector] = []

    def similarities(self, x: Vector) -> Vector:
        return np.array([similarity(self.kernel, self.sigma, vector, x) for vector in self.vectors])

    def f(self, x: Vector) -> Vector:
        return sum((a * k for a, k in zip(self.coefficients, self.similarities(x), strict=True)), np.zeros(len(self.known)))

    def meet(self, label: float) -> None:
        if self.task is Task.MULTICLASS:
            self.known[int(label)] = True

    def append(self, x: Vector, coefficient: Vector) -> None:
        self.vectors.append(x)
        self.coefficients.append(coefficient)

    def remove(self, age: int) -> None:
        del self.vectors[age], self.coefficients[age]

    def learn(self, x: Vector, label: float) -> None:
        raise NotImplementedError


def play(model: KernelModel, X: Matrix, y: Vector) -> Matrix:
    """Scores before each update [n, outputs], -inf for classes not met. A NaN label is not learned."""
    scores = np.empty((len(X), len(model.known)))
    for x, label, row in zip(X, y, scores, strict=True):
        row[:] = np.where(model.known, model.f(x), -np.inf)
        if not np.isnan(label):
            model.meet(label)
            model.learn(x, label)
    return scores


def strongest_rival(f: Vector, known: np.ndarray[tuple[int], np.dtype[np.bool_]], y: int) -> int | None:
    """The best wrong class among those met."""
    rivals = [c for c in range(len(f)) if known[c] and c != y]
    return max(rivals, key=lambda c: (f[c], -c)) if rivals else None


def pair(outputs: int, y: int, rival: int) -> Vector:
    """+1 for the right class, -1 for its rival."""
    direction = np.zeros(outputs)
    direction[y], direction[rival] = 1.0, -1.0
    return direction


def perceptron_direction(model: KernelModel, label: float, f: Vector) -> Vector | None:
    """What a mistake (regression: an error above epsilon) adds to f(x), without the step size; None if there is none."""
    if model.task is Task.REGRESSION:
        error = label - f[0]
        return np.array([np.sign(error)]) if abs(error) > model.epsilon else None
    if model.task is Task.BINARY:
        return np.array([label]) if (1.0 if f[0] >= 0 else -1.0) != label else None
    predicted = int(np.argmax(np.where(model.known, f, -np.inf)))
    rival = strongest_rival(f, model.known, int(label))
    return pair(len(f), int(label), rival) if rival is not None and predicted != label else None


class Perceptron(KernelModel):
    def learn(self, x: Vector, label: float) -> None:
        direction = perceptron_direction(self, label, self.f(x))
        if direction is not None:
            self.append(x, self.eta * direction)


class Ogd(KernelModel):
    """Hinge loss; squared loss outside +-epsilon for regression."""

    def learn(self, x: Vector, label: float) -> None:
        f = self.f(x)
        if self.task is Task.REGRESSION:
            if abs(label - f[0]) > self.epsilon:
                self.append(x, self.eta * (label - f))
        elif self.task is Task.BINARY:
            if label * f[0] < 1:
                self.append(x, np.array([self.eta * label]))
        else:
            rival = strongest_rival(f, self.known, int(label))
            if rival is not None and f[int(label)] - f[rival] < 1:
                self.append(x, self.eta * pair(len(f), int(label), rival))
