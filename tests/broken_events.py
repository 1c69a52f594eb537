"""Events that a stream must reject, each with its reason, for one format of named fields and one array format.

Unit tests decode them; the integration test publishes them to a real broker between good ones.
"""

import json
from typing import Any, NamedTuple

from streamlearn.events.columns import EventFormat
from streamlearn.events.fields import Reason

MAX_BYTES = 10_000

NAMED = EventFormat(
    id="id",
    key="carrier",
    time="time",
    label="late",
    numeric=("delay", "distance"),
    boolean=("holiday",),
    categorical={"origin": ("EWR", "JFK", "LGA"), "destination": 8},
    max_bytes=MAX_BYTES,
)
ARRAY = EventFormat(array="x", dim=4, max_bytes=MAX_BYTES)


class BrokenEvent(NamedTuple):
    """What is published, and the reason with which it must come out."""

    name: str
    value: bytes | None
    reason: Reason


def good_named(number: int = 0) -> dict[str, Any]:
    """A good event of the format NAMED; different numbers give different events."""
    return {
        "id": f"flight-{number}",
        "carrier": ("UA", "AA", "B6")[number % 3],
        "time": 1_357_034_400 + number,
        "late": number % 4 == 0,
        "delay": number % 60 - 7,
        "distance": 1400.5,
        "holiday": number % 2 == 0,
        "origin": ("EWR", "JFK", "LGA")[number % 3],
        "destination": f"D{number % 17}",
    }


def good_array(number: int = 0) -> dict[str, Any]:
    """A good event of the format ARRAY: a list, or a sparse map where the number is odd."""
    return {"label": number % 2, "x": [number, 0.5, -1, 0] if number % 2 == 0 else {"0": number, "3": 2.5}}


def _named(**changes: object) -> bytes:
    return json.dumps(good_named() | changes).encode()


def _array(x: object, **changes: object) -> bytes:
    return json.dumps(good_array() | {"x": x} | changes).encode()


def _without(event: dict[str, Any], name: str) -> bytes:
    return json.dumps({field: value for field, value in event.items() if field != name}).encode()


def _with_text(event: dict[str, Any], name: str, raw: bytes) -> bytes:
    """The event with a field's value replaced by bytes that json would not write."""
    return json.dumps(event | {name: "PLACE"}).encode().replace(b'"PLACE"', raw)


_GOOD = json.dumps(good_named()).encode()

NOT_AN_EVENT: tuple[BrokenEvent, ...] = (
    BrokenEvent("tombstone", None, Reason.EMPTY),
    BrokenEvent("no bytes", b"", Reason.EMPTY),
    BrokenEvent("white space", b" \n", Reason.MALFORMED),
    BrokenEvent("not JSON", b"delay=3;distance=4", Reason.MALFORMED),
    BrokenEvent("binary noise", bytes(range(256)), Reason.MALFORMED),
    BrokenEvent("truncated", _GOOD[:-10], Reason.MALFORMED),
    BrokenEvent("trailing garbage", _GOOD + b"}", Reason.MALFORMED),
    BrokenEvent("two events in one message", _GOOD + b"\n" + _GOOD, Reason.MALFORMED),
    BrokenEvent("opens a string that the next message would close", b'{"late": true, "note": "', Reason.MALFORMED),
    BrokenEvent("single quotes", b"{'delay': 3}", Reason.MALFORMED),
    BrokenEvent("trailing comma", _GOOD[:-1] + b",}", Reason.MALFORMED),
    BrokenEvent("an array of events", b"[" + _GOOD + b"]", Reason.MALFORMED),
    BrokenEvent("a number", b"42", Reason.MALFORMED),
    BrokenEvent("a string", b'"late"', Reason.MALFORMED),
    BrokenEvent("null", b"null", Reason.MALFORMED),
    BrokenEvent("UTF-16", _GOOD.decode().encode("utf-16"), Reason.MALFORMED),
    BrokenEvent("byte order mark", b"\xef\xbb\xbf" + _GOOD, Reason.MALFORMED),
    BrokenEvent("too deeply nested", b'{"more": ' + b"[" * 4000 + b"]" * 4000 + b"}", Reason.MALFORMED),
    BrokenEvent("oversized", b'{"note": "' + b"x" * MAX_BYTES + b'"}', Reason.OVERSIZED),
)

BROKEN_NAMED: tuple[BrokenEvent, ...] = (
    *NOT_AN_EVENT,
    BrokenEvent("empty object", b"{}", Reason.KEY),
    BrokenEvent("numeric field missing", _without(good_named(), "delay"), Reason.FEATURES),
    BrokenEvent("numeric field null", _named(delay=None), Reason.FEATURES),
    BrokenEvent("numeric field a string", _named(delay="12"), Reason.FEATURES),
    BrokenEvent("numeric field a boolean", _named(delay=True), Reason.FEATURES),
    BrokenEvent("numeric field a list", _named(delay=[12]), Reason.FEATURES),
    BrokenEvent("numeric field an object", _named(delay={"minutes": 12}), Reason.FEATURES),
    BrokenEvent("NaN, which is not JSON", _with_text(good_named(), "delay", b"NaN"), Reason.MALFORMED),
    BrokenEvent("Infinity, which is not JSON", _with_text(good_named(), "delay", b"-Infinity"), Reason.MALFORMED),
    BrokenEvent("number beyond float64", _with_text(good_named(), "delay", b"1e400"), Reason.FEATURES),
    BrokenEvent("number beyond float32", _named(delay=1e300), Reason.FEATURES),
    BrokenEvent("integer of 401 digits", _named(delay=10**400), Reason.FEATURES),
    BrokenEvent("boolean field a string", _named(holiday="true"), Reason.FEATURES),
    BrokenEvent("boolean field two", _named(holiday=2), Reason.FEATURES),
    BrokenEvent("boolean field missing", _without(good_named(), "holiday"), Reason.FEATURES),
    BrokenEvent("category null", _named(origin=None), Reason.FEATURES),
    BrokenEvent("category a fraction", _named(origin=1.5), Reason.FEATURES),
    BrokenEvent("category too long", _named(destination="D" * 513), Reason.FEATURES),
    BrokenEvent("category not UTF-8", _with_text(good_named(), "origin", b'"\xff\xfe"'), Reason.FEATURES),
    BrokenEvent("category half a surrogate pair", _with_text(good_named(), "origin", b'"\\ud800"'), Reason.MALFORMED),
    BrokenEvent("key missing", _without(good_named(), "carrier"), Reason.KEY),
    BrokenEvent("key null", _named(carrier=None), Reason.KEY),
    BrokenEvent("key empty", _named(carrier=""), Reason.KEY),
    BrokenEvent("key too long", _named(carrier="U" * 513), Reason.KEY),
    BrokenEvent("key an object", _named(carrier={"code": "UA"}), Reason.KEY),
    BrokenEvent("id too long", _named(id="1" * 513), Reason.ID),
    BrokenEvent("id a fraction", _named(id=1.5), Reason.ID),
    BrokenEvent("label a word", _named(late="perhaps"), Reason.LABEL),
    BrokenEvent("label two", _named(late=2), Reason.LABEL),
    BrokenEvent("label a fraction", _named(late=0.5), Reason.LABEL),
    BrokenEvent("label a list", _named(late=[True]), Reason.LABEL),
    BrokenEvent("label too long", _named(late="y" * 257), Reason.LABEL),
    BrokenEvent("time missing", _without(good_named(), "time"), Reason.TIME),
    BrokenEvent("time null", _named(time=None), Reason.TIME),
    BrokenEvent("time a word", _named(time="yesterday"), Reason.TIME),
    BrokenEvent("time without its offset from UTC", _named(time="2013-01-01T10:00:00"), Reason.TIME),
    BrokenEvent("time of no calendar", _named(time="2013-02-30T10:00:00Z"), Reason.TIME),
    BrokenEvent("time in milliseconds", _named(time=1_357_034_400_000), Reason.TIME),
)

BROKEN_ARRAY: tuple[BrokenEvent, ...] = (
    *NOT_AN_EVENT,
    BrokenEvent("array missing", b'{"label": 1}', Reason.FEATURES),
    BrokenEvent("array null", _array(None), Reason.FEATURES),
    BrokenEvent("array a number", _array(1.5), Reason.FEATURES),
    BrokenEvent("array a string", _array("AAAAAAAAAAAAAAAAAAAAAA=="), Reason.FEATURES),
    BrokenEvent("array empty", _array([]), Reason.FEATURES),
    BrokenEvent("array too short", _array([1, 2, 3]), Reason.FEATURES),
    BrokenEvent("array too long", _array([1, 2, 3, 4, 5]), Reason.FEATURES),
    BrokenEvent("array with null", _array([1, None, 3, 4]), Reason.FEATURES),
    BrokenEvent("array with a string", _array([1, "2", 3, 4]), Reason.FEATURES),
    BrokenEvent("array with a boolean", _array([1, True, 3, 4]), Reason.FEATURES),
    BrokenEvent("array nested", _array([[1, 2, 3, 4]]), Reason.FEATURES),
    BrokenEvent("array beyond float32", _array([1, 2, 3, -1e39]), Reason.FEATURES),
    BrokenEvent("array beyond float64", _with_text(good_array(), "x", b"[1, 2, 3, 1e999]"), Reason.FEATURES),
    BrokenEvent("sparse index too high", _array({"4": 1.0}), Reason.FEATURES),
    BrokenEvent("sparse index negative", _array({"-1": 1.0}), Reason.FEATURES),
    BrokenEvent("sparse index a word", _array({"delay": 1.0}), Reason.FEATURES),
    BrokenEvent("sparse index a fraction", _array({"1.5": 1.0}), Reason.FEATURES),
    BrokenEvent("sparse index of 30 digits", _array({"9" * 30: 1.0}), Reason.FEATURES),
    BrokenEvent("sparse value null", _array({"1": None}), Reason.FEATURES),
    BrokenEvent("sparse value beyond float32", _array({"1": 1e300}), Reason.FEATURES),
    BrokenEvent("label a word", _array([1, 2, 3, 4], label="up"), Reason.LABEL),
    BrokenEvent("label an object", _array([1, 2, 3, 4], label={"up": True}), Reason.LABEL),
)
