"""A demo that was left running: what it consists of, remembered in the user's cache folder, so that one command ends it."""

import shutil
from pathlib import Path

import msgspec
from confluent_kafka.admin import AdminClient

from streamlearn.config import Config, load
from streamlearn.demo.brokers import stop_compose
from streamlearn.kafka.clients import client_logger
from streamlearn.kafka.distribution import BrokerUnavailable, cache_folder
from streamlearn.processes import Process, end, is_running

END_TIMEOUT = 30.0  # seconds for one process to end in good order
_TIMEOUT = 15.0  # for one request


class Kept(msgspec.Struct):
    """What a demo has started."""

    folder: str  # its data; the configuration file is in it
    processes: list[Process]  # in the order in which they are ended: the worker, then the broker if it is the demo's own
    own_topics: bool  # on a broker that others use too: the demo's topics are removed
    compose: bool

    @property
    def config(self) -> Path:
        return Path(self.folder) / "streamlearn.toml"


def remember(kept: Kept) -> None:
    """Replaces what was remembered before."""
    path = _path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(kept))


def remembered() -> Kept | None:
    """The demo that was left running, if one was."""
    try:
        return msgspec.json.decode(_path().read_bytes(), type=Kept)
    except FileNotFoundError:
        return None


def forget() -> None:
    _path().unlink(missing_ok=True)


def stop_kept() -> list[str]:
    """End the demo that was left running, and remove its data; returns what was done, for people. Touches only what the demo started."""
    kept = remembered()
    if kept is None:
        return ["no demo was left running"]
    done = []
    worker, *broker = kept.processes
    done.append(_end(worker, "worker"))
    if kept.own_topics and kept.config.exists():
        removed = remove_traces(load(kept.config))
        done.append(f"removed {len(removed)} topics")
    done += [_end(process, "broker") for process in broker]
    if kept.compose:
        try:
            stop_compose()
            done.append("stopped the compose file's broker")
        except BrokerUnavailable as error:
            done.append(f"the compose file's broker could not be stopped: {error}")
    shutil.rmtree(kept.folder, ignore_errors=True)
    done.append(f"removed {kept.folder}")
    forget()
    return done


def remove_traces(config: Config) -> list[str]:
    """Remove the topics and the group of the demo's own application from a broker that others use too; returns the removed topics.

    Does its best: the broker may be gone.
    """
    admin = AdminClient(dict(config.kafka.client_properties()), logger=client_logger())
    topics = admin.delete_topics(list(config.topic_kinds()), request_timeout=_TIMEOUT)
    removed = [topic for topic, answer in topics.items() if answer.exception() is None]
    for answer in admin.delete_consumer_groups([config.app], request_timeout=_TIMEOUT).values():
        answer.exception()  # wait for it; there is no group where no worker got that far
    return removed


def _end(process: Process, name: str) -> str:
    if not is_running(process):
        return f"the {name} (process {process.pid}) had already ended"
    graceful = end(process, END_TIMEOUT)
    return f"ended the {name} (process {process.pid})" + ("" if graceful else f" by force, it took more than {END_TIMEOUT:.0f} s")


def _path() -> Path:
    return cache_folder() / "demo.json"
