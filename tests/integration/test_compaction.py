"""The models topic really compacted by the broker: what was deleted stays deleted, everything else comes back bit for bit."""

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Message
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from recompute import decoded, offset_of, recompute
from typer.testing import CliRunner
from workers import Application, Workers, end_offsets, eventually, read_topic

from streamlearn.cli import app
from streamlearn.kafka.local_broker import LocalBroker

pytestmark = pytest.mark.integration

HISTORY = 2
KEYS = [f"s{number}" for number in range(9)]
DELETED = {"s1", "s4"}
AT_ONCE = {"segment.ms": "100", "min.cleanable.dirty.ratio": "0.001", "delete.retention.ms": "1", "min.compaction.lag.ms": "0"}


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    """A broker that looks for something to compact all the time."""
    with LocalBroker(properties={"log.cleaner.backoff.ms": "100"}) as own:
        yield own


@pytest.fixture
def application(broker: LocalBroker, unique: Callable[[str], str], tmp_path: Path) -> Application:
    stream = {"name": unique("sensors"), "key": "sensor", "array": "x", "dim": 3, "learner": {"name": "fogd", "frequencies": 10}}
    made = Application(broker.bootstrap, tmp_path, unique("app"), [stream], checkpoint={"interval": 0.1, "history": HISTORY})
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in AT_ONCE.items()]
    topic = ConfigResource(ResourceType.TOPIC, made.stream.models_topic, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.incremental_alter_configs([topic])[topic].result(timeout=30)
    return made


def readings(count: int, seed: int, keys: list[str] = KEYS) -> list[dict[str, Any]]:
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(count, 3))
    return [{"sensor": keys[generator.integers(len(keys))], "x": x.tolist(), "label": int(np.sign(x.sum()))} for x in X]


def models(application: Application, *arguments: str) -> list[dict[str, Any]]:
    """What a `models` command answers."""
    result = CliRunner().invoke(app, ["models", *arguments, "--json", "--config", str(application.file)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.output.splitlines()]


def learn(application: Application, events: list[dict[str, Any]]) -> int:
    """Publish events and wait until they are learned and checkpointed; returns the offset after them."""
    application.publish(events, 0)
    application.await_end()
    [end] = end_offsets(application.bootstrap, application.stream.input_topic).values()
    eventually(lambda: models(application, "list", "--checkpoints")[-1]["offset"] == end, "the last checkpoint")
    return end


def learn_until(application: Application, keys: list[str], compacted: Callable[[list[Message]], bool]) -> None:
    """Learn events of these keys, so that segments are closed, until the records that are left show what compaction did."""
    seeds = itertools.count(1000)

    def done() -> bool:
        learn(application, readings(20, next(seeds), keys))
        [records] = read_topic(application.bootstrap, application.stream.models_topic).values()
        return compacted(records)

    eventually(done, "compaction")


def is_of(record: Message, keys: set[str]) -> bool:
    return (record.key() or b"").decode().rpartition("/")[2] in keys


def test_deleted_models_stay_deleted(application: Application, workers: Workers) -> None:
    worker = workers.start(application.file)
    deleted_at = learn(application, readings(400, seed=1))
    assert [row["detail"] for row in models(application, "delete", *DELETED, "--yes")] == ["2 of 2 models deleted"]
    kept = [key for key in KEYS if key not in DELETED]
    # Neither their states nor the tombstones: from here on only the marker knows that there were such models.
    learn_until(application, kept, lambda records: not any(is_of(record, DELETED) for record in records))
    assert {row["key"] for row in models(application, "list")} == set(kept)
    worker.kill()
    workers.start(application.file).await_ready()
    learn(application, readings(400, seed=2))

    [messages] = application.input().values()
    before = recompute(application.stream, "float32", messages[:deleted_at])
    before.processor.router.release(DELETED)
    after = recompute(application.stream, "float32", messages[deleted_at:], before.processor)
    expected = {**before.predictions, **after.predictions}
    assert decoded(application.output()[0]) == [expected[offset] for offset in range(len(messages))]


def test_earlier_checkpoints_outlive_the_compaction_of_older_ones(application: Application, workers: Workers) -> None:
    worker = workers.start(application.file)
    learn(application, readings(400, seed=1))
    [first] = end_offsets(application.bootstrap, application.stream.models_topic).values()
    learn_until(application, KEYS, lambda records: offset_of(records[0]) > first)  # older checkpoints and all their models are gone
    worker.kill()
    workers.start(application.file).await_ready()
    checkpoints = models(application, "list", "--checkpoints")
    assert len(checkpoints) == HISTORY + 1
    back_to, now = checkpoints[0]["offset"], checkpoints[-1]["offset"]
    assert back_to < now
    [answer] = models(application, "rollback", "--back", str(HISTORY), "--yes")
    assert answer["outcome"] == "done"
    learn(application, readings(200, seed=2))

    [messages] = application.input().values()
    forgotten = recompute(application.stream, "float32", messages[:now]).predictions
    back = recompute(application.stream, "float32", messages[:back_to]).processor
    expected = {**forgotten, **recompute(application.stream, "float32", messages[now:], back).predictions}
    assert decoded(application.output()[0]) == [expected[offset] for offset in range(len(messages))]
