"""Tables on S3 and HDFS, by Spark's own SQL; and what a user is told where a store cannot be used."""

from __future__ import annotations

import re
import time
from urllib.parse import quote

import pytest

from support.stores.table_story import live_there


def _places(*usual: str) -> list[object]:
    """The stores, of which the usual run has these."""
    return [name if name in usual else pytest.param(name, marks=pytest.mark.soak) for name in ("s3", "azure", "hdfs")]


@pytest.fixture
def place(request):
    """The URI of a directory for tables."""
    if request.param == "azure":
        return f"{request.getfixturevalue('azure').root}/tables"
    if request.param == "s3":
        return f"s3a://{request.getfixturevalue('s3').bucket}/tables"
    return request.getfixturevalue("hdfs")


# The long one on one store, the short one on each of the others; test_commits.py holds commits against each of them.
@pytest.mark.parametrize("place", _places("s3"), indirect=True)
def test_a_table_lives_there(place, spark_process):
    live_there(spark_process.sql, place)


@pytest.mark.parametrize("root", ["s3a://{}/", "s3a://{}"], ids=["slash", "none"])
def test_a_table_that_is_a_whole_bucket(s3, spark_process, root):
    run, table = spark_process.sql, f"delta.`{root.format(s3.bucket)}`"
    retention = "'delta.deletedFileRetentionDuration' = 'interval 0 hours'"
    rows = "SELECT id, id % 2 AS p FROM range(0, 10, 1, 1)"
    assert run(f"CREATE TABLE {table} USING delta PARTITIONED BY (p) TBLPROPERTIES ({retention}) AS {rows}") == []
    assert run(f"INSERT INTO {table} VALUES (10, 0), (11, 1)") == []
    assert run(f"DELETE FROM {table} WHERE id < 11") == [[11]]
    assert s3.request("PUT", f"/{s3.bucket}/left.parquet", b"x")[0] == 200
    assert s3.request("PUT", f"/{s3.bucket}/p=0/left.parquet", b"x")[0] == 200
    assert run(f"OPTIMIZE {table}")[0][0].rstrip("/") == f"s3a://{s3.bucket}"
    time.sleep(1.1)  # times of S3 are in seconds
    assert run(f"VACUUM {table}") == [[f"s3a://{s3.bucket}"]]
    assert len([path for path in s3.paths() if path.endswith(".parquet") and "_delta_log" not in path]) == 1
    assert run(f"SELECT * FROM {table}") == [[11, 1]]
    assert run(f"CREATE OR REPLACE TABLE {table} USING delta AS SELECT 5 AS id") == []
    assert run(f"SELECT * FROM {table}") == [[5]]


def test_maintenance_uses_the_store_when_the_statement_has_ended(s3, spark_process):
    run, table = spark_process.sql, f"delta.`s3a://{s3.bucket}/t`"
    assert run(f"CREATE TABLE {table} (a INT) USING delta TBLPROPERTIES (delta.checkpointInterval = 2)") == []
    assert run(f"INSERT INTO {table} VALUES (1)") == []
    s3.rules({"method": "PUT", "path": r"checkpoint", "do": "hold", "times": 100})
    assert run(f"INSERT INTO {table} VALUES (2)") == []
    # Its thread serves other statements meanwhile, of a table that has nothing to do with it.
    assert run(f"CREATE TABLE delta.`s3a://{s3.bucket}/other` (a INT) USING delta") == []

    def checkpoints() -> list[str]:
        text = s3.request("GET", f"/{s3.bucket}?list-type=2&prefix=t/_delta_log/")[1].decode()
        return re.findall(r"<Key>t/_delta_log/([^<]*checkpoint[^<]*)</Key>", text)

    assert checkpoints() == []
    s3.rules()
    until = time.monotonic() + 20
    while len(found := checkpoints()) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    assert found == ["00000000000000000002.checkpoint.parquet", "_last_checkpoint"]
    assert run(f"SELECT sum(a) FROM {table}") == [[3]]


@pytest.mark.parametrize("place", _places("s3"), indirect=True)
def test_a_name_that_is_dropped_and_created_again_is_of_the_new_table(place, spark_process):
    """However quickly: the logs are of one size, and so are their times on stores that know no milliseconds."""
    run = spark_process.sql
    assert run(f"CREATE DATABASE again LOCATION '{place}/again'") == []
    try:
        for number, column in enumerate("abcdef"):
            assert run(f"CREATE TABLE again.t ({column} INT) USING delta") == []
            assert run(f"INSERT INTO again.t VALUES ({number})") == []
            assert run(f"SELECT {column} FROM again.t") == [[number]]
            assert [row[0] for row in run("DESCRIBE again.t")] == [column]
            assert run(f"SELECT count({column}) FROM again.t VERSION AS OF 0") == [[0]]
            assert run("DROP TABLE again.t") == []
    finally:
        run("DROP DATABASE again CASCADE")


@pytest.mark.parametrize("place", _places("azure", "hdfs"), indirect=True)
def test_a_named_table_and_a_frame_written_and_overwritten(place, spark_process):
    run = spark_process.sql
    assert run(f"CREATE TABLE of_{place[:3]} USING delta LOCATION '{place}/named' AS SELECT 1 AS a") == []
    assert run(f"INSERT OVERWRITE of_{place[:3]} VALUES (2), (3)") == []
    assert run(f"SELECT sum(a) FROM of_{place[:3]}") == [[5]]
    assert run(f"SELECT sum(a) FROM delta.`{place}/named`") == [[5]]
    assert run(f"DROP TABLE of_{place[:3]}") == []


def test_what_cannot_be_used_is_said(s3, spark_process):
    run = spark_process.sql
    s3.rules({"method": "PUT", "path": s3.bucket, "do": "ignore"})
    told = run(f"CREATE TABLE delta.`s3a://{s3.bucket}/t` (a INT) USING delta")
    assert (told["condition"], told["state"]) == ("HEADWATER_CONDITIONAL_CREATE_IGNORED", "0AKDE")
    s3.rules({"path": s3.bucket, "do": "deny"})
    told = run(f"SELECT * FROM delta.`s3a://{s3.bucket}/t`")
    assert (told["condition"], told["state"]) == ("DELTA_FILE_ACCESS_FAILED", "58030")
    assert "403" in told["text"]
    s3.rules()
    for scheme, connector in (("abfss", "hadoop-azure"), ("gs", "Google"), ("s3", "fs.s3.impl"), ("nothing", "--jars")):
        for statement in ("SELECT * FROM delta.`{}`", "CREATE TABLE delta.`{}` (a INT) USING delta"):
            told = run(statement.format(f"{scheme}://box/t"))
            assert (told["condition"], told["state"]) == ("HEADWATER_FILE_SYSTEM_NOT_USABLE", "58030"), told
            assert connector in told["text"]
            for word in ("py4j", "Traceback", "\n\tat "):
                assert word not in told["text"]


def test_missing_objects_are_repaired_and_a_store_that_fails_is_not(s3, spark_process):
    run, table = spark_process.sql, f"delta.`s3a://{s3.bucket}/a t`"
    run(f"CREATE TABLE {table} (id INT, p STRING) USING delta PARTITIONED BY (p)")
    run(f"INSERT INTO {table} VALUES (1, 'a b'), (2, 'c%d')")
    objects = [path for path in s3.paths() if path.endswith(".parquet") and "_delta_log" not in path]
    (lost,) = (path for path in objects if "p=a" in path)
    assert s3.request("DELETE", f"/{s3.bucket}/{quote(lost)}")[0] == 204
    for answer in ("deny", "fail"):
        s3.rules({"path": r"\.parquet", "do": answer, "times": 100_000})
        told = run(f"FSCK REPAIR TABLE {table}")
        assert told["condition"] == "DELTA_FILE_ACCESS_FAILED", told
    s3.rules()
    ((shown, *rest),) = run(f"FSCK REPAIR TABLE {table} DRY RUN")
    assert rest == [True, None, False]
    assert lost.endswith(shown)
    assert len(run(f"FSCK REPAIR TABLE {table}")) == 1
    assert run(f"SELECT * FROM {table}") == [[2, "c%d"]]
    assert run(f"DESCRIBE HISTORY {table}")[0][0] == 2


def test_a_login_in_a_path_is_shown_to_nobody(s3, spark_process):
    path = f"s3a://AKIAOFNOBODY:{s3.secret.replace('/', '%2F')}@{s3.bucket}/t"
    s3.rules({"path": s3.bucket, "do": "ignore"})
    told = spark_process.sql(f"CREATE TABLE delta.`{path}` (a INT) USING delta")
    assert "ecret" not in str(told), told
    told = spark_process.sql(f"SELECT * FROM delta.`{path}`")
    assert "ecret" not in str(told), told
    assert s3.secret not in spark_process.log_file.read_text()
    assert s3.secret.replace("/", "%2F") not in spark_process.log_file.read_text()


def test_objects_are_listed_and_deleted_in_bulk(s3, spark_process):
    """By pages of a thousand: a request for each object, or for each directory of many, would take hours."""
    run, table = spark_process.sql, f"delta.`s3a://{s3.bucket}/t`"
    run(
        f"CREATE TABLE {table} (id INT) USING delta TBLPROPERTIES "
        "('delta.deletedFileRetentionDuration' = 'interval 0 hours')"
    )
    count = 60
    for directory in range(6):
        for number in range(count // 6):
            assert s3.request("PUT", f"/{s3.bucket}/t/d{directory}/e{number % 3}/{number}.parquet", b"x")[0] == 200
    s3.rules()
    assert len(run(f"VACUUM {table} DRY RUN")) >= count
    listed = [path for method, path, _ in s3.seen()["requests"] if method == "GET" and "_delta_log" not in path]
    s3.rules()
    assert run(f"VACUUM {table}") == [[f"s3a://{s3.bucket}/t"]]
    deleted = [path for method, path, _ in s3.seen()["requests"] if method in ("POST", "DELETE")]
    assert run(f"VACUUM {table} DRY RUN") == []
    assert len(listed) <= 13, listed  # two for the folder of what is staged, one for a version after the newest
    assert len(deleted) <= 12, deleted
