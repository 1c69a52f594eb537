"""The online tables of the five papers beside ours: `python -m benchmarks.paper_tables --help`."""
