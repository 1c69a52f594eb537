"""RRF: random Fourier features whose kernel widths are learned with the weights (Nguyen et al., 2017)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from streamlearn.features.compiled import Array, lean
from streamlearn.features.elementary import exponentials
from streamlearn.features.fourier import draw_frequencies, fourier_row, project_row
from streamlearn.features.memory import rows, zeros
from streamlearn.learners.linear import gradient_step, is_finite, linear_outputs, scale, stable_step
from streamlearn.learners.losses import SQUARED, Objective, class_fields, objective, output_slopes, publish_scores, step_size
from streamlearn.learners.parameters import Count, KernelName, NonNegative, Positive, Seed, Width, width_of
from streamlearn.learners.protocol import Field, Pool, Shape, Task

_LARGEST_LOG_SCALE = 20.0  # exp of it is 5e8: beyond, a feature is noise for any data, and exp would overflow in the end
_LARGEST_FEATURE = 1e30  # after scaling; keeps the angles finite in float32


@dataclass(frozen=True, kw_only=True)
class Rrf:
    """RRF: gradient steps on the weights of random Fourier features and on the log-scale of every input feature.

    Source: Nguyen et al., Large-scale Online Kernel Learning with Random Feature Reparameterization, Algorithm 1.
    Frequencies are diag(exp g) E with E [d, D] drawn once and g [d] learned, that is k(x, x') =
    exp(-sum_j (e^(g_j) (x_j - x'_j))^2 / 2) for the gaussian kernel; z = [cos, sin] of the D angles, without 1/sqrt(D).
    Both gradients are taken at the old w and g; the paper's box updates w on the line before g, the authors' program
    does what is done here. The paper calls sigma a variance in one place and a standard deviation in another: exp(g_j)
    is the standard deviation. Defaults are the paper's w = 0 and no regularisation; the program has w = 0.01 N(0, 1)
    (option `spread`) and reg = 1. Log-scales are held within +-20, and steps of the l2 loss within 2/D, beyond which they
    would move away from the optimum.

    Cost per event O(d D + D outputs), twice when it is learned. Memory per model (2 D outputs + d) * itemsize + outputs
    bytes, and d D * itemsize shared.

    frequencies: D, >= 1. sigma: kernel width at the start, exp(g_j) = 1 / sigma, > 0, or auto. eta: step size of the
    weights, > 0; ||z||^2 = D, so it belongs near 1/D; default 1/D, or 0.2/D for regression. eta_scale: step size of the
    log-scales, >= 0; default eta; 0 gives FOGD. reg: lambda of reg / 2 ||w||^2, >= 0. loss: hinge, smooth-hinge or
    logistic; l1, l2 (default) or eps for regression. epsilon: half-width of the zone without slope (eps), >= 0. spread:
    standard deviation of the weights at the start, >= 0. kernel: gaussian, laplacian or cauchy. seed: of E and of the
    first weights.
    """

    name: ClassVar[str] = "rrf"
    tasks: ClassVar[frozenset[Task]] = frozenset({Task.BINARY, Task.MULTICLASS, Task.REGRESSION})

    frequencies: Count = 100
    sigma: Width = "auto"
    eta: Positive | None = None
    eta_scale: NonNegative | None = None
    reg: NonNegative = 0.0
    loss: str = ""  # "": hinge, or l2 for regression
    epsilon: NonNegative = 0.1
    spread: NonNegative = 0.0
    kernel: KernelName = "gaussian"
    seed: Seed = 1

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        size = (shape.outputs, 2 * self.frequencies)
        drawn = np.random.RandomState([self.seed, 1]).standard_normal(size) if self.spread else 0.0  # never -0
        return class_fields(shape) | {
            "weights": Field(size, shape.dtype, self.spread * drawn),
            "log_scales": Field((shape.dim,), shape.dtype, -np.log(width_of(self.sigma))),
        }

    def shared(self, shape: Shape) -> Mapping[str, Array]:
        return {"noise": draw_frequencies(shape.dim, self.frequencies, self.seed, self.kernel).astype(shape.dtype)}

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        loss = self.loss or ("l2" if pool.shape.task is Task.REGRESSION else "hinge")
        aim = objective(pool.shape.task, loss, epsilon=self.epsilon)
        eta = self.eta or step_size(None, pool.shape.task) / self.frequencies
        eta_scale = eta if self.eta_scale is None else self.eta_scale
        _descend(
            aim, eta, eta_scale, self.reg, pool.shared["noise"], pool["known"], pool["weights"], pool["log_scales"],
            slots, X, y, scores, zeros((2 * self.frequencies,), X.dtype),
            rows(X.dtype, X.shape[1], self.frequencies, pool.shape.outputs, pool.shape.outputs),
        )  # fmt: skip


@lean
def _descend(
    aim: Objective, eta: float, eta_scale: float, reg: float, noise: Array, known: Array, weights: Array, log_scales: Array,
    slots: Array, X: Array, y: Array, scores: Array, z: Array, scratch: tuple[Array, ...],
) -> None:  # fmt: skip
    scaled, angles, f, slopes = scratch
    if aim.loss == SQUARED:
        eta = stable_step(eta, len(angles))
    for i in range(len(slots)):
        s = slots[i]
        _scale_features(X[i], log_scales[s], scaled)
        project_row(scaled, noise, angles)
        fourier_row(angles, 1.0, z)
        linear_outputs(weights[s], z, f)
        publish_scores(f, known[s], scores[i])
        if np.isnan(y[i]):
            continue
        active = output_slopes(aim, y[i], f, known[s], slopes)
        if active and eta_scale > 0.0:
            _angle_slopes(weights[s], slopes, z, angles)  # the old weights
        if reg > 0.0:
            scale(weights[s], max(1.0 - eta * reg, 0.0))
        if active:
            gradient_step(weights[s], eta, slopes, z)
            if eta_scale > 0.0:
                _scale_step(log_scales[s], eta_scale, scaled, noise, angles)


@lean
def _scale_features(x: Array, log_scales: Array, scaled: Array) -> None:
    """scaled = exp(log_scales) * x."""
    for j in range(len(x)):
        scaled[j] = log_scales[j]
    exponentials(scaled, 1.0)
    for j in range(len(x)):
        scaled[j] = min(max(x[j] * scaled[j], -_LARGEST_FEATURE), _LARGEST_FEATURE)


@lean
def _angle_slopes(weights: Array, slopes: Array, z: Array, angles: Array) -> None:
    """angles[i] = d loss / d angle_i = sum_c slopes_c (-sin_i w_c,i + cos_i w_c,D+i)."""
    count = len(angles)
    angles[:] = 0.0
    for c in range(len(slopes)):
        if slopes[c] != 0.0:
            for i in range(count):
                angles[i] += slopes[c] * (z[i] * weights[c, count + i] - z[count + i] * weights[c, i])


@lean
def _scale_step(log_scales: Array, eta: float, scaled: Array, noise: Array, angle_slopes: Array) -> None:
    """log_scales -= eta * d loss / d log_scales, where d angle_i / d g_j = scaled_j noise[j, i]."""
    for j in range(len(scaled)):
        total = scaled.dtype.type(0.0)
        for i in range(len(angle_slopes)):
            total += noise[j, i] * angle_slopes[i]
        moved = log_scales[j] - eta * scaled[j] * total
        if is_finite(moved):
            log_scales[j] = min(max(moved, -_LARGEST_LOG_SCALE), _LARGEST_LOG_SCALE)
