"""The Faust application: the only place where Kafka and the learners meet. worker.py is the entry, loop.py the exactly-once loop."""
