"""Programs that measure streamlearn against its bounds and its peers. `python -m benchmarks --quick`; how to read it: README.md."""
