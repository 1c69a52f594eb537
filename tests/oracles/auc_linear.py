"""OPAUC, SOLAM and SPAM-NET as their papers state them: class moments recomputed from the whole history at every event."""

from dataclasses import dataclass, field

import numpy as np
from reference import Floats


@dataclass
class History:
    dim: int
    w: Floats = field(init=False)
    rows: dict[float, list[Floats]] = field(init=False)

    def __post_init__(self) -> None:
        self.w = np.zeros(self.dim)
        self.rows = {-1.0: [], 1.0: []}

    @property
    def seen(self) -> int:
        return len(self.rows[1.0]) + len(self.rows[-1.0])

    @property
    def positive_rate(self) -> float:
        return len(self.rows[1.0]) / self.seen


@dataclass
class Opauc(History):
    eta: float
    reg: float

    def event(self, x: Floats, y: float) -> float:
        score = float(self.w @ x)
        if np.isnan(y):
            return score
        self.rows[y].append(x)
        if self.rows[-y]:
            others = np.array(self.rows[-y])
            c = others.mean(axis=0)
            S = (others - c).T @ (others - c) / len(others)
            gradient = self.reg * self.w - y * (x - c) + ((x - c) @ self.w) * (x - c) + S @ self.w
            curvature = np.sum((x - c) ** 2) + np.trace(S)
            self.w = self.w - (min(self.eta, 2 / curvature) if curvature > 0 else self.eta) * gradient
        return score


def saddle_function(w: Floats, a: float, b: float, alpha: float, x: Floats, y: float, p: float) -> float:
    """F(w, a, b, alpha; x, y): its expectation's minimum in (w, a, b) of its maximum in alpha is the squared AUC loss."""
    f = w @ x
    positive = (1 - p) * (f - a) ** 2 - 2 * (1 + alpha) * (1 - p) * f
    negative = p * (f - b) ** 2 + 2 * (1 + alpha) * p * f
    return float((positive if y > 0 else negative) - p * (1 - p) * alpha**2)


@dataclass
class Solam(History):
    eta: float
    radius: float
    a: float = 0.0
    b: float = 0.0
    alpha: float = 0.0
    visited: list[tuple[float, Floats]] = field(default_factory=list)

    def event(self, x: Floats, y: float) -> float:
        score = float(self.averaged @ x)
        if np.isnan(y):
            return score
        self.rows[y].append(x)
        p, g, R = self.positive_rate, self.eta / np.sqrt(self.seen), self.radius
        self.visited.append((g, self.w))
        f = self.w @ x
        if y > 0:
            w = self.w - g * (2 * (1 - p) * (f - self.a) * x - 2 * (1 + self.alpha) * (1 - p) * x)
            a, b = self.a + g * 2 * (1 - p) * (f - self.a), self.b
            alpha = self.alpha + g * (-2 * (1 - p) * f - 2 * p * (1 - p) * self.alpha)
        else:
            w = self.w - g * (2 * p * (f - self.b) * x + 2 * (1 + self.alpha) * p * x)
            a, b = self.a, self.b + g * 2 * p * (f - self.b)
            alpha = self.alpha + g * (2 * p * f - 2 * p * (1 - p) * self.alpha)
        norm = np.linalg.norm(w)
        self.w = w * R / norm if norm > R else w
        self.a, self.b, self.alpha = float(np.clip(a, -R, R)), float(np.clip(b, -R, R)), float(np.clip(alpha, -2 * R, 2 * R))
        return score

    @property
    def averaged(self) -> Floats:
        if not self.visited:
            return self.w
        return np.asarray(sum(g * w for g, w in self.visited) / sum(g for g, _ in self.visited))


@dataclass
class SpamNet(History):
    eta: float
    reg: float
    l1: float
    visited: list[Floats] = field(default_factory=list)

    def event(self, x: Floats, y: float) -> float:
        score = float(np.mean(self.visited, axis=0) @ x) if self.visited else 0.0
        if np.isnan(y):
            return score
        self.rows[y].append(x)
        if not self.rows[-y]:
            return score
        p = self.positive_rate
        positive, negative = np.mean(self.rows[1.0], axis=0), np.mean(self.rows[-1.0], axis=0)
        a, b = positive @ self.w, negative @ self.w
        alpha = b - a
        f = self.w @ x
        rate = 2 * (1 - p) if y > 0 else 2 * p
        gradient = rate * ((f - a) - (1 + alpha)) * x if y > 0 else rate * ((f - b) + (1 + alpha)) * x
        curvature = rate * np.linalg.norm(x) * np.linalg.norm(x - (negative if y > 0 else positive))
        g = self.eta / np.sqrt(len(self.visited) + 1)
        g = min(g, 2 / curvature) if curvature > 0 else g
        u = self.w - g * gradient
        self.w = np.sign(u) * np.maximum(0, np.abs(u) / (1 + g * self.reg) - g * self.l1 / (1 + g * self.reg))
        norm = np.linalg.norm(self.w)
        if self.reg > 0 and norm > np.sqrt(1 / (2 * self.reg)):
            self.w = self.w / norm * np.sqrt(1 / (2 * self.reg))
        self.visited.append(self.w)
        return score
