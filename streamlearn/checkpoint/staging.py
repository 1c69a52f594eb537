"""Models on their way into a stream: records in its models topic that belong to no checkpoint until a worker adopts them."""

from collections.abc import Iterable, Iterator

from streamlearn.checkpoint.codec import Record

_PREFIX = b"i/"


def stage(identifier: str, records: Iterable[Record]) -> Iterator[Record]:
    """The records of a checkpoint under staged keys `i/<identifier>/<n>`, n = 0, 1, 2, ..."""
    for number, (_, value) in enumerate(records):
        yield Record(_key(identifier, number), value)


def unstage(identifier: str, count: int) -> Iterator[Record]:
    """Delete `count` staged records."""
    for number in range(count):
        yield Record(_key(identifier, number), None)


def is_staged(record_key: bytes | None, identifier: str = "") -> bool:
    """Whether a record was staged under this identifier, without one under any."""
    return (record_key or b"").startswith(_PREFIX + (f"{identifier}/".encode() if identifier else b""))


def _key(identifier: str, number: int) -> bytes:
    return _PREFIX + f"{identifier}/{number}".encode()
