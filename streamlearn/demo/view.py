"""What the demo shows: a live view on a terminal, a line now and then elsewhere, and a summary."""

import math
import shutil
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from streamlearn.demo.measures import LATE_DEPARTURE, WINDOW, Measures, Rates

LIVE_INTERVAL = 0.25  # seconds
PLAIN_INTERVAL = 3.0
QUESTION = "Will this flight arrive more than 15 minutes late?"
RULE = f"fixed rule: departs > {LATE_DEPARTURE:.0f} min late"
NEVER = "always no"
MODELS = "one model per carrier"
_CARRIERS = 5
_NAMES = {"UA": "United", "B6": "JetBlue", "EV": "ExpressJet", "DL": "Delta", "AA": "American", "MQ": "Envoy", "US": "US Airways"}


class Progress(NamedTuple):
    """How far the run is."""

    total: int
    published: int
    now: float


class View:
    """A context manager. `update` may be called as often as one likes."""

    def __init__(self, console: Console, title: str, measures: Measures) -> None:
        self._console = console
        self._title = title
        self._measures = measures
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._next = 0.0

    def __enter__(self) -> Self:
        self._measures.speed(time.time())  # the speed counts from here on
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, progress: Progress, *, last: bool = False) -> None:
        if (progress.now < self._next and not last) or (self._live is None and not self._measures.predicted):
            return
        self._next = progress.now + (LIVE_INTERVAL if self._live else PLAIN_INTERVAL)
        if self._live is not None:
            self._live.update(Padding(screen(self._title, self._measures, progress), (1, 1, 0, 1)), refresh=True)
        elif not last:
            self._console.print(self._line(progress), highlight=False, soft_wrap=True)

    def _line(self, progress: Progress) -> str:
        measures, all_flights, latency = self._measures, self._measures.tally.rates(), self._measures.latency(WINDOW)
        return (
            f"{measures.predicted:,} of {progress.total:,} predicted, {measures.speed(progress.now):,.0f} events/s, "
            f"lag {progress.published - measures.predicted:,}, wrong {_percent(all_flights.model)} (last {WINDOW:,}: "
            f"{_percent(measures.recent().model)}; fixed rule {_percent(all_flights.rule)}, always no {_percent(all_flights.majority)}), "
            f"latency p50 {_milliseconds(latency.median)}, p99 {_milliseconds(latency.p99)}"
        )


def screen(title: str, measures: Measures, progress: Progress) -> RenderableType:
    """The live view; fits 80 columns and 22 lines."""
    bar = Table.grid(padding=(0, 2), expand=True)
    bar.add_column(ratio=1)
    bar.add_column(justify="right", no_wrap=True)
    bar.add_row(ProgressBar(progress.total, measures.predicted), f"{measures.predicted:,} of {progress.total:,} predicted")
    return Group(
        Text(QUESTION, "bold"), Text(title, "dim"), "", bar, _speed(measures, progress), "", rates_table(measures), "",
        carriers_table(measures),
    )  # fmt: skip


def _speed(measures: Measures, progress: Progress) -> Text:
    latency = measures.latency(WINDOW)
    return Text.assemble(
        (f"{measures.speed(progress.now):,.0f}", "bold cyan"), " events/s   lag ",
        (f"{progress.published - measures.predicted:,}", "bold cyan"), " events\npublish to readable prediction   p50 ",
        (_milliseconds(latency.median), "bold cyan"), "   p99 ", (_milliseconds(latency.p99), "bold cyan"),
    )  # fmt: skip


def rates_table(measures: Measures) -> Table:
    """Models against what needs no learning, over the same flights."""
    overall, recent = measures.tally.rates(), measures.recent()
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False)
    table.add_column("wrong predictions", min_width=36)
    table.add_column("so far", justify="right", min_width=9)
    table.add_column(f"last {WINDOW:,}", justify="right", min_width=11)
    table.add_row(Text(MODELS, "bold green"), *(Text(_percent(rates.model), "bold green") for rates in (overall, recent)))
    table.add_row(RULE, _percent(overall.rule), _percent(recent.rule))
    table.add_row(NEVER, _percent(overall.majority), _percent(recent.majority))
    return table


def carriers_table(measures: Measures) -> Table:
    """The same for the largest carriers."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False)
    table.add_column("largest carriers", min_width=25)
    for heading in ("flights", "its model", "fixed rule", NEVER):
        table.add_column(heading, justify="right", min_width=9)
    for carrier, rates in measures.largest_carriers(_CARRIERS):
        name = f"{carrier} {_NAMES.get(carrier, '')}".strip()
        table.add_row(name, f"{rates.flights:,}", *_best_bold(rates))
    return table


def print_summary(console: Console, measures: Measures, seconds: float, mock: bool) -> None:
    """The end of a run. seconds: from the first event published to the last prediction read."""
    latency = measures.latency()

    def say(line: str) -> None:
        console.print(line, highlight=False)

    if not console.is_terminal:
        console.print(rates_table(measures))
    say("")
    if measures.missing or measures.doubled:
        say(f"[bold red]{measures.missing:,} events have no prediction, {measures.doubled:,} predictions are one too many.[/]")
    else:
        say(
            f"[bold green]{measures.events:,} events, {measures.predictions:,} predictions: every input offset exactly once[/] "
            "(each checked, read with isolation.level=read_committed)."
        )
    if mock:
        say("[yellow]On the mock cluster, which has no transactions to rely on: this proves nothing about delivery.[/]")
    say(
        f"{measures.predicted / seconds:,.0f} events/s in {seconds:.1f} s; from publish to readable prediction p50 "
        f"{_milliseconds(latency.median)}, p99 {_milliseconds(latency.p99)}."
    )
    say(
        f"[dim]Each flight is predicted before its label is learned. To be fair: {LATE_DEPARTURE:.0f} minutes is the best "
        "threshold in hindsight over all 60,000 flights, and kernel width and step size of the models were chosen on these flights too.[/]"
    )


def print_kept(console: Console, bootstrap: str, metrics: str, log: Path, config: Path) -> None:
    """What a demo leaves running, and how to end it."""
    command = _own_command()
    console.print("\n[bold]Left running:[/]")
    for name, value in (
        ("broker", bootstrap),
        ("metrics", metrics),
        ("worker's log", str(log)),
        ("ask the worker", f"{command} control status --config {config}"),
        ("publish more", f"{command} publish flights --rate 2000 --config {config}"),
        ("[bold]stop it all[/]", f"{command} demo --stop"),
    ):
        console.print(f"  {name}: {value}", highlight=False, soft_wrap=True)


def print_next(console: Console) -> None:
    """Where to go from here."""
    command = _own_command()
    console.print(
        f"Next: `{command} demo --keep` leaves it running to look around; `{command} init` writes a configuration for a topic of your own; "
        "README.md explains both.",
        highlight=False,
    )


def _own_command() -> str:
    """How `streamlearn` is called from here."""
    installed = Path(sys.executable).with_name("streamlearn")
    if shutil.which("streamlearn") == str(installed):
        return "streamlearn"
    return str(installed.relative_to(Path.cwd()) if installed.is_relative_to(Path.cwd()) else installed)


def _best_bold(rates: Rates) -> list[Text]:
    values = (rates.model, rates.rule, rates.majority)
    return [Text(_percent(value), "bold" if value == min(values) else "") for value in values]


def _percent(share: float) -> str:
    return "-" if math.isnan(share) else f"{100 * share:.1f} %"


def _milliseconds(seconds: float) -> str:
    return "-" if math.isnan(seconds) else f"{1000 * seconds:,.0f} ms"
