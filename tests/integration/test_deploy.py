"""The files under deploy/ and docker-compose.yml, checked with the programs that read them wherever one runs without a container engine."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import tomllib
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from streamlearn.bundled import FLIGHTS_CONFIG
from streamlearn.cli import app
from streamlearn.config import ConfigError, load
from streamlearn.kafka.local_broker import LocalBroker
from streamlearn.metrics import CATALOGUE, PREFIX, Kind
from streamlearn.processes import dying_with_parent

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PINNED = re.compile(r"[a-z./-]+:v?\d+\.\d+\.\d+(-[a-z]+)*")
ONE_SHOT = {"topics", "publisher"}
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "dashboards" / "streamlearn.json").read_text())
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())["groups"] for rule in group["rules"]
]
TARGETS = [
    pytest.param(target["expr"], id=f"{panel['title']}-{target['refId']}") for panel in DASHBOARD["panels"] for target in panel["targets"]
]


def tool(name: str) -> str:
    """Path of a program that these tests need; they fail without it, because a skipped check looks like a passed one."""
    path = shutil.which(name)
    if path is None:
        pytest.fail(f"{name} is not installed: `make tools` (Debian packages prometheus and docker-compose)", pytrace=False)
    return path


def run(*command: str, directory: Path = ROOT) -> None:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    assert done.returncode == 0, done.stdout + done.stderr


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# docker-compose.yml and the Dockerfile.


@pytest.mark.parametrize("profile", [(), ("--profile", "demo")], ids=["default", "demo"])
def test_compose_accepts_the_file(profile: tuple[str, ...]) -> None:
    run(tool("docker-compose"), *profile, "config", "--quiet")


def test_services_of_the_stack() -> None:
    assert SERVICES.keys() == {"kafka", "topics", "worker", "publisher", "prometheus", "grafana"}
    assert [name for name, service in SERVICES.items() if service.get("profiles") == ["demo"]] == ["publisher"]


@pytest.mark.parametrize("name", SERVICES)
def test_service_is_pinned_checked_and_private(name: str) -> None:
    service = SERVICES[name]
    assert PINNED.fullmatch(service["image"]), "a full version, never `latest`"
    for port in service.get("ports", []):
        assert str(port).startswith("127.0.0.1:"), "published on loopback only"
    if name in ONE_SHOT:
        assert service["healthcheck"] == {"disable": True}
        assert service["restart"] == "no"
    else:
        assert service["healthcheck"]["test"][0] == "CMD"
    for other, how in service.get("depends_on", {}).items():
        assert how["condition"] == ("service_completed_successfully" if other in ONE_SHOT else "service_healthy")
    for volume in service["volumes"]:
        source = volume.split(":")[0]
        assert (ROOT / source).exists() if source.startswith(".") else source in COMPOSE["volumes"]


@pytest.mark.parametrize("name", ["topics", "worker", "publisher"])
def test_our_containers_are_confined_and_their_commands_exist(name: str, tmp_path: Path) -> None:
    service = SERVICES[name]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["build"] == {"context": ".", "dockerfile": "deploy/Dockerfile"}
    missing = str(tmp_path / "missing.toml")
    command = [missing if word == "/etc/streamlearn/streamlearn.toml" else word for word in service["command"]]
    result = CliRunner().invoke(app, command)
    assert isinstance(result.exception, ConfigError), f"{command} does not get as far as reading its configuration: {result.output}"
    assert missing in str(result.exception)


def test_image_version_is_the_packages() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert {SERVICES[name]["image"] for name in ("topics", "worker", "publisher")} == {f"streamlearn:{version}"}


def test_kafka_is_the_version_that_the_tests_run() -> None:
    version = re.search(r"<kafka.version>(.*?)</kafka.version>", (DEPLOY / "broker" / "pom.xml").read_text())
    assert version is not None
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{version[1]}"


def test_a_real_broker_starts_with_the_settings_of_compose() -> None:
    """On other ports, on loopback, and in a temporary folder, but otherwise the environment as it is."""
    internal, host, controller = free_port(), free_port(), free_port()
    replaced = {
        "kafka:19092": f"127.0.0.1:{internal}", "://:19092": f"://127.0.0.1:{internal}", "://:9092": f"://127.0.0.1:{host}",
        "127.0.0.1:9092": f"127.0.0.1:{host}", "localhost:9093": f"localhost:{controller}",
    }  # fmt: skip
    pattern = "|".join(map(re.escape, replaced))
    properties = {
        variable.removeprefix("KAFKA_").lower().replace("_", "."): re.sub(pattern, lambda found: replaced[found[0]], value)
        for variable, value in SERVICES["kafka"]["environment"].items()
        if variable not in ("KAFKA_HEAP_OPTS", "KAFKA_LOG_DIRS")
    }
    with LocalBroker(port=host, properties=properties):
        for port in (internal, host):
            brokers = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"}).list_topics(timeout=20).brokers
            assert [f"{broker.host}:{broker.port}" for broker in brokers.values()] == [f"127.0.0.1:{port}"]


def test_worker_configuration_is_the_bundled_demo() -> None:
    config, demo = load(DEPLOY / "streamlearn.toml"), load(FLIGHTS_CONFIG)
    assert config.streams == demo.streams
    assert config.app == demo.app
    assert f"://{config.kafka.bootstrap}" in SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert SERVICES["worker"]["ports"] == [f"127.0.0.1:9400-9409:{config.metrics.port}"]
    assert config.worker.shutdown_timeout < float(SERVICES["worker"]["stop_grace_period"].removesuffix("s"))


def test_dockerfile_is_pinned_unprivileged_and_copies_what_exists() -> None:
    lines = re.sub(r"\\\n\s*", " ", (DEPLOY / "Dockerfile").read_text()).splitlines()
    instructions = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    bases = {rest.split()[0] for name, rest in instructions if name == "FROM"}
    assert len(bases) == 1, "a virtual environment moves between equal images only"
    assert all(PINNED.fullmatch(base) for base in bases)
    names = [name for name, _ in instructions]
    assert ["USER", "10001:10001"] in instructions
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert any(name == "HEALTHCHECK" and "/healthz" in rest for name, rest in instructions)
    assert any("--require-hashes" in rest for name, rest in instructions if name == "RUN")
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {source for name, rest in instructions if name == "COPY" and not rest.startswith("--") for source in rest.split()[:-1]}
    assert copied == allowed
    assert all((ROOT / source).exists() for source in copied)


def test_locked_requirements_of_the_image_are_those_of_the_repository() -> None:
    everything, image = (pins(path / "requirements.lock") for path in (ROOT, DEPLOY))
    assert image.items() <= everything.items()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {re.split(r"[<>=]", need)[0] for need in project["dependencies"]} <= image.keys()


def pins(path: Path) -> dict[str, tuple[str, ...]]:
    """Requirement -> version and hashes."""
    blocks = re.findall(r"^([\w.-]+)==(\S+) \\\n((?: +--hash=\S+(?: \\)?\n)+)", path.read_text(), re.MULTILINE)
    return {name: (version, *sorted(re.findall(r"sha256:\w+", hashes))) for name, version, hashes in blocks}


# Prometheus and Grafana.


def test_promtool_accepts_configuration_and_rules() -> None:
    run(tool("promtool"), "check", "config", "prometheus.yml", directory=DEPLOY / "prometheus")


def test_every_alert_fires_and_stays_silent_as_its_tests_say() -> None:
    run(tool("promtool"), "test", "rules", "rules_test.yml", directory=DEPLOY / "prometheus")
    tests = yaml.safe_load((DEPLOY / "prometheus" / "rules_test.yml").read_text())["tests"]
    fired = {case["alertname"] for test in tests for case in test["alert_rule_test"] if case["exp_alerts"]}
    assert fired == {rule["alert"] for rule in RULES}, "every alert has a test in which it fires"


def test_alerts_ask_for_metrics_of_the_catalogue() -> None:
    known = {PREFIX + metric.name + ("_bucket" if metric.kind is Kind.HISTOGRAM else "") for metric in CATALOGUE}
    asked = set(re.findall(rf"\b{PREFIX}\w+", " ".join(rule["expr"] for rule in RULES)))
    assert asked <= known


def test_dashboard_is_well_formed() -> None:
    panels = DASHBOARD["panels"]
    assert [panel["id"] for panel in panels] == list(range(1, len(panels) + 1))
    places = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(places) == len(set(places)), "panels overlap"
    assert max(x for x, _ in places) == 23
    assert all(panel["description"] and panel["datasource"]["uid"] == "${datasource}" for panel in panels)


def test_grafana_finds_data_source_and_dashboard() -> None:
    provisioning = DEPLOY / "grafana" / "provisioning"
    source = yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text())["datasources"][0]
    assert source["uid"] == DASHBOARD["templating"]["list"][0]["current"]["value"]
    assert source["url"] == "http://prometheus:9090"
    scrape_interval = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["global"]["scrape_interval"]
    assert source["jsonData"]["timeInterval"] == scrape_interval
    folder = yaml.safe_load((provisioning / "dashboards" / "streamlearn.yml").read_text())["providers"][0]["options"]["path"]
    assert f"./deploy/grafana/dashboards:{folder}:ro" in SERVICES["grafana"]["volumes"]
    assert SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] == f"{folder}/streamlearn.json"


@dataclass(frozen=True)
class Prometheus:
    """A running Prometheus with the repository's configuration."""

    url: str

    def get(self, path: str, **parameters: str) -> Any:
        """The data of an answer; raises HTTPError with status 400 for an expression that does not parse."""
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}", timeout=10) as response:  # noqa: S310
            answer = json.load(response)
        assert answer["status"] == "success"
        return answer["data"]

    def query(self, expression: str) -> list[float]:
        """The values of all series now."""
        return [float(series["value"][1]) for series in self.get("query", query=expression)["result"]]


@dataclass(frozen=True)
class Worker:
    """A worker that runs with the configuration of compose, on a stream of its own."""

    address: str
    stream: str


@pytest.fixture(scope="module")
def worker(broker: LocalBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """Learns from the bundled flights, which are being published, and from a few events that nobody can read."""
    folder = tmp_path_factory.mktemp("worker")
    stream, address = f"flights-{uuid4().hex[:12]}", f"127.0.0.1:{free_port()}"
    config = folder / "streamlearn.toml"
    config.write_text((DEPLOY / "streamlearn.toml").read_text().replace('name = "flights"', f'name = "{stream}"'))
    host, port = address.split(":")
    environment = os.environ | {
        "STREAMLEARN_APP": stream, "STREAMLEARN_KAFKA__BOOTSTRAP": broker.bootstrap,
        "STREAMLEARN_METRICS__HOST": host, "STREAMLEARN_METRICS__PORT": port, "STREAMLEARN_CHECKPOINT__INTERVAL": "1",
    }  # fmt: skip

    def streamlearn(*arguments: str) -> list[str]:
        return dying_with_parent([sys.executable, "-m", "streamlearn", *arguments, "--config", str(config)])

    subprocess.run(streamlearn("topics", "apply"), env=environment, check=True, capture_output=True)  # noqa: S603
    with (folder / "log").open("wb") as log, ExitStack() as running:
        for arguments in (("worker",), ("publish", "flights", "--rate", "1000")):
            process = subprocess.Popen(streamlearn(*arguments), env=environment, cwd=folder, stdout=log, stderr=log)  # noqa: S603
            running.callback(process.wait, 30)
            running.callback(process.terminate)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for value in (b"{", b'{"carrier": "AA", "late": "perhaps", "dep_delay": 1, "hour": 5, "distance": 100}'):
            producer.produce(f"{stream}.events", value)
        assert producer.flush(20) == 0
        yield Worker(address, stream)


@pytest.fixture(scope="module")
def prometheus(worker: Worker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Scrapes the worker more often, and finds it by its address, but otherwise as configured."""
    folder = tmp_path_factory.mktemp("prometheus")
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    config["global"] |= {"scrape_interval": "250ms", "scrape_timeout": "250ms", "evaluation_interval": "500ms"}
    (scrape,) = config["scrape_configs"]
    del scrape["dns_sd_configs"]
    scrape["static_configs"] = [{"targets": [worker.address]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    shutil.copy(DEPLOY / "prometheus" / "rules.yml", folder)
    address = f"127.0.0.1:{free_port()}"
    arguments = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address={address}", "--log.level=warn"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(dying_with_parent([tool("prometheus"), *arguments]), cwd=folder, stdout=log, stderr=log)  # noqa: S603
        try:
            running = Prometheus(f"http://{address}")
            await_samples(running, process, folder / "log")
            yield running
        finally:
            process.terminate()
            process.wait(20)


def await_samples(running: Prometheus, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until everything that a worker does now and then was scraped often enough for rates."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        with suppress(OSError):  # it does not listen yet
            series = ("streamlearn_events_total", "streamlearn_dead_letters_total", "streamlearn_checkpoint_records_total")
            if all(max(running.query(f"count_over_time({name}[5m])"), default=0) >= 8 for name in series):
                return
        time.sleep(0.2)
    pytest.fail(f"Prometheus has not scraped a worker that learns in 90 s:\n{log.read_text()}")


def filled_in(expression: str, variables: Mapping[str, str]) -> str:
    """A query of the dashboard as Grafana sends it."""
    for name, value in variables.items():
        expression = expression.replace(f"${name}", value)
    assert "$" not in expression, f"a variable without a value in {expression}"
    return expression


@pytest.mark.parametrize("expression", TARGETS)
def test_every_panel_shows_data(prometheus: Prometheus, expression: str) -> None:
    values = prometheus.query(filled_in(expression, {"stream": ".+", "__rate_interval": "30s"}))
    assert values, "the panel would be empty"
    assert all(value == value for value in values), "the panel would show NaN"  # noqa: PLR0124


def test_dashboard_offers_the_streams(prometheus: Prometheus, worker: Worker) -> None:
    definition = DASHBOARD["templating"]["list"][1]["query"]["query"]
    found = re.fullmatch(r"label_values\((\w+), (\w+)\)", definition)
    assert found is not None
    assert prometheus.get(f"label/{found[2]}/values", **{"match[]": found[1]}) == [worker.stream]


def test_worker_fills_the_catalogue(prometheus: Prometheus) -> None:
    only_after_a_loss = {"recovery_lost_events_total"}
    suffix = {Kind.HISTOGRAM: "_count"}
    names = {metric.name: PREFIX + metric.name + suffix.get(metric.kind, "") for metric in CATALOGUE}
    assert {name for name, series in names.items() if not prometheus.query(series)} <= only_after_a_loss


@pytest.mark.usefixtures("prometheus")  # by the time that it is there, the worker learns
def test_exposition_passes_prometheus_own_linter(worker: Worker) -> None:
    with urllib.request.urlopen(f"http://{worker.address}/metrics", timeout=10) as response:
        exposition = response.read().decode()
    done = subprocess.run([tool("promtool"), "check", "metrics"], input=exposition, capture_output=True, text=True, check=False)  # noqa: S603
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_alerts_are_evaluated_and_silent_for_a_healthy_worker(prometheus: Prometheus) -> None:
    deadline = time.monotonic() + 20
    while True:
        rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
        if all(rule["health"] != "unknown" for rule in rules) or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    assert {rule["name"] for rule in rules} == {rule["alert"] for rule in RULES}
    assert {rule["name"]: (rule["health"], rule.get("lastError")) for rule in rules if rule["health"] != "ok"} == {}
    assert [rule["name"] for rule in rules if rule["state"] == "firing"] == []


def test_a_metric_that_is_missing_would_be_noticed(prometheus: Prometheus) -> None:
    """The check of the panels can fail."""
    assert prometheus.query("streamlearn_no_such_metric") == []
    with pytest.raises(urllib.request.HTTPError, match="400"):
        prometheus.query("sum by (")
