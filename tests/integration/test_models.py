"""Models in the hands of people: looked at, exported, imported, put back and deleted while workers run, and away from memory."""

import itertools
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Message
from recompute import Published, decoded, offset_of
from typer.testing import CliRunner
from workers import GroupWatcher, Record, Workers, eventually, make_topics, publish, read_topic, write_config

from streamlearn.cli import app
from streamlearn.config import Config, StreamConfig
from streamlearn.events.decode import Decoder
from streamlearn.kafka.local_broker import LocalBroker
from streamlearn.models.errors import ModelsError
from streamlearn.processor import Processor
from streamlearn.warm import compile_config

pytestmark = pytest.mark.integration

PARTITIONS = 2
Row = dict[str, Any]


class Application:
    """Two streams with the same learner on the shared broker, and the command line."""

    def __init__(self, broker: LocalBroker, app_name: str, folder: Path, memory: Mapping[str, Any] | None = None) -> None:
        self.bootstrap = broker.bootstrap
        stream = {
            "key": "user",
            "label": "clicked",
            "labels": [False, True],
            "numeric": ["age", "price"],
            "learner": {"name": "fogd", "frequencies": 20},
            **({"memory": memory} if memory else {}),
        }
        tables: dict[str, Any] = {
            "app": app_name,
            "kafka": {
                "bootstrap": broker.bootstrap,
                "consumer": {"session.timeout.ms": 2000, "heartbeat.interval.ms": 200},
                "producer": {"transaction.timeout.ms": 4000},
            },
            "metrics": {"port": 0},
            "checkpoint": {"interval": 0.3, "history": 50},
            "streams": [{"name": f"old-{app_name}", **stream}, {"name": f"new-{app_name}", **stream}],
        }
        self.config = Config(**tables)
        self.old, self.new = self.config.streams
        self.file = write_config(folder / "streamlearn.toml", tables)
        make_topics(self.config, PARTITIONS)
        compile_config(self.config)  # a worker that compiles takes longer than tests wait

    def publish(self, stream: StreamConfig, events: Sequence[Row]) -> None:
        """Publish events and wait until they are learned and checkpointed."""
        publish(self.bootstrap, stream.input_topic, records(events))
        with GroupWatcher(self.bootstrap, self.config.app) as group:
            group.await_end([stream.input_topic])
            committed = group.committed(stream.input_topic)
        eventually(lambda: self.offsets(stream) == committed, "checkpoints of all that was learned")

    def run(self, *arguments: str, stream: StreamConfig | None = None) -> str:
        """The output of a `models` command. Raises what it raised."""
        result = self.attempt(*arguments, stream=stream)
        assert result[0] == 0, result[1]
        return result[1]

    def attempt(self, *arguments: str, stream: StreamConfig | None = None) -> tuple[int, str]:
        """Exit code and output of a `models` command."""
        name = (stream or self.old).name
        result = CliRunner().invoke(app, ["models", *arguments, "--stream", name, "--config", str(self.file)], catch_exceptions=False)
        return result.exit_code, result.output

    def rows(self, *arguments: str, stream: StreamConfig | None = None) -> list[Row]:
        return [json.loads(line) for line in self.run(*arguments, "--json", stream=stream).splitlines()]

    def offsets(self, stream: StreamConfig) -> dict[int, int]:
        """Of the newest checkpoint of each partition."""
        return {row["partition"]: row["offset"] for row in self.rows("list", "--checkpoints", stream=stream)}

    def input(self, stream: StreamConfig) -> dict[int, list[Message]]:
        return read_topic(self.bootstrap, stream.input_topic)

    def predictions(self, stream: StreamConfig) -> dict[int, list[Published]]:
        return {number: decoded(messages) for number, messages in read_topic(self.bootstrap, stream.output_topic).items()}


class Reference:
    """The plain computation of one partition, in parts, so that models can be changed in between."""

    def __init__(self, stream: StreamConfig) -> None:
        self._decoder = Decoder(stream.event_format(), np.dtype("float32"))
        self.processor = Processor(stream.model_spec(self._decoder.dim, "float32"))

    def learn(self, messages: Sequence[Message]) -> list[Published]:
        """What must be published about these messages, in part."""
        events, _ = self._decoder.decode([m.value() for m in messages], [m.key() for m in messages], [0.0] * len(messages))
        result = self.processor.process(events)
        return [
            {"offset": offset_of(message), "key": key, "score": score, "learned": learned}
            for message, key, score, learned in zip(
                messages, events.keys, result.scores[:, 0].tolist(), result.learned.tolist(), strict=True
            )
        ]


def briefly(predictions: Sequence[Published]) -> list[Published]:
    return [{name: prediction[name] for name in ("offset", "key", "score", "learned")} for prediction in predictions]


def records(events: Sequence[Row]) -> list[Record]:
    return [Record(event["user"].encode(), json.dumps(event).encode()) for event in events]


def clicks(count: int, seed: int, keys: int = 10) -> list[Row]:
    generator = np.random.default_rng(seed)
    users, ages, prices = generator.integers(0, keys, count), generator.normal(40, 12, count), generator.normal(0, 3, count)
    return [
        {"user": f"user-{user}", "age": age, "price": price, "clicked": age / 12 + price > 3}
        for user, age, price in zip(users.tolist(), ages.tolist(), prices.tolist(), strict=True)
    ]


@pytest.fixture
def application(broker: LocalBroker, unique: Callable[[str], str], tmp_path: Path) -> Application:
    return Application(broker, unique("app"), tmp_path)


def test_models_are_listed_and_shown(application: Application, workers: Workers) -> None:
    workers.start(application.file).await_ready()
    events = clicks(600, seed=1)
    application.publish(application.old, events)

    rows = application.rows("list", "--limit", "100", "--sort", "key")
    assert [row["key"] for row in rows] == sorted({event["user"] for event in events})
    for row in rows:
        assert row["learned"] == sum(event["user"] == row["key"] for event in events)
        assert 0 <= row["mistake_rate"] < 0.6
        assert row["learner"] == "fogd"
        assert 0 <= row["age_seconds"] < 60
    most = application.rows("list", "--limit", "3")
    assert [row["learned"] for row in most] == sorted((row["learned"] for row in rows), reverse=True)[:3]
    assert f"3 of {len(rows)} models" in application.run("list", "--limit", "3")

    (shown,) = application.rows("show", rows[0]["key"])
    assert shown["learned"] == rows[0]["learned"]
    assert shown["hyper_parameters"]["pipeline.learner.frequencies"] == 20
    assert {"name": "weights", "dtype": "<f4", "shape": [1, 40]} in shown["arrays"]
    assert [version["version"] for version in shown["versions"]] == list(range(len(shown["versions"]), 0, -1))
    assert "pipeline.learner.frequencies = 20" in application.run("show", rows[0]["key"])
    with pytest.raises(ModelsError, match="no model for the key 'nobody'"):
        application.run("show", "nobody")
    assert "nothing there" in application.run("list", stream=application.new)


def test_models_are_put_back_to_an_earlier_checkpoint(application: Application, workers: Workers) -> None:
    worker = workers.start(application.file).await_ready()
    application.publish(application.old, clicks(500, seed=1))
    then, moment = application.offsets(application.old), time.time()
    application.publish(application.old, clicks(500, seed=2))
    now = application.offsets(application.old)
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(moment)) + f".{int(moment % 1 * 1e6):06d}"
    answers = application.rows("rollback", "--time", text, "--yes")
    assert [(answer["partition"], answer["outcome"]) for answer in answers] == [(0, "done"), (1, "done")]
    application.publish(application.old, clicks(300, seed=3))
    assert worker.stop() == 0
    workers.start(application.file).await_ready()
    application.publish(application.old, clicks(300, seed=4))

    published, predicted = application.input(application.old), application.predictions(application.old)
    for number, messages in published.items():
        reference = Reference(application.old)
        forgotten = Reference(application.old)
        expected = reference.learn(messages[: then[number]])
        forgotten.learn(messages[: then[number]])
        expected += forgotten.learn(messages[then[number] : now[number]]) + reference.learn(messages[now[number] :])
        assert len(messages) > 300
        assert briefly(predicted[number]) == expected


def test_models_are_put_back_while_events_arrive(application: Application, workers: Workers) -> None:
    workers.start(application.file).await_ready()
    application.publish(application.old, clicks(500, seed=1))
    then = {row["partition"]: row for row in application.rows("list", "--checkpoints")}
    going_on = threading.Event()

    def trickle() -> None:
        for seed in itertools.count(2):
            if going_on.is_set():
                return
            publish(application.bootstrap, application.old.input_topic, records(clicks(200, seed)))
            time.sleep(0.05)

    publisher = threading.Thread(target=trickle)
    publisher.start()
    try:
        time.sleep(1)
        for number, row in then.items():
            arguments = ["--partition", str(number), "--checkpoint", str(row["checkpoint"]), "--yes"]
            assert [answer["outcome"] for answer in application.rows("rollback", *arguments)] == ["done"]
        time.sleep(1)
    finally:
        going_on.set()
        publisher.join()
    application.publish(application.old, clicks(100, seed=1))

    changed: dict[int, int] = {}
    for row in application.rows("list", "--checkpoints"):
        if row["epoch"] == 2:
            changed.setdefault(row["partition"], row["offset"])
    published, predicted = application.input(application.old), application.predictions(application.old)
    for number, messages in published.items():
        start, now = then[number]["offset"], changed[number]
        assert start < now < len(messages)
        back, forgotten = Reference(application.old), Reference(application.old)
        expected = back.learn(messages[:start])
        forgotten.learn(messages[:start])
        expected += forgotten.learn(messages[start:now]) + back.learn(messages[now:])
        assert briefly(predicted[number]) == expected


def test_what_cannot_be_put_back_is_refused_and_changes_nothing(application: Application, workers: Workers) -> None:
    workers.start(application.file).await_ready()
    application.publish(application.old, clicks(200, seed=1))
    before = application.rows("list", "--sort", "key", "--checkpoints")
    with pytest.raises(ModelsError, match=r"partition 0 has no such checkpoint; it has 1 \("):
        application.run("rollback", "--checkpoint", "999", "--yes")
    with pytest.raises(ModelsError, match="name one of --checkpoint, --back, --time or --file"):
        application.run("rollback", "--yes")
    assert application.attempt("rollback", "--back", "1")[0] == 1  # nobody says yes
    assert [row["checkpoint"] for row in application.rows("list", "--sort", "key", "--checkpoints")] == [
        row["checkpoint"] for row in before
    ]


def test_without_workers_a_change_is_not_answered(application: Application) -> None:
    code, output = application.attempt("delete", "user-1", "--yes", "--wait", "1", "--json")
    assert code == 1
    assert [json.loads(line)["outcome"] for line in output.splitlines()] == ["unanswered"] * PARTITIONS


def test_models_move_to_another_stream(application: Application, workers: Workers, tmp_path: Path) -> None:
    workers.start(application.file).await_ready()
    application.publish(application.old, clicks(600, seed=1))
    application.publish(application.new, clicks(100, seed=2, keys=3))
    start = application.offsets(application.new)
    path = tmp_path / "models"
    assert f"wrote {len(application.rows('list'))} models" in application.run("export", str(path))
    answers = application.rows("import", str(path), stream=application.new)
    assert [answer["outcome"] for answer in answers] == ["done"] * PARTITIONS
    application.publish(application.new, clicks(300, seed=3))

    single = tmp_path / "one"
    key = application.rows("list", "--sort", "key")[0]["key"]
    assert "wrote 1 models" in application.run("export", str(single), "--key", key)
    with pytest.raises(ModelsError, match="name with --partition the one where"):
        application.run("import", str(single), stream=application.new)
    (where,) = {row["partition"] for row in application.rows("list", stream=application.new) if row["key"] == key}
    again = application.offsets(application.new)
    (answer,) = application.rows("import", str(single), "--partition", str(where), stream=application.new)
    assert (answer["outcome"], answer["detail"]) == ("done", "1 models imported")
    application.publish(application.new, clicks(200, seed=4))

    sources, published = application.input(application.old), application.input(application.new)
    predicted = application.predictions(application.new)
    for number, messages in published.items():
        source = Reference(application.old)
        source.learn(sources[number])
        reference = Reference(application.new)
        expected = reference.learn(messages[: start[number]])
        copy(source.processor, reference.processor)
        expected += reference.learn(messages[start[number] : again[number]])
        if number == where:
            copy(source.processor, reference.processor, only=key)
        expected += reference.learn(messages[again[number] :])
        assert briefly(predicted[number]) == expected


def copy(source: Processor, target: Processor, only: str | None = None) -> None:
    for key, slot in source.router:
        if only in (None, key):
            target.pool.write(target.router.slot(key), source.pool.read(slot))


def test_models_are_put_back_to_a_file(application: Application, workers: Workers, tmp_path: Path) -> None:
    workers.start(application.file).await_ready()
    application.publish(application.old, clicks(300, seed=1, keys=4))
    path = tmp_path / "models"
    application.run("export", str(path))
    exported = {row["key"]: row["learned"] for row in application.rows("list")}
    application.publish(application.old, clicks(300, seed=2, keys=8))
    assert {row["key"]: row["learned"] for row in application.rows("list")} != exported
    assert [row["outcome"] for row in application.rows("rollback", "--file", str(path), "--yes")] == ["done"] * PARTITIONS
    assert {row["key"]: row["learned"] for row in application.rows("list")} == exported
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(Exception, match="truncated"):
        application.run("import", str(path))


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_few_models_in_memory_change_nothing(
    broker: LocalBroker, unique: Callable[[str], str], workers: Workers, tmp_path: Path, kill: bool
) -> None:
    application = Application(broker, unique("app"), tmp_path, memory={"max_models": 5})
    worker = workers.start(application.file).await_ready()
    application.publish(application.old, clicks(2000, seed=1, keys=200))
    if kill:
        worker.kill()
    else:
        assert worker.stop() == 0
    worker = workers.start(application.file).await_ready()
    application.publish(application.old, clicks(2000, seed=2, keys=200))

    def figure(name: str) -> float:
        return sum(float(line.split()[-1]) for line in worker.get("/metrics")[1].splitlines() if line.startswith(f"streamlearn_{name}{{"))

    gauges = {"measured_events": 4000, "models": 5 * PARTITIONS, "models_spilled": 200 - 5 * PARTITIONS}
    eventually(lambda: {name: figure(name) for name in gauges} == gauges, f"the metrics {gauges}")
    assert figure("model_evictions_total") - figure("model_returns_total") >= 200 - 5 * PARTITIONS
    assert figure("model_returns_total") > 0
    assert len(application.rows("list", "--limit", "1000")) == 200

    predicted = application.predictions(application.old)
    for number, messages in application.input(application.old).items():
        assert briefly(predicted[number]) == Reference(application.old).learn(messages)
    path = tmp_path / "models"
    assert "wrote 200 models" in application.run("export", str(path))
    assert [row["outcome"] for row in application.rows("import", str(path), stream=application.new)] == ["done"] * PARTITIONS
    assert len(application.rows("list", "--limit", "1000", stream=application.new)) == 200


def test_a_deleted_model_is_gone_for_good(application: Application, workers: Workers) -> None:
    worker = workers.start(application.file).await_ready()
    application.publish(application.old, clicks(400, seed=1))
    rows = application.rows("list", "--sort", "key")
    key, home = rows[0]["key"], rows[0]["partition"]
    answers = application.rows("delete", key, "--yes")
    assert {answer["partition"]: answer["detail"] for answer in answers} == {
        number: f"{int(number == home)} of 1 models deleted" for number in range(PARTITIONS)
    }
    assert [row["key"] for row in application.rows("list", "--sort", "key")] == [row["key"] for row in rows[1:]]
    assert application.attempt("show", rows[1]["key"])[0] == 0
    with pytest.raises(ModelsError):
        application.run("show", key)
    assert worker.stop() == 0
    workers.start(application.file).await_ready()
    deleted_at = application.offsets(application.old)[home]
    application.publish(application.old, clicks(200, seed=2))
    learned = [
        prediction["learned"]
        for prediction in application.predictions(application.old)[home]
        if prediction["key"] == key and prediction["offset"] >= deleted_at
    ]
    assert learned == list(range(len(learned)))
    assert learned
