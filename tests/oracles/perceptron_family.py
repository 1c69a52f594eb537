"""The Perceptron with a budget, as the papers' boxes read: removal, removal after shrinking, projection. Slow on purpose."""

import math
from typing import Any

import numpy as np
from oracles.unbudgeted import KernelModel, Vector, pair, perceptron_direction, similarity, strongest_rival

from streamlearn.learners.protocol import Task


class Budgeted(KernelModel):
    def __init__(self, task: Task, budget: int, **parameters: Any) -> None:
        super().__init__(task, **parameters)
        self.budget = budget

    @property
    def full(self) -> bool:
        return len(self.vectors) == self.budget


class Rbp(Budgeted):
    """Cavallanti et al.: a mistake on a full budget deletes an old support vector at random."""

    def __init__(self, task: Task, budget: int, state: int, **parameters: Any) -> None:
        super().__init__(task, budget, **parameters)
        self.state = state

    def pick(self) -> int:
        self.state = 16807 * self.state % (2**31 - 1)
        return int(self.budget * self.state / (2**31 - 1))

    def learn(self, x: Vector, label: float) -> None:
        direction = perceptron_direction(self, label, self.f(x))
        if direction is None:
            return
        if self.full:
            self.remove(self.pick())
        self.append(x, self.eta * direction)


class Forgetron(Budgeted):
    """Dekel et al., self-tuned: scale all coefficients by a factor that the mistakes so far allow, then drop the oldest."""

    def __init__(self, task: Task, budget: int, capped: bool = False, **parameters: Any) -> None:
        super().__init__(task, budget, **parameters)
        self.capped = capped
        self.mistakes = 0
        self.damage = 0.0

    def learn(self, x: Vector, label: float) -> None:
        f = self.f(x)
        direction = perceptron_direction(self, label, f)
        self.mistakes += direction is not None
        if self.task is Task.BINARY and f[0] == 0.0:
            direction = np.array([label])
        if direction is None:
            return
        self.append(x, self.eta * direction)
        if len(self.vectors) > self.budget:
            self.shrink()
            self.remove(0)

    def shrink(self) -> None:
        own = int(np.argmax(self.coefficients[0])) if self.task is Task.MULTICLASS else 0
        weight = abs(self.coefficients[0][own])
        output = self.f(self.vectors[0])[own]
        mu = abs(output) if self.task is Task.REGRESSION else np.sign(self.coefficients[0][own]) * output
        factor = self.factor(weight, mu)
        self.damage += self.deviation(weight, mu, factor)
        self.coefficients = [factor * a for a in self.coefficients]

    def factor(self, weight: float, mu: float) -> float:
        """The roots of (weight phi)^2 + 2 weight phi (1 - phi mu) = 15/32 mistakes - damage bound the factor, unless 1 is allowed."""
        a, b, c = weight**2 - 2 * weight * mu, 2 * weight, self.damage - 15 / 32 * self.mistakes
        if a + b + c <= 0:
            return 1.0
        if a == 0:
            return max(0.0, min(1.0, -c / b))
        within, beyond = sorted(((-b + sign * math.sqrt(b * b - 4 * a * c)) / (2 * a) for sign in (1, -1)), key=abs)
        as_published = a < 0 and not self.capped and beyond * max(self.eta, np.abs(self.coefficients[:-1]).max()) <= 1e6 * self.eta
        return beyond if as_published else max(0.0, min(1.0, within))

    @staticmethod
    def deviation(weight: float, mu: float, factor: float) -> float:
        return (weight * factor) ** 2 + 2 * weight * factor * (1 - factor * mu)


class BudgetPerceptron(Budgeted):
    """Crammer, Kandola and Singer: on a margin of at most `tolerance`, remove the vector that is classified best without itself."""

    def __init__(self, task: Task, budget: int, tolerance: float, **parameters: Any) -> None:
        super().__init__(task, budget, **parameters)
        self.tolerance = tolerance

    def learn(self, x: Vector, label: float) -> None:
        if label * self.f(x)[0] > self.tolerance:
            return
        coefficient = np.array([label])
        if not self.full:
            self.append(x, coefficient)
            return
        most_redundant = 0
        for i in range(1, self.budget):  # margins within 1e-6 are equal: the first one wins
            if self.margin_without_itself(i) > self.margin_without_itself(most_redundant) + 1e-6:
                most_redundant = i
        self.vectors[most_redundant], self.coefficients[most_redundant] = x, coefficient

    def margin_without_itself(self, i: int) -> float:
        return float(np.sign(self.coefficients[i][0]) * (self.f(self.vectors[i])[0] - self.coefficients[i][0]))


class Projectron(Budgeted):
    """Orabona et al. with the budget as the only reason to project, besides vectors that lie in the span already."""

    def __init__(self, task: Task, budget: int, residual: float = 0.0, **parameters: Any) -> None:
        super().__init__(task, budget, **parameters)
        self.residual = residual

    def projection(self, x: Vector) -> tuple[Vector, float, float]:
        """Coefficients of the projection on the span, its squared norm and the squared norm of what remains."""
        k = self.similarities(x)
        K = np.array([[similarity(self.kernel, self.sigma, a, b) for a in self.vectors] for b in self.vectors]).reshape(len(k), len(k))
        d = np.linalg.solve(K, k)
        return d, float(k @ d), max(0.0, 1.0 - float(k @ d))

    def project(self, d: Vector, step: Vector) -> None:
        self.coefficients = [a + weight * step for a, weight in zip(self.coefficients, d.tolist(), strict=True)]

    def on_mistake(self, x: Vector, direction: Vector) -> None:
        d, _, residual = self.projection(x)
        if self.full or residual <= max(self.residual, 1e-10):
            self.project(d, self.eta * direction)
        else:
            self.append(x, self.eta * direction)

    def learn(self, x: Vector, label: float) -> None:
        direction = perceptron_direction(self, label, self.f(x))
        if direction is not None:
            self.on_mistake(x, direction)


class ProjectronPlusPlus(Projectron):
    """Also moves within the span on a correct prediction with a margin below 1."""

    def learn(self, x: Vector, label: float) -> None:
        f = self.f(x)
        direction = perceptron_direction(self, label, f)
        if direction is not None:
            self.on_mistake(x, direction)
        elif self.vectors:
            self.on_margin_error(x, label, f)

    def on_margin_error(self, x: Vector, label: float, f: Vector) -> None:
        if self.task is Task.BINARY:
            loss, direction = 1 - label * f[0], np.array([label])
        else:
            rival = strongest_rival(f, self.known, int(label))
            if rival is None:
                return
            loss, direction = 1 - (f[int(label)] - f[rival]), pair(len(f), int(label), rival)
        if loss <= 0:
            return
        d, norm, residual = self.projection(x)
        tau = min(loss / norm, 1.0) if norm > 0 else 1.0
        U = math.sqrt((self.budget + 1) / math.log(self.budget + 1)) / 4
        if tau * (2 * loss - tau * norm - 2 * U * math.sqrt(residual)) >= 0:
            self.project(d, tau * direction)


class Norma(Budgeted):
    """Kivinen et al. for regression: decay, and a zone without updates whose width adapts to a share nu of updates."""

    def __init__(self, task: Task, budget: int, nu: float, reg: float, **parameters: Any) -> None:
        super().__init__(task, budget, **parameters)
        self.nu, self.reg = nu, reg

    def learn(self, x: Vector, label: float) -> None:
        error = label - self.f(x)[0]
        self.coefficients = [(1 - self.eta * self.reg) * a for a in self.coefficients]
        if abs(error) <= self.epsilon:
            self.epsilon -= self.nu * self.eta
            return
        self.epsilon += (1 - self.nu) * self.eta
        if self.full:
            self.remove(0)
        self.append(x, np.array([self.eta * np.sign(error)]))
