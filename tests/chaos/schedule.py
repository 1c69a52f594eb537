"""Seeded chaos: workers killed, frozen beyond their session and woken, added and removed, the broker killed and restarted.

In between people roll models back and delete them with the command line, and the worker that is asked may be killed over it.
"""

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import zip_longest
from pathlib import Path

from chaos.traffic import KEYS, PARTITIONS, Traffic, streams
from chaos.verifier import Verdict, judge
from workers import WORKER, Application, WorkerProcess, Workers, end_offsets, read_topic

from streamlearn.kafka.local_broker import LocalBroker
from streamlearn.processes import dying_with_parent

SESSION = 1.5  # seconds without a heartbeat after which the group puts a worker out
TRANSACTION = 10.0  # seconds; longer than the broker takes to start
CATCH_UP = 240.0  # seconds that the workers have for the rest when all is calm again
MAX_WORKERS = 3
PATIENCE = 30.0  # seconds to wait for a worker that serves, and for the end of a command
ANSWER = 5.0  # seconds that people wait for a worker's answer
WEIGHTS = {
    "kill": 6, "kill in recovery": 4, "freeze": 2, "add": 1, "remove": 1, "kill broker": 0.6, "change models": 1, "kill in change": 1.5,
}  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """How much chaos. Actions are drawn by weight; a pause of `pause` seconds on average lies between two."""

    seed: int
    actions: int
    weights: Mapping[str, float] = field(default_factory=lambda: WEIGHTS)
    pause: float = 0.6
    transaction: float = TRANSACTION  # seconds until the broker ends a transaction that was left open
    rate: float = 1500.0  # events per second
    tables: Mapping[str, object] = field(default_factory=dict)  # of the configuration
    command: Sequence[str] = WORKER


@dataclass
class Report:
    """What happened, and the verdict on it."""

    seconds: float = 0.0
    kills: int = 0  # of workers and brokers
    actions: Counter[str] = field(default_factory=Counter)
    moments: Counter[str] = field(default_factory=Counter)  # what killed workers were doing
    ended: Counter[int] = field(default_factory=Counter)  # exit codes of workers that ended by themselves
    aborted: dict[str, int] = field(default_factory=dict)  # records of aborted transactions, by kind of topic
    recoveries: list[float] = field(default_factory=list)  # seconds from assignment to recovered models
    returns: float = 0.0  # models that came back from disk, in the workers that were left at the end
    verdict: Verdict = field(default_factory=Verdict)

    def __str__(self) -> str:
        times = sorted(self.recoveries)
        recovery = f"median {times[len(times) // 2]:.2f} s, longest {times[-1]:.2f} s" if times else "none"
        v = self.verdict
        return "\n".join(
            [
                f"{self.kills} kills in {self.seconds:.0f} s: {_counts(self.actions)}; workers were killed {_counts(self.moments)}",
                f"ended by themselves, by exit code: {_counts(self.ended) or 'none'}",
                f"records of aborted transactions: {_counts(self.aborted)}",
                f"{len(times)} recoveries: {recovery}",
                f"changes of models: {v.done} done, {v.refused} refused, {v.unanswered} unanswered",
                f"{v.events} events, {v.dead_letters} dead letters, {v.models} models; {self.returns:.0f} came back from disk",
                f"lost {v.lost}, doubled {v.doubled}, differing {v.differing}, disordered {v.disordered}, wrong dead letters "
                f"{v.wrong_dead_letters}, differing models {v.differing_models}, wrong changes {v.wrong_changes}",
            ]
        )


def run(plan: Plan, folder: Path) -> Report:
    """Carry out a plan on a broker of its own, wait for calm, and judge. Raises TimeoutError when the workers do not catch up."""
    with LocalBroker(folder / "broker") as broker, Workers(folder) as workers:
        chaos = Chaos(plan, broker, workers, folder)
        chaos.run()
        return chaos.report


class Chaos:
    """One run: the application, its fleet of workers, and what is done to them."""

    def __init__(self, plan: Plan, broker: LocalBroker, workers: Workers, folder: Path) -> None:
        self._plan = plan
        self._broker = broker
        self._workers = workers
        self._folder = folder
        self._random = random.Random(plan.seed)  # noqa: S311 - reproducible on purpose
        producer = {"transaction.timeout.ms": int(plan.transaction * 1000)}
        consumer = {"session.timeout.ms": int(SESSION * 1000), "heartbeat.interval.ms": 250}
        tables: dict[str, object] = {
            "kafka": {"bootstrap": broker.bootstrap, "consumer": consumer, "producer": producer},
            "worker": {"commit_interval": 0.05, "batch_size": 200},
            "checkpoint": {"interval": 0.7},
            **plan.tables,
        }
        self._application = Application(broker.bootstrap, folder, "chaos", streams(), PARTITIONS, **tables)
        # Static members keep their transactional id, so a restart ends what they left open. The last is a new member whenever it starts.
        worker = self._application.tables["worker"]
        names = [f"static-{slot}" for slot in range(MAX_WORKERS - 1)]
        self._files = [*(self._application.write(name, worker={**worker, "instance": name}) for name in names), self._application.file]
        self._orphaned = -plan.transaction  # when a worker was killed whose transaction only the broker can end
        self._fleet: list[WorkerProcess | None] = [None] * MAX_WORKERS
        self._starts: list[WorkerProcess] = []
        self._actions: dict[str, Callable[[int], None]] = {
            "kill": self._kill,
            "kill in recovery": self._kill_in_recovery,
            "freeze": self._freeze,
            "remove": self._remove,
            "kill broker": self._kill_broker,
            "change models": self._change_models,
            "kill in change": self._kill_in_change,
        }
        self._predicted = [0 for _ in self._application.config.streams]  # records, at the last action
        self._asked: list[subprocess.Popen[bytes]] = []  # command lines that wait for answers
        self.report = Report()

    def run(self) -> None:
        with Traffic(self._application.config, self._plan.rate, self._plan.seed):
            self._start(0)
            self._start(1)
            for slot in self._running():
                self._worker(slot).await_event("recovered")
            started = time.monotonic()
            for _ in range(self._plan.actions):
                time.sleep(self._random.expovariate(1 / self._plan.pause))
                self._act()
            self.report.seconds = time.monotonic() - started
        self._await_calm()
        for command in self._asked:
            command.wait(PATIENCE)
        self.report.returns = sum(_returned(self._worker(slot)) for slot in self._running())
        for slot in self._running():  # in the middle of things: the models must come from checkpoint and replay
            self._worker(slot).kill()
        self.report.aborted = self._aborted()
        self.report.recoveries = [seconds for worker in self._starts for seconds in _recoveries(worker)]
        self.report.verdict = judge(self._application.bootstrap, self._application.config)

    def _act(self) -> None:
        self._await_work()
        names = list(self._plan.weights)
        name = self._random.choices(names, [self._plan.weights[n] for n in names])[0]
        idle = [slot for slot, worker in enumerate(self._fleet) if worker is None]
        self.report.actions[name] += 1
        if name == "add" or len(self._running()) < 2:
            if idle:
                self._start(self._random.choice(idle))
        else:
            self._actions[name](self._random.choice(self._serving() or self._running()))

    def _start(self, slot: int) -> WorkerProcess:
        worker = self._workers.start(self._files[slot], command=self._plan.command)
        self._fleet[slot] = worker
        self._starts.append(worker)
        return worker

    def _serving(self) -> list[int]:
        """Workers that have recovered all partitions they were given; waits for one, since chaos without any work between proves little."""
        deadline = time.monotonic() + PATIENCE
        while not (slots := [slot for slot in self._running() if _moment(self._worker(slot)) == "while serving"]):
            if time.monotonic() > deadline:
                break
            self._supervise()
            time.sleep(0.05)
        return slots

    def _await_work(self) -> None:
        """Wait until each stream has more predictions than at the last action, on a busy machine too."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            self._supervise()
            predicted = [sum(end_offsets(self._application.bootstrap, s.output_topic).values()) for s in self._application.config.streams]
            if all(more > before for more, before in zip(predicted, self._predicted, strict=True)):
                self._predicted = predicted
                return
            time.sleep(0.1)

    def _worker(self, slot: int) -> WorkerProcess:
        worker = self._fleet[slot]
        assert worker is not None
        return worker

    def _running(self) -> list[int]:
        return [slot for slot, worker in enumerate(self._fleet) if worker is not None]

    def _supervise(self) -> None:
        """Start workers again that ended by themselves, as any supervisor would."""
        for slot in self._running():
            worker = self._worker(slot)
            if not worker.running:
                self.report.ended[worker.wait()] += 1
                self._start(slot)

    def _kill(self, slot: int) -> None:
        worker = self._worker(slot)
        worker.kill()
        if self._files[slot] == self._application.file:
            self._orphaned = time.monotonic()
        self.report.kills += 1
        self.report.moments[_moment(worker)] += 1
        self._start(slot)

    def _kill_in_recovery(self, slot: int) -> None:
        """Kill a worker, and its successor soon after it was given partitions."""
        self._kill(slot)
        successor = self._worker(slot)
        deadline = time.monotonic() + 15
        while successor.running and not successor.events("assigned") and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(self._random.uniform(0, 0.4))
        self._kill(slot)

    def _freeze(self, slot: int) -> None:
        """Stop a worker's threads until the group has put it out, and let it wake up in the belief that nothing happened."""
        worker = self._worker(slot)
        worker.signal(signal.SIGSTOP)
        time.sleep(SESSION + self._random.uniform(0.5, 2.5))
        worker.signal(signal.SIGCONT)

    def _remove(self, slot: int) -> None:
        worker = self._worker(slot)
        self._fleet[slot] = None
        if (code := worker.stop()) != 0:
            self.report.ended[code] += 1

    def _kill_broker(self, _: int) -> None:
        """Kill the broker, and start it again on its data.

        Not while an orphaned transaction is open: Apache Kafka 4.3 on a single node never ends one that times out while it starts.
        """
        time.sleep(max(0.0, self._orphaned + self._plan.transaction + 3 - time.monotonic()))
        self._broker.kill()
        self.report.kills += 1
        time.sleep(self._random.uniform(0, 1))
        self._broker.start()

    def _change_models(self, slot: int) -> None:
        """Ask for a rollback or a deletion in a partition that this worker owns, and wait for its answer."""
        self._ask(slot).wait(PATIENCE)

    def _kill_in_change(self, slot: int) -> None:
        """Kill a worker about when it makes a change: before, while or after it does, before or after it answers."""
        self._ask(slot)
        time.sleep(self._random.uniform(0, 0.4))
        self._kill(slot)

    def _ask(self, slot: int) -> subprocess.Popen[bytes]:
        """Start the command line and wait until it has sent its message; it goes on to wait for the answer."""
        topic = self._application.config.control_topic
        command = self._command(self._worker(slot))
        before = end_offsets(self._application.bootstrap, topic)
        with (self._folder / "commands.log").open("ab") as log:
            asking = subprocess.Popen(dying_with_parent(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # noqa: S603
        self._asked.append(asking)
        while asking.poll() is None and end_offsets(self._application.bootstrap, topic) == before:
            time.sleep(0.01)
        return asking

    def _command(self, worker: WorkerProcess) -> list[str]:
        config = self._application.config
        owned = [name.rpartition("-") for entry in worker.events("assigned")[-1:] for name in entry["partitions"]]
        topic, _, partition = self._random.choice(owned or [(config.streams[0].input_topic, "-", "0")])
        [stream] = [stream.name for stream in config.streams if stream.input_topic == topic]
        if self._random.random() < 0.7:
            change = ["rollback", "--partition", partition, "--back", str(self._random.randint(1, 3))]
        else:
            change = ["delete", *(f"{partition}-{number}" for number in self._random.sample(range(KEYS), 20))]
        file = str(self._application.file)
        return [sys.executable, "-m", "streamlearn", "models", *change, "--stream", stream, "--yes", "--wait", str(ANSWER), "-c", file]

    def _await_calm(self) -> None:
        """Wait until all input is processed, workers that end being started again."""
        deadline = time.monotonic() + CATCH_UP
        while True:
            self._supervise()
            try:
                return self._application.await_end(timeout=2)
            except TimeoutError as error:
                if time.monotonic() > deadline:
                    logs = "\n".join(f"--- {w.log}\n{w.text()[-1500:]}" for w in self._fleet if w is not None)
                    raise TimeoutError(f"the workers did not catch up in {CATCH_UP:g} s: {error}\n{logs}") from error

    def _aborted(self) -> dict[str, int]:
        """Records that only a reader of uncommitted transactions sees: evidence of kills inside transactions and checkpoints."""
        kinds = {
            "predictions": [stream.output_topic for stream in self._application.config.streams],
            "checkpoints": [stream.models_topic for stream in self._application.config.streams],
        }
        return {kind: sum(_uncommitted(self._application.bootstrap, topic) for topic in topics) for kind, topics in kinds.items()}


def sabotaged(name: str) -> tuple[str, ...]:
    """The command of workers that are broken on purpose."""
    return (sys.executable, str(Path(__file__).with_name("sabotage.py")), name, "chaos", "worker")


def _uncommitted(bootstrap: str, topic: str) -> int:
    committed = read_topic(bootstrap, topic)  # waits until every transaction is decided
    everything = read_topic(bootstrap, topic, "read_uncommitted")
    return sum(map(len, everything.values())) - sum(map(len, committed.values()))


def _returned(worker: WorkerProcess) -> float:
    """Models that came back from disk to a worker."""
    lines = worker.get("/metrics")[1].splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("streamlearn_model_returns_total{"))


def _moment(worker: WorkerProcess) -> str:
    """What a killed worker was doing, by its log."""
    assigned, recovered = worker.events("assigned"), worker.events("recovered")
    if not assigned:
        return "before the first assignment"
    since = [entry for entry in recovered if entry["timestamp"] >= assigned[-1]["timestamp"]]
    return "while recovering" if len(since) < len(assigned[-1]["partitions"]) else "while serving"


def _recoveries(worker: WorkerProcess) -> list[float]:
    """Seconds of every recovery that was finished."""
    starts, recovered = worker.events("assigned"), worker.events("recovered")
    seconds: list[float] = []
    for start, following in zip_longest(starts, starts[1:]):
        end = following["timestamp"] if following else "9999"
        within = [entry["timestamp"] for entry in recovered if start["timestamp"] <= entry["timestamp"] < end]
        if within and len(within) >= len(start["partitions"]):
            seconds.append((datetime.fromisoformat(within[-1]) - datetime.fromisoformat(start["timestamp"])).total_seconds())
    return seconds


def _counts(counts: dict[str, int] | Counter[str] | Counter[int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())
