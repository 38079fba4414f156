"""Statements that other systems have for Delta tables and this one has not.

Owns their recognition, by the words they begin with, in a text that Spark's parser refused, and the answer: what to use
instead. Whatever is none of them is a mistake in writing, of which Spark's own error says where it is.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from headwater.errors import HeadwaterError
from headwater.sql.text import without_leading_comments

_PART = r"(?:`(?:[^`]|``)*`|[\w$]+)"
_TABLE = rf"(?P<table>{_PART}(?:\s*\.\s*{_PART})*|'[^']*'|\"[^\"]*\")"
_ANOTHER_ENGINE = (
    "Another engine that writes Delta tables, such as Delta Lake for Spark or delta-rs, can do it meanwhile."
)
_RIGHTS = "Give rights where the files are stored, or show others a view with the rows and columns they may see."


class _Statement(NamedTuple):
    pattern: re.Pattern[str]
    name: str
    instead: str
    coming: bool  #: of the open format, and not built yet


def _of(words: str, name: str, instead: str, *, coming: bool = False) -> _Statement:
    """``words`` is a pattern in which white space stands for any; it must match where a statement begins."""
    return _Statement(re.compile(re.sub(r"\s+", r"\\s+", words), re.IGNORECASE | re.DOTALL), name, instead, coming)


_STATEMENTS = (
    _of(rf"OPTIMIZE {_TABLE}", "OPTIMIZE", _ANOTHER_ENGINE, coming=True),
    _of(rf"VACUUM {_TABLE}", "VACUUM", _ANOTHER_ENGINE, coming=True),
    _of(
        rf"RESTORE (?:TABLE )?{_TABLE} TO",
        "RESTORE",
        "To bring an older version back, run INSERT OVERWRITE <table> SELECT * FROM <table> VERSION AS OF <version>.",
        coming=True,
    ),
    _of(
        rf"CONVERT TO DELTA {_TABLE}",
        "CONVERT TO DELTA",
        "Use CREATE TABLE … USING delta AS SELECT * FROM <table>, which copies its rows.",
        coming=True,
    ),
    _of(rf"GENERATE \w+ FOR TABLE {_TABLE}", "GENERATE", _ANOTHER_ENGINE, coming=True),
    _of(rf"REORG TABLE {_TABLE}", "REORG TABLE", _ANOTHER_ENGINE, coming=True),
    _of(
        rf"(?:CREATE(?: OR REPLACE)?|REPLACE) TABLE (?:IF NOT EXISTS )?{_TABLE} (?:SHALLOW |DEEP )?CLONE\b",
        "CLONE",
        "Use CREATE TABLE … USING delta AS SELECT, which copies the rows, or CREATE TABLE … LIKE, which copies none.",
        coming=True,
    ),
    _of(rf"ALTER TABLE {_TABLE} DROP FEATURE\b", "ALTER TABLE … DROP FEATURE", _ANOTHER_ENGINE, coming=True),
    _of(
        rf"COPY INTO {_TABLE}",
        "COPY INTO",
        "Use INSERT INTO <table> SELECT … FROM parquet.`/files`, or csv, json and so on. A write with the options "
        "txnAppId and txnVersion is applied once, even if it is repeated.",
    ),
    _of(
        rf"FSCK REPAIR TABLE {_TABLE}",
        "FSCK REPAIR TABLE",
        "Set spark.sql.files.ignoreMissingFiles=true to read the table without its missing files, and write the rows "
        "that are left to a new table.",
    ),
    _of(r"CACHE SELECT\b", "CACHE SELECT", "Use CACHE TABLE <name> AS SELECT …, and query that name."),
    _of(
        rf"UNDROP (?:TABLE|MATERIALIZED VIEW|SCHEMA|VIEW|VOLUME) (?:WITH ID )?{_TABLE}",
        "UNDROP",
        "Spark's catalog keeps no dropped tables. The files of an external table still exist: add it again with CREATE "
        "TABLE … USING delta LOCATION '…'. Those of a managed table were deleted with it.",
    ),
    _of(r"SHOW TABLES DROPPED\b", "SHOW TABLES DROPPED", "Spark's catalog keeps no dropped tables."),
    _of(
        rf"(?:CREATE|DROP) BLOOMFILTER INDEX (?:ON|FOR) (?:TABLE )?{_TABLE}",
        "BLOOMFILTER INDEX",
        "Data skipping uses the statistics of columns; the table property delta.dataSkippingStatsColumns names the "
        "columns.",
    ),
    _of(
        rf"ALTER TABLE {_TABLE} (?:SET|UNSET) MANAGED\b",
        "ALTER TABLE … SET MANAGED",
        "Use CREATE TABLE … USING delta AS SELECT, without LOCATION for a managed table and with it for an external "
        "one.",
    ),
    _of(
        rf"(?:ALTER TABLE {_TABLE} (?:.* )?(?:SET|UNSET) TAGS\b|(?:SET|UNSET) TAG ON )",
        "tags",
        "Keep them as table properties with ALTER TABLE … SET TBLPROPERTIES.",
    ),
    _of(rf"ALTER TABLE {_TABLE} (?:SET|DROP) ROW FILTER\b", "row filters", _RIGHTS),
    _of(rf"ALTER TABLE {_TABLE} ALTER (?:COLUMN )?{_PART} (?:SET|DROP) MASK\b", "column masks", _RIGHTS),
    _of(
        rf"ALTER (?:TABLE|SCHEMA|DATABASE|CATALOG) {_TABLE} (?:ENABLE|DISABLE|INHERIT) PREDICTIVE OPTIMIZATION\b",
        "predictive optimization",
        "No service rewrites tables in the background; schedule the statements that do.",
    ),
    _of(
        rf"ALTER TABLE {_TABLE} CLUSTER BY AUTO\b",
        "CLUSTER BY AUTO",
        "Name the columns: ALTER TABLE … CLUSTER BY (…).",
    ),
    _of(
        rf"ANALYZE TABLE {_TABLE} COMPUTE DELTA STATISTICS\b",
        "ANALYZE TABLE … COMPUTE DELTA STATISTICS",
        "Writes store the statistics of each file; INSERT OVERWRITE of a partition, or of the table, writes them "
        "again.",
    ),
    _of(
        rf"INSERT INTO (?:TABLE )?{_TABLE} (?:BY NAME )?(?:\(.*?\) )?(?:AS {_PART} )?REPLACE (?:USING|ON) ?\(",
        "INSERT … REPLACE USING and REPLACE ON",
        "Use MERGE INTO, or INSERT INTO … REPLACE WHERE with a condition.",
    ),
    _of(
        r"(?:APPLY CHANGES INTO|AUTO CDC INTO|CREATE (?:OR REFRESH )?FLOW \S+ AS (?:APPLY CHANGES|AUTO CDC))\b",
        "APPLY CHANGES and AUTO CDC",
        "Use MERGE INTO with the newest change of each key as its source.",
    ),
    _of(
        r"CREATE (?:OR (?:REFRESH|REPLACE) )?(?:TEMPORARY |PRIVATE )?(?:INCREMENTAL |STREAMING )?LIVE (?:TABLE|VIEW)\b",
        "CREATE LIVE TABLE",
        "Use CREATE TABLE … USING delta AS SELECT, or CREATE VIEW.",
    ),
    _of(
        r"CREATE OR REFRESH (?:PRIVATE )?(?:STREAMING TABLE|MATERIALIZED VIEW)\b",
        "CREATE OR REFRESH",
        "Use CREATE OR REPLACE TABLE … USING delta AS SELECT.",
    ),
    _of(r"SYNC (?:SCHEMA|TABLE)\b", "SYNC", "Use CREATE TABLE … USING delta LOCATION '…' for each table."),
    _of(
        r"(?:CREATE|ALTER|DROP|DESCRIBE) (?:SHARE|RECIPIENT)\b",
        "Delta Sharing",
        "Use a sharing server; it reads tables where they are stored.",
    ),
)
_EXPLAIN = re.compile(r"EXPLAIN\s+(?:(?:EXTENDED|FORMATTED|CODEGEN|COST|LOGICAL)\s+)?", re.IGNORECASE)


def refuse(text: str) -> None:
    """Refuse a text that Spark's parser refused, if it is a statement of another system.

    :raises HeadwaterError: ``HEADWATER_STATEMENT_NOT_SUPPORTED`` for one that is planned, and
        ``DELTA_OPERATION_NOT_ALLOWED`` for one that no engine of the open format has.
    """
    text = without_leading_comments(text)
    if explained := _EXPLAIN.match(text):
        text = without_leading_comments(text[explained.end() :])
    for known in _STATEMENTS:
        found = known.pattern.match(text)
        if found is None:
            continue
        table = (found.groupdict().get("table") or "a table").strip("'\"")
        instead = known.instead.replace("<table>", table)
        if known.coming:
            raise HeadwaterError(
                "HEADWATER_STATEMENT_NOT_SUPPORTED", {"statement": known.name, "tableName": table, "instead": instead}
            )
        raise HeadwaterError("DELTA_OPERATION_NOT_ALLOWED", {"operation": known.name, "hint": instead})
