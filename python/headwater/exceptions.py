"""Classes of the conflicts between two commits, to catch by name: ``except ConcurrentAppendException``.

Importing this module makes PySpark raise them, in classic sessions and in Spark Connect's. Promise: an error is
still an ``AnalysisException`` with condition, SQLSTATE and parameters, so code that catches it by PySpark's class or
by its condition works as before. ``delta.exceptions`` has the same names.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from pyspark.errors import PySparkException

_CONVERT = "convert_exception"
_MODULES = ("pyspark.errors.exceptions.captured", "pyspark.errors.exceptions.connect")
#: Imports the function of the second by name: has the old one if it is there already.
_CONNECT_CLIENT = "pyspark.sql.connect.client.core"


class DeltaConcurrentModificationException(PySparkException):
    """Another commit came first and conflicts with this one, which wrote nothing."""


class ConcurrentWriteException(DeltaConcurrentModificationException):
    """Another statement changed what this one builds on (``DELTA_CONCURRENT_WRITE``)."""


class MetadataChangedException(DeltaConcurrentModificationException):
    """Another statement changed schema, properties or partitions (``DELTA_METADATA_CHANGED``)."""


class ProtocolChangedException(DeltaConcurrentModificationException):
    """Another statement changed the table's protocol (``DELTA_PROTOCOL_CHANGED``)."""


class ConcurrentAppendException(DeltaConcurrentModificationException):
    """Another statement added files that this one should have read (``DELTA_CONCURRENT_APPEND``)."""


class ConcurrentDeleteReadException(DeltaConcurrentModificationException):
    """Another statement removed a file that this one had read (``DELTA_CONCURRENT_DELETE_READ``)."""


class ConcurrentDeleteDeleteException(DeltaConcurrentModificationException):
    """Another statement removed a file that this one removes as well (``DELTA_CONCURRENT_DELETE_DELETE``)."""


class ConcurrentTransactionException(DeltaConcurrentModificationException):
    """Another writer has the same transaction identifier (``DELTA_CONCURRENT_TRANSACTION``)."""


#: The class of each condition that says that two commits conflict.
CONFLICTS: dict[str, type[DeltaConcurrentModificationException]] = {
    "DELTA_CONCURRENT_WRITE": ConcurrentWriteException,
    "DELTA_METADATA_CHANGED": MetadataChangedException,
    "DELTA_PROTOCOL_CHANGED": ProtocolChangedException,
    "DELTA_CONCURRENT_APPEND": ConcurrentAppendException,
    "DELTA_CONCURRENT_DELETE_READ": ConcurrentDeleteReadException,
    "DELTA_CONCURRENT_DELETE_DELETE": ConcurrentDeleteDeleteException,
    "DELTA_CONCURRENT_TRANSACTION": ConcurrentTransactionException,
}


_combined: dict[tuple[Any, ...], Any] = {}


def _both(raised: Any, conflict: Any) -> Any:
    """The class that is PySpark's and the conflict's; it goes by the conflict's name."""
    if (raised, conflict) not in _combined:
        described = {"__module__": conflict.__module__, "__doc__": conflict.__doc__}
        _combined[raised, conflict] = type(conflict.__name__, (raised, conflict), described)
    return _combined[raised, conflict]


def as_conflict(error: Any) -> Any:
    """The same error, of its conflict's class as well if it is a conflict."""
    if isinstance(error, PySparkException) and not isinstance(error, DeltaConcurrentModificationException):
        conflict = CONFLICTS.get((error.getCondition() or "").partition(".")[0])
        if conflict is not None:
            error.__class__ = _both(type(error), conflict)
    return error


def _naming_conflicts(convert: Callable[..., Any]) -> Callable[..., Any]:
    """PySpark's function that makes the error to raise of what the JVM or the server said, and then the conflict."""

    @functools.wraps(convert)
    def converted(*arguments: Any, **named: Any) -> Any:
        return as_conflict(convert(*arguments, **named))

    converted.names_conflicts = True  # type: ignore[attr-defined]
    return converted


def _install() -> None:
    """Have PySpark's two conversions name the conflicts, once."""
    for name in _MODULES:
        try:
            module = import_module(name)
        except ImportError:  # no gRPC: no session of Spark Connect; no py4j: no classic one
            continue
        convert = getattr(module, _CONVERT)
        if not hasattr(convert, "names_conflicts"):
            setattr(module, _CONVERT, _naming_conflicts(convert))
        client = sys.modules.get(_CONNECT_CLIENT)
        if client is not None and getattr(client, _CONVERT) is convert:
            setattr(client, _CONVERT, getattr(module, _CONVERT))


_install()
