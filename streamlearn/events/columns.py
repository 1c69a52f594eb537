"""Events and predictions as columns: what decoders make, processors work on and encoders write."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from streamlearn.features.compiled import Array

Label = bool | int | float | str


@dataclass(frozen=True, kw_only=True)
class EventFormat:
    """How a stream's events are written, and which of their fields mean what.

    Features are either the named fields, in the order numeric, boolean, categorical, or one field `array` that holds a list of `dim`
    numbers, a sparse map from index (0 .. dim-1; a string in JSON, an integer in MessagePack) to value, or, in MessagePack, the raw
    little-endian float32 numbers.
    A categorical field maps to its vocabulary (one-hot; an unknown value is all zeros) or to a number of hash buckets.
    """

    encoding: Literal["json", "msgpack"] = "json"
    task: Literal["binary", "multiclass", "regression", "ranking"] = "binary"
    id: str | None = None  # field of the event's id; None: no id
    key: str | None = None  # field whose value selects the model; None: the key of the Kafka record, one model for all where it has none
    time: str | None = None  # field with the event time, seconds since 1970 or an RFC 3339 string; None: the record's timestamp
    label: str = "label"  # missing or null: predict only
    labels: tuple[Label, ...] = ()  # binary and ranking: (negative, positive); multiclass: the classes known from the start
    numeric: tuple[str, ...] = ()
    boolean: tuple[str, ...] = ()
    categorical: Mapping[str, tuple[str, ...] | int] | None = None
    array: str | None = None
    dim: int | None = None  # length of `array`
    max_bytes: int = 1_000_000  # a larger event goes to the dead letters undecoded


@dataclass(frozen=True, slots=True)
class Events:
    """The decodable events of a batch, as columns of equal length n, in partition order."""

    rows: Array  # int64 [n]: index of each event in the batch it was decoded from
    ids: Sequence[str | int | None]
    keys: Sequence[str]  # which model
    times: Array  # float64 [n]: event time, seconds since 1970
    X: Array  # [n, dim] of the model's dtype, finite
    y: Array  # float64 [n]: -1 / +1 (binary, ranking) or target (regression), NaN where there is no label; unused for multiclass
    labels: Sequence[Label | None]  # as published; multiclass models number the classes themselves


class Rejected(NamedTuple):
    """An event that could not be decoded."""

    row: int  # index in the batch
    reason: str  # one of a small fixed set, used as a metric label
    detail: str  # for people: names the field, the value and what was expected


@dataclass(frozen=True, slots=True)
class Predictions:
    """What the models said about the events of one batch, as columns of equal length n."""

    scores: Array  # [n, outputs]; one output for all tasks but multiclass, which has two or more
    predictions: Sequence[Label | None]  # in the label's own vocabulary; None where no class is known yet
    mistakes: Sequence[bool | None]  # None where there is no label, and for regression and ranking
    wrong: Array  # bool [mistakes that are not None], those in order
    learned: Array  # int64 [n]: events the model had learned before this one
    classes: Sequence[Label]  # multiclass: the class of each score column


def text(value: Label) -> str:
    """How a key, a category or a class is written as text: true and false as in JSON."""
    if type(value) is str:
        return value
    return str(value).lower() if type(value) is bool else str(value)
