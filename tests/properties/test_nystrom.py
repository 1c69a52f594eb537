"""NOGD equals its oracle on random streams."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.nystrom import Nogd as Oracle
from oracles.unbudgeted import play
from streams import KINDS, few, streams

from streamlearn.learners.nystrom import Nogd
from streamlearn.learners.protocol import Task
from streamlearn.learners.unbudgeted import Ogd

SIGMA = 0.8
TASKS = [Task.BINARY, Task.MULTICLASS, Task.REGRESSION]
# Far apart, all support vectors have the eigenvalue 1 and which k of them are the largest is undetermined.
DETERMINED = [kind for kind in KINDS if kind != "huge"]


@pytest.mark.parametrize("kind", DETERMINED)
@given(data=st.data(), sizes=st.sampled_from([(1, 1), (2, 1), (2, 2), (5, 3), (9, 2), (9, 40)]), logistic=st.booleans())
@few
def test_equals_the_oracle(kind: str, data: st.DataObject, sizes: tuple[int, int], logistic: bool) -> None:
    stream = data.draw(streams(kind, TASKS))
    budget, rank = sizes
    loss = "squared" if stream.task is Task.REGRESSION else "logistic" if logistic else "hinge"
    learner = Nogd(budget=budget, rank=rank, sigma=SIGMA, eta=0.3, loss=loss)

    def model() -> Oracle:
        return Oracle(stream.task, budget, rank, loss, outputs=stream.outputs, declared=stream.declared, sigma=SIGMA, eta=0.3)

    expected = stream.oracle_scores(lambda X, y: play(model(), X, y))
    np.testing.assert_allclose(stream.scores(learner), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@few
def test_room_for_every_event_equals_ogd(kind: str, data: st.DataObject) -> None:
    stream = data.draw(streams(kind, TASKS))
    np.testing.assert_array_equal(stream.scores(Nogd(budget=100, sigma=SIGMA, eta=0.3)), stream.scores(Ogd(sigma=SIGMA, eta=0.3)))
