"""`python -m streamlearn`, and what the `streamlearn` script calls."""

import signal
import sys


def main() -> None:
    """Entry point. Ctrl-C while the modules load, which takes a moment, is no reason for a traceback."""
    if sys.argv[1:2] == ["worker"]:  # until Faust listens: a worker that has not begun has nothing to finish
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        from streamlearn.cli import main as run  # noqa: PLC0415

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
