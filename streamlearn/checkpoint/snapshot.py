"""From a processor to the records of a checkpoint."""

import zlib
from collections.abc import Iterator, Sequence
from itertools import chain

from streamlearn.checkpoint.codec import DEFAULT_LIMIT, Header, Model, Record, RecordName, encode, tombstones
from streamlearn.checkpoint.errors import MismatchError
from streamlearn.checkpoint.identity import identify
from streamlearn.checkpoint.marker import Marker, encode_marker
from streamlearn.checkpoint.state import pack
from streamlearn.processor import Processor
from streamlearn.spill import Packed

DEFAULT_HISTORY = 3
REMEMBERED = 32  # commands


class Checkpointer:
    """Writes the checkpoints of one partition's processor: numbers them and keeps the last ones addressable.

    `last` is the marker of the newest checkpoint, all that must be known to write the next; None before the first.
    """

    def __init__(
        self, processor: Processor, last: Marker | None = None, *, history: int = DEFAULT_HISTORY, limit: int = DEFAULT_LIMIT
    ) -> None:
        """history: N, how many checkpoints stay addressable, >= 1. limit: bytes of a record, key included."""
        self.last = last
        self.commands = last.commands if last else ()  # that changed the models: a command that is delivered twice is followed once
        self.identity = identify(processor.spec, processor.pool.shared)
        self._processor = processor
        self._epoch = last.epoch if last else 1
        self._ring = history + 1
        self._limit = limit

    def begin_epoch(self) -> None:
        """Let the next checkpoint consist of this processor's models only, all of them written: after a restart or a rollback."""
        self._epoch = self.last.epoch + 1 if self.last else 1
        self._processor.router.forget_versions()

    def remember(self, command: str) -> None:
        """Let the next checkpoint say that a command has changed the models."""
        self.commands = (*self.commands, command)[-REMEMBERED:]

    def checkpoint(self, *, offset: int, time: float, deleted: Sequence[str] = ()) -> Iterator[Record]:
        """The records of one checkpoint, to be written in this order and in one transaction. All of them must be taken.

        offset: C, the next input offset to learn. time: seconds since 1970. deleted: keys released for good since the last checkpoint.
        Raises MismatchError if other hyper-parameters wrote the last checkpoint and no epoch has begun, CheckpointError if a model
        cannot be written.
        """
        self._refuse_to_mix()
        last = self.last
        ring, chunks = max(self._ring, last.ring if last else 1), last.chunks if last else 1
        for key in deleted:
            yield from tombstones(key, ring, chunks)
        router, written = self._processor.router, 0
        place = Header(checkpoint=last.checkpoint + 1 if last else 1, epoch=self._epoch, offset=offset, size=0, checksum=0)
        for records in chain(self._models(router.take_changed().tolist(), place), self._models_away(place)):
            chunks, written = max(chunks, len(records)), written + 1
            yield from records
        models, writes = router.written()
        self.last = Marker(
            checkpoint=place.checkpoint,
            epoch=place.epoch,
            offset=offset,
            time=time,
            fingerprint=self.identity.fingerprint,
            description=dict(self.identity.description),
            classes=tuple(self._processor.classes),
            written=written,
            models=models,
            writes=writes,
            deleted=(last.deleted if last else 0) + len(deleted),
            ring=ring,
            chunks=chunks,
            commands=self.commands,
        )
        yield from encode_marker(self.last, self._ring, self._limit)

    def _refuse_to_mix(self) -> None:
        if self.last and self.last.epoch == self._epoch and self.last.fingerprint != self.identity.fingerprint:
            raise MismatchError("other hyper-parameters wrote the last checkpoint: begin an epoch first")

    def _models(self, slots: list[int], place: Header) -> Iterator[list[Record]]:
        """The records of each model, its version one higher than before."""
        pool, router = self._processor.pool, self._processor.router
        router.versions[slots] += 1
        versions, learned = router.versions[slots].tolist(), pool["learned"][slots].tolist()
        mistakes = pool["mistakes"][slots].tolist() if "mistakes" in pool.names else [None] * len(slots)
        for i, (arrays, payload) in enumerate(pack(pool, slots)):
            yield self._records(place, Packed(router.key(slots[i]), versions[i], learned[i], mistakes[i], arrays, payload))

    def _models_away(self, place: Header) -> Iterator[list[Record]]:
        """The same for the models that are not in memory."""
        for model in self._processor.router.take_changed_away():
            yield self._records(place, model)

    def _records(self, place: Header, packed: Packed) -> list[Record]:
        spec, (key, version, learned, mistakes, arrays, payload) = self._processor.spec, packed
        model = Model(
            key, version, spec.pipeline.learner.name, self.identity.fingerprint, spec.task.value, spec.dtype.name, spec.dim, learned,
            len(self._processor.classes), arrays, mistakes,
        )  # fmt: skip
        header = Header(place.checkpoint, place.epoch, place.offset, len(payload), zlib.crc32(payload), model=model)
        return encode(header, RecordName.of_model(key, place.epoch, version, self._ring), payload, self._limit)
