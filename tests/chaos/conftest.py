"""`pytest tests/chaos --long` runs the long schedule as well."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also the long chaos schedule: at least 200 kills")
