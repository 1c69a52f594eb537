"""The online tables of the five papers on the data that we have: ours beside the published figures.

    python -m benchmarks.paper_tables tune [--data FOLDER] [--only TEXT]     hyper-parameters that the papers do not print
    python -m benchmarks.paper_tables run [--minutes M] [--cell-seconds S] [--only TEXT]
    python -m benchmarks.paper_tables scan [--minutes M] [--cell-seconds S] [--only TEXT]
    python -m benchmarks.paper_tables write                                  results/paper_tables.md

`published.csv` has the published figures, with what the papers and their authors' programs say about hyper-parameters and which of
our data sets stands for theirs; runs that a later paper reprints are in it once. `tune` searches the papers' grids on a tenth of the
rows (at least 1000, at most 4000; for the first paper, which names no subset, up to 10,000) and keeps what it chose in
`parameters.toml`. `run` keeps every finished run in `results/paper_runs.jsonl` and goes on from there; smallest data first.
`scan` makes one run of every point of the grid for the rows that are then more than two standard deviations away and whose
hyper-parameters were searched: is the published figure on the paper's own grid?
"""

import argparse
import time
from pathlib import Path

import numpy as np

from benchmarks.datasets import DEFAULT_FOLDER
from benchmarks.paper_tables.page import page
from benchmarks.paper_tables.published import read_published
from benchmarks.paper_tables.runs import RUNS, Data, key_of, read_runs, run_row
from benchmarks.paper_tables.tuning import grid, read_parameters, scan, searched_for, table_of, tune, write_parameters
from benchmarks.paper_tables.verdicts import SETTLED, result_of

PAGE = Path(__file__).parents[1] / "results" / "paper_tables.md"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.paper_tables", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=("tune", "run", "scan", "write"))
    parser.add_argument("--data", type=Path, default=DEFAULT_FOLDER)
    parser.add_argument("--only", default="", help="rows whose name, PAPER/DATA/ALGORITHM, contains this text")
    parser.add_argument("--minutes", type=float, default=np.inf, help="start no further row after so long")
    parser.add_argument("--cell-seconds", type=float, default=np.inf, help="start no further run of a row after so long")
    options = parser.parse_args()
    rows, chosen, runs = [row for row in read_published() if options.only in row.name], read_parameters(), read_runs()
    if options.what == "write":
        if not runs:
            parser.error(f"there are no runs in {RUNS}; `run` makes them")
        PAGE.write_text(page([result_of(row, chosen, runs) for row in read_published()]), encoding="utf-8")
        return
    data, end = Data(options.data), time.monotonic() + 60 * options.minutes
    for number, row in enumerate(data.smallest_first(rows), 1):
        if time.monotonic() > end:
            return
        stop = min(end, time.monotonic() + options.cell_seconds)
        progress = f"{number}/{len(rows)} {row.name}"
        if options.what == "tune" and grid(row) and row.name not in chosen:
            chosen[row.name] = tune(row, data.of(row))
            write_parameters(chosen)
            print(progress, chosen[row.name], flush=True)
        elif options.what == "run" and (searched := searched_for(row, chosen)) is not None:
            arrays = data.of(row)
            table = table_of(row, searched, *arrays.X.shape)
            done = runs.setdefault(key_of(row, table), {})
            run_row(row, arrays, table, done, stop)
            print(
                progress, f"{np.mean([run.figure for run in done.values()]):.4f}", f"published {row.mean}", f"{len(done)} runs", flush=True
            )
        elif options.what == "scan" and (result := result_of(row, chosen, runs)).searched and result.verdict not in SETTLED:
            scan(row, data.of(row), runs, stop)
            print(progress, result_of(row, chosen, runs).nearest, f"published {row.mean}", flush=True)


if __name__ == "__main__":
    main()
