"""The bound: a loop that consumes, does nothing, and produces equally many bytes in transactions of the same size.

Plain confluent-kafka with the librdkafka properties of the worker's source and sink. `python -m benchmarks.passthrough SETTINGS` is the
loop, as a process like a worker; SETTINGS is a file with a `Settings` in JSON.
"""

import sys
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

import msgspec
from confluent_kafka import Consumer, Producer

from benchmarks.rig import Observer, Program, Rate, Rig, between, follow
from streamlearn.kafka.clients import consumer_properties, producer_properties

COMMIT_INTERVAL = 0.1  # seconds: the default of the worker, whose transactions are measured
WARM_UP = 0.1  # share of the events before the clock starts


class Settings(msgspec.Struct, frozen=True):
    """One run of the loop."""

    bootstrap: str
    group: str
    source: str
    target: str
    batch: int  # messages per poll
    transaction: int  # events
    values: Sequence[bytes]  # of the records to produce, in turn: real predictions, so that they compress alike


def measure(rig: Rig, source: str, partitions: int, total: int, values: Sequence[bytes], transaction: int, batch: int = 4000) -> Rate:
    """Pass `total` events of a topic through, in a process of its own; events per second once it runs."""
    group = rig.unique("pass-through")
    rig.make_topics([group], partitions)
    path = rig.folder / f"{group}.json"
    path.write_bytes(msgspec.json.encode(Settings(rig.bootstrap, group, source, group, batch, transaction, values)))
    process = Program([sys.executable, "-m", "benchmarks.passthrough", str(path)], rig.folder, path.with_suffix(".log"))
    try:
        with Observer(rig.bootstrap, group, source, partitions) as observer:
            marks = list(follow(rig, observer, [process], total))
    finally:
        process.stop()
        rig.delete_topics([group])
    return between(next(mark for mark in marks if mark.events >= WARM_UP * total), marks[-1])


def pass_through(settings: Settings) -> None:
    """The loop; runs until it is killed."""
    connection = {"bootstrap.servers": settings.bootstrap}
    consumer = Consumer({**consumer_properties(connection, settings.group, None, {}), "auto.offset.reset": "earliest"})
    producer = Producer(producer_properties(connection, settings.group, COMMIT_INTERVAL, {}))
    producer.init_transactions(30)
    consumer.subscribe([settings.source])
    values, target, produce = cycle(settings.values), settings.target, producer.produce
    pending = 0
    while True:
        messages = consumer.consume(settings.batch, 0.02)
        if messages and not pending:
            producer.begin_transaction()
        for message, value in zip(messages, values, strict=False):
            produce(target, value, message.key(), message.partition() or 0)
        pending += len(messages)
        if pending and (pending >= settings.transaction or not messages):
            producer.send_offsets_to_transaction(consumer.position(consumer.assignment()), consumer.consumer_group_metadata())
            producer.commit_transaction()
            pending = 0


if __name__ == "__main__":
    pass_through(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Settings))
