"""Losses and their derivatives in the outputs, from their definitions."""

import math

import numpy as np
from oracles.unbudgeted import Vector, pair, strongest_rival

from streamlearn.learners.protocol import Task


def margin_loss(loss: str, margin: float, tau: float = 0.5) -> float:
    if loss == "logistic":
        return math.log1p(math.exp(-margin)) if margin > 0 else -margin + math.log1p(math.exp(margin))
    if loss == "hinge":
        return max(0.0, 1 - margin)
    if margin > 1:
        return 0.0
    return (1 - margin) ** 2 / (2 * tau) if margin >= 1 - tau else 1 - margin - tau / 2


def margin_derivative(loss: str, margin: float, tau: float = 0.5) -> float:
    if loss == "logistic":
        return -1 / (1 + math.exp(min(margin, 700.0)))
    if loss == "hinge":
        return -1.0 if margin < 1 else 0.0
    return 0.0 if margin > 1 else max(-(1 - margin) / tau, -1.0)


def residual_derivative(loss: str, residual: float, epsilon: float) -> float:
    if loss == "l2":
        return residual
    if loss == "squared":
        return residual if abs(residual) > epsilon else 0.0
    return float(np.sign(residual)) if abs(residual) > (0.0 if loss == "l1" else epsilon) else 0.0


def slopes(
    task: Task,
    loss: str,
    label: float,
    f: Vector,
    known: np.ndarray[tuple[int], np.dtype[np.bool_]],
    *,
    tau: float = 0.5,
    epsilon: float = 0.1,
) -> Vector:
    """d loss / d f [outputs]; `known` holds the label's class already."""
    if task is Task.REGRESSION:
        return np.array([residual_derivative(loss, f[0] - label, epsilon)])
    if task is Task.BINARY:
        return np.array([label * margin_derivative(loss, label * f[0], tau)])
    y, rival = int(label), strongest_rival(f, known, int(label))
    return np.zeros(len(f)) if rival is None else margin_derivative(loss, f[y] - f[rival], tau) * pair(len(f), y, rival)
