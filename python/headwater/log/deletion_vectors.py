"""Deletion vectors: the rows of a data file that are deleted.

Owns reading them from where a descriptor points (inline, a file beside the table, an absolute path) and writing them,
as Roaring bitmaps of row positions. Follows the protocol's chapters "Deletion Vectors" and "Deletion Vector Format".
Promise: a vector is read whole and right, or it is an error: length, checksum and number of rows are compared with
what the log says.
"""

from __future__ import annotations

import base64
import re
import struct
import zlib
from collections.abc import Iterable, Sequence
from uuid import UUID, uuid4

from pyroaring import BitMap, BitMap64

from headwater.basics.errors import HeadwaterError
from headwater.protocol.actions import DeletionVector
from headwater.stores import Store, absolute_path

INLINE = "i"
RELATIVE = "u"
ABSOLUTE = "p"

#: The first byte of a deletion vector file.
FILE_FORMAT_VERSION = 1

_PORTABLE_MAGIC = 1681511377
#: An earlier serialisation by the reference implementation, with 32-bit counts and a length before each bucket.
_NATIVE_MAGIC = 1681511376
_ENCODED_UUID_LENGTH = 20
_FILE_NAME = re.compile(r"deletion_vector_[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.bin")

# The protocol's Z85 has the digits of ZeroMQ's specification; the standard library's base85 differs from it in the
# alphabet only.
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85 = bytes.maketrans(_Z85, _B85)
_FROM_B85 = bytes.maketrans(_B85, _Z85)


def read(descriptor: DeletionVector, table_path: str, store: Store) -> BitMap64:
    """The positions, counted from zero, of the deleted rows.

    :raises HeadwaterError: ``DELTA_DELETION_VECTOR_INVALID``, or ``..._SIZE_MISMATCH``, ``..._CHECKSUM_MISMATCH`` or
        ``..._CARDINALITY_MISMATCH``.
    :raises FileNotFoundError: the file it lies in is gone.
    """
    if descriptor.storage_type == INLINE:
        where = "inline in the log"
        data = _decode_inline(descriptor)
    else:
        where = absolute_location(descriptor, table_path)
        data = _read_block(where, store, descriptor)
    bitmap = deserialize(data, where)
    if len(bitmap) != descriptor.cardinality:
        raise _mismatch("CARDINALITY", where, len(bitmap), descriptor.cardinality)
    return bitmap


def absolute_location(descriptor: DeletionVector, table_path: str) -> str:
    """The path of the file the vector is stored in.

    :raises HeadwaterError: ``DELTA_DELETION_VECTOR_INVALID`` for an inline or unknown kind, which has none.
    """
    if descriptor.storage_type == ABSOLUTE:
        return absolute_path(table_path, descriptor.path_or_inline)
    if descriptor.storage_type == RELATIVE:
        prefix = descriptor.path_or_inline[:-_ENCODED_UUID_LENGTH]
        try:
            uuid = UUID(bytes=z85_decode(descriptor.path_or_inline[-_ENCODED_UUID_LENGTH:]))
        except ValueError as error:
            raise _invalid(
                f"{table_path}/{descriptor.path_or_inline}", f"its file's name cannot be decoded ({error})"
            ) from None
        return f"{table_path}/{relative_name(uuid, prefix)}"
    raise _invalid(f"{table_path}/{descriptor.path_or_inline}", f"storage type '{descriptor.storage_type}' has no file")


def relative_name(uuid: UUID, prefix: str = "") -> str:
    """A deletion vector file's path below the table."""
    name = f"deletion_vector_{uuid}.bin"
    return f"{prefix}/{name}" if prefix else name


def is_file_name(name: str) -> bool:
    """Whether a file is called as :func:`write_file` calls them."""
    return _FILE_NAME.fullmatch(name) is not None


def write_file(vectors: Sequence[BitMap64], table_path: str, store: Store, prefix: str = "") -> list[DeletionVector]:
    """Write vectors into one new file below the table, and return the descriptor of each, in order.

    :param prefix: the directory below the table, a random one for stores that spread load by it; empty for none.
    """
    uuid = uuid4()
    content, offsets = file_content(vectors)
    path = f"{table_path}/{relative_name(uuid, prefix)}"
    if prefix:
        store.make_directory(f"{table_path}/{prefix}")
    store.put_once(path, content)
    name = prefix + z85_encode(uuid.bytes)
    return [
        DeletionVector(RELATIVE, name, size, len(vector), offset)
        for vector, (offset, size) in zip(vectors, offsets, strict=True)
    ]


def file_content(vectors: Iterable[BitMap64]) -> tuple[bytes, list[tuple[int, int]]]:
    """The bytes of a deletion vector file, and of each vector (offset, size), both in bytes, for its descriptor."""
    content = bytearray([FILE_FORMAT_VERSION])
    offsets = []
    for vector in vectors:
        data = serialize(vector)
        offsets.append((len(content), len(data)))
        content += struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    return bytes(content), offsets


def serialize(positions: BitMap64) -> bytes:
    """The portable format: a magic number, then the standard 64-bit Roaring serialisation. Runs are compressed."""
    optimized = positions.copy()
    optimized.run_optimize()
    return struct.pack("<i", _PORTABLE_MAGIC) + optimized.serialize()


def deserialize(data: bytes, where: str = "inline in the log") -> BitMap64:
    """The positions in a serialised vector, portable or native format; ``where`` is for messages.

    :raises HeadwaterError: ``DELTA_DELETION_VECTOR_INVALID``.
    """
    if len(data) < 8:
        raise _invalid(where, "it is cut off")
    (magic,) = struct.unpack_from("<i", data)
    try:
        if magic == _PORTABLE_MAGIC:
            return BitMap64.deserialize(data[4:])
        if magic == _NATIVE_MAGIC:
            return _deserialize_native(data, "<")
        if struct.unpack_from(">i", data) == (_NATIVE_MAGIC,):  # as in the protocol's example of an inline vector
            return _deserialize_native(data, ">")
    except (ValueError, struct.error, MemoryError, RuntimeError) as error:
        raise _invalid(where, str(error)) from None
    raise _invalid(where, f"its format {magic} is not known")


def _deserialize_native(data: bytes, order: str) -> BitMap64:
    """Buckets of 32-bit bitmaps, the n-th for the positions whose upper half is n, each after its length.

    :param order: the byte order of numbers around the bitmaps, as ``struct`` has it; bitmaps are always little endian.
    """
    positions = BitMap64()
    (count,) = struct.unpack_from(f"{order}i", data, 4)
    start = 8
    for bucket in range(count):
        (size,) = struct.unpack_from(f"{order}i", data, start)
        if size < 0 or start + 4 + size > len(data):
            raise ValueError("it is cut off")
        lower = BitMap.deserialize(data[start + 4 : start + 4 + size])
        positions.update((bucket << 32) + value for value in lower)
        start += 4 + size
    return positions


def _decode_inline(descriptor: DeletionVector) -> bytes:
    try:
        data = z85_decode(descriptor.path_or_inline)
    except ValueError as error:
        raise _invalid("inline in the log", str(error)) from None
    if not descriptor.size <= len(data) < descriptor.size + 4:  # the encoding pads to a multiple of four
        raise _mismatch("SIZE", "inline in the log", len(data), descriptor.size)
    return data[: descriptor.size]


def _read_block(path: str, store: Store, descriptor: DeletionVector) -> bytes:
    """The vector's bytes out of its file, after its length and before its checksum, both of which are verified."""
    try:
        if descriptor.size < 0 or (descriptor.offset or 0) < 0:
            raise ValueError("its place in the file is negative")
        block = store.read_range(path, descriptor.offset or 0, descriptor.size + 8)
    except (TypeError, ValueError, OverflowError) as error:  # what the log says is no place in any file
        raise _invalid(path, f"the log's entry for it is damaged ({error})") from None
    if len(block) < 8:
        raise _mismatch("SIZE", path, len(block), descriptor.size)
    (size,) = struct.unpack_from(">i", block)
    if size != descriptor.size or len(block) != size + 8:
        raise _mismatch("SIZE", path, size if size != descriptor.size else len(block) - 8, descriptor.size)
    data = block[4 : 4 + size]
    (expected,) = struct.unpack_from(">I", block, 4 + size)
    actual = zlib.crc32(data)
    if actual != expected:
        raise _mismatch("CHECKSUM", path, f"{actual:08x}", f"{expected:08x}")
    return data


def z85_encode(data: bytes) -> str:
    """Z85 text of bytes whose number is a multiple of four."""
    if len(data) % 4:
        raise ValueError("Z85 encodes multiples of four bytes")
    return base64.b85encode(data).translate(_FROM_B85).decode("ascii")


def z85_decode(text: str) -> bytes:
    """The bytes of a Z85 text.

    :raises ValueError: the text is none.
    """
    encoded = text.encode("ascii")
    if len(encoded) % 5:
        raise ValueError("Z85 text has a multiple of five characters")
    if encoded.translate(None, _Z85):
        raise ValueError("a character does not belong to Z85")
    return base64.b85decode(encoded.translate(_TO_B85))


def _invalid(where: str, reason: str) -> HeadwaterError:
    return HeadwaterError("DELTA_DELETION_VECTOR_INVALID", {"path": where, "reason": reason})


def _mismatch(kind: str, where: str, actual: object, expected: object) -> HeadwaterError:
    return HeadwaterError(
        f"DELTA_DELETION_VECTOR_{kind}_MISMATCH", {"path": where, "actual": actual, "expected": expected}
    )
