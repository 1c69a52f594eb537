"""The streams that chaos runs on, three learners of different families, and a publisher that goes on whatever happens."""

import json
import threading
from types import TracebackType
from typing import Any, Self

import numpy as np
from confluent_kafka import Producer

from streamlearn.config import Config

PARTITIONS = 3
KEYS = 350  # per partition and stream
BROKEN = (b"", b"{", b'{"x": [1, 2]}', b'{"x": [1, 2, 3, NaN]}', b'{"x": [1, 2, 3, 4], "key": "a", "label": {}}', b'{"x": [1, 2, 3, 4]}')
BURST = 0.05  # seconds


def streams() -> list[dict[str, Any]]:
    """Random features, a budget with generator state and classes that arrive, and variance reduction with a memory.

    The models of the first are all in memory. Those of the second are mostly on disk and come back for nearly every event, those of the
    third go there when they have been idle.
    """
    common = {"key": "key", "array": "x", "dim": 4}
    return [
        {**common, "name": "fogd", "learner": {"name": "fogd", "frequencies": 16}},
        {**common, "name": "rbp", "task": "multiclass", "learner": {"name": "rbp", "budget": 6}, "memory": {"max_models": 20}},
        {
            **common,
            "name": "dualsvrg",
            "scaling": "none",
            "learner": {"name": "dualsvrg", "budget": 4, "frequencies": 8, "memory": 5, "period": 7},
            "memory": {"idle": 1.0},
        },
    ]


class Traffic:
    """Publishes random events at a rate: one in twenty without a label, one in a hundred broken. Stops on exit, all delivered."""

    def __init__(self, config: Config, rate: float, seed: int) -> None:
        """rate: events per second over all streams."""
        self._config = config
        self._rate = rate
        self._generator = np.random.default_rng(seed)
        # Idempotent, and patient enough for any pause of the broker.
        self._producer = Producer(
            {
                "bootstrap.servers": config.kafka.bootstrap, "enable.idempotence": True, "linger.ms": 5, "delivery.timeout.ms": 300_000,
                "log_level": 0,
            }
        )  # fmt: skip
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traffic", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stopped.set()
        self._thread.join()
        if self._producer.flush(60):
            raise TimeoutError("the broker did not take all events")

    def _run(self) -> None:
        while not self._stopped.wait(BURST):
            for _ in range(self._generator.poisson(self._rate * BURST)):
                self._publish()
            self._producer.poll(0)

    def _publish(self) -> None:
        generator = self._generator
        stream = self._config.streams[generator.integers(len(self._config.streams))]
        partition, number = generator.integers(PARTITIONS), generator.integers(KEYS)
        key = f"{partition}-{number}"
        value = json.dumps(self._event(key, stream.name)).encode()
        if generator.random() < 0.01:
            value = BROKEN[generator.integers(len(BROKEN))]
        self._producer.produce(stream.input_topic, value, key.encode(), int(partition))

    def _event(self, key: str, stream: str) -> dict[str, Any]:
        x = self._generator.normal(size=4)
        event: dict[str, Any] = {"key": key, "x": x.tolist()}
        if self._generator.random() >= 0.05:
            wave = np.sin(2 * x.sum())
            event["label"] = f"class {int(2 * wave + 2)}" if stream == "rbp" else int(np.sign(wave) or 1)
        return event
