"""Messages as columns of one partition."""

from confluent_kafka import Message

from streamlearn.kafka.clients import Partition
from streamlearn.kafka.records import by_partition


def message(topic: str, partition: int, offset: int) -> Message:
    return Message(
        topic=topic, partition=partition, offset=offset, key=b"k%d" % offset, value=b"v%d" % offset, timestamp=(1, 1000 + offset)
    )  # fmt: skip


def test_columns_of_one_partition() -> None:
    (records,) = by_partition([message("a", 3, offset) for offset in (7, 8, 10)])
    assert records.partition == Partition("a", 3)
    assert (records.keys, records.values) == ([b"k7", b"k8", b"k10"], [b"v7", b"v8", b"v10"])
    assert (records.timestamps, records.offsets, len(records)) == ([1007, 1008, 1010], [7, 8, 10], 3)


def test_neighbours_stay_together_and_in_order() -> None:
    places = [("a", 0, 5), ("a", 0, 6), ("a", 1, 2), ("b", 1, 9), ("a", 0, 7)]
    groups = by_partition([message(*place) for place in places])
    assert [(*group.partition, list(group.offsets)) for group in groups] == [("a", 0, [5, 6]), ("a", 1, [2]), ("b", 1, [9]), ("a", 0, [7])]


def test_topics_alone_tell_partitions_apart() -> None:
    assert [group.partition for group in by_partition([message("a", 0, 1), message("b", 0, 1)])] == [("a", 0), ("b", 0)]


def test_nothing_polled() -> None:
    assert by_partition([]) == []


def test_take() -> None:
    (records,) = by_partition([message("a", 0, offset) for offset in range(4)])
    taken = records.take([1, 3])
    assert (taken.partition, taken.offsets, taken.values, taken.keys, taken.timestamps) == (
        records.partition, [1, 3], [b"v1", b"v3"], [b"k1", b"k3"], [1001, 1003],
    )  # fmt: skip
