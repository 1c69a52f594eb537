"""What a Faust user would write: the same learner in a Faust agent. `python -m benchmarks.faust_peer SETTINGS`.

`event`: one event at a time, the prediction sent by Faust. `take`: a thousand at a time, predictions sent by confluent-kafka. Neither is
exactly once.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import faust
import msgspec
import numpy as np
from confluent_kafka import Producer

from streamlearn.config import StreamConfig
from streamlearn.events.decode import Decoder
from streamlearn.events.encode import Encoder
from streamlearn.processor import Processor


class Settings(msgspec.Struct, frozen=True):
    """One run."""

    bootstrap: str
    app: str
    source: str
    target: str
    mode: Literal["event", "take"]
    stream: dict[str, Any]  # the table of the stream, as in a worker's configuration


class Learning:
    """Decode, predict and learn, encode: the worker's own parts."""

    def __init__(self, config: StreamConfig) -> None:
        self._decoder = Decoder(config.event_format(), np.float32)
        self._processor = Processor(config.model_spec(self._decoder.dim, "float32"))
        self._encoder = Encoder(config.encoding, "fogd", "0")
        self._topic = config.input_topic

    def handle(self, values: Sequence[bytes], offsets: Sequence[int]) -> list[bytes]:
        events, _ = self._decoder.decode(values, [None] * len(values), [0.0] * len(values))
        predictions = self._processor.process(events)
        return self._encoder.encode(events, predictions, self._topic, 0, offsets)


def application(settings: Settings) -> faust.App:
    learning = Learning(StreamConfig(**settings.stream))
    app = faust.App(
        settings.app, broker=f"kafka://{settings.bootstrap}", consumer_auto_offset_reset="earliest", topic_disable_leader=True,
        topic_allow_declare=False, web_enabled=False, store="memory://", worker_redirect_stdouts=False, stream_wait_empty=False,
    )  # fmt: skip
    raw: dict[str, Any] = {"value_type": bytes, "value_serializer": "raw", "key_type": bytes, "key_serializer": "raw"}
    source, target = app.topic(settings.source, **raw), app.topic(settings.target, **raw)
    if settings.mode == "event":

        @app.agent(source)
        async def learn_each(stream: Any) -> None:
            async for event in stream.events():
                (value,) = learning.handle([event.value], [event.message.offset])
                await target.send(key=event.key, value=value)
    else:
        producer = Producer({"bootstrap.servers": settings.bootstrap, "linger.ms": 5, "compression.type": "lz4"})

        @app.agent(source)
        async def learn_many(stream: Any) -> None:
            async for events in stream.take_events(1000, within=0.1):
                for value in learning.handle([event.value for event in events], [event.message.offset for event in events]):
                    producer.produce(settings.target, value)
                producer.poll(0)

    return app


if __name__ == "__main__":
    running = application(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Settings))
    worker = faust.Worker(running, loglevel="warn", redirect_stdouts=False, quiet=True)
    worker.spinner = None
    worker.execute_from_commandline()
