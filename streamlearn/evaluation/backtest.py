"""A stream learned from a file, without Kafka, by the very processor that the worker runs: predict each event, then learn it."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from streamlearn.events.columns import Events, Label, Predictions
from streamlearn.events.decode import Decoder
from streamlearn.events.encode import event_encoder
from streamlearn.events.files import EventFile
from streamlearn.features.compiled import Array
from streamlearn.learners.protocol import Task
from streamlearn.processor import ModelSpec, Processor
from streamlearn.quality import auc
from streamlearn.warm import learn_example

BATCH = 2000


@dataclass(frozen=True)
class Measures:
    """What one pass over a stream came to. Only what the task has is not None."""

    events: int
    labelled: int
    seconds: float  # in the processor, decoding excluded
    model_bytes: int
    models: int
    mistakes: int | None = None
    mean_squared_loss: float | None = None
    mean_absolute_loss: float | None = None
    auc: float | None = None
    trivial: float | None = None  # mistakes of the majority class, mean squared loss of the mean, AUC 0.5
    support_vectors: int | None = None  # of all models, in learners that store any
    wrong: Array | None = None  # bool or float64 [labelled]: mistake or squared loss of each event, for curves

    @property
    def headline(self) -> float:
        """The task's main figure: mistakes, mean squared loss or AUC."""
        figures = (self.mistakes, self.mean_squared_loss, self.auc)
        return float(next(figure for figure in figures if figure is not None))


def backtest_arrays(spec: ModelSpec, X: Array, labels: Array, order: Array | None = None) -> Measures:
    """One pass of one model over rows (X [n, dim], labels [n]) in an order. Multi-class labels are class names."""
    rows = np.arange(len(X)) if order is None else order
    return measure(spec, (_columns(spec, X[chunk], labels[chunk]) for chunk in _chunks(rows)))


def backtest_file(
    spec: ModelSpec, decoder: Decoder, encoding: str, path: Path, on_bytes: Callable[[int], object] = lambda _: None
) -> Measures:
    """One pass over the events of a file as a worker would see them, encoded, decoded and routed by key. Raises FileError.

    on_bytes is told the position in the file, for a progress bar.
    """
    encode = event_encoder("msgpack" if encoding == "msgpack" else "json")

    def batches() -> Iterator[Events]:
        with EventFile(path) as file:
            values: list[bytes] = []
            for event in file:
                values.append(encode(event))
                if len(values) == BATCH:
                    yield _decode(decoder, values)
                    on_bytes(file.position)
                    values = []
            if values:
                yield _decode(decoder, values)

    return measure(spec, batches())


def measure(spec: ModelSpec, batches: Iterator[Events]) -> Measures:
    """Process batches of events and measure the predictions. Kernels are compiled before the clock starts."""
    learn_example(Processor(spec))
    processor = Processor(spec)
    seconds = 0.0
    tally = _TALLIES[spec.task]()
    events = 0
    for batch in batches:
        started = time.perf_counter()
        predictions = processor.process(batch)
        seconds += time.perf_counter() - started
        events += len(batch.rows)
        tally.add(batch, predictions)
    pool = processor.pool
    support = int(pool["size"].sum()) if "support" in pool.names and "size" in pool.names else None
    return replace(tally.measures(events, seconds, processor), support_vectors=support)


class _Mistakes:
    """Classification: mistakes, against always predicting the most frequent label."""

    def __init__(self) -> None:
        self._wrong: list[bool] = []
        self._labels: Counter[Label] = Counter()

    def add(self, events: Events, predictions: Predictions) -> None:
        self._wrong += predictions.wrong.tolist()
        self._labels.update(label for label in events.labels if label is not None)

    def measures(self, events: int, seconds: float, processor: Processor) -> Measures:
        labelled = len(self._wrong)
        majority = max(self._labels.values(), default=0)
        wrong = np.array(self._wrong, bool)
        return Measures(
            events, labelled, seconds, processor.pool.nbytes, len(processor.router),
            mistakes=int(wrong.sum()), trivial=labelled - majority, wrong=wrong,
        )  # fmt: skip


class _Losses:
    """Regression: squared and absolute error, against the mean of the targets."""

    def __init__(self) -> None:
        self._errors: list[Array] = []
        self._targets: list[Array] = []

    def add(self, events: Events, predictions: Predictions) -> None:
        labelled = ~np.isnan(events.y)
        self._errors.append(predictions.scores[labelled, 0].astype(np.float64) - events.y[labelled])
        self._targets.append(events.y[labelled])

    def measures(self, events: int, seconds: float, processor: Processor) -> Measures:
        errors, targets = np.concatenate([*self._errors, np.empty(0)]), np.concatenate([*self._targets, np.empty(0)])
        squared = errors**2
        return Measures(
            events, len(errors), seconds, processor.pool.nbytes, len(processor.router),
            mean_squared_loss=float(np.mean(squared)) if len(errors) else 0.0,
            mean_absolute_loss=float(np.mean(np.abs(errors))) if len(errors) else 0.0,
            trivial=float(np.var(targets)) if len(errors) else 0.0, wrong=squared,
        )  # fmt: skip


class _Ranking:
    """Ranking: AUC of the scores given before learning, over the whole pass."""

    def __init__(self) -> None:
        self._scores: list[Array] = []
        self._labels: list[Array] = []

    def add(self, events: Events, predictions: Predictions) -> None:
        labelled = ~np.isnan(events.y)
        self._scores.append(predictions.scores[labelled, 0].astype(np.float64))
        self._labels.append(events.y[labelled])

    def measures(self, events: int, seconds: float, processor: Processor) -> Measures:
        scores, labels = np.concatenate([*self._scores, np.empty(0)]), np.concatenate([*self._labels, np.empty(0)])
        return Measures(
            events, len(labels), seconds, processor.pool.nbytes, len(processor.router),
            auc=auc(scores, labels) if len(set(labels.tolist())) == 2 else 0.5, trivial=0.5,
        )  # fmt: skip


_TALLIES: dict[Task, type[_Mistakes] | type[_Losses] | type[_Ranking]] = {
    Task.BINARY: _Mistakes,
    Task.MULTICLASS: _Mistakes,
    Task.REGRESSION: _Losses,
    Task.RANKING: _Ranking,
}


def _chunks(rows: Array) -> Iterator[Array]:
    return (rows[start : start + BATCH] for start in range(0, len(rows), BATCH))


def _columns(spec: ModelSpec, X: Array, labels: Array) -> Events:
    count = len(X)
    numeric = np.zeros(count) if spec.task is Task.MULTICLASS else labels.astype(np.float64)
    return Events(
        rows=np.arange(count),
        ids=[None] * count,
        keys=[""] * count,
        times=np.zeros(count),
        X=np.ascontiguousarray(X, spec.dtype),
        y=numeric,
        labels=labels.tolist(),
    )


def _decode(decoder: Decoder, values: Sequence[bytes]) -> Events:
    events, _ = decoder.decode(values, [None] * len(values), [0.0] * len(values))
    return events
