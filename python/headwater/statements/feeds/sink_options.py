"""The options of ``writeStream``: which ones no batch can be written with, and which exclude each other."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.basics.errors import HeadwaterError, illegal_option
from headwater.statements import known_options
from headwater.statements.running.opening import Options

_TIME_TRAVEL = ("versionAsOf", "timestampAsOf")
_ASYNCHRONOUS, _ASYNCHRONOUS_ALLOWED = "asyncProgressTrackingEnabled", "_asyncProgressTrackingOverrideSinkSupportCheck"
_REPLACES = "a batch adds rows or, in output mode complete, replaces all"
_IDENTIFIED = "each batch is committed once, under the query's own id and the batch's number"
#: What only batch writes do, with the reason.
_OF_BATCH_WRITES = {
    "replaceWhere": _REPLACES,
    "replaceUsing": _REPLACES,
    "replaceOn": _REPLACES,
    "targetAlias": _REPLACES,
    "partitionOverwriteMode": _REPLACES,
    "txnAppId": _IDENTIFIED,
    "txnVersion": _IDENTIFIED,
}


def check_options(given: Mapping[str, str | None], mode: str, path: str) -> None:
    """Refuse options that no batch can be written with.

    :param given: the options by name; those that are None mean nothing.
    :param mode: the output mode.
    :raises HeadwaterError: ``HEADWATER_UNKNOWN_OPTION`` with the nearest name, ``HEADWATER_NOT_FOR_STREAMS``,
        ``DELTA_TIME_TRAVEL_WRITE_NOT_ALLOWED``, ``DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS``, ``DELTA_ILLEGAL_OPTION``.
    """
    known_options.check_options(given, "A streaming query that writes to a Delta table")
    options = Options(given)
    for name, reason in _OF_BATCH_WRITES.items():
        if name.lower() in options:
            raise HeadwaterError("HEADWATER_NOT_FOR_STREAMS", {"option": name, "reason": reason})
    if any(name.lower() in options for name in _TIME_TRAVEL):
        raise HeadwaterError("DELTA_TIME_TRAVEL_WRITE_NOT_ALLOWED", {"path": path})
    merges, overwrites = options.flag("mergeSchema"), options.flag("overwriteSchema")
    if merges and overwrites:
        raise HeadwaterError(
            "DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS", {"option1": "mergeSchema", "option2": "overwriteSchema"}
        )
    if overwrites and mode != "Complete":
        raise illegal_option(
            "overwriteSchema", "true", "needs outputMode('complete'); mergeSchema adds columns in the others"
        )
    if options.flag(_ASYNCHRONOUS) and not options.flag(_ASYNCHRONOUS_ALLOWED):
        # Spark also refuses it, but only after the table of a new query is created.
        raise illegal_option(
            _ASYNCHRONOUS, "true", "is not for a table: a batch would be in it before its offsets are in the checkpoint"
        )
