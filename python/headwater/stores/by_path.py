"""The store of a path.

Owns the choice: local paths use the file system directly, a scheme that a setting of Spark's start names uses a store
of the operator's own, and every other scheme goes through Hadoop's ``FileSystem`` (:mod:`headwater.stores.hadoop`). A
session that is set up for Delta Lake's own connector may name a log store of that: where its commits are not in the
table's files alone, the table is only read. Promise: nothing that a session sets makes this process import anything.
"""

from __future__ import annotations

import importlib
import os
import posixpath
import re
from collections.abc import Callable, Mapping
from functools import cache
from urllib.parse import unquote

from headwater.basics import start_settings
from headwater.basics.errors import HeadwaterError
from headwater.stores.hadoop import HadoopFiles, ReadOnlyStore, hadoop_store
from headwater.stores.interface import SCHEME, Store
from headwater.stores.local import LocalStore

#: How Delta Lake's own connector is told of a log store: for a scheme, or for all.
_LOG_STORES = "spark.delta.logStore"
#: Its log stores whose commits are files that are created if absent, as here. The one that keeps commits in DynamoDB
#: before they are in the log is none, and what a store of somebody else does nobody here can know.
_PLAIN_LOG_STORES = frozenset(
    {
        "AzureLogStore",
        "GCSLogStore",
        "HDFSLogStore",
        "HadoopFileSystemLogStore",
        "IBMCOSLogStore",
        "LocalLogStore",
        "OracleCloudLogStore",
        "S3LogStore",
        "S3SingleDriverLogStore",
    }
)
_LOG_STORE_PACKAGES = ("io.delta.storage.", "org.apache.spark.sql.delta.storage.")


def store_for(
    path: str, hadoop: HadoopFiles | None = None, settings: Mapping[str, str] | None = None
) -> tuple[Store, str]:
    """The store that holds ``path``, and the path as that store spells it, without a trailing slash.

    ``file:/x`` and ``file:///x`` become ``/x`` with escapes decoded; a path without a scheme is local and unchanged.
    For other schemes, the setting ``spark.headwater.store.<scheme>`` of Spark's start may name a store as
    ``module:Class``: a subclass of :class:`Store`. One instance is created, with a dictionary of the settings
    ``spark.headwater.store.<scheme>.*``.

    :param settings: the session's, which may name a log store of Delta Lake's own connector.
    :raises HeadwaterError: ``DELTA_UNSUPPORTED_FILE_SYSTEM`` for another scheme if there is no Spark to reach it
        through; ``HEADWATER_STORE_NOT_USABLE`` if a setting names no usable store.
    """
    match = SCHEME.match(path)
    if match is None:
        return LocalStore(), _without_trailing_slash(os.path.abspath(path))
    if match.group(1).lower() == "file":
        rest = path[match.end() :]
        if rest.startswith("//"):  # an authority, empty or a host name, ends at the next slash
            rest = "/" + rest[2:].partition("/")[2]
        return LocalStore(), _without_trailing_slash(os.path.normpath(unquote(rest)))
    scheme = match.group(1).lower()
    stores = start_settings.under(start_settings.STORE)
    if (named := stores.get(scheme)) is not None:
        options = {key[len(scheme) + 1 :]: value for key, value in stores.items() if key.startswith(f"{scheme}.")}
        setting = f"{start_settings.STORE}{scheme}"
        return _named_store(setting, named, tuple(sorted(options.items()))), _without_trailing_slash(path)
    if hadoop is None:
        raise HeadwaterError("DELTA_UNSUPPORTED_FILE_SYSTEM", {"path": path, "scheme": match.group(1)})
    if (other := _other_log_store(scheme, settings or {})) is not None:
        return ReadOnlyStore(hadoop, *other), _without_trailing_slash(path)
    return hadoop_store(scheme, path, hadoop), _without_trailing_slash(path)


def _other_log_store(scheme: str, settings: Mapping[str, str]) -> tuple[str, str] | None:
    """The setting, and its value, by which a scheme's commits are made in a way that is not the store's own."""
    for name in (f"{_LOG_STORES}.{scheme}.impl", f"{_LOG_STORES}.class"):
        value = settings.get(name, "").strip()
        if value:
            package, _, kind = value.rpartition(".")
            is_plain = f"{package}." in _LOG_STORE_PACKAGES and kind in _PLAIN_LOG_STORES
            return None if is_plain else (name, value)
    return None


@cache
def _named_store(setting: str, named: str, options: tuple[tuple[str, str], ...]) -> Store:
    """The store that a setting names; statements with the same settings share it."""
    module, _, name = named.partition(":")
    try:
        kind = getattr(importlib.import_module(module), name)
        if not (isinstance(kind, type) and issubclass(kind, Store)):
            raise TypeError(f"{named} is no subclass of headwater.stores.Store")
        make: Callable[[Mapping[str, str]], Store] = kind
        store = make(dict(options))
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise HeadwaterError(
            "HEADWATER_STORE_NOT_USABLE", {"setting": setting, "value": named, "reason": reason}
        ) from error
    return store


def absolute_path(table_path: str, path: str) -> str:
    """Where a file of the log is: ``path`` as in an action, URL-encoded and relative to the table or absolute.

    The result is spelled as the table's store wants it, decoded: a local path, or one with a scheme in which every
    character stands for itself, as in Hadoop's ``Path`` and in pyarrow's file systems.
    """
    match = SCHEME.match(path)
    if match is not None:
        return store_for(path)[1] if match.group(1).lower() == "file" else unquote(path)
    path = unquote(path)
    if SCHEME.match(table_path) is not None and path.startswith("/"):
        authority = re.match(r"[^:]+:(//[^/]*)?", table_path)
        return f"{authority.group(0) if authority else ''}{path}"
    return path if path.startswith("/") else f"{table_path}/{path}"


def is_same_place(path: str, other: str) -> bool:
    """Whether two paths of directories lead to one place, by links or by another spelling of a URI, as far as their
    stores can tell.
    """
    if path == other:
        return True
    if not (_is_local(path) and _is_local(other)):
        return _normal(path) == _normal(other)
    one, another = store_for(path)[1], store_for(other)[1]
    try:
        return os.path.samefile(one, another)
    except OSError:  # a table that is yet to be made
        return os.path.realpath(one) == os.path.realpath(another)


def may_be_same_place(path: str, other: str) -> bool:
    """As :func:`is_same_place`, but True if their stores cannot tell: one store may have several names."""
    return is_same_place(path, other) or (_root(path) != _root(other) and not (_is_local(path) or _is_local(other)))


def _is_local(path: str) -> bool:
    match = SCHEME.match(path)
    return match is None or match.group(1).lower() == "file"


def _normal(path: str) -> str:
    root = _root(path)
    return f"{root}{posixpath.normpath('/' + path[len(root) :].lstrip('/'))}"


def _root(path: str) -> str:
    """Scheme and authority in lower case, as their case does not matter."""
    return "/".join(path.split("/", 3)[:3]).lower() if SCHEME.match(path) else ""


def _without_trailing_slash(path: str) -> str:
    return path.rstrip("/") or "/"
