"""Topic definitions: read strictly, consistent, and compared with a topic as a cluster describes it."""

import shutil
from pathlib import Path

import pytest
from confluent_kafka.admin import ConfigEntry, PartitionMetadata, TopicMetadata

from streamlearn.config import Config, StreamConfig
from streamlearn.kafka.topics import (
    CO_PARTITIONED,
    KINDS,
    RESOURCES,
    CreateTopic,
    ReplicationDiffers,
    SetConfig,
    TopicDefinition,
    TopicsError,
    compare,
    load_definitions,
    with_overrides,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the shipped definitions."""
    for path in RESOURCES.glob("*.toml"):
        shutil.copy(path, tmp_path)
    return tmp_path


def edit(folder: Path, kind: str, old: str, new: str) -> None:
    path = folder / f"{kind}.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_the_names_are_those_of_the_configuration() -> None:
    config = Config(app="shop", streams=(StreamConfig(name="clicks", numeric=("price",)),))
    [stream] = config.streams
    names = [stream.input_topic, stream.output_topic, stream.models_topic, stream.dead_letter_topic, config.control_topic]
    definitions = load_definitions()
    assert [definitions[kind].topic("shop", "clicks") for kind in KINDS] == names


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_key_is_refused(folder: Path, kind: str) -> None:
    edit(folder, kind, "partitions =", "partition =")
    with pytest.raises(TopicsError, match=rf"{kind}\.toml: .*`partition`"):
        load_definitions(folder)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("partitions = 4", "partitions = 0", r"events\.toml: .*`\$\.partitions`"),
        ("partitions = 4", 'partitions = "4"', r"events\.toml: .*`\$\.partitions`"),
        ("partitions = 4", "partitions = 8", r"events 8, predictions 4, models 4"),
        ("replication = 3", "replication = 0", r"replication = 0; name 1 or more"),
        ("replication = 3", "replication = -1", r"leave min\.insync\.replicas to it as well"),
        ('"min.insync.replicas" = 2', '"min.insync.replicas" = "two"', r"'min\.insync\.replicas' = 'two'; name a number"),
        ('"min.insync.replicas" = 2', '"min.insync.replicas" = [2]', r"events\.toml: .*config"),
        ("[config]", "[config", r"events\.toml: "),
    ],
)
def test_a_wrong_value_is_named(folder: Path, old: str, new: str, message: str) -> None:
    edit(folder, "events", old, new)
    with pytest.raises(TopicsError, match=message):
        load_definitions(folder)


def test_a_missing_kind_is_named(folder: Path) -> None:
    (folder / "control.toml").unlink()
    with pytest.raises(TopicsError, match=r"control\.toml is missing"):
        load_definitions(folder)


def test_an_unknown_kind_is_named(folder: Path) -> None:
    (folder / "models.toml").rename(folder / "model.toml")
    with pytest.raises(TopicsError, match=r"model\.toml is no kind of topic \(did you mean 'models'\?\)"):
        load_definitions(folder)


def test_overrides() -> None:
    definitions = with_overrides(load_definitions(), partitions=7, replication=1)
    assert {kind: definitions[kind].partitions for kind in CO_PARTITIONED} == dict.fromkeys(CO_PARTITIONED, 7)
    assert definitions["control"].partitions == load_definitions()["control"].partitions
    assert {definition.replication for definition in definitions.values()} == {1}
    assert with_overrides(load_definitions()) == load_definitions()
    with pytest.raises(TopicsError, match="replication = 0"):
        with_overrides(load_definitions(), replication=0)


def described(partitions: int, replicas: int) -> TopicMetadata:
    """A topic as a cluster reports it."""
    topic = TopicMetadata()
    for number in range(partitions):
        topic.partitions[number] = PartitionMetadata()
        topic.partitions[number].replicas = list(range(replicas))
    return topic


@pytest.mark.parametrize(
    ("replicas", "brokers", "min_isr"),
    [
        (3, 3, 2),  # as defined
        (4, 5, 2),  # more copies than defined
        (2, 3, 1),  # fewer copies: one may fail
        (1, 3, 1),
        (1, 1, 1),  # all that one broker can hold
        (2, 2, 1),
    ],
)
def test_replicas_in_sync_follow_the_replicas_that_are(replicas: int, brokers: int, min_isr: int) -> None:
    definition = TopicDefinition("<stream>.events", 2, 3, {"min.insync.replicas": 2})
    config = {"min.insync.replicas": ConfigEntry("min.insync.replicas", "9")}
    differences = compare("t", definition, described(2, replicas), config, brokers)
    reports: list[object] = [ReplicationDiffers("t", replicas, min(3, brokers))] if replicas != min(3, brokers) else []
    assert differences == [*reports, SetConfig("t", "min.insync.replicas", "9", str(min_isr))]


def test_differences_read_well() -> None:
    creation = CreateTopic("clicks.events", 4, -1, (("retention.ms", "60000"),))
    assert str(creation) == "clicks.events: create with 4 partitions, replication the cluster's default, retention.ms=60000"
    report = ReplicationDiffers("clicks.events", 1, 3)
    assert str(report).startswith("clicks.events: replication is 1, not 3; left alone")
