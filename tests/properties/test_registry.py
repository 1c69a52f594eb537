"""What every learner must keep, whoever wrote it: found through the registry, so that nobody has to remember a new one."""

import ast
import operator
import re
from collections.abc import Iterator, Sequence
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from checkpoints import events, models, part, spec_of
from variants import hyper_parameters, small, variants

from streamlearn.checkpoint.state import pack, unpack, write
from streamlearn.features.compiled import Array
from streamlearn.learners.pipeline import Pipeline, Scaling
from streamlearn.learners.protocol import Learner, Pool, Shape, Task
from streamlearn.learners.registry import LEARNERS
from streamlearn.processor import Processor

DIM, CLASSES, SLOTS, COUNT = 3, 4, 3, 90
HOSTILE = 10_000

EVERY = [(kind, task) for kind in LEARNERS.values() for task in sorted(kind.tasks)]
every_learner = pytest.mark.parametrize("kind", LEARNERS.values(), ids=LEARNERS)
every_task = pytest.mark.parametrize(("kind", "task"), EVERY, ids=[f"{kind.name}-{task}" for kind, task in EVERY])
every_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])

State = list[tuple[tuple[object, ...], bytes]]


class Stream(NamedTuple):
    """Rows X [n, dim] for the models `slots` [n]; y [n] is NaN where there is no label."""

    slots: Array
    X: Array
    y: Array

    def rows(self, rows: slice | Array) -> "Stream":
        return Stream(np.ascontiguousarray(self.slots[rows]), np.ascontiguousarray(self.X[rows]), np.ascontiguousarray(self.y[rows]))


def stream(task: Task, dtype: type, seed: int = 0) -> Stream:
    """Rows with duplicates and zero vectors, one in eight without a label, classes that arrive one after the other."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(COUNT, DIM))
    X[generator.random(COUNT) < 0.1] = 0.0
    X = X[np.maximum(np.arange(COUNT) - np.where(generator.random(COUNT) < 0.1, 5, 0), 0)]
    value = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * generator.normal(size=COUNT)
    y = _labels(task, value)
    if task is Task.MULTICLASS:
        y = np.minimum(y, np.arange(COUNT) // 15)
    y[generator.random(COUNT) < 1 / 8] = np.nan
    return Stream(generator.integers(0, SLOTS, COUNT), X.astype(dtype), y)


def hostile_stream(task: Task, dtype: type) -> Stream:
    """Every finite value that could hurt: zeros, the largest, the smallest, rows again and again, targets beyond float32."""
    generator = np.random.default_rng(1)
    limits = np.finfo(dtype)
    values = np.array(
        [0.0, 1.0, 1e-30, 1e30, np.sqrt(float(limits.max)), float(limits.max), float(limits.tiny), float(limits.smallest_subnormal)]
    )
    X: Array = generator.normal(size=(HOSTILE, DIM)).astype(dtype)
    odd = generator.random(HOSTILE) < 0.5
    X[odd] = (generator.choice(values, (HOSTILE, DIM)) * generator.choice([-1.0, 1.0], (HOSTILE, DIM))).astype(dtype)[odd]
    X = X[np.maximum(np.arange(HOSTILE) - np.where(generator.random(HOSTILE) < 0.3, generator.integers(0, 50, HOSTILE), 0), 0)]
    y = _labels(task, generator.normal(size=HOSTILE))
    if task is Task.REGRESSION:
        y *= generator.choice([1.0, 1.0, 1e-30, 1e19, 1e30, 1e38, 1e300], HOSTILE)
    y[generator.random(HOSTILE) < 1 / 8] = np.nan
    return Stream(generator.integers(0, SLOTS, HOSTILE), X, y)


def _labels(task: Task, value: Array) -> Array:
    if task is Task.REGRESSION:
        return value.copy()
    if task is Task.MULTICLASS:
        return np.clip(np.floor(2.0 * value + CLASSES / 2), 0, CLASSES - 1)
    return np.where(value >= 0.0, 1.0, -1.0)


def pool_of(learner: Learner, task: Task, dtype: type, *, slots: int = SLOTS, outputs: int = CLASSES) -> Pool:
    return Pool(learner, Shape(DIM, task, np.dtype(dtype), outputs=outputs if task is Task.MULTICLASS else 1), slots=slots)


def play(pool: Pool, stream: Stream, cuts: Sequence[int] = ()) -> Array:
    """Scores [n, outputs] of the stream, split into batches at `cuts`."""
    scores: Array = np.empty((len(stream.y), pool.shape.outputs), pool.shape.dtype)
    for start, stop in pairwise((0, *cuts, len(stream.y))):
        batch = slice(start, stop)
        pool.learner.step(pool, stream.slots[batch], stream.X[batch], stream.y[batch], scores[batch])
    return scores


def state(pool: Pool) -> State:
    """What a checkpoint holds of every model; room that was reserved and never used is no part of it."""
    return list(pack(pool, range(pool.slots)))


@every_task
@every_dtype
def test_any_split_into_batches_gives_the_same_bits(kind: type[Learner], task: Task, dtype: type) -> None:
    generator = np.random.default_rng(2)
    data = stream(task, dtype)
    for learner in variants(kind, task):
        whole, parts = pool_of(learner, task, dtype), pool_of(learner, task, dtype)
        cuts = [1, 2, *sorted(generator.choice(np.arange(3, COUNT), 12, replace=False).tolist())]
        assert play(parts, data, cuts).tobytes() == play(whole, data).tobytes(), learner
        assert state(parts) == state(whole), learner


@every_task
def test_one_event_at_a_time_gives_the_same_bits(kind: type[Learner], task: Task) -> None:
    """More events than a projected block holds, default sizes."""
    data = stream(task, np.float32)
    whole, single = pool_of(kind(), task, np.float32), pool_of(kind(), task, np.float32)
    assert play(single, data, range(1, COUNT)).tobytes() == play(whole, data).tobytes()
    assert state(single) == state(whole)


@every_task
@every_dtype
def test_slots_are_independent(kind: type[Learner], task: Task, dtype: type) -> None:
    data = stream(task, dtype)
    for learner in variants(kind, task):
        together = pool_of(learner, task, dtype)
        scores = play(together, data)
        for slot in range(SLOTS):
            own = data.slots == slot
            alone = pool_of(learner, task, dtype, slots=1)
            lone = data.rows(own)
            assert play(alone, lone._replace(slots=np.zeros_like(lone.slots))).tobytes() == scores[own].tobytes(), learner
            assert state(alone)[0] == state(together)[slot], learner


@every_task
@every_dtype
def test_an_event_without_a_label_changes_nothing(kind: type[Learner], task: Task, dtype: type) -> None:
    """Neither at the start nor later; its scores are those that it would have had with its label."""
    data = stream(task, dtype)
    for learner in variants(kind, task):
        pool = pool_of(learner, task, dtype)
        for start in (0, 30, 60):
            probe = data.rows(slice(start, start + 30))
            before = state(pool)
            unlabelled = play(pool, probe._replace(y=np.full(30, np.nan)))
            assert state(pool) == before, learner
            first = [probe.slots.tolist().index(slot) for slot in set(probe.slots.tolist())]
            assert unlabelled[first].tobytes() == play(pool, probe)[first].tobytes(), learner


@every_task
@every_dtype
def test_a_saved_model_resumes_as_if_it_had_never_stopped(kind: type[Learner], task: Task, dtype: type) -> None:
    data = stream(task, dtype)
    for learner in variants(kind, task):
        through = pool_of(learner, task, dtype)
        for stop in (0, 7, 45, 80):
            stopped, resumed = pool_of(learner, task, dtype), pool_of(learner, task, dtype)
            play(stopped, data.rows(slice(0, stop)))
            for slot, (table, payload) in enumerate(state(stopped)):
                write(resumed, slot, unpack(table, payload))  # type: ignore[arg-type]
            rest = data.rows(slice(stop, None))
            assert play(resumed, rest).tobytes() == play(stopped, rest).tobytes(), (learner, stop)
            assert state(resumed) == state(stopped), (learner, stop)
        play(through, data)
        assert state(through) == state(resumed), learner


@every_task
@every_dtype
def test_growth_of_the_pool_changes_nothing(kind: type[Learner], task: Task, dtype: type) -> None:
    """Slots, outputs and support vectors: all there from the start, more than are used, or added as they are needed."""
    data = stream(task, dtype)
    for learner in variants(kind, task):
        fixed, roomy, growing = (
            pool_of(learner, task, dtype),
            pool_of(learner, task, dtype),
            pool_of(learner, task, dtype, slots=0, outputs=2),
        )
        roomy.add(5)
        roomy.reserve(outputs=2 * CLASSES if task is Task.MULTICLASS else 1, support=100)
        expected, width = play(fixed, data), fixed.shape.outputs
        assert play(roomy, data)[:, :width].tobytes() == expected.tobytes(), learner
        for i in range(0, COUNT, 10):
            batch = data.rows(slice(i, i + 10))
            growing.add(max(0, 1 + int(batch.slots.max()) - growing.slots))
            if task is Task.MULTICLASS:
                growing.reserve(outputs=1 + int(np.nanmax(batch.y)))
            scores = play(growing, batch)
            assert scores.tobytes() == np.ascontiguousarray(expected[i : i + 10, : scores.shape[1]]).tobytes(), learner
        if task is Task.MULTICLASS:
            growing.reserve(outputs=CLASSES)
        assert state(growing) == state(fixed) == state(roomy)[:SLOTS], learner


@every_task
def test_the_seed_decides_everything(kind: type[Learner], task: Task) -> None:
    data = stream(task, np.float64)
    if "seed" not in hyper_parameters(kind):
        assert play(pool_of(small(kind), task, np.float64), data).tobytes() == play(pool_of(small(kind), task, np.float64), data).tobytes()
        return
    differ = 0
    for learner in variants(kind, task):
        one, again, other = (replace(learner, seed=seed) for seed in (5, 5, 6))  # type: ignore[type-var]
        first = play(pool_of(one, task, np.float64), data).tobytes()
        assert play(pool_of(again, task, np.float64), data).tobytes() == first, learner
        differ += play(pool_of(other, task, np.float64), data).tobytes() != first
    assert differ > 0, "no option of this learner depends on its seed"


@every_task
@every_dtype
def test_state_is_of_the_dtype_of_the_pool_or_exact(kind: type[Learner], task: Task, dtype: type) -> None:
    """Real-valued state is of the pool's dtype, or float64 where a learner says so; what slots share is of the pool's dtype."""
    for learner in variants(kind, task):
        pool = pool_of(learner, task, dtype)
        play(pool, stream(task, dtype))
        for name in pool.names:
            array = pool[name]
            assert array.dtype.kind in "iub" or array.dtype in (np.dtype(dtype), np.dtype(np.float64)), (learner, name)
            assert array.dtype.kind != "f" or array.dtype == dtype or np.dtype(dtype) == np.float32
        assert {array.dtype for array in pool.shared.values()} <= {np.dtype(dtype)}


@every_task
def test_single_precision_is_close_to_double(kind: type[Learner], task: Task) -> None:
    """Over a few events, before rounding decides a mistake."""
    data = stream(task, np.float32).rows(slice(0, 12))
    exact = data._replace(X=data.X.astype(np.float64))
    for learner in variants(kind, task):
        single, double = play(pool_of(learner, task, np.float32), data), play(pool_of(learner, task, np.float64), exact)
        np.testing.assert_allclose(single, double, rtol=2e-3, atol=2e-3, err_msg=str(learner))


@every_task
@every_dtype
def test_no_finite_event_poisons_a_model(kind: type[Learner], task: Task, dtype: type) -> None:
    data = hostile_stream(task, dtype)
    pool = pool_of(small(kind), task, dtype)
    scores = play(pool, data)
    for name in pool.names:
        assert np.isfinite(pool[name]).all(), f"{name} after event {_first_poisoned(small(kind), task, dtype, data)}"
    assert not np.isnan(scores).any()
    assert not np.isposinf(scores).any()
    if task is not Task.MULTICLASS:
        assert np.isfinite(scores).all()


@every_task
@every_dtype
def test_no_finite_event_poisons_a_variant(kind: type[Learner], task: Task, dtype: type) -> None:
    data = hostile_stream(task, dtype).rows(slice(0, 300))
    for learner in variants(kind, task):
        pool = pool_of(learner, task, dtype)
        scores = play(pool, data)
        for name in pool.names:
            assert np.isfinite(pool[name]).all(), f"{learner}: {name} after event {_first_poisoned(learner, task, dtype, data)}"
        assert not (np.isnan(scores) | np.isposinf(scores)).any(), learner


@pytest.mark.parametrize("scaling", ["standard", "min-max"])
@every_dtype
def test_no_finite_event_poisons_the_scaling(scaling: Scaling, dtype: type) -> None:
    pipeline = Pipeline(learner=small(LEARNERS["fogd"]), scaling=scaling)
    pool = pool_of(pipeline, Task.BINARY, dtype)
    assert np.isfinite(play(pool, hostile_stream(Task.BINARY, dtype))).all()
    for name in pool.names:
        assert np.isfinite(pool[name]).all(), name


def _first_poisoned(learner: Learner, task: Task, dtype: type, data: Stream) -> str:
    pool = pool_of(learner, task, dtype)
    for i in range(len(data.y)):
        play(pool, data.rows(slice(i, i + 1)))
        if not all(np.isfinite(pool[name]).all() for name in pool.names):
            return f"{i}: x = {data.X[i]}, y = {data.y[i]}"
    return "none"


@every_task
@pytest.mark.parametrize("scaling", ["standard", "min-max"])
def test_works_behind_online_scaling(kind: type[Learner], task: Task, scaling: Scaling) -> None:
    spec, data = spec_of(small(kind), task, scaling=scaling), events(80, task)
    whole, parts = Processor(spec), Processor(spec)
    expected = whole.process(data)
    for start, stop in pairwise((0, 1, 2, 9, 43, 80)):
        predictions = parts.process(part(data, start, stop))
        assert predictions.predictions == expected.predictions[start:stop]
        assert predictions.mistakes == expected.mistakes[start:stop]
    assert models(parts) == models(whole)
    assert all(np.isfinite(predictions.scores[:, : 1 if task is not Task.MULTICLASS else 0]).all() for predictions in (expected,))


@pytest.mark.parametrize("kind", [kind for kind in LEARNERS.values() if Task.MULTICLASS in kind.tasks], ids=lambda kind: kind.name)
@every_dtype
def test_a_class_counts_from_its_first_label_on(kind: type[Learner], dtype: type) -> None:
    """-inf before the model has met it, a number afterwards."""
    data = stream(Task.MULTICLASS, dtype)
    scores = play(pool_of(small(kind), Task.MULTICLASS, dtype), data)
    met = np.array([[_met(data, i, c) for c in range(CLASSES)] for i in range(COUNT)])
    np.testing.assert_array_equal(np.isfinite(scores), met)
    assert np.isneginf(scores[~met]).all()


def _met(data: Stream, i: int, c: int) -> bool:
    return bool(np.any((data.slots[:i] == data.slots[i]) & (data.y[:i] == c)))


@every_task
@every_dtype
def test_memory_is_what_the_docstring_says(kind: type[Learner], task: Task, dtype: type) -> None:
    for learner in (kind(), small(kind)):
        pool = pool_of(learner, task, dtype, slots=1)
        assert pool.nbytes == documented_bytes(learner, pool.shape)


@every_task
def test_memory_is_bounded_unless_the_docstring_warns(kind: type[Learner], task: Task) -> None:
    learner = small(kind)
    pool = pool_of(learner, task, np.float32)
    play(pool, stream(task, np.float32))
    before = pool.nbytes
    for seed in range(1, 6):
        play(pool, stream(task, np.float32, seed))
    unbounded = re.search(r"grows (without end|until)", kind.__doc__ or "")
    assert pool.nbytes == before or unbounded


def documented_bytes(learner: Learner, shape: Shape) -> float:
    """The value of the formula that follows `memory` in the docstring: letters as in the list of hyper-parameters (`budget: B`)."""
    text = " ".join((type(learner).__doc__ or "").split())
    found = re.search(r"\b[Mm]emory (?:per model )?((?:[\w()+*^./ -])+?) bytes\b(?: with (\w+) = ([\w ]+))?", text)
    assert found, "the docstring does not state the memory per model in bytes"
    formula, letter, meaning = found.groups()
    values = {name: getattr(learner, name) for name in hyper_parameters(type(learner))}
    values = {name: value for name, value in values.items() if isinstance(value, int)}
    letters = dict(re.findall(r"\b(\w+): ([A-Z]|[a-z]),", text))
    values |= {letters[name]: value for name, value in values.items() if name in letters}
    values |= {"d": shape.dim, "outputs": shape.outputs, "itemsize": shape.dtype.itemsize}
    if "budget" in values and "k" not in values:
        values["k"] = max(1, round(0.2 * values["budget"]))
    for unbounded in ("n", "S"):
        values.setdefault(unbounded, shape.support)
    if letter:
        values[letter] = _value(meaning, values)
    return _value(formula, values)


def _value(formula: str, values: dict[str, float]) -> float:
    """A formula with implied products, such as 2 (B + 1)^2 d."""
    explicit = re.sub(r"(?<=[\w)]) (?=[\w(])", " * ", formula).replace("^", "**")
    return _evaluate(ast.parse(explicit, mode="eval").body, values)


_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Pow: operator.pow}


def _evaluate(node: ast.expr, values: dict[str, float]) -> float:
    if isinstance(node, ast.Constant):
        return float(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.Name):
        return values[node.id]
    assert isinstance(node, ast.BinOp), ast.dump(node)
    return float(_OPERATORS[type(node.op)](_evaluate(node.left, values), _evaluate(node.right, values)))


@every_learner
def test_is_a_frozen_dataclass_with_defaults(kind: type[Learner]) -> None:
    assert is_dataclass(kind)
    learner = kind()
    assert hash(learner) == hash(kind())
    for field in fields(kind):
        assert field.kw_only
        with pytest.raises(FrozenInstanceError):
            setattr(learner, field.name, getattr(learner, field.name))


@every_learner
def test_name_and_tasks(kind: type[Learner]) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*(\+\+)?", kind.name)
    assert kind.tasks
    assert kind.tasks <= frozenset(Task)


@every_learner
def test_docstring_explains_every_hyper_parameter(kind: type[Learner]) -> None:
    """With source, cost per event and memory."""
    text = " ".join((kind.__doc__ or "").split())
    missing = [name for name in hyper_parameters(kind) if not re.search(rf"(^|[.,;] ){re.escape(name)}(, \w+)*:", text)]
    assert not missing
    assert "Source: " in text
    assert re.search(r"\b[Cc]ost\b", text)


def _numbers(kind: type[Learner]) -> Iterator[str]:
    for name, annotation in hyper_parameters(kind).items():
        if annotation in (int, float):
            yield name


@every_learner
def test_every_number_has_a_range(kind: type[Learner]) -> None:
    """As a type of `parameters`, so that a configuration is checked against it."""
    assert list(_numbers(kind)) == []
