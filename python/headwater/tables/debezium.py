"""Changelogs as events that other systems read: Debezium JSON with keys, as a sink of Kafka writes them.

Owns the form of the events and their order. Values are as Flink's ``debezium-json`` format reads them: decimals as
numbers, binary values in base64, dates as ``2024-02-29``, timestamps in UTC as ``2024-02-29 12:00:00.000000Z``, those
without a zone as the same without the ``Z``, structs and maps as objects; null fields are written. Promise: the events
of a key are in one partition of the result and in the order in which they apply.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater.tables.errors import DeltaTableError
from headwater.tables.names import literal, quote

#: The columns of a changelog that are not the table's.
OWN = ("_change_type", "_commit_version", "_commit_timestamp", "_row_kind", "_row_kind_code", "_ordinal")
_OPTIONS = (
    "map('timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS\\'Z\\'', "
    "'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'timeZone', 'UTC', 'ignoreNullFields', 'false')"
)


def debezium_events(
    changes: DataFrame, keys: Sequence[str] = (), *, table: str = "", tombstones: bool = True
) -> DataFrame:
    """The events of a changelog, ready for a sink: ``key`` and ``value``, JSON texts.

    A value is ``{"before": …, "after": …, "op": "c"|"u"|"d", "source": {…}, "ts_ms": …}``; ``ts_ms`` is when the change
    was committed, in milliseconds since the epoch. An update whose images are not known as a pair, or that changes the
    key, becomes a ``d`` and a ``c``.

    :param changes: rows of ``table_changelog``, of the option ``readChangelog``, or a micro-batch of them in
        ``foreachBatch``.
    :param keys: the columns of the key. Without keys, ``key`` is null and all events are in one partition.
    :param table: the name that the events give as their source.
    :param tombstones: whether each ``d`` is followed by its key with a null value, which compacted topics and
        ``upsert-kafka`` take for a deletion; only with keys.
    :returns: ``key``, ``value``, ``_commit_version`` and ``_ordinal``, for each partition in order.
    """
    columns = [name for name in changes.columns if name not in OWN]
    found = {name.lower(): name for name in columns}
    for key in keys:
        if key.lower() not in found:
            raise DeltaTableError(
                "HEADWATER_KEY_COLUMN_NOT_FOUND",
                {"columnName": key, "tableName": table or "of the changelog", "suggestion": ", ".join(columns)},
            )
    names = [quote(found[key.lower()]) for key in keys]
    row = f"struct({', '.join(map(quote, columns))})"
    images = changes.selectExpr(
        "_commit_version",
        "_commit_timestamp",
        # The two images of a pair have ordinals that follow each other.
        "IF(_row_kind = '+U', _ordinal - 1, _ordinal) AS _ordinal",
        f"IF(_row_kind IN ('-U', '-D'), {row}, NULL) AS before",
        f"IF(_row_kind IN ('+U', '+I'), {row}, NULL) AS after",
    )
    by_change = "_commit_version", "_commit_timestamp", "_ordinal"
    pairs = images.groupBy(*by_change).agg(
        F.expr("any_value(before, true)").alias("before"), F.expr("any_value(after, true)").alias("after")
    )
    split = "array(named_struct('before', before, 'after', after))"
    if names:
        moved = " OR ".join(f"NOT (before.{name} <=> after.{name})" for name in names)
        halves = "array(named_struct('before', before, 'after', NULL), named_struct('before', NULL, 'after', after))"
        split = f"IF(before IS NOT NULL AND after IS NOT NULL AND ({moved}), {halves}, {split})"
    events = pairs.selectExpr(*by_change, f"posexplode({split}) AS (_half, _event)").selectExpr(
        *by_change, "_half", "_event.before AS before", "_event.after AS after"
    )
    source = (
        f"struct('headwater' AS connector, {literal(table)} AS `table`, unix_millis(_commit_timestamp) AS ts_ms, "
        "_commit_version AS commit_version, _ordinal AS ordinal)"
    )
    op = "CASE WHEN before IS NULL THEN 'c' WHEN after IS NULL THEN 'd' ELSE 'u' END"
    members = f"before, after, {source} AS source, {op} AS op, unix_millis(_commit_timestamp) AS ts_ms"
    value = f"to_json(struct({members}), {_OPTIONS})"
    key = "CAST(NULL AS STRING)"
    if names:
        fields = ", ".join(f"coalesce(after.{name}, before.{name}) AS {name}" for name in names)
        key = f"to_json(struct({fields}), {_OPTIONS})"
    sent = "array(value, NULL)" if names and tombstones else "array(value)"
    ready = events.selectExpr(
        f"{key} AS key", f"{value} AS value", "_commit_version", "_ordinal", "_half", "after IS NULL AS _is_delete"
    ).selectExpr(
        "key",
        "_commit_version",
        "_ordinal",
        "_half",
        f"posexplode(IF(_is_delete, {sent}, array(value))) AS (_part, value)",
    )
    placed = ready.repartition("key") if names else ready.coalesce(1)
    ordered = placed.sortWithinPartitions("_commit_version", "_ordinal", "_half", "_part")
    return ordered.select("key", "value", "_commit_version", "_ordinal")
