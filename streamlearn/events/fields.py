"""Which fields an event must have, the msgspec type of each, and what to say when one of them is wrong."""

import datetime
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from streamlearn.events.columns import EventFormat

MAX_TEXT = 512  # characters of an id, a key or a categorical value
MAX_LABEL = 256  # characters of a class name
LATEST = 253_402_300_800.0  # seconds from 1970 to the year 10000; milliseconds of any date after 1978 lie beyond it
EARLIEST = -62_135_596_800.0  # seconds from 1970 back to the year 1

_Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_Text = Annotated[str, Meta(max_length=MAX_TEXT)] | _Int64 | bool
_Seconds = Annotated[float, Meta(ge=EARLIEST, lt=LATEST)]
_Instant = Annotated[datetime.datetime, Meta(tz=True)]
_Label = bool | _Int64 | float | Annotated[str, Meta(max_length=MAX_LABEL)] | None
_Flag = bool | Annotated[int, Meta(ge=0, le=1)]

MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are not an event: wrong syntax or type, invalid UTF-8, nesting deeper than the stack."""


class Reason(StrEnum):
    """Why an event was rejected; the whole set, as it is used as a metric label."""

    EMPTY = "empty"  # no value (a tombstone) or no bytes
    OVERSIZED = "oversized"  # longer than `max_bytes`
    MALFORMED = "malformed"  # not one JSON or MessagePack object
    ID = "id"
    KEY = "key"
    TIME = "time"
    FEATURES = "features"
    LABEL = "label"


class Field(NamedTuple):
    """One field of an event."""

    name: str  # as published
    attribute: str  # of the struct
    reason: Reason  # when it is wrong
    type: Any  # what msgspec decodes it to
    required: bool


class Roles(NamedTuple):
    """The struct attributes behind each role; None or empty: the format does not name the role."""

    id: str | None
    key: str | None
    time: str | None
    label: str
    numbers: tuple[str, ...]  # numeric, then boolean
    categorical: tuple[str, ...]
    array: str | None


def fields_of(form: EventFormat) -> tuple[tuple[Field, ...], Roles]:
    """The fields that a format names, each once. An id, a key and a categorical feature may share a field.

    Raises ValueError naming a field that is given two roles of different types.
    """
    fields: dict[str, Field] = {}

    def attribute(name: str, reason: Reason, kind: Any, required: bool = True) -> str:
        known = fields.get(name)
        if known is None:
            fields[name] = Field(name, f"f{len(fields)}", reason, kind, required)
        elif kind is not known.type or kind is not _Text:
            raise ValueError(f"field {name!r} is used as {known.reason} and as {reason}; publish it as two fields")
        elif required and not known.required:
            fields[name] = known._replace(required=True, reason=reason)
        return fields[name].attribute

    roles = Roles(
        key=attribute(form.key, Reason.KEY, _Text) if form.key else None,
        id=attribute(form.id, Reason.ID, _Text, required=False) if form.id else None,
        time=attribute(form.time, Reason.TIME, _Seconds | _Instant) if form.time else None,
        numbers=tuple(attribute(name, Reason.FEATURES, float) for name in form.numeric)
        + tuple(attribute(name, Reason.FEATURES, _Flag) for name in form.boolean),
        categorical=tuple(attribute(name, Reason.FEATURES, _Text) for name in form.categorical or ()),
        array=attribute(form.array, Reason.FEATURES, _array_type(form)) if form.array else None,
        label=attribute(form.label, Reason.LABEL, float if form.task == "regression" else _Label, required=False),
    )
    return tuple(fields.values()), roles


def array_dim(form: EventFormat) -> int:
    """Length of the array form. Raises ValueError where the format does not give it."""
    if form.dim is None or form.dim < 1:
        raise ValueError(f"array = {form.array!r} needs `dim`, its number of features, of 1 or more; it is {form.dim}")
    return form.dim


def _array_type(form: EventFormat) -> Any:
    dim = array_dim(form)
    dense = Annotated[list[float], Meta(min_length=dim, max_length=dim)]
    sparse = dict[Annotated[int, Meta(ge=0, lt=dim)], float]
    if form.encoding == "json":
        return dense | sparse
    return dense | sparse | Annotated[bytes, Meta(min_length=4 * dim, max_length=4 * dim)]


def event_type(fields: Sequence[Field]) -> type[msgspec.Struct]:
    """The struct that a whole event is decoded to; fields that it does not name are skipped.

    Its values are numbers, texts and flat containers, so the cyclic garbage collector need not look at it. Raises
    ValueError for field names with quotes, backslashes or control characters.
    """
    required = [(field.attribute, field.type) for field in fields if field.required]
    optional = [(field.attribute, field.type | None, None) for field in fields if not field.required]
    rename = {field.attribute: field.name for field in fields}
    return msgspec.defstruct("Event", [*required, *optional], rename=rename, gc=False)


class Explainer:
    """Says what is wrong with an event, field by field: slow, and only for events that the typed decoder refused."""

    def __init__(self, form: EventFormat, fields: Sequence[Field]) -> None:
        decoder = msgspec.json.Decoder if form.encoding == "json" else msgspec.msgpack.Decoder
        self._split = decoder(dict[str, msgspec.Raw]).decode
        self._fields = [(field, decoder(field.type if field.required else field.type | None).decode) for field in fields]

    def explain(self, value: bytes, error: Exception) -> tuple[Reason, str]:
        """The reason and a sentence for people. `error` is what the typed decoder raised."""
        try:
            event = self._split(value)
        except MALFORMED as problem:
            return Reason.MALFORMED, str(problem)
        for field, decode in self._fields:
            raw = event.get(field.name)
            if raw is None:
                if field.required:
                    return field.reason, f"field `{field.name}` is missing"
                continue
            try:
                decode(raw)
            except MALFORMED as problem:
                return field.reason, f"field `{field.name}` = {abridged(bytes(raw))}: {problem}"
        return Reason.MALFORMED, str(error)


def abridged(value: object, length: int = 60) -> str:
    """A value as it may stand in a message: short, and printable whatever it is."""
    if isinstance(value, bytes):
        text = value[:length].decode("utf-8", "backslashreplace")
        is_cut = len(value) > length
    else:
        full = str(value)
        text, is_cut = full[:length], len(full) > length
    printable = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return printable + ("..." if is_cut else "")
