"""What the demo measures and shows, without a broker."""

import math
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from streamlearn.bundled import FLIGHTS
from streamlearn.demo import keep
from streamlearn.demo.brokers import find_broker
from streamlearn.demo.measures import Latency, Measures, Place, Rates
from streamlearn.demo.view import Progress, View, print_summary, screen
from streamlearn.demo.worker import DemoError, write_config
from streamlearn.events.files import EventFile


def event(carrier: str, delay: float, late: bool) -> bytes:
    return msgspec.json.encode({"carrier": carrier, "dep_delay": delay, "late": late, "origin": "JFK"})


def prediction(partition: int, offset: int, value: bool) -> bytes:
    """A record that lies about its mistake."""
    return msgspec.json.encode({"partition": partition, "offset": offset, "prediction": value, "label": value, "mistake": False})


def test_verdicts_come_from_the_events_labels() -> None:
    measures = Measures()
    flights = [("UA", 30.0, True), ("UA", 20.0, True), ("UA", 21.0, False), ("AA", 0.0, False)]
    for offset, flight in enumerate(flights):
        measures.event(Place(0, offset), event(*flight), 100.0 + offset)
    for offset, value in enumerate([True, False, False, True]):
        measures.prediction(prediction(0, offset, value), 100.5 + offset)
    # the models are wrong about the 2nd and the 4th, the rule (over 20 minutes) about the 2nd and the 3rd, "never" about the first two
    assert measures.tally.rates() == Rates(4, 0.5, 0.5, 0.5)
    assert measures.recent() == measures.tally.rates()
    assert measures.largest_carriers(1) == [("UA", Rates(3, 1 / 3, 2 / 3, 2 / 3))]
    assert measures.latency() == Latency(0.5, 0.5)
    assert (measures.events, measures.predictions, measures.missing, measures.doubled) == (4, 4, 0, 0)


def test_a_prediction_may_be_read_before_its_event() -> None:
    measures = Measures()
    measures.prediction(prediction(1, 7, True), 100.25)
    assert measures.tally.flights == 0
    measures.event(Place(1, 7), event("UA", 30.0, True), 100.0)
    assert measures.tally.rates() == Rates(1, 0.0, 0.0, 1.0)
    assert measures.latency() == Latency(0.25, 0.25)


def test_missing_doubled_and_invented_predictions_are_counted() -> None:
    measures = Measures()
    for partition in (0, 1):
        measures.event(Place(partition, 5), event("UA", 0.0, False), 100.0)
    measures.prediction(prediction(0, 5, False), 101.0)
    assert (measures.missing, measures.doubled) == (1, 0)
    measures.prediction(prediction(0, 5, False), 101.0)
    assert (measures.missing, measures.doubled) == (1, 1)
    measures.prediction(prediction(0, 6, False), 101.0)
    assert (measures.missing, measures.doubled) == (1, 2)
    assert measures.tally.flights == 1


def test_nothing_measured_is_not_a_number() -> None:
    rates, latency = Measures().tally.rates(), Measures().latency()
    assert all(map(math.isnan, (rates.model, rates.rule, rates.majority, latency.median, latency.p99)))


def test_speed_is_that_of_the_last_seconds() -> None:
    measures = Measures()
    assert measures.speed(100.0) == 0.0
    offset = 0
    for second in range(1, 11):
        for _ in range(10 * second):
            measures.prediction(prediction(0, offset, True), 0.0)
            offset += 1
        speed = measures.speed(100.0 + second)
    assert speed == pytest.approx((90 + 100) / 2)


def test_the_rule_and_the_majority_are_wrong_as_often_as_the_readme_of_the_data_says() -> None:
    measures = Measures()
    with EventFile(FLIGHTS) as flights:
        for offset, flight in enumerate(flights):
            measures.event(Place(0, offset), msgspec.json.encode(flight), 0.0)
            measures.prediction(prediction(0, offset, False), 0.0)
    rates = measures.tally.rates()
    assert rates.flights == 60_000
    assert (round(100 * rates.rule, 1), round(100 * rates.majority, 1)) == (9.9, 22.9)


def some_measures() -> Measures:
    measures = Measures()
    for offset in range(600):
        measures.event(Place(0, offset), event(f"C{offset % 8}", 10.0 * (offset % 4), offset % 3 == 0), 0.0)
        measures.prediction(prediction(0, offset, offset % 5 == 0), 1.0)
    return measures


def test_the_live_view_fits_a_small_terminal() -> None:
    title = "Apache Kafka 4.3.1 at 127.0.0.1:31999, 2 partitions, worker process 4194304"
    console = Console(width=78, height=24)
    lines = console.render_lines(screen(title, some_measures(), Progress(60_000, 12_345, 100.0)))
    assert 15 < len(lines) <= 22
    text = "\n".join("".join(segment.text for segment in line) for line in lines)
    assert "…" not in text
    assert "lag 11,745 events" in text


def test_without_a_terminal_lines_come_now_and_then() -> None:
    console = Console(width=80, force_terminal=False)
    with console.capture() as captured, View(console, "broker", some_measures()) as view:
        for tenth in range(100):
            view.update(Progress(60_000, 700, 100.0 + tenth / 10))
    lines = captured.get().splitlines()
    assert len(lines) == 4
    assert "600 of 60,000 predicted" in lines[0]
    assert "lag 100" in lines[0]


def test_the_summary_does_not_praise_a_run_that_lost_events() -> None:
    measures = some_measures()
    measures.event(Place(0, 600), event("UA", 0.0, False), 0.0)
    console = Console(width=200)
    with console.capture() as captured:
        print_summary(console, measures, 10.0, mock=False)
    assert "1 events have no prediction" in captured.get()
    assert "exactly once" not in captured.get()


def test_the_configuration_is_the_bundled_one_for_this_broker(tmp_path: Path) -> None:
    config, _ = write_config(tmp_path, "127.0.0.1:31999", None)
    assert config.kafka.bootstrap == "127.0.0.1:31999"
    assert set(config.topic_kinds()) >= {"flights.events", "flights.predictions", "streamlearn-demo.control"}


def test_on_a_shared_broker_all_names_are_the_runs_own(tmp_path: Path) -> None:
    config, _ = write_config(tmp_path, "127.0.0.1:31999", "1a2b3c")
    assert config.app == "streamlearn-demo-1a2b3c"
    assert all("-1a2b3c." in topic for topic in config.topic_kinds())


def test_an_environment_that_names_another_broker_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMLEARN_KAFKA__BOOTSTRAP", "production:9092")
    with pytest.raises(DemoError, match="STREAMLEARN_KAFKA__BOOTSTRAP is set"):
        write_config(tmp_path, "127.0.0.1:31999", None)


def test_stopping_without_a_demo_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMLEARN_CACHE", str(tmp_path))
    assert keep.stop_kept() == ["no demo was left running"]


def fake_docker(folder: Path, running: str) -> None:
    """A `docker` that notes what it is asked; an engine cannot be taken for granted where tests run."""
    script = f"""echo "$@" >> {folder}/asked
case "$*" in *" ps "*) printf '{running}';; *" port "*) echo 127.0.0.1:9092;; esac"""
    program = folder / "docker"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


@pytest.mark.parametrize(("running", "started"), [("", True), ("0123abcd", False)], ids=["stopped before", "running before"])
def test_dockers_broker_is_left_as_it_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, running: str, started: bool) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    fake_docker(tmp_path, running)
    with ExitStack() as stack:
        broker = find_broker(None, tmp_path, False, Console(quiet=True), stack)
    assert (broker.bootstrap, broker.shared, broker.compose) == ("127.0.0.1:9092", True, started)
    asked = (tmp_path / "asked").read_text()
    assert ("up --detach --wait kafka" in asked, "stop kafka" in asked) == (started, started)


def test_an_engine_that_does_not_answer_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "docker").write_text("#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2; exit 1\n")
    (tmp_path / "docker").chmod(0o755)
    console = Console(width=200)
    with console.capture() as captured, ExitStack() as stack:
        broker = find_broker(None, tmp_path, False, console, stack)
    assert broker.mock
    assert "not here: Docker: Cannot connect to the Docker daemon" in captured.get()
