"""Online learners of five papers, one file per family. Start at protocol.py; registry.py lists them all."""
