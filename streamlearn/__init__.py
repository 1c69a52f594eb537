"""streamlearn: online kernel learning next to Apache Kafka."""

from importlib.metadata import version

__version__ = version("streamlearn")
