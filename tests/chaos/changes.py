"""What people asked for while workers were killed, and what became of it: from the control topic and the markers of checkpoints.

Read as docs/checkpoint-format.md describes them, with nothing of the worker's own code.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from confluent_kafka import Message
from recompute import value_of

Step = range | frozenset[str]
"""What models went through: they learned the events at these offsets, or those of these keys were deleted."""

Steps = tuple[Step, ...]


class Marker(NamedTuple):
    """What the marker of a checkpoint says about changes."""

    checkpoint: int
    epoch: int
    offset: int
    commands: Sequence[str]


class Request(NamedTuple):
    """A message that asked the owner of a partition for a change. The same id goes to several partitions."""

    stream: str
    partition: int
    checkpoint: int | None  # of a rollback
    keys: frozenset[str]  # of a deletion


Name = tuple[str, int]
"""Id and partition of a request."""


@dataclass(frozen=True)
class Story:
    """The life of the models of one partition.

    chapters: from which event on the models consist of which steps, and the events since. followed: how often each request was.
    unexplained: checkpoints whose epoch does not follow from the requests.
    """

    chapters: Sequence[tuple[int, Steps]]
    followed: Counter[str]
    unexplained: int


def read_markers(records: Iterable[Message]) -> list[Marker]:
    """The markers in one partition of a models topic, in order; none of them is compacted away or larger than a record."""
    markers = []
    for record in records:
        if (record.key() or b"").startswith(b"c/"):
            value = value_of(record)
            payload = json.loads(value[16 + int.from_bytes(value[8:12], "little") :])
            markers.append(Marker(payload["checkpoint"], payload["epoch"], payload["offset"], payload.get("commands", ())))
    return markers


def read_requests(control: Iterable[Message]) -> dict[Name, Request]:
    """The changes that the records of a control topic ask for."""
    messages = [json.loads(value_of(record)) for record in control if record.key() != b"answer"]
    return {(m["id"], m["partition"]): _request(m) for m in messages if m["command"] in ("rollback", "delete")}


def read_outcomes(control: Iterable[Message]) -> dict[Name, set[str]]:
    """What workers answered to each request, once or more often."""
    outcomes: dict[Name, set[str]] = {}
    for record in control:
        if record.key() == b"answer":
            answer = json.loads(value_of(record))
            outcomes.setdefault((answer["answer"], answer["partition"]), set()).add(answer["outcome"])
    return outcomes


def tell(markers: Iterable[Marker], requests: Mapping[str, Request]) -> Story:
    """What the models of a partition went through. requests: to this partition, by id."""
    steps: Steps = ()
    saved: dict[int, Steps] = {}
    deletions: list[tuple[int, frozenset[str]]] = []  # and before which checkpoint
    chapters: list[tuple[int, Steps]] = [(0, steps)]
    followed: Counter[str] = Counter()
    offset, epoch, unexplained = 0, 1, 0
    remembered: Sequence[str] = ()
    for marker in markers:
        steps, offset = _and_learned(steps, offset, marker.offset), marker.offset
        for name in (name for name in marker.commands if name not in remembered):
            followed[name] += 1
            request = requests[name]
            if request.checkpoint is None:
                deletions.append((marker.checkpoint, request.keys))
                steps = (*steps, request.keys)
            else:  # what was deleted since stays deleted
                epoch += 1
                steps = (*saved[request.checkpoint], *(keys for before, keys in deletions if before > request.checkpoint))
            chapters.append((offset, steps))
        unexplained += marker.epoch != epoch
        saved[marker.checkpoint], remembered = steps, marker.commands
    return Story(chapters, followed, unexplained)


def _request(message: Mapping[str, Any]) -> Request:
    return Request(message["stream"], message["partition"], message.get("checkpoint"), frozenset(message.get("keys", ())))


def _and_learned(steps: Steps, start: int, stop: int) -> Steps:
    if steps and isinstance(last := steps[-1], range) and last.stop == start:
        return (*steps[:-1], range(last.start, stop))
    return (*steps, range(start, stop))
