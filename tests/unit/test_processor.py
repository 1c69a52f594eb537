"""The processor: predict, then learn, per key; batches may be cut in any way."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import syn_binary, syn_rows, syn_three_classes

from streamlearn.config import make_learner
from streamlearn.events.columns import Events, Label
from streamlearn.features.compiled import Array
from streamlearn.learners.pipeline import Pipeline
from streamlearn.learners.protocol import Task
from streamlearn.processor import ModelSpec, Processor

X, SIGNS = syn_binary()
KEYS = ("red", "green", "blue")


def spec(task: Task = Task.BINARY, labels: tuple[Label, ...] = (), learner: str = "fogd", **options: int) -> ModelSpec:
    pipeline = Pipeline(learner=make_learner({"name": learner}), scaling="standard")
    return ModelSpec(pipeline=pipeline, task=task, dim=6, dtype=np.dtype(np.float32), labels=labels, **options)


def events(rows: slice, labels: Sequence[Label | None], keys: Sequence[str] | None = None) -> Events:
    chosen = range(*rows.indices(len(X)))
    return Events(
        rows=np.arange(len(chosen)),
        ids=[None] * len(chosen),
        keys=[keys[i] for i in chosen] if keys else [""] * len(chosen),
        times=np.zeros(len(chosen)),
        X=X[rows].astype(np.float32),
        y=np.array([label if isinstance(label, int | float) else np.nan for label in labels[rows]], np.float64),
        labels=labels[rows],
    )


def state(processor: Processor, key: str) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in processor.pool.read(processor.router.slot(key)).items()}


@settings(max_examples=20, deadline=None, derandomize=True)
@given(cuts=st.lists(st.integers(0, 600), max_size=12))
def test_batches_may_be_cut_in_any_way(cuts: list[int]) -> None:
    labels = [None if i % 7 == 0 else float(sign) for i, sign in enumerate(SIGNS)]
    keys = [KEYS[i % 3] for i in range(600)]
    whole = Processor(spec())
    expected = whole.process(events(slice(0, 600), labels, keys))
    cut = Processor(spec())
    edges = sorted({0, 600, *cuts})
    parts = [cut.process(events(slice(a, b), labels, keys)) for a, b in itertools.pairwise(edges)]
    assert np.concatenate([part.scores for part in parts]).tobytes() == expected.scores.tobytes()
    assert [m for part in parts for m in part.mistakes] == expected.mistakes
    assert [n for part in parts for n in part.learned.tolist()] == expected.learned.tolist()
    for key in KEYS:
        assert state(cut, key) == state(whole, key)


def test_an_event_without_a_label_is_predicted_and_not_learned() -> None:
    processor = Processor(spec())
    processor.process(events(slice(0, 100), SIGNS.tolist()))
    before = state(processor, "")
    predictions = processor.process(events(slice(100, 200), [None] * 600))
    assert state(processor, "") == before
    assert np.isfinite(predictions.scores).all()
    assert predictions.mistakes == [None] * 100
    assert not len(predictions.wrong)
    assert predictions.learned.tolist() == [100] * 100


def test_predictions_speak_the_labels_language() -> None:
    words = ["ok" if sign < 0 else "fraud" for sign in SIGNS]
    coded = events(slice(0, 600), SIGNS.tolist())
    named = Events(**{**{f: getattr(coded, f) for f in ("rows", "ids", "keys", "times", "X", "y")}, "labels": words})
    result = Processor(spec(labels=("ok", "fraud"))).process(named)
    assert set(result.predictions) == {"ok", "fraud"}
    assert result.mistakes == [p != w for p, w in zip(result.predictions, words, strict=True)]


def test_wrong_are_the_mistakes_of_the_events_with_a_label() -> None:
    labels: list[Label | None] = [None if row % 3 == 0 else sign for row, sign in enumerate(SIGNS.tolist())]
    result = Processor(spec()).process(events(slice(0, 600), labels))
    assert result.mistakes[::3] == [None] * 200
    assert result.wrong.tolist() == [mistake for mistake in result.mistakes if mistake is not None]


def test_models_measure_themselves() -> None:
    processor = Processor(spec())
    result = processor.process(events(slice(0, 600), SIGNS.tolist()))
    slot = processor.router.slot("")
    assert processor.pool["learned"][slot] == 600
    assert processor.pool["mistakes"][slot] == sum(m is True for m in result.mistakes)
    assert processor.pool["label_counts"][slot].tolist() == [295, 305]


class TestClasses:
    names: Array = np.array(["low", "mid", "high"])[syn_three_classes()[1].astype(int)]

    def test_a_class_may_appear_at_any_time(self) -> None:
        labels: list[Label | None] = ["low" if i < 50 else str(name) for i, name in enumerate(self.names)]
        processor = Processor(spec(Task.MULTICLASS))
        result = processor.process(events(slice(0, 600), labels))
        assert result.predictions[0] is None
        assert result.mistakes[0] is True
        assert set(result.predictions[1:50]) == {"low"}
        assert processor.classes[0] == "low"
        assert sorted(map(str, processor.classes)) == ["high", "low", "mid"]
        assert {"mid", "high"} <= set(result.predictions[100:])
        assert np.isinf(result.scores[0]).all()

    def test_the_number_of_classes_is_bounded(self) -> None:
        processor = Processor(spec(Task.MULTICLASS, max_classes=2))
        result = processor.process(events(slice(0, 600), [str(name) for name in self.names]))
        assert len(processor.classes) == 2
        beyond = [m for m, name in zip(result.mistakes, self.names, strict=True) if name not in processor.classes]
        assert beyond
        assert set(beyond) == {None}

    def test_one_and_true_are_different_classes(self) -> None:
        processor = Processor(spec(Task.MULTICLASS))
        processor.process(events(slice(0, 3), [1, True, "1", *[None] * 597]))
        assert processor.classes == [1, True, "1"]
        assert [type(name) for name in processor.classes] == [int, bool, str]


def test_regression_is_measured_by_squared_error() -> None:
    target = syn_rows()[1]
    processor = Processor(spec(Task.REGRESSION))
    result = processor.process(events(slice(0, 600), target.tolist()))
    errors = result.scores[:, 0].astype(np.float64) - target
    assert processor.pool["squared_error"][0] == pytest.approx((errors**2).sum(), rel=1e-6)
    assert result.predictions == result.scores[:, 0].tolist()
    assert set(result.mistakes) == {None}


def test_released_keys_make_room_for_fresh_models() -> None:
    processor = Processor(spec())
    processor.process(events(slice(0, 60), SIGNS.tolist(), [KEYS[i % 3] for i in range(600)]))
    slot = processor.router.slot("green")
    processor.router.release(["green"])
    assert "green" not in processor.router
    assert processor.router.slot("violet") == slot
    assert not any(processor.pool["weights"][slot].ravel())
    with pytest.raises(KeyError):
        processor.router.release(["green"])
