"""What the demo measures, from nothing but the records of the two topics: each prediction is joined to its event by offset."""

import math
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np

WINDOW = 5000  # events of the recent rates and the live latency
LATE_DEPARTURE = 20.0  # minutes: of all thresholds on the departure delay, the one with the fewest mistakes on the bundled flights
SPEED_SPAN = 2.0  # seconds over which the present speed is taken


class Flight(msgspec.Struct):
    """The fields of an event that a judge needs."""

    carrier: str
    dep_delay: float  # minutes
    late: bool


class Prediction(msgspec.Struct):
    """The fields of a prediction record that a judge needs; the record's own opinion of its mistake is not one."""

    partition: int
    offset: int
    prediction: bool


class Place(NamedTuple):
    """Where an event stands."""

    partition: int
    offset: int


class Verdict(NamedTuple):
    """Who was wrong about one flight."""

    model: bool
    rule: bool  # late if it departs more than LATE_DEPARTURE minutes late
    majority: bool  # never late


class Rates(NamedTuple):
    """Share of wrong predictions of `flights` flights; NaN where there are none."""

    flights: int
    model: float
    rule: float
    majority: float


class Latency(NamedTuple):
    """Seconds from publishing an event to reading its prediction."""

    median: float
    p99: float


@dataclass(slots=True)
class Tally:
    """Running counts of wrong predictions."""

    flights: int = 0
    model: int = 0
    rule: int = 0
    majority: int = 0

    def add(self, verdict: Verdict) -> None:
        self.flights += 1
        self.model += verdict.model
        self.rule += verdict.rule
        self.majority += verdict.majority

    def rates(self) -> Rates:
        n = self.flights or math.nan
        return Rates(self.flights, self.model / n, self.rule / n, self.majority / n)


class Measures:
    """All figures of a run. Times are seconds since 1970."""

    def __init__(self) -> None:
        self.predictions = 0  # read, each as often as it was read
        self.tally = Tally()
        self.carriers: dict[str, Tally] = {}
        self._flights: dict[Place, tuple[Flight, float]] = {}  # with the time of publishing
        self._early: dict[Place, tuple[bool, float]] = {}  # predictions read before their event
        self._read: Counter[Place] = Counter()
        self._recent: deque[Verdict] = deque(maxlen=WINDOW)
        self._latencies: list[float] = []
        self._progress: deque[tuple[float, int]] = deque()

    def event(self, place: Place, value: bytes, published: float) -> None:
        """An event was read from the input topic. Raises msgspec.MsgspecError if it is no flight."""
        flight = msgspec.json.decode(value, type=Flight)
        self._flights[place] = flight, published
        early = self._early.pop(place, None)
        if early is not None:
            self._judge(flight, published, *early)

    def prediction(self, value: bytes, read: float) -> None:
        """A prediction was read from the output topic. Raises msgspec.MsgspecError if it is no prediction."""
        record = msgspec.json.decode(value, type=Prediction)
        place = Place(record.partition, record.offset)
        self.predictions += 1
        self._read[place] += 1
        if self._read[place] > 1:
            return
        if place in self._flights:
            self._judge(*self._flights[place], record.prediction, read)
        else:
            self._early[place] = record.prediction, read

    @property
    def events(self) -> int:
        """Different events read."""
        return len(self._flights)

    @property
    def predicted(self) -> int:
        """Different events that a prediction was read of."""
        return len(self._read)

    @property
    def missing(self) -> int:
        """Events without a prediction."""
        return len(self._flights.keys() - self._read.keys())

    @property
    def doubled(self) -> int:
        """Predictions too many: a second one for the same event, or one for an event that does not exist."""
        return self.predictions - self.predicted + len(self._read.keys() - self._flights.keys())

    def recent(self) -> Rates:
        """Rates of the last WINDOW flights."""
        tally = Tally()
        for verdict in self._recent:
            tally.add(verdict)
        return tally.rates()

    def largest_carriers(self, count: int) -> list[tuple[str, Rates]]:
        """Those with the most flights, and how their models do."""
        largest = sorted(self.carriers.items(), key=lambda item: (-item[1].flights, item[0]))[:count]
        return [(carrier, tally.rates()) for carrier, tally in largest]

    def latency(self, last: int | None = None) -> Latency:
        """Of the last predictions, or of all."""
        return _latency(self._latencies[-last:] if last else self._latencies)

    def speed(self, now: float) -> float:
        """Predictions per second lately; to be asked regularly."""
        self._progress.append((now, self.predicted))
        while len(self._progress) > 2 and now - self._progress[1][0] >= SPEED_SPAN:
            self._progress.popleft()
        since, before = self._progress[0]
        return (self.predicted - before) / (now - since) if now > since else 0.0

    def _judge(self, flight: Flight, published: float, predicted: bool, read: float) -> None:
        verdict = Verdict(predicted != flight.late, (flight.dep_delay > LATE_DEPARTURE) != flight.late, flight.late)
        self.tally.add(verdict)
        self.carriers.setdefault(flight.carrier, Tally()).add(verdict)
        self._recent.append(verdict)
        self._latencies.append(read - published)


def _latency(seconds: Iterable[float]) -> Latency:
    values = np.fromiter(seconds, np.float64)
    if not len(values):
        return Latency(math.nan, math.nan)
    median, p99 = np.percentile(values, [50, 99])
    return Latency(float(median), float(p99))
