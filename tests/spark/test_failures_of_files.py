"""Files that fail: gone, spoiled, or with no room for more. The error names table, version and file, and what to do."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from support.sparks.running import wait_for

pytestmark = pytest.mark.spark

_STATEMENTS = (
    "DELETE FROM {t} WHERE v = 3",
    "UPDATE {t} SET v = v + 1 WHERE v > 2",
    "MERGE INTO {t} a USING (SELECT 3L AS k) b ON a.v = b.k WHEN MATCHED THEN UPDATE SET v = 0",
    "INSERT INTO {other} SELECT * FROM {t}",
)


def _data_files(table: Path) -> list[Path]:
    return sorted(table.glob("*.parquet"))


@contextlib.contextmanager
def _kept_full(file: Path) -> Iterator[None]:
    """The file's file system is full until the block ends: what comes free in it is taken at once.

    Room comes free at any time after a failed job: its tasks still write and delete, and a writer that could not
    close its file holds the deleted one's room until the garbage collector finds it.
    """
    full, ended = threading.Event(), threading.Event()

    def fill() -> None:
        with file.open("ab", buffering=0) as open_file:
            while not ended.is_set():
                try:
                    open_file.write(b"x" * 4096)
                except OSError:
                    full.set()
                    ended.wait(0.001)

    filler = threading.Thread(target=fill)
    filler.start()
    try:
        assert full.wait(60)
        yield
    finally:
        ended.set()
        filler.join()


def _freed(spark, file: Path) -> None:
    """Deletes the file and waits until its file system has room, which failed writers may hold until they are found."""
    file.unlink()

    def has_room() -> bool:
        spark.sparkContext._jvm.System.gc()
        room = os.statvfs(file.parent)
        return room.f_bavail * 2 > room.f_blocks

    wait_for(has_room, 60, "half of the disk is free")


def _commits(table: Path) -> int:
    return len(list((table / "_delta_log").glob("*.json")))


@pytest.fixture
def names(spark, tmp_path: Path) -> dict[str, str]:
    """A table of one file at version 1 and an empty one, without a file's checksum that Hadoop would look at first."""
    names = {"t": f"delta.`{tmp_path}/t`", "other": f"delta.`{tmp_path}/other`"}
    for name in names.values():
        spark.sql(f"CREATE TABLE {name} (id BIGINT, v BIGINT) USING delta")
    spark.sql(f"INSERT INTO {names['t']} SELECT /*+ COALESCE(1) */ id, id % 7 FROM range(1000)")
    for file in (tmp_path / "t").glob(".*.crc"):
        file.unlink()
    return names


@pytest.mark.covering
@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("statement", _STATEMENTS)
def test_a_missing_or_spoiled_file(spark, fails, names, tmp_path: Path, statement: str, vectors: bool) -> None:
    table = tmp_path / "t"
    version = 1
    if vectors:
        spark.sql(f"ALTER TABLE {names['t']} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
        version = 2
    (file,) = _data_files(table)
    content = file.read_bytes()
    before = _commits(table), _commits(tmp_path / "other")
    footer = int.from_bytes(content[-8:-4], "little") + 8
    for spoiled in (
        content[: len(content) // 2],
        b"PAR1" + b"\xff" * (len(content) - footer - 4) + content[-footer:],
        b"",
    ):
        file.write_bytes(spoiled)
        with fails("HEADWATER_DATA_FILE_DAMAGED", file.name, f"version {version}", str(table), "backup"):
            spark.sql(statement.format(**names)).collect()
    file.unlink()
    with fails("DELTA_FILE_NOT_FOUND_DETAILED", file.name, f"version {version}", str(table)):
        spark.sql(statement.format(**names)).collect()
    assert (_commits(table), _commits(tmp_path / "other")) == before


def test_a_file_that_is_passed_over_takes_no_other_with_it(spark, fails, settings, tmp_path: Path) -> None:
    """A task that opens files ahead goes on with the next one."""
    table = f"delta.`{tmp_path / 't'}`"
    spark.sql(f"CREATE TABLE {table} (v BIGINT) USING delta")
    spark.range(60).withColumnRenamed("id", "v").repartition(6).write.format("delta").mode("append").save(
        str(tmp_path / "t")
    )
    for damaged in _data_files(tmp_path / "t")[1:4:2]:
        damaged.write_bytes(b"no Parquet file" * 10)
    with settings({"spark.sql.files.ignoreCorruptFiles": "true"}):
        found = spark.sql(f"SELECT count(*), count(v) FROM {table} WHERE v >= 0").collect()[0][1]
        assert 35 < found < 45
        with fails("DELTA_NUM_RECORDS_MISMATCH", f"have 60 rows, but {found} were read"):
            spark.sql(f"OPTIMIZE {table}")


def test_a_missing_or_spoiled_deletion_vector(spark, fails, names, tmp_path: Path) -> None:
    table = tmp_path / "t"
    spark.sql(f"ALTER TABLE {names['t']} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql(f"DELETE FROM {names['t']} WHERE id % 3 = 0")
    (file,) = table.glob("*.bin")
    for hidden in table.glob(".*.crc"):
        hidden.unlink()
    content = file.read_bytes()
    spoiled = (
        content[:-9], b"", b"\0" * len(content), bytes([content[0]]) + b"\xff" * (len(content) - 1),
        content[:20] + bytes([content[20] ^ 1]) + content[21:], None,
    )  # fmt: skip
    for data in spoiled:
        file.unlink(missing_ok=True)
        if data is not None:
            file.write_bytes(data)
        with pytest.raises(Exception, match="FAILED_READ_FILE|DELTA_"):
            spark.sql(f"SELECT sum(v) FROM {names['t']}").collect()
        for statement in _STATEMENTS:
            with pytest.raises(PySparkException) as raised:
                spark.sql(statement.format(**names)).collect()
            text = str(raised.value).split("JVM stacktrace")[0]
            condition = raised.value.getCondition()
            assert condition.startswith(("DELTA_DELETION_VECTOR_", "DELTA_FILE_ACCESS_FAILED")), text
            assert file.name in text


def test_a_file_of_another_format_is_sparks_to_tell(spark, fails, names, tmp_path: Path) -> None:
    spark.range(100).write.parquet(str(tmp_path / "p"))
    for file in (tmp_path / "p").glob("*.parquet"):
        file.write_bytes(b"nothing of the kind")
    for file in (tmp_path / "p").glob(".*.crc"):
        file.unlink()
    source = spark.read.schema("id BIGINT").parquet(str(tmp_path / "p"))
    source.createOrReplaceTempView("spoiled")
    with pytest.raises(Exception, match="FAILED_READ_FILE"):
        spark.sql(f"INSERT INTO {names['t']} SELECT id, id FROM spoiled")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a megabyte."""
    where = tmp_path / "disk"
    where.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(where)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip(f"only root may mount a file system: {mounted.stderr.decode().strip()}")
    yield where
    subprocess.run(["umount", "-l", str(where)], check=True)


def test_a_full_disk(spark, rows, fails, small_disk: Path) -> None:
    table = small_disk / "t"
    name = f"delta.`{table}`"
    spark.sql(f"CREATE TABLE {name} (id BIGINT, v STRING) USING delta")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'a')")
    with fails("DELTA_FILE_ACCESS_FAILED", str(table), "No space left on device", "Free space"):
        spark.sql(f"INSERT INTO {name} SELECT id, repeat(uuid(), 20) FROM range(20000)")
    assert rows(f"SELECT * FROM {name}") == [(1, "a")]
    wait_for(lambda: len(_data_files(table)) == 1, 60, "the failed job's files are gone")
    filling = small_disk / "filling"
    for statement in ("INSERT INTO {} VALUES (2, 'b')", "UPDATE {} SET v = 'c'", "DELETE FROM {}"):
        with (
            _kept_full(filling),
            fails("DELTA_FILE_ACCESS_FAILED", str(table), "No space left on device", "Free space"),
        ):
            spark.sql(statement.format(name))
    with _kept_full(filling), fails("DELTA_FILE_ACCESS_FAILED", str(small_disk), "No space left on device"):
        spark.sql(f"CREATE TABLE delta.`{small_disk}/u` (id BIGINT) USING delta")
    assert rows(f"SELECT * FROM {name}") == [(1, "a")]
    _freed(spark, filling)
    spark.sql(f"UPDATE {name} SET v = 'c'")
    assert rows(f"SELECT * FROM {name}") == [(1, "c")]
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql(f"INSERT INTO {name} SELECT id, 'd' FROM range(2, 5, 1, 1)")
    spark.sql(f"DELETE FROM {name} WHERE id = 3")
    for statement in ("OPTIMIZE {}", "REORG TABLE {} APPLY (PURGE)", "RESTORE {} TO VERSION AS OF 1"):
        with _kept_full(filling), fails("DELTA_FILE_ACCESS_FAILED", str(table), "No space left on device"):
            spark.sql(statement.format(name))
    with _kept_full(filling):  # it is what makes room
        spark.sql(f"VACUUM {name}")
    filling.unlink()
    assert rows(f"SELECT * FROM {name} ORDER BY id") == [(1, "c"), (2, "d"), (4, "d")]


def test_a_full_disk_where_files_are_copied_and_converted(spark, rows, fails, small_disk: Path, tmp_path: Path) -> None:
    large, small, copy = (f"delta.`{path}`" for path in (tmp_path / "l", tmp_path / "s", small_disk / "c"))
    spark.sql(f"CREATE TABLE {large} USING delta AS SELECT id, repeat(uuid(), 20) v FROM range(0, 20000, 1, 2)")
    with fails("DELTA_FILE_ACCESS_FAILED", f"{small_disk}/c", "No space left on device", "Free space"):
        spark.sql(f"CREATE TABLE {copy} DEEP CLONE {large}")
    assert not list((small_disk / "c").rglob("*.json"))
    shutil.rmtree(small_disk / "c")  # what was copied stays, for a run that goes on
    spark.sql(f"CREATE TABLE {small} USING delta AS SELECT id FROM range(0, 8, 1, 2)")
    spark.range(8).write.parquet(str(small_disk / "p"))
    filling = small_disk / "filling"
    for statement in (
        f"CREATE TABLE delta.`{small_disk}/c2` DEEP CLONE {small}",
        f"CREATE TABLE delta.`{small_disk}/c3` SHALLOW CLONE {small}",
        f"CONVERT TO DELTA parquet.`{small_disk}/p`",
    ):
        with _kept_full(filling), fails("DELTA_FILE_ACCESS_FAILED", str(small_disk), "No space left on device"):
            spark.sql(statement)
    _freed(spark, filling)
    spark.sql(f"CREATE TABLE delta.`{small_disk}/c2` DEEP CLONE {small}")
    spark.sql(f"CONVERT TO DELTA parquet.`{small_disk}/p`")
    for name in ("c2", "p"):
        assert rows(f"SELECT count(*) FROM delta.`{small_disk}/{name}`") == [(8,)], name


def test_statements_of_other_systems(spark, fails, names) -> None:
    for statement in ("CACHE SELECT * FROM {t}", "UNDROP TABLE t"):
        with fails("DELTA_OPERATION_NOT_ALLOWED"):
            spark.sql(statement.format(**names))
    with fails("DELTA_OPERATION_NOT_ALLOWED", "UNDROP"):
        spark.sql("EXECUTE IMMEDIATE 'UNDROP TABLE nowhere'")
    spark.sql("RESTORE {t} TO VERSION AS OF 0".format(**names))
    assert spark.sql("SELECT * FROM {t}".format(**names)).collect() == []
    for statement in ("SELEC 1", "ALTER TABLE {t} DROP COLUMN a b"):
        with fails("PARSE_SYNTAX_ERROR", state="42601"):
            spark.sql(statement.format(**names))


def test_a_check_of_a_table_that_is_there(spark, fails, names) -> None:
    with fails("DELTA_NEW_CHECK_CONSTRAINT_VIOLATION", "id > 0", "id : 0"):
        spark.sql(f"ALTER TABLE {names['t']} ADD CONSTRAINT c CHECK (id > 0)")
    with fails("UNRESOLVED_COLUMN.WITH_SUGGESTION", "nosuch"):
        spark.sql(f"ALTER TABLE {names['t']} ADD CONSTRAINT c CHECK (nosuch > 0)")
    with fails("DELTA_OPERATION_NOT_ALLOWED", "INSERT OVERWRITE DIRECTORY", "CREATE OR REPLACE TABLE delta.`/x`"):
        spark.sql("INSERT OVERWRITE DIRECTORY '/x' USING delta SELECT 1")
