"""The catalogue, the instruments, and the endpoint that serves them."""

import http.client
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from plausible import fill
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from streamlearn import monitoring
from streamlearn.metrics import CATALOGUE, PREFIX, Kind, Metric, Metrics, Stage, documentation
from streamlearn.monitoring import MonitoringError, MonitoringServer

ROOT = Path(__file__).parents[2]
BOUNDED_LABELS = {"stream", "learner", "partition", "reason", "stage", "outcome", "version"}


def value(metrics: Metrics, name: str, **labels: object) -> float | None:
    return metrics.registry.get_sample_value(PREFIX + name, {label: str(text) for label, text in labels.items()})


def ok() -> tuple[bool, str]:
    return True, "ok"


def get(url: str, path: str, headers: dict[str, str] | None = None) -> tuple[int, str, str]:
    """Status, content type and body."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    try:
        connection.request("GET", path, headers=headers or {})
        response = connection.getresponse()
        return response.status, response.headers["Content-Type"], response.read().decode()
    finally:
        connection.close()


# The catalogue.


def test_documentation_page_is_current() -> None:
    assert (ROOT / "docs" / "metrics.md").read_text() == documentation(), "run `python -m streamlearn.metrics > docs/metrics.md`"


@pytest.mark.parametrize("metric", CATALOGUE, ids=lambda metric: metric.name)
def test_names_follow_the_conventions(metric: Metric) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", metric.name)
    assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
    assert not re.search(r"milli|micro|nano|_ms|kilo|mega|minutes|percent", metric.name), "base units: seconds, bytes, ratios"
    assert set(metric.labels) <= BOUNDED_LABELS
    assert bool(metric.buckets) == (metric.kind is Kind.HISTOGRAM)
    assert list(metric.buckets) == sorted(set(metric.buckets))
    assert metric.meaning.endswith(".")
    assert metric.remedy.endswith(".")


def test_names_are_unique() -> None:
    assert len({metric.name for metric in CATALOGUE}) == len(CATALOGUE)


def test_every_row_is_exported_with_its_type_and_labels() -> None:
    metrics = Metrics()
    fill(metrics)
    families = {family.name: family for family in text_string_to_metric_families(generate_latest(metrics.registry).decode())}
    exported = {name.removeprefix(PREFIX) for name in families if name.startswith(PREFIX)}
    assert exported == {metric.name.removesuffix("_total") for metric in CATALOGUE}
    for metric in CATALOGUE:
        family = families[PREFIX + metric.name.removesuffix("_total")]
        assert family.type == metric.kind
        assert family.samples
        for sample in family.samples:
            assert sample.labels.keys() - {"le"} == set(metric.labels)


# The instruments.


@pytest.mark.parametrize("size", [0, 1, 2, 1000])
def test_histogram_equals_one_observation_at_a_time(size: int) -> None:
    metric = next(metric for metric in CATALOGUE if metric.name == "event_latency_seconds")
    latencies = np.random.default_rng(size).lognormal(0, 4, size)
    latencies[: size // 2] = np.resize(np.array(metric.buckets), size // 2)  # values on the bounds
    reference = Histogram(PREFIX + metric.name, "", ["stream"], buckets=metric.buckets, registry=(registry := CollectorRegistry()))
    for latency in latencies:
        reference.labels("s").observe(latency)
    metrics = Metrics()
    metrics.batch("s", -latencies, [], 0.0)
    metrics.committed(0.0, now=0.0)
    for bound in [*(str(bound) for bound in metric.buckets), "+Inf"]:
        expected = registry.get_sample_value(f"{PREFIX}{metric.name}_bucket", {"stream": "s", "le": bound}) or 0.0
        assert value(metrics, f"{metric.name}_bucket", stream="s", le=bound) == expected
    expected_sum = registry.get_sample_value(f"{PREFIX}{metric.name}_sum", {"stream": "s"}) or 0.0
    assert value(metrics, f"{metric.name}_sum", stream="s") == pytest.approx(expected_sum)
    assert value(metrics, f"{metric.name}_count", stream="s") == size


def test_event_times_without_a_value_are_left_out_and_future_ones_count_as_zero() -> None:
    metrics = Metrics()
    metrics.batch("s", [90.0, np.nan, np.inf, -np.inf, 105.0], [], 0.0)
    metrics.committed(0.0, now=100.0)
    assert value(metrics, "event_latency_seconds_count", stream="s") == 2
    assert value(metrics, "event_latency_seconds_sum", stream="s") == 10.0
    assert value(metrics, "batch_events_sum", stream="s") == 5


def test_only_committed_work_counts() -> None:
    metrics = Metrics()
    for _ in range(2):
        metrics.batch("s", [1.0, 2.0, 3.0], ["label", "label", "key"], 0.01)
        metrics.learned("s", "fogd", 7, events=3, labelled=2, mistakes=1)
        assert value(metrics, "events_total", stream="s", learner="fogd", partition=7) is None
        metrics.aborted()
    metrics.batch("s", [1.0, 2.0, 3.0], ["label", "label", "key"], 0.01)
    metrics.learned("s", "fogd", 7, events=3, labelled=2, mistakes=1)
    metrics.committed(0.004, now=4.0)
    metrics.committed(0.004, now=5.0)
    labels = {"stream": "s", "learner": "fogd", "partition": 7}
    assert value(metrics, "events_total", **labels) == 3
    assert value(metrics, "learned_events_total", **labels) == 2
    assert value(metrics, "mistakes_total", **labels) == 1
    assert value(metrics, "dead_letters_total", stream="s", reason="label") == 2
    assert value(metrics, "dead_letters_total", stream="s", reason="key") == 1
    assert value(metrics, "event_latency_seconds_count", stream="s") == 3
    assert value(metrics, "transactions_total", outcome="aborted") == 2
    assert value(metrics, "transactions_total", outcome="committed") == 2
    assert value(metrics, "commit_seconds_sum") == pytest.approx(0.008)


def test_rates_are_not_shown_before_there_is_a_label() -> None:
    metrics = Metrics()
    metrics.quality("s", "fogd", 0, measured=0, mistake_rate=float("nan"), windowed=float("nan"), majority=float("nan"))
    assert value(metrics, "mistake_rate", stream="s", learner="fogd", partition=0) is None


def test_removed_partition_leaves_no_series_and_others_stay() -> None:
    metrics = Metrics()
    fill(metrics, partitions=(0, 1, 11))
    metrics.remove_partition("flights", 1)
    exposition = generate_latest(metrics.registry).decode()
    assert 'partition="1"' not in exposition
    assert value(metrics, "consumer_lag_events", stream="flights", partition=0) is not None
    assert value(metrics, "consumer_lag_events", stream="flights", partition=11) is not None
    assert value(metrics, "events_total", stream="flights", learner="fogd", partition=11) is not None
    assert value(metrics, "batch_events_count", stream="flights") is not None


def test_stage_time_is_added_even_when_the_stage_fails() -> None:
    metrics = Metrics()
    with pytest.raises(KeyError), metrics.timed(Stage.DECODE):
        raise KeyError
    assert (value(metrics, "stage_seconds_total", stage="decode") or 0) > 0
    assert value(metrics, "stage_seconds_total", stage="kernel") == 0


def test_scrapes_see_whole_calls_while_a_worker_counts() -> None:
    metrics = Metrics()
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            metrics.learned("s", "fogd", 0, events=3, labelled=2, mistakes=1)
            metrics.committed(0.0, now=0.0)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for _ in range(200):
            families = {family.name: family.samples for family in metrics.collect()}
            counts = [families[PREFIX + name] for name in ("events", "learned_events", "mistakes")]
            if counts[0]:
                assert counts[0][0].value / 3 == counts[1][0].value / 2 == counts[2][0].value
    finally:
        stop.set()
        worker.join()


def test_workers_share_nothing() -> None:
    first, second = Metrics(), Metrics()
    first.ready(True)
    assert value(first, "ready") == 1
    assert value(second, "ready") == 0


# The endpoint.


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def serve(metrics: Metrics) -> Iterator[Callable[..., MonitoringServer]]:
    servers: list[MonitoringServer] = []

    def start(alive: monitoring.Check = ok, ready: monitoring.Check = ok, host: str = "127.0.0.1") -> MonitoringServer:
        servers.append(MonitoringServer(metrics.registry, alive, ready, host))
        servers[-1].start()
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def test_metrics_are_served_in_both_formats(metrics: Metrics, serve: Callable[..., MonitoringServer]) -> None:
    fill(metrics)
    url = serve().url
    status, content_type, text = get(url, "/metrics")
    assert (status, content_type.split(";")[0]) == (200, "text/plain")
    assert "streamlearn_ready 1.0\n" in text
    status, content_type, text = get(url, "/metrics?name=x", {"Accept": "application/openmetrics-text; version=1.0.0"})
    assert (status, content_type.split(";")[0]) == (200, "application/openmetrics-text")
    assert text.endswith("# EOF\n")


def test_health_answers_follow_the_checks(serve: Callable[..., MonitoringServer]) -> None:
    state = {"ready": (False, "recovering flights-0: 10 of 90 events")}
    url = serve(ready=lambda: state["ready"]).url
    assert get(url, "/healthz")[::2] == (200, "ok\n")
    assert get(url, "/readyz")[::2] == (503, "recovering flights-0: 10 of 90 events\n")
    state["ready"] = (True, "ready")
    assert get(url, "/readyz")[::2] == (200, "ready\n")


def test_failing_check_is_unhealthy_and_keeps_its_secrets(serve: Callable[..., MonitoringServer]) -> None:
    def broken() -> tuple[bool, str]:
        raise RuntimeError("password=hunter2")

    url = serve(alive=broken).url
    status, _, text = get(url, "/healthz")
    assert status == 503
    assert "RuntimeError" in text
    assert "hunter2" not in text
    assert get(url, "/metrics")[0] == 200


def test_other_paths_and_methods_are_refused(serve: Callable[..., MonitoringServer]) -> None:
    url = serve().url
    assert get(url, "/")[0] == 404
    assert get(url, "/metrics/../etc/passwd")[0] == 404
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    connection.request("POST", "/metrics", body=json.dumps({}))
    assert connection.getresponse().status == 501
    connection.close()


def test_a_slow_check_blocks_nobody_else(serve: Callable[..., MonitoringServer]) -> None:
    release = threading.Event()

    def slow() -> tuple[bool, str]:
        release.wait(20)
        return ok()

    url = serve(alive=slow).url
    waiting = threading.Thread(target=get, args=(url, "/healthz"))
    waiting.start()
    try:
        assert get(url, "/readyz")[0] == 200
        assert waiting.is_alive()
    finally:
        release.set()
        waiting.join()


def test_requests_beyond_the_bound_are_turned_away_and_room_comes_back(
    serve: Callable[..., MonitoringServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitoring, "MAX_REQUESTS", 2)
    url = serve().url
    address = (urlsplit(url).hostname or "", urlsplit(url).port or 0)
    idle = [socket.create_connection(address, timeout=10) for _ in range(2)]
    extra = socket.create_connection(address, timeout=10)
    assert extra.recv(1) == b"", "the third connection is closed unanswered"
    for connection in (*idle, extra):
        connection.close()
    for _ in range(50):
        try:
            assert get(url, "/healthz")[0] == 200
            break
        except (ConnectionError, http.client.BadStatusLine):
            threading.Event().wait(0.05)
    else:
        pytest.fail("the endpoint did not recover")


def test_stopping_frees_the_port_and_can_be_repeated(metrics: Metrics) -> None:
    with MonitoringServer(metrics.registry, ok, ok) as server:
        port = urlsplit(server.url).port or 0
        assert get(server.url, "/healthz")[0] == 200
        with pytest.raises(MonitoringError, match=f"port = {port}"):
            MonitoringServer(metrics.registry, ok, ok, port=port)
    server.stop()
    with MonitoringServer(metrics.registry, ok, ok, port=port) as again:
        assert get(again.url, "/healthz")[0] == 200
    MonitoringServer(metrics.registry, ok, ok, port=port).stop()


def test_default_is_loopback(metrics: Metrics) -> None:
    with MonitoringServer(metrics.registry, ok, ok) as server:
        assert urlsplit(server.url).hostname == "127.0.0.1"


def test_probes_leave_no_trace_in_the_logs(serve: Callable[..., MonitoringServer], capfd: pytest.CaptureFixture[str]) -> None:
    url = serve().url
    for path in ("/metrics", "/healthz", "/nothing"):
        get(url, path)
    assert capfd.readouterr() == ("", "")
