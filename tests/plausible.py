"""Calls that a healthy worker could have made: every metric of the catalogue gets a value."""

from collections.abc import Sequence

import numpy as np

from streamlearn.metrics import Metrics, Stage


def fill(metrics: Metrics, partitions: Sequence[int] = (0, 1), now: float = 1_000_000.0) -> None:
    """One committed transaction with a batch of every partition. Call it again and the counters grow."""
    metrics.build("0.1.0", "flights", "fogd")
    metrics.ready(True)
    metrics.rebalanced("assigned")
    for partition in partitions:
        metrics.recovering("flights", partition, events=500, replayed=500)
        metrics.lost("flights", partition, 0)
        metrics.batch("flights", now - np.linspace(0.002, 0.2, 1000), ["malformed", "label"], seconds=0.012)
        metrics.learned("flights", "fogd", partition, events=1000, labelled=990, mistakes=93)
        metrics.models("flights", "fogd", partition, count=16, size=16 * 3200)
        metrics.spilled("flights", "fogd", partition, count=84, evictions=100, returns=16)
        metrics.quality("flights", "fogd", partition, measured=9900, mistake_rate=0.094, windowed=0.09, majority=0.229)
        metrics.lag("flights", partition, 40)
        metrics.checkpointed("flights", partition, records=17, size=52_000, seconds=0.004, now=now)
    for stage in Stage:
        metrics.spent(stage, 0.003)
    metrics.committed(seconds=0.006, now=now)
