"""Statements for Delta tables that other systems have and Headwater does not.

Owns their recognition, by the words they begin with, in a text that Spark's parser refused, and the answer: what to use
instead. Whatever is none of them is a mistake in writing, of which Spark's own error says where it is.
"""

from __future__ import annotations

from typing import NamedTuple

from headwater.basics.errors import HeadwaterError
from headwater.sql.tokens import Pattern, text_of, tokens

_RIGHTS = "Grant permissions on the stored files, or give other users a view with the rows and columns they may see."


class _Statement(NamedTuple):
    pattern: Pattern
    name: str
    instead: str
    coming: bool  #: of the open format, and not built yet


def _of(begins: str, name: str, instead: str, *, coming: bool = False) -> _Statement:
    """``begins`` is a pattern in the notation of :mod:`headwater.sql.tokens`."""
    return _Statement(Pattern(begins), name, instead, coming)


_STATEMENTS = (
    _of(
        "(CREATE [OR REPLACE]|REPLACE) TABLE [IF NOT EXISTS] <table> [SHALLOW|DEEP] CLONE",
        "EXPLAIN of CLONE",
        "Run CREATE TABLE … CLONE itself: DROP TABLE undoes it, and SHALLOW CLONE copies no row.",
        coming=True,
    ),
    _of("CACHE SELECT", "CACHE SELECT", "Use CACHE TABLE <name> AS SELECT …, and query that name."),
    _of(
        "UNDROP (TABLE|MATERIALIZED VIEW|SCHEMA|VIEW|VOLUME) [WITH ID] <table>",
        "UNDROP",
        "Spark's catalog keeps no dropped tables. The files of an external table still exist: add it again with CREATE "
        "TABLE … USING delta LOCATION '…'. Those of a managed table were deleted with it.",
    ),
    _of("SHOW TABLES DROPPED", "SHOW TABLES DROPPED", "Spark's catalog keeps no dropped tables."),
    _of(
        "(CREATE|DROP) BLOOMFILTER INDEX (ON|FOR) [TABLE] <table>",
        "BLOOMFILTER INDEX",
        "CREATE INDEX name ON table (column) finds rows by keys. For other columns, data skipping uses statistics; the "
        "table property delta.dataSkippingStatsColumns names the columns.",
    ),
    _of(
        "ALTER TABLE <table> (SET|UNSET) MANAGED",
        "ALTER TABLE … SET MANAGED",
        "Use CREATE TABLE … USING delta AS SELECT, without LOCATION for a managed table and with it for an external "
        "one.",
    ),
    _of(
        "(ALTER TABLE <table> ... (SET|UNSET) TAGS|(SET|UNSET) TAG ON)",
        "tags",
        "Keep them as table properties with ALTER TABLE … SET TBLPROPERTIES.",
    ),
    _of("ALTER TABLE <table> (SET|DROP) ROW FILTER", "row filters", _RIGHTS),
    _of("ALTER TABLE <table> ALTER [COLUMN] <name> (SET|DROP) MASK", "column masks", _RIGHTS),
    _of(
        "ALTER CATALOG <table> (ENABLE|DISABLE|INHERIT) PREDICTIVE OPTIMIZATION",
        "PREDICTIVE OPTIMIZATION of a catalog",
        "Mark its schemas or tables: ALTER SCHEMA … or ALTER TABLE … ENABLE PREDICTIVE OPTIMIZATION. The command "
        "headwater maintain maintains those that are marked.",
    ),
    _of(
        "ALTER TABLE <table> CLUSTER BY AUTO",
        "CLUSTER BY AUTO",
        "Name the columns: ALTER TABLE … CLUSTER BY (…). MAINTAIN TABLE … proposes columns by the predicates that "
        "queries used; with CHOOSE CLUSTERING, it sets them.",
    ),
    _of(
        "(APPLY CHANGES INTO|AUTO CDC INTO|CREATE [OR REFRESH] FLOW <table> AS (APPLY CHANGES|AUTO CDC))",
        "APPLY CHANGES and AUTO CDC",
        "Use an upsert: INSERT INTO … WITH (idCols = 'id', sequenceBy = 'at', deleteWhen = 'removed') SELECT …, the "
        "same options of a batch or streaming write, or DeltaTable.upsert; storedAs = 'scd2' keeps the history. A "
        "pipeline that spark-pipelines runs has create_auto_cdc_flow.",
    ),
    _of(
        "CREATE [OR (REFRESH|REPLACE)] [TEMPORARY|PRIVATE] [INCREMENTAL|STREAMING] LIVE (TABLE|VIEW)",
        "CREATE LIVE TABLE",
        "Use CREATE TABLE … USING delta AS SELECT, or CREATE VIEW. A pipeline that spark-pipelines runs has CREATE "
        "STREAMING TABLE, CREATE MATERIALIZED VIEW and CREATE TEMPORARY VIEW.",
    ),
    _of(
        "CREATE OR REFRESH [PRIVATE] (STREAMING TABLE|MATERIALIZED VIEW)",
        "CREATE OR REFRESH",
        "Use CREATE OR REPLACE TABLE … USING delta AS SELECT. A pipeline that spark-pipelines runs has CREATE "
        "STREAMING TABLE and CREATE MATERIALIZED VIEW, and refreshes them at each run.",
    ),
    _of("SYNC (SCHEMA|TABLE)", "SYNC", "Use CREATE TABLE … USING delta LOCATION '…' for each table."),
    _of(
        "(CREATE|ALTER|DROP|DESCRIBE) (SHARE|RECIPIENT)",
        "Delta Sharing",
        "Use a sharing server; it reads tables at their location.",
    ),
)
#: Characters. Longer texts are generated, and to take one of megabytes apart would hold up all other calls for seconds.
_LONGEST = 1 << 16
_EXPLAIN = Pattern("EXPLAIN [EXTENDED|FORMATTED|CODEGEN|COST|LOGICAL]")


def refuse(text: str) -> None:
    """Refuse a text that Spark's parser refused, if it is a statement of another system.

    :raises HeadwaterError: ``HEADWATER_STATEMENT_NOT_SUPPORTED`` for one that is planned, and
        ``DELTA_OPERATION_NOT_ALLOWED`` for one that no engine of the open format has.
    """
    found = tokens(text) if len(text) <= _LONGEST else None
    if found is None:
        return
    if explained := _EXPLAIN.match(found):
        found = found[explained.end :]
    for known in _STATEMENTS:
        match = known.pattern.match(found)
        if match is None:
            continue
        table = "a table" if match.table is None else text_of(text, found, *match.table).strip("'\"")
        instead = known.instead.replace("<table>", table)
        if known.coming:
            raise HeadwaterError(
                "HEADWATER_STATEMENT_NOT_SUPPORTED", {"statement": known.name, "tableName": table, "instead": instead}
            )
        raise HeadwaterError("DELTA_OPERATION_NOT_ALLOWED", {"operation": known.name, "hint": instead})
