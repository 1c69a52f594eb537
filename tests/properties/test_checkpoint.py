"""Checkpoints of every learner, compaction of every kind, and bytes from anywhere."""

import io
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from checkpoints import DIM, ROOM, checkpoint, compacted, events, models, part, restored, small, spec_of
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from streamlearn.checkpoint.archive import ArchiveWriter, read_archive
from streamlearn.checkpoint.codec import Record, decode
from streamlearn.checkpoint.errors import CheckpointError
from streamlearn.checkpoint.marker import Marker, decode_marker
from streamlearn.checkpoint.restore import Restorer
from streamlearn.checkpoint.snapshot import Checkpointer
from streamlearn.checkpoint.state import pack, unpack
from streamlearn.features.compiled import Array
from streamlearn.learners.fourier import Fogd
from streamlearn.learners.protocol import Field, Learner, Pool, Shape, Task
from streamlearn.learners.registry import LEARNERS
from streamlearn.processor import Processor

few = settings(max_examples=20, derandomize=True, deadline=None)
many = settings(max_examples=300, derandomize=True, deadline=None)

EVERY = [(kind, task) for kind in LEARNERS.values() for task in sorted(kind.tasks)]
COUNT = 60
CHUNKED = 850  # bytes of a record: a model of Topic takes two as soon as all its weights are in use, a marker always


@pytest.mark.parametrize(("kind", "task"), EVERY, ids=[f"{kind.name}-{task}" for kind, task in EVERY])
@given(stop=st.integers(0, COUNT), dtype=st.sampled_from(["float32", "float64"]), seed=st.integers(0, 1000))
@settings(few, max_examples=5)
def test_every_learner_goes_on_as_if_it_had_never_stopped(kind: type[Learner], task: Task, stop: int, dtype: str, seed: int) -> None:
    spec, stream = spec_of(small(kind), task, dtype), events(COUNT, task, seed=seed, dtype=dtype)
    through, stopped = Processor(spec), Processor(spec)
    through.process(part(stream, 0, stop))
    stopped.process(part(stream, 0, stop))
    resumed, marker = restored(checkpoint(Checkpointer(stopped, limit=1500), offset=stop), spec)
    assert marker.offset == stop
    assert models(resumed) == models(stopped)
    expected, actual = through.process(part(stream, stop)), resumed.process(part(stream, stop))
    width = len(resumed.classes) or 1
    assert actual.scores[:, :width].tobytes() == expected.scores[:, :width].tobytes()
    assert actual.predictions == expected.predictions
    assert models(resumed) == models(through)


@pytest.mark.parametrize(("kind", "task"), EVERY, ids=[f"{kind.name}-{task}" for kind, task in EVERY])
def test_a_fresh_model_is_the_corner_of_a_larger_fresh_model(kind: type[Learner], task: Task) -> None:
    """Trimming is lossless for pools of any size because of this."""
    learner = small(kind)
    declared = 2 if task is Task.MULTICLASS else 0
    outputs = (2, 5) if task is Task.MULTICLASS else (1, 1)
    near, far = (
        Pool(learner, Shape(DIM, task, np.dtype(np.float32), outputs=o, declared=declared, support=s), slots=1)
        for o, s in zip(outputs, (8, 19), strict=True)
    )
    for name in near.names:
        corner = tuple(slice(length) for length in near[name].shape)
        assert far[name][corner].tobytes() == near[name].tobytes(), name


class Anything:
    """A learner whose fields hold whatever a test puts there."""

    name = "anything"
    tasks = frozenset(Task)

    def __init__(self, field: Field) -> None:
        self.field = field

    def fields(self, shape: Shape) -> dict[str, Field]:
        return {"state": self.field, "count": Field((), np.dtype(np.int64), 7)}

    def shared(self, shape: Shape) -> dict[str, Array]:
        return {}

    def step(self, pool: Pool, slots: Array, X: Array, y: Array, scores: Array) -> None:
        raise NotImplementedError


DTYPES = [np.dtype(code) for code in ("f4", "f8", "i8", "i4", "u1", "i1", "?")]


@given(data=st.data(), dtype=st.sampled_from(DTYPES), shape=arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5))
@settings(few, max_examples=150)
def test_packing_is_lossless_to_the_bit(data: st.DataObject, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> None:
    """Arrays of any bits, among them signalling NaN and -0.0, around initial values of any kind."""
    size = int(np.prod(shape)) * dtype.itemsize
    bits = st.binary(min_size=size, max_size=size) if dtype.kind != "b" else st.lists(st.integers(0, 1), min_size=size, max_size=size)
    initial: Array = np.frombuffer(bytes(data.draw(bits)), dtype).reshape(shape)
    state = np.frombuffer(bytes(data.draw(bits)), dtype).reshape(shape).copy()
    keep: Array = data.draw(arrays.arrays(np.bool_, shape))
    np.copyto(state, initial, where=keep)
    pool = Pool(Anything(Field(shape, dtype, initial)), Shape(1, Task.BINARY, np.dtype(np.float32)), slots=2)  # type: ignore[arg-type]
    pool["state"][1] = state
    pool["state"].view(f"u{dtype.itemsize}")[1] = state.view(f"u{dtype.itemsize}") if shape else state[()].view(f"u{dtype.itemsize}")
    ((fresh_table, fresh), (table, payload)) = pack(pool, [0, 1])
    assert len(fresh) == 8 + (dtype.itemsize if not shape else 0)
    before = pool["state"][1].tobytes()
    pool.write(0, unpack(table, payload))
    assert pool["state"][0].tobytes() == before
    pool.write(1, unpack(fresh_table, fresh))
    assert pool["state"][1].tobytes() == initial.tobytes()


class Topic:
    """A processor that learns and is checkpointed step by step, with everything that was ever written to its partition."""

    def __init__(self, history: int) -> None:
        self.spec = spec_of(Fogd(frequencies=64))
        self.processor = Processor(self.spec)
        self.records: list[Record] = []
        self.last: Marker | None = None
        self.states: dict[int, dict[str, dict[str, bytes]]] = {}
        self.change_history(history)

    def step(self, count: int, keys: int, seed: int) -> None:
        self.processor.process(events(count, keys=keys, seed=seed))
        self.records += checkpoint(self.checkpointer)
        self.last = self.checkpointer.last
        assert self.last is not None
        self.states[self.last.checkpoint] = models(self.processor)

    def change_history(self, history: int) -> None:
        """From the next checkpoint on. The limit splits markers and most models."""
        self.checkpointer = Checkpointer(self.processor, self.last, history=history, limit=CHUNKED)


STEPS = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 6)), min_size=1, max_size=12)


@given(steps=STEPS, history=st.integers(1, 4), cut=st.floats(0, 1))
@few
def test_the_last_checkpoints_are_addressable_however_far_compaction_got(steps: list[tuple[int, int]], history: int, cut: float) -> None:
    topic = Topic(history)
    for seed, (count, keys) in enumerate(steps):
        topic.step(count, keys, seed)
    clean = int(cut * len(topic.records))
    newest = {record.key for record in topic.records[clean:]}
    dirty = [record for record in compacted(topic.records[:clean]) if record.key not in newest] + topic.records[clean:]
    for records in (topic.records, compacted(topic.records), dirty):
        for number in range(max(1, len(steps) - history + 1), len(steps) + 1):
            processor, marker = restored(records, topic.spec, upto=number)
            assert marker.checkpoint == number
            assert models(processor) == topic.states[number]
        assert models(restored(records, topic.spec)[0]) == topic.states[len(steps)]


@given(steps=STEPS, histories=st.lists(st.integers(1, 4), min_size=12, max_size=12))
@few
def test_a_change_of_history_confuses_nothing(steps: list[tuple[int, int]], histories: list[int]) -> None:
    """The newest checkpoint is always there; older ones are right or refused."""
    topic = Topic(1)
    for seed, ((count, keys), history) in enumerate(zip(steps, histories, strict=False)):
        topic.change_history(history)
        topic.step(count, keys, seed)
    records = compacted(topic.records)
    assert models(restored(records, topic.spec)[0]) == topic.states[len(steps)]
    for number in topic.states:
        try:
            processor, _ = restored(records, topic.spec, upto=number)
        except CheckpointError:
            continue
        assert models(processor) == topic.states[number]


@given(missing=st.data(), steps=STEPS)
@few
def test_no_lost_record_goes_unnoticed(missing: st.DataObject, steps: list[tuple[int, int]]) -> None:
    topic = Topic(2)
    for seed, (count, keys) in enumerate(steps):
        topic.step(count, keys, seed)
    records = compacted(topic.records)
    lost = missing.draw(st.integers(0, len(records) - 1))
    restorer = Restorer(topic.spec)
    try:
        for key, value in records[:lost] + records[lost + 1 :]:
            restorer.add(key, value)
        marker = restorer.finish()
    except CheckpointError:
        return
    assert models(restorer.processor) == (topic.states[marker.checkpoint] if marker else {})


def readers() -> list[Callable[[bytes], object]]:
    return [decode, decode_marker, lambda value: list(read_archive(io.BytesIO(value))), restore_one]


def restore_one(value: bytes) -> None:
    restorer = Restorer(spec_of())
    restorer.add(b"m/0/0/0/k", value)
    restorer.finish()


def sound_bytes() -> list[bytes]:
    """A model's record, a marker's record, a marker's payload and a file."""
    processor = Processor(spec_of())
    processor.process(events(20, keys=1))
    records = checkpoint(Checkpointer(processor))
    file = io.BytesIO()
    archive = ArchiveWriter(file)
    archive.add(iter(records))
    archive.close()
    values = [record.value for record in records if record.value]
    return [*values, bytes(decode(values[-1]).payload), file.getvalue()]


@pytest.mark.parametrize("reader", readers())
@given(value=st.binary(max_size=200))
@example(value=b"\x89SLM")
@many
def test_random_bytes_are_refused(reader: Callable[[bytes], object], value: bytes) -> None:
    with pytest.raises(CheckpointError):
        reader(value)


@pytest.mark.parametrize("reader", readers())
@given(data=st.data())
@many
def test_damaged_bytes_are_refused_or_read(reader: Callable[[bytes], object], data: st.DataObject) -> None:
    value = bytearray(data.draw(st.sampled_from(SOUND)))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(value) - 1))
        value[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.none(), st.integers(0, len(value))))
    try:
        reader(bytes(value[:cut]))
    except CheckpointError as error:
        assert str(error)


SOUND = sound_bytes()
TABLES = st.lists(
    st.tuples(
        st.sampled_from(["learned", "mean", "weights", "x"]),
        st.sampled_from(["<f4", "<f8", "<i8", "|u1", "|O", "<U9", ">f4", ""]),
        st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 8), max_size=8).map(tuple),
    ),
    max_size=5,
)


@given(table=TABLES, payload=st.binary(max_size=64))
@many
def test_untrusted_tables_are_refused_or_read(table: list[tuple[str, str, tuple[int, ...]]], payload: bytes) -> None:
    try:
        state = unpack(table, payload)
    except CheckpointError:
        return
    assert sum(array.nbytes for array in state.values()) == len(payload)


BOMBS = """
import io, resource, struct, zlib
resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))
from streamlearn.checkpoint.archive import MAGIC, read_archive
from streamlearn.checkpoint.codec import Header, Joiner, Model, RecordName, decode, encode
from streamlearn.checkpoint.errors import CheckpointError
from streamlearn.checkpoint.state import unpack
huge = 2**63 - 1
def model(shape):
    return Model("k", 1, "fogd", "f", "binary", "float32", 3, 0, 0, (("w", "<f4", shape),))
def header(**sizes):
    return Header(**dict(checkpoint=1, epoch=1, offset=0, size=4, checksum=zlib.crc32(b"aaaa"), model=model((huge, huge))) | sizes)
def record(head):
    return encode(head, RecordName.of_model("k", 1, 1, 4), b"aaaa")[0].value
bombs = [
    lambda: unpack((("w", "<f4", (huge,)),), b"aaaa"),
    lambda: unpack((("w", "<f4", (0, huge)),), b""),
    lambda: unpack(decode(record(header())).header.model.arrays, b"aaaa"),
    lambda: decode(record(header(size=huge))),
    lambda: decode(b"\\x89SLM\\x01\\x00\\x00\\x00" + b"\\xff" * 100),
    lambda: list(read_archive(io.BytesIO(MAGIC + b"\\xff" * 100))),
]
for number, bomb in enumerate(bombs):
    try:
        bomb()
    except CheckpointError:
        continue
    raise SystemExit(f"bomb {{number}} was accepted")
joiner = Joiner()
assert joiner.add(decode(record(header(size=huge, chunks=huge, chunk=huge - 1)))) is None
print("defused")
"""


def test_claims_of_huge_sizes_allocate_nothing() -> None:
    """In a process that may not have more than 4 GiB of address space, most of which numba and BLAS take when they are loaded."""
    limit = 4 << 30
    done = subprocess.run([sys.executable, "-c", BOMBS.format(limit=limit)], capture_output=True, text=True, timeout=100, check=False)  # noqa: S603
    assert done.stdout == "defused\n", done.stderr


def test_the_small_sizes_fit_the_room() -> None:
    assert COUNT < ROOM / 2
