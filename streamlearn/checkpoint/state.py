"""Models as array tables and payloads: raw little-endian arrays, back to back, without what a fresh model has anyway."""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from streamlearn.checkpoint.codec import ArrayEntry
from streamlearn.checkpoint.errors import CheckpointError
from streamlearn.features.compiled import Array
from streamlearn.learners.protocol import Field, Pool

_BLOCK_BYTES = 4 << 20  # of state that is gathered at a time
_DTYPES = {np.dtype(f"<{code}").str: np.dtype(f"<{code}") for code in ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")}


def pack(pool: Pool, slots: Sequence[int] | Array) -> Iterator[tuple[tuple[ArrayEntry, ...], bytes]]:
    """The array table and payload of the models in these slots, in this order.

    Every axis of an array ends at the last entry whose bits differ from a fresh model's; `Pool.write` restores the rest. That
    keeps room that the pool reserved for others, or that a budget has not used yet, out of the checkpoint.
    """
    slots = np.asarray(slots, np.int64)
    size = max(1, pool.nbytes // max(1, pool.slots))
    count = max(1, _BLOCK_BYTES // size)
    for start in range(0, len(slots), count):
        yield from _pack_block(pool, slots[start : start + count])


def unpack(table: Sequence[ArrayEntry], payload: bytes | memoryview) -> dict[str, Array]:
    """The arrays of a payload, as read-only views. Raises CheckpointError when table and payload do not fit."""
    arrays: dict[str, Array] = {}
    offset = 0
    for name, code, shape in table:
        dtype = _DTYPES.get(code)
        if dtype is None or name in arrays:
            raise CheckpointError(f"array {name!r} of dtype {code!r} is {'unknown' if dtype is None else 'there twice'}")
        count = math.prod(shape)
        if count * dtype.itemsize > len(payload) - offset or (count == 0 and any(shape)):
            raise CheckpointError(f"array {name!r} of shape {list(shape)} does not fit a state of {len(payload)} bytes")
        arrays[name] = np.frombuffer(payload, dtype, count, offset).reshape(shape).astype(dtype.newbyteorder("="), copy=False)
        offset += count * dtype.itemsize
    if offset != len(payload):
        raise CheckpointError(f"the arrays take {offset} bytes of a state of {len(payload)} bytes")
    return arrays


def write(pool: Pool, slot: int, arrays: Mapping[str, Array]) -> None:
    """Replace the model in `slot`, growing the pool for them. Raises CheckpointError when they are not this learner's."""
    try:
        pool.make_room(arrays)
        pool.write(slot, arrays)
    except ValueError as error:
        raise CheckpointError(str(error)) from error


def _pack_block(pool: Pool, slots: Array) -> Iterator[tuple[tuple[ArrayEntry, ...], bytes]]:
    columns = [_Column(name, field, pool[name][slots]) for name, field in pool.fields.items()]
    for row in range(len(slots)):
        parts = [column.part(row) for column in columns]
        yield tuple([entry for entry, _ in parts]), b"".join([piece for _, piece in parts])


class _Column:
    """One array of a block of models [n, ...], its entries in the array table made once per shape."""

    def __init__(self, name: str, field: Field, array: Array) -> None:
        self._array = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        self._name, self._code = name, self._array.dtype.newbyteorder("<").str
        self._shapes = [tuple(extent) for extent in _extents(array, field).tolist()]
        self._entries: dict[tuple[int, ...], tuple[ArrayEntry, tuple[slice, ...]]] = {}

    def part(self, row: int) -> tuple[ArrayEntry, bytes]:
        shape = self._shapes[row]
        known = self._entries.get(shape)
        if known is None:
            known = self._entries[shape] = (self._name, self._code, shape), tuple(slice(length) for length in shape)
        entry, corner = known
        return entry, self._array[row][corner].tobytes()


def _extents(array: Array, field: Field) -> Array:
    """int64 [n, axes]: where each axis ends, all 0 where nothing differs from a fresh model."""
    fresh = np.empty((1, *field.shape), field.dtype)
    fresh[:] = field.initial
    differs = _bits(array) != _bits(fresh)
    axes = range(1, array.ndim)
    ends = np.zeros((len(array), array.ndim - 1), np.int64)
    for axis in axes if array.size else ():
        used = differs.any(axis=tuple(other for other in axes if other != axis))
        ends[:, axis - 1] = np.where(used.any(axis=1), used.shape[1] - used[:, ::-1].argmax(axis=1), 0)
    return ends


def _bits(array: Array) -> Array:
    return array.view(f"u{array.itemsize}")
