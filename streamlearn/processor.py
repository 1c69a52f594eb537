"""The heart of the worker: a batch of events in, predictions out, models learned in between. No Kafka, no clock, no globals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from streamlearn.events.columns import Events, Label, Predictions
from streamlearn.features.compiled import Array
from streamlearn.learners.pipeline import Pipeline, add_errors, count_labels
from streamlearn.learners.protocol import Pool, Shape, Task
from streamlearn.routing import Router

DEFAULT_LABELS: tuple[Label, Label] = (-1, 1)


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """What a stream's models are: everything their state depends on besides the events."""

    pipeline: Pipeline
    task: Task
    dim: int
    dtype: np.dtype[np.floating]
    labels: tuple[Label, ...] = ()  # binary and ranking: (negative, positive); multi-class: classes known from the start
    max_classes: int = 1000  # an event of a further class is predicted and not learned

    def shape(self) -> Shape:
        if self.task is not Task.MULTICLASS:
            return Shape(self.dim, self.task, self.dtype)
        return Shape(self.dim, self.task, self.dtype, outputs=max(2, len(self.labels)), declared=len(self.labels))


class Processor:
    """All models of one partition.

    Its state is the pool's arrays, the keys of their slots and the classes in order of arrival. Splitting a stream into batches in any
    way gives bit-identical predictions and state.
    """

    def __init__(self, spec: ModelSpec, shared: Mapping[str, Array] | None = None, max_models: int | None = None) -> None:
        """shared: random maps made by another partition's processor of the same spec, to make them once per worker.

        max_models: models that the router's `trim` leaves in memory, None for all.
        """
        self.spec = spec
        self.pool = Pool(spec.pipeline, spec.shape(), shared=shared)
        self.router = Router(self.pool, max_models)
        self.classes: list[Label] = []
        self._class_index: dict[tuple[type, Label], int] = {}
        self.adopt_classes(spec.labels if spec.task is Task.MULTICLASS else ())

    def process(self, events: Events) -> Predictions:
        """Predict each event, then learn it, in order."""
        return self.learn(events, self.route(events))

    def route(self, events: Events) -> Array:
        """The slot of each event's model, int64 [n]; new keys get fresh models."""
        return self.router.slots(events.keys)

    def learn(self, events: Events, slots: Array) -> Predictions:
        """Predict and learn routed events."""
        y = self._class_labels(events.labels) if self.spec.task is Task.MULTICLASS else events.y
        scores = np.empty((len(slots), self.pool.shape.outputs), self.spec.dtype)
        self.spec.pipeline.step(self.pool, slots, events.X, y, scores)
        labelled = ~np.isnan(y)
        self.router.touch(slots[labelled])
        predictions, wrong = self._judge(scores, y)
        learned = self._measure(slots, y, labelled, scores, wrong)
        judged = labelled if self.spec.task in (Task.BINARY, Task.MULTICLASS) else np.zeros_like(labelled)
        return Predictions(
            scores=scores,
            predictions=predictions,
            mistakes=_where(judged, wrong),
            wrong=judged[:0] if wrong is None else wrong[judged],
            learned=learned,
            classes=tuple(self.classes),
        )

    def adopt_classes(self, classes: Sequence[Label]) -> None:
        """Number the classes of a multi-class stream as a checkpoint did. Those known already must be the first of them, in this order."""
        self.classes = list(classes)
        self._class_index = {(type(name), name): c for c, name in enumerate(self.classes)}
        self.pool.reserve(outputs=len(self.classes))

    def _measure(self, slots: Array, y: Array, labelled: Array, scores: Array, wrong: Array | None) -> Array:
        """Count events and mistakes in their models; returns how many events each model had learned before, int64 [n]."""
        pool, before = self.pool, np.empty(len(slots), np.int64)
        if wrong is None:
            add_errors(slots, y, scores, pool["learned"], pool["squared_error"], before)
        else:
            classes = self._label_index(y, labelled)
            count_labels(slots, classes, wrong, pool["learned"], pool["mistakes"], pool["label_counts"], before)
        return before

    def _class_labels(self, labels: Sequence[Label | None]) -> Array:
        y = np.array([self._class_of(label) for label in labels], np.float64)
        self.pool.reserve(outputs=len(self.classes))
        return y

    def _class_of(self, label: Label | None) -> float:
        if label is None:
            return np.nan
        name = (type(label), label)
        index = self._class_index.get(name)
        if index is None:
            if len(self.classes) >= self.spec.max_classes:
                return np.nan
            index = self._class_index[name] = len(self.classes)
            self.classes.append(label)
        return index

    def _label_index(self, y: Array, labelled: Array) -> Array:
        """int64 [n]: the class of each label, -1 where there is none; binary and ranking: 0 negative, 1 positive."""
        classes = y if self.spec.task is Task.MULTICLASS else (y > 0)
        return np.where(labelled, classes, -1).astype(np.int64)

    def _judge(self, scores: Array, y: Array) -> tuple[Sequence[Label | None], Array | None]:
        """Predictions in the labels' own words, and which are wrong (None for regression)."""
        if self.spec.task is Task.REGRESSION:
            return scores[:, 0].tolist(), None
        if self.spec.task is Task.MULTICLASS:
            best = scores.argmax(axis=1)
            known = np.isfinite(scores[np.arange(len(best)), best])
            names = [self.classes[c] if is_known else None for c, is_known in zip(best.tolist(), known.tolist(), strict=True)]
            return names, (best != y) | ~known
        above = scores[:, 0] >= 0
        if self.spec.task is Task.RANKING:
            return scores[:, 0].tolist(), above != (y > 0)
        negative, positive = self.spec.labels or DEFAULT_LABELS
        return [positive if is_positive else negative for is_positive in above.tolist()], above != (y > 0)


def _where(judged: Array, wrong: Array | None) -> list[bool | None]:
    if wrong is None or not judged.any():
        return [None] * len(judged)
    if judged.all():
        return cast(list[bool | None], wrong.tolist())
    return [mistaken if known else None for mistaken, known in zip(wrong.tolist(), judged.tolist(), strict=True)]
