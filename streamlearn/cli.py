"""The command line: every command checks its input, then hands over to the module that does the work.

Modules that load Faust or compile kernels are imported by the command that needs them, so that `--help` answers at once.
"""

import inspect
import json
import sys
from dataclasses import fields as dataclass_fields
from functools import partial
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from streamlearn import __version__, logs
from streamlearn.bundled import TEMPLATE, event_file
from streamlearn.config import Config, ConfigError, load, make_learner
from streamlearn.kafka import topics as kafka_topics
from streamlearn.learners.parameters import AUTO_WIDTH
from streamlearn.learners.protocol import Task
from streamlearn.learners.registry import LEARNERS
from streamlearn.models import command as models_command

app = typer.Typer(
    help="Online kernel learning next to Apache Kafka. Start with `streamlearn init`, then `streamlearn topics apply` and `worker`.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
topics_app = typer.Typer(help="The topics of the configured streams: what the cluster lacks, and making it.", no_args_is_help=True)
config_app = typer.Typer(help="The configuration file.", no_args_is_help=True)
app.add_typer(topics_app, name="topics")
app.add_typer(config_app, name="config")
app.add_typer(models_command.app, name="models")

ConfigOption = Annotated[Path, typer.Option("--config", "-c", help="Configuration file (TOML).")]
DEFAULT_CONFIG = Path("streamlearn.toml")
_COLUMNS = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[events]:,} events"), TimeRemainingColumn())
INTERRUPTED = 130  # exit code after Ctrl-C, as shells report it
console = Console()
errors = Console(stderr=True)


def main() -> None:
    """Entry point: errors that people can act on are printed without a traceback."""
    try:
        app()
    except (ConfigError, kafka_topics.TopicsError, *models_command.ERRORS) as error:
        fail(str(error))


def fail(message: str) -> NoReturn:
    """Print an error and end with exit code 1."""
    errors.print(f"[bold red]error:[/] {escape(message)}", highlight=False, soft_wrap=True)
    sys.exit(1)


@app.command()
def version() -> None:
    """Print the version."""
    console.print(__version__)


@app.command()
def worker(
    config: ConfigOption = DEFAULT_CONFIG,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error")] = "info",
) -> None:
    """Run a worker: predict and learn the events of all configured streams until SIGTERM.

    Start as many as there are partitions to share; each uses one core. Exit code 0 after SIGTERM, 1 after a failure.
    """
    from streamlearn.agents.worker import StartError, run

    logs.configure(log_level)
    settings = load(config)
    try:
        sys.exit(run(settings))
    except StartError as error:
        fail(str(error))


@app.command("compile")
def compile_kernels(config: Annotated[Path | None, typer.Option("--config", "-c", help="Only the learners of this file.")] = None) -> None:
    """Compile kernels into the cache (NUMBA_CACHE_DIR), so that workers start at once: those of a configuration, or of all learners."""
    from streamlearn.warm import compile_all, compile_config

    if config is None:
        with Progress(console=console) as progress:
            for name in progress.track(list(LEARNERS), description="compiling"):
                compile_all(name)
    else:
        compile_config(load(config))


@app.command()
def init(
    path: Annotated[Path, typer.Argument(help="File to write.")] = DEFAULT_CONFIG,
    force: Annotated[bool, typer.Option(help="Overwrite an existing file.")] = False,
) -> None:
    """Write a commented configuration file to start from."""
    if path.exists() and not force:
        fail(f"{path} exists; use another name, or --force to overwrite it")
    path.write_text(TEMPLATE.read_text())
    console.print(f"wrote {path}: edit the stream, then `streamlearn config check`")


@config_app.command("check")
def check_config(config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Validate a configuration, learners' hyper-parameters included, and print what would run."""
    from streamlearn.warm import compile_config

    settings = load(config)
    compile_config(settings)
    show = partial(console.print, highlight=False, markup=False)
    show(f"application {settings.app}: Kafka at {settings.kafka.bootstrap}, metrics at {settings.metrics.host}:{settings.metrics.port}")
    for stream in settings.streams:
        features = f"{stream.array}[{stream.dim}]" if stream.array else ", ".join((*stream.numeric, *stream.boolean, *stream.categorical))
        show(f"stream {stream.name}: {stream.input_topic} -> {stream.output_topic} ({stream.encoding})")
        show(
            f"  {stream.task} label {stream.label!r} from {features}, scaling {stream.scaling}, one model per {stream.key or 'record key'}"
        )
        show(f"  {make_learner(stream.learner)}")


def _differences(settings: Config, partitions: int | None, replication: int | None) -> list[kafka_topics.Difference]:
    definitions = kafka_topics.with_overrides(kafka_topics.load_definitions(), partitions, replication)
    return kafka_topics.plan(settings.kafka.client_properties(), definitions, settings.topic_kinds())


PartitionsOption = Annotated[int | None, typer.Option(help="Partitions of events, predictions and models topics.")]
ReplicationOption = Annotated[int | None, typer.Option(help="Replication factor of all topics.")]


@topics_app.command("plan")
def plan_topics(config: ConfigOption = DEFAULT_CONFIG, partitions: PartitionsOption = None, replication: ReplicationOption = None) -> None:
    """Show how the cluster's topics differ from what the configuration needs. Changes nothing."""
    differences = _differences(load(config), partitions, replication)
    for difference in differences:
        console.print(str(difference), highlight=False)
    if not differences:
        console.print("nothing to do")


@topics_app.command("apply")
def apply_topics(config: ConfigOption = DEFAULT_CONFIG, partitions: PartitionsOption = None, replication: ReplicationOption = None) -> None:
    """Make the topics that are missing and add what they lack. Never deletes anything, refuses to shrink."""
    settings = load(config)
    differences = _differences(settings, partitions, replication)
    kafka_topics.apply(settings.kafka.client_properties(), differences)
    for difference in differences:
        console.print(f"done: {difference}", highlight=False)


@app.command()
def publish(
    file: Annotated[str, typer.Argument(help="CSV, TSV, JSON lines, LIBSVM or .npz file (.gz and .xz too), or `flights`.")],
    stream: Annotated[str | None, typer.Option("--stream", "-s", help="Stream; needed where several are configured.")] = None,
    rate: Annotated[float | None, typer.Option(min=0.001, help="Events per second; without it as fast as possible.")] = None,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Publish the events of a file to a stream's input topic, in order."""
    from streamlearn.events.files import EventFile, FileError
    from streamlearn.publish import PublishError, publish_events

    settings = load(config)
    target = settings.stream(stream or settings.streams[0].name)
    try:
        with EventFile(event_file(file)) as events, Progress(*_COLUMNS, console=errors) as progress:
            bar = progress.add_task(f"publishing to {target.input_topic}", total=events.size, events=0)
            sent = publish_events(
                events,
                target,
                settings.kafka.client_properties(),
                rate,
                lambda count: progress.update(bar, completed=events.position, events=count),
            )
    except (FileError, PublishError, OSError) as error:
        fail(str(error))
    console.print(f"published {sent} events to {target.input_topic}")


@app.command()
def backtest(
    file: Annotated[str, typer.Argument(help="CSV, TSV, JSON lines, LIBSVM or .npz file (X, y, permutations), or `flights`.")],
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="Learn the file's events as this configuration's stream would.")
    ] = None,
    stream: Annotated[str | None, typer.Option("--stream", "-s", help="With --config: which stream.")] = None,
    task: Annotated[Task | None, typer.Option(help="Without --config; guessed from the labels by default.")] = None,
    learner: Annotated[list[str] | None, typer.Option(help="May be repeated.")] = None,
    setting: Annotated[list[str] | None, typer.Option("--set", help="Hyper-parameter name=value; may be repeated.")] = None,
    label: Annotated[str | None, typer.Option(help="Label column of a CSV or TSV file; by default the last.")] = None,
    permutations: Annotated[Path | None, typer.Option(help=".npz file with `permutations`, one order of the rows per run.")] = None,
    runs: Annotated[int | None, typer.Option(min=1, help="Runs; by default all permutations, or one in the file's order.")] = None,
    scaling: Annotated[
        str, typer.Option(help="Online, without --config: none (as in the papers), standard or min-max. Targets: none or standard.")
    ] = "none",
    dtype: Annotated[str, typer.Option(help="float32 or float64")] = "float32",
    seed: Annotated[int, typer.Option(help="Of random orders.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per learner.")] = False,
    report: Annotated[Path | None, typer.Option(help="Folder for curves as pictures and an HTML page.")] = None,
) -> None:
    """Learn a file without Kafka, by the worker's own processor: predict each event, count the mistake, then learn it.

    With --config the events go through the stream's own format, keys and learner, bit for bit as in the worker. Without, one model learns
    the file's numbers: `streamlearn backtest german.npz --learner ogd --learner fogd --set sigma=8 --dtype float64`.
    """
    from streamlearn.evaluation import command
    from streamlearn.evaluation.report import write_report

    try:
        if config is not None:
            if learner or setting or task:
                fail("--config names the task and the learner; leave --task, --learner and --set out")
            studies = command.backtest_stream(load(config), stream, event_file(file), errors)
        else:
            arrays = command.read_arrays(event_file(file), label, permutations)
            names = learner or ["fogd"]
            studies = command.backtest_learners(arrays, task, names, setting or [], runs, dtype, scaling, seed, errors)
        page = write_report(studies, report) if report else None
    except (ValueError, OSError) as error:
        fail(str(error))
    summaries = [study.summary() for study in studies]
    for summary in summaries if as_json else []:
        typer.echo(json.dumps(summary))
    if not as_json:
        console.print(command.table(summaries))
    if page is not None:
        errors.print(f"report: {page}", highlight=False, soft_wrap=True)


@app.command()
def demo(
    broker: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="A broker that runs already; without it, one is found.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave broker and worker running at the end.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="End a demo that was left running.")] = False,
    rate: Annotated[float, typer.Option(min=1, help="Events per second.")] = 2000,
    events: Annotated[int, typer.Option(min=1, max=60_000, help="How many of the flights.")] = 60_000,
    partitions: Annotated[int, typer.Option(min=1, max=64, help="Partitions of the stream.")] = 2,
) -> None:
    """See it learn: will a flight arrive late? Starts a broker and a worker, publishes real flights, measures, takes all down.

    Exit code 0 if every event has exactly one prediction, 1 if not or if something failed, 130 after Ctrl-C.
    """
    try:
        from streamlearn.demo.keep import stop_kept
        from streamlearn.demo.run import Options, run
        from streamlearn.demo.worker import DemoError
        from streamlearn.kafka.distribution import BrokerUnavailable
        from streamlearn.publish import PublishError

        if not stop:
            sys.exit(run(Options(broker=broker, keep=keep, rate=rate, events=events, partitions=partitions), console))
        for line in stop_kept():
            console.print(line, highlight=False)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except (DemoError, BrokerUnavailable, PublishError) as error:
        fail(str(error))


@app.command()
def learners(name: Annotated[str | None, typer.Argument(help="Learner to explain.")] = None) -> None:
    """List all learners, or explain one with its hyper-parameters."""
    if name is None:
        table = Table()
        for heading in ("learner", "tasks", "what it is"):
            table.add_column(heading, overflow="fold")
        for kind in LEARNERS.values():
            table.add_row(kind.name, ", ".join(sorted(kind.tasks)), escape((kind.__doc__ or "").strip().splitlines()[0]))
        console.print(table)
    elif name not in LEARNERS:
        fail(f"there is no learner {name!r}; `streamlearn learners` lists them")
    else:
        console.print(inspect.getdoc(LEARNERS[name]), highlight=False, markup=False)
        defaults = ", ".join(f"{field.name} = {field.default!r}" for field in dataclass_fields(LEARNERS[name]))  # type: ignore[arg-type]
        console.print(f"\nDefaults: {defaults}", highlight=False, markup=False)
        if "sigma = 'auto'" in defaults:
            console.print(f"\nsigma = auto: {AUTO_WIDTH}", highlight=False, markup=False)


@app.command()
def control(
    command: Annotated[str, typer.Argument(help="pause, resume, log-level or status")],
    stream: Annotated[str | None, typer.Option("--stream", "-s", help="For pause and resume; without it, all streams.")] = None,
    level: Annotated[str | None, typer.Option(help="For log-level: debug, info, warning or error.")] = None,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Tell all running workers to do something."""
    from streamlearn.agents.control import ControlError
    from streamlearn.remote import ask

    settings = load(config)
    try:
        answers = ask(settings, command, stream, level)
    except ControlError as error:
        fail(str(error))
    if command == "status" and not answers:
        fail("no worker answered")
    for answer in answers:
        console.print_json(json.dumps(answer))
