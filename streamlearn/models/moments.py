"""Which checkpoint of each partition people mean: by number, by how far back, or by time."""

from dataclasses import dataclass
from datetime import UTC, datetime

from streamlearn.checkpoint.marker import Marker
from streamlearn.models.errors import ModelsError
from streamlearn.models.listing import Contents


@dataclass(frozen=True)
class Moment:
    """A point in the history of a stream's models; without any of these, the newest checkpoint.

    checkpoint: its number; every partition counts for itself. back: so many checkpoints before the newest. time: the newest one that is
    not later, seconds since 1970.
    """

    checkpoint: int | None = None
    back: int | None = None
    time: float | None = None

    def marker(self, contents: Contents) -> Marker:
        """The checkpoint of a partition at this moment. Raises ModelsError when the topic does not have it."""
        newest = contents.newest
        if newest is None:
            raise ModelsError(f"partition {contents.partition} has no checkpoint yet")
        wanted = self.checkpoint if self.checkpoint is not None else newest.checkpoint - (self.back or 0)
        if self.time is not None:
            wanted = max((c for c, marker in contents.markers.items() if marker.time <= self.time), default=0)
        if wanted not in contents.markers:
            raise ModelsError(f"partition {contents.partition} has no such checkpoint; it has {_listed(contents)}")
        return contents.markers[wanted]


def parse_time(text: str) -> float:
    """Seconds since 1970 of an ISO 8601 time, in the local zone unless it names one. Raises ModelsError."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError as error:
        raise ModelsError(f"{text!r} is not a time like 2026-01-31T12:00 or 2026-01-31T12:00:00+01:00") from error


def show_time(time: float) -> str:
    """ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="seconds")


def _listed(contents: Contents) -> str:
    return ", ".join(f"{marker.checkpoint} ({show_time(marker.time)})" for marker in contents.kept)
