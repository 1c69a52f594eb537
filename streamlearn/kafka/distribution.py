"""The Apache Kafka server's jars, fetched once by Maven into the user's cache, and the Java that runs them."""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

MINIMUM_JAVA = 17
RESOURCES = Path(__file__).parents[1] / "resources" / "broker"
_MAVEN_TIMEOUT = 600.0  # seconds: about 50 MB on a slow line
_JAVA_TIMEOUT = 30.0
_MAVEN_REMEDY = "check the network, or name a proxy or mirror in ~/.m2/settings.xml, or use a broker that already runs"


class BrokerUnavailable(Exception):  # noqa: N818 - a state of the machine, not a mistake of the caller
    """No Apache Kafka can be run here; the text names what is missing and the remedy."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """An Apache Kafka server ready to run: its version, its jars, its Java and the archive of loaded classes that halves a start."""

    version: str
    jars: Path
    java: str
    class_archive: Path

    def command(self, *options: str) -> list[str]:
        """The start of a command line: Java, its options and the class path; a main class and its arguments follow."""
        logging = f"-Dlog4j2.configurationFile={RESOURCES / 'log4j2.xml'}"
        return [self.java, *options, logging, "-cp", f"{self.jars}/*"]

    def shared_classes(self) -> list[str]:
        """The Java option that maps the archive of loaded classes, none as long as no broker has written it."""
        return [f"-XX:SharedArchiveFile={self.class_archive}"] if self.class_archive.exists() else []


def locate() -> Distribution:
    """The cached distribution; the first time, Maven fetches it (about 50 MB). Raises BrokerUnavailable."""
    java, java_version = _find_java()
    version, jars = _cached_jars()
    if not jars.is_dir():
        _fetch(jars)
    return Distribution(version, jars, java, jars.with_name(f"{jars.name}-java-{java_version}.jsa"))


def to_fetch() -> str | None:
    """What `locate` would have to fetch first, for people; None if it is in the cache."""
    version, jars = _cached_jars()
    return None if jars.is_dir() else f"Apache Kafka {version} (about 50 MB) from Maven Central into {jars.parent}"


def cache_folder() -> Path:
    """$STREAMLEARN_CACHE, or ~/.cache/streamlearn."""
    configured = os.environ.get("STREAMLEARN_CACHE")
    return Path(configured).expanduser().absolute() if configured else Path.home() / ".cache" / "streamlearn"


def _cached_jars() -> tuple[str, Path]:
    """The pom's Kafka version, and the folder of its jars: named by version and content, so that an edited pom is fetched anew."""
    pom = (RESOURCES / "pom.xml").read_bytes()
    version = ElementTree.fromstring(pom).findtext(".//{*}kafka.version")  # noqa: S314 - our own file
    if version is None:
        raise BrokerUnavailable(f"{RESOURCES / 'pom.xml'} names no kafka.version; restore the file")
    return version, cache_folder() / f"kafka-{version}-{hashlib.sha256(pom).hexdigest()[:8]}"


def _find_java() -> tuple[str, str]:
    """Path and full version of a Java that runs the broker."""
    remedy = f"install Java {MINIMUM_JAVA} or later (Debian: apt-get install openjdk-17-jre-headless) or point JAVA_HOME at it"
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if java is None:
        where = f"JAVA_HOME = {home!r} holds no bin/java" if home else "no `java` on PATH"
        raise BrokerUnavailable(f"{where}; {remedy}")
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_JAVA_TIMEOUT, check=False)  # noqa: S603
    found = re.search(r'version "((\d+)[^"]*)"', answer.stderr)
    if found is None:
        raise BrokerUnavailable(f"`{java} -version` names no version; {remedy}")
    if int(found[2]) < MINIMUM_JAVA:
        raise BrokerUnavailable(f"{java} is version {found[1]}; {remedy}")
    return java, found[1]


def _fetch(jars: Path) -> None:
    """Let Maven resolve the pom; the folder appears under its name only when it is complete."""
    maven = shutil.which("mvn")
    if maven is None:
        raise BrokerUnavailable("no `mvn` on PATH; install Maven (Debian: apt-get install maven) or use a broker that already runs")
    jars.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=jars.parent) as scratch:
        fetched = Path(scratch) / "jars"
        _run_maven(maven, fetched)
        try:
            fetched.rename(jars)
        except OSError:
            if not jars.is_dir():  # otherwise another process was first, with the same jars
                raise


def _run_maven(maven: str, target: Path) -> None:
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={target}"]
    command = [maven, "--batch-mode", "--quiet", "--update-snapshots", "--file", str(RESOURCES / "pom.xml"), *goal]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_MAVEN_TIMEOUT, check=False)  # noqa: S603
    except subprocess.TimeoutExpired as error:
        raise BrokerUnavailable(f"Maven fetched no Kafka within {_MAVEN_TIMEOUT:.0f} s; {_MAVEN_REMEDY}") from error
    if done.returncode != 0 or not target.is_dir():
        reason = re.search(r"\[ERROR\] (.+)", done.stdout + done.stderr)
        raise BrokerUnavailable(f"Maven cannot resolve Kafka: {reason[1] if reason else 'no reason given'}; {_MAVEN_REMEDY}")
