"""The way of batches from the polling thread to the learning agent, which Faust must not clear."""

from typing import Any

import faust
from mode.utils.queues import FlowControlEvent, ThrowableQueue


class BatchChannel(faust.Channel[Any]):
    """A channel that Faust's own rebalances, those of its consumer of the control topic, neither empty nor stop.

    Faust empties the queues of its channels then, because it would fetch their events again; ours are fetched again by nobody. Use `put`:
    what `send` sends is skipped when such a rebalance comes in between.
    """

    @property
    def queue(self) -> ThrowableQueue[Any]:
        """The buffer of a subscriber."""
        if self._queue is None:
            always = FlowControlEvent(initially_suspended=False)
            self._queue = ThrowableQueue(maxsize=self.maxsize or 1, flow_control=always)
        return self._queue

    async def put(self, value: Any) -> None:
        """Wait for room and add a batch."""
        await super().put(value)
