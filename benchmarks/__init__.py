"""Programs that measure streamlearn against its bounds and its peers. `python -m benchmarks --quick`; how to read it: README.md."""

import os

# One core is measured. Threads that wait for the next matrix product would be charged to whatever is measured after it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
