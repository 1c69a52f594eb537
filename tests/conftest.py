"""Fixtures of all tests: a real Apache Kafka, and names that no other test uses."""

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from streamlearn.kafka.local_broker import LocalBroker


@pytest.fixture(scope="session")
def broker() -> Iterator[LocalBroker]:
    """The session's broker, started when the first test asks for it. Shared: a test that stops or kills a broker starts its own.

    There is no fall-back and no skip: where no broker can run, the tests that need one fail with the reason.
    """
    with LocalBroker() as running:
        yield running


@pytest.fixture
def unique() -> Callable[[str], str]:
    """Makes a name (of a topic, group, stream ...) that only this test uses: `unique("events")` is `events-1f0c...`."""
    suffix = uuid4().hex[:12]
    return lambda name: f"{name}-{suffix}"


@pytest.fixture
def topic_name(unique: Callable[[str], str]) -> str:
    """The name of a topic that only this test uses; it does not exist yet."""
    return unique("topic")
