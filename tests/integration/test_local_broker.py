"""The broker for development and tests: starts, keeps its data over a kill, dies with its parent, says what is missing."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from streamlearn.kafka import distribution
from streamlearn.kafka.local_broker import BrokerUnavailable, LocalBroker

pytestmark = pytest.mark.integration


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[LocalBroker]:
    with LocalBroker(tmp_path / "broker") as running:
        yield running


def create_topic(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(timeout=30)


def produce(bootstrap: str, topic: str, values: list[bytes], transactional_id: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    producer.commit_transaction(30)


def consume(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    """The first `count` committed values of partition 0, fewer if they do not come within 30 s."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes | None] = []
    deadline = time.monotonic() + 30
    while len(values) < count and time.monotonic() < deadline:
        messages = consumer.consume(count - len(values), timeout=0.5)
        values += [message.value() for message in messages if message.error() is None]
    consumer.close()
    return values


def test_a_transaction_is_written_and_read(broker: LocalBroker, topic_name: str) -> None:
    values = [str(number).encode() for number in range(100)]
    create_topic(broker.bootstrap, topic_name)
    produce(broker.bootstrap, topic_name, values, topic_name)
    assert consume(broker.bootstrap, topic_name, 100) == values


def test_data_and_address_survive_a_kill(own_broker: LocalBroker, unique: Callable[[str], str]) -> None:
    topic, bootstrap, pid = unique("kept"), own_broker.bootstrap, own_broker.pid
    values = [str(number).encode() for number in range(100)]
    create_topic(bootstrap, topic)
    produce(bootstrap, topic, values, topic)
    assert consume(bootstrap, topic, 100) == values  # and so the end of the transaction is in the log, not only decided
    own_broker.kill()
    assert not own_broker.running
    own_broker.restart()
    assert own_broker.pid not in (None, pid)
    assert own_broker.bootstrap == bootstrap
    assert consume(bootstrap, topic, 100) == values
    produce(bootstrap, topic, values, topic)  # the transactional id is known again, and works
    assert consume(bootstrap, topic, 200) == values + values


def test_only_loopback_listens(broker: LocalBroker) -> None:
    sockets = {str(link.readlink()) for link in Path(f"/proc/{broker.pid}/fd").iterdir() if link.is_symlink()}
    addresses = set()
    for table in ("tcp", "tcp6"):
        for row in Path(f"/proc/{broker.pid}/net/{table}").read_text().splitlines()[1:]:
            fields = row.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:  # 0A: listening
                addresses.add(fields[1].split(":")[0])
    loopback = {"0100007F", "0000000000000000FFFF00000100007F"}
    assert addresses
    assert addresses <= loopback


def test_it_dies_with_its_parent(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from streamlearn.kafka.local_broker import LocalBroker;"
        "print(LocalBroker(Path(sys.argv[1])).start().pid, flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "broker")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:  # noqa: S603
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_alive(pid)
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_alive(pid)


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_temporary_data_folder_is_removed() -> None:
    with LocalBroker() as running:
        data = running.data
        assert data.is_dir()
    assert not data.exists()
    assert not running.running


def test_a_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    refused = LocalBroker(tmp_path / "broker", properties={"num.io.threads": "none"})
    with pytest.raises(BrokerUnavailable, match=r"num\.io\.threads"):
        refused.start()
    assert not refused.running


def test_a_taken_port_is_named_by_the_log(broker: LocalBroker, tmp_path: Path) -> None:
    second = LocalBroker(tmp_path / "broker", port=broker.port)
    with pytest.raises(BrokerUnavailable, match="in use"):
        second.start()
    assert broker.running


def fake_program(folder: Path, name: str, script: str) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_missing_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BrokerUnavailable, match="no `java` on PATH; install Java 17"):
        distribution.locate()


def test_old_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    fake_program(tmp_path, "java", """echo 'openjdk version "11.0.2" 2019-01-15' >&2""")
    with pytest.raises(BrokerUnavailable, match=r"is version 11\.0\.2; install Java 17"):
        distribution.locate()


def test_missing_maven_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("STREAMLEARN_CACHE", str(tmp_path / "cache"))
    fake_program(tmp_path, "java", """echo 'openjdk version "21" 2023-09-19' >&2""")
    with pytest.raises(BrokerUnavailable, match="no `mvn` on PATH; install Maven"):
        distribution.locate()


def test_maven_that_cannot_resolve_is_quoted_and_leaves_no_half_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("STREAMLEARN_CACHE", str(cache))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    fake_program(tmp_path, "mvn", "echo '[ERROR] Could not resolve dependencies: Unknown host'; exit 1")
    with pytest.raises(BrokerUnavailable, match=r"Unknown host; check the network.*settings\.xml"):
        distribution.locate()
    assert list(cache.iterdir()) == []
