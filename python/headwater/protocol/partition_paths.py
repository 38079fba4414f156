"""Paths of data files: Hive-style partition directories and the encoding of ``add.path``.

Owns the two layers of escaping. A partition directory is ``column=value`` with characters a file system or Hive cannot
have as ``%XX`` of their code; that is part of the directory's real name. A path in the log is then URL-encoded once
more, so that a ``%`` in a name is ``%25`` there. Follows the protocol's chapters "Data Files" and "Add File and Remove
File". Promise: the standard decoding undoes each of the two exactly.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from urllib.parse import quote

#: The directory name of a null, which an empty string is too.
NULL_DIRECTORY = "__HIVE_DEFAULT_PARTITION__"

_ESCAPED = frozenset([*map(chr, range(0x20)), *"\"#%'*/:=?\\{[]^", "\x7f"])
#: What java.net.URI, and with it every path another writer puts into a log, has in a path as it is.
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-!.~'()*,;:$&+=/@")
_CODE = re.compile("%([0-9A-Fa-f]{2})")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]*")


def escape_name(name: str) -> str:
    """A column name or value as part of a directory's name."""
    return "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in name)


def unescape_name(text: str) -> str:
    """What :func:`escape_name` has made a text of. A ``%`` that begins no code stays."""
    return _CODE.sub(lambda code: chr(int(code[1], 16)), text)


def values_of_directory(directory: str) -> list[tuple[str, str | None]]:
    """The columns and values that the names of folders say, as Spark reads them: those at the end of the path, with
    folders of other names perhaps below, but not between.

    :param directory: relative, not URL-encoded.
    """
    found: list[tuple[str, str | None]] = []
    for part in reversed(directory.split("/")):
        name, equals, value = part.partition("=")
        if equals:
            found.append((unescape_name(name), None if value in ("", NULL_DIRECTORY) else unescape_name(value)))
        elif found:
            break
    return found[::-1]


def partition_directory(values: Mapping[str, str | None]) -> str:
    """The relative directory of a partition, ``a=1/b=x``, from serialised values in partition order; not URL-encoded.

    The directory is a habit other tools expect, not the truth: ``add.partitionValues`` is.
    """
    return "/".join(
        f"{escape_name(name)}={escape_name(value) if value else NULL_DIRECTORY}" for name, value in values.items()
    )


def encode_path(path: str) -> str:
    """A file's path as the log has it: URL-encoded. A scheme and authority (``s3://bucket``) stay as they are."""
    match = _SCHEME.match(path)
    start = match.end() if match else 0
    return path[:start] + "".join(c if _is_plain(c) else quote(c, safe="") for c in path[start:])


def _is_plain(character: str) -> bool:
    if character in _PLAIN:
        return True
    return ord(character) > 0x7F and unicodedata.category(character) not in ("Cc", "Zs", "Zl", "Zp")
