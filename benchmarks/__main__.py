"""Run benchmarks and print one table of targets and verdicts: `python -m benchmarks [--quick] [NAME ...]`.

Each also keeps its page under results/ (the short form under results/quick/, which is not committed).
"""

import argparse
import importlib
import sys
import time

from rich.console import Console
from rich.table import Table

from benchmarks.report import HEADER, Report, Row, write

NAMES = ("limits", "kernels", "throughput", "peers", "latency", "startup", "scaling", "checkpoints", "soak")


def main() -> int:
    """Exit code 0 when all ran, met or missed; 1 when one failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(NAMES)}; without one, all")
    parser.add_argument("--quick", action="store_true", help="short form: smaller streams, fewer repeats")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in NAMES:
            parser.error(f"there is no benchmark {name!r}; there are {', '.join(NAMES)}")
    rows: list[Row] = []
    failed: list[str] = []
    for name in arguments.names or NAMES:
        began = time.monotonic()
        try:
            report = _run(name, arguments.quick)
        except Exception as error:  # noqa: BLE001 - the others still run; the exit code tells
            failed.append(f"{name}: {error}")
            continue
        page = write(report, arguments.quick)
        print(f"{name}: {time.monotonic() - began:.0f} s, {page}", file=sys.stderr)
        rows += report.rows
    _print(rows)
    for failure in failed:
        print(f"FAILED {failure}", file=sys.stderr)
    return 1 if failed else 0


def _run(name: str, quick: bool) -> Report:
    """Imported only when it runs: programs load libraries that others do without."""
    report: Report = importlib.import_module(f"benchmarks.{name}").report(quick)
    return report


def _print(rows: list[Row]) -> None:
    table = Table(*HEADER, title="targets")
    for row in rows:
        table.add_row(*row.cells(), style=None if row.met else "yellow")
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
