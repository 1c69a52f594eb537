"""The topics of an application: their definitions, how a cluster differs from them, and making the difference.

Nothing in here can lose a record: no topic is deleted, partitions are never taken away, and changes after which Kafka may delete
records (a shorter retention, another clean-up policy) are refused.
"""

import difflib
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
    TopicMetadata,
)

from streamlearn.kafka.clients import Properties, Property, client_logger, kafka_error

RESOURCES = Path(__file__).parents[1] / "resources" / "topics"
KINDS = ("events", "predictions", "models", "dead-letters", "control")
CO_PARTITIONED = ("events", "predictions", "models")

_TIMEOUT = 30.0  # seconds for one request to the cluster
_CONNECT_TIMEOUT = 10.0  # seconds until a cluster that does not answer is given up
_MIN_ISR = "min.insync.replicas"


class TopicsError(Exception):
    """Topics cannot be read, planned or applied; the text names each topic or file, the value and the remedy."""


class TopicDefinition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a kind of topic should be.

    name: template of the topic's name, with <stream> or <app> in it.
    replication: copies of each partition; lowered, with a note, on a cluster that has fewer brokers; -1 for the cluster's default.
    config: topic properties under Kafka's own names. Properties that are not named here are left as they are.
    """

    name: Annotated[str, msgspec.Meta(min_length=1)]
    partitions: Annotated[int, msgspec.Meta(ge=1, le=10_000)]
    replication: Annotated[int, msgspec.Meta(ge=-1, le=100)]
    config: dict[str, Property] = {}

    def topic(self, app: str, stream: str) -> str:
        """The topic's name for this application and stream."""
        return self.name.replace("<app>", app).replace("<stream>", stream)


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """The topic does not exist."""

    topic: str
    partitions: int
    replication: int
    config: tuple[tuple[str, str], ...]
    note: str = ""

    def __str__(self) -> str:
        config = ", ".join(f"{name}={value}" for name, value in self.config)
        replication = "the cluster's default" if self.replication == -1 else self.replication
        text = f"{self.topic}: create with {self.partitions} partitions, replication {replication}, {config}"
        return f"{text} ({self.note})" if self.note else text


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """The topic has too few partitions."""

    topic: str
    current: int
    wanted: int

    def __str__(self) -> str:
        return (
            f"{self.topic}: add partitions, {self.current} -> {self.wanted} "
            "(from then on Kafka puts many keys on other partitions, where their models start anew)"
        )


@dataclass(frozen=True, slots=True)
class SetConfig:
    """A property of the topic has another value."""

    topic: str
    name: str
    current: str | None
    wanted: str

    def __str__(self) -> str:
        return f"{self.topic}: set {self.name}, {self.current} -> {self.wanted}"


@dataclass(frozen=True, slots=True)
class ReplicationDiffers:
    """The topic has another number of replicas. Reported only: changing it copies data between brokers."""

    topic: str
    current: int
    wanted: int

    def __str__(self) -> str:
        return (
            f"{self.topic}: replication is {self.current}, not {self.wanted}; left alone, because changing it copies data "
            "(to change it: kafka-reassign-partitions.sh)"
        )


@dataclass(frozen=True, slots=True)
class Refusal:
    """A difference that is not made. As long as a plan holds one, nothing of the plan is applied."""

    topic: str
    reason: str

    def __str__(self) -> str:
        return f"{self.topic}: refused: {self.reason}"


Change = CreateTopic | AddPartitions | SetConfig
Difference = Change | ReplicationDiffers | Refusal


def load_definitions(folder: Path = RESOURCES) -> dict[str, TopicDefinition]:
    """The definitions of all kinds, from one `<kind>.toml` each. Raises TopicsError."""
    found = {path.stem for path in folder.glob("*.toml")}
    unknown, missing = sorted(found - set(KINDS)), [kind for kind in KINDS if kind not in found]
    if unknown:
        raise TopicsError(f"{folder / unknown[0]}.toml is no kind of topic{_nearest(unknown[0], KINDS)}; the kinds are {', '.join(KINDS)}")
    if missing:
        raise TopicsError(f"{folder / missing[0]}.toml is missing; every kind of topic needs a definition")
    definitions = {kind: _load(folder / f"{kind}.toml") for kind in KINDS}
    counts = {kind: definitions[kind].partitions for kind in CO_PARTITIONED}
    if len(set(counts.values())) > 1:
        text = ", ".join(f"{kind} {count}" for kind, count in counts.items())
        raise TopicsError(f"{folder}: partitions differ ({text}); the three must be equal, a worker writes the partition that it reads")
    return definitions


def with_overrides(
    definitions: Mapping[str, TopicDefinition], partitions: int | None = None, replication: int | None = None
) -> dict[str, TopicDefinition]:
    """The definitions with another partition count (of events, predictions and models) and another replication (of all).

    Raises TopicsError if a definition cannot be overridden so.
    """

    def override(kind: str, definition: TopicDefinition) -> TopicDefinition:
        changed = msgspec.structs.replace(
            definition,
            partitions=partitions if partitions is not None and kind in CO_PARTITIONED else definition.partitions,
            replication=replication if replication is not None else definition.replication,
        )
        return _checked(changed, where=kind)

    return {kind: override(kind, definition) for kind, definition in definitions.items()}


def plan(properties: Properties, definitions: Mapping[str, TopicDefinition], names: Mapping[str, str]) -> list[Difference]:
    """How the cluster differs from the definitions, changes validated by the cluster; empty if it does not. Changes nothing.

    properties: librdkafka's properties of the connection. names: topic name -> kind, for every topic of the application.
    Raises TopicsError if the cluster cannot be reached or asked.
    """
    admin = _connect(properties)
    cluster = _metadata(admin, properties)
    existing = {name: cluster.topics[name] for name in names if name in cluster.topics}
    configs = _describe(admin, existing)
    differences: list[Difference] = []
    for name, kind in names.items():
        if name in existing:
            differences += compare(name, definitions[kind], existing[name], configs[name], len(cluster.brokers))
        else:
            differences.append(_creation(name, definitions[kind], len(cluster.brokers)))
    return _with_rejections(differences, _execute(admin, differences, validate_only=True))


def apply(properties: Properties, differences: Sequence[Difference]) -> None:
    """Make the changes of a plan and wait until the cluster shows them. A plan with a refusal changes nothing. Raises TopicsError."""
    refusals = [str(difference) for difference in differences if isinstance(difference, Refusal)]
    if refusals:
        raise TopicsError("nothing was changed:\n" + "\n".join(refusals))
    admin = _connect(properties)
    failures = _execute(admin, differences, validate_only=False)
    if failures:
        text = "\n".join(f"{change.topic}: {reason}" for change, reason in failures.items())
        raise TopicsError(f"not every change was made; plan again to see what remains:\n{text}")
    _await_partitions(admin, properties, differences)


def _load(path: Path) -> TopicDefinition:
    try:
        definition = msgspec.toml.decode(path.read_bytes(), type=TopicDefinition)
    except (OSError, ValueError) as error:  # msgspec's errors are ValueErrors and name the field
        raise TopicsError(f"{path}: {error}") from error
    return _checked(definition, where=str(path))


def _checked(definition: TopicDefinition, where: str) -> TopicDefinition:
    """The definition, if its parts fit together. Raises TopicsError."""
    if definition.replication == 0:
        raise TopicsError(f"{where}: replication = 0; name 1 or more copies, or -1 for the cluster's default")
    in_sync = definition.config.get(_MIN_ISR, 1)
    if not isinstance(in_sync, int) or in_sync < 1:
        raise TopicsError(f"{where}: config {_MIN_ISR!r} = {in_sync!r}; name a number of copies, 1 or more")
    if definition.replication == -1 and _MIN_ISR in definition.config:
        raise TopicsError(f"{where}: replication = -1 leaves the copies to the cluster; leave {_MIN_ISR} to it as well, or name both")
    return definition


def _nearest(name: str, valid: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(valid), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _creation(topic: str, definition: TopicDefinition, brokers: int) -> CreateTopic:
    replication = min(definition.replication, brokers)
    config = _wanted_config(definition, replication)
    note = ""
    if replication < definition.replication:
        note = f"the cluster has only {brokers} broker{'s' * (brokers > 1)}: replication lowered from {definition.replication}"
        if _MIN_ISR in config and config[_MIN_ISR] != _text(definition.config[_MIN_ISR]):
            note += f", {_MIN_ISR} from {definition.config[_MIN_ISR]}"
    return CreateTopic(topic, definition.partitions, replication, tuple(config.items()), note)


def _wanted_config(definition: TopicDefinition, replication: int) -> dict[str, str]:
    """The properties as Kafka's text. With fewer replicas than defined, one may still fail before writing stops, if there are two."""
    config = {name: _text(value) for name, value in definition.config.items()}
    if _MIN_ISR in config and replication < definition.replication:
        config[_MIN_ISR] = str(min(int(config[_MIN_ISR]), max(1, replication - 1)))  # an integer: definitions are checked
    return config


def _text(value: Property) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def compare(
    topic: str, definition: TopicDefinition, metadata: TopicMetadata, config: Mapping[str, ConfigEntry], brokers: int
) -> list[Difference]:
    """How one existing topic differs. metadata and config: as the cluster reports them; brokers: how many the cluster has."""
    differences: list[Difference] = []
    partitions = len(metadata.partitions)
    if partitions > definition.partitions:
        reason = f"it has {partitions} partitions, more than the {definition.partitions} of its definition, and Kafka cannot take any away"
        differences.append(Refusal(topic, f"{reason}; define {partitions} partitions"))
    elif partitions < definition.partitions:
        differences.append(AddPartitions(topic, partitions, definition.partitions))
    replication = min((len(partition.replicas) for partition in metadata.partitions.values()), default=0)
    wanted = min(definition.replication, brokers)
    if wanted not in (-1, replication):
        differences.append(ReplicationDiffers(topic, replication, wanted))
    for name, value in _wanted_config(definition, replication).items():
        differences += _compare_property(topic, name, value, config)
    return differences


def _compare_property(topic: str, name: str, wanted: str, config: Mapping[str, ConfigEntry]) -> list[Difference]:
    if name not in config:
        return [Refusal(topic, f"Kafka knows no topic property {name!r}{_nearest(name, config)}; correct the definition")]
    current = config[name].value
    if _items(current) == _items(wanted):
        return []
    if _may_delete_records(name, current, wanted):
        change = f"{name} is {current}, its definition says {wanted}: Kafka may delete records after that change"
        return [Refusal(topic, f"{change}; define {current}, or make the change by hand (kafka-configs.sh --alter)")]
    return [SetConfig(topic, name, current, wanted)]


def _items(value: str | None) -> set[str]:
    """The value as a set: Kafka's lists have no order."""
    return {item.strip() for item in (value or "").split(",")}


def _may_delete_records(name: str, current: str | None, wanted: str) -> bool:
    if name in ("retention.ms", "retention.bytes"):
        return _limit(wanted) < _limit(current)
    return name == "cleanup.policy"


def _limit(value: str | None) -> float:
    """A retention as a number; -1 is none. What is no number counts as no limit: the cluster rejects it with a better text."""
    try:
        number = int(value or "-1")
    except ValueError:
        return float("inf")
    return number if number >= 0 else float("inf")


def _connect(properties: Properties) -> AdminClient:
    return AdminClient(dict(properties), logger=client_logger())


def _metadata(admin: AdminClient, properties: Properties) -> ClusterMetadata:
    try:
        return admin.list_topics(timeout=_CONNECT_TIMEOUT)
    except KafkaException as error:
        where = properties.get("bootstrap.servers")
        raise TopicsError(
            f"no broker answers at {where}: {kafka_error(error).str()}; check the address and the security settings"
        ) from error


def _describe(admin: AdminClient, topics: Iterable[str]) -> dict[str, dict[str, ConfigEntry]]:
    """All properties of the topics, defaults included."""
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    if not resources:
        return {}
    answers = admin.describe_configs(resources, request_timeout=_TIMEOUT)
    failures = {resource.name: reason for resource, answer in answers.items() if (reason := _failure(answer)) is not None}
    if failures:
        raise TopicsError("properties cannot be read: " + "; ".join(f"{topic}: {reason}" for topic, reason in failures.items()))
    return {resource.name: answer.result() for resource, answer in answers.items()}


def _execute(admin: AdminClient, differences: Sequence[Difference], *, validate_only: bool) -> dict[Change, str]:
    """Make the changes, or ask the cluster whether it would. Returns the reason for each change that failed."""
    creations = {item.topic: item for item in differences if isinstance(item, CreateTopic)}
    additions = {item.topic: item for item in differences if isinstance(item, AddPartitions)}
    settings: dict[str, list[SetConfig]] = defaultdict(list)
    for item in differences:
        if isinstance(item, SetConfig):
            settings[item.topic].append(item)
    options = {"validate_only": validate_only, "request_timeout": _TIMEOUT}
    failed: dict[Change, str] = {}
    if creations:
        answers = admin.create_topics([_new_topic(item) for item in creations.values()], **options)
        failed |= {creations[topic]: reason for topic, answer in answers.items() if (reason := _failure(answer)) is not None}
    if additions:
        answers = admin.create_partitions([NewPartitions(item.topic, item.wanted) for item in additions.values()], **options)
        failed |= {additions[topic]: reason for topic, answer in answers.items() if (reason := _failure(answer)) is not None}
    if settings:
        configs = admin.incremental_alter_configs([_alteration(topic, items) for topic, items in settings.items()], **options)
        for resource, answer in configs.items():
            if (reason := _failure(answer)) is not None:
                failed |= dict.fromkeys(settings[resource.name], reason)
    return failed


def _new_topic(creation: CreateTopic) -> NewTopic:
    return NewTopic(creation.topic, creation.partitions, creation.replication, config=dict(creation.config))


def _alteration(topic: str, settings: Iterable[SetConfig]) -> ConfigResource:
    entries = [ConfigEntry(item.name, item.wanted, incremental_operation=AlterConfigOpType.SET) for item in settings]
    return ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)


def _failure(answer: "Future[object]") -> str | None:
    """Why the cluster did not do it; None if it did."""
    try:
        answer.result()
    except KafkaException as error:
        return kafka_error(error).str()
    return None


def _with_rejections(differences: Sequence[Difference], rejected: Mapping[Change, str]) -> list[Difference]:
    def judge(difference: Difference) -> Difference:
        if isinstance(difference, Change) and difference in rejected:
            return Refusal(difference.topic, f"the cluster rejects a change: {rejected[difference]} ({difference})")
        return difference

    return [judge(difference) for difference in differences]


def _await_partitions(admin: AdminClient, properties: Properties, differences: Sequence[Difference]) -> None:
    """A change is acknowledged before every broker knows it; a client that starts at once would not find its topic."""
    wanted = {item.topic: item.partitions for item in differences if isinstance(item, CreateTopic)}
    wanted |= {item.topic: item.wanted for item in differences if isinstance(item, AddPartitions)}
    deadline = time.monotonic() + _TIMEOUT
    while missing := _not_led(_metadata(admin, properties), wanted):
        if time.monotonic() > deadline:
            raise TopicsError(f"made, but after {_TIMEOUT:.0f} s still without leaders for all partitions: {', '.join(missing)}")
        time.sleep(0.05)


def _not_led(cluster: ClusterMetadata, wanted: Mapping[str, int]) -> list[str]:
    def led(topic: str) -> int:
        metadata = cluster.topics.get(topic)
        return 0 if metadata is None else sum(partition.leader != -1 for partition in metadata.partitions.values())

    return [topic for topic, partitions in wanted.items() if led(topic) < partitions]
