"""Every metric of streamlearn: the catalogue, and the instruments that a worker fills, once per batch and never per event.

`python -m streamlearn.metrics` prints the catalogue as the page docs/metrics.md.
"""

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

PREFIX = "streamlearn_"

STREAM = ("stream",)
PARTITION = ("stream", "partition")
MODELS = ("stream", "learner", "partition")

FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
FASTER = (0.0001, 0.00025, 0.0005, *FAST[:-3])
SLOWER = (*FAST, 30.0, 60.0, 300.0, 1800.0, 3600.0)
SIZES = (1.0, 10.0, 100.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0, 100000.0)  # events


class Kind(StrEnum):
    """How Prometheus reads a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Stage(StrEnum):
    """What a worker spends its time on."""

    CONSUME = "consume"
    DECODE = "decode"
    ROUTE = "route"
    KERNEL = "kernel"
    ENCODE = "encode"
    PRODUCE = "produce"
    COMMIT = "commit"


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the catalogue. The name lacks the prefix; `buckets` are the upper bounds of a histogram, in its unit."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    meaning: str
    remedy: str  # what to do when it is wrong
    buckets: tuple[float, ...] = ()


CATALOGUE = (
    Metric(
        "events_total", Kind.COUNTER, MODELS,
        "Events whose prediction was committed.",
        "Standing still while consumer_lag_events is above 0: the worker is stuck; look at ready, transactions_total and its log.",
    ),
    Metric(
        "learned_events_total", Kind.COUNTER, MODELS,
        "Committed events that had a label, and so were learned.",
        "Far below events_total: labels are missing; check the stream's `label` setting against the events.",
    ),
    Metric(
        "mistakes_total", Kind.COUNTER, MODELS,
        "Learned events whose prediction, made before learning, differed from the label.",
        "Divide its rate by that of learned_events_total; if that rises, see windowed_mistake_rate.",
    ),
    Metric(
        "measured_events", Kind.GAUGE, MODELS,
        "Labelled events behind mistake_rate, those before a restart included: the weight for averages over partitions.",
        "Falling without a reset of the models: they were lost; look for recovery_lost_events_total and the worker's log.",
    ),
    Metric(
        "mistake_rate", Kind.GAUGE, MODELS,
        "Share of mistakes, 0 to 1, over all labelled events so far.",
        "Not below majority_class_mistake_rate: the model learns nothing; check features, label and scaling, or try another learner.",
    ),
    Metric(
        "windowed_mistake_rate", Kind.GAUGE, MODELS,
        "Share of mistakes, 0 to 1, over the most recent labelled events.",
        "Rising above mistake_rate: the events have changed; compare their fields with those of better days, and check the publisher.",
    ),
    Metric(
        "majority_class_mistake_rate", Kind.GAUGE, MODELS,
        "Share of mistakes, 0 to 1, of always answering the most frequent label: what any model must beat.",
        "Changing suddenly: the mix of labels has changed; ask whoever publishes them.",
    ),
    Metric(
        "models", Kind.GAUGE, MODELS,
        "Models in memory, one per key.",
        "Growing without end: keys are unbounded; choose another key or bound the number of models.",
    ),
    Metric(
        "model_bytes", Kind.GAUGE, MODELS,
        "Memory of the models' arrays in bytes.",
        "Near the worker's memory limit: add workers, use float32, or choose a smaller budget or fewer Fourier features.",
    ),
    Metric(
        "models_spilled", Kind.GAUGE, MODELS,
        "Models on disk, evicted from memory until their key returns.",
        "Filling the folder of temporary files: give it more room, or add workers.",
    ),
    Metric(
        "model_evictions_total", Kind.COUNTER, MODELS,
        "Models that were moved from memory to disk.",
        "Nearly as many as events_total: memory is too small for the keys in use; raise memory.max_models, or add workers.",
    ),
    Metric(
        "model_returns_total", Kind.COUNTER, MODELS,
        "Models that came back from disk because their key did.",
        "Nearly as many as events_total: see model_evictions_total.",
    ),
    Metric(
        "consumer_lag_events", Kind.GAUGE, PARTITION,
        "Events in the input partition that are not committed yet.",
        "Growing: the worker is too slow (see stage_seconds_total) or stuck; add workers up to the number of partitions.",
    ),
    Metric(
        "event_latency_seconds", Kind.HISTOGRAM, STREAM,
        "From an event's time to the commit of its prediction. Events whose time lies in the future count as 0.",
        "High without lag: shorten commit_interval, or the publisher is late. High with lag: see consumer_lag_events.",
        SLOWER,
    ),
    Metric(
        "batch_processing_seconds", Kind.HISTOGRAM, STREAM,
        "Time to decode, predict, learn and encode one batch.",
        "High for the batch size: see which stage of stage_seconds_total grew; the machine may be overcommitted.",
        FASTER,
    ),
    Metric(
        "batch_events", Kind.HISTOGRAM, STREAM,
        "Events in one batch.",
        "Always at batch_size: the worker is catching up. Near 1 at a high rate: polls return too early; raise fetch.wait.max.ms.",
        SIZES,
    ),
    Metric(
        "dead_letters_total", Kind.COUNTER, ("stream", "reason"),
        "Events that could not be decoded, committed to the dead-letter topic, by reason.",
        "Any increase: read the dead-letter topic; its headers name the field, the value, and where the event came from.",
    ),
    Metric(
        "transactions_total", Kind.COUNTER, ("outcome",),
        "Kafka transactions, by outcome: committed or aborted.",
        "Aborted ones rising: the broker is slow or restarts, or transaction.timeout.ms is too short; the worker's log has the cause.",
    ),
    Metric(
        "commit_seconds", Kind.HISTOGRAM, (),
        "Time to commit one transaction.",
        "High: the broker's disk, replication or network is slow; look at the broker's request metrics.",
        FAST,
    ),
    Metric(
        "rebalances_total", Kind.COUNTER, ("reason",),
        "Changes of the partitions that this worker owns: assigned, revoked or lost.",
        "Frequent: workers restart, or miss max.poll.interval.ms. Lost: the worker was away longer than session.timeout.ms.",
    ),
    Metric(
        "stage_seconds_total", Kind.COUNTER, ("stage",),
        f"Time spent per stage: {', '.join(Stage)}.",
        "The largest share is where more speed would come from. Mostly consume: the worker waits for events, which is well.",
    ),
    Metric(
        "recovery_events", Kind.GAUGE, PARTITION,
        "Events that the recovery of this partition has to learn again in all.",
        "Large: checkpoints are too rare for the stream's rate; shorten their interval.",
    ),
    Metric(
        "recovery_replayed_events", Kind.GAUGE, PARTITION,
        "Events that the recovery of this partition has learned again so far; done when equal to recovery_events.",
        "Standing still below recovery_events: the input topic cannot be read; see the worker's log.",
    ),
    Metric(
        "recovery_lost_events_total", Kind.COUNTER, PARTITION,
        "Events that a recovery needed and retention had already deleted: the models have not learned them.",
        "Any increase: lengthen the retention of the input topic beyond the checkpoint interval and the longest stop of the workers.",
    ),
    Metric(
        "checkpoint_records_total", Kind.COUNTER, PARTITION,
        "Records written to the models topic.",
        "Near the number of models at every checkpoint: all keys change each time; a longer interval saves traffic.",
    ),
    Metric(
        "checkpoint_bytes_total", Kind.COUNTER, PARTITION,
        "Bytes written to the models topic, before the producer's compression.",
        "Comparable to the traffic of the predictions: lengthen the checkpoint interval.",
    ),
    Metric(
        "checkpoint_timestamp_seconds", Kind.GAUGE, PARTITION,
        "When the latest checkpoint of this partition was written, in seconds since 1970; its age is `time()` minus this.",
        "Much older than the checkpoint interval: checkpoints fail, and a recovery would be long; see the worker's log.",
    ),
    Metric(
        "checkpoint_seconds", Kind.HISTOGRAM, STREAM,
        "Time to encode one partition's checkpoint and hand it to the producer.",
        "High: the models are large; lengthen the interval, or spread the partitions over more workers.",
        FAST,
    ),
    Metric(
        "ready", Kind.GAUGE, (),
        "1 when the worker has compiled its kernels, owns its partitions and has recovered their models, else 0.",
        "0 for minutes: compare recovery_replayed_events with recovery_events; without partitions, there are more workers than partitions.",
    ),
    Metric(
        "build_info", Kind.GAUGE, ("version", "stream", "learner"),
        "Always 1; the labels say which version runs which learner.",
        "More than one version for long: a roll-out has stopped half-way.",
    ),
)  # fmt: skip

Labels = tuple[str, ...]


class _Observed:
    """One series of a histogram: how many values fell into each bucket, the last one unbounded, and their sum."""

    __slots__ = ("counts", "sum")

    def __init__(self, buckets: int) -> None:
        self.counts: NDArray[np.int64] = np.zeros(buckets + 1, np.int64)
        self.sum = 0.0


class _Instrument:
    """All series of one metric, by label values. Not thread-safe by itself."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self._bounds = np.array(metric.buckets)
        self._values: dict[Labels, float] = {}
        self._observed: dict[Labels, _Observed] = {}

    def add(self, labels: Labels, amount: float) -> None:
        self._values[labels] = self._values.get(labels, 0.0) + amount

    def set(self, labels: Labels, value: float) -> None:
        self._values[labels] = value

    def observe(self, labels: Labels, values: NDArray[np.float64]) -> None:
        """Count finite values >= 0; a value on a bound belongs to the bucket below it."""
        series = self._observed.setdefault(labels, _Observed(len(self._bounds)))
        series.counts += np.bincount(np.searchsorted(self._bounds, values, side="left"), minlength=len(series.counts))
        series.sum += float(values.sum())

    def remove(self, wanted: Mapping[str, str]) -> None:
        """Forget the series that carry all of these label values; none if the metric lacks one of the labels."""
        if not wanted.keys() <= set(self.metric.labels):
            return
        positions = [(self.metric.labels.index(label), value) for label, value in wanted.items()]
        for series in (self._values, self._observed):
            for labels in [known for known in series if all(known[position] == value for position, value in positions)]:
                del series[labels]

    def family(self) -> Family:
        """A copy of all series, as prometheus_client writes them."""
        name, meaning, labels = PREFIX + self.metric.name, self.metric.meaning, self.metric.labels
        if self.metric.kind is Kind.HISTOGRAM:
            histogram = HistogramMetricFamily(name, meaning, labels=labels)
            for values, series in self._observed.items():
                histogram.add_metric(values, self._cumulated(series), series.sum)
            return histogram
        kind = CounterMetricFamily if self.metric.kind is Kind.COUNTER else GaugeMetricFamily
        family = kind(name, meaning, labels=labels)
        for values, value in self._values.items():
            family.add_metric(values, value)
        return family

    def _cumulated(self, series: _Observed) -> list[tuple[str, float]]:
        bounds = [*map(repr, self.metric.buckets), "+Inf"]
        return list(zip(bounds, np.cumsum(series.counts).tolist(), strict=True))


class Metrics(Collector):
    """The metrics of one worker, in a registry of their own. Thread-safe: a scrape sees every call whole or not at all.

    What a batch did is counted when its transaction is committed, so the counters agree with what the output topics hold.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._lock = threading.Lock()
        self._instruments = {metric.name: _Instrument(metric) for metric in CATALOGUE}
        self._uncommitted_counts: list[tuple[str, Labels, float]] = []
        self._uncommitted_times: list[tuple[str, NDArray[np.float64]]] = []
        self.registry.register(self)
        ProcessCollector(registry=self.registry)
        for outcome in ("committed", "aborted"):
            self._add("transactions_total", (outcome,), 0)
        for stage in Stage:
            self._add("stage_seconds_total", (stage,), 0)
        self.ready(False)

    def collect(self) -> Iterator[Family]:
        """All families, of one moment."""
        with self._lock:
            families = [instrument.family() for instrument in self._instruments.values()]
        return iter(families)

    # The worker.

    def build(self, version: str, stream: str, learner: str) -> None:
        """Say which version runs which learner; call at the start, for each stream."""
        self._set("build_info", (version, stream, learner), 1)

    def ready(self, is_ready: bool) -> None:
        self._set("ready", (), float(is_ready))

    def rebalanced(self, reason: Literal["assigned", "revoked", "lost"]) -> None:
        self._add("rebalances_total", (reason,), 1)

    def spent(self, stage: Stage, seconds: float) -> None:
        """Add to the time of a stage."""
        self._add("stage_seconds_total", (stage,), seconds)

    @contextmanager
    def timed(self, stage: Stage) -> Iterator[None]:
        """Add the time of the block to a stage."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.spent(stage, time.perf_counter() - start)

    # Batches and their transaction.

    def batch(self, stream: str, times: ArrayLike, reasons: Sequence[str], seconds: float) -> None:
        """A batch of one partition was processed.

        times: event times [n] of the decoded events, seconds since 1970; those that are not finite are left out.
        reasons: why each of the others was rejected. seconds: how long decoding, learning and encoding took.
        """
        times = np.asarray(times, np.float64)
        self._observe("batch_processing_seconds", (stream,), seconds)
        self._observe("batch_events", (stream,), len(times) + len(reasons))
        with self._lock:
            self._uncommitted_times.append((stream, times[np.isfinite(times)]))
            self._uncommitted_counts += [("dead_letters_total", (stream, reason), count) for reason, count in Counter(reasons).items()]

    def learned(self, stream: str, learner: str, partition: int, events: int, labelled: int, mistakes: int) -> None:
        """The models of one learner predicted `events`, learned the `labelled` ones and had `mistakes` among those."""
        labels = (stream, learner, str(partition))
        with self._lock:
            self._uncommitted_counts += [
                ("events_total", labels, events), ("learned_events_total", labels, labelled), ("mistakes_total", labels, mistakes),
            ]  # fmt: skip

    def committed(self, seconds: float, now: float) -> None:
        """The open transaction was committed at `now` (seconds since 1970), which took `seconds`: what it held counts from here on."""
        with self._lock:
            for name, labels, amount in self._uncommitted_counts:
                self._instruments[name].add(labels, amount)
            for stream, times in self._uncommitted_times:
                self._instruments["event_latency_seconds"].observe((stream,), np.maximum(now - times, 0.0))
            self._drop_uncommitted()
            self._instruments["transactions_total"].add(("committed",), 1)
            self._instruments["commit_seconds"].observe((), np.array([seconds]))

    def aborted(self) -> None:
        """The open transaction was aborted: its batches will be processed again."""
        with self._lock:
            self._drop_uncommitted()
            self._instruments["transactions_total"].add(("aborted",), 1)

    # State of a partition.

    def quality(
        self, stream: str, learner: str, partition: int, *, measured: int, mistake_rate: float, windowed: float, majority: float
    ) -> None:
        """Rates, 0 to 1, over `measured` labelled events; see mistake_rate, windowed_mistake_rate and majority_class_mistake_rate.

        Nothing is shown before the first labelled event.
        """
        if measured == 0:
            return
        labels = (stream, learner, str(partition))
        with self._lock:
            self._instruments["measured_events"].set(labels, measured)
            self._instruments["mistake_rate"].set(labels, mistake_rate)
            self._instruments["windowed_mistake_rate"].set(labels, windowed)
            self._instruments["majority_class_mistake_rate"].set(labels, majority)

    def models(self, stream: str, learner: str, partition: int, count: int, size: int) -> None:
        """Models in memory, and their size in bytes."""
        labels = (stream, learner, str(partition))
        self._set("models", labels, count)
        self._set("model_bytes", labels, size)

    def spilled(self, stream: str, learner: str, partition: int, count: int, evictions: int, returns: int) -> None:
        """Models on disk, and how many were evicted and came back since the last call."""
        labels = (stream, learner, str(partition))
        with self._lock:
            self._instruments["models_spilled"].set(labels, count)
            self._instruments["model_evictions_total"].add(labels, evictions)
            self._instruments["model_returns_total"].add(labels, returns)

    def lag(self, stream: str, partition: int, events: int) -> None:
        self._set("consumer_lag_events", (stream, str(partition)), events)

    def recovering(self, stream: str, partition: int, events: int, replayed: int) -> None:
        """A recovery has learned `replayed` of `events` again; equal when it is done."""
        labels = (stream, str(partition))
        with self._lock:
            self._instruments["recovery_events"].set(labels, events)
            self._instruments["recovery_replayed_events"].set(labels, replayed)

    def lost(self, stream: str, partition: int, events: int) -> None:
        """A recovery went on without `events` that retention had deleted."""
        self._add("recovery_lost_events_total", (stream, str(partition)), events)

    def checkpointed(self, stream: str, partition: int, records: int, size: int, seconds: float, now: float) -> None:
        """A checkpoint of `size` bytes in `records` was written at `now` (seconds since 1970) and took `seconds`."""
        labels = (stream, str(partition))
        with self._lock:
            self._instruments["checkpoint_records_total"].add(labels, records)
            self._instruments["checkpoint_bytes_total"].add(labels, size)
            self._instruments["checkpoint_timestamp_seconds"].set(labels, now)
            self._instruments["checkpoint_seconds"].observe((stream,), np.array([seconds]))

    def remove_partition(self, stream: str, partition: int) -> None:
        """Forget all series of a partition that this worker no longer owns. Commit or abort its transaction first."""
        with self._lock:
            for instrument in self._instruments.values():
                instrument.remove({"stream": stream, "partition": str(partition)})

    def _add(self, name: str, labels: Labels, amount: float) -> None:
        with self._lock:
            self._instruments[name].add(labels, amount)

    def _set(self, name: str, labels: Labels, value: float) -> None:
        with self._lock:
            self._instruments[name].set(labels, value)

    def _observe(self, name: str, labels: Labels, value: float) -> None:
        with self._lock:
            self._instruments[name].observe(labels, np.array([value], np.float64))

    def _drop_uncommitted(self) -> None:
        self._uncommitted_counts.clear()
        self._uncommitted_times.clear()


def documentation() -> str:
    """The catalogue as a Markdown page."""
    rows = "\n".join(_row(metric) for metric in CATALOGUE)
    return f"""# Metrics

<!-- Made by `python -m streamlearn.metrics > docs/metrics.md`; change streamlearn/metrics.py, not this page. -->

A worker serves these in the Prometheus format at `/metrics` ([operations](operations.md)). Times are in seconds, sizes in bytes, rates of
mistakes from 0 to 1. Counters restart at 0 with the worker, and the series of a partition end when the worker gives it up: use `rate()` or
`increase()`. No label carries a key of an event, so the number of series depends on streams, learners and partitions alone. Beside these
there are the customary `process_` metrics (memory, CPU time, open files).

| Metric | Type | Labels | Meaning | What to do when it is wrong |
|---|---|---|---|---|
{rows}
"""


def _row(metric: Metric) -> str:
    labels = ", ".join(metric.labels) or "-"
    buckets = f" Buckets: {', '.join(f'{bound:g}' for bound in metric.buckets)}." if metric.buckets else ""
    return f"| `{PREFIX}{metric.name}` | {metric.kind} | {labels} | {metric.meaning}{buckets} | {metric.remedy} |"


if __name__ == "__main__":
    sys.stdout.write(documentation())
