"""The worker process: a Faust application around the exactly-once loop."""

import asyncio
import gc
import ssl
import sys
import tempfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import faust
import msgspec
import structlog
from confluent_kafka import Consumer
from faust.types.auth import CredentialsT

from streamlearn import __version__
from streamlearn.agents import control
from streamlearn.agents.channel import BatchChannel
from streamlearn.agents.commands import ModelCommand, ModelCommands
from streamlearn.agents.loop import LearningLoop
from streamlearn.agents.service import SourceService
from streamlearn.agents.stream import Stream
from streamlearn.config import Config
from streamlearn.kafka.clients import client_logger, consumer_properties, producer_properties, reader_properties
from streamlearn.kafka.reader import PartitionReader
from streamlearn.kafka.sink import TransactionalSink
from streamlearn.kafka.source import Source
from streamlearn.metrics import Metrics
from streamlearn.monitoring import MonitoringServer
from streamlearn.warm import compile_config

log = structlog.get_logger(__name__)

MAX_POLL_TIMEOUT = 0.05  # seconds: how long a batch is collected at most
GARBAGE_THRESHOLD = 100_000  # new objects between two collections: a few batches of messages, instead of a third of one
SWITCH_INTERVAL = 0.01  # seconds a thread may keep Python while others wait: two batches move through it faster one after the other
STALLED = 60.0  # seconds without progress after which a worker no longer counts as alive


class StartError(Exception):
    """The worker cannot start; the text names what is missing and the remedy."""


def run(config: Config) -> int:
    """Run a worker until SIGTERM or SIGINT; returns the process's exit code. Raises StartError, ConfigError."""
    started = time.monotonic()
    _require_topics(config)
    compile_config(config)
    log.info("compiled", seconds=round(time.monotonic() - started, 2))
    streams = {stream.input_topic: Stream(stream, config.worker.dtype) for stream in config.streams}
    return _serve(config, streams)


def _serve(config: Config, streams: dict[str, Stream]) -> int:
    connection = config.kafka.client_properties()
    instance = config.worker.instance or uuid.uuid4().hex[:12]
    producer = producer_properties(connection, f"{config.app}-{instance}", config.worker.commit_interval, config.kafka.producer)
    metrics = Metrics()
    for stream in streams.values():
        metrics.build(__version__, stream.config.name, stream.learner)
    loop = LearningLoop(
        streams,
        TransactionalSink(producer, config.worker.shutdown_timeout),
        lambda: PartitionReader(connection),
        config.worker.commit_interval,
        config.checkpoint,
        metrics,
    )
    with tempfile.TemporaryDirectory(prefix="streamlearn-") as folder:
        app = faust_app(config, folder)
        host, port = config.metrics.host, config.metrics.port
        with MonitoringServer(metrics.registry, lambda: _alive(loop), lambda: _ready(loop, app), host, port) as monitoring:
            log.info("monitoring", url=monitoring.url)
            return _run_faust(config, instance, app, streams, loop, metrics)


def _run_faust(config: Config, instance: str, app: faust.App, streams: dict[str, Stream], loop: LearningLoop, metrics: Metrics) -> int:
    consumer = consumer_properties(config.kafka.client_properties(), config.app, config.worker.instance, config.kafka.consumer)
    channel = BatchChannel(app, maxsize=2)
    service = SourceService(
        lambda: Source(consumer, list(streams), loop),
        loop,
        channel,
        config.worker.batch_size,
        min(config.worker.commit_interval / 4, MAX_POLL_TIMEOUT),
        config.worker.shutdown_timeout,
        metrics,
    )
    commands = ModelCommands(instance, streams, loop, lambda: PartitionReader(config.kafka.client_properties()))
    _define_agents(app, config, instance, loop, commands, service, channel)
    return _execute(app, service)


def _alive(loop: LearningLoop) -> tuple[bool, str]:
    idle = time.monotonic() - loop.last_progress
    return idle < STALLED, f"the loop last made progress {idle:.1f} s ago"


def _ready(loop: LearningLoop, app: faust.App) -> tuple[bool, str]:
    if not loop.ready:
        return False, "waiting for partitions, or recovering their models"
    if not app.flow_control.is_active():  # what is asked before would not be heard
        return False, "waiting for the control topic"
    return True, "partitions are assigned and recovered"


def faust_app(config: Config, folder: str) -> faust.App:
    """The Faust application. Its own consumer reads the control topic only, so every worker has an id, and so a group, of its own.

    folder: where Faust makes the data folder that it insists on; nothing of ours goes into it.
    """
    return faust.App(
        id=f"{config.app}-control-{uuid.uuid4().hex[:12]}",  # new at every start: what was asked of workers before it is not for it
        broker=[f"kafka://{host}" for host in config.kafka.bootstrap.split(",")],
        broker_credentials=_credentials(config),
        datadir=folder,
        consumer_auto_offset_reset="latest",
        topic_disable_leader=True,
        topic_allow_declare=False,
        web_enabled=False,
        store="memory://",
        stream_wait_empty=False,
        worker_redirect_stdouts=False,
    )


def _define_agents(
    app: faust.App,
    config: Config,
    instance: str,
    loop: LearningLoop,
    commands: ModelCommands,
    service: SourceService,
    channel: BatchChannel,
) -> None:
    learning = ThreadPoolExecutor(1, thread_name_prefix="learning")

    @app.agent(channel)
    async def learn(batches: Any) -> None:
        before: asyncio.Future[None] | None = None
        async for batch in batches:
            handled = asyncio.get_running_loop().run_in_executor(learning, loop.handle, batch.parts, batch.generation, batch.number)
            try:
                if before is not None:  # so that learning has its next batch at hand
                    await before
            except Exception as error:  # noqa: BLE001 - any failure of learning ends the worker
                await service.fail(error)
                return
            before = handled

    topic = app.topic(config.control_topic, value_type=bytes, value_serializer="raw", key_type=bytes, key_serializer="raw")

    @app.agent(topic)
    async def obey(records: Any) -> None:
        async for record in records.events():
            if record.key == control.ANSWER_KEY:
                continue
            try:
                answer = await asyncio.to_thread(_answer, control.decode(record.value), instance, loop, commands)
            except control.ControlError as error:
                log.error("control message left out", error=str(error))
            except Exception as error:  # noqa: BLE001 - a change of models that was left half done ends the worker
                await service.fail(error)
                return
            else:
                if answer is not None:
                    await topic.send(partition=0, key=control.ANSWER_KEY, value=answer)


def _answer(message: control.ControlMessage | ModelCommand, instance: str, loop: LearningLoop, commands: ModelCommands) -> bytes | None:
    """Follow a message; returns what to answer. Raises ControlError, SinkError."""
    if isinstance(message, ModelCommand):
        answer = commands.follow(message)
        return None if answer is None else msgspec.json.encode(answer)
    if message.command != "status":
        control.follow(message, loop)
        return None
    status = control.Status(answer=message.id, worker=instance, version=__version__, ready=loop.ready, partitions=loop.positions())
    return msgspec.json.encode(status)


def _execute(app: faust.App, service: SourceService) -> int:
    sys.setswitchinterval(SWITCH_INTERVAL)
    gc.freeze()  # what is there now stays
    gc.set_threshold(GARBAGE_THRESHOLD, 10, 10)
    worker = faust.Worker(app, service, loglevel="warn", redirect_stdouts=False, quiet=True, override_logging=False)
    worker.spinner = None  # it writes terminal escapes wherever standard output goes
    code: object = 0
    try:
        worker.execute_from_commandline()
    except SystemExit as exited:
        code = exited.code
    except Exception:
        if service.failure is None:
            raise
    return 1 if service.failure is not None or code else 0


def _require_topics(config: Config) -> None:
    consumer = Consumer(reader_properties(config.kafka.client_properties()), logger=client_logger())
    try:
        topics = consumer.list_topics(timeout=10).topics
    except Exception as error:
        raise StartError(f"no broker answers at kafka.bootstrap = {config.kafka.bootstrap!r}: {error}") from error
    finally:
        consumer.close()
    missing = [topic for topic in config.topic_kinds() if topic not in topics]
    if missing:
        raise StartError(f"topics are missing: {', '.join(missing)}; `streamlearn topics apply` makes them")
    partitions = {name: len(topic.partitions) for name, topic in topics.items()}
    for stream in config.streams:
        wanted = partitions[stream.input_topic]
        for topic in (stream.output_topic, stream.models_topic):
            if partitions[topic] != wanted:
                raise StartError(
                    f"{topic} has {partitions[topic]} partitions, {stream.input_topic} has {wanted}; a worker writes the partition that it "
                    "reads, so they must be equal. `streamlearn topics apply` adds partitions where they are too few"
                )


def _credentials(config: Config) -> CredentialsT | None:
    """What librdkafka is told about TLS and SASL, for the control consumer's client."""
    properties = config.kafka.client_properties()
    protocol = str(properties.get("security.protocol", "plaintext")).lower()
    if protocol == "plaintext":
        return None
    context = _ssl_context(properties) if "ssl" in protocol else None
    if not protocol.startswith("sasl"):
        return faust.SSLCredentials(context)
    return faust.SASLCredentials(
        username=str(properties.get("sasl.username", "")),
        password=str(properties.get("sasl.password", "")),
        mechanism=str(properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "PLAIN"))),
        ssl_context=context,
    )


def _ssl_context(properties: dict[str, Any]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=properties.get("ssl.ca.location"))
    if "ssl.certificate.location" in properties:
        context.load_cert_chain(
            properties["ssl.certificate.location"], properties.get("ssl.key.location"), properties.get("ssl.key.password")
        )
    return context
