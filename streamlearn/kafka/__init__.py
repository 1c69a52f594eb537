"""Kafka as bytes, offsets and topics: nothing in here knows learners or the configuration model."""
