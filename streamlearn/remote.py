"""Sending control messages to running workers, and collecting their answers."""

import time
import uuid
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from streamlearn.agents.commands import Answer, ModelCommand
from streamlearn.agents.control import ANSWER_KEY, ControlError, ControlMessage
from streamlearn.config import Config
from streamlearn.kafka.clients import client_logger, kafka_error, reader_properties

CONNECT = 10.0  # seconds until the broker must have answered
PATIENCE = 3.0  # seconds to wait for the answers to `status`: nobody knows how many workers there are


def identifier() -> str:
    """A name for a message, so that answers can be told apart."""
    return uuid.uuid4().hex[:16]


def ask(config: Config, command: str, stream: str | None = None, level: str | None = None) -> list[dict[str, Any]]:
    """Send a command to all workers; returns the answers to `status`, an empty list for other commands. Raises ControlError."""
    fields = {"command": command, "stream": stream, "level": level, "id": identifier()}
    try:
        message = msgspec.convert({name: value for name, value in fields.items() if value is not None}, ControlMessage)
    except msgspec.ValidationError as error:
        raise ControlError(f"not a control message: {error}") from error
    if stream is not None:
        config.stream(stream)
    with Conversation(config) as conversation:
        conversation.send(message)
        if message.command != "status":
            return []
        answers = (msgspec.json.decode(value, type=dict[str, Any]) for value in conversation.answers(PATIENCE))
        return [answer for answer in answers if answer["answer"] == message.id]


def ask_owners(config: Config, commands: Sequence[ModelCommand], patience: float) -> list[Answer]:
    """Send a command for each of some partitions and wait until each was answered, `patience` seconds at most. Raises ControlError."""
    waiting = {(command.id, command.partition) for command in commands}
    answers: list[Answer] = []
    with Conversation(config) as conversation:
        for command in commands:
            conversation.send(command)
        for value in conversation.answers(patience):
            try:
                answer = msgspec.json.decode(value, type=Answer)
            except msgspec.ValidationError:
                continue  # to somebody else's `status`
            if (answer.answer, answer.partition) in waiting:
                waiting.discard((answer.answer, answer.partition))
                answers.append(answer)
            if not waiting:
                break
    return sorted(answers, key=lambda answer: answer.partition)


class Conversation:
    """Messages to all workers, and what they answer from now on."""

    def __init__(self, config: Config) -> None:
        """Raises ControlError when no broker answers or the control topic is missing."""
        self._topic, self._bootstrap = config.control_topic, config.kafka.bootstrap
        self._producer = Producer(config.kafka.client_properties(), logger=client_logger())
        self._consumer = Consumer(reader_properties(config.kafka.client_properties()), logger=client_logger())
        try:
            self._consumer.assign([TopicPartition(self._topic, 0, self._end())])
        except ControlError:
            self._consumer.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._consumer.close()

    def send(self, message: ControlMessage | ModelCommand) -> None:
        """Raises ControlError when the broker does not take it."""
        failures: list[str] = []
        self._producer.produce(
            self._topic,
            msgspec.json.encode(message),
            partition=0,
            on_delivery=lambda error, _: failures.append(error.str()) if error else None,
        )
        if self._producer.flush(10):
            raise ControlError(f"the broker at {self._bootstrap} did not take the message within 10 s")
        if failures:
            raise ControlError(f"the broker at {self._bootstrap} did not take the message: {failures[0]}")

    def answers(self, patience: float) -> Iterator[bytes]:
        """The workers' answers as they come, for `patience` seconds."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            for record in self._consumer.consume(100, 0.2):
                value = record.value()
                if record.error() is None and record.key() == ANSWER_KEY and value is not None:
                    yield value

    def _end(self) -> int:
        """The offset after the topic's last record. A topic that was just made may take a moment to have one."""
        deadline = time.monotonic() + CONNECT
        while True:
            try:
                return int(self._consumer.get_watermark_offsets(TopicPartition(self._topic, 0), timeout=CONNECT)[1])
            except KafkaException as error:
                if time.monotonic() > deadline or kafka_error(error).code() == KafkaError._ALL_BROKERS_DOWN:
                    raise ControlError(f"{self._topic} at {self._bootstrap} cannot be read: {kafka_error(error).str()}") from error
                time.sleep(0.2)
