"""Which model wrote a checkpoint: learner, every hyper-parameter, task, sizes, and checksums of what was drawn at random."""

import hashlib
import json
import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from dataclasses import fields as dataclass_fields
from typing import Any, get_args, get_type_hints

import numpy as np

from streamlearn.features.compiled import Array
from streamlearn.learners.protocol import Field
from streamlearn.processor import ModelSpec

Value = bool | int | float | str | None | list[bool | int | float | str | None]

_WITHOUT_EFFECT = frozenset({"max_classes"})  # bounds what is learned from now on, not what the state means


@dataclass(frozen=True, slots=True)
class Identity:
    """A model's description by dotted names, JSON values, and the fingerprint made of it."""

    description: Mapping[str, Value]
    fingerprint: str


def identify(spec: ModelSpec, shared: Mapping[str, Array]) -> Identity:
    """The identity of models of `spec` with these shared arrays."""
    description = describe(spec, shared)
    return Identity(description, fingerprint(description))


def describe(spec: ModelSpec, shared: Mapping[str, Array]) -> dict[str, Value]:
    """Everything that the meaning of a model's state depends on, by dotted name: `pipeline.learner.eta` and the like.

    Raises TypeError for a hyper-parameter that is not a JSON value.
    """
    fields = spec.pipeline.fields(spec.shape())
    return {
        **dict(_described(spec, "")),
        **{f"state.{name}": _fresh(field) for name, field in fields.items()},
        **{f"shared.{name}": _checksum(array) for name, array in shared.items()},
    }


def fingerprint(description: Mapping[str, Value]) -> str:
    """The first 128 bits of SHA-256 over the description as JSON with sorted names, in hexadecimal."""
    text = json.dumps(description, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def differences(written: Mapping[str, Value], configured: Mapping[str, Value]) -> list[str]:
    """One sentence part per name whose value differs, both sides named."""
    return [
        f"{name} is {_shown(written, name)} in the checkpoint and {_shown(configured, name)} in the configuration"
        for name in sorted(written.keys() | configured.keys())
        if _shown(written, name) != _shown(configured, name)
    ]


def _described(part: Any, prefix: str) -> Iterator[tuple[str, Value]]:
    if hasattr(part, "name"):
        yield f"{prefix}name", part.name
    hints = get_type_hints(type(part))
    for field in dataclass_fields(part):
        value = getattr(part, field.name)
        if field.name in _WITHOUT_EFFECT:
            continue
        if is_dataclass(value):
            yield from _described(value, f"{prefix}{field.name}.")
        else:
            is_real = float in (hints[field.name], *get_args(hints[field.name])) and isinstance(value, int)
            yield f"{prefix}{field.name}", _value(float(value) if is_real else value)


def _value(value: Any) -> Value:
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else repr(float(value))
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, np.dtype):
        return str(value.name)
    if isinstance(value, tuple | list):
        return [_value(element) for element in value]  # type: ignore[misc]  # elements are scalars
    raise TypeError(f"a hyper-parameter of type {type(value).__name__} has no description")


def _fresh(field: Field) -> str:
    """How an array starts: checkpoints leave out what a fresh model has anyway."""
    initial = field.initial
    return _checksum(initial.astype(field.dtype)) if isinstance(initial, np.ndarray) else f"{field.dtype.name} {float(initial)}"


def _checksum(array: Array) -> str:
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return f"{array.dtype.name}{list(array.shape)} {zlib.crc32(little.tobytes()):08x}"


def _shown(description: Mapping[str, Value], name: str) -> str:
    return json.dumps(description[name]) if name in description else "absent"
