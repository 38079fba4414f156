"""The files that COPY INTO is about: those of a folder that a user names.

Owns which files these are. They are listed once for each attempt: what arrives later is for the next statement.
Promises: a file lies in the folder that the user named, whatever FILES or PATTERN say, and no link is followed below
it; what Spark's readers leave out as hidden is never listed, so that no file counts as loaded that was not read; of a
Delta table, or what a sink of Spark has written, no file is loaded past the log that says which of them count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from headwater.basics.errors import HeadwaterError, illegal_option
from headwater.bridge.statement import Statement
from headwater.protocol.file_names import LOG_DIRECTORY
from headwater.sql.tokens import literal
from headwater.statements.expressions import time_of
from headwater.statements.running.opening import Options
from headwater.stores import Store, store_for
from headwater.stores.interface import FileInfo, by_directory

#: How many names FILES may have, as in Databricks.
MOST_FILES = 1000
#: The folder in which a sink of Spark keeps the log of what it has written.
_SINK_LOG = "_spark_metadata"
_LOGS = (LOG_DIRECTORY, _SINK_LOG)
_WILD = re.compile(r"[*?\[{\\]")


class SourceFile(NamedTuple):
    """A file: its path as Spark reads it, and below the folder; ``size`` in bytes, ``modified`` in milliseconds since
    the epoch.
    """

    path: str
    below: str
    size: int
    modified: int


@dataclass(frozen=True)
class Asked:
    """Which files a statement asks for.

    :param path: as the user wrote it; it may have wildcards.
    :param names: below the path; ``pattern``: of their paths below it.
    :param reader: its options.
    """

    table: str
    path: str
    names: Sequence[str] | None
    pattern: str | None
    reader: Options


class Source(NamedTuple):
    """The files, by path, and the folder that they lie in."""

    folder: str
    files: list[SourceFile]


def find_files(asked: Asked, statement: Statement) -> Source:
    """The files as they are now.

    :raises HeadwaterError: ``HEADWATER_COPY_NO_FILES`` if the path, or one of the names, is not there;
        ``DELTA_ILLEGAL_OPTION``.
    """
    # Hadoop takes what follows two slashes for the name of a host.
    path = re.sub(r"^//+", "/", asked.path)
    named, wild = statement.qualified(path), None
    if _WILD.search(named):
        named, wild = _before_wildcards(named)
    store, folder = store_for(named, statement.session_hadoop, statement.confs)
    folder = folder.rstrip("/") or "/"
    if asked.names is not None:
        source = Source(folder, _named(asked, folder, store))
    else:
        source = _listed(asked, folder, wild, store, statement)
    chooses = _choices(asked, wild, statement)
    return Source(source.folder, sorted(file for file in source.files if all(chosen(file) for chosen in chooses)))


def _before_wildcards(path: str) -> tuple[str, str]:
    """The folder before the first part with a wildcard, and the pattern of what lies below it."""
    parts = path.split("/")
    first = next(at for at, part in enumerate(parts) if _WILD.search(part))
    return "/".join(parts[:first]) or "/", "/".join(parts[first:])


def _listed(asked: Asked, folder: str, wild: str | None, store: Store, statement: Statement) -> Source:
    """All files below a folder, which may be a file itself."""
    logs: list[str] = []

    def enters(name: str) -> bool:
        if name in _LOGS:
            logs.append(name)
        return _is_shown(name)

    patterns = [_may_lead_to(pattern) for pattern in (wild, asked.pattern) if pattern is not None]
    within = [lambda path: all(may(path) for may in patterns)] if patterns else []
    try:
        tree = store.walk(folder, enters, statement.check_cancelled, *within)
    except NotADirectoryError:
        return _alone(asked, folder, store)
    except FileNotFoundError:
        raise _missing(asked, folder) from None
    if logs:
        raise _of_log(asked, folder, logs[0])
    _check_logs(asked, store, folder, [])
    return Source(folder, [_file(folder, each) for each in tree.files])


def _alone(asked: Asked, path: str, store: Store) -> Source:
    """The file that a path is."""
    above, _, name = path.rpartition("/")
    found = [file for file in store.list_from(above or "/", name) if file.name == name]
    if not found:
        raise _missing(asked, path)
    if not _is_shown(name):
        raise _hidden(asked, path)
    _check_logs(asked, store, above, [])
    return Source(above or "/", [SourceFile(path, name, found[0].size, found[0].modification_time)])


def _check_logs(asked: Asked, store: Store, folder: str, below: Iterable[str]) -> None:
    """Refuse files that a log beside them, or above the folders of a table's partitions, says more about.

    :param below: the folders of the files, relative to the folder.
    """
    above = [folder]
    while "=" in above[-1].rpartition("/")[2]:
        above.append(above[-1].rpartition("/")[0])
    inside = {"/".join(parts[: end + 1]) for parts in (each.split("/") for each in below) for end in range(len(parts))}
    folders = [*above, *(f"{folder}/{each}" for each in sorted(inside))]
    logs = [f"{each}/{name}" for each in folders for name in _LOGS]
    gone = set(store.missing(logs))
    for log in logs:
        if log not in gone:
            at, _, name = log.rpartition("/")
            raise _of_log(asked, at, name)


def _of_log(asked: Asked, folder: str, name: str) -> HeadwaterError:
    reason = f"{folder} has a log ({name}) that says which of its files count. Use INSERT INTO … SELECT"
    return HeadwaterError("HEADWATER_COPY_NO_FILES", {"tableName": asked.table, "reason": reason})


def _hidden(asked: Asked, path: str) -> HeadwaterError:
    reason = f"{path} is hidden from Spark's readers, as its name or a folder's begins with . or _. Rename it"
    return HeadwaterError("HEADWATER_COPY_NO_FILES", {"tableName": asked.table, "reason": reason})


def _named(asked: Asked, folder: str, store: Store) -> list[SourceFile]:
    names = list(dict.fromkeys(asked.names or ()))
    if len(names) > MOST_FILES:
        reason = f"FILES has {len(names)} names, and {MOST_FILES} is the most. Use PATTERN, or several statements"
        raise HeadwaterError("HEADWATER_COPY_NO_FILES", {"tableName": asked.table, "reason": reason})
    for name in names:
        parts = name.split("/")
        if not name or name.startswith("/") or ".." in parts or "." in parts or "" in parts or ":" in parts[0]:
            reason = f"'{name}' in FILES is not the name of a file below {folder}. Write it without the folder"
            raise HeadwaterError("HEADWATER_COPY_NO_FILES", {"tableName": asked.table, "reason": reason})
    found: dict[str, FileInfo] = {}
    for above, some in by_directory(f"{folder}/{name}" for name in names).items():
        try:
            listed = store.list_from(above, min(some))
        except (FileNotFoundError, NotADirectoryError):
            continue
        wanted = set(some)
        found |= {f"{above}/{file.name}": file for file in listed if file.name in wanted}
    for name in names:
        if f"{folder}/{name}" not in found:
            raise _missing(asked, f"{folder}/{name}")
        if not all(map(_is_shown, name.split("/"))):
            raise _hidden(asked, f"{folder}/{name}")
    if linked := store.links(folder, [f"{folder}/{name}" for name in names]):
        reason = f"{min(linked)} is a link, or lies behind one, and no link below {folder} is followed"
        raise HeadwaterError(
            "HEADWATER_COPY_NO_FILES",
            {"tableName": asked.table, "reason": f"{reason}. Name the file by the folder that it lies in"},
        )
    _check_logs(asked, store, folder, {name.rpartition("/")[0] for name in names if "/" in name})
    of = ((name, found[f"{folder}/{name}"]) for name in names)
    return [SourceFile(f"{folder}/{name}", name, file.size, file.modification_time) for name, file in of]


def _file(folder: str, file: FileInfo) -> SourceFile:
    return SourceFile(f"{folder.rstrip('/')}/{file.path}", file.path, file.size, file.modification_time)


def _is_shown(name: str) -> bool:
    """Whether Spark's readers look at a file or folder of the name."""
    return not (name.startswith(".") or name.endswith("._COPYING_") or name.startswith("_") and "=" not in name)


def _missing(asked: Asked, path: str) -> HeadwaterError:
    reason = f"there is no {path}. Check the path, and whether this Spark may read it"
    return HeadwaterError("HEADWATER_COPY_NO_FILES", {"tableName": asked.table, "reason": reason})


def _choices(asked: Asked, wild: str | None, statement: Statement) -> list[Callable[[SourceFile], bool]]:
    """What the path's wildcards, PATTERN and the options of Spark's readers leave of the files."""
    chooses = [_below_matches(pattern) for pattern in (wild, asked.pattern) if pattern is not None]
    if (pattern := asked.reader.get("pathglobfilter")) is not None:
        chooses.append(_name_matches(pattern))
    for name, is_after in (("modifiedAfter", True), ("modifiedBefore", False)):
        if (text := asked.reader.get(name.lower())) is not None:
            if (time := time_of(literal(text), statement)) is None:
                raise illegal_option(name, text, "must be a time, such as 2026-05-01T00:00:00")
            chooses.append(_modified(time.microseconds, is_after))
    return chooses


def _below_matches(pattern: str) -> Callable[[SourceFile], bool]:
    matches = matching(pattern)
    return lambda file: matches.match(file.below) is not None


def _may_lead_to(pattern: str) -> Callable[[str], bool]:
    """Whether a path below the folder matches a pattern, or lies above or below what may match it."""
    try:
        parts = [matching(part) for part in pattern.strip("/").removeprefix("./").split("/")]
    except HeadwaterError:  # it has alternatives of several names each
        return lambda path: True
    return lambda path: all(part.fullmatch(name) for part, name in zip(parts, path.split("/"), strict=False))


def _name_matches(pattern: str) -> Callable[[SourceFile], bool]:
    matches = matching(pattern)
    return lambda file: matches.fullmatch(file.below.rpartition("/")[2]) is not None


def _modified(microseconds: int, is_after: bool) -> Callable[[SourceFile], bool]:
    return lambda file: file.modified * 1000 > microseconds if is_after else file.modified * 1000 < microseconds


def matching(pattern: str) -> re.Pattern[str]:
    r"""A pattern of Hadoop's as one of Python's that matches a path, or the folder above it, from its beginning:
    ``*`` and ``?`` within a name, ``[a-c]``, ``[^a]``, ``{a,b}``, and ``\`` before a character that is itself.

    :raises HeadwaterError: ``DELTA_ILLEGAL_OPTION``.
    """
    made, at, depth = "", 0, 0
    pattern = pattern.strip("/").removeprefix("./")
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "\\" and at < len(pattern):
            made += re.escape(pattern[at])
            at += 1
        elif char == "*":
            made += "[^/]*"
        elif char == "?":
            made += "[^/]"
        elif char == "[":
            end = pattern.find("]", at + 1 + (pattern[at : at + 1] in ("^", "!")))
            if end < 0:
                raise illegal_option("PATTERN", pattern, "has a [ without ]")
            inside = pattern[at:end]
            negated = inside[:1] in ("^", "!")
            chars = re.sub(r"([\\\[\]^&~|])", r"\\\1", inside[negated:])
            made += f"(?!/)[{'^' if negated else ''}{chars}]"
            at = end + 1
        elif char == "{":
            made, depth = f"{made}(?:", depth + 1
        elif char == "}" and depth:
            made, depth = f"{made})", depth - 1
        elif char == "," and depth:
            made += "|"
        else:
            made += re.escape(char)
    if depth:
        raise illegal_option("PATTERN", pattern, "has a { without }")
    try:
        return re.compile(f"(?s:(?:{made})(?=/|\\Z))")
    except re.error as error:
        raise illegal_option("PATTERN", pattern, f"is not a pattern ({error})") from None


def total_size(files: Iterable[SourceFile]) -> int:
    """Bytes of the files."""
    return sum(file.size for file in files)


def url_path(path: str) -> str:
    """A path as Spark takes it, whatever its default file system is."""
    return f"file:{path}" if path.startswith("/") else path


def plain_path(path: str) -> str:
    """A path of Spark's as that of a file: local ones have no scheme."""
    return f"/{path.removeprefix('file:').lstrip('/')}" if path.startswith("file:") else path
