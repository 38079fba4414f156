"""Tables that pyiceberg wrote, converted and cloned: their rows as pyiceberg reads them, before and after DML, after
changes of columns and at snapshots; and what does not fit is refused by name, with nothing written.
"""

from __future__ import annotations

import datetime
import json
import random
import shutil
import uuid
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyiceberg")
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from support.iceberg_deletes import with_deletes

pytestmark = pytest.mark.spark

_UTC = datetime.timezone.utc
_FIELDS = (
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "a b", StringType()),
    NestedField(3, "p", IntegerType()),
    NestedField(4, "day", DateType()),
    NestedField(5, "st", StructType(NestedField(6, "x", IntegerType()), NestedField(7, "y", StringType()))),
    NestedField(8, "l", ListType(9, StringType(), element_required=False)),
    NestedField(10, "m", MapType(11, StringType(), 12, LongType(), value_required=False)),
    NestedField(13, "ts", TimestamptzType()),
    NestedField(14, "tn", TimestampType()),
    NestedField(15, "d", DecimalType(9, 2)),
    NestedField(16, "fx", FixedType(3)),
    NestedField(17, "bi", BinaryType()),
    NestedField(18, "f", FloatType()),
    NestedField(19, "dd", DoubleType()),
    NestedField(20, "yes", BooleanType()),
    NestedField(21, "gone", IntegerType()),
    NestedField(22, "w", FloatType()),
)


def _spec(source, transform, name):
    return PartitionSpec(PartitionField(source, 1000, transform, name))


@pytest.fixture(scope="module")
def catalog(tmp_path_factory):
    home = tmp_path_factory.mktemp("iceberg w")
    found = SqlCatalog("c", uri=f"sqlite:///{home}/c.db", warehouse=f"file://{home}")
    found.create_namespace("db")
    yield found
    found.close()


def _place(table):
    return Path(table.location().removeprefix("file://"))


def _row(i):
    return {
        "id": i, "a b": f"v{i}", "p": i % 2 if i % 5 else None, "day": datetime.date(2024, 1, 1 + i),
        "st": {"x": i, "y": None}, "l": ["a", None], "m": [("k", i)],
        "ts": datetime.datetime(2024, 1, 1, i, tzinfo=_UTC), "tn": datetime.datetime(2024, 1, 2, i), "d": Decimal(i),
        "fx": b"abc", "bi": b"\0\xff", "f": i / 4, "dd": i / 3, "yes": i % 2 == 0, "gone": i, "w": i / 2,
    }  # fmt: skip


def _append(table, rows):
    table.append(pa.Table.from_pylist(rows, schema=table.schema().as_arrow()))


@pytest.fixture(scope="module")
def source(catalog):
    """A partitioned table with columns that were renamed, widened, dropped and added, and with deleted rows."""
    table = catalog.create_table("db.source", Schema(*_FIELDS), partition_spec=_spec(3, IdentityTransform(), "p"))
    _append(table, [_row(i) for i in range(6)])
    with table.update_schema() as changes:
        changes.rename_column("a b", "n")
        changes.update_column(("st", "x"), LongType())
        changes.update_column("d", DecimalType(12, 2))
        changes.update_column("w", DoubleType())
        changes.delete_column("gone")
    with table.update_schema() as changes:
        changes.add_column("gone", StringType())
        changes.add_column("a b", LongType())
    _append(table, [{"id": 10, "n": "ten", "p": 7, "a b": 5, "gone": "back", "d": Decimal("9999999999.25"), "w": 0.1}])
    table.delete("id = 3")
    return table


def _theirs(table, snapshot=None):
    found = table.scan(snapshot_id=snapshot).to_arrow().to_pylist()
    return sorted((_plain(row) for row in found), key=lambda row: row["id"])


def _plain(value):
    """What both readers give, alike."""
    match value:
        case dict():
            return {name: _plain(each) for name, each in value.items()}
        case list() if value and isinstance(value[0], tuple):
            return dict(value)
        case datetime.datetime():
            return value.replace(tzinfo=None)
        case bytearray():
            return bytes(value)
    return value


@pytest.fixture
def read(spark):
    def run(relation):
        found = [_plain(row.asDict(recursive=True)) for row in spark.sql(f"SELECT * FROM {relation}").collect()]
        return sorted(found, key=lambda row: row["id"])

    return run


def test_a_converted_table(spark, rows, read, source, log, tmp_path):
    theirs = _theirs(source)
    at = _place(source)
    spark.sql(f"CONVERT TO DELTA iceberg.`{at}`")
    try:
        assert read(f"delta.`{at}`") == theirs
        actions = log(at, 0)
        (info,) = (action["commitInfo"] for action in actions if "commitInfo" in action)
        assert info["operationParameters"]["sourceFormat"] == "iceberg"
        assert info["operationMetrics"]["numConvertedFiles"] == "4"
        (metadata,) = (action["metaData"] for action in actions if "metaData" in action)
        assert metadata["configuration"]["delta.columnMapping.mode"] == "id"
        highest = int(metadata["configuration"]["delta.columnMapping.maxColumnId"])
        assert highest == source.metadata.last_column_id
        (protocol,) = (action["protocol"] for action in actions if "protocol" in action)
        assert {"columnMapping", "typeWidening", "timestampNtz"} <= set(protocol["writerFeatures"])
        found = [action["add"] for action in actions if "add" in action]
        assert {add["partitionValues"]["p"] for add in found} == {"0", "1", "7", None}
        stats = {add["partitionValues"]["p"]: json.loads(add["stats"]) for add in found}
        assert (stats["7"]["minValues"]["id"], stats["7"]["minValues"]["n"]) == (10, "ten")
        (added,) = (f for f in json.loads(metadata["schemaString"])["fields"] if f["name"] == "a b")
        # A file without the column, which has another one by its name.
        name = added["metadata"]["delta.columnMapping.physicalName"]
        assert stats["0"]["nullCount"][name] == stats["0"]["numRecords"]
        # Filters are over the columns of now, whatever files call them.
        assert rows(f"SELECT id FROM delta.`{at}` WHERE n = 'v4' AND p = 0") == [(4,)]
        assert rows(f"SELECT id FROM delta.`{at}` WHERE gone = 'back' AND st.x IS NULL") == [(10,)]
        assert rows(f"SELECT id FROM delta.`{at}` WHERE w > 2.4D") == [(5,)]
        # The same again does nothing; then it is a table like any.
        spark.sql(f"CONVERT TO DELTA iceberg.`{at}`")
        spark.sql(f"ALTER TABLE delta.`{at}` ADD COLUMN (later INT)")
        spark.sql(f"ALTER TABLE delta.`{at}` RENAME COLUMN n TO name")
        spark.sql(f"INSERT INTO delta.`{at}` (id, name, p, later) VALUES (11, 'new', 0, 1)")
        spark.sql(f"UPDATE delta.`{at}` SET st.x = 9000000000 WHERE id = 1")
        spark.sql(f"DELETE FROM delta.`{at}` WHERE name = 'v2'")
        now = rows(f"SELECT id, name, st.x, later FROM delta.`{at}` WHERE id > 0 ORDER BY id")
        assert now == [
            (1, "v1", 9000000000, None),
            (4, "v4", 4, None),
            (5, "v5", 5, None),
            (10, "ten", None, None),
            (11, "new", None, 1),
        ]
    finally:
        shutil.rmtree(at / "_delta_log")


def test_clones_of_snapshots(spark, rows, read, source, database, fails, tmp_path):
    at = _place(source)
    kept = {file: file.read_bytes() for file in at.rglob("*") if file.is_file()}
    first = source.metadata.snapshots[0]
    spark.sql(f"CREATE TABLE now SHALLOW CLONE iceberg.`{at}`")
    spark.sql(f"CREATE TABLE was SHALLOW CLONE iceberg.`{at}` VERSION AS OF {first.snapshot_id}")
    after = datetime.datetime.fromtimestamp(first.timestamp_ms / 1000 + 0.0005, _UTC)
    spark.sql(f"CREATE TABLE at SHALLOW CLONE iceberg.`{at}` TIMESTAMP AS OF '{after.replace(tzinfo=None)}'")
    newest = source.metadata_location.rpartition("/")[2]
    spark.sql(f"CREATE TABLE named SHALLOW CLONE iceberg.`{at}/metadata/{newest}` NO STATISTICS")
    assert read("now") == read("named") == _theirs(source)
    assert read("was") == read("at") == _theirs(source, first.snapshot_id)
    version = spark.sql("DESCRIBE HISTORY was").first()["operationParameters"]["sourceVersion"]
    assert version == str(first.snapshot_id)
    spark.sql("DELETE FROM now WHERE id < 5")
    spark.sql("OPTIMIZE now")
    assert rows("SELECT id FROM now ORDER BY id") == [(5,), (10,)]
    with fails("HEADWATER_ICEBERG_SNAPSHOT_NOT_FOUND", str(first.snapshot_id)):
        spark.sql(f"CREATE TABLE t SHALLOW CLONE iceberg.`{at}` VERSION AS OF 7")
    with fails("HEADWATER_DEEP_CLONE_OF_FILES", "SHALLOW"):
        spark.sql(f"CREATE TABLE t DEEP CLONE iceberg.`{at}`")
    with fails("HEADWATER_ICEBERG_TABLE_NOT_CONVERTIBLE", "PARTITIONED BY"):
        spark.sql(f"CREATE TABLE t SHALLOW CLONE iceberg.`{at}` PARTITIONED BY (p INT)")
    with fails("HEADWATER_ICEBERG_METADATA_NOT_FOUND", "metadata"):
        spark.sql(f"CONVERT TO DELTA iceberg.`{tmp_path}`")
    assert {file: file.read_bytes() for file in at.rglob("*") if file.is_file()} == kept


@pytest.mark.parametrize("version", [2, 3])
def test_deleted_rows(spark, rows, catalog, log, tmp_path, version):
    """Position deletes, and in version 3 vectors too, become deletion vectors."""
    table = _by(catalog, f"deleted{version}", _FIELDS[:3])
    for start in (0, 10, 20):
        _append(table, [{"id": start + i, "a b": f"v{i}", "p": i} for i in range(6)])
    paths = [task.file.file_path for task in table.scan().plan_files()]
    first, second, third = sorted(paths, key=lambda path: pq.read_table(path.removeprefix("file://"))["id"][0].as_py())
    with table.update_schema() as changes:
        changes.rename_column("a b", "n")
    positions = {first: [0, 3], second: [1]}
    vectors = {second: [1, 2, 5], third: list(range(6))} if version == 3 else None
    file = with_deletes(table, positions, vectors)
    theirs = sorted(StaticTable.from_metadata(f"file://{file}").scan().to_arrow()["id"].to_pylist())
    # A vector has the position deletes of its file, too.
    assert theirs == [1, 2, 4, 5, *([10, 13, 14] if version == 3 else [10, 12, 13, 14, 15, *range(20, 26)])]
    at, wanted = _place(table), [(number,) for number in theirs]
    if version == 2:
        # What an earlier clone left, whose commit failed, is in nobody's way.
        left = tmp_path / "c" / f"deletion_vector_{uuid.uuid4()}.bin"
        left.parent.mkdir()
        left.write_bytes(b"")
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/c` SHALLOW CLONE iceberg.`{at}`")
    assert rows(f"SELECT id FROM delta.`{tmp_path}/c` ORDER BY id") == wanted
    spark.sql(f"CONVERT TO DELTA iceberg.`{at}`")
    adds = [action["add"] for action in log(at, 0) if "add" in action]
    deleted = sorted(add["deletionVector"]["cardinality"] for add in adds if add.get("deletionVector"))
    assert deleted == ([2, 3, 6] if version == 3 else [1, 2])
    name = f"delta.`{at}`"
    assert rows(f"SELECT id FROM {name} ORDER BY id") == wanted
    assert rows(f"SELECT count(*), min(n), max(id) FROM {name} WHERE p > 3") == rows(
        f"SELECT count(*), min(n), max(id) FROM delta.`{tmp_path}/c` WHERE p > 3"
    )
    spark.sql(f"UPDATE {name} SET n = 'mine' WHERE id = 4")
    spark.sql(f"DELETE FROM {name} WHERE id = 10")
    spark.sql(f"REORG TABLE {name} APPLY (PURGE)")
    assert rows(f"SELECT id FROM {name} ORDER BY id") == [row for row in wanted if row != (10,)]
    assert rows(f"SELECT id FROM {name} WHERE n = 'mine'") == [(4,)]


_NAMES = ("a", "b", "c")


def _reshaped(table, chance):
    """Columns of few names come, go and change their names, in any order; each is nullable."""
    there = [field.name for field in table.schema().fields if field.name in _NAMES]
    free = [name for name in _NAMES if name not in there]
    for _ in range(chance.randint(1, 3)):
        with table.update_schema() as changes:
            kind = chance.choice(["add", "drop", "rename"])
            if kind == "add" and free:
                there.append(free.pop(chance.randrange(len(free))))
                changes.add_column(there[-1], chance.choice([IntegerType(), StringType()]))
            elif kind == "drop" and there:
                free.append(there.pop(chance.randrange(len(there))))
                changes.delete_column(free[-1])
            elif kind == "rename" and there and free:
                old, new = there.pop(chance.randrange(len(there))), free.pop(chance.randrange(len(free)))
                changes.rename_column(old, new)
                there.append(new)
                free.append(old)


def _some_rows(table, chance, first):
    def value(field):
        if field.name == "id":
            return None
        number = chance.randrange(4)
        return None if number == 3 else number if isinstance(field.field_type, IntegerType) else str(number)

    return [{**{f.name: value(f) for f in table.schema().fields}, "id": first + i} for i in range(4)]


@pytest.mark.parametrize("vectorized", ["true", "false"], ids=["batches", "rows"])
@pytest.mark.parametrize("seed", [1, 2, 3, *(pytest.param(n, marks=pytest.mark.soak) for n in range(4, 60))])
def test_names_that_are_used_again(spark, rows, read, catalog, settings, seed, vectorized, tmp_path):
    """A column is found by its id, never by a name that another column has in some file, whoever looks for it."""
    chance = random.Random(seed)
    table = _by(catalog, f"again{seed}{vectorized}", [_FIELDS[0], NestedField(2, "a", IntegerType())])
    for first in range(0, 20, 4):
        _append(table, _some_rows(table, chance, first))
        _reshaped(table, chance)
    name = f"delta.`{tmp_path}/c`"
    theirs = _theirs(table)
    with settings({"spark.sql.parquet.enableVectorizedReader": vectorized}):
        spark.sql(f"CREATE TABLE {name} SHALLOW CLONE iceberg.`{_place(table)}`")
        for changes in ("", f"UPDATE {name} SET id = id + 100 WHERE id % 3 = 0"):
            if changes:
                spark.sql(changes)
                theirs = [{**row, "id": row["id"] + 100 if row["id"] % 3 == 0 else row["id"]} for row in theirs]
                theirs.sort(key=lambda row: row["id"])
            assert read(name) == theirs
            for field in table.schema().fields:
                found = theirs[chance.randrange(len(theirs))][field.name]
                for sought in {None, found}:
                    wanted = [(row["id"],) for row in theirs if row[field.name] == sought]
                    said = "NULL" if sought is None else repr(sought)
                    condition = f"`{field.name}` IS NOT DISTINCT FROM {said}"
                    plain = condition if sought is not None else f"`{field.name}` IS NULL"
                    for each in (condition, plain):
                        assert rows(f"SELECT id FROM {name} WHERE {each} ORDER BY id") == wanted, each


def _by(catalog, name, fields, spec=None):
    return catalog.create_table(f"db.{name}", Schema(*fields), partition_spec=spec or PartitionSpec())


def _bucket(catalog):
    return _by(catalog, "bucket", _FIELDS[:1], _spec(1, BucketTransform(4), "b")), "bucket[4]"


def _days(catalog):
    table = _by(catalog, "days", _FIELDS[:4], _spec(4, DayTransform(), "day_day"))
    return table, "day of a column"


def _evolution(catalog):
    table = _by(catalog, "evolution", _FIELDS[:3])
    _append(table, [{"id": 1, "p": 1}])
    with table.update_spec() as spec:
        spec.add_identity("p")
    return table, "its partitioning was changed"


def _time(catalog):
    return _by(catalog, "time", (NestedField(1, "at", TimeType()),)), "at has the type time"


def _empty_text(catalog):
    table = _by(catalog, "empty", _FIELDS[:2], _spec(2, IdentityTransform(), "a b"))
    _append(table, [{"id": 1, "a b": ""}])
    return table, "an empty string"


def _file(table):
    (file,) = (Path(task.file.file_path.removeprefix("file://")) for task in table.scan().plan_files())
    return file


def _gone(catalog):
    table = _by(catalog, "gone", _FIELDS[:1])
    _append(table, [{"id": 1}])
    _file(table).unlink()
    return table, "it does not exist"


def _longer(catalog):
    table = _by(catalog, "longer", _FIELDS[:1])
    _append(table, [{"id": 1}])
    with _file(table).open("ab") as file:
        file.write(b"x")
    return table, "bytes, but"


def _without_ids(catalog):
    table = _by(catalog, "nameless", _FIELDS[1:2])
    file = _place(table) / "data/x.parquet"
    file.parent.mkdir(parents=True)
    pq.write_table(pa.table({"a b": ["x"]}), file)
    table.add_files([f"file://{file}"])
    return table, "no field id"


def _elsewhere(catalog):
    table = _by(catalog, "elsewhere", _FIELDS[1:2])
    file = _place(table).parent / "x.parquet"
    pq.write_table(pa.table({"a b": ["x"]}), file)
    table.add_files([f"file://{file}"])
    return table, "outside of the table's folder"


def _damaged(catalog):
    table = _by(catalog, "damaged", _FIELDS[:1])
    _append(table, [{"id": 1}])
    (manifest,) = _place(table).glob("metadata/*-m0.avro")
    manifest.write_bytes(manifest.read_bytes()[:-30])
    return table, "m0.avro"


@pytest.mark.parametrize(
    "made",
    [_bucket, _days, _evolution, _time, _empty_text, _gone, _longer, _without_ids, _elsewhere, _damaged],
)
def test_what_does_not_fit_is_refused(spark, catalog, made, tmp_path):
    table, words = made(catalog)
    at = _place(table)
    for statement in (
        f"CONVERT TO DELTA iceberg.`{at}`",
        f"CREATE TABLE delta.`{tmp_path}/t` SHALLOW CLONE iceberg.`{at}`",
    ):
        with pytest.raises(Exception, match="HEADWATER_ICEBERG_(TABLE_NOT_CONVERTIBLE|FILE_NOT_USABLE)") as raised:
            spark.sql(statement)
        assert words in str(raised.value), str(raised.value)
    assert not (at / "_delta_log").exists()
    assert not (tmp_path / "t").exists()


def test_a_table_without_rows(spark, catalog, rows, log):
    table = _by(catalog, "none", _FIELDS[:3], _spec(3, IdentityTransform(), "p"))
    at = _place(table)
    spark.sql(f"CONVERT TO DELTA iceberg.`{at}`")
    spark.sql(f"INSERT INTO delta.`{at}` VALUES (1, 'x', 2)")
    assert rows(f"SELECT * FROM delta.`{at}`") == [(1, "x", 2)]
