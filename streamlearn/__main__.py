"""`python -m streamlearn`, and what the `streamlearn` script calls."""

import sys


def main() -> None:
    """Entry point. Ctrl-C while the modules load, which takes a moment, is no reason for a traceback."""
    try:
        from streamlearn.cli import main as run  # noqa: PLC0415

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
