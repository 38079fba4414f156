"""Avro's container files, to the extent that Iceberg's manifests need them.

Owns the encoding of primitives, the container, and a reader of any container file whose schema has the types of
manifests. Written files have one record a block and no compression: a record can be copied from one manifest into the
next without being decoded, so that a table of many files costs what a commit changes. Promise: what is not an Avro
file, or cut off, is a ``ValueError``.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

_MAGIC = b"Obj\x01"
_SYNC_SIZE = 16
_SMALL = 1 << 10


def long(number: int) -> bytes:
    """An ``int`` or ``long``: zigzag, seven bits a byte."""
    if -_SMALL <= number < _SMALL:
        return _SMALL_NUMBERS[number]
    return _long(number)


def _long(number: int) -> bytes:
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


_SMALL_NUMBERS = {number: _long(number) for number in range(-_SMALL, _SMALL)}


#: The number of records of a block that this module writes.
_ONE = long(1)


def data(content: bytes) -> bytes:
    """``bytes`` or, of UTF-8, a ``string``."""
    return long(len(content)) + content


def text(content: str) -> bytes:
    """A ``string``."""
    return data(content.encode())


def read_long(content: bytes, at: int) -> tuple[int, int]:
    """The number that begins at a position, and where it ends."""
    shift = rest = 0
    while True:
        byte = content[at]
        at += 1
        rest |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (rest >> 1) ^ -(rest & 1), at
        shift += 7


def read_data(content: bytes, at: int) -> tuple[bytes, int]:
    """The ``bytes`` or ``string`` at a position, and where they end."""
    length, at = read_long(content, at)
    end = at + length
    if length < 0 or end > len(content):
        raise ValueError("it is truncated")
    return content[at:end], end


def container(schema: Mapping[str, Any], metadata: Mapping[str, str], records: Iterable[bytes]) -> bytes:
    """A container file of encoded records, one a block."""
    return container_of_blocks(schema, metadata, map(block, records))


def container_of_blocks(
    schema: Mapping[str, Any], metadata: Mapping[str, str], blocks: Iterable[bytes], sync: bytes | None = None
) -> bytes:
    """A container file of blocks.

    :param sync: what stands between them: that of the file that they come from; None for one of its own.
    """
    header = {"avro.schema": json.dumps(schema, separators=(",", ":")), "avro.codec": "null", **metadata}
    pieces = [_MAGIC, long(len(header)), *(text(key) + text(value) for key, value in header.items()), b"\x00"]
    sync = sync or os.urandom(_SYNC_SIZE)
    return sync.join((b"".join(pieces), *blocks, b""))


def block(record: bytes) -> bytes:
    """A block of one encoded record."""
    return b"".join((_ONE, long(len(record)), record))


class Container(NamedTuple):
    """A container file: its metadata, and where its blocks are."""

    metadata: dict[str, str]
    content: bytes
    sync: bytes
    start: int

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """The number of records and the decompressed bytes of each block."""
        content, at = self.content, self.start
        inflate = _codec(self.metadata.get("avro.codec", "null"))
        while at < len(content):
            count, at = read_long(content, at)
            block, at = read_data(content, at)
            if content[at : at + _SYNC_SIZE] != self.sync:
                raise ValueError("a block does not end where it should")
            at += _SYNC_SIZE
            yield count, inflate(block)

    def raw_blocks(self) -> list[bytes]:
        """The blocks as they are in a file that :func:`container` wrote, for :func:`container_of_blocks`.

        :raises ValueError: it is damaged.
        """
        found = self.content[self.start :].split(self.sync)
        if found.pop():
            raise ValueError("it is truncated")
        return found


def open_container(content: bytes) -> Container:
    """The container in a file's bytes.

    :raises ValueError: it is none.
    """
    try:
        if not content.startswith(_MAGIC):
            raise ValueError("it is not an Avro file")
        metadata: dict[str, str] = {}
        at = len(_MAGIC)
        while True:
            count, at = read_long(content, at)
            if count == 0:
                break
            if count < 0:
                count = -count
                _, at = read_long(content, at)
            for _ in range(count):
                key, at = read_data(content, at)
                value, at = read_data(content, at)
                metadata[key.decode()] = value.decode()
        sync = content[at : at + _SYNC_SIZE]
        if len(sync) < _SYNC_SIZE:
            raise ValueError("it is truncated")
        return Container(metadata, content, sync, at + _SYNC_SIZE)
    except IndexError:
        raise ValueError("it is truncated") from None


def _codec(name: str) -> Callable[[bytes], bytes]:
    if name == "null":
        return bytes
    if name == "deflate":
        return lambda block: zlib.decompress(block, -15)
    raise ValueError(f"its compression {name} is not known")


def read_records(content: bytes) -> list[Any]:
    """All records of a container file, decoded by its own schema; a record is a dictionary.

    :raises ValueError: the file is damaged, or has a type that manifests have not.
    """
    found = open_container(content)
    try:
        decode = _decoder(json.loads(found.metadata["avro.schema"]))
        records = []
        for count, block in found.blocks():
            at = 0
            for _ in range(count):
                record, at = decode(block, at)
                records.append(record)
        return records
    except (KeyError, IndexError) as error:
        raise ValueError(f"it is truncated or lacks {error}") from None


_Decoder = Callable[[bytes, int], tuple[Any, int]]


def _decoder(schema: Any) -> _Decoder:
    if isinstance(schema, list):
        return _union([_decoder(each) for each in schema])
    kind = schema["type"] if isinstance(schema, dict) else schema
    match kind:
        case dict() | list():
            return _decoder(kind)
        case "record":
            return _record([(each["name"], _decoder(each["type"])) for each in schema["fields"]])
        case "array":
            return _array(_decoder(schema["items"]))
        case "fixed":
            size = schema["size"]
            return lambda content, at: (content[at : at + size], at + size)
        case "null":
            return lambda content, at: (None, at)
        case "boolean":
            return lambda content, at: (content[at] != 0, at + 1)
        case "int" | "long":
            return read_long
        case "float":
            return lambda content, at: (content[at : at + 4], at + 4)
        case "double":
            return lambda content, at: (content[at : at + 8], at + 8)
        case "bytes":
            return read_data
        case "string":
            return _text
    raise ValueError(f"its type {kind} is not known")


def _text(content: bytes, at: int) -> tuple[str, int]:
    found, at = read_data(content, at)
    return found.decode(), at


def _union(members: list[_Decoder]) -> _Decoder:
    def decode(content: bytes, at: int) -> tuple[Any, int]:
        number, at = read_long(content, at)
        return members[number](content, at)

    return decode


def _record(fields: list[tuple[str, _Decoder]]) -> _Decoder:
    def decode(content: bytes, at: int) -> tuple[Any, int]:
        found = {}
        for name, member in fields:
            found[name], at = member(content, at)
        return found, at

    return decode


def _array(item: _Decoder) -> _Decoder:
    def decode(content: bytes, at: int) -> tuple[Any, int]:
        found: list[Any] = []
        while True:
            count, at = read_long(content, at)
            if count == 0:
                return found, at
            if count < 0:
                count = -count
                _, at = read_long(content, at)
            for _ in range(count):
                value, at = item(content, at)
                found.append(value)

    return decode
