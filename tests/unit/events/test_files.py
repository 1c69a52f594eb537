import gzip
import json
import lzma
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from streamlearn.events.columns import EventFormat
from streamlearn.events.decode import Decoder
from streamlearn.events.encode import event_encoder
from streamlearn.events.files import Event, EventFile, FileError, load_arrays


def write(path: Path, content: str | bytes) -> Path:
    data = content.encode() if isinstance(content, str) else content
    if path.suffix == ".gz":
        data = gzip.compress(data)
    elif path.suffix == ".xz":
        data = lzma.compress(data)
    path.write_bytes(data)
    return path


def read(path: Path) -> list[Event]:
    with EventFile(path) as events:
        return list(events)


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_csv_cells_are_numbers_booleans_or_text_and_empty_ones_are_left_out(tmp_path: Path, suffix: str) -> None:
    path = write(
        tmp_path / f"flights.csv{suffix}", '\ufeffdelay,late,origin,note\r\n-3,true,JFK,\r\n1.5e1,FALSE,,"a, b"\r\n\r\n,,NA,nan\r\n'
    )
    assert read(path) == [
        {"delay": -3, "late": True, "origin": "JFK"},
        {"delay": 15.0, "late": False, "note": "a, b"},
        {"origin": "NA", "note": "nan"},
    ]
    assert [type(event.get("delay")) for event in read(path)] == [int, float, type(None)]


def test_quoted_cells_may_span_lines(tmp_path: Path) -> None:
    assert read(write(tmp_path / "a.csv", 'a,b\n"one\ntwo",2\n3,4\n')) == [{"a": "one\ntwo", "b": 2}, {"a": 3, "b": 4}]


def test_tsv(tmp_path: Path) -> None:
    assert read(write(tmp_path / "a.tsv", "a\tb\n1\tx,y\n")) == [{"a": 1, "b": "x,y"}]


def test_json_lines(tmp_path: Path) -> None:
    assert read(write(tmp_path / "a.jsonl", '{"a": 1, "x": [1.5, 2]}\n\n{"a": null}')) == [{"a": 1, "x": [1.5, 2]}, {"a": None}]


def test_libsvm_indices_count_from_zero_afterwards(tmp_path: Path) -> None:
    path = write(tmp_path / "a.libsvm", "-1 1:0.5 3:1 \n+1 2:-2e-1 # a comment\n# nothing\n2.5\n")
    assert read(path) == [{"label": -1, "x": {0: 0.5, 2: 1.0}}, {"label": 1, "x": {1: -0.2}}, {"label": 2.5, "x": {}}]
    assert json.loads(event_encoder("json")(read(path)[0])) == {"label": -1, "x": {"0": 0.5, "2": 1.0}}
    X, y, permutations = load_arrays(path, dim=4)
    assert X.tolist() == [[0.5, 0, 1, 0], [0, -0.2, 0, 0], [0, 0, 0, 0]]
    assert y.tolist() == [-1, 1, 2.5]
    assert permutations is None
    assert load_arrays(path).X.shape == (3, 3)


def test_libsvm_numbers_are_read_to_the_last_bit(tmp_path: Path) -> None:
    numbers = np.random.default_rng(1).standard_normal(200)
    path = write(tmp_path / "a.libsvm", "".join(f"0 1:{number!r}\n" for number in numbers.tolist()))
    assert load_arrays(path).X[:, 0].tobytes() == numbers.tobytes()


@pytest.mark.parametrize("encoding", ["json", "msgpack"])
def test_events_of_a_file_decode_to_its_arrays(tmp_path: Path, encoding: Literal["json", "msgpack"]) -> None:
    rng = np.random.default_rng(2)
    lines = [f"{rng.choice([-1, 1])} " + " ".join(f"{index}:{float(rng.normal())!r}" for index in (1, 4, 9)) for _ in range(20)]
    path = write(tmp_path / "a.libsvm.gz", "\n".join(lines))
    form = EventFormat(encoding=encoding, array="x", dim=9)
    values = list(map(event_encoder(encoding), read(path)))
    events, rejected = Decoder(form, np.float64).decode(values, [None] * len(values), [0.0] * len(values))
    X, y, _ = load_arrays(path)
    assert rejected == []
    assert events.X.tobytes() == X.tobytes()
    assert events.y.tobytes() == y.tobytes()


def test_npz(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, X=np.array([[1, 2], [3, 4.5]]), y=np.array([-1.0, 0.5]), permutations=np.array([[1, 0]], np.int32))
    X, y, permutations = load_arrays(path)
    assert (X.tolist(), y.tolist()) == ([[1, 2], [3, 4.5]], [-1, 0.5])
    assert permutations is not None
    assert permutations.tolist() == [[1, 0]]
    assert read(path) == [{"label": -1, "x": [1, 2]}, {"label": 0.5, "x": [3, 4.5]}]


def test_table_as_arrays(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv.xz", "a,b,class\n1,2.5,0\n3,4,1\n")
    X, y, _ = load_arrays(path)
    assert (X.tolist(), y.tolist()) == ([[1, 2.5], [3, 4]], [0, 1])
    X, y, _ = load_arrays(path, label="a")
    assert (X.tolist(), y.tolist()) == ([[2.5, 0], [4, 1]], [1, 3])


def test_position_runs_from_nothing_to_the_size_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl.gz", "".join(f'{{"a": {number!r}}}\n' for number in np.random.default_rng(1).random(20_000).tolist()))
    with EventFile(path) as events:
        positions = [events.position, *(events.position for _ in events)]
        assert positions[0] == 0
        assert positions == sorted(positions)
        assert 0 < positions[100] < events.size == positions[-1] == path.stat().st_size


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", "line 1: the first line must name the columns"),
        ("a.csv", "a,a\n1,2\n", "line 1: the first line must name the columns"),
        ("a.csv", "a,b\n1,2\n3\n", "line 3: 1 cells, but the header names 2"),
        ("a.csv", 'a,b\n1,"2', "line 2: unexpected end of data"),
        ("a.csv", b"a,b\n1,2\n\xff,3\n", "line 3: 'utf-8' codec"),
        ("a.jsonl", '{"a": 1}\n{"a": }\n', "line 2: JSON is malformed"),
        ("a.jsonl", "[1]\n", "line 1: Expected `object`"),
        ("a.libsvm", "1 1:2\n1 a:3\n", "line 2: '1 a:3' is not"),
        ("a.libsvm", "1 1:2 3\n", "line 1"),
        ("a.libsvm", "3:4 1\n", "line 1"),
        ("a.libsvm", "1 2:3:4 5\n", "line 1"),
        ("a.libsvm", "1 1:nan\n", "line 1"),
        ("a.libsvm", "1 0:2\n", "line 1: index 0; LIBSVM indices count from 1"),
        ("a.npz", "X", "not a zip file"),
        ("a.txt", "1\n", "the name must end in one of .csv, .tsv"),
        ("a.npz.gz", "1\n", "the name must end in one of .csv, .tsv"),
    ],
)
def test_errors_name_the_file_the_line_and_the_problem(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(FileError) as error:
        read(path)
    assert str(error.value).startswith(str(path))
    assert message in str(error.value)


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_damaged_compression(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"a.jsonl{suffix}", '{"a": 1}\n' * 1000)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(FileError, match=r"a\.jsonl"):
        read(path)
    path.write_bytes(b"not compressed at all")
    with pytest.raises(FileError, match="after line 0"):
        read(path)


def test_arrays_must_be_numbers(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="line 3: could not convert"):
        load_arrays(write(tmp_path / "a.csv", "a,b\n1,2\nx,2\n"))
    with pytest.raises(FileError, match="no column 'c'; the columns are a, b"):
        load_arrays(tmp_path / "a.csv", label="c")
    with pytest.raises(FileError, match="index 3 is beyond dim = 2"):
        load_arrays(write(tmp_path / "a.libsvm", "1 3:1\n"), dim=2)
    with pytest.raises(FileError, match="ends in"):
        load_arrays(write(tmp_path / "a.jsonl", "{}\n"))
    np.savez(tmp_path / "a.npz", X=np.zeros((2, 2)), y=np.zeros(3))
    with pytest.raises(FileError, match=r"X has shape \(2, 2\)"):
        load_arrays(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", X=np.array([[{}]], object), y=np.zeros(1))
    with pytest.raises(FileError, match="pickle"):
        load_arrays(tmp_path / "b.npz")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        EventFile(tmp_path / "none.csv")
