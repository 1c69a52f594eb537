"""One typed configuration: a TOML file, then environment variables STREAMLEARN_..., unknown keys refused with the nearest valid name."""

import difflib
from collections.abc import Mapping
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from streamlearn.events.columns import EventFormat, Label, text
from streamlearn.events.decode import Decoder
from streamlearn.learners.pipeline import Pipeline, Scaling, TargetScaling
from streamlearn.learners.protocol import Learner, Task
from streamlearn.learners.registry import LEARNERS
from streamlearn.processor import ModelSpec

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,200}$")]
Property = str | int | float | bool


class ConfigError(ValueError):
    """The configuration cannot be used; the text names each field, its value and the remedy."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class KafkaConfig(_Section):
    """The connection. `properties` go to every librdkafka client, so TLS and SASL are set there."""

    bootstrap: str = "127.0.0.1:9092"
    properties: dict[str, Property] = {}
    consumer: dict[str, Property] = {}
    producer: dict[str, Property] = {}
    secrets_file: Path | None = None  # lines `property=value`, for what must not stand in a configuration file

    def client_properties(self) -> dict[str, Property]:
        """Properties of every client, secrets included: never log them. Raises ConfigError if the secrets file cannot be read."""
        return {"bootstrap.servers": self.bootstrap, **self.properties, **self._secrets()}

    def _secrets(self) -> dict[str, Property]:
        if self.secrets_file is None:
            return {}
        try:
            lines = self.secrets_file.read_text().splitlines()
        except OSError as error:
            raise ConfigError(f"kafka.secrets_file = {str(self.secrets_file)!r} cannot be read: {error.strerror}") from error
        pairs = [line.split("=", 1) for line in lines if line.strip() and not line.startswith("#")]
        if any(len(pair) != 2 for pair in pairs):
            raise ConfigError(f"kafka.secrets_file = {str(self.secrets_file)!r} has a line that is not property=value")
        return {name.strip(): value.strip() for name, value in pairs}


class WorkerConfig(_Section):
    """How a worker moves events."""

    commit_interval: Annotated[float, Field(gt=0, le=60)] = 0.1  # seconds: predictions become readable at most this much later
    batch_size: Annotated[int, Field(ge=1, le=100_000)] = 8000  # events per batch at most
    dtype: Literal["float32", "float64"] = "float32"
    shutdown_timeout: Annotated[float, Field(gt=0, le=300)] = 20.0  # seconds for a graceful stop or a rebalance
    instance: Name | None = None  # stable name of this worker (static membership); None: a new member at every start


class CheckpointConfig(_Section):
    """When models are written to the models topic, and what happens when they cannot be recovered exactly."""

    interval: Annotated[float, Field(gt=0, le=86_400)] = 10.0  # seconds between two checkpoints of a partition, at most
    events: Annotated[int, Field(ge=1)] = 1_000_000  # and events
    history: Annotated[int, Field(ge=1, le=100)] = 3  # checkpoints that stay addressable, for rollback
    on_change: Literal["refuse", "restart", "replay-from-earliest"] = (
        "refuse"  # the learner or a hyper-parameter differs from the checkpoint's
    )
    on_gap: Literal["stop", "continue"] = "stop"  # retention has deleted events that recovery needs


class MetricsConfig(_Section):
    """Where Prometheus and health checks find the worker."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 9400  # 0: a free one


class MemoryConfig(_Section):
    """Which models of a stream stay in memory; the others wait on disk and come back, bit for bit, when their key does."""

    max_models: Annotated[int | None, Field(ge=1)] = None  # per partition, after each batch; None: all
    idle: Annotated[float | None, Field(gt=0, le=31_536_000)] = None  # seconds without an event after which a model leaves; None: never


class StreamConfig(_Section):
    """One stream: its topics, what its events look like, and what learns from them."""

    name: Name
    task: Task = Task.BINARY
    input: Name | None = None
    output: Name | None = None
    models: Name | None = None
    dead_letters: Name | None = None

    encoding: Literal["json", "msgpack"] = "json"
    id: str | None = None
    key: str | None = None
    time: str | None = None
    label: str = "label"
    labels: tuple[Label, ...] = ()
    numeric: tuple[str, ...] = ()
    boolean: tuple[str, ...] = ()
    categorical: dict[str, tuple[str, ...] | int] = {}
    array: str | None = None
    dim: Annotated[int | None, Field(ge=1, le=1_000_000)] = None
    max_bytes: Annotated[int, Field(ge=1, le=100_000_000)] = 1_000_000

    scaling: Scaling = "standard"
    target_scaling: TargetScaling = "standard"  # regression
    learner: dict[str, Any] = {"name": "fogd"}
    memory: MemoryConfig = MemoryConfig()

    @field_validator("labels")
    @classmethod
    def _labels_as_decoded(cls, labels: tuple[Label, ...]) -> tuple[Label, ...]:
        """Whole numbers are integers, as in decoded events."""
        return tuple(int(label) if isinstance(label, float) and label.is_integer() else label for label in labels)

    @field_validator("learner")
    @classmethod
    def _learner_is_known(cls, table: dict[str, Any]) -> dict[str, Any]:
        make_learner(table)
        return table

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if (self.array is None) == (not (self.numeric or self.boolean or self.categorical)):
            raise ValueError("name either the feature fields (numeric, boolean, categorical) or `array`, not both")
        if (self.array is None) != (self.dim is None):
            raise ValueError("`array` and `dim`, the number of its features, go together")
        if self.task in (Task.BINARY, Task.RANKING) and len(self.labels) not in (0, 2):
            raise ValueError(f"labels of a {self.task} stream are a pair [negative, positive], not {list(self.labels)}")
        if len(set(map(text, self.labels))) < len(self.labels):
            raise ValueError(f"labels {list(self.labels)} must differ as text: that is how a prediction's score names them")
        learner = make_learner(self.learner)
        if self.task not in learner.tasks:
            names = ", ".join(sorted(name for name, kind in LEARNERS.items() if self.task in kind.tasks))
            raise ValueError(f"learner {learner.name} is not for task = {self.task.value!r}; learners that are: {names}")
        Decoder(self.event_format(), np.float32)  # a format that contradicts itself is refused here
        return self

    @property
    def input_topic(self) -> str:
        return self.input or f"{self.name}.events"

    @property
    def output_topic(self) -> str:
        return self.output or f"{self.name}.predictions"

    @property
    def models_topic(self) -> str:
        return self.models or f"{self.name}.models"

    @property
    def dead_letter_topic(self) -> str:
        return self.dead_letters or f"{self.name}.dead-letters"

    def event_format(self) -> EventFormat:
        return EventFormat(
            encoding=self.encoding,
            task=self.task.value,
            id=self.id,
            key=self.key,
            time=self.time,
            label=self.label,
            labels=self.labels,
            numeric=self.numeric,
            boolean=self.boolean,
            categorical=self.categorical,
            array=self.array,
            dim=self.dim,
            max_bytes=self.max_bytes,
        )

    def model_spec(self, dim: int, dtype: str) -> ModelSpec:
        pipeline = Pipeline(learner=make_learner(self.learner), scaling=self.scaling, target_scaling=self.target_scaling)
        return ModelSpec(pipeline=pipeline, task=self.task, dim=dim, dtype=np.dtype(dtype), labels=self.labels)


class Config(BaseSettings):
    """The whole configuration."""

    model_config = SettingsConfigDict(
        env_prefix="STREAMLEARN_", env_nested_delimiter="__", extra="forbid", frozen=True, nested_model_default_partial_update=True
    )

    app: Name = "streamlearn"  # consumer group, control topic and transactional ids start with it
    kafka: KafkaConfig = KafkaConfig()
    worker: WorkerConfig = WorkerConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    metrics: MetricsConfig = MetricsConfig()
    streams: tuple[StreamConfig, ...]

    @field_validator("streams")
    @classmethod
    def _names_differ(cls, streams: tuple[StreamConfig, ...]) -> tuple[StreamConfig, ...]:
        if not streams:
            raise ValueError("name at least one stream: a [[streams]] table")
        for topics in ([s.name for s in streams], [s.input_topic for s in streams], [s.output_topic for s in streams]):
            repeated = sorted({topic for topic in topics if topics.count(topic) > 1})
            if repeated:
                raise ValueError(f"two streams share {repeated[0]!r}; every stream needs a name and topics of its own")
        return streams

    @property
    def control_topic(self) -> str:
        return f"{self.app}.control"

    def topic_kinds(self) -> dict[str, str]:
        """Every topic of the application and its kind, the name of its definition in topics/."""
        kinds = {self.control_topic: "control"}
        for stream in self.streams:
            kinds[stream.input_topic] = "events"
            kinds[stream.output_topic] = "predictions"
            kinds[stream.models_topic] = "models"
            kinds[stream.dead_letter_topic] = "dead-letters"
        return kinds

    def stream(self, name: str) -> StreamConfig:
        """Raises ConfigError when there is no such stream."""
        for stream in self.streams:
            if stream.name == name:
                return stream
        raise ConfigError(f"there is no stream {name!r}{_nearest(name, [s.name for s in self.streams])}")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return env_settings, init_settings


def load(path: Path) -> Config:
    """Read a configuration file, environment variables over it. Raises ConfigError."""
    if not path.is_file():
        raise ConfigError(f"there is no configuration file {str(path)!r}; `streamlearn init` writes one")
    try:
        table = TomlConfigSettingsSource(Config, path).toml_data
    except ValueError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    try:
        return Config(**table)
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(problem) for problem in error.errors())) from error


def make_learner(table: Mapping[str, Any]) -> Learner:
    """A learner from its table: `name`, and hyper-parameters by the names of its dataclass; `gamma` means 1 / (2 sigma^2).

    Raises ValueError naming the hyper-parameter, its value and what is allowed.
    """
    parameters = dict(table)
    name = parameters.pop("name", None)
    if name not in LEARNERS:
        raise ValueError(f"there is no learner {name!r}{_nearest(str(name), LEARNERS)}; `streamlearn learners` lists them all")
    kind = LEARNERS[name]
    allowed = [field.name for field in dataclass_fields(kind)]  # type: ignore[arg-type]
    if "gamma" in parameters and "sigma" in allowed:
        if "sigma" in parameters:
            raise ValueError("sigma and gamma = 1 / (2 sigma^2) are the same thing: set one of them")
        parameters["sigma"] = _sigma(parameters.pop("gamma"))
    for parameter in parameters:
        if parameter not in allowed:
            raise ValueError(f"learner {name} has no hyper-parameter {parameter!r}{_nearest(parameter, allowed)}")
    try:
        return TypeAdapter(kind).validate_python(parameters)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, p['loc']))} = {p['input']!r}: {p['msg']}" for p in error.errors())
        raise ValueError(f"learner {name}: {problems}") from error


def _sigma(gamma: Any) -> float:
    if not isinstance(gamma, int | float) or isinstance(gamma, bool) or not gamma > 0:
        raise ValueError(f"gamma = {gamma!r} must be a number greater than 0")
    return float(1.0 / np.sqrt(2.0 * gamma))


def _nearest(name: str, valid: Any) -> str:
    close = difflib.get_close_matches(name, list(valid), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _explain(problem: Any) -> str:
    place = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        parent, name = problem["loc"][:-1], str(problem["loc"][-1])
        return f"{place} is not a setting{_nearest(name, _settings_at(parent))}"
    if problem["type"] == "missing":
        return f"{place} is missing"
    value = "" if isinstance(problem["input"], dict | list) else f" = {problem['input']!r}"
    return f"{place or 'configuration'}{value}: {problem['msg'].removeprefix('Value error, ')}"


def _settings_at(location: tuple[Any, ...]) -> list[str]:
    sections: dict[str, type[BaseModel]] = {
        "kafka": KafkaConfig, "worker": WorkerConfig, "checkpoint": CheckpointConfig, "metrics": MetricsConfig, "streams": StreamConfig,
    }  # fmt: skip
    section = sections.get(str(location[0])) if location else Config
    return list(section.model_fields) if section else []
