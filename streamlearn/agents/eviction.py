"""Which models leave memory: those beyond the limit, and those whose keys have been silent. The only clock of eviction."""

import time
from collections import deque
from collections.abc import Callable

from streamlearn.config import MemoryConfig
from streamlearn.routing import Router

_LOOKS = 16  # per idle time


class Eviction:
    """Keeps the models of one partition within its memory settings.

    Eviction never changes a bit of any model, so replay does not depend on what this clock said.
    """

    def __init__(self, settings: MemoryConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._idle = settings.idle
        self._clock = clock
        self._looks: deque[tuple[float, int]] = deque()  # when, and what the router counted then

    def run(self, router: Router) -> None:
        """Call after each batch. Raises SpillError."""
        router.trim()
        if self._idle is not None:
            self._evict_idle(router, self._idle)

    def _evict_idle(self, router: Router, idle: float) -> None:
        now, since = self._clock(), None
        if self._looks and now - self._looks[-1][0] < idle / _LOOKS:
            return
        self._looks.append((now, router.now))
        while self._looks and now - self._looks[0][0] >= idle:
            since = self._looks.popleft()[1]
        if since is not None:
            router.evict_unused(since)
