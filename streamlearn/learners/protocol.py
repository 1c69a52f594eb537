"""What a learner is: hyper-parameters in a frozen dataclass, state in a pool of arrays, one method that predicts and learns in order."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import gt
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from streamlearn.features.compiled import Array
from streamlearn.features.memory import aligned, zeros

_GROWTH = 4  # of the room for models: copying costs a pass over memory, zeroed pages that nobody has touched cost nothing


class Task(StrEnum):
    """What a stream's labels mean and what a score is."""

    BINARY = "binary"  # label -1 or +1; one score, its sign is the prediction (0 counts as +1)
    MULTICLASS = "multiclass"  # label is a class index; a score per class, -inf for a class this model has not met
    REGRESSION = "regression"  # label is a number; one score, which is the prediction
    RANKING = "ranking"  # label -1 or +1; one score, higher ranks above lower; judged by AUC


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes that a learner's arrays depend on."""

    dim: int  # features per event
    task: Task
    dtype: np.dtype[np.floating]  # of all real-valued state
    outputs: int = 1  # scores per event: 1, or the number of classes there is room for
    declared: int = 0  # classes known from the start; others join when their first label arrives
    support: int = 8  # support vectors there is room for, in learners without a budget


class Field(NamedTuple):
    """One array of a model's state, without the leading slot axis."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    initial: float | Array = 0


class Pool:
    """All models of one partition: arrays with a leading slot axis, and the arrays that every slot shares (random maps).

    Axes only ever grow (slots, outputs, support); growing never changes a model. `shared` may be replaced by draws
    passed in.
    """

    def __init__(self, learner: "Learner", shape: Shape, slots: int = 0, shared: Mapping[str, Array] | None = None) -> None:
        self.learner = learner
        self.shape = shape
        self.shared = {name: aligned(array) for name, array in learner.shared(shape).items()} if shared is None else dict(shared)
        self.slots = 0
        self._fields = dict(learner.fields(shape))
        self._arrays = {name: _allocate(field, 0) for name, field in self._fields.items()}
        self.add(slots)

    def __getitem__(self, name: str) -> Array:
        """The array `name` with its leading slot axis. It is replaced when the pool grows: do not keep it."""
        return self._arrays[name]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._fields)

    @property
    def fields(self) -> Mapping[str, Field]:
        return self._fields

    @property
    def nbytes(self) -> int:
        """Bytes of the models, without the room for more, whose pages are not there before they are used."""
        return sum(array[: self.slots].nbytes for array in self._arrays.values())

    def add(self, slots: int = 1) -> int:
        """Add fresh models and return the first one's slot."""
        first, self.slots = self.slots, self.slots + slots
        if self.slots > self._capacity:
            self._grow(self._fields, max(self.slots, _GROWTH * self._capacity))
        return first

    def reset(self, slot: int) -> None:
        """Make `slot` a fresh model."""
        for name, field in self._fields.items():
            self._arrays[name][slot] = field.initial

    def reserve(self, *, outputs: int = 0, support: int = 0) -> None:
        """Make room for this many outputs and support vectors, at least doubling an axis that is too short."""
        shape = replace(
            self.shape,
            outputs=outputs if outputs > self.shape.outputs else self.shape.outputs,
            support=max(support, 2 * self.shape.support) if support > self.shape.support else self.shape.support,
        )
        if shape != self.shape:
            self.shape = shape
            self._grow(dict(self.learner.fields(shape)), self._capacity)

    def make_room(self, arrays: Mapping[str, Array]) -> None:
        """Reserve the support vectors that `write` needs for these arrays of one model; lengths of axes are linear in their number."""
        short = [name for name, field in self._fields.items() if name in arrays and any(map(gt, arrays[name].shape, field.shape))]
        if not short:
            return
        larger = self.learner.fields(replace(self.shape, support=self.shape.support + 1))
        growth = [
            -(-(wanted - length) // (more - length))
            for name in short
            for length, more, wanted in zip(self._fields[name].shape, larger[name].shape, arrays[name].shape, strict=False)
            if more > length
        ]
        self.reserve(support=self.shape.support + max(growth, default=0))

    def read(self, slot: int) -> dict[str, Array]:
        """A copy of one model's arrays."""
        return {name: array[slot].copy() for name, array in self._arrays.items()}

    def write(self, slot: int, arrays: Mapping[str, Array]) -> None:
        """Replace one model by arrays from `read`, of this shape or a smaller one.

        Raises ValueError naming the array that is missing, unknown, of another dtype or too large.
        """
        if set(arrays) != set(self._fields):
            raise ValueError(f"state has arrays {sorted(arrays)}, {self.learner.name} needs {sorted(self._fields)}")
        for name, value in arrays.items():
            room = self._arrays[name][slot]
            if value.dtype != room.dtype or value.ndim != room.ndim or any(a > b for a, b in zip(value.shape, room.shape, strict=True)):
                raise ValueError(f"array {name} is {value.dtype}{value.shape}, there is room for {room.dtype}{room.shape}")
        self.reset(slot)
        for name, value in arrays.items():
            self._arrays[name][slot : slot + 1][_corner((1, *value.shape))] = value

    @property
    def _capacity(self) -> int:
        return len(next(iter(self._arrays.values())))

    def _grow(self, fields: dict[str, Field], capacity: int) -> None:
        for name, field in fields.items():
            old, new = self._arrays[name], _allocate(field, capacity)
            new[_corner(old.shape)] = old
            self._arrays[name] = new
        self._fields = fields


def _allocate(field: Field, slots: int) -> Array:
    array = zeros((slots, *field.shape), field.dtype)
    if np.ndim(field.initial) or field.initial:  # otherwise growing costs no pass over memory
        array[:] = field.initial
    return array


def _corner(shape: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(length) for length in shape)


class Learner(Protocol):
    """A frozen dataclass of hyper-parameters that also knows its algorithm.

    `fields` and `shared` are pure functions of (hyper-parameters, shape). `step` handles the events of a batch one after the other:
    write the scores of row i, then, unless its label is NaN, learn it. A NaN label leaves every array of the pool as it
    was.
    """

    name: ClassVar[str]
    tasks: ClassVar[frozenset[Task]]

    def fields(self, shape: Shape) -> Mapping[str, Field]:
        """The arrays of one model."""

    def shared(self, shape: Shape) -> Mapping[str, Array]:
        """The arrays that all models share and that are made again from the hyper-parameters, never stored."""

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        """Predict each row, then learn it.

        slots int64 [n], the model of each row; X [n, dim] of the pool's dtype; y float64 [n], NaN where there is no
        label;
        scores [n, outputs] of the pool's dtype, written.
        """
