"""RRF equals its oracle on random streams."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.rrf import Rrf as Oracle
from oracles.rrf import play
from streams import KINDS, few, streams

from streamlearn.features.fourier import draw_frequencies
from streamlearn.learners.protocol import Task
from streamlearn.learners.rrf import Rrf

TASKS = [Task.BINARY, Task.MULTICLASS, Task.REGRESSION]
# The cosine of a huge angle is decided by the last bits of the angle.
COMPARABLE = [kind for kind in KINDS if kind != "huge"]


@pytest.mark.parametrize("kind", COMPARABLE)
@given(
    data=st.data(), count=st.integers(1, 12), eta_scale=st.sampled_from([0.0, 0.01, None]), choice=st.integers(0, 2),
    reg=st.sampled_from([0.0, 0.5]), seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
@few
def test_equals_the_oracle(kind: str, data: st.DataObject, count: int, eta_scale: float | None, choice: int, reg: float, seed: int) -> None:
    stream = data.draw(streams(kind, TASKS))
    loss = (("l1", "l2", "eps") if stream.task is Task.REGRESSION else ("hinge", "smooth-hinge", "logistic"))[choice]
    eta = 0.2 / count
    learner = Rrf(frequencies=count, sigma=0.8, eta=eta, eta_scale=eta_scale, reg=reg, loss=loss, seed=seed)
    noise = draw_frequencies(stream.X.shape[1], count, seed)

    def model() -> Oracle:
        return Oracle(
            stream.task, noise, outputs=stream.outputs, declared=stream.declared, sigma=0.8, eta=eta,
            eta_scale=eta if eta_scale is None else eta_scale, reg=reg, loss=loss,
        )  # fmt: skip

    expected = stream.oracle_scores(lambda X, y: play(model(), X, y))
    np.testing.assert_allclose(stream.scores(learner), expected, rtol=1e-7, atol=1e-9)
