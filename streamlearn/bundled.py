"""The example that ships with the package: flight events and the configuration that learns from them."""

from importlib.resources import files
from pathlib import Path

FLIGHTS = Path(str(files("streamlearn"))) / "data" / "flights.csv.xz"
FLIGHTS_CONFIG = FLIGHTS.with_name("flights.toml")
TEMPLATE = FLIGHTS.with_name("template.toml")  # what `streamlearn init` writes
NAME = "flights"  # stands for FLIGHTS wherever a command takes a FILE


def event_file(name: str) -> Path:
    """The file that a command's FILE means."""
    return FLIGHTS if name == NAME else Path(name)
