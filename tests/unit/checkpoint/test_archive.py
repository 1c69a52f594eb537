"""Models as files: out, in, into another processor, and files that are not right."""

import io
from pathlib import Path

import pytest
from checkpoints import checkpoint, events, models, part, restored, spec_of

from streamlearn.checkpoint.archive import ArchiveWriter, adopt, export, read_archive, restore
from streamlearn.checkpoint.errors import CheckpointError, MismatchError
from streamlearn.checkpoint.snapshot import Checkpointer
from streamlearn.learners.fourier import Fogd
from streamlearn.learners.protocol import Task
from streamlearn.learners.unbudgeted import Ogd
from streamlearn.processor import ModelSpec, Processor


def learned(spec: ModelSpec, seed: int = 1, count: int = 40) -> Processor:
    processor = Processor(spec)
    processor.process(events(count, spec.task, seed=seed))
    return processor


def archive_of(*processors: Processor, keys: list[str] | None = None) -> bytes:
    file = io.BytesIO()
    archive = ArchiveWriter(file)
    for processor in processors:
        records = checkpoint(Checkpointer(processor), offset=40)
        export(archive, *restored(records, processor.spec), keys)
    archive.close()
    return file.getvalue()


def test_partitions_go_out_and_come_back(tmp_path: Path) -> None:
    spec = spec_of(Ogd(), Task.MULTICLASS)
    first, second = learned(spec, 1), learned(spec, 2)
    path = tmp_path / "models"
    path.write_bytes(archive_of(first, second))
    with path.open("rb") as file:
        back = list(restore(file, spec))
    assert [models(processor) for processor, _ in back] == [models(first), models(second)]
    assert [processor.classes for processor, _ in back] == [first.classes, second.classes]
    assert [marker.offset for _, marker in back] == [40, 40]


def test_some_keys_go_out() -> None:
    processor = learned(spec_of())
    ((back, marker),) = restore(io.BytesIO(archive_of(processor, keys=["key/1", "key/3"])), processor.spec)
    assert models(back) == {key: model for key, model in models(processor).items() if key in ("key/1", "key/3")}
    assert marker.models == 2


def test_a_key_without_a_model_is_named() -> None:
    with pytest.raises(KeyError, match="nobody"):
        archive_of(learned(spec_of()), keys=["key/1", "nobody"])


def test_every_cut_file_is_truncated() -> None:
    whole = archive_of(learned(spec_of(), count=6))
    for length in range(len(whole)):
        with pytest.raises(CheckpointError, match="truncated" if length >= 8 else "not a file of models"):
            list(read_archive(io.BytesIO(whole[:length])))


def test_foreign_newer_and_damaged_files_are_refused() -> None:
    whole = archive_of(learned(spec_of()))
    with pytest.raises(CheckpointError, match="not a file of models: it starts with b'PK"):
        list(read_archive(io.BytesIO(b"PK\x03\x04" + bytes(100))))
    with pytest.raises(CheckpointError, match="file format 2, this program reads file format 1"):
        list(read_archive(io.BytesIO(whole[:4] + b"\x02" + whole[5:])))
    with pytest.raises(CheckpointError, match="goes on after its end"):
        list(read_archive(io.BytesIO(whole + b"x")))
    with pytest.raises(CheckpointError, match="checksum of the file's records"):
        list(read_archive(io.BytesIO(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])))
    with pytest.raises(CheckpointError, match="record 1 of the file claims"):
        list(read_archive(io.BytesIO(whole[:8] + b"\xff" * 8 + whole[16:])))


def test_another_learners_file_is_refused() -> None:
    with pytest.raises(MismatchError, match=r"learner\.eta is 0\.25 in the checkpoint and 0\.5 in the configuration"):
        written = archive_of(learned(spec_of(Fogd(frequencies=4, eta=0.25))))
        list(restore(io.BytesIO(written), spec_of(Fogd(frequencies=4, eta=0.5))))


def test_adopted_models_replace_those_of_the_same_key_and_are_written_next() -> None:
    spec = spec_of(Ogd(), Task.MULTICLASS)
    source, target, stream = Processor(spec), Processor(spec), events(100, spec.task)
    source.process(stream)
    target.process(part(stream, 0, 12))
    checkpointer = Checkpointer(target)
    before = checkpoint(checkpointer)
    kept, few_classes = models(target)["key/2"], len(target.classes)
    assert adopt(target, source, ["key/0", "key/1", "nobody"]) == 2
    assert target.classes == source.classes
    target_models, source_models = models(target), models(source)
    assert {key: target_models[key] for key in ("key/0", "key/1")} == {key: source_models[key] for key in ("key/0", "key/1")}
    assert len(target.classes) > few_classes
    assert target_models["key/2"]["support"] == kept["support"]
    after = checkpoint(checkpointer)
    assert len(after) == 3
    assert models(restored(before + after, spec)[0]) == target_models


def test_classes_that_are_numbered_differently_are_not_mixed() -> None:
    spec = spec_of(task=Task.MULTICLASS)
    with pytest.raises(CheckpointError, match="classes are numbered differently"):
        adopt(learned(spec, 2, count=60), learned(spec, 1, count=60))


def test_other_hyper_parameters_are_not_mixed() -> None:
    with pytest.raises(MismatchError, match=r"learner\.eta"):
        adopt(learned(spec_of()), learned(spec_of(Fogd(frequencies=4, eta=0.5))))
