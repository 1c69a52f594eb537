"""From the bytes of events to columns."""

import contextlib
import struct
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain, starmap
from operator import attrgetter
from typing import Any, cast

import msgspec
import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from streamlearn.events.columns import EventFormat, Events, Rejected, text
from streamlearn.events.fields import (
    EARLIEST,
    LATEST,
    MALFORMED,
    MAX_TEXT,
    Explainer,
    Reason,
    Roles,
    abridged,
    array_dim,
    event_type,
    fields_of,
)
from streamlearn.events.labels import Labels
from streamlearn.features.compiled import Array

Problem = tuple[int, Reason, str]  # position among the parsed events, reason, detail


class Decoder:
    """Decodes batches of one stream. What becomes of an event depends on its own bytes alone, never on its neighbours.

    Raises ValueError for a format that contradicts itself, naming the field.
    """

    def __init__(self, form: EventFormat, dtype: DTypeLike) -> None:
        """`dtype`: of the feature matrix, float32 or float64."""
        fields, roles = fields_of(form)
        kind = event_type(fields)
        self._form = form
        self._decode: Callable[[bytes], Any] = (
            msgspec.json.Decoder(kind).decode if form.encoding == "json" else msgspec.msgpack.Decoder(kind).decode
        )
        self._explain = Explainer(form, fields).explain
        self._features = _features(form, roles, np.dtype(dtype))
        self._ids = attrgetter(roles.id) if roles.id else None
        self._keys = attrgetter(roles.key) if roles.key else None
        self._times = attrgetter(roles.time) if roles.time else None
        self._published_labels = attrgetter(roles.label)
        self._labels = Labels(form)
        self.dim = self._features.dim

    def decode(self, values: Sequence[bytes | None], keys: Sequence[bytes | None], times: ArrayLike) -> tuple[Events, list[Rejected]]:
        """The good events of a batch as columns, and the rejected ones, both in partition order.

        `values`, `keys` and `times` (float64 [n], seconds since 1970) are those of the Kafka records.
        """
        rows, parsed, rejected = self._parse(values)
        if rejected:
            keys = [keys[row] for row in rows]
        problems: list[Problem] = []
        events = Events(
            rows=rows,
            ids=list(map(self._ids, parsed)) if self._ids else [None] * len(parsed),
            keys=self._keys_of(parsed, keys, problems),
            times=self._times_of(parsed, np.asarray(times, np.float64)[rows], problems),
            X=self._features_of(parsed, problems),
            **self._labels_of(parsed, problems),
        )
        if problems:
            first = {position: (reason, detail) for position, reason, detail in reversed(problems)}
            rejected += [Rejected(rows[position], *why) for position, why in first.items()]
            events = _without(events, first)
        return events, sorted(rejected)

    def _parse(self, values: Sequence[bytes | None]) -> tuple[Array, list[Any], list[Rejected]]:
        """The rows that are events, int64 [n], those events, and the others. All at once, one by one only where one of them is bad."""
        bodies = cast(Sequence[bytes], values)  # a None among them raises TypeError
        with contextlib.suppress(TypeError, *MALFORMED):
            if max(map(len, bodies), default=0) <= self._form.max_bytes:
                return np.arange(len(bodies)), list(map(self._decode, bodies)), []
        return self._parse_each(values)

    def _parse_each(self, values: Sequence[bytes | None]) -> tuple[Array, list[Any], list[Rejected]]:
        rows: list[int] = []
        parsed: list[Any] = []
        rejected: list[Rejected] = []
        decode, max_bytes = self._decode, self._form.max_bytes
        for row, value in enumerate(values):
            if not value:
                rejected.append(Rejected(row, Reason.EMPTY, "the record has no value"))
            elif len(value) > max_bytes:
                rejected.append(Rejected(row, Reason.OVERSIZED, f"{len(value)} bytes, more than max_bytes = {max_bytes}"))
            else:
                try:
                    parsed.append(decode(value))
                    rows.append(row)
                except MALFORMED as error:
                    rejected.append(Rejected(row, *self._explain(value, error)))
        return np.array(rows, np.int64), parsed, rejected

    def _keys_of(self, parsed: Sequence[Any], record_keys: Sequence[bytes | None], problems: list[Problem]) -> Sequence[str]:
        if self._keys:
            keys = [text(key) for key in map(self._keys, parsed)]
            problems += [(row, Reason.KEY, f"field `{self._form.key}` is an empty string") for row, key in enumerate(keys) if not key]
            return keys
        texts = {key: _record_key(key) for key in set(record_keys)}
        keys = [texts[key] for key in record_keys]
        if any(len(key) > MAX_TEXT for key in texts.values()):
            too_long = [(row, key) for row, key in enumerate(keys) if len(key) > MAX_TEXT]
            problems += [(row, Reason.KEY, f"record key {abridged(key)} is longer than {MAX_TEXT} characters") for row, key in too_long]
        return keys

    def _times_of(self, parsed: Sequence[Any], record_times: Array, problems: list[Problem]) -> Array:
        if not self._times:
            return record_times
        seconds = [time if type(time) is float else time.timestamp() for time in map(self._times, parsed)]
        times = np.array(seconds, np.float64)
        wrong = np.flatnonzero(~((times >= EARLIEST) & (times < LATEST)))
        problems += [(int(row), Reason.TIME, f"field `{self._form.time}` = {times[row]} is no time in seconds since 1970") for row in wrong]
        return times

    def _features_of(self, parsed: Sequence[Any], problems: list[Problem]) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):  # what the dtype cannot hold becomes infinite, and is rejected below
            X = self._features(parsed)
        finite = np.isfinite(X)
        for row in [] if finite.all() else np.flatnonzero(~finite.all(axis=1)).tolist():
            name = self._features.name(int(np.argmin(finite[row])))
            problems.append((row, Reason.FEATURES, f"{name} is not a number, infinite, or too large for {X.dtype}"))
        return X

    def _labels_of(self, parsed: Sequence[Any], problems: list[Problem]) -> dict[str, Any]:
        y, labels = self._labels.targets(list(map(self._published_labels, parsed)))
        for row, expected in self._labels.wrong(y, labels):
            problems.append((row, Reason.LABEL, f"field `{self._form.label}` = {abridged(labels[row])}: expected {expected}"))
        return {"y": y, "labels": labels}


def _record_key(key: bytes | None) -> str:
    """A record's key as text; binary keys, as of Kafka's own serializers of numbers, in hexadecimal."""
    if not key:
        return ""
    try:
        return key.decode()
    except UnicodeDecodeError:
        return f"0x{key.hex()}"


def _without(events: Events, dropped: Collection[int]) -> Events:
    keep = [row for row in range(len(events.rows)) if row not in dropped]
    return Events(
        rows=events.rows[keep],
        ids=[events.ids[row] for row in keep],
        keys=[events.keys[row] for row in keep],
        times=events.times[keep],
        X=events.X[keep],
        y=events.y[keep],
        labels=[events.labels[row] for row in keep],
    )


def _features(form: EventFormat, roles: Roles, dtype: np.dtype[Any]) -> "_ArrayFeatures | _NamedFeatures":
    if roles.array is None:
        return _NamedFeatures(form, roles, dtype)
    if roles.numbers or roles.categorical:
        raise ValueError(f"features are either the array {form.array!r} or the named fields, not both")
    return _ArrayFeatures(form, roles.array, dtype)


class _NamedFeatures:
    """The feature matrix [n, dim] from named fields: numeric, boolean, then one-hot or hashed categories."""

    def __init__(self, form: EventFormat, roles: Roles, dtype: np.dtype[Any]) -> None:
        self._names = (*form.numeric, *form.boolean)
        self._numbers = _columns(roles.numbers)
        self._pack = _packer(len(roles.numbers))
        self._categories: list[tuple[Callable[[Any], Any], int, Callable[[str], int]]] = []
        self._dtype = dtype
        self.dim = len(roles.numbers)
        for attribute, (name, coding) in zip(roles.categorical, (form.categorical or {}).items(), strict=True):
            width, index = _coding(name, coding)
            self._categories.append((attrgetter(attribute), self.dim, index))
            self.dim += width
        if self.dim == 0:
            raise ValueError("the format names no features: set numeric, boolean, categorical or array")

    def __call__(self, parsed: Sequence[Any]) -> Array:
        width = len(self._names)
        numbers = np.frombuffer(b"".join(starmap(self._pack, map(self._numbers, parsed))), "<f8").reshape(len(parsed), width)
        if not self._categories:
            return numbers.astype(self._dtype)
        X = np.zeros((len(parsed), self.dim), self._dtype)
        X[:, :width] = numbers
        for category, offset, index in self._categories:
            columns = np.array([index(text(value)) for value in map(category, parsed)], np.int64)
            known = np.flatnonzero(columns >= 0)
            X[known, offset + columns[known]] = 1.0
        return X

    def name(self, column: int) -> str:
        return f"field `{self._names[column]}`"


def _packer(count: int) -> Callable[..., bytes]:
    """Numbers to the bytes of float64, in little more than half of the time that numpy takes for them."""
    return struct.Struct(f"<{count}d").pack


def _columns(attributes: tuple[str, ...]) -> Callable[[Any], tuple[float, ...]]:
    if len(attributes) > 1:
        return attrgetter(*attributes)
    single = [attrgetter(attribute) for attribute in attributes]
    return lambda event: tuple(get(event) for get in single)


def _coding(name: str, coding: tuple[str, ...] | int) -> tuple[int, Callable[[str], int]]:
    """Width of a categorical feature and the column of a value in it, -1 for none."""
    if isinstance(coding, int):
        if coding < 1:
            raise ValueError(f"categorical field {name!r}: the number of hash buckets must be 1 or more, not {coding}")
        return coding, lambda value: zlib.crc32(value.encode()) % coding  # the same on every machine, unlike Python's hash
    index: Mapping[str, int] = {value: column for column, value in enumerate(coding)}
    if not index or len(index) < len(coding):
        raise ValueError(f"categorical field {name!r}: the vocabulary must have one or more values, all different; it is {list(coding)}")
    return len(index), lambda value: index.get(value, -1)


class _ArrayFeatures:
    """The feature matrix [n, dim] from one field: lists, sparse maps, raw float32, or a mixture of them."""

    def __init__(self, form: EventFormat, attribute: str, dtype: np.dtype[Any]) -> None:
        self._name = form.array
        self._get = attrgetter(attribute)
        self._dtype = dtype
        self.dim = array_dim(form)
        self._pack = _packer(self.dim)

    def __call__(self, parsed: Sequence[Any]) -> Array:
        arrays = list(map(self._get, parsed))
        kinds = set(map(type, arrays))
        if len(kinds) == 1:
            return self._matrix(kinds.pop(), arrays)
        X = np.empty((len(arrays), self.dim), self._dtype)
        for kind in kinds:
            rows = [row for row, array in enumerate(arrays) if type(array) is kind]
            X[rows] = self._matrix(kind, [arrays[row] for row in rows])
        return X

    def _matrix(self, kind: type, arrays: Sequence[Any]) -> Array:
        shape = (len(arrays), self.dim)
        if kind is bytes:
            return np.frombuffer(b"".join(arrays), "<f4").reshape(shape).astype(self._dtype)
        if kind is list:
            return np.frombuffer(b"".join(starmap(self._pack, arrays)), "<f8").reshape(shape).astype(self._dtype)
        lengths = np.fromiter(map(len, arrays), np.int64, len(arrays))
        rows, count = np.repeat(np.arange(len(arrays)), lengths), int(lengths.sum())
        X = np.zeros(shape, self._dtype)
        X[rows, np.fromiter(chain.from_iterable(arrays), np.int64, count)] = np.fromiter(_values(arrays), np.float64, count)
        return X

    def name(self, column: int) -> str:
        return f"field `{self._name}`[{column}]"


def _values(maps: Sequence[Mapping[int, float]]) -> Iterator[float]:
    return chain.from_iterable(mapping.values() for mapping in maps)
