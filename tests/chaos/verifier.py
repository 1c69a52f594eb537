"""Judges what workers wrote, from the topics alone: everything is computed again from the input by the plain processor and compared."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise

from chaos.changes import Name, Step, Story, read_markers, read_outcomes, read_requests, tell
from confluent_kafka import Message
from recompute import Expected, Published, decoded, offset_of, recompute
from workers import read_topic

from streamlearn.checkpoint.restore import Restorer
from streamlearn.config import Config, StreamConfig
from streamlearn.processor import Processor

_FIGURES = ("events", "dead_letters", "models", "done", "refused", "unanswered")


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Counts over all partitions. Everything but the first six must be 0."""

    events: int = 0
    dead_letters: int = 0
    models: int = 0
    done: int = 0  # changes of models that were asked for, by what a worker answered
    refused: int = 0
    unanswered: int = 0
    lost: int = 0  # events without a prediction
    doubled: int = 0  # predictions beyond the first of an event
    differing: int = 0  # predictions that differ from the uninterrupted computation in any bit
    disordered: int = 0  # partitions whose predictions are not in the order of their events
    wrong_dead_letters: int = 0  # missing, doubled, unexpected or not the original bytes
    differing_models: int = 0  # models that, restored and replayed, differ in any bit
    pending: int = 0  # events that the checkpoint of a partition claims and the topic lacks
    wrong_changes: int = 0  # done and not there, refused and there, there twice, or asked for by nobody

    def __add__(self, other: "Verdict") -> "Verdict":
        return Verdict(**{field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(self)})

    @property
    def problems(self) -> dict[str, int]:
        """What should be 0 and is not."""
        names = [field.name for field in fields(self) if field.name not in _FIGURES]
        return {name: count for name in names if (count := getattr(self, name))}


def judge(bootstrap: str, config: Config) -> Verdict:
    """Judge all streams of an application whose workers have processed all their input."""
    [control] = read_topic(bootstrap, config.control_topic).values()
    return sum((_judge_stream(bootstrap, stream, config.worker.dtype, control) for stream in config.streams), Verdict())


def _judge_stream(bootstrap: str, stream: StreamConfig, dtype: str, control: Sequence[Message]) -> Verdict:
    events, predictions, models = (read_topic(bootstrap, topic) for topic in (stream.input_topic, stream.output_topic, stream.models_topic))
    letters = [message for partition in read_topic(bootstrap, stream.dead_letter_topic).values() for message in partition]
    requests = {name: request for name, request in read_requests(control).items() if request.stream == stream.name}
    stories = {
        number: tell(read_markers(records), {id_: request for (id_, partition), request in requests.items() if partition == number})
        for number, records in models.items()
    }
    expected = {number: _recompute(stream, dtype, messages, stories[number]) for number, messages in events.items()}
    verdict = Verdict(wrong_dead_letters=_wrong_letters(letters, expected, events), dead_letters=len(letters))
    verdict += _judge_changes(list(requests), read_outcomes(control), stories)
    for number, messages in events.items():
        verdict += _judge_predictions(decoded(predictions[number]), expected[number])
        verdict += _judge_models(stream, dtype, models[number], messages, expected[number].processor)
    return verdict


def _recompute(stream: StreamConfig, dtype: str, messages: Sequence[Message], story: Story) -> Expected:
    """What is expected of a partition whose models were changed in between."""
    assert [offset_of(message) for message in messages] == list(range(len(messages)))
    predictions: dict[int, Published] = {}
    rejected: dict[int, str] = {}
    for (start, steps), (stop, _) in pairwise([*story.chapters, (len(messages), ())]):
        part = recompute(stream, dtype, messages[start:stop], _models_after(stream, dtype, messages, steps))
        predictions |= part.predictions
        rejected |= part.rejected
    return Expected(predictions, rejected, part.processor)


def _models_after(stream: StreamConfig, dtype: str, messages: Sequence[Message], steps: Sequence[Step]) -> Processor:
    processor = recompute(stream, dtype, []).processor
    for step in steps:
        if isinstance(step, range):
            recompute(stream, dtype, messages[step.start : step.stop], processor)
        else:
            processor.router.release(key for key in step if key in processor.router)
    return processor


def _judge_changes(requests: Sequence[Name], outcomes: Mapping[Name, set[str]], stories: Mapping[int, Story]) -> Verdict:
    """Each request is followed once if a worker says so, never if it is only refused, and at most once if nobody lived to answer.

    A worker that was put out and does not know it yet may refuse what the next owner does.
    """
    wrong, answers = sum(story.unexplained for story in stories.values()), Counter[str]()
    for name, partition in requests:
        answer = min(outcomes.get((name, partition), {"unanswered"}))  # "done" before "refused"
        answers[answer] += 1
        wrong += stories[partition].followed[name] not in {"done": (1,), "refused": (0,), "unanswered": (0, 1)}[answer]
    return Verdict(wrong_changes=wrong, **answers)


def _judge_predictions(published: Sequence[Published], expected: Expected) -> Verdict:
    offsets = [prediction["offset"] for prediction in published]
    found = Counter(offsets)
    return Verdict(
        events=len(expected.predictions),
        lost=len(expected.predictions.keys() - found.keys()),
        doubled=sum(count - 1 for count in found.values()),
        differing=sum(prediction != expected.predictions.get(prediction["offset"]) for prediction in published),
        disordered=int(offsets != sorted(offsets)),
    )


def _wrong_letters(letters: Sequence[Message], expected: Mapping[int, Expected], events: Mapping[int, Sequence[Message]]) -> int:
    wanted = Counter(
        (number, offset_of(message), expected[number].rejected[offset_of(message)], message.value())
        for number, messages in events.items()
        for message in messages
        if offset_of(message) in expected[number].rejected
    )
    found = Counter(_letter(message) for message in letters)
    return ((wanted - found) + (found - wanted)).total()


def _letter(message: Message) -> tuple[int, int, str, bytes | None]:
    headers = {str(name): bytes(value or b"").decode() for name, value in message.headers() or []}  # type: ignore[str-unpack, arg-type]
    return int(headers["partition"]), int(headers["offset"]), headers["reason"], message.value()


def _judge_models(stream: StreamConfig, dtype: str, records: Sequence[Message], events: Sequence[Message], expected: Processor) -> Verdict:
    """Restore the last checkpoint, learn the events since then, and compare with the models of the uninterrupted computation."""
    restorer = Restorer(expected.spec, expected.pool.shared)
    for record in records:
        restorer.add(record.key(), record.value())
    marker = restorer.finish()
    processor, start = restorer.processor, marker.offset if marker else 0
    rest = [message for message in events if offset_of(message) >= start]
    recompute(stream, dtype, rest, processor)
    learned = {key: slot for key, slot in expected.router if expected.pool["learned"][slot]}
    differing = sum(not _same(processor, expected, key) for key in learned)
    unexpected = sum(key not in learned for key, slot in processor.router if processor.pool["learned"][slot])
    end = offset_of(events[-1]) + 1 if events else 0
    return Verdict(models=len(learned), differing_models=differing + unexpected, pending=max(0, start - end))


def _same(one: Processor, other: Processor, key: str) -> bool:
    if key not in one.router:
        return False
    ours, theirs = (processor.pool.read(processor.router.slot(key)) for processor in (one, other))
    return {name: array.tobytes() for name, array in ours.items()} == {name: array.tobytes() for name, array in theirs.items()}
