"""The heart of the worker: a batch of events in, predictions out, models learned in between. No Kafka, no clock, no globals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from streamlearn.events.columns import Events, Label, Predictions
from streamlearn.features.compiled import Array
from streamlearn.learners.pipeline import Pipeline
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

    def __init__(self, spec: ModelSpec, shared: Mapping[str, Array] | None = None) -> None:
        """`shared`: random maps made by another partition's processor of the same spec, to make them once per worker."""
        self.spec = spec
        self.pool = Pool(spec.pipeline, spec.shape(), shared=shared)
        self.router = Router(self.pool)
        self.classes: list[Label] = list(spec.labels) if spec.task is Task.MULTICLASS else []
        self._class_index: dict[tuple[type, Label], int] = {(type(name), name): c for c, name in enumerate(self.classes)}

    def process(self, events: Events) -> Predictions:
        """Predict each event, then learn it, in order."""
        slots = self.router.slots(events.keys)
        y = self._class_labels(events.labels) if self.spec.task is Task.MULTICLASS else events.y
        learned = self.spec.pipeline.count(self.pool, slots, y)
        scores = np.empty((len(slots), self.pool.shape.outputs), self.spec.dtype)
        self.spec.pipeline.step(self.pool, slots, events.X, y, scores)
        predictions, wrong = self._judge(scores, y)
        return Predictions(
            scores=scores,
            predictions=predictions,
            mistakes=_where_labelled(wrong, y),
            learned=learned,
            classes=tuple(self.classes),
        )

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

    def _judge(self, scores: Array, y: Array) -> tuple[Sequence[Label | None], Array | None]:
        """Predictions in the labels' own words, and which are mistakes (where the task has mistakes)."""
        if self.spec.task is Task.MULTICLASS:
            best = scores.argmax(axis=1)
            known = np.isfinite(scores[np.arange(len(best)), best])
            names = [self.classes[c] if is_known else None for c, is_known in zip(best.tolist(), known.tolist(), strict=True)]
            return names, (best != y) | ~known
        if self.spec.task is Task.BINARY:
            negative, positive = self.spec.labels or DEFAULT_LABELS
            above = scores[:, 0] >= 0
            return [positive if is_positive else negative for is_positive in above.tolist()], above != (y > 0)
        return scores[:, 0].tolist(), None


def _where_labelled(wrong: Array | None, y: Array) -> list[bool | None]:
    if wrong is None:
        return [None] * len(y)
    return [None if missing else mistaken for mistaken, missing in zip(wrong.tolist(), np.isnan(y).tolist(), strict=True)]
