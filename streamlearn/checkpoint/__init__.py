"""Checkpoints as bytes: records of models and markers, written from a processor and read back. Knows nothing of Kafka."""
