"""Pages that must keep up with the code."""

from pathlib import Path

import pytest

from streamlearn.learners.registry import LEARNERS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_is_on_the_page(name: str) -> None:
    assert f"`{name}`" in (DOCS / "learners.md").read_text()
