"""Failed Spark jobs: Spark's failure becomes an error that names the table, its version and what to do.

Owns the reading of Spark's failures: a data file that is missing or damaged, a file system that refuses a write,
credentials that expired. Spark names the file; only the handler knows which table and version it belongs to. Any other
failure stays Spark's own error.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import NoReturn
from urllib.parse import unquote

from headwater.basics.errors import HeadwaterError, access_failed
from headwater.bridge.calls import describe_error
from headwater.bridge.hadoop_files import failure_of
from headwater.bridge.messages import ErrorDescription
from headwater.bridge.messages.failures import ExplainFailureRequest, JobCause, NoFileSystemRequest, TableRead
from headwater.bridge.statement import Statement
from headwater.catalogs.unity.vended import tells_of_expiry
from headwater.statements.calls import reads
from headwater.stores.interface import SCHEME
from headwater.stores.schemes import connector_of

#: Failures of the operating system that writers meet, by its own words: Java has no numbers for them.
_OF_THE_SYSTEM = {
    os.strerror(number).lower(): number
    for number in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.EACCES)
}
#: HDFS says the same by the class of its exception.
_QUOTAS = ("DSQuotaExceededException", "NSQuotaExceededException", "QuotaExceededException")
#: Where files of a table are opened, written and closed; Spark's own files, of shuffles and the like, are elsewhere.
_WRITERS = (
    "org.apache.parquet.hadoop.",
    "org.apache.spark.sql.headwater.write.HeadwaterCommitProtocol",
    "org.apache.spark.sql.headwater.write.CopyJob",
)
#: Errors of a class path that does not fit together, such as a connector made for another Hadoop.
_OF_LINKING = (
    "AbstractMethodError",
    "ClassNotFoundException",
    "ExceptionInInitializerError",
    "IllegalAccessError",
    "IncompatibleClassChangeError",
    "LinkageError",
    "NoClassDefFoundError",
    "NoSuchFieldError",
    "NoSuchMethodError",
    "UnsatisfiedLinkError",
    "UnsupportedClassVersionError",
    "VerifyError",
)
_LONGEST_REASON = 400


@reads
def explain_failure(request: ExplainFailureRequest, statement: Statement) -> ErrorDescription | None:
    """The error to show in place of Spark's, described as every error is; None where Spark's own error says enough."""
    error = _meaning(request.causes, request.tables)
    return None if error is None else describe_error(error)


@reads
def no_file_system(request: NoFileSystemRequest, statement: Statement) -> NoReturn:
    """Refuse a path that Hadoop has no working file system for.

    The JVM asks for this error, where it raises others itself: what a connector's failure means, and which connector a
    scheme needs, is known here.

    :raises HeadwaterError: ``HEADWATER_FILE_SYSTEM_NOT_USABLE``.
    """
    path = request.table
    reason = failure_of(path, request.causes).strerror
    scheme = path.partition(":")[0].lower()
    raise HeadwaterError(
        "HEADWATER_FILE_SYSTEM_NOT_USABLE", {"path": path, "reason": reason, "connector": connector_of(scheme)}
    )


def _meaning(causes: Sequence[JobCause], tables: Sequence[TableRead]) -> HeadwaterError | None:
    for cause in causes:
        condition = cause.condition or ""
        is_of_a_file = condition.startswith("FAILED_READ_FILE") or condition == "TASK_WRITE_FAILED"
        if is_of_a_file and (expired := [each for each in causes if tells_of_expiry(each.message or "")]):
            return _expired(_local(cause.parameters.get("path") or ""), expired[0], tables)
        if condition.startswith("FAILED_READ_FILE"):
            return _unreadable(condition, _local(cause.parameters.get("path") or ""), causes, tables)
        if condition == "TASK_WRITE_FAILED":
            return _unwritable(_local(cause.parameters.get("path") or ""), causes)
    return None


def _expired(path: str, cause: JobCause, tables: Sequence[TableRead]) -> HeadwaterError:
    table = next((t.path for t in tables if path.startswith(f"{t.path}/")), path)
    return HeadwaterError("HEADWATER_CREDENTIALS_EXPIRED", {"tableLocation": table, "reason": _words(cause)})


def _unreadable(
    condition: str, file: str, causes: Sequence[JobCause], tables: Sequence[TableRead]
) -> HeadwaterError | None:
    table, version = next(((t.path, t.version) for t in tables if file.startswith(f"{t.path}/")), (None, None))
    if table is None:  # a file of the source, which is no table of ours
        return None
    where = {"file": file, "version": version, "tableLocation": table}
    if condition.endswith("FILE_NOT_EXIST"):
        return HeadwaterError("DELTA_FILE_NOT_FOUND_DETAILED", where)
    if any((cause.condition or "").partition(".")[0] != "FAILED_READ_FILE" for cause in _conditions(causes)):
        return None  # such as a value that an expression does not accept: the file is not at fault
    if any(cause.class_name.rpartition(".")[2] in _OF_LINKING for cause in causes):
        return None
    return HeadwaterError("HEADWATER_DATA_FILE_DAMAGED", {**where, "reason": _words(causes[-1])})


def _conditions(causes: Sequence[JobCause]) -> list[JobCause]:
    """The causes that say what they are, from the one on that names the file."""
    named = [cause for cause in causes if cause.condition]
    first = next(i for i, cause in enumerate(named) if (cause.condition or "").startswith("FAILED_READ_FILE"))
    return named[first:]


def _unwritable(table: str, causes: Sequence[JobCause]) -> HeadwaterError | None:
    for cause in reversed(causes):
        message = (cause.message or "").lower()
        number = next((n for words, n in _OF_THE_SYSTEM.items() if words in message), None)
        if cause.class_name.rpartition(".")[2] in _QUOTAS:
            number = errno.EDQUOT
        if number is not None and any(frame.startswith(_WRITERS) for c in causes for frame in c.at):
            return access_failed(OSError(number, os.strerror(number), table))
    return None


def _local(path: str) -> str:
    """A path as tables have it: plain where it is local, a URI elsewhere."""
    scheme = SCHEME.match(path)
    if scheme is None or scheme.group(1).lower() != "file":
        return path
    return "/" + unquote(path[scheme.end() :]).lstrip("/")


def _words(cause: JobCause) -> str:
    message = " ".join((cause.message or "").split())
    kind = cause.class_name.rpartition(".")[2]
    return f"{kind}: {message}"[:_LONGEST_REASON] if message else kind
