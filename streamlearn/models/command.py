"""`streamlearn models`: the commands, and what they print."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from streamlearn.agents.control import ControlError
from streamlearn.checkpoint.errors import CheckpointError
from streamlearn.checkpoint.marker import Marker
from streamlearn.config import Config, StreamConfig, load
from streamlearn.kafka.reader import PartitionReader, ReadError
from streamlearn.models import changes
from streamlearn.models.errors import ModelsError
from streamlearn.models.files import export_models
from streamlearn.models.listing import Contents, Description, ModelRow, Sort, describe, read_contents, top
from streamlearn.models.moments import Moment, parse_time, show_time

app = typer.Typer(help="The models of a stream: what the models topic holds, and changing it.", no_args_is_help=True)
console = Console()

ERRORS = (ModelsError, CheckpointError, ReadError, ControlError)
"""What these commands raise for people to act on."""

_PATIENCE = 60.0
_HEADINGS = {"partition": "part", "mistake_rate": "mistakes", "age_seconds": "age (s)"}
_LONG = ("key", "detail", "shape")

ConfigOption = Annotated[Path, typer.Option("--config", "-c", help="Configuration file (TOML).")]
DEFAULT_CONFIG = Path("streamlearn.toml")
StreamOption = Annotated[str | None, typer.Option("--stream", "-s", help="Stream; needed where several are configured.")]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON instead of tables.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
WaitOption = Annotated[float, typer.Option(min=1, help="Seconds to wait for the workers' answers.")]
PartitionOption = Annotated[int | None, typer.Option(min=0, help="Only this partition.")]
CheckpointOption = Annotated[int | None, typer.Option(min=1, help="Number of the checkpoint; partitions count for themselves.")]
BackOption = Annotated[int | None, typer.Option(min=1, help="So many checkpoints before the newest.")]
TimeOption = Annotated[str | None, typer.Option("--time", help="The newest checkpoint that is not later: 2026-01-31T12:00.")]


@app.command("list")
def list_models(
    stream: StreamOption = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Models to show.")] = 20,
    sort: Annotated[Sort, typer.Option(help="key; or the largest first: learned, mistakes (their rate), size, age.")] = "learned",
    checkpoints: Annotated[bool, typer.Option("--checkpoints", help="Show the checkpoints instead, those one can go back to.")] = False,
    as_json: JsonOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """What is in the models topic: each key's learner, events learned, mistake rate, size, offset and age of its last checkpoint."""
    settings, chosen = _stream(config, stream)
    with PartitionReader(settings.kafka.client_properties()) as reader:
        contents = [read_contents(reader, partition) for partition in reader.partitions(chosen.models_topic)]
    now = time.time()
    if checkpoints:
        _print([_checkpoint(c.partition, marker, now) for c in contents for marker in c.kept], as_json)
        return
    rows = top(contents, sort, limit)
    _print([_row(row, now) for row in rows], as_json)
    if not as_json:
        console.print(_summary(chosen, contents, len(rows)), highlight=False)


@app.command()
def show(
    key: Annotated[str, typer.Argument(help="Key of the model; '' where one model serves all events.")],
    stream: StreamOption = None,
    as_json: JsonOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Everything about one model: hyper-parameters, arrays, and the versions of it that are still in the topic."""
    settings, chosen = _stream(config, stream)
    with PartitionReader(settings.kafka.client_properties()) as reader:
        found = [
            description
            for partition in reader.partitions(chosen.models_topic)
            if (description := describe(read_contents(reader, partition, key), key)) is not None
        ]
    if not found:
        raise ModelsError(f"{chosen.models_topic} has no model for the key {key!r}; `streamlearn models list` shows those there are")
    now = time.time()
    for description in found:
        _print_description(description, now, as_json)


@app.command()
def export(
    file: Annotated[Path, typer.Argument(help="File to write; it is replaced when the models are complete.")],
    key: Annotated[list[str] | None, typer.Option("--key", "-k", help="Only this key's model; may be repeated.")] = None,
    stream: StreamOption = None,
    checkpoint: CheckpointOption = None,
    back: BackOption = None,
    at: TimeOption = None,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Write models to a file: all of a stream, or those of some keys; of the newest checkpoint, or an earlier one."""
    settings, chosen = _stream(config, stream)
    with _naming(file):
        count = export_models(settings, chosen, file, key or [], _moment(checkpoint, back, at))
    console.print(f"wrote {count} models to {file}", highlight=False, soft_wrap=True)


@app.command("import")
def import_models(
    file: Annotated[Path, typer.Argument(help="File of `models export`, from any stream with the same learner and hyper-parameters.")],
    stream: StreamOption = None,
    key: Annotated[list[str] | None, typer.Option("--key", "-k", help="Only this key's model; may be repeated.")] = None,
    partition: Annotated[
        int | None, typer.Option(min=0, help="Where the events of these keys arrive; needed where the file has other partitions.")
    ] = None,
    wait: WaitOption = _PATIENCE,
    as_json: JsonOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Give the running workers models to start from; those of the same keys are replaced."""
    settings, chosen = _stream(config, stream)
    with _naming(file):
        report = changes.import_models(settings, chosen, file, wait, keys=key or [], partition=partition)
    _conclude(report, as_json)


@app.command()
def rollback(
    stream: StreamOption = None,
    checkpoint: CheckpointOption = None,
    back: BackOption = None,
    at: TimeOption = None,
    file: Annotated[Path | None, typer.Option(help="Back to the models of an exported file.")] = None,
    partition: PartitionOption = None,
    yes: YesOption = False,
    wait: WaitOption = _PATIENCE,
    as_json: JsonOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Put the models of a stream back to an earlier checkpoint or an exported file; what they learned since is forgotten."""
    settings, chosen = _stream(config, stream)
    moment = _moment(checkpoint, back, at)
    if (moment == Moment()) == (file is None):
        raise ModelsError("name one of --checkpoint, --back, --time or --file; `streamlearn models list --checkpoints` shows what there is")
    if file is not None:
        _confirm(yes, f"replace the models of stream {chosen.name} by those of {file}?")
        with _naming(file):
            report = changes.import_models(settings, chosen, file, wait, partition=partition, replace=True)
    else:
        steps = changes.plan_rollback(settings, chosen, moment, partition)
        if not as_json:
            for step in steps:
                console.print(f"partition {step.partition}: {_about(step.now)} -> {_about(step.then)}", highlight=False, soft_wrap=True)
        _confirm(yes, f"put the models of stream {chosen.name} back?")
        report = changes.rollback(settings, chosen, steps, wait)
    _conclude(report, as_json)


@app.command()
def delete(
    keys: Annotated[list[str], typer.Argument(help="Keys whose models are deleted.")],
    stream: StreamOption = None,
    yes: YesOption = False,
    wait: WaitOption = _PATIENCE,
    as_json: JsonOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Delete the models of some keys for good, from earlier checkpoints too. A key that returns begins with a fresh model."""
    settings, chosen = _stream(config, stream)
    _confirm(yes, f"delete the models of {len(keys)} keys of stream {chosen.name} for good?")
    _conclude(changes.delete(settings, chosen, keys, wait), as_json)


def _stream(path: Path, name: str | None) -> tuple[Config, StreamConfig]:
    settings = load(path)
    if name is None and len(settings.streams) > 1:
        raise ModelsError(f"name one with --stream: {', '.join(stream.name for stream in settings.streams)}")
    return settings, settings.stream(name or settings.streams[0].name)


def _moment(checkpoint: int | None, back: int | None, at: str | None) -> Moment:
    if sum(value is not None for value in (checkpoint, back, at)) > 1:
        raise ModelsError("--checkpoint, --back and --time exclude each other")
    return Moment(checkpoint, back, None if at is None else parse_time(at))


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Errors of a file say which file."""
    try:
        yield
    except OSError as error:
        raise ModelsError(f"{file}: {error.strerror or error}") from error


def _confirm(yes: bool, question: str) -> None:
    if not yes:
        typer.confirm(question, abort=True)


def _conclude(report: changes.Report, as_json: bool) -> None:
    """Print what became of a change; exit code 1 unless all of it was done."""
    answers: list[dict[str, Any]] = [
        {"partition": answer.partition, "outcome": answer.outcome, "worker": answer.worker, "detail": answer.detail}
        for answer in report.answers
    ]
    answers += [
        {"partition": number, "outcome": "unanswered", "worker": None, "detail": "no worker answered in time; is one running?"}
        for number in report.unanswered
    ]
    _print(answers, as_json)
    if not report.done:
        raise typer.Exit(1)


def _row(row: ModelRow, now: float) -> dict[str, Any]:
    return {
        "partition": row.partition, "key": row.key, "learner": row.learner, "learned": row.learned, "mistake_rate": row.mistake_rate,
        "bytes": row.size, "offset": row.offset, "checkpoint": row.checkpoint, "age_seconds": round(now - row.time, 1),
    }  # fmt: skip


def _checkpoint(partition: int, marker: Marker, now: float) -> dict[str, Any]:
    return {
        "partition": partition, "checkpoint": marker.checkpoint, "time": show_time(marker.time), "offset": marker.offset,
        "models": marker.models, "written": marker.written, "epoch": marker.epoch, "age_seconds": round(now - marker.time, 1),
    }  # fmt: skip


def _print_description(found: Description, now: float, as_json: bool) -> None:
    arrays = [{"name": name, "dtype": dtype, "shape": list(shape)} for name, dtype, shape in found.model.arrays]
    versions = [{"version": row.version, "epoch": row.epoch, **_row(row, now)} for row in found.versions]
    whole = {
        **_row(found.row, now), "task": found.model.task, "dtype": found.model.dtype, "dim": found.model.dim,
        "fingerprint": found.model.fingerprint, "hyper_parameters": found.marker.description, "classes": list(found.marker.classes),
        "arrays": arrays, "versions": versions,
    }  # fmt: skip
    if as_json:
        typer.echo(json.dumps(whole))
        return
    for name, value in whole.items():
        if name not in ("hyper_parameters", "arrays", "versions"):
            console.print(f"{name}: {_text(value)}", highlight=False, markup=False)
    for name, value in found.marker.description.items():
        console.print(f"  {name} = {value}", highlight=False, markup=False)
    _print(arrays, as_json)
    _print(versions, as_json)


def _print(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        for row in rows:
            typer.echo(json.dumps(row))
        return
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in rows[0] if rows else ():
        table.add_column(_HEADINGS.get(name, name), overflow="fold", no_wrap=name not in _LONG)
    for row in rows:
        table.add_row(*(escape(_text(value)) for value in row.values()))
    console.print(table if rows else "nothing there", highlight=False)


def _text(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _summary(stream: StreamConfig, contents: list[Contents], shown: int) -> str:
    total = sum(len(c.rows) for c in contents)
    size = sum(row.size for c in contents for row in c.rows.values())
    return f"{shown} of {total} models of stream {stream.name}, {size / 1e6:.1f} MB in {len(contents)} partitions"


def _about(marker: Marker) -> str:
    return f"checkpoint {marker.checkpoint} of {show_time(marker.time)}, offset {marker.offset}, {marker.models} models"
