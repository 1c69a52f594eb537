"""Wire formats of events and predictions, to and from columns. Knows bytes and arrays, nothing of learners or Kafka."""
