"""The worker on a real broker and the backtest of a file give the same scores, bit for bit."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from workers import Application, Workers

from streamlearn.evaluation import backtest
from streamlearn.events.columns import Events, Predictions
from streamlearn.events.decode import Decoder
from streamlearn.events.files import EventFile
from streamlearn.kafka.local_broker import LocalBroker
from streamlearn.processor import Processor
from streamlearn.publish import publish_events

pytestmark = pytest.mark.integration

ROWS, DIM, ACTIVE = 6000, 123, 14


def write_libsvm(path: Path, seed: int) -> None:
    """Rows in the style of the data set a9a: 14 of 123 binary features each, labels -1 and +1, noisy."""
    generator = np.random.default_rng(seed)
    weights = generator.normal(size=DIM)
    with path.open("w") as file:
        for _ in range(ROWS):
            active = np.sort(generator.choice(DIM, ACTIVE, replace=False))
            label = "+1" if weights[active].sum() + generator.normal() > 2 else "-1"
            file.write(f"{label} {' '.join(f'{index + 1}:1' for index in active)}\n")


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Predictions]]:
    """What the processors of backtests predict."""
    predictions: list[Predictions] = []
    process = Processor.process

    def record(processor: Processor, events: Events) -> Predictions:
        predictions.append(process(processor, events))
        return predictions[-1]

    monkeypatch.setattr(Processor, "process", record)
    yield predictions


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scores_are_bit_identical(
    broker: LocalBroker, unique: Callable[[str], str], tmp_path: Path, workers: Workers, recorded: list[Predictions], dtype: str
) -> None:
    path = tmp_path / "rows.libsvm"
    write_libsvm(path, seed=3)
    table = {"name": unique("rows"), "array": "x", "dim": DIM, "learner": {"name": "fogd", "frequencies": 200, "sigma": 4.0}}
    worker = {"dtype": dtype, "batch_size": 777}
    application = Application(broker.bootstrap, tmp_path, unique("app"), [table], worker=worker)
    stream = application.stream

    process = workers.start(application.file)
    with EventFile(path) as events:
        assert publish_events(events, stream, application.config.kafka.client_properties()) == ROWS
    application.await_end()
    assert process.stop() == 0
    [predictions] = application.output().values()
    published = [json.loads(message.value() or b"") for message in predictions]

    decoder = Decoder(stream.event_format(), np.dtype(dtype))
    measures = backtest.backtest_file(stream.model_spec(decoder.dim, dtype), decoder, stream.encoding, path)
    scores = np.concatenate([batch.scores[:, 0] for batch in recorded if len(batch.scores) > 2])  # without the compiling example
    assert [prediction["score"] for prediction in published] == scores.tolist()
    assert sum(prediction["mistake"] for prediction in published) == measures.mistakes
    assert len(set(scores.tolist())) > ROWS / 2
