"""The source as a Faust service: a thread polls Kafka and puts whole batches on the channel of the learning agent."""

import asyncio
import concurrent.futures
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

import mode
import structlog

from streamlearn.agents.channel import BatchChannel
from streamlearn.agents.loop import LearningLoop
from streamlearn.agents.stream import Decoded
from streamlearn.kafka.source import Source
from streamlearn.metrics import Metrics, Stage

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Batch:
    """What one poll gave, by partition; without any it is a tick."""

    parts: Sequence[Decoded]
    generation: int
    number: int  # 1, 2, ...: none may be missing


class SourceService(mode.Service):
    """Joins the consumer group when it starts, leaves it (and so commits) when it stops."""

    def __init__(
        self,
        open_source: Callable[[], Source],
        learning: LearningLoop,
        channel: BatchChannel,
        batch_size: int,
        poll_timeout: float,
        stop_timeout: float,
        metrics: Metrics,
    ) -> None:
        """poll_timeout: seconds a poll collects messages. stop_timeout: seconds for a graceful stop."""
        super().__init__()
        self._open_source = open_source
        self._learning = learning
        self._channel = channel
        self._batch_size = batch_size
        self._poll_timeout = poll_timeout
        self._stop_timeout = stop_timeout
        self._metrics = metrics
        self._thread: asyncio.Task[None] | None = None
        self.failure: Exception | None = None

    async def on_start(self) -> None:
        self._thread = asyncio.create_task(self._run())

    async def on_stop(self) -> None:
        if self._thread is not None:
            await asyncio.wait({self._thread}, timeout=self._stop_timeout)

    async def fail(self, error: Exception) -> None:
        """End the worker because of an error."""
        self.failure = self.failure or error
        log.error("the worker ends", error=str(error), kind=type(error).__name__, exc_info=not _is_expected(error))
        await self.crash(error)

    async def _run(self) -> None:
        try:
            await asyncio.to_thread(self._poll_until_stopped, asyncio.get_running_loop())
        except Exception as error:  # noqa: BLE001 - any failure of the thread ends the worker
            await self.fail(error)

    def _poll_until_stopped(self, event_loop: asyncio.AbstractEventLoop) -> None:
        while not (self._channel.subscriber_count or self.should_stop):  # what is put before the agent listens would be lost
            time.sleep(0.01)
        source = self._open_source()
        self._learning.attach(source)
        try:
            for number in count(1):
                if self.should_stop:
                    break
                generation = self._learning.generation
                with self._metrics.timed(Stage.CONSUME):
                    messages = source.poll(self._batch_size, self._poll_timeout)
                if self._learning.generation != generation:  # polled before a rebalance: fetched again by whoever owns them now
                    messages, generation = [], self._learning.generation
                self._put(Batch(self._learning.decode(messages), generation, number), event_loop)
        finally:
            source.close()

    def _put(self, batch: Batch, event_loop: asyncio.AbstractEventLoop) -> None:
        """Wait for room on the channel: back-pressure from learning to fetching."""
        put = asyncio.run_coroutine_threadsafe(self._channel.put(batch), event_loop)
        while not self.should_stop:
            try:
                put.result(timeout=0.5)
                return
            except concurrent.futures.TimeoutError:
                continue
        put.cancel()


def _is_expected(error: Exception) -> bool:
    """Whether the text of an error says all there is to say."""
    return type(error).__module__.startswith("streamlearn.")
