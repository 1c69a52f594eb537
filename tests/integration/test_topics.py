"""Topics on a real cluster: planned, applied, left alone when they are right, refused when records could be lost."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from streamlearn.kafka import topics
from streamlearn.kafka.clients import Properties
from streamlearn.kafka.local_broker import LocalBroker
from streamlearn.kafka.topics import (
    AddPartitions,
    CreateTopic,
    Refusal,
    SetConfig,
    TopicDefinition,
    TopicsError,
    apply,
    load_definitions,
    plan,
    with_overrides,
)

pytestmark = pytest.mark.integration

DEFINITION = TopicDefinition("<stream>.events", 2, 1, {"retention.ms": 3_600_000, "cleanup.policy": "delete", "max.message.bytes": 50_000})


@pytest.fixture
def properties(broker: LocalBroker) -> dict[str, str]:
    return {"bootstrap.servers": broker.bootstrap}


@pytest.fixture
def names(unique: Callable[[str], str]) -> dict[str, str]:
    """The topics of an application with one stream."""
    app, stream = unique("app"), unique("stream")
    return {definition.topic(app, stream): kind for kind, definition in load_definitions().items()}


def changed(**fields: Any) -> dict[str, TopicDefinition]:
    return {"events": msgspec.structs.replace(DEFINITION, **fields)}


def create(properties: dict[str, str], topic: str) -> None:
    """Make the topic as DEFINITION says."""
    apply(properties, plan(properties, {"events": DEFINITION}, {topic: "events"}))


def config_of(properties: dict[str, str], topic: str) -> dict[str, str | None]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient(dict(properties))
    entries = admin.describe_configs([resource])[resource].result(timeout=30)
    return {name: entry.value for name, entry in entries.items()}


def partitions_of(properties: dict[str, str], topic: str) -> int:
    return len(AdminClient(dict(properties)).list_topics(timeout=30).topics[topic].partitions)


def test_the_shipped_definitions_are_made_and_then_right(properties: dict[str, str], names: dict[str, str]) -> None:
    definitions = load_definitions()
    differences = plan(properties, definitions, names)
    assert [(type(item), item.topic) for item in differences] == [(CreateTopic, name) for name in names]
    apply(properties, differences)
    assert plan(properties, definitions, names) == []
    for name, kind in names.items():
        assert partitions_of(properties, name) == definitions[kind].partitions
    models = next(name for name, kind in names.items() if kind == "models")
    assert config_of(properties, models)["cleanup.policy"] == "compact"


def test_a_plan_changes_nothing(properties: dict[str, str], names: dict[str, str]) -> None:
    first = plan(properties, load_definitions(), names)
    assert plan(properties, load_definitions(), names) == first


def test_replication_is_lowered_to_the_cluster_with_a_note(properties: dict[str, str], topic_name: str) -> None:
    definitions = changed(replication=3, config={"min.insync.replicas": 2})
    [creation] = plan(properties, definitions, {topic_name: "events"})
    assert isinstance(creation, CreateTopic)
    assert (creation.replication, dict(creation.config)) == (1, {"min.insync.replicas": "1"})
    assert "only 1 broker: replication lowered from 3, min.insync.replicas from 2" in str(creation)
    apply(properties, [creation])
    assert config_of(properties, topic_name)["min.insync.replicas"] == "1"
    assert plan(properties, definitions, {topic_name: "events"}) == []


def test_replication_can_be_left_to_the_cluster(properties: dict[str, str], topic_name: str) -> None:
    definitions = changed(replication=-1)
    apply(properties, plan(properties, definitions, {topic_name: "events"}))
    assert plan(properties, definitions, {topic_name: "events"}) == []


def test_partitions_are_added(properties: dict[str, str], topic_name: str) -> None:
    create(properties, topic_name)
    differences = plan(properties, changed(partitions=5), {topic_name: "events"})
    assert differences == [AddPartitions(topic_name, 2, 5)]
    apply(properties, differences)
    assert partitions_of(properties, topic_name) == 5


def test_partitions_are_never_taken_away(properties: dict[str, str], topic_name: str, unique: Callable[[str], str]) -> None:
    create(properties, topic_name)
    other = unique("other")
    differences = plan(properties, changed(partitions=1), {topic_name: "events", other: "events"})
    assert isinstance(differences[0], Refusal)
    assert "it has 2 partitions, more than the 1 of its definition" in differences[0].reason
    with pytest.raises(TopicsError, match="nothing was changed"):
        apply(properties, differences)
    assert partitions_of(properties, topic_name) == 2
    assert other not in AdminClient(dict(properties)).list_topics(timeout=30).topics


def test_drift_is_found_and_mended(properties: dict[str, str], topic_name: str) -> None:
    create(properties, topic_name)
    drifted = [
        ConfigEntry("max.message.bytes", "70000", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("retention.ms", "60000", incremental_operation=AlterConfigOpType.SET),
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic_name, incremental_configs=drifted)
    admin = AdminClient(dict(properties))
    admin.incremental_alter_configs([resource])[resource].result(timeout=30)
    differences = plan(properties, {"events": DEFINITION}, {topic_name: "events"})
    assert differences == [
        SetConfig(topic_name, "retention.ms", "60000", "3600000"),
        SetConfig(topic_name, "max.message.bytes", "70000", "50000"),
    ]
    apply(properties, differences)
    assert plan(properties, {"events": DEFINITION}, {topic_name: "events"}) == []


def test_properties_that_no_definition_names_are_left_alone(properties: dict[str, str], topic_name: str) -> None:
    create(properties, topic_name)
    apply(properties, plan(properties, changed(config={"segment.bytes": 5_000_000}), {topic_name: "events"}))
    config = config_of(properties, topic_name)
    assert (config["segment.bytes"], config["max.message.bytes"]) == ("5000000", "50000")


@pytest.mark.parametrize("config", [{"retention.ms": 60_000}, {"retention.bytes": 1_000_000}, {"cleanup.policy": "compact"}])
def test_changes_that_may_delete_records_are_refused(
    properties: dict[str, str], topic_name: str, config: dict[str, str | int | float | bool]
) -> None:
    create(properties, topic_name)
    [refusal] = plan(properties, changed(config=config), {topic_name: "events"})
    assert isinstance(refusal, Refusal)
    assert "may delete records" in refusal.reason


def test_a_longer_retention_is_set(properties: dict[str, str], topic_name: str) -> None:
    create(properties, topic_name)
    differences = plan(properties, changed(config={"retention.ms": -1}), {topic_name: "events"})
    assert differences == [SetConfig(topic_name, "retention.ms", "3600000", "-1")]


def test_the_order_of_a_list_is_no_difference(properties: dict[str, str], topic_name: str) -> None:
    apply(properties, plan(properties, changed(config={"cleanup.policy": "compact,delete"}), {topic_name: "events"}))
    assert plan(properties, changed(config={"cleanup.policy": "delete, compact"}), {topic_name: "events"}) == []


def test_an_unknown_property_is_refused_with_the_nearest_name(properties: dict[str, str], topic_name: str) -> None:
    create(properties, topic_name)
    [refusal] = plan(properties, changed(config={"retention.mss": 1}), {topic_name: "events"})
    assert isinstance(refusal, Refusal)
    assert "no topic property 'retention.mss' (did you mean 'retention.ms'?)" in refusal.reason


@pytest.mark.parametrize("config", [{"retention.mss": 1}, {"cleanup.policy": "shred"}])
def test_what_the_cluster_rejects_is_refused_before_anything_is_made(
    properties: dict[str, str], topic_name: str, config: dict[str, str | int | float | bool]
) -> None:
    [refusal] = plan(properties, changed(config=config), {topic_name: "events"})
    assert isinstance(refusal, Refusal)
    assert next(iter(config)) in refusal.reason


def test_a_value_that_the_cluster_rejects_is_refused_on_an_existing_topic(properties: dict[str, str], topic_name: str) -> None:
    create(properties, topic_name)
    [refusal] = plan(properties, changed(config={"max.message.bytes": "many"}), {topic_name: "events"})
    assert isinstance(refusal, Refusal)
    assert "max.message.bytes" in refusal.reason


def test_a_topic_made_meanwhile_is_an_error_that_says_so(properties: dict[str, str], topic_name: str) -> None:
    differences = plan(properties, {"events": DEFINITION}, {topic_name: "events"})
    apply(properties, differences)
    with pytest.raises(TopicsError, match=f"plan again.*\n{topic_name}: .*already exists"):
        apply(properties, differences)


def test_overrides_reach_the_topics_that_share_partitions(properties: dict[str, str], names: dict[str, str]) -> None:
    definitions = with_overrides(load_definitions(), partitions=3, replication=1)
    apply(properties, plan(properties, definitions, names))
    counts = {kind: partitions_of(properties, name) for name, kind in names.items()}
    assert counts == {"events": 3, "predictions": 3, "models": 3, "dead-letters": 1, "control": 1}


def test_a_cluster_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "_CONNECT_TIMEOUT", 1.0)
    unreachable: Properties = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    with pytest.raises(TopicsError, match=r"no broker answers at 127\.0\.0\.1:1"):
        plan(unreachable, {"events": DEFINITION}, {"any": "events"})
