"""Workers on a real broker: partitions shared, stopped and started in the middle, every event predicted once, bit-identical."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recompute import decoded, offset_of, recompute
from workers import Application, GroupWatcher, Workers, eventually

from streamlearn.kafka.local_broker import LocalBroker
from streamlearn.remote import ask

pytestmark = pytest.mark.integration

PARTITIONS = 4
KEYS = 40


@pytest.fixture
def application(broker: LocalBroker, unique: Callable[[str], str], tmp_path: Path) -> Application:
    stream = {
        "name": unique("clicks"),
        "key": "user",
        "label": "clicked",
        "labels": [False, True],
        "numeric": ["age", "price"],
        "learner": {"name": "fogd", "frequencies": 20},
    }
    return Application(broker.bootstrap, tmp_path, unique("app"), [stream], PARTITIONS)


def clicks(count: int, seed: int, unlabelled: float = 0.0) -> list[dict[str, Any]]:
    """Random events of KEYS users, a share of them without a label."""
    generator = np.random.default_rng(seed)
    events: list[dict[str, Any]] = []
    for _ in range(count):
        age, price = generator.normal(40, 12), generator.normal(0, 3)
        event = {"user": f"user-{generator.integers(KEYS)}", "age": age, "price": price}
        if generator.random() >= unlabelled:
            event["clicked"] = bool(age / 12 + price + generator.normal() > 3)
        events.append(event)
    return events


def test_two_workers_predict_every_event_once_while_one_is_stopped_and_started(application: Application, workers: Workers) -> None:
    staying = workers.start(application.file)
    leaving = workers.start(application.file)
    application.publish(clicks(4000, seed=1))
    staying.await_ready()
    leaving.await_ready()
    application.publish(clicks(4000, seed=2))
    assert leaving.stop() == 0
    application.publish(clicks(4000, seed=3))
    returning = workers.start(application.file).await_ready()
    application.publish(clicks(4000, seed=4))
    application.await_end()
    assert (staying.stop(), returning.stop()) == (0, 0)

    published, predicted = application.input(), application.output()
    assert sum(map(len, predicted.values())) == sum(map(len, published.values())) == 16_000
    for partition, messages in published.items():
        assert len(messages) > 1000
        expected = recompute(application.stream, "float32", messages)
        assert decoded(predicted[partition]) == [expected.predictions[offset_of(message)] for message in messages]
        origins = [json.loads(message.value() or b"") for message in predicted[partition]]
        assert {(origin["topic"], origin["partition"]) for origin in origins} == {(application.stream.input_topic, partition)}
        assert [message.key() for message in predicted[partition]] == [message.key() for message in messages]


def test_partitions_are_shared_and_handed_over(application: Application, workers: Workers) -> None:
    first = workers.start(application.file).await_ready()
    second = workers.start(application.file).await_ready()

    def owned() -> list[list[int]]:
        return sorted(sorted(p["partition"] for p in answer["partitions"]) for answer in ask(application.config, "status"))

    eventually(lambda: owned() in ([[0, 2], [1, 3]], [[0, 1], [2, 3]]), "two workers with two partitions each")
    assert second.stop() == 0
    eventually(lambda: owned() == [[0, 1, 2, 3]], "the last worker owning all partitions")
    assert first.stop() == 0


def test_events_without_a_label_are_predicted_and_not_learned(application: Application, workers: Workers) -> None:
    worker = workers.start(application.file)
    events = clicks(2000, seed=5, unlabelled=0.5)
    application.publish(events)
    application.await_end()
    assert worker.stop() == 0
    predictions = [json.loads(message.value() or b"") for messages in application.output().values() for message in messages]
    unlabelled = [prediction for prediction in predictions if prediction["label"] is None]
    assert len(predictions) == 2000
    assert len(unlabelled) == sum("clicked" not in event for event in events)
    assert {prediction["mistake"] for prediction in unlabelled} == {None}
    assert {prediction["prediction"] for prediction in predictions} == {False, True}
    for user in {prediction["key"] for prediction in predictions}:  # one partition each, so in order
        learned = 0
        for prediction in (p for p in predictions if p["key"] == user):
            assert prediction["learned"] == learned
            learned += prediction["label"] is not None


def test_workers_that_are_stopped_while_they_start_end_in_good_order(application: Application, workers: Workers) -> None:
    application.publish(clicks(500, seed=9))
    started = [workers.start(application.file) for _ in range(4)]
    for worker in started:
        eventually(worker.hears_sigterm, "the worker having begun")
        assert worker.stop() == 0
        time.sleep(0.5)  # so that the next one has come further


def test_control_messages_reach_every_worker(application: Application, workers: Workers) -> None:
    first, second = workers.start(application.file), workers.start(application.file)
    application.publish(clicks(500, seed=6))
    first.await_ready()
    second.await_ready()
    application.await_end()

    answers = ask(application.config, "status")
    assert len({answer["worker"] for answer in answers}) == 2
    assert all(answer["ready"] for answer in answers)
    partitions = [partition for answer in answers for partition in answer["partitions"]]
    assert sorted(p["partition"] for p in partitions) == list(range(PARTITIONS))
    assert sum(p["offset"] for p in partitions) == 500

    assert ask(application.config, "pause", application.stream.name) == []
    eventually(lambda: bool(first.events("control") and second.events("control")), "both workers pausing")
    application.publish(clicks(500, seed=7))
    with pytest.raises(TimeoutError), GroupWatcher(application.bootstrap, application.config.app) as group:
        group.await_end([application.stream.input_topic], timeout=2)
    assert sum(map(len, application.output().values())) == 500

    ask(application.config, "resume")
    application.await_end()
    assert sum(map(len, application.output().values())) == 1000

    ask(application.config, "log-level", level="warning")
    eventually(lambda: first.events("control")[-1]["command"] == "log-level", "obedience")
    assert (first.stop(), second.stop()) == (0, 0)
    assert sum(map(len, application.output().values())) == 1000


def test_health_readiness_and_metrics(application: Application, workers: Workers) -> None:
    worker = workers.start(application.file)
    assert worker.get("/healthz")[0] == 200
    application.publish(clicks(3000, seed=8, unlabelled=0.1))
    worker.await_ready()
    application.await_end()

    def figures() -> dict[str, float]:
        text = worker.get("/metrics")[1]
        names: dict[str, float] = {}
        for name, value in re.findall(r"^(streamlearn_\w+)(?:\{.*\})? (\S+)$", text, re.MULTILINE):
            names[name] = names.get(name, 0.0) + float(value)
        return names

    eventually(lambda: figures().get("streamlearn_consumer_lag_events") == 0, "the lag being reported as 0")
    predictions = [json.loads(message.value() or b"") for messages in application.output().values() for message in messages]
    shown = figures()
    assert shown["streamlearn_events_total"] == 3000
    assert shown["streamlearn_learned_events_total"] == sum(p["label"] is not None for p in predictions)
    assert shown["streamlearn_mistakes_total"] == sum(p["mistake"] is True for p in predictions)
    assert shown["streamlearn_models"] == KEYS
    assert shown["streamlearn_event_latency_seconds_count"] == 3000
    assert shown["streamlearn_ready"] == 1
    assert shown["streamlearn_checkpoint_records_total"] >= KEYS
    assert 0 < shown["streamlearn_mistake_rate"] / PARTITIONS < 0.5
    assert worker.stop() == 0
