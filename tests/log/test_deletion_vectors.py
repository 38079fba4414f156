from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from headwater.basics.errors import HeadwaterError
from headwater.log.deletion_vectors import (
    absolute_location,
    deserialize,
    file_content,
    read,
    serialize,
    write_file,
    z85_decode,
    z85_encode,
)
from headwater.protocol.actions import DeletionVector
from headwater.stores import LocalStore
from support.inline_vectors import inline

STORE = LocalStore()
positions = st.sets(st.integers(0, 300) | st.integers(0, 2**33) | st.integers(2**40, 2**40 + 9))


def test_the_protocols_inline_example():
    example = DeletionVector("i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", 40, 6)
    assert list(read(example, "/t", STORE)) == [3, 4, 7, 11, 18, 29]


def test_the_same_rows_in_the_portable_format():
    example = DeletionVector("i", "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", 44, 6)
    assert list(read(example, "/t", STORE)) == [3, 4, 7, 11, 18, 29]
    assert inline(BitMap64([3, 4, 7, 11, 18, 29])) == example


def test_the_protocols_example_of_a_relative_path():
    example = DeletionVector("u", "ab^-aqEH.-t@S}K{vb[*k^", 40, 6, 4)
    expected = "s3://mytable/ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    assert absolute_location(example, "s3://mytable") == expected
    without_prefix = replace(example, path_or_inline="^-aqEH.-t@S}K{vb[*k^")
    assert absolute_location(without_prefix, "/t") == f"/t/{expected.rpartition('/')[2]}"


def test_the_protocols_example_of_an_absolute_path():
    path = "s3://mytable/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    assert absolute_location(DeletionVector("p", path, 40, 6, 4), "/t") == path
    assert absolute_location(DeletionVector("p", "file:/a%20b/x.bin", 40, 6, 4), "/t") == "/a b/x.bin"


@given(positions)
@settings(deadline=None)
def test_what_is_serialised_reads_back(rows):
    assert set(deserialize(serialize(BitMap64(rows)))) == rows
    descriptor = inline(BitMap64(rows))
    assert descriptor.cardinality == len(rows)
    assert set(read(descriptor, "/t", STORE)) == rows


@given(st.sets(st.integers(0, 2**17)), st.sampled_from("<>"))
def test_the_native_format_is_read(rows, order):
    buckets = [BitMap(rows).serialize(), BitMap([1]).serialize()]
    data = struct.pack(f"{order}ii", 1681511376, 2) + b"".join(struct.pack(f"{order}i", len(b)) + b for b in buckets)
    assert set(deserialize(data)) == {*rows, 2**32 + 1}


def test_vectors_share_a_file(tmp_path):
    vectors = [BitMap64([1, 5]), BitMap64(range(10_000)), BitMap64()]
    for prefix in ("", "ab"):
        descriptors = write_file(vectors, str(tmp_path), STORE, prefix)
        assert [d.offset for d in descriptors][0] == 1
        assert len({d.path_or_inline for d in descriptors}) == 1
        assert [read(d, str(tmp_path), STORE) for d in descriptors] == vectors
        assert absolute_location(descriptors[0], str(tmp_path)).startswith(f"{tmp_path}/{prefix}")


@given(st.binary(max_size=40))
def test_z85_round_trip(data):
    data = data[: len(data) // 4 * 4]
    assert z85_decode(z85_encode(data)) == data


def test_z85_of_its_specification():
    assert z85_encode(bytes([0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B])) == "HelloWorld"
    for text in ("1234", "12 45", "a;bcd"):
        with pytest.raises(ValueError, match="Z85"):
            z85_decode(text)


@pytest.fixture
def stored(tmp_path):
    content, [(offset, size)] = file_content([BitMap64([1, 2, 3])])
    path = tmp_path / "v.bin"
    path.write_bytes(content)
    return path, DeletionVector("p", str(path), size, 3, offset)


def failure(descriptor):
    with pytest.raises(HeadwaterError) as error:
        read(descriptor, "/t", STORE)
    return error.value.condition.removeprefix("DELTA_DELETION_VECTOR_")


def test_a_flipped_bit_is_noticed(stored):
    path, descriptor = stored
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert failure(descriptor) == "CHECKSUM_MISMATCH"


@pytest.mark.parametrize("length", [0, 3, 8, 20])
def test_a_file_cut_off_is_noticed(stored, length):
    path, descriptor = stored
    path.write_bytes(path.read_bytes()[:length])
    assert failure(descriptor) == "SIZE_MISMATCH"


def test_what_the_log_says_must_be_so(stored):
    _, descriptor = stored
    assert failure(replace(descriptor, cardinality=4)) == "CARDINALITY_MISMATCH"
    assert failure(replace(descriptor, size=descriptor.size - 1)) == "SIZE_MISMATCH"
    assert failure(replace(descriptor, offset=0)) == "SIZE_MISMATCH"


def test_a_missing_file_is_an_error(stored):
    path, descriptor = stored
    path.unlink()
    with pytest.raises(FileNotFoundError):
        read(descriptor, "/t", STORE)


@pytest.mark.parametrize(
    ("kind", "text", "size"),
    [("i", "", 0), ("i", "abc", 4), ("i", "00000", 4), ("i", "0000000000", 8), ("x", "abc", 4), ("u", "short", 4)],
)
def test_damaged_descriptors(kind, text, size):
    assert failure(DeletionVector(kind, text, size, 1)) == "INVALID"


def test_an_unknown_format_is_an_error():
    with pytest.raises(HeadwaterError) as error:
        deserialize(struct.pack("<i", 1681511378) + b"\0" * 8)
    assert "1681511378" in error.value.text
