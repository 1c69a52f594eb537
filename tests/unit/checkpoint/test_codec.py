"""Records: splitting, joining, and every way in which they can be wrong."""

import itertools
import zlib

import msgspec
import pytest

from streamlearn.checkpoint.codec import (
    MAGIC,
    Chunk,
    Header,
    Joiner,
    Model,
    RecordName,
    decode,
    encode,
    model_key,
    tombstones,
)
from streamlearn.checkpoint.errors import CheckpointError

LIMIT = 600
NAME = RecordName.of_model("a/b", 1, 7, 4)


def header(payload: bytes, checkpoint: int = 7, key: str = "a/b") -> Header:
    model = Model(key, 7, "fogd", "f" * 32, "binary", "float32", 3, 10, 0, (("w", "<f4", (len(payload) // 4,)),))
    return Header(checkpoint, 1, 99, len(payload), zlib.crc32(payload), model=model)


def chunks(payload: bytes, checkpoint: int = 7, key: str = "a/b") -> list[Chunk]:
    return [decode(record.value or b"") for record in encode(header(payload, checkpoint, key), NAME, payload, LIMIT)]


def payload_of(size: int) -> bytes:
    return bytes(i % 251 for i in range(size))


def test_a_small_state_is_one_record() -> None:
    (record,) = encode(header(b"12345678"), NAME, b"12345678")
    assert record.key == b"m/1/3/0/a/b"
    assert record.value is not None
    chunk = decode(record.value)
    assert chunk.header == header(b"12345678")
    assert bytes(chunk.payload) == b"12345678"


@pytest.mark.parametrize("size", [0, 1, 300, 1000, 5000])
def test_no_record_is_larger_than_the_limit_and_all_of_them_join(size: int) -> None:
    payload = payload_of(size)
    records = encode(header(payload), NAME, payload, LIMIT)
    assert all(len(record.key) + len(record.value or b"") <= LIMIT for record in records)
    assert len({record.key for record in records}) == len(records)
    joiner = Joiner()
    whole = [joiner.add(decode(record.value or b"")) for record in records]
    assert whole[:-1] == [None] * (len(records) - 1)
    assert whole[-1] is not None
    assert bytes(whole[-1][1]) == payload
    assert not joiner.unfinished()


def test_chunks_join_in_any_order_between_those_of_others() -> None:
    ours, theirs = chunks(payload_of(500)), chunks(payload_of(800), key="other")
    for order in itertools.permutations(range(len(ours))):
        joiner = Joiner()
        mixed = [chunk for pair in itertools.zip_longest((ours[i] for i in order), theirs) for chunk in pair if chunk]
        whole = {done[0].model.key: bytes(done[1]) for chunk in mixed if (done := joiner.add(chunk)) and done[0].model}
        assert whole == {"a/b": payload_of(500), "other": payload_of(800)}


def test_a_limit_without_room_is_refused() -> None:
    with pytest.raises(CheckpointError, match="no room in a record of 100 bytes"):
        encode(header(payload_of(500)), NAME, payload_of(500), 100)


def test_a_missing_chunk_is_known() -> None:
    joiner, pieces = Joiner(), chunks(payload_of(1000))
    for chunk in pieces[:1] + pieces[2:]:
        assert joiner.add(chunk) is None
    assert list(joiner.unfinished().values()) == [1]


def test_a_chunk_that_comes_twice_is_refused() -> None:
    joiner, (first, *_) = Joiner(), chunks(payload_of(1000))
    joiner.add(first)
    with pytest.raises(CheckpointError, match=r"chunk 0 of model 'a/b' of checkpoint 7 came twice"):
        joiner.add(first)


def test_a_chunk_of_another_state_is_refused() -> None:
    joiner = Joiner()
    joiner.add(chunks(payload_of(1000))[0])
    with pytest.raises(CheckpointError, match="belongs to another state"):
        joiner.add(chunks(payload_of(1001))[1])


def test_a_newer_version_replaces_unfinished_chunks_of_an_older_one() -> None:
    joiner, new = Joiner(), chunks(payload_of(1000), checkpoint=8)
    old = chunks(payload_of(1200), checkpoint=7)
    joiner.add(old[2])
    joiner.add(new[0])
    assert joiner.add(old[0]) is None
    whole = [joiner.add(chunk) for chunk in new[1:]][-1]
    assert whole is not None
    assert bytes(whole[1]) == payload_of(1000)


def test_a_damaged_chunk_is_noticed_when_they_are_joined() -> None:
    joiner, (first, *others) = Joiner(), chunks(payload_of(1000))
    for chunk in others:
        joiner.add(chunk)
    with pytest.raises(CheckpointError, match=r"damaged: the checksum of model 'a/b' of checkpoint 7 is wrong"):
        joiner.add(Chunk(first.header, memoryview(bytes(len(first.payload)))))


def test_every_flipped_bit_and_every_cut_is_noticed() -> None:
    (record,) = encode(header(b"12345678"), NAME, b"12345678")
    assert record.value is not None
    for position in range(len(record.value)):
        damaged = bytearray(record.value)
        for bit in range(8):
            damaged[position] = record.value[position] ^ 1 << bit
            with pytest.raises(CheckpointError):
                decode(bytes(damaged))
        with pytest.raises(CheckpointError):
            decode(record.value[:position])


def test_errors_say_what_is_wrong_and_where() -> None:
    (record,) = encode(header(b"12345678"), NAME, b"12345678")
    value = record.value or b""
    with pytest.raises(CheckpointError, match="format 2, this program reads format 1: upgrade it"):
        decode(MAGIC + b"\x02" + value[5:])
    with pytest.raises(CheckpointError, match="truncated: 7 of 8 bytes of model 'a/b' of checkpoint 7"):
        decode(value[:-1])
    with pytest.raises(CheckpointError, match="not a checkpoint record: it starts with b'hell'"):
        decode(b"hello")
    with pytest.raises(CheckpointError, match="not a checkpoint record"):
        decode(b"")
    with pytest.raises(CheckpointError) as caught:
        raise CheckpointError("truncated").at("s.models", 3, 17)
    assert str(caught.value) == "s.models, partition 3, offset 17: truncated"


def test_a_header_of_other_content_is_refused() -> None:
    for content in (b"", b"{}", b"[" * 100_000, b'{"checkpoint":-1,"epoch":1,"offset":0,"size":0,"checksum":0}', b'"\xff"'):
        prefix = value_with_header(content)
        with pytest.raises(CheckpointError, match="the header is not one of format 1"):
            decode(prefix)


def test_a_chunk_number_beyond_the_chunks_is_refused() -> None:
    content = msgspec.json.encode(msgspec.structs.replace(header(b""), chunk=1))
    with pytest.raises(CheckpointError, match="chunk 1 of model 'a/b' of checkpoint 7 does not exist: it has 1"):
        decode(value_with_header(content))


def test_tombstones_cover_every_key_that_a_model_can_have() -> None:
    deleted = {record.key for record in tombstones("a/b", 4, 3)}
    written = {RecordName.of_model("a/b", epoch, version, ring).chunk(chunk)
               for epoch in range(1, 5) for version in range(1, 12) for ring in (2, 3, 4) for chunk in range(3)}  # fmt: skip
    assert deleted == written
    assert all(record.value is None for record in tombstones("a/b", 4, 3))


def test_record_keys_name_their_model() -> None:
    assert model_key(NAME.chunk(12)) == "a/b"
    assert model_key(RecordName.of_marker(5, 4).chunk(0)) is None
    for foreign in (None, b"", b"user-1", b"m/1/2", b"m/0/0/0/\xff"):
        with pytest.raises(CheckpointError, match="not the key of a checkpoint record"):
            model_key(foreign)


def test_keys_that_are_not_text_are_refused() -> None:
    with pytest.raises(CheckpointError, match="not text that UTF-8 can hold"):
        RecordName.of_model("\ud800", 1, 1, 4).chunk(0)
    with pytest.raises(CheckpointError, match="not text that UTF-8 can hold"):
        encode(header(b"", key="\ud800"), NAME, b"")


def value_with_header(content: bytes) -> bytes:
    prefix = MAGIC + b"\x01\x00\x00\x00" + len(content).to_bytes(4, "little")
    return prefix + zlib.crc32(prefix + content).to_bytes(4, "little") + content
