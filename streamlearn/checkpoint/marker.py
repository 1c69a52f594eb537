"""The marker: the record that makes the models written before it a checkpoint."""

import zlib

import msgspec
from msgspec import Struct

from streamlearn.checkpoint.codec import DEFAULT_LIMIT, Header, Natural, Positive, Record, RecordName, encode
from streamlearn.checkpoint.errors import CheckpointError
from streamlearn.checkpoint.identity import Value
from streamlearn.events.columns import Label


class Marker(Struct, frozen=True, kw_only=True):
    """Checkpoint number c of a partition: the state of all its models after learning every event before `offset`."""

    checkpoint: Positive  # c, one more than that of the marker before
    epoch: Positive  # only models of the same epoch belong to the checkpoint; restart and rollback begin a new one
    offset: Natural  # C: next input offset to learn
    time: float  # seconds since 1970
    fingerprint: str
    description: dict[str, Value]  # what the fingerprint was made of
    classes: tuple[Label, ...]  # multi-class: in order of arrival
    written: Natural  # models written with this checkpoint
    models: Natural  # models that the checkpoint consists of
    writes: Natural  # sum of their versions: a model that is missing or stale makes another sum
    deleted: Natural  # models deleted on purpose since the topic began
    ring: Positive  # most places per model since the topic began
    chunks: Positive  # most chunks per model since the topic began
    commands: tuple[str, ...] = ()  # identifiers of the last control messages that changed these models, oldest first


_decoder = msgspec.json.Decoder(Marker)


def encode_marker(marker: Marker, ring: int, limit: int = DEFAULT_LIMIT) -> list[Record]:
    """The records of a marker, one unless its vocabulary of classes is huge. Raises CheckpointError for labels that JSON cannot hold."""
    try:
        payload = msgspec.json.encode(marker)
    except (UnicodeEncodeError, OverflowError) as error:
        raise CheckpointError(f"a class label cannot be written: {error}") from error
    header = Header(marker.checkpoint, marker.epoch, marker.offset, len(payload), zlib.crc32(payload))
    return encode(header, RecordName.of_marker(marker.checkpoint, ring), payload, limit)


def decode_marker(payload: bytes | memoryview) -> Marker:
    """Raises CheckpointError when the payload is no marker."""
    try:
        return _decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CheckpointError(f"the payload of a marker is not one: {error}") from error
