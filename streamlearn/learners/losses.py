"""Losses of all learners: the slope of the loss in each output, for every task, from one function.

With f the outputs of an event, a gradient step on any linear-in-parameters model is w_c -= eta * slope_c * features, so
a learner needs
the slopes only. Margins: y f for binary, f_y - f_s for multi-class with s the best wrong class (Crammer and Singer).
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from streamlearn.features.compiled import Array, lean
from streamlearn.learners.protocol import Field, Shape, Task

BINARY, MULTICLASS, REGRESSION = 0, 1, 2
PERCEPTRON, HINGE, SMOOTH_HINGE, LOGISTIC, SQUARED, ABSOLUTE, CLOSED_HINGE = range(7)

LARGEST_RESIDUAL = 1e18  # a residual counts as at most this, so that no target, however large, turns a float32 model into infinity

MARGIN_LOSSES: Mapping[str, int] = {
    "perceptron": PERCEPTRON,
    "hinge": HINGE,
    "smooth-hinge": SMOOTH_HINGE,
    "logistic": LOGISTIC,
}
REGRESSION_LOSSES: Mapping[str, int] = {"l1": ABSOLUTE, "l2": SQUARED, "eps": ABSOLUTE, "squared": SQUARED}
_TASK_CODES = {Task.BINARY: BINARY, Task.MULTICLASS: MULTICLASS, Task.REGRESSION: REGRESSION}


class Objective(NamedTuple):
    """A task and a loss, as the kernels take them."""

    task: int
    loss: int
    width: float  # smooth hinge: tau, the length of its quadratic piece; regression: half-width of the zone without slope


def objective(task: Task, loss: str, *, tau: float = 0.5, epsilon: float = 0.0) -> Objective:
    """The objective of a task. Raises ValueError when the loss is not one of the task's."""
    losses = REGRESSION_LOSSES if task is Task.REGRESSION else MARGIN_LOSSES
    if loss not in losses:
        raise ValueError(f"loss = {loss!r} is not for {task} streams; use one of {', '.join(losses)}")
    if task is Task.REGRESSION:
        return Objective(REGRESSION, losses[loss], 0.0 if loss in ("l1", "l2") else epsilon)
    return Objective(_TASK_CODES[task], losses[loss], tau)


def step_size(eta: float | None, task: Task) -> float:
    """A step size on features of norm 1; by default 1, for regression 0.2, where steps of the squared loss above 2 would diverge."""
    if eta is not None:
        return eta
    return 0.2 if task is Task.REGRESSION else 1.0


def mistakes_only(task: Task, epsilon: float) -> Objective:
    """The Perceptron's objective: slope -1 in the margin on a mistake; for regression the sign of an error above epsilon."""
    return objective(task, "eps" if task is Task.REGRESSION else "perceptron", epsilon=epsilon)


def class_fields(shape: Shape) -> dict[str, Field]:
    """`known` [outputs]: which classes a model has met. Every learner that uses `output_slopes` has it."""
    known = np.zeros(shape.outputs, np.uint8)
    known[: shape.declared if shape.task is Task.MULTICLASS else 1] = 1
    return {"known": Field((shape.outputs,), np.dtype(np.uint8), known)}


@lean
def margin_slope(loss: int, tau: float, margin: float) -> float:
    """d loss / d margin, hinge active strictly below margin 1 (CLOSED_HINGE: at 1 too)."""
    if loss == LOGISTIC:  # log(1 + exp(-m)), written so that exp cannot overflow
        if margin > 0.0:
            decay = math.exp(-margin)
            return -decay / (1.0 + decay)
        return -1.0 / (1.0 + math.exp(margin))
    if margin >= 1.0:
        return -1.0 if loss == CLOSED_HINGE and margin == 1.0 else 0.0
    if loss == SMOOTH_HINGE and margin > 1.0 - tau:
        return -(1.0 - margin) / tau
    return -1.0


@lean
def residual_slope(loss: int, epsilon: float, residual: float) -> float:
    """d loss / d f at residual f - y, zero while |residual| <= epsilon. The squared loss is residual^2 / 2."""
    if abs(residual) <= epsilon:
        return 0.0
    if loss == SQUARED:
        return min(max(residual, -LARGEST_RESIDUAL), LARGEST_RESIDUAL)
    return float(np.sign(residual))


@lean
def best_wrong_class(f: Array, known: Array, y: int) -> int:
    """The known class other than y with the highest output, the lowest index on ties; -1 if there is none."""
    best = -1
    for c in range(f.shape[0]):
        if known[c] and c != y and (best < 0 or f[c] > f[best]):
            best = c
    return best


@lean
def output_slopes(objective: Objective, label: float, f: Array, known: Array, slopes: Array) -> bool:
    """Write d loss / d f of every output [outputs]; returns whether any is not zero.

    The loss `perceptron` has slope -1 in its margin on a mistake (f = 0 counts as +1, argmax ties as the lowest class)
    and 0 otherwise.
    A class met for the first time becomes known here. f is the model's raw output, before unknown classes are hidden.
    """
    slopes[:] = 0.0
    if objective.task == REGRESSION:
        slopes[0] = residual_slope(objective.loss, objective.width, f[0] - label)
        return bool(slopes[0] != 0.0)
    if objective.task == BINARY:
        if objective.loss == PERCEPTRON:
            slope = -1.0 if (f[0] >= 0.0) != (label > 0.0) else 0.0
        else:
            slope = margin_slope(objective.loss, objective.width, label * f[0])
        slopes[0] = label * slope
        return slope != 0.0
    y = int(label)
    known[y] = 1
    rival = best_wrong_class(f, known, y)
    if rival < 0:
        return False
    if objective.loss == PERCEPTRON:
        slope = -1.0 if f[rival] > f[y] or (f[rival] == f[y] and rival < y) else 0.0
    else:
        slope = margin_slope(objective.loss, objective.width, f[y] - f[rival])
    slopes[y] = slope
    slopes[rival] = -slope
    return slope != 0.0


@lean
def publish_scores(f: Array, known: Array, scores: Array) -> None:
    """Copy outputs to an event's scores, -inf for classes this model has not met."""
    for c in range(f.shape[0]):
        scores[c] = f[c] if known[c] else -np.inf
