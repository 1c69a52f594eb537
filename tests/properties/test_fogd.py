"""FOGD equals its oracle on random streams."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import fourier as oracle
from streams import KINDS, few, streams

from streamlearn.features.fourier import draw_frequencies
from streamlearn.learners.fourier import Fogd
from streamlearn.learners.protocol import Task

# The cosine of a huge angle is decided by the last bits of the angle. Tiny vectors all have the same features, so which of several wrong
# classes is the best is decided by the last bits of sums.
TASKS = (Task.BINARY, Task.MULTICLASS, Task.REGRESSION)
COMPARABLE = [kind for kind in KINDS if kind != "huge"]


@pytest.mark.parametrize("kind", COMPARABLE)
@given(data=st.data(), count=st.integers(1, 40), normalise=st.booleans(), logistic=st.booleans(), seed=st.integers(0, 2**32 - 1))
@few
def test_equals_the_oracle(kind: str, data: st.DataObject, count: int, normalise: bool, logistic: bool, seed: int) -> None:
    stream = data.draw(streams(kind, [Task.BINARY, Task.REGRESSION] if kind == "tiny" else TASKS))
    loss = "" if stream.task is Task.REGRESSION else "logistic" if logistic else "hinge"
    eta = 0.3 if normalise else 0.3 / count
    learner = Fogd(frequencies=count, sigma=0.8, eta=eta, loss=loss, epsilon=0.05, normalise=normalise, seed=seed)
    frequencies = draw_frequencies(stream.X.shape[1], count, seed) / 0.8

    def model() -> oracle.Fogd:
        return oracle.Fogd(
            stream.task, frequencies, outputs=stream.outputs, declared=stream.declared, eta=eta, loss=loss, epsilon=0.05,
            normalise=normalise,
        )  # fmt: skip

    expected = stream.oracle_scores(lambda X, y: oracle.play(model(), X, y))
    np.testing.assert_allclose(stream.scores(learner), expected, rtol=1e-7, atol=1e-9)
