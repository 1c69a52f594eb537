"""What goes wrong when people handle models."""


class ModelsError(Exception):
    """The models cannot be read or changed as asked; the text names the partition, key or file, and the remedy."""
