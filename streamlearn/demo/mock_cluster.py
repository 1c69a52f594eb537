"""A process that holds librdkafka's mock cluster until it is ended: `python -m streamlearn.demo.mock_cluster` prints its address."""

import signal
import sys

from confluent_kafka import Producer


def main() -> None:
    # The client ignores bootstrap.servers and starts the cluster instead, on free loopback ports.
    producer = Producer({"bootstrap.servers": "127.0.0.1", "test.mock.num.brokers": 1, "log_level": 0})
    [broker] = producer.list_topics(timeout=10).brokers.values()
    sys.stdout.write(f"{broker.host}:{broker.port}\n")
    sys.stdout.flush()
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
