"""Control messages: JSON objects on the topic `<app>.control`, read by every worker."""

import logging
from collections.abc import Callable
from typing import Any, Literal

import msgspec
import structlog

from streamlearn.agents.commands import MODEL_COMMANDS, ModelCommand
from streamlearn.agents.loop import LearningLoop

log = structlog.get_logger(__name__)


class ControlMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A command to all workers of the application."""

    command: Literal["pause", "resume", "log-level", "status"]
    stream: str | None = None  # pause, resume; None: all streams
    level: Literal["debug", "info", "warning", "error"] | None = None  # log-level
    id: str | None = None  # status: repeated in the answers


ANSWER_KEY = b"answer"  # of the records on the control topic that are answers of workers, not commands


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's answer to `status`."""

    answer: str | None
    worker: str
    version: str
    ready: bool
    partitions: list[dict[str, Any]]


class ControlError(Exception):
    """A control message that cannot be followed; it is logged and left out."""


class _Kind(msgspec.Struct):
    command: str


_model_commands: msgspec.json.Decoder[ModelCommand] = msgspec.json.Decoder(ModelCommand)


def decode(value: bytes) -> ControlMessage | ModelCommand:
    """Raises ControlError."""
    try:
        if msgspec.json.decode(value, type=_Kind).command in MODEL_COMMANDS:
            return _model_commands.decode(value)
        return msgspec.json.decode(value, type=ControlMessage)
    except msgspec.MsgspecError as error:
        raise ControlError(f"not a control message: {error}") from error


def follow(message: ControlMessage, loop: LearningLoop) -> None:
    """Do what a message says, for all commands but `status`. Raises ControlError."""
    if message.command == "log-level":
        if message.level is None:
            raise ControlError("log-level needs a level: debug, info, warning or error")
        logging.getLogger().setLevel(message.level.upper())
    elif message.command == "pause":
        _known(loop.pause, message.stream)
    elif message.command == "resume":
        _known(loop.resume, message.stream)
    log.warning("control", command=message.command, stream=message.stream, level=message.level)


def _known(action: Callable[[str | None], None], stream: str | None) -> None:
    try:
        action(stream)
    except KeyError as error:
        raise ControlError(str(error.args[0])) from error
