"""Passive-Aggressive without and with a budget, where every candidate for removal is tried out and its objective computed in full."""

from typing import Any

import numpy as np
from oracles.losses import margin_loss
from oracles.perceptron_family import Budgeted
from oracles.unbudgeted import KernelModel, Matrix, Vector, pair, similarity, strongest_rival

from streamlearn.learners.protocol import Task

IN_SPAN = 1e-8
ROUNDING = 1e-13  # objectives that differ by less are equal
WORTHWHILE = 1e-6  # share of the loss that a change must save at least


def hinge(task: Task, label: float, f: Vector, known: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> tuple[float, Vector]:
    """The hinge loss and the direction in which f must go."""
    if task is Task.BINARY:
        return margin_loss("hinge", label * f[0]), np.array([label])
    y, rival = int(label), strongest_rival(f, known, int(label))
    if rival is None:
        return 0.0, np.zeros(len(f))
    return margin_loss("hinge", f[y] - f[rival]), pair(len(f), y, rival)


def squared_norm(direction: Vector) -> float:
    return float(direction @ direction)


def step_size(variant: str, C: float, loss: float, norm: float) -> float:
    if norm == 0:
        return 0.0
    return min(C, loss / norm) if variant == "PA-I" else loss / (norm + 1 / (2 * C))


class PassiveAggressive(KernelModel):
    def __init__(self, task: Task, C: float, variant: str, **parameters: Any) -> None:
        super().__init__(task, **parameters)
        self.C, self.variant = C, variant

    def learn(self, x: Vector, label: float) -> None:
        f = self.f(x)
        if self.task is Task.REGRESSION:
            loss, direction = max(0.0, abs(label - f[0]) - self.epsilon), np.sign(label - f)
        else:
            loss, direction = hinge(self.task, label, f, self.known)
        if loss > 0:
            self.append(x, step_size(self.variant, self.C, loss, squared_norm(direction)) * direction)


class Bpa(Budgeted):
    """Wang and Vucetic: remove r, project it on some others and the new vector, step; take the r with the best objective."""

    def __init__(self, task: Task, budget: int, C: float, skip: bool, **parameters: Any) -> None:
        super().__init__(task, budget, **parameters)
        self.C, self.skip = C, skip

    def kept_with(self, r: int, x: Vector) -> list[int]:
        """The support vectors that r is projected onto, besides x."""
        raise NotImplementedError

    def learn(self, x: Vector, label: float) -> None:
        loss, direction = hinge(self.task, label, self.f(x), self.known)
        if loss == 0:
            return
        if not self.full:
            self.append(x, min(self.C, loss / squared_norm(direction)) * direction)
            return
        changes = [self.change(r, x, label, direction) for r in range(self.budget)]
        objectives = np.array([self.objective(change, x, label) for change in changes])
        r = int(np.argmax(objectives <= objectives.min() + ROUNDING * max(1.0, abs(objectives.min()))))
        if not (self.skip and objectives[r] >= (1 - WORTHWHILE) * self.C * loss):
            self.apply(r, x, changes[r])

    def gram(self, vectors: list[Vector]) -> Matrix:
        return np.array([[similarity(self.kernel, self.sigma, a, b) for a in vectors] for b in vectors])

    def change(self, r: int, x: Vector, label: float, direction: Vector) -> Matrix:
        """What the coefficients of all support vectors and x change by [budget + 1, outputs]."""
        onto = self.kept_with(r, x)
        K = self.gram([*(self.vectors[b] for b in onto), x])
        k_r = np.array([similarity(self.kernel, self.sigma, self.vectors[r], v) for v in [*(self.vectors[b] for b in onto), x]])
        change = np.zeros((self.budget + 1, len(direction)))
        change[r] = -self.coefficients[r]
        change[[*onto, self.budget]] += np.outer(np.linalg.solve(K, k_r), self.coefficients[r])
        f = self.f(x) + self.gram([*self.vectors, x])[-1] @ change
        rest = 1 - direction @ f if self.task is not Task.BINARY else 1 - label * f[0]
        change[-1] += np.clip(rest / squared_norm(direction), 0, self.C) * direction
        return change

    def objective(self, change: Matrix, x: Vector, label: float) -> float:
        K = self.gram([*self.vectors, x])
        after, _ = hinge(self.task, label, self.f(x) + K[-1] @ change, self.known)
        return float(np.einsum("ac,ab,bc->", change, K, change) / 2 + self.C * after)

    def apply(self, r: int, x: Vector, change: Matrix) -> None:
        self.coefficients = [a + d for a, d in zip(self.coefficients, change[:-1], strict=True)]
        self.vectors[r], self.coefficients[r] = x, change[-1]


class BpaS(Bpa):
    def kept_with(self, r: int, x: Vector) -> list[int]:
        return []


class BpaNn(Bpa):
    def kept_with(self, r: int, x: Vector) -> list[int]:
        k = self.similarities(self.vectors[r])
        k[r] = -1.0
        nearest = int(np.argmax(k))
        inside = 1 - similarity(self.kernel, self.sigma, self.vectors[nearest], x) ** 2 <= IN_SPAN
        return [] if nearest == r or inside else [nearest]


class BpaP(Bpa):
    """Vectors in the order of their age."""

    def apply(self, r: int, x: Vector, change: Matrix) -> None:
        super().apply(r, x, change)
        self.vectors.append(self.vectors.pop(r))
        self.coefficients.append(self.coefficients.pop(r))

    def kept_with(self, r: int, x: Vector) -> list[int]:
        return [b for b in range(self.budget) if b != r]

    def learn(self, x: Vector, label: float) -> None:
        loss, direction = hinge(self.task, label, self.f(x), self.known)
        k = self.similarities(x)
        weights = np.linalg.solve(self.gram(self.vectors), k) if self.vectors else k
        if loss == 0 or 1 - k @ weights > IN_SPAN:
            super().learn(x, label)
            return
        step = min(self.C, loss / squared_norm(direction)) * direction
        if self.skip and self.full:
            after, _ = hinge(self.task, label, self.f(x) + step, self.known)
            if step @ step / 2 + self.C * after >= (1 - WORTHWHILE) * self.C * loss:
                return
        self.coefficients = [a + weight * step for a, weight in zip(self.coefficients, weights, strict=True)]
