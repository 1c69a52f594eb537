"""FOGD: online gradient descent on random Fourier features (Lu et al., Large Scale Online Kernel Learning, Algorithms 1 and 3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from streamlearn.features.compiled import Array, lean
from streamlearn.features.fourier import BLOCK, draw_frequencies, fourier_row
from streamlearn.features.memory import rows, zeros
from streamlearn.features.tiles import product
from streamlearn.learners.linear import gradient_step, linear_outputs
from streamlearn.learners.losses import Objective, class_fields, objective, output_slopes, publish_scores, step_size
from streamlearn.learners.parameters import Count, KernelName, NonNegative, Positive, Seed, Width, width_of
from streamlearn.learners.protocol import Field, Pool, Shape, Task


@dataclass(frozen=True, kw_only=True)
class Fogd:
    """FOGD: a linear model on z(x) = [cos(u_i'x)]_i followed by [sin(u_i'x)]_i for D random frequencies u_i, trained by gradient steps.

    Source: Lu et al., Algorithm 1 (binary), 3 (multi-class) and FOGD-R (regression, where the threshold epsilon is on
    |y - f|).
    Cost per event 2 d D + O(D outputs) flops; memory 2 D outputs itemsize + outputs bytes per model, and d D itemsize
    shared by all models.

    frequencies: D, >= 1. sigma: kernel width, > 0, or auto. eta: constant step size, > 0; without normalisation ||z||^2
    = D, so it belongs near 1/D; default 1/D, or 0.2/D for regression, normalised 1 or 0.2. loss: hinge, smooth-hinge or
    logistic; squared, l1, l2 or eps for regression. epsilon: see above, >= 0. normalise: scale z by 1/sqrt(D), so that
    eta does not depend on D. kernel: gaussian, laplacian or cauchy. seed: of the frequencies.
    """

    name: ClassVar[str] = "fogd"
    tasks: ClassVar[frozenset[Task]] = frozenset({Task.BINARY, Task.MULTICLASS, Task.REGRESSION})

    frequencies: Count = 400
    sigma: Width = "auto"
    eta: Positive | None = None
    loss: str = ""  # "": hinge, or squared for regression
    epsilon: NonNegative = 0.1
    normalise: bool = False
    kernel: KernelName = "gaussian"
    seed: Seed = 1

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        return class_fields(shape) | {"weights": Field((shape.outputs, 2 * self.frequencies), shape.dtype)}

    def shared(self, shape: Shape) -> Mapping[str, Array]:
        drawn = draw_frequencies(shape.dim, self.frequencies, self.seed, self.kernel) / width_of(self.sigma)
        return {"frequencies": drawn.astype(shape.dtype)}

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        loss = self.loss or ("squared" if pool.shape.task is Task.REGRESSION else "hinge")
        aim = objective(pool.shape.task, loss, epsilon=self.epsilon)
        scale = 1.0 / np.sqrt(self.frequencies) if self.normalise else 1.0
        eta = self._eta(pool.shape.task)
        angles = zeros((min(BLOCK, len(X)), self.frequencies), X.dtype)
        z, outputs = zeros((2 * self.frequencies,), X.dtype), rows(X.dtype, pool.shape.outputs, pool.shape.outputs)
        _descend(
            aim, scale, eta, pool.shared["frequencies"], pool["known"], pool["weights"], slots, X, y, scores, angles, z, outputs
        )  # fmt: skip

    def _eta(self, task: Task) -> float:
        if self.eta is not None or self.normalise:
            return step_size(self.eta, task)
        return step_size(None, task) / self.frequencies


@lean
def _descend(
    aim: Objective, scale: float, eta: float, frequencies: Array, known: Array, weights: Array, slots: Array, X: Array, y: Array,
    scores: Array, angles: Array, z: Array, outputs: tuple[Array, ...],
) -> None:  # fmt: skip
    f, slopes = outputs
    for start in range(0, len(X), BLOCK):
        stop = min(start + BLOCK, len(X))
        product(X[start:stop], frequencies, angles[: stop - start])
        for i in range(start, stop):
            s = slots[i]
            fourier_row(angles[i - start], scale, z)
            linear_outputs(weights[s], z, f)
            publish_scores(f, known[s], scores[i])
            if not np.isnan(y[i]) and output_slopes(aim, y[i], f, known[s], slopes):
                gradient_step(weights[s], eta, slopes, z)
