"""Where the commands without Spark find a table: the local file system, and stores that pyarrow or fsspec supports.

Owns the choice of the file system of a path, by its scheme: pyarrow's own, else fsspec's where that is installed. Their
credentials are those that they find themselves: environment variables, profiles, the machine's role. Promise: nothing
is written, and a failure to reach a table is one error, which names the path without what is secret in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.fs as pafs

from headwater.basics.errors import HeadwaterError, plain_reason
from headwater.log.history import version_at
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.stores import SCHEME, Store, store_for
from headwater.stores.arrow import ArrowStore

#: The schemes of Hadoop's file systems, and by which pyarrow and fsspec know the same stores.
_SCHEMES = {"s3a": "s3", "s3n": "s3"}
#: What pyarrow and fsspec say of a scheme that they have no file system for.
_UNKNOWN = (pa.ArrowInvalid, pa.ArrowNotImplementedError, ImportError, ValueError, TypeError)
#: A table by its name, with the schema and the catalog that it may have.
_NAME = re.compile(r"(?:`[^`]+`|[\w-]+)(?:\.(?:`[^`]+`|[\w-]+)){0,2}")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Place(NamedTuple):
    """A table that a command looks at. ``path`` as its store has it, ``shown`` for people."""

    store: Store
    path: str
    shown: str


@contextmanager
def reached(path: str) -> Iterator[Place]:
    """The table at a path, for as long as it is looked at.

    :param path: local, or a URI; options of pyarrow's file systems may follow, as in
        ``s3://bucket/table?region=eu-central-1``.
    :raises HeadwaterError: ``HEADWATER_COMMAND_NEEDS_FILE_SYSTEM``; ``HEADWATER_COMMAND_NEEDS_PATH`` for the name of
        a table, which only a Spark session can resolve; ``DELTA_FILE_ACCESS_FAILED`` for what the store
        refuses meanwhile.
    """
    scheme = SCHEME.match(path)
    if scheme is not None and scheme.group(1).lower() == "local":  # fsspec's other word for file:
        path, scheme = f"file{path[scheme.end(1) :]}", SCHEME.match("file:/")
    if scheme is None or scheme.group(1).lower() == "file":
        if _NAME.fullmatch(path) and not Path(path).exists():
            raise HeadwaterError("HEADWATER_COMMAND_NEEDS_PATH", {"name": path})
        store, inner = store_for(path)
        yield Place(store, inner, inner)
        return
    shown = path.partition("?")[0].rstrip("/")
    try:
        filesystem, inner = _file_system(path, scheme.group(1).lower())
        store = ArrowStore(filesystem)
        yield Place(store, store.uri(f"{scheme.group(1)}://{inner}"), shown)
    except OSError as error:
        advice = (
            "Check the address and the credentials, which pyarrow and fsspec take from their own places, such as the "
            "variables AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL and AWS_REGION of S3"
        )
        named = {"path": shown, "reason": plain_reason(error).rstrip("."), "advice": advice}
        raise HeadwaterError("DELTA_FILE_ACCESS_FAILED", named) from None


def _file_system(path: str, scheme: str) -> tuple[pafs.FileSystem, str]:
    known = _SCHEMES.get(scheme, scheme)
    uri = f"{known}:{path.partition(':')[2]}"
    said = []
    for name, find in (("pyarrow", pafs.FileSystem.from_uri), ("fsspec", _of_fsspec)):
        try:
            found: tuple[pafs.FileSystem, str] = find(uri)
        except _UNKNOWN as error:
            said.append(f"{name}: {plain_reason(error).partition(' (')[0].partition('?')[0].rstrip('.')}")
        else:
            return found
    shown = path.partition("?")[0]
    raise HeadwaterError(
        "HEADWATER_COMMAND_NEEDS_FILE_SYSTEM", {"path": shown, "scheme": scheme, "reason": "; ".join(said)}
    )


def _of_fsspec(uri: str) -> tuple[pafs.FileSystem, str]:
    from fsspec.core import url_to_fs

    filesystem, path = url_to_fs(uri)
    return pafs.PyFileSystem(pafs.FSSpecHandler(filesystem)), path


def snapshot_of(place: Place, version: int | None, timestamp: str | None) -> Snapshot:
    """The table at a version, or as of a time; by default the newest.

    :raises HeadwaterError: those of loading a snapshot, and of a time; ``DELTA_TIMESTAMP_INVALID``.
    """
    if timestamp is not None:
        version = version_at(place.path, place.store, milliseconds_of(timestamp))
    return load_snapshot(place.path, place.store, version)


def milliseconds_of(text: str) -> int:
    """A time as a user gives it, in milliseconds since the epoch; one without a zone is UTC.

    :raises HeadwaterError: ``DELTA_TIMESTAMP_INVALID``.
    """
    written = text.strip()
    try:
        time = datetime.fromisoformat(f"{written[:-1]}+00:00" if written[-1:] in ("Z", "z") else written)
    except ValueError:
        raise HeadwaterError("DELTA_TIMESTAMP_INVALID", {"expr": text}) from None
    since = (time if time.tzinfo is not None else time.replace(tzinfo=timezone.utc)) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
