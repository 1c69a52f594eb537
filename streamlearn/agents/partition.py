"""One input partition that this worker owns: its models, how far they have got, and how they are recovered."""

from collections.abc import Iterator, Sequence

import structlog
from confluent_kafka import Message

from streamlearn.agents.stream import Outcome, Stream
from streamlearn.kafka.clients import Partition
from streamlearn.kafka.reader import PartitionReader

log = structlog.get_logger(__name__)


class PartitionModels:
    """The models of one partition. `next_offset` is the input offset that they have learned up to."""

    def __init__(self, stream: Stream, partition: Partition, committed: int, earliest: int) -> None:
        self.stream = stream
        self.partition = partition
        self.committed = committed
        self.earliest = earliest
        self.next_offset = committed
        self.processor = stream.processor()

    def learn(self, messages: Sequence[Message]) -> Outcome:
        """Predict and learn messages, in order."""
        events, rejected = self.stream.decode(messages)
        predictions = self.processor.process(events)
        self.next_offset = _offset(messages[-1]) + 1
        return Outcome(messages, events, predictions, rejected)

    def recover(self, reader: PartitionReader) -> Iterator[int]:
        """Bring fresh models to the committed offset by learning again what was learned, emitting nothing.

        Yields after every batch how many offsets are left.
        """
        self.processor = self.stream.processor()
        self.next_offset = self.earliest
        for messages in reader.read(self.partition, self.earliest, self.committed):
            self.learn(messages)
            yield self.committed - self.next_offset
        self.next_offset = self.committed


def _offset(message: Message) -> int:
    offset = message.offset()
    if offset is None:
        raise ValueError("a message without an offset did not come from a consumer")
    return offset
