"""Fixtures of tests that run worker processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from workers import Workers


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    """Starts workers; those that are left are killed after the test."""
    with Workers(tmp_path) as started:
        yield started
