"""Logs: readable lines on a terminal, one JSON object per line elsewhere, on standard error."""

import logging
import re
import sys
import time

import structlog

REPEAT_INTERVAL = 30.0  # seconds between two like lines
_CHATTY = ("aiokafka", "asyncio", "faust", "mode")
_VARYING = re.compile(r" \(.*|\d+")  # of otherwise like lines


class Repeats(logging.Filter):
    """Lets one of many like lines through every REPEAT_INTERVAL seconds: a broker that is down must not fill the logs."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        line = _VARYING.sub("", record.getMessage())
        now = time.monotonic()
        repeated = now - self._last.get(line, -REPEAT_INTERVAL) < REPEAT_INTERVAL
        if not repeated:
            if len(self._last) > 1000:
                self._last.clear()
            self._last[line] = now
        return not repeated


def configure(level: str = "info") -> None:
    """Send structlog and the logging module (librdkafka, Faust) to standard error. The root logger's level can be changed later."""
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: structlog.typing.Processor = structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, structlog.processors.format_exc_info, renderer],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    repeats = Repeats()
    handler.addFilter(lambda record: record.name.partition(".")[0] not in _CHATTY or repeats.filter(record))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for chatty in _CHATTY:
        logging.getLogger(chatty).setLevel(logging.ERROR)
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
