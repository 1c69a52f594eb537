import json
from typing import Any

import msgspec
import numpy as np
import pytest
from broken_events import ARRAY, BROKEN_ARRAY, BROKEN_NAMED, NAMED, BrokenEvent, good_array, good_named

from streamlearn.events.columns import EventFormat, Events, Label, Rejected
from streamlearn.events.decode import Decoder
from streamlearn.events.fields import Reason

FLIGHTS = EventFormat(numeric=("delay",), boolean=("holiday",), categorical={"origin": ("EWR", "JFK")})


def decode(
    form: EventFormat, *events: object, dtype: str = "float64", keys: list[bytes | None] | None = None
) -> tuple[Events, list[Rejected]]:
    encode = msgspec.json.encode if form.encoding == "json" else msgspec.msgpack.encode
    values = [event if isinstance(event, bytes) else encode(event) for event in events]
    return Decoder(form, dtype).decode(values, keys or [None] * len(values), [1.5] * len(values))


def decode_good(form: EventFormat, *events: object, **options: Any) -> Events:
    columns, rejected = decode(form, *events, **options)
    assert rejected == []
    return columns


def reason(form: EventFormat, event: object, **options: Any) -> str:
    columns, rejected = decode(form, event, **options)
    assert len(columns.rows) == 0
    return rejected[0].reason


class TestFeatures:
    def test_named_fields_are_numeric_then_boolean_then_one_hot(self) -> None:
        events = decode_good(
            FLIGHTS,
            {"origin": "JFK", "holiday": True, "delay": 3, "label": 1},
            {"delay": -0.5, "holiday": 0, "origin": "LGA", "unknown": {"a": [1]}},
        )
        assert events.X.tolist() == [[3.0, 1.0, 0.0, 1.0], [-0.5, 0.0, 0.0, 0.0]]
        assert Decoder(FLIGHTS, "float32").dim == 4

    def test_numbers_and_booleans_are_categories_by_their_text(self) -> None:
        form = EventFormat(categorical={"month": ("1", "12", "true")})
        events = decode_good(form, {"month": 12}, {"month": True}, {"month": "1"})
        assert events.X.tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]

    def test_hash_buckets_are_the_same_on_every_machine(self) -> None:
        form = EventFormat(numeric=("n",), categorical={"tail": 16})
        events = decode_good(form, {"n": 2, "tail": "N14228"}, {"n": 2, "tail": ""})
        assert events.X.sum(axis=1).tolist() == [3.0, 3.0]
        assert np.flatnonzero(events.X[0, 1:]).tolist() == [2778154110 % 16]  # CRC-32 of "N14228"
        assert events.X[1, 1] == 1.0  # CRC-32 of nothing is 0

    @pytest.mark.parametrize("x", [[1, 2.5, 0], {"1": 2.5, "0": 1}])
    def test_array_in_json(self, x: object) -> None:
        assert decode_good(EventFormat(array="x", dim=3), {"x": x}).X.tolist() == [[1.0, 2.5, 0.0]]

    @pytest.mark.parametrize("x", [[1, 2.5, 0], {1: 2.5, 0: 1}, np.array([1, 2.5, 0], "<f4").tobytes()])
    def test_array_in_messagepack(self, x: object) -> None:
        assert decode_good(EventFormat(encoding="msgpack", array="x", dim=3), {"x": x}).X.tolist() == [[1.0, 2.5, 0.0]]

    def test_array_kinds_may_be_mixed_in_one_batch(self) -> None:
        form = EventFormat(encoding="msgpack", array="x", dim=2)
        events = decode_good(form, {"x": [1, 2]}, {"x": {1: 3}}, {"x": np.array([5, 6], "<f4").tobytes()}, {"x": {}})
        assert events.X.tolist() == [[1, 2], [0, 3], [5, 6], [0, 0]]

    @pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("x", ["list", "map", "raw"])
    def test_what_is_not_finite_is_rejected_in_every_form(self, x: str, number: float) -> None:
        forms: dict[str, object] = {"list": [0.0, number], "map": {1: number}, "raw": np.array([0, number], "<f4").tobytes()}
        assert reason(EventFormat(encoding="msgpack", array="x", dim=2), {"x": forms[x]}) == Reason.FEATURES

    def test_raw_array_of_another_length_is_rejected(self) -> None:
        assert reason(EventFormat(encoding="msgpack", array="x", dim=2), {"x": bytes(7)}) == Reason.FEATURES

    def test_numbers_that_only_float64_holds(self) -> None:
        event = {"delay": 1e300, "holiday": False, "origin": "EWR"}
        assert decode_good(FLIGHTS, event, dtype="float64").X[0, 0] == 1e300
        columns, rejected = decode(FLIGHTS, event, dtype="float32")
        assert len(columns.rows) == 0
        assert "`delay`" in rejected[0].detail
        assert "float32" in rejected[0].detail

    def test_sum_beyond_float64_is_no_reason_to_reject(self) -> None:
        assert decode_good(EventFormat(array="x", dim=2), {"x": [1.7e308, 1.7e308]}).X.tolist() == [[1.7e308, 1.7e308]]

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_matrix_has_the_dtype_and_may_be_written_to(self, dtype: str) -> None:
        for form, x in ((EventFormat(array="x", dim=1), [1.0]), (EventFormat(encoding="msgpack", array="x", dim=1), bytes(4))):
            X = decode_good(form, {"x": x}, dtype=dtype).X
            assert X.dtype == dtype
            assert X.flags.writeable
            assert X.flags.c_contiguous


class TestLabels:
    def targets(self, form: EventFormat, *labels: object) -> tuple[list[float], list[Label | None]]:
        events = decode_good(form, *({"x": [0], form.label: label} for label in labels))
        return events.y.tolist(), list(events.labels)

    @pytest.mark.parametrize("task", ["binary", "ranking"])
    def test_binary_labels_by_default(self, task: Any) -> None:
        y, labels = self.targets(EventFormat(task=task, array="x", dim=1), -1, 0, False, 1, True, 1.0)
        assert y == [-1, -1, -1, 1, 1, 1]
        assert [repr(label) for label in labels] == ["-1", "0", "False", "1", "True", "1.0"]

    def test_binary_labels_that_the_format_names(self) -> None:
        form = EventFormat(array="x", dim=1, labels=("no", "yes"), label="bought")
        assert self.targets(form, "yes", "no") == ([1, -1], ["yes", "no"])
        columns, rejected = decode(form, {"x": [0], "bought": 1})
        assert len(columns.rows) == 0
        assert rejected[0] == (0, "label", "field `bought` = 1: expected 'no' or 'yes'")

    @pytest.mark.parametrize("task", ["binary", "ranking", "regression", "multiclass"])
    def test_missing_or_null_label_is_kept_as_none(self, task: Any) -> None:
        events = decode_good(EventFormat(task=task, array="x", dim=1), {"x": [0]}, {"x": [0], "label": None})
        assert np.isnan(events.y).all()
        assert list(events.labels) == [None, None]

    def test_regression_targets(self) -> None:
        form = EventFormat(task="regression", array="x", dim=1)
        assert self.targets(form, 3, -2.5) == ([3.0, -2.5], [3.0, -2.5])
        assert [reason(form, {"x": [0], "label": label}) for label in (True, "3", [3])] == ["label"] * 3

    def test_regression_target_that_is_not_finite(self) -> None:
        form = EventFormat(task="regression", encoding="msgpack", array="x", dim=1)
        assert [reason(form, {"x": [0], "label": label}) for label in (np.nan, np.inf)] == ["label"] * 2

    def test_classes_are_integers_booleans_and_strings(self) -> None:
        _, labels = self.targets(EventFormat(task="multiclass", array="x", dim=1), 3, 3.0, True, "three", -(2**63))
        assert [repr(label) for label in labels] == ["3", "3", "True", "'three'", str(-(2**63))]

    @pytest.mark.parametrize("label", [1.5, 1e19, 2**64, "x" * 257, [1]])
    def test_what_is_no_class(self, label: object) -> None:
        assert reason(EventFormat(task="multiclass", array="x", dim=1), {"x": [0], "label": label}) == Reason.LABEL


class TestKeysIdsTimes:
    def test_key_from_a_field_as_text(self) -> None:
        form = EventFormat(key="user", array="x", dim=1)
        events = decode_good(form, *({"user": user, "x": [0]} for user in ("ada", 7, True)), keys=[b"a", None, b"c"])
        assert events.keys == ["ada", "7", "true"]

    def test_key_from_the_record(self) -> None:
        events = decode_good(EventFormat(array="x", dim=1), *[{"x": [0]}] * 4, keys=["zoë".encode(), None, b"", b"\xff\x00"])
        assert events.keys == ["zoë", "", "", "0xff00"]

    def test_record_key_too_long(self) -> None:
        columns, rejected = decode(EventFormat(array="x", dim=1), {"x": [0]}, {"x": [1]}, keys=[b"k" * 513, b"k"])
        assert columns.X.tolist() == [[1.0]]
        assert [(row, why) for row, why, _ in rejected] == [(0, "key")]

    def test_ids_as_published(self) -> None:
        form = EventFormat(id="id", array="x", dim=1)
        assert decode_good(form, {"id": "a", "x": [0]}, {"id": 2, "x": [0]}, {"x": [0]}).ids == ["a", 2, None]

    def test_one_field_may_be_id_key_and_category(self) -> None:
        form = EventFormat(id="user", key="user", categorical={"user": ("ada", "bob")})
        events = decode_good(form, {"user": "bob"})
        assert (events.ids, events.keys, events.X.tolist()) == (["bob"], ["bob"], [[0.0, 1.0]])
        assert reason(form, {}) == Reason.KEY

    def test_times_are_seconds_or_rfc_3339(self) -> None:
        form = EventFormat(time="at", array="x", dim=1)
        times = (1_357_034_400, 0.25, "2013-01-01T10:00:00Z", "2013-01-01T11:00:00.5+01:00")
        assert decode_good(form, *({"at": at, "x": [0]} for at in times)).times.tolist() == [1357034400, 0.25, 1357034400, 1357034400.5]

    def test_time_of_the_record_where_the_format_names_no_field(self) -> None:
        assert decode_good(ARRAY, good_array()).times.tolist() == [1.5]

    def test_time_that_is_not_finite(self) -> None:
        form = EventFormat(encoding="msgpack", time="at", array="x", dim=1)
        assert [reason(form, {"at": at, "x": [0]}) for at in (np.nan, np.inf)] == ["time"] * 2


@pytest.mark.parametrize(
    ("form", "broken"),
    [pytest.param(form, broken, id=broken.name) for form, table in ((NAMED, BROKEN_NAMED), (ARRAY, BROKEN_ARRAY)) for broken in table],
)
def test_broken_event_between_good_ones(form: EventFormat, broken: BrokenEvent) -> None:
    good = [json.dumps(good_named(i) if form is NAMED else good_array(i)).encode() for i in range(2)]
    decoder = Decoder(form, "float32")
    alone, _ = decoder.decode(good, [None] * 2, [0.0] * 2)
    columns, rejected = decoder.decode([good[0], broken.value, good[1]], [None] * 3, [0.0] * 3)
    assert [(row, why) for row, why, _ in rejected] == [(1, broken.reason)]
    assert rejected[0].detail.isprintable()
    assert len(rejected[0].detail) < 250
    assert columns.rows.tolist() == [0, 2]
    assert columns.X.tobytes() == alone.X.tobytes()
    assert (columns.ids, columns.keys, columns.labels) == (alone.ids, alone.keys, alone.labels)


def test_broken_events_are_of_many_kinds() -> None:
    for table in (BROKEN_NAMED, BROKEN_ARRAY):
        assert len({broken.name for broken in table}) == len(table) >= 30


def test_batch_without_events() -> None:
    for form in (NAMED, ARRAY):
        columns, rejected = Decoder(form, "float32").decode([None], [None], [0.0])
        assert columns.X.shape == (0, Decoder(form, "float32").dim)
        assert [why.reason for why in rejected] == ["empty"]


def test_detail_names_field_value_and_what_was_expected() -> None:
    _, rejected = decode(FLIGHTS, {"delay": "12 min", "holiday": False, "origin": "EWR"})
    assert rejected[0].detail == 'field `delay` = "12 min": Expected `float`, got `str`'


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (EventFormat(), "names no features"),
        (EventFormat(array="x"), "needs `dim`"),
        (EventFormat(encoding="msgpack", array="x", dim=0), "needs `dim`"),
        (EventFormat(array="x", dim=2, numeric=("a",)), "not both"),
        (EventFormat(numeric=("a", "a")), "'a' is used as features and as features"),
        (EventFormat(numeric=("label",)), "'label' is used as features and as label"),
        (EventFormat(key="a", numeric=("a",)), "'a' is used as key and as features"),
        (EventFormat(categorical={"c": ()}), "vocabulary"),
        (EventFormat(categorical={"c": ("a", "a")}), "vocabulary"),
        (EventFormat(categorical={"c": 0}), "hash buckets"),
        (EventFormat(numeric=("a",), labels=("no",)), "two different"),
        (EventFormat(numeric=("a",), labels=(1, True)), "two different"),
        (EventFormat(numeric=('a"',)), "must not contain"),
    ],
)
def test_format_that_contradicts_itself(form: EventFormat, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Decoder(form, "float32")
