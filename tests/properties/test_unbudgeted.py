"""Perceptron and OGD equal their oracles on random streams."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import unbudgeted as oracles
from streams import KINDS, few, streams

from streamlearn.learners.parameters import KernelName
from streamlearn.learners.protocol import Task
from streamlearn.learners.unbudgeted import Ogd, Perceptron

TASKS = [Task.BINARY, Task.MULTICLASS, Task.REGRESSION]


@pytest.mark.parametrize(("learner", "oracle"), [(Perceptron, oracles.Perceptron), (Ogd, oracles.Ogd)])
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), kernel=st.sampled_from(["gaussian", "laplacian", "cauchy"]))
@few
def test_equals_the_oracle(
    learner: type[Perceptron | Ogd], oracle: type[oracles.KernelModel], kind: str, data: st.DataObject, kernel: KernelName
) -> None:
    stream = data.draw(streams(kind, TASKS))
    published = stream.scores(learner(sigma=0.8, eta=0.3, epsilon=0.05, kernel=kernel))
    expected = stream.oracle_scores(
        lambda X, y: oracles.play(
            oracle(stream.task, outputs=stream.outputs, declared=stream.declared, sigma=0.8, eta=0.3, epsilon=0.05, kernel=kernel), X, y
        )
    )
    np.testing.assert_allclose(published, expected, rtol=1e-7, atol=1e-9)
