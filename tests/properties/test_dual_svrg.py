"""DualSVRG equals its brute-force oracle on random streams."""

from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.dual_svrg import DualSvrg as Oracle
from oracles.dual_svrg import play
from streams import KINDS, few, streams

from streamlearn.features.fourier import draw_frequencies
from streamlearn.learners.dual_svrg import DualSvrg
from streamlearn.learners.protocol import Task

# The cosine of a huge angle is decided by the last bits of the angle.
COMPARABLE = [kind for kind in KINDS if kind != "huge"]


@pytest.mark.parametrize("kind", COMPARABLE)
@given(
    data=st.data(), oracle=st.sampled_from(["budget", "coverage", "always-move"]), budget=st.sampled_from([1, 2, 7, 100]),
    memory=st.sampled_from([1, 3, 10, 100]), period=st.sampled_from([1, 4, 10, 100]), loss=st.sampled_from(["smooth-hinge", "logistic"]),
    seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
@few
def test_equals_the_oracle(
    kind: str, data: st.DataObject, oracle: Literal["budget", "coverage", "always-move"], budget: int, memory: int, period: int,
    loss: Literal["smooth-hinge", "logistic"], seed: int,
) -> None:  # fmt: skip
    stream = data.draw(streams(kind, [Task.BINARY, Task.MULTICLASS]))
    learner = DualSvrg(
        oracle=oracle,
        budget=budget,
        theta=0.6,
        frequencies=4,
        memory=memory,
        period=period,
        loss=loss,
        eta=0.4,
        reg=0.1,
        sigma=0.8,
        seed=seed,
    )
    frequencies = draw_frequencies(stream.X.shape[1], 4, seed) / 0.8

    def model() -> Oracle:
        return Oracle(
            stream.task, frequencies, outputs=stream.outputs, declared=stream.declared, oracle=oracle, budget=budget, theta=0.6,
            memory=memory, period=period, loss=loss, eta=0.4, reg=0.1, sigma=0.8,
        )  # fmt: skip

    expected = stream.oracle_scores(lambda X, y: play(model(), X, y))
    np.testing.assert_allclose(stream.scores(learner), expected, rtol=1e-7, atol=1e-9)
