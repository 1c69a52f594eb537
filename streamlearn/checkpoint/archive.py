"""Models as a file: checkpoint records one after the other. docs/checkpoint-format.md has every byte."""

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

from streamlearn.checkpoint.codec import LARGEST_LIMIT, Record
from streamlearn.checkpoint.errors import CheckpointError, MismatchError
from streamlearn.checkpoint.identity import differences, identify
from streamlearn.checkpoint.marker import Marker
from streamlearn.checkpoint.restore import Restorer
from streamlearn.checkpoint.snapshot import Checkpointer
from streamlearn.checkpoint.state import pack, unpack, write
from streamlearn.features.compiled import Array
from streamlearn.processor import ModelSpec, Processor

MAGIC = b"\x89SLA\x01\x00\x00\x00"  # the fifth byte is the format
_FRAME = struct.Struct("<II")  # bytes of key and of value; both 0 at the end
_BLOCK = 256  # models copied at a time
_END = struct.Struct("<QI")  # number of records, CRC-32 of their frames


class ArchiveWriter:
    """Writes records to a binary file as they come. `close` writes the end, without which a reader calls the file truncated."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._count = self._checksum = 0
        file.write(MAGIC)

    def add(self, records: Iterator[Record]) -> None:
        """Append records. Those of a partition end with its marker."""
        for key, value in records:
            if value is not None:  # a file has nothing to delete
                frame = b"".join((_FRAME.pack(len(key), len(value)), key, value))
                self._file.write(frame)
                self._count, self._checksum = self._count + 1, zlib.crc32(frame, self._checksum)

    def close(self) -> None:
        """Write the end. The file itself stays open."""
        self._file.write(_FRAME.pack(0, 0) + _END.pack(self._count, self._checksum))


def read_archive(file: BinaryIO) -> Iterator[Record]:
    """The records of a file, one at a time. Raises CheckpointError when it is foreign, of a newer format, truncated or damaged."""
    _check_magic(file.read(len(MAGIC)))
    count = checksum = 0
    while True:
        sizes = _exactly(file, _FRAME.size)
        key_size, value_size = _FRAME.unpack(sizes)
        if key_size == value_size == 0:
            break
        if key_size + value_size > LARGEST_LIMIT:
            raise CheckpointError(f"damaged: record {count + 1} of the file claims {key_size + value_size} bytes")
        content = _exactly(file, key_size + value_size)
        count, checksum = count + 1, zlib.crc32(content, zlib.crc32(sizes, checksum))
        yield Record(content[:key_size], content[key_size:])
    if _END.unpack(_exactly(file, _END.size)) != (count, checksum):
        raise CheckpointError("damaged: number or checksum of the file's records is wrong")
    if file.read(1):
        raise CheckpointError("damaged: the file goes on after its end")


def export(archive: ArchiveWriter, restored: Processor, marker: Marker, keys: Sequence[str] | None = None) -> None:
    """Append one restored partition, or these keys of it, as a checkpoint by itself. `restored` loses the other keys.

    Raises KeyError naming a key without a model.
    """
    router = restored.router
    there = set(router.all_keys())
    chosen = there if keys is None else set(keys)
    for missing in sorted(chosen - there):
        raise KeyError(missing)
    router.release(there - chosen)
    checkpointer = Checkpointer(restored)
    checkpointer.begin_epoch()
    archive.add(checkpointer.checkpoint(offset=marker.offset, time=marker.time))


def restore(
    file: BinaryIO, spec: ModelSpec, shared: Mapping[str, Array] | None = None, max_models: int | None = None
) -> Iterator[tuple[Processor, Marker]]:
    """Each partition of a file, its models in a processor of its own. Raises CheckpointError, MismatchError for another learner's file.

    max_models: models in memory at most, None for all.
    Use the partitions only after the last one was read without an error: the file's checksum is at its end.
    """
    restorer = Restorer(spec, shared, max_models=max_models)
    for key, value in read_archive(file):
        restorer.add(key, value)
        if restorer.newest is not None and (marker := restorer.finish()) is not None:
            yield restorer.processor, marker
            restorer = Restorer(spec, restorer.processor.pool.shared, max_models=max_models)
    restorer.finish()  # raises if models are left without a marker


def adopt(target: Processor, source: Processor, keys: Sequence[str] | None = None) -> int:
    """Copy models, all or those of some keys that the source has, over the target's; returns how many. The next checkpoint writes them.

    Raises MismatchError when the hyper-parameters differ, CheckpointError when the classes are numbered differently.
    """
    theirs, ours = (identify(processor.spec, processor.pool.shared).description for processor in (source, target))
    if theirs != ours:
        raise MismatchError("; ".join(differences(theirs, ours)))
    _number_classes_alike(target, source)
    chosen = [key for key in set(source.router.all_keys()) if keys is None or key in keys]
    for start in range(0, len(chosen), _BLOCK):
        _copy(target, source, chosen[start : start + _BLOCK])
    return len(chosen)


def _copy(target: Processor, source: Processor, keys: Sequence[str]) -> None:
    ours = target.router.slots(keys)
    for slot, (arrays, payload) in zip(ours.tolist(), pack(source.pool, source.router.slots(keys)), strict=True):
        write(target.pool, slot, unpack(arrays, payload))
    target.router.touch(ours)
    for processor in (target, source):
        processor.router.trim()


def _number_classes_alike(target: Processor, source: Processor) -> None:
    for ours, theirs in zip(target.classes, source.classes, strict=False):
        if (type(ours), ours) != (type(theirs), theirs):
            raise CheckpointError(
                f"classes are numbered differently: {theirs!r} in the source where {ours!r} is in the target; "
                "name the classes in the configuration's `labels` to give all partitions the same order"
            )
    if len(source.classes) > len(target.classes):
        target.adopt_classes(source.classes)


def _check_magic(start: bytes) -> None:
    if start == MAGIC:
        return
    if start[:4] == MAGIC[:4] and len(start) == len(MAGIC):
        raise CheckpointError(f"file format {start[4]}, this program reads file format {MAGIC[4]}")
    raise CheckpointError(f"not a file of models: it starts with {start!r} instead of {MAGIC!r}")


def _exactly(file: BinaryIO, size: int) -> bytes:
    content = file.read(size)
    if len(content) < size:
        raise CheckpointError("truncated: the file ends in the middle of a record")
    return content
