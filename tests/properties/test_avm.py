"""AVM equals its oracle on random streams."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.avm import Avm as Oracle
from oracles.unbudgeted import play
from streams import KINDS, few, streams

from streamlearn.features.generator import initial_state
from streamlearn.learners.avm import Avm
from streamlearn.learners.coverage import CellName
from streamlearn.learners.parameters import KernelName
from streamlearn.learners.protocol import Task

SIGMA = 0.8
LOSSES = {
    Task.BINARY: ("hinge", "smooth-hinge", "logistic"),
    Task.MULTICLASS: ("hinge", "smooth-hinge", "logistic"),
    Task.REGRESSION: ("l1", "l2", "eps"),
}


@pytest.mark.parametrize("kind", KINDS)
@given(
    data=st.data(), cell=st.sampled_from(["hypersphere", "hyperrectangle"]), delta=st.sampled_from([0.1, 0.7, 2.0]),
    budget=st.sampled_from([None, 1, 2, 6]), schedule=st.sampled_from([(0.0, 1.0), (3.0, 0.5)]), choice=st.integers(0, 2),
    reg=st.sampled_from([0.01, 0.5, 2.0]), kernel=st.sampled_from(["gaussian", "laplacian"]), seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
@few
def test_equals_the_oracle(
    kind: str, data: st.DataObject, cell: CellName, delta: float, budget: int | None, schedule: tuple[float, float], choice: int,
    reg: float, kernel: KernelName, seed: int,
) -> None:  # fmt: skip
    stream = data.draw(streams(kind, list(LOSSES)))
    loss, (beta, rho) = LOSSES[stream.task][choice], schedule
    learner = Avm(delta=delta, cell=cell, budget=budget, beta=beta, rho=rho, sigma=SIGMA, reg=reg, loss=loss, kernel=kernel, seed=seed)

    def model() -> Oracle:
        return Oracle(
            stream.task, delta, cell, reg, loss, initial_state(seed), budget, beta, rho,
            outputs=stream.outputs, declared=stream.declared, sigma=SIGMA, kernel=kernel,
        )  # fmt: skip

    expected = stream.oracle_scores(lambda X, y: play(model(), X, y))
    np.testing.assert_allclose(stream.scores(learner), expected, rtol=1e-7, atol=1e-7)
