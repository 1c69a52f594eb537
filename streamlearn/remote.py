"""Sending control messages to running workers, and collecting their answers."""

import time
import uuid
from typing import Any

import msgspec
from confluent_kafka import Consumer, Producer, TopicPartition

from streamlearn.agents.control import ANSWER_KEY, ControlError, ControlMessage, decode
from streamlearn.config import Config
from streamlearn.kafka.clients import client_logger, reader_properties

PATIENCE = 3.0  # seconds to wait for answers


def ask(config: Config, command: str, stream: str | None = None, level: str | None = None) -> list[dict[str, Any]]:
    """Send a command to all workers; returns the answers to `status`, an empty list for other commands. Raises ControlError."""
    fields = {"command": command, "stream": stream, "level": level, "id": uuid.uuid4().hex[:8]}
    message = decode(msgspec.json.encode({name: value for name, value in fields.items() if value is not None}))
    if stream is not None:
        config.stream(stream)
    consumer = Consumer(reader_properties(config.kafka.client_properties()), logger=client_logger())
    try:
        partition = TopicPartition(config.control_topic, 0)
        partition.offset = consumer.get_watermark_offsets(partition, timeout=10)[1]
        consumer.assign([partition])
        _send(config, message)
        return _answers(consumer, message) if message.command == "status" else []
    finally:
        consumer.close()


def _send(config: Config, message: ControlMessage) -> None:
    producer = Producer(config.kafka.client_properties(), logger=client_logger())
    producer.produce(config.control_topic, msgspec.json.encode(message), partition=0)
    if producer.flush(10):
        raise ControlError(f"the broker at {config.kafka.bootstrap} did not take the message within 10 s")


def _answers(consumer: Consumer, message: ControlMessage) -> list[dict[str, Any]]:
    answers: list[dict[str, Any]] = []
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for record in consumer.consume(100, 0.2):
            if record.error() is None and record.key() == ANSWER_KEY and (value := record.value()) is not None:
                answer = msgspec.json.decode(value, type=dict[str, Any])
                if answer["answer"] == message.id:
                    answers.append(answer)
    return answers
