"""The bytes of a checkpoint record: a fixed prefix, a JSON header, and a piece of a payload. docs/checkpoint-format.md has every byte."""

import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from streamlearn.checkpoint.errors import CheckpointError

MAGIC = b"\x89SLM"
FORMAT = 1
DEFAULT_LIMIT = 900_000  # bytes of a record, key included: below the broker's default max.message.bytes with its overhead
LARGEST_LIMIT = 16 << 20  # of what is read from files

_PREFIX = struct.Struct("<4sHHI")  # magic, format, reserved, header length; the header's checksum follows
_CHECKSUM = struct.Struct("<I")
_FIXED = _PREFIX.size + _CHECKSUM.size
_SMALLEST_PIECE = 64
_GROWTH = 32  # chunk numbers may add this many digits to a header

Natural = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Positive = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Checksum = Annotated[int, Meta(ge=0, le=2**32 - 1)]
ArrayEntry = tuple[str, str, Annotated[tuple[Natural, ...], Meta(max_length=8)]]  # name, little-endian dtype, shape


class Record(NamedTuple):
    """A Kafka record. A value of None deletes what was stored under the key."""

    key: bytes
    value: bytes | None


class Model(Struct, frozen=True, omit_defaults=True):
    """What a record says about its model, besides the arrays themselves."""

    key: str
    version: Positive  # how often this model has been written in its epoch
    learner: str
    fingerprint: str
    task: str
    dtype: str
    dim: Natural
    learned: Natural  # labelled events
    classes: Natural  # classes that the partition knew
    arrays: tuple[ArrayEntry, ...]  # in the order of the payload, back to back
    mistakes: Natural | None = None


class Header(Struct, frozen=True, omit_defaults=True):
    """The header of a record. Without `model` the payload is a marker."""

    checkpoint: Positive
    epoch: Positive
    offset: Natural  # next input offset to learn
    size: Natural  # bytes of the whole payload
    checksum: Checksum  # CRC-32 of the whole payload
    chunk: Natural = 0
    chunks: Positive = 1
    model: Model | None = None


class Chunk(NamedTuple):
    """A decoded record: its header and its piece of the payload."""

    header: Header
    payload: memoryview


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Header)


def encode(header: Header, name: "RecordName", payload: bytes, limit: int = DEFAULT_LIMIT) -> list[Record]:
    """The records of a payload, none larger than `limit` bytes. The header is that of chunk 0 of 1; others are made from it.

    Raises CheckpointError when the header leaves no room for the payload.
    """
    key, text = name.chunk(0), _encode_header(header)
    overhead = len(key) + _FIXED + len(text)
    if overhead + len(payload) <= limit:
        return [Record(key, _assemble(text, payload))]
    room = limit - overhead - _GROWTH
    if room < _SMALLEST_PIECE:
        raise CheckpointError(f"{title(header)}: key and header take {overhead} bytes, which leaves no room in a record of {limit} bytes")
    pieces = [payload[start : start + room] for start in range(0, len(payload), room)]
    texts = (_encode_header(replace(header, chunk=index, chunks=len(pieces))) for index in range(len(pieces)))
    return [Record(name.chunk(index), _assemble(*parts)) for index, parts in enumerate(zip(texts, pieces, strict=True))]


def decode(value: bytes) -> Chunk:
    """Read a record's value. Raises CheckpointError when it is foreign, of a newer format, truncated or damaged."""
    if value[: len(MAGIC)] != MAGIC[: len(value)] or not value:
        raise CheckpointError(f"not a checkpoint record: it starts with {bytes(value[: len(MAGIC)])!r} instead of {MAGIC!r}")
    if len(value) < _FIXED:
        raise CheckpointError(f"truncated: {len(value)} bytes, a record has {_FIXED} at least")
    _, version, _, length = _PREFIX.unpack_from(value)
    if version != FORMAT:
        raise CheckpointError(f"format {version}, this program reads format {FORMAT}{': upgrade it' if version > FORMAT else ''}")
    if length > len(value) - _FIXED:
        raise CheckpointError(f"truncated: a header of {length} bytes in a record of {len(value)} bytes")
    text = memoryview(value)[_FIXED : _FIXED + length]
    if _CHECKSUM.unpack_from(value, _PREFIX.size)[0] != _header_checksum(value[: _PREFIX.size], text):
        raise CheckpointError("damaged: the checksum of the header is wrong")
    chunk = Chunk(_decode_header(text), memoryview(value)[_FIXED + length :])
    _check_piece(chunk)
    return chunk


class RecordName:
    """Kafka keys of the records of one model or marker. They decide only what compaction keeps; what a record is stands in its header.

    `m/<epoch mod 2>/<version mod ring>/<chunk>/<key>` for a model, `c/<checkpoint mod ring>/<chunk>` for a marker.
    """

    __slots__ = ("_end", "_start")

    def __init__(self, start: str, end: str) -> None:
        self._start, self._end = start, end

    @classmethod
    def of_model(cls, key: str, epoch: int, version: int, ring: int) -> "RecordName":
        return cls(f"m/{epoch % 2}/{version % ring}/", f"/{key}")

    @classmethod
    def of_marker(cls, checkpoint: int, ring: int) -> "RecordName":
        return cls(f"c/{checkpoint % ring}/", "")

    def chunk(self, index: int) -> bytes:
        """Raises CheckpointError when the model's key is not text that UTF-8 can hold."""
        try:
            return f"{self._start}{index}{self._end}".encode()
        except UnicodeEncodeError as error:
            raise CheckpointError(f"the key {self._end[1:]!r} is not text that UTF-8 can hold") from error


def model_key(record_key: bytes | None) -> str | None:
    """The model that a record key names, None for a marker. Raises CheckpointError for a foreign key."""
    parts = (record_key or b"").split(b"/", 4)
    if len(parts) == 3 and parts[0] == b"c":
        return None
    if len(parts) != 5 or parts[0] != b"m":
        raise CheckpointError(f"not the key of a checkpoint record: {(record_key or b'')[:80]!r}")
    try:
        return parts[4].decode()
    except UnicodeDecodeError as error:
        raise CheckpointError(f"not the key of a checkpoint record: {(record_key or b'')[:80]!r}") from error


def tombstones(key: str, ring: int, chunks: int) -> Iterator[Record]:
    """Delete everything a model may have left: every place of the ring in both epochs, every chunk number."""
    for epoch in range(2):
        for version in range(ring):
            name = RecordName.of_model(key, epoch, version, ring)
            yield from (Record(name.chunk(index), None) for index in range(chunks))


class Joiner:
    """Puts the chunks of payloads together again, in any order. Of one model or marker only the newest unfinished payload is kept."""

    def __init__(self) -> None:
        self._unfinished: dict[str | None, _Group] = {}

    def add(self, chunk: Chunk) -> tuple[Header, bytes | memoryview] | None:
        """The header (of its last chunk) and payload that this chunk completes, None as long as others are missing.

        Raises CheckpointError for a chunk that came twice or does not belong to the others.
        """
        header = chunk.header
        name = header.model.key if header.model else None
        group = self._unfinished.get(name)
        if group is not None and header.checkpoint < group.header.checkpoint:
            return None  # left behind by an older version
        if header.chunks == 1:
            self.forget(name)
            return header, chunk.payload
        if group is None or header.checkpoint > group.header.checkpoint:
            group = self._unfinished[name] = _Group(header, {})
        group.add(chunk)
        if len(group.pieces) < header.chunks:
            return None
        self.forget(name)
        return header, group.join()

    def forget(self, name: str | None) -> None:
        """Drop the unfinished payload of a model, or of a marker (None)."""
        self._unfinished.pop(name, None)

    def unfinished(self) -> Mapping[Header, int]:
        """Payloads with missing chunks: a header of each, and how many chunks are missing."""
        return {group.header: group.header.chunks - len(group.pieces) for group in self._unfinished.values()}


class _Group(NamedTuple):
    header: Header
    pieces: dict[int, memoryview]

    def add(self, chunk: Chunk) -> None:
        index = chunk.header.chunk
        if replace(chunk.header, chunk=self.header.chunk) != self.header:
            raise CheckpointError(f"chunk {index} of {self._title} belongs to another state than the chunks before it")
        if index in self.pieces:
            raise CheckpointError(f"chunk {index} of {self._title} came twice")
        self.pieces[index] = chunk.payload

    def join(self) -> bytes:
        payload = b"".join(self.pieces[index] for index in range(self.header.chunks))
        if len(payload) != self.header.size or zlib.crc32(payload) != self.header.checksum:
            raise CheckpointError(f"damaged: the checksum of {self._title} is wrong")
        return payload

    @property
    def _title(self) -> str:
        return title(self.header)


def title(header: Header) -> str:
    """What a record is about, for people."""
    if header.model is None:
        return f"the marker of checkpoint {header.checkpoint}"
    return f"model {header.model.key!r} of checkpoint {header.checkpoint}"


def _encode_header(header: Header) -> bytes:
    try:
        return _encoder.encode(header)
    except UnicodeEncodeError as error:
        raise CheckpointError(f"{title(header)}: its key is not text that UTF-8 can hold") from error


def _assemble(text: bytes, piece: bytes | memoryview) -> bytes:
    prefix = _PREFIX.pack(MAGIC, FORMAT, 0, len(text))
    return b"".join((prefix, _CHECKSUM.pack(_header_checksum(prefix, text)), text, piece))


def _header_checksum(prefix: bytes, text: bytes | memoryview) -> int:
    return zlib.crc32(text, zlib.crc32(prefix))


def _decode_header(text: memoryview) -> Header:
    try:
        return _decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CheckpointError(f"the header is not one of format {FORMAT}: {error}") from error


def _check_piece(chunk: Chunk) -> None:
    header, length = chunk.header, len(chunk.payload)
    if header.chunk >= header.chunks:
        raise CheckpointError(f"chunk {header.chunk} of {title(header)} does not exist: it has {header.chunks}")
    if length > header.size or (header.chunks == 1 and length < header.size):
        raise CheckpointError(f"truncated: {length} of {header.size} bytes of {title(header)}")
    if header.chunks == 1 and zlib.crc32(chunk.payload) != header.checksum:
        raise CheckpointError(f"damaged: the checksum of {title(header)} is wrong")
