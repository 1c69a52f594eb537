"""What can be wrong with a checkpoint."""

from typing import Self


class CheckpointError(Exception):
    """A checkpoint cannot be written or read. The text says what is wrong, and where once a reader has added the place."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.place: tuple[str, int, int] | None = None

    def at(self, topic: str, partition: int, offset: int) -> Self:
        """The same error with the place of the record."""
        self.place = (topic, partition, offset)
        return self

    def __str__(self) -> str:
        if self.place is None:
            return self.problem
        topic, partition, offset = self.place
        return f"{topic}, partition {partition}, offset {offset}: {self.problem}"


class MismatchError(CheckpointError):
    """The checkpoint is sound but was written by another learner or other hyper-parameters than those configured."""
