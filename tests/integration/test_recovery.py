"""What a worker does when its checkpoints, its settings, its topics or its broker are not as they should be."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from recompute import decoded, offset_of, recompute
from workers import Application, Record, WorkerProcess, Workers, eventually, publish, read_topic

from streamlearn.kafka.local_broker import LocalBroker

pytestmark = pytest.mark.integration

LEARNER = {"name": "fogd", "frequencies": 10, "eta": 0.1}


@pytest.fixture
def application(broker: LocalBroker, unique: Callable[[str], str], tmp_path: Path) -> Application:
    return make(broker, unique, tmp_path)


def make(broker: LocalBroker, unique: Callable[[str], str], folder: Path, **settings: Any) -> Application:
    """An application with one stream of one partition; settings: more of the stream."""
    stream = {"name": unique("sensors"), "key": "sensor", "array": "x", "dim": 3, "learner": LEARNER, **settings}
    return Application(broker.bootstrap, folder, unique("app"), [stream])


def readings(count: int, seed: int = 0) -> list[dict[str, Any]]:
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(count, 3))
    return [{"sensor": f"s{generator.integers(9)}", "x": x.tolist(), "label": int(np.sign(x.sum()))} for x in X]


def changed_learner(application: Application, policy: str) -> Path:
    stream = {**application.tables["streams"][0], "learner": {**LEARNER, "eta": 0.2}}
    checkpoint = {**application.tables["checkpoint"], "on_change": policy}
    return application.write(policy, streams=[stream], checkpoint=checkpoint)


def with_gap_policy(application: Application, policy: str) -> Path:
    return application.write(policy, checkpoint={**application.tables["checkpoint"], "on_gap": policy})


def predict(application: Application, workers: Workers, events: list[dict[str, Any]], file: Path | None = None) -> WorkerProcess:
    """Publish events and have a worker process them all; it is still running."""
    worker = workers.start(file or application.file)
    application.publish(events, 0)
    application.await_end()
    return worker


def failure(worker: WorkerProcess) -> str:
    """Why a worker ended with an exit code that is not 0."""
    assert worker.wait(90) == 1
    ended = worker.events("the worker ends")
    return str(ended[0]["error"]) if ended else worker.text()


def predictions(application: Application) -> list[dict[str, Any]]:
    return decoded(application.output()[0])


def delete_events_before(application: Application, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": application.bootstrap})
    partition = TopicPartition(application.stream.input_topic, 0, offset)
    admin.delete_records([partition])[partition].result(timeout=30)


def write_checkpoint_record(application: Application, key: bytes, value: bytes) -> None:
    publish(application.bootstrap, application.stream.models_topic, [Record(key, value)], 0)


# Changed hyper-parameters.


def test_other_hyper_parameters_are_refused(application: Application, workers: Workers) -> None:
    predict(application, workers, readings(200)).stop()
    refused = workers.start(changed_learner(application, "refuse"))
    error = failure(refused)
    assert f"{application.stream.models_topic} [0]" in error
    assert "eta is 0.1 in the checkpoint and 0.2 in the configuration" in error
    assert "checkpoint.on_change" in error
    assert len(predictions(application)) == 200


@pytest.mark.parametrize("policy", ["restart", "replay-from-earliest"])
def test_other_hyper_parameters_begin_anew_if_so_configured(application: Application, workers: Workers, policy: str) -> None:
    predict(application, workers, readings(200)).stop()
    file = changed_learner(application, policy)
    worker = predict(application, workers, readings(200, seed=1), file)
    assert worker.stop() == 0
    assert worker.events("models begin anew")
    published = predictions(application)
    [messages] = application.input().values()
    stream = application.stream.model_copy(update={"learner": {**LEARNER, "eta": 0.2}})
    fresh = recompute(stream, "float32", messages if policy == "replay-from-earliest" else messages[200:]).predictions
    assert published[200:] == [fresh[offset] for offset in range(200, 400)]
    again = predict(application, workers, readings(50, seed=2), file)  # from the new epoch's checkpoint, with nothing to complain about
    assert again.stop() == 0
    assert not again.events("models begin anew")
    assert len(predictions(application)) == 450


# Checkpoints that cannot be read.


def test_a_damaged_checkpoint_record_is_named(application: Application, workers: Workers) -> None:
    predict(application, workers, readings(200)).stop()
    [records] = read_topic(application.bootstrap, application.stream.models_topic).values()
    key, value = next((record.key() or b"", record.value() or b"") for record in records if (record.key() or b"").startswith(b"m/"))
    write_checkpoint_record(application, key, value[:-3] + b"???")
    error = failure(workers.start(application.file))
    assert f"{application.stream.models_topic}, partition 0, offset" in error
    assert "damaged: the checksum of model 's" in error


def test_a_foreign_record_among_the_checkpoints_is_named(application: Application, workers: Workers) -> None:
    write_checkpoint_record(application, b"c/1/0", b"hello")
    assert "not a checkpoint record: it starts with b'hell'" in failure(workers.start(application.file))


def test_models_without_a_marker_are_an_error(broker: LocalBroker, unique: Callable[[str], str], tmp_path: Path, workers: Workers) -> None:
    whole = make(broker, unique, tmp_path)
    predict(whole, workers, readings(200)).stop()
    [records] = read_topic(whole.bootstrap, whole.stream.models_topic).values()
    admin = AdminClient({"bootstrap.servers": whole.bootstrap})
    topic = whole.stream.models_topic
    admin.delete_topics([topic])[topic].result(timeout=30)
    eventually(lambda: topic not in admin.list_topics(timeout=10).topics, "the models topic being deleted")
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(timeout=30)
    models = [Record(record.key(), record.value()) for record in records if (record.key() or b"").startswith(b"m/")]
    assert 0 < len(models) < len(records)
    publish(whole.bootstrap, topic, models, 0)
    assert "but no marker" in failure(workers.start(whole.file))


# Retention.


def kill_with_events_after_the_checkpoint(application: Application, workers: Workers) -> int:
    """Leave a checkpoint at offset C > 0 and committed events after it; returns C."""
    predict(application, workers, readings(200)).stop()
    predict(application, workers, readings(300, seed=1), application.write("rare", checkpoint={"interval": 3600})).kill()
    return 200


def test_a_gap_after_the_checkpoint_stops_the_worker(application: Application, workers: Workers) -> None:
    checkpoint = kill_with_events_after_the_checkpoint(application, workers)
    delete_events_before(application, checkpoint + 100)
    error = failure(workers.start(application.file))
    assert f"recovery needs the events from offset {checkpoint}, retention has deleted those before {checkpoint + 100}" in error
    assert "checkpoint.on_gap" in error


def test_a_gap_after_the_checkpoint_is_counted_if_so_configured(application: Application, workers: Workers) -> None:
    checkpoint = kill_with_events_after_the_checkpoint(application, workers)
    [events] = application.input().values()
    delete_events_before(application, checkpoint + 100)
    worker = predict(application, workers, readings(50, seed=2), with_gap_policy(application, "continue")).await_ready()
    assert worker.events("events that recovery needs are gone")[0]["lost"] == 100
    assert 'streamlearn_recovery_lost_events_total{partition="0"' in worker.get("/metrics")[1]
    [later] = application.input().values()
    kept = [*events[:checkpoint], *later]  # what the models have learned
    expected = recompute(application.stream, "float32", kept).predictions
    assert predictions(application)[500:] == [expected[offset] for offset in range(500, 550)]
    assert worker.stop() == 0


def test_events_that_were_never_predicted_and_are_gone_stop_the_worker(application: Application, workers: Workers) -> None:
    predict(application, workers, readings(100)).stop()
    application.publish(readings(200, seed=1), 0)
    delete_events_before(application, 150)
    assert "retention has deleted those before 150" in failure(workers.start(application.file))
    worker = workers.start(with_gap_policy(application, "continue"))
    application.await_end()
    assert worker.stop() == 0
    assert worker.events("events that recovery needs are gone")[0]["lost"] == 50
    assert [prediction["offset"] for prediction in predictions(application)] == [*range(100), *range(150, 300)]


# Topics.


def test_a_models_topic_with_other_partitions_is_refused_at_start(application: Application, workers: Workers) -> None:
    admin = AdminClient({"bootstrap.servers": application.bootstrap})
    topic = application.stream.models_topic
    admin.delete_topics([topic])[topic].result(timeout=30)
    eventually(lambda: topic not in admin.list_topics(timeout=10).topics, "the models topic being deleted")
    admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(timeout=30)
    worker = workers.start(application.file)
    assert worker.wait() == 1
    text = worker.text()
    assert f"{topic} has 3 partitions, {application.stream.input_topic} has 1" in text
    assert "streamlearn topics apply" in text


def test_a_deleted_input_topic_ends_the_worker(application: Application, workers: Workers) -> None:
    worker = predict(application, workers, readings(100)).await_ready()
    admin = AdminClient({"bootstrap.servers": application.bootstrap})
    topic = application.stream.input_topic
    admin.delete_topics([topic])[topic].result(timeout=30)
    assert topic in failure(worker)


# Members.


def test_a_duplicate_instance_ends_one_of_the_two(application: Application, workers: Workers) -> None:
    file = application.write("static", worker={"instance": "twin"})
    first = predict(application, workers, readings(100), file).await_ready()
    second = workers.start(file)
    assert "fenced" in failure(first).lower()
    second.await_ready()
    application.publish(readings(100, seed=1), 0)
    application.await_end()
    assert second.stop() == 0
    [messages] = application.input().values()
    expected = recompute(application.stream, "float32", messages).predictions
    assert predictions(application) == [expected[offset_of(message)] for message in messages]


def test_offsets_that_a_dead_worker_left_open_are_waited_for(application: Application, workers: Workers) -> None:
    predict(application, workers, readings(100)).stop()
    properties = {"bootstrap.servers": application.bootstrap}
    dead = Producer({**properties, "transactional.id": f"{application.config.app}-dead", "transaction.timeout.ms": 4000})
    dead.init_transactions(30)
    dead.begin_transaction()
    dead.produce(application.stream.models_topic, b"half a checkpoint", b"m/0/0/0/s1", 0)
    dead.flush(30)
    nobody = Consumer({**properties, "group.id": application.config.app})
    position = TopicPartition(application.stream.input_topic, 0, 7)
    dead.send_offsets_to_transaction([position], nobody.consumer_group_metadata(), 30)
    nobody.close()
    worker = predict(application, workers, readings(100, seed=1))  # the broker ends the transaction after 4 s
    assert worker.stop() == 0
    [messages] = application.input().values()
    expected = recompute(application.stream, "float32", messages).predictions
    assert predictions(application) == [expected[offset] for offset in range(200)]


# The broker, and time.


def test_a_broker_that_is_away_for_a_while(unique: Callable[[str], str], tmp_path: Path, workers: Workers) -> None:
    with LocalBroker(tmp_path / "broker") as own:
        application = make(own, unique, tmp_path)
        worker = predict(application, workers, readings(500)).await_ready()
        own.stop()
        assert worker.running
        own.start()
        application.publish(readings(500, seed=1), 0)
        application.await_end()
        [messages] = application.input().values()
        expected = recompute(application.stream, "float32", messages).predictions
        assert predictions(application) == [expected[offset] for offset in range(1000)]
        assert worker.stop() == 0


def test_a_broker_that_does_not_exist_is_a_clear_error(application: Application, workers: Workers) -> None:
    worker = workers.start(application.write("nowhere", kafka={"bootstrap": "127.0.0.1:1"}))
    assert worker.wait() == 1
    assert "no broker answers at kafka.bootstrap = '127.0.0.1:1'" in worker.text()


def test_clocks_that_jump_change_nothing_but_the_latencies(
    broker: LocalBroker, unique: Callable[[str], str], tmp_path: Path, workers: Workers
) -> None:
    application = make(broker, unique, tmp_path, time="time")
    year, now = 365 * 86_400, time.time()
    jumps = (0, 30 * year, -30 * year, -1)
    events = [{**event, "time": now + jumps[number % len(jumps)]} for number, event in enumerate(readings(300))]
    worker = predict(application, workers, events).await_ready()
    text = worker.get("/metrics")[1]
    assert worker.stop() == 0
    [messages] = application.input().values()
    expected = recompute(application.stream, "float32", messages).predictions
    assert predictions(application) == [expected[offset] for offset in range(300)]
    [count] = re.findall(r"^streamlearn_event_latency_seconds_count{.*} (\S+)$", text, re.MULTILINE)
    [total] = re.findall(r"^streamlearn_event_latency_seconds_sum{.*} (\S+)$", text, re.MULTILINE)
    assert float(count) == 300
    assert 75 * 30 * year <= float(total) < 75 * 31 * year  # events of the future count as 0
