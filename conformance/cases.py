"""The cases: tables, each with the statements that make it and the rows that it must have then.

The rows are Python values that stand here, or that follow from those given to the table by the sentence of the case; no
engine is asked for them. ``covers`` names the table features, data types, kinds of checkpoint and statements that the
board has a cell for because of the case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from conformance import rows as canon
from conformance.steps import (
    AddColumn,
    AddConstraint,
    Append,
    Checkpoint,
    CleanLog,
    CompactLog,
    Delete,
    DeleteChecksums,
    Optimize,
    Overwrite,
    Restore,
    Row,
    Setting,
    Sql,
    Step,
    Update,
    Upsert,
)
from conformance.types import TYPES, Column, Type, columns

FEATURE, TYPE, NESTED, PARTITION, CHECKPOINT, STATEMENT, CHANGES, ICEBERG = (
    *("table features", "data types", "types in arrays, maps and structs", "types of partition columns"),
    *("checkpoints and logs", "statements", "change data feed", "Iceberg metadata"),
)
#: What of a table is read: its rows, those of its change data feed, or those that its Iceberg metadata has.
ROWS, FEED, METADATA = "rows", "changes", "iceberg"


@dataclass(frozen=True)
class Case:
    """A table.

    :param ddl: its columns as SQL declares them.
    :param steps: what is done to it after it was created.
    :param expected: its rows then, in the columns ``shows``, or else those of ``ddl``; if not given, all rows that
        were appended.
    :param more: a row that an engine which did not make the table appends, in the columns ``data``, and ``added``, the
        rows that the table has more then. The first row that was appended, if not given.
    :param data: the columns that rows are given for; all if not given.
    :param plain: whether an engine without SQL can create the table, from types, partitions and properties.
    :param grows: whether rows can be appended.
    """

    name: str
    group: str
    ddl: str
    steps: tuple[Step, ...]
    covers: tuple[str, ...] = ()
    expected: tuple[Row, ...] | None = None
    shows: str | None = None
    data: str | None = None
    more: Row | None = None
    added: tuple[Row, ...] | None = None
    partitioned: tuple[str, ...] = ()
    clustered: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    create: bool = True
    plain: bool = True
    grows: bool = True
    reads: str = ROWS

    @property
    def given(self) -> dict[str, Column]:
        """The columns that rows are given for."""
        return columns(self.data or self.ddl)

    @property
    def shown(self) -> dict[str, Column]:
        """The columns that a reader must find."""
        return columns(self.shows or self.ddl)

    def columns_of(self, step: Step) -> dict[str, Column]:
        """The columns that a step's rows are given for."""
        return columns(step.data) if isinstance(step, Append) and step.data else self.given

    def table(self, step: Step) -> pa.Table:
        """The rows of a step as they are given to engines; none if the step has none."""
        return _arrow(self.columns_of(step), getattr(step, "rows", ()))

    def truth(self, *, grown: bool = False) -> canon.Rows:
        """The rows that a reader must find, in their canonical form.

        :param grown: whether ``more`` was appended.
        """
        shown = self.shown
        rows = self.appended_rows if self.expected is None else self.expected
        if grown:
            rows += (self.appended,) if self.added is None else self.added
        variants = [name for name, column in shown.items() if column.is_variant]
        return canon.canonical(_arrow(shown, rows), variants)

    @property
    def appended_rows(self) -> tuple[Row, ...]:
        """All rows that its steps append."""
        return tuple(row for step in self.steps if isinstance(step, Append) for row in step.rows)

    @property
    def appended(self) -> Row:
        """The row that an engine appends which did not make the table."""
        return self.more or next(step.rows[0] for step in self.steps if isinstance(step, (Append, Overwrite)))

    @property
    def adding(self) -> Append:
        """The step that appends it, in the columns that the table has then."""
        return Append((self.appended,), self.data or self.shows or self.ddl)


def _arrow(columns: Mapping[str, Column], rows: tuple[Row, ...]) -> pa.Table:
    schema = pa.schema([(name, column.arrow) for name, column in columns.items()])
    values = [pa.array([row[number] for row in rows], column.arrow) for number, column in enumerate(columns.values())]
    return pa.Table.from_arrays(values, schema=schema)


_AB = "a INT, b STRING"
_THREE = ((1, "x"), (2, "y"), (3, None))
_MORE = ((4, "z"), (5, "x"))


def _feature(
    name: str,
    *steps: Step,
    ddl: str = _AB,
    rows: tuple[Row, ...] = _THREE,
    covers: tuple[str, ...] | None = None,
    properties: Mapping[str, Any] | None = None,
    **more: Any,
) -> Case:
    """A table with a feature, its rows appended first."""
    return Case(
        name=name,
        group=more.pop("group", FEATURE),
        ddl=ddl,
        steps=(Append(rows, more.get("data")), *steps) if rows else steps,
        covers=(name,) if covers is None else covers,
        properties=MappingProxyType({key: str(value) for key, value in (properties or {}).items()}),
        **more,
    )


_VECTORS = {"delta.enableDeletionVectors": "true"}
_BY_NAME = {"delta.columnMapping.mode": "name"}
_EVERY_TWO = {"delta.checkpointInterval": "2"}


def _supported(feature: str) -> dict[str, str]:
    return {f"delta.feature.{feature}": "supported"}


_FEATURES = (
    _feature("no feature", covers=()),
    _feature("appendOnly", properties={"delta.appendOnly": "true"}),
    _feature("invariants", ddl="a INT NOT NULL, b STRING", plain=False),
    _feature("checkConstraints", AddConstraint("positive", "a > 0")),
    _feature(
        "changeDataFeed",
        Update("b", "'changed'", "a = 1"),
        Delete("a = 2"),
        properties={"delta.enableChangeDataFeed": "true"},
        expected=((1, "changed"), (3, None)),
    ),
    _feature(
        "generatedColumns",
        ddl="a INT, b STRING, c INT GENERATED ALWAYS AS (a * 2)",
        data=_AB,
        expected=tuple((a, b, 2 * a) for a, b in _THREE),
        added=((1, "x", 2),),
        plain=False,
    ),
    _feature("columnMapping by name", properties=_BY_NAME, covers=("columnMapping",)),
    _feature(
        "columnMapping by name, odd names and partitions",
        ddl="`a b` INT, `p,q` STRING, `x;y=z` INT",
        rows=((1, "x", 7), (2, None, 8), (3, "ü/%", None)),
        partitioned=("p,q",),
        properties=_BY_NAME,
        covers=("columnMapping",),
    ),
    _feature(
        "columnMapping by name, renamed and dropped columns",
        Sql("ALTER TABLE {t} RENAME COLUMN a TO c"),
        Sql("ALTER TABLE {t} DROP COLUMN b"),
        Append(((4,),), "c INT"),
        properties=_BY_NAME,
        shows="c INT",
        expected=((1,), (2,), (3,), (4,)),
        more=(1,),
        covers=("columnMapping",),
    ),
    _feature("columnMapping by id", properties={"delta.columnMapping.mode": "id"}, covers=("columnMapping",)),
    _feature(
        "columnMapping by id, partitions",
        properties={"delta.columnMapping.mode": "id"},
        partitioned=("b",),
        covers=("columnMapping",),
    ),
    _feature(
        "columnMapping by name, deletion vectors",
        Delete("a = 2"),
        properties={**_BY_NAME, **_VECTORS},
        expected=(_THREE[0], _THREE[2]),
        covers=("columnMapping", "deletionVectors"),
    ),
    _feature(
        "identityColumns",
        ddl="id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 10 INCREMENT BY 5), b STRING",
        data="b STRING",
        rows=(("x",), ("y",)),
        shows="b STRING",
        expected=(("x",), ("y",)),
        plain=False,
    ),
    _feature(
        "allowColumnDefaults",
        ddl="a INT, b STRING DEFAULT 'dd'",
        data="a INT",
        rows=((1,), (2,)),
        expected=((1, "dd"), (2, "dd")),
        added=((1, "dd"),),
        properties=_supported("allowColumnDefaults"),
        plain=False,
    ),
    _feature(
        "deletionVectors",
        Append(_MORE),
        Delete("a % 2 = 0"),
        properties=_VECTORS,
        expected=((1, "x"), (3, None), (5, "x")),
    ),
    _feature(
        "deletionVectors, 1,000 rows",
        Delete("a % 3 = 0"),
        Update("b", "'changed'", "a = 4"),
        rows=tuple((a, "x") for a in range(1000)),
        properties=_VECTORS,
        expected=tuple((a, "changed" if a == 4 else "x") for a in range(1000) if a % 3),
        covers=("deletionVectors",),
        more=(1, "x"),
    ),
    _feature(
        "rowTracking",
        Append(_MORE),
        Update("b", "'changed'", "a = 4"),
        properties={"delta.enableRowTracking": "true"},
        expected=(*_THREE, (4, "changed"), (5, "x")),
    ),
    _feature("timestampNtz", ddl="a INT, v TIMESTAMP_NTZ", rows=tuple(enumerate(TYPES["timestamp_ntz"].values))),
    _feature("domainMetadata", properties=_supported("domainMetadata")),
    _feature(
        "v2Checkpoint",
        Append(_MORE),
        Append(_MORE),
        CleanLog(),
        properties={"delta.checkpointPolicy": "v2", **_EVERY_TWO},
    ),
    _feature("icebergCompatV1", properties={"delta.enableIcebergCompatV1": "true", **_BY_NAME}),
    _feature("icebergCompatV2", properties={"delta.enableIcebergCompatV2": "true", **_BY_NAME}),
    _feature(
        "icebergCompatV3",
        properties={"delta.enableIcebergCompatV3": "true", **_BY_NAME, "delta.enableRowTracking": "true"},
    ),
    _feature("clustering", Append(_MORE), Optimize(), clustered=("a",), plain=False),
    _feature("vacuumProtocolCheck", properties=_supported("vacuumProtocolCheck")),
    _feature("inCommitTimestamp", Append(_MORE), properties={"delta.enableInCommitTimestamps": "true"}),
    *(
        _feature(
            feature,
            Sql("ALTER TABLE {t} ALTER COLUMN a TYPE INT"),
            Sql("ALTER TABLE {t} ALTER COLUMN f TYPE DOUBLE"),
            Append(((100_000, 0.1),), "a INT, f DOUBLE"),
            ddl="a TINYINT, f FLOAT",
            shows="a INT, f DOUBLE",
            rows=((1, 1.5), (2, -0.5)),
            expected=((1, 1.5), (2, -0.5), (100_000, 0.1)),
            more=(1, 1.5),
            properties={"delta.enableTypeWidening": "true", **_supported(feature)},
        )
        for feature in ("typeWidening", "typeWidening-preview")
    ),
    *(
        _feature(
            feature,
            ddl="a INT, v VARIANT",
            rows=((*enumerate(TYPES["variant"].values), (9, None))),
            properties={**_supported(feature), **switches},
            plain=False,
        )
        for feature, switches in (
            ("variantType", {}),
            ("variantType-preview", {}),
            ("variantShredding", {"delta.enableVariantShredding": "true"}),
            ("variantShredding-preview", {"delta.enableVariantShredding": "true"}),
        )
    ),
    *(
        _feature(
            feature,
            ddl="a INT, v GEOMETRY(4326)",
            rows=((1, TYPES["geometry"].values[0]), (2, None)),
            properties=_supported(feature),
            plain=False,
        )
        for feature in ("geospatial", "geospatial-dev")
    ),
    _feature(
        "checkpointProtection",
        Delete("a = 1"),
        Sql("ALTER TABLE {t} DROP FEATURE deletionVectors"),
        properties=_VECTORS,
        expected=(_THREE[1], _THREE[2]),
    ),
    _feature(
        "materializePartitionColumns",
        partitioned=("b",),
        properties={"delta.enableMaterializePartitionColumnsFeature": "true"},
    ),
)

#: Features that no case has a table of, and why.
NOT_RUN = {
    "timestampWithoutTimezone": "An older name of `timestampNtz`: Headwater reads it and writes the newer one, and no "
    "engine of the board writes the older one.",
    "catalogManaged": "Such a table is read and written by its name in a catalog's server, not by its path.",
    "coordinatedCommits-preview": "A preview that `catalogManaged` has replaced; Headwater reads such tables and does "
    "not write them.",
}


def _of_type(kind: Type) -> Case:
    rows = (*((number, value) for number, value in enumerate(kind.values)), (99, None))
    return Case(
        name=kind.name,
        group=TYPE,
        ddl=f"id INT, v {kind.sql}",
        steps=(Append(rows),),
        covers=(kind.name,),
        plain=kind.read == "{}" and kind.name not in ("char", "varchar"),
    )


def _partitioned_by(kind: Type) -> Case:
    """An empty value of a partition column is null, as the protocol has it."""
    # A folder has the name of the value, which binary values are not always.
    case = _of_type(replace(kind, values=(b"abc", b"")) if kind.name == "binary" else kind)
    return replace(
        case,
        name=f"partitioned by {kind.name}",
        group=PARTITION,
        partitioned=("v",),
        expected=tuple((number, None if value in ("", b"") else value) for number, value in case.appended_rows),
    )


def _nested(kind: Type) -> Case:
    """One table with the type as elements, as values of a map and as a field."""
    values = kind.values
    return Case(
        name=f"{kind.name}, nested",
        group=NESTED,
        ddl=f"id INT, ar ARRAY<{kind.sql}>, m MAP<STRING, {kind.sql}>, st STRUCT<x: {kind.sql}>",
        steps=(
            Append(((1, [*values, None], [("k", values[0]), ("n", None)], {"x": values[-1]}), (2, None, None, None))),
        ),
        covers=(kind.name,),
    )


_TYPES = (
    *(_of_type(kind) for kind in TYPES.values()),
    *(_nested(kind) for kind in TYPES.values() if kind.nests and kind.read == "{}"),
    *(_partitioned_by(kind) for kind in TYPES.values() if kind.partition),
)


def _log(name: str, *steps: Step, **more: Any) -> Case:
    given = more.pop("properties", _EVERY_TWO)
    return _feature(name, *steps, group=CHECKPOINT, properties=given, **more)


_TWICE = (Append(_MORE), Append(((6, "q"),)))
_PARTS = Setting("spark.databricks.delta.checkpoint.partSize", "2")

_CHECKPOINTS = (
    _log("commits only", *_TWICE, properties={"delta.checkpointInterval": "100"}),
    _log("commits only, no checksums", *_TWICE, DeleteChecksums(), properties={"delta.checkpointInterval": "100"}),
    _log("classic checkpoint", *_TWICE, Checkpoint(), CleanLog()),
    _log("classic checkpoint, no checksums", *_TWICE, Checkpoint(), CleanLog(), DeleteChecksums()),
    _log(
        "classic checkpoint, statistics as structs",
        *_TWICE,
        Checkpoint(),
        CleanLog(),
        partitioned=("b",),
        properties={
            "delta.checkpoint.writeStatsAsStruct": "true",
            "delta.checkpoint.writeStatsAsJson": "false",
            **_EVERY_TWO,
        },
    ),
    _log("classic checkpoint, several parts", _PARTS, *_TWICE, CleanLog(), Append(_MORE)),
    *(
        _log(
            f"v2 checkpoint, {form}",
            Setting("spark.databricks.delta.checkpointV2.topLevelFileFormat", form),
            *_TWICE,
            CleanLog(),
            properties={"delta.checkpointPolicy": "v2", **_EVERY_TWO},
        )
        for form in ("json", "parquet")
    ),
    _log(
        "v2 checkpoint, several sidecars",
        _PARTS,
        *_TWICE,
        Append(((7, "r"),)),
        CleanLog(),
        properties={"delta.checkpointPolicy": "v2", **_EVERY_TWO},
    ),
    _log(
        "v2 checkpoint, deletion vectors and mapped columns",
        Delete("a = 2"),
        *_TWICE,
        CleanLog(),
        properties={"delta.checkpointPolicy": "v2", **_EVERY_TWO, **_VECTORS, **_BY_NAME},
        expected=(_THREE[0], _THREE[2], *_MORE, (6, "q")),
    ),
    _log("compacted commits", *_TWICE, CompactLog(3), properties={"delta.checkpointInterval": "100"}),
)


def _statement(name: str, *steps: Step, **more: Any) -> Case:
    return _feature(name, *steps, group=STATEMENT, **more)


_BY_B = {"partitioned": ("b",)}

_STATEMENTS = (
    _statement("INSERT", Append(_MORE)),
    _statement("INSERT OVERWRITE", Overwrite(_MORE), expected=_MORE),
    _statement(
        "INSERT OVERWRITE of partitions",
        Setting("spark.sql.sources.partitionOverwriteMode", "dynamic"),
        Overwrite(((7, "x"),)),
        expected=((7, "x"), (2, "y"), (3, None)),
        **_BY_B,
    ),
    _statement(
        "INSERT … REPLACE WHERE",
        Sql("INSERT INTO {t} REPLACE WHERE a >= 2 SELECT 7 AS a, 'r' AS b"),
        expected=((1, "x"), (7, "r")),
    ),
    _statement(
        "INSERT … REPLACE USING",
        Sql("INSERT INTO {t} REPLACE USING (a) SELECT 2 AS a, 'r' AS b"),
        expected=((1, "x"), (2, "r"), (3, None)),
    ),
    _statement(
        "INSERT with schema evolution",
        Sql("INSERT WITH SCHEMA EVOLUTION INTO {t} BY NAME SELECT 4 AS a, 'z' AS b, 1 AS c"),
        shows="a INT, b STRING, c INT",
        expected=((1, "x", None), (2, "y", None), (3, None, None), (4, "z", 1)),
        more=(5, "x", 1),
    ),
    _statement("upsert by key columns", Sql("INSERT INTO {t} WITH (idCols = 'a') SELECT 2 AS a, 'r' AS b"),
               expected=((1, "x"), (2, "r"), (3, None))),
    _statement("CREATE TABLE AS SELECT", Sql("CREATE TABLE {t} USING delta AS SELECT 1 AS a, 'x' AS b"), rows=(),
               create=False, expected=((1, "x"),), more=(1, "x")),
    _statement("CREATE OR REPLACE TABLE",
               Sql("CREATE OR REPLACE TABLE {t} (a INT, c INT) USING delta"),
               Append(((1, 2),), "a INT, c INT"), shows="a INT, c INT", expected=((1, 2),), more=(1, 2)),
    _statement("DELETE", Delete("a >= 2"), expected=((1, "x"),)),
    _statement("DELETE of a partition", Delete("b = 'x'"), expected=_THREE[1:], **_BY_B),
    _statement("TRUNCATE", Sql("TRUNCATE TABLE {t}"), expected=()),
    _statement("UPDATE", Update("b", "'changed'", "a >= 2"), expected=((1, "x"), (2, "changed"), (3, "changed"))),
    _statement("MERGE", Upsert("a", ((2, "m"), (4, "new"))), expected=((1, "x"), (2, "m"), (3, None), (4, "new"))),
    _statement(
        "MERGE, marking rows",
        Upsert("a", ((2, "m"), (4, "new"))),
        properties=_VECTORS,
        expected=((1, "x"), (2, "m"), (3, None), (4, "new")),
    ),
    _statement("OPTIMIZE", Append(_MORE), Optimize()),
    _statement("OPTIMIZE ZORDER BY", Append(_MORE), Optimize(("a",))),
    _statement("OPTIMIZE of marked rows", Append(_MORE), Delete("a = 2"), Optimize(), properties=_VECTORS,
               expected=((1, "x"), (3, None), *_MORE)),
    _statement("REORG … APPLY (PURGE)", Delete("a = 2"), Sql("REORG TABLE {t} APPLY (PURGE)"), properties=_VECTORS,
               expected=((1, "x"), (3, None))),
    _statement("RESTORE", Delete("a = 2"), Restore(1)),
    _statement("RESTORE of marked rows", Delete("a = 2"), Restore(1), properties=_VECTORS),
    _statement("VACUUM", Delete("a = 2"), Setting("spark.databricks.delta.retentionDurationCheck.enabled", "false"),
               Sql("VACUUM {t} RETAIN 0 HOURS"), expected=((1, "x"), (3, None))),
    _statement("SHALLOW CLONE", Sql("CREATE TABLE delta.`{path}-from` (a INT, b STRING) USING delta"),
               Sql("INSERT INTO delta.`{path}-from` VALUES (1, 'x'), (2, 'y')"),
               Sql("CREATE TABLE {t} SHALLOW CLONE delta.`{path}-from`"), rows=(), create=False,
               expected=((1, "x"), (2, "y")), more=(1, "x")),
    _statement("DEEP CLONE", Sql("CREATE TABLE delta.`{path}-from` (a INT, b STRING) USING delta"),
               Sql("INSERT INTO delta.`{path}-from` VALUES (1, 'x'), (2, 'y')"),
               Sql("CREATE TABLE {t} DEEP CLONE delta.`{path}-from`"), rows=(), create=False,
               expected=((1, "x"), (2, "y")), more=(1, "x")),
    _statement("CONVERT TO DELTA", Sql("INSERT OVERWRITE DIRECTORY '{path}' USING parquet SELECT 1 AS a, 'x' AS b"),
               Sql("CONVERT TO DELTA parquet.`{path}`"), rows=(), create=False, expected=((1, "x"),), more=(1, "x")),
    _statement("ALTER TABLE ADD COLUMNS", AddColumn("c", "INT"), Append(((4, "z", 1),), "a INT, b STRING, c INT"),
               shows="a INT, b STRING, c INT",
               expected=((1, "x", None), (2, "y", None), (3, None, None), (4, "z", 1)), more=(5, "x", 1)),
    _statement("ALTER TABLE CLUSTER BY", Sql("ALTER TABLE {t} CLUSTER BY (a)"), Append(_MORE), Optimize()),
    _statement("ALTER TABLE SET TBLPROPERTIES", Sql("ALTER TABLE {t} SET TBLPROPERTIES "
               "('delta.enableDeletionVectors' = 'true')"), Delete("a = 2"), expected=((1, "x"), (3, None))),
    _statement("ALTER TABLE DROP FEATURE", Delete("a = 2"),
               Sql("ALTER TABLE {t} DROP FEATURE deletionVectors"), properties=_VECTORS,
               expected=((1, "x"), (3, None))),
    _statement("BEGIN … COMMIT", Sql("BEGIN TRANSACTION"), Sql("INSERT INTO {t} VALUES (4, 'z')"),
               Sql("DELETE FROM {t} WHERE a = 1"), Sql("COMMIT"), expected=((2, "y"), (3, None), (4, "z"))),
)  # fmt: skip

_FEED_COLUMNS = "a INT, b STRING, _change_type STRING, _commit_version BIGINT"
_FEED_PROPERTY = {"delta.enableChangeDataFeed": "true"}
_INSERTED = tuple((*row, "insert", 1) for row in _THREE)


def _feed(name: str, *steps: Step, changes: tuple[Row, ...], **properties: str) -> Case:
    return _feature(
        name,
        *steps,
        group=CHANGES,
        properties={**_FEED_PROPERTY, **properties},
        covers=("changeDataFeed",),
        shows=_FEED_COLUMNS,
        expected=_INSERTED + changes,
        reads=FEED,
        grows=False,
    )


_UPDATED = ((1, "x", "update_preimage", 2), (1, "changed", "update_postimage", 2))
_FEEDS = (
    _feed("changes of INSERT", Append(_MORE), changes=tuple((*row, "insert", 2) for row in _MORE)),
    _feed("changes of UPDATE", Update("b", "'changed'", "a = 1"), changes=_UPDATED),
    _feed("changes of DELETE", Delete("a = 2"), changes=((2, "y", "delete", 2),)),
    _feed("changes of DELETE, marking rows", Delete("a = 2"), changes=((2, "y", "delete", 2),), **_VECTORS),
    _feed("changes of OPTIMIZE", Append(_MORE), Optimize(), changes=tuple((*row, "insert", 2) for row in _MORE)),
)

_UNIFORM = {
    "delta.enableIcebergCompatV2": "true",
    "delta.universalFormat.enabledFormats": "iceberg",
    **_BY_NAME,
}
_SYNC = Setting("spark.databricks.delta.uniform.iceberg.sync.convert.enabled", "true")


def _uniform(name: str, *steps: Step, **more: Any) -> Case:
    """A table whose Iceberg metadata is read; rows are appended after the setting that keeps it up to date."""
    rows = more.pop("rows", _THREE)
    return _feature(
        name,
        _SYNC,
        Append(rows),
        *steps,
        group=ICEBERG,
        rows=(),
        properties=_UNIFORM,
        covers=("icebergCompatV2",),
        reads=METADATA,
        **more,
    )


_OF_ICEBERG = ("boolean", "integer", "long", "float", "double", "decimal", "string", "binary", "date", "timestamp",
               "timestamp_ntz", "array", "map", "struct")  # fmt: skip
_ICEBERG = (
    _uniform("Iceberg: appended rows", Append(_MORE)),
    _uniform("Iceberg: partitions", Append(_MORE), partitioned=("b",)),
    _uniform("Iceberg: clusters", Append(_MORE), Optimize(), clustered=("a",)),
    _uniform(
        "Iceberg: changed rows",
        Update("b", "'changed'", "a = 1"),
        Delete("a = 2"),
        Upsert("a", ((3, "m"), (4, "new"))),
        expected=((1, "changed"), (3, "m"), (4, "new")),
    ),
    _uniform(
        "Iceberg: renamed column",
        Sql("ALTER TABLE {t} RENAME COLUMN a TO c"),
        Append(((4, "z"),), "c INT, b STRING"),
        shows="c INT, b STRING",
        expected=(*_THREE, (4, "z")),
        grows=False,
    ),
    *(
        _uniform(
            f"Iceberg: {name}",
            ddl=f"id INT, v {TYPES[name].sql}",
            rows=(*enumerate(TYPES[name].values), (99, None)),
        )
        for name in _OF_ICEBERG
    ),
)

CASES: Mapping[str, Case] = {
    case.name: case for case in (*_FEATURES, *_TYPES, *_CHECKPOINTS, *_STATEMENTS, *_FEEDS, *_ICEBERG)
}
