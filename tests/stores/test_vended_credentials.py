"""Credentials that a catalog vends for its tables: the server lets nobody else in. Executors run in another process."""

from __future__ import annotations

import time

import pytest

from support.managed_tables import TOKEN
from support.unity_server import Refusal, UnityModel, credential, serving

#: A part of every secret, and of nothing else.
MARK = "zv9k"
SETTING = "spark.sql.catalog.unity"
HOUR = 3_600_000


class Vending:
    """What the catalog vends. ``number``: of the credentials that the store takes."""

    def __init__(self, s3, model):
        self.s3, self.number, self.lasts, self.refuses, self.asked = s3, 0, HOUR, set(), []
        self.model = model
        model.vends = self.vend
        self.expire("deny")

    def expire(self, do):
        """The store takes the credentials that are vended from here on, and no other ones."""
        self.number += 1
        self.s3.rules({"path": "/managed(/|$)", "unless": self.key, "do": do})

    @property
    def key(self):
        return f"ASIA{MARK.upper()}{self.number}"

    def vend(self, location, operation):
        self.asked.append(operation)
        if operation in self.refuses:
            raise Refusal(403, "PermissionDeniedException", "no such right")
        expires = int(time.time() * 1000) + self.lasts
        config = {
            "s3.access-key-id": self.key,
            "s3.secret-access-key": f"{MARK}/secret",
            "s3.session-token": f"{MARK}/session",
        }
        outer, *_ = location.rpartition("/")
        other = {key: f"{value}?" for key, value in config.items()}
        return [credential(outer, operation, other, expires), credential(location, operation, config, expires)]


@pytest.fixture
def vending(s3, spark_process):
    model = UnityModel(f"s3a://{s3.bucket}/managed", TOKEN, catalog="unity")
    with serving(model) as uri:
        given = {SETTING: "headwater.spark.HeadwaterUnityCatalog", f"{SETTING}.uri": uri, f"{SETTING}.token": TOKEN}
        for key, value in given.items():
            spark_process.sql(f"SET {key}={value}")
        yield Vending(s3, model)


def test_a_table_is_reached_with_what_its_catalog_vends(vending, s3, spark_process):
    sql = spark_process.sql
    sql("SET spark.sql.ui.explainMode = extended")
    spark_process.run("log_at", level="INFO")
    done = [
        sql(text)
        for text in (
            "CREATE TABLE unity.s.t (id INT, v STRING)",
            "INSERT INTO unity.s.t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
            "UPDATE unity.s.t SET v = 'x' WHERE id = 1",
            "MERGE INTO unity.s.t t USING (SELECT 3 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 'm'",
            "CREATE TABLE unity.s.u AS SELECT id, v FROM unity.s.t",
            f"CREATE TABLE unity.s.e (id INT) LOCATION 's3a://{s3.bucket}/else'",
            "INSERT INTO unity.s.e VALUES (7)",
        )
    ]
    assert [answer for answer in done if "text" in answer] == []
    assert sorted(sql("SELECT * FROM unity.s.t")) == [[1, "x"], [2, "b"], [3, "m"]]
    assert sorted(sql("SELECT * FROM unity.s.u JOIN unity.s.e")) == [[1, "x", 7], [2, "b", 7], [3, "m", 7]]
    # Once for each table, and once for its place.
    assert vending.asked == ["READ_WRITE"] * 3
    texts = [
        "EXPLAIN EXTENDED SELECT * FROM unity.s.t WHERE id > 1",
        "EXPLAIN FORMATTED UPDATE unity.s.t SET v = 'y' WHERE id > 1",
        "DESCRIBE EXTENDED unity.s.t",
        "DESCRIBE HISTORY unity.s.t",
        "SHOW CREATE TABLE unity.s.t",
        "SHOW TBLPROPERTIES unity.s.t",
        "SHOW TABLE EXTENDED IN unity.s LIKE 't'",
    ]
    answers = [str(sql(text)) for text in texts]
    assert all("s3a://" in answers[n] or "unity" in answers[n] for n in (0, 1, 2, 4))
    shown = "\n".join([*answers, spark_process.run("shown")])
    spark_process.run("log_at", level="WARN")
    assert "MERGE INTO" in shown
    for text in (shown, spark_process.log, spark_process.events):
        assert len(text) > 1000
        assert MARK not in text.lower()
    assert not any(MARK in s3.stored(path).decode(errors="replace").lower() for path in s3.paths())


def test_credentials_are_replaced_before_and_when_they_expire(vending, s3, spark_process):
    sql = spark_process.sql
    vending.lasts = 3000
    assert sql("CREATE TABLE unity.s.t (id INT)") == []
    vending.lasts = HOUR
    time.sleep(1.6)
    vending.expire("deny")
    vending.asked.clear()
    assert sql("INSERT INTO unity.s.t VALUES (1)") == []
    assert sql("INSERT INTO unity.s.t VALUES (2)") == []
    assert vending.asked == ["READ_WRITE"]
    # Those that the statement began with are refused as it commits.
    for do in ("expire", "deny"):
        vending.number += 1
        s3.rules({"path": "_staged_commits/", "method": "PUT", "unless": vending.key, "do": do})
        vending.asked.clear()
        assert sql("INSERT INTO unity.s.t VALUES (3)") == []
        assert vending.asked == ["READ_WRITE"]
    # Its tasks have those that it began with.
    s3.rules({"path": "[.]parquet", "method": "PUT", "do": "expire"})
    error = sql("INSERT INTO unity.s.t VALUES (4)")
    assert (error["condition"], error["state"]) == ("HEADWATER_CREDENTIALS_EXPIRED", "58030")
    assert MARK not in error["text"].lower()
    s3.rules()
    assert sorted(sql("SELECT id FROM unity.s.t")) == [[1], [2], [3], [3]]


def test_a_table_on_azure(vending, azure, spark_process):
    azure.rules({"signed": True, "do": "deny"})
    vending.model.root = f"{azure.root}/managed"
    vending.model.vends = lambda location, operation: [
        credential(location, operation, {"azure.sas-token": f"?sv=2021-10-04&sig={MARK}"})
    ]
    assert spark_process.sql("CREATE TABLE unity.s.t AS SELECT 1 AS id") == []
    assert spark_process.sql("SELECT * FROM unity.s.t") == [[1]]
    assert MARK not in spark_process.log.lower()


def test_rights_that_are_for_reading_alone(vending, spark_process):
    sql = spark_process.sql
    sql("CREATE TABLE unity.s.t AS SELECT 1 AS id")
    vending.model.tokens.add("dapi-reader")
    sql(f"SET {SETTING}.token=dapi-reader")
    vending.asked.clear()
    vending.refuses = {"READ_WRITE"}
    assert sql("SELECT * FROM unity.s.t") == [[1]]
    assert sql("SELECT * FROM unity.s.t") == [[1]]
    assert vending.asked == ["READ_WRITE", "READ"]
    vending.refuses = {"READ_WRITE", "READ"}
    vending.model.tokens.add("dapi-nobody")
    sql(f"SET {SETTING}.token=dapi-nobody")
    error = sql("SELECT * FROM unity.s.t")
    assert (error["condition"], error["state"]) == ("HEADWATER_CATALOG_FAILED", "08006")
    assert "no such right" in error["text"]


def test_a_session_may_reach_its_tables_by_itself(vending, s3, spark_process):
    sql = spark_process.sql
    sql("CREATE TABLE unity.s.t AS SELECT 1 AS id")
    vending.asked.clear()
    sql(f"SET {SETTING}.vendedCredentials=false")
    try:
        assert sql("SELECT * FROM unity.s.t")["condition"] == "DELTA_FILE_ACCESS_FAILED"
        s3.rules()
        assert sql("SELECT * FROM unity.s.t") == [[1]]
        sql(f"SET {SETTING}.vendedCredentials=perhaps")
        assert sql("SELECT * FROM unity.s.t")["condition"] == "DELTA_ILLEGAL_OPTION"
    finally:
        sql(f"SET {SETTING}.vendedCredentials=true")
    assert vending.asked == []


@pytest.mark.parametrize("status", [404, 501])
def test_a_catalog_that_vends_none(status, vending, s3, spark_process):
    def vend(location, operation):
        raise Refusal(status, "NotFoundException" if status == 404 else "NotImplemented", "none are vended")

    s3.rules()
    vending.model.vends = vend
    assert spark_process.sql("CREATE TABLE unity.s.t AS SELECT 1 AS id") == []
    assert spark_process.sql("SELECT * FROM unity.s.t") == [[1]]
