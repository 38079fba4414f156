"""Tables of a Unity Catalog server by their names, through Spark: the statements, and what is refused."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from headwater.stores import store_for
from support.managed_tables import TOKEN
from support.unity_server import UnityModel, serving

CATALOG = "unity"
SETTING = f"spark.sql.catalog.{CATALOG}"
BLOCKED = "DELTA_PATH_BASED_ACCESS_TO_CATALOG_MANAGED_TABLE_BLOCKED"
NOT_ALLOWED = "DELTA_UNSUPPORTED_CATALOG_MANAGED_TABLE_OPERATION"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    model = UnityModel(str(tmp_path_factory.mktemp("unity")), TOKEN, catalog=CATALOG)
    with serving(model) as uri:
        yield model, uri


@pytest.fixture
def model(server, spark, settings):
    """The server, which has no tables, and is a catalog of the session."""
    found, uri = server
    found.schemas["s"].clear()
    found.allowed = None
    given = {SETTING: "headwater.spark.HeadwaterUnityCatalog", f"{SETTING}.uri": uri, f"{SETTING}.token": TOKEN}
    with settings(given):
        yield found


def entry(model, name="t"):
    return model.schemas["s"][name]


def committed(model, name="t"):
    """The actions of each version, as the log has them."""
    log = Path(entry(model, name).location) / "_delta_log"
    return [
        [json.loads(line) for line in (log / f"{version:020}.json").read_text().splitlines()]
        for version in range(entry(model, name).latest + 1)
    ]


def test_a_table_through_its_life(model, spark, rows):
    spark.sql("CREATE TABLE unity.s.t (id INT, name STRING) USING delta COMMENT 'of tests'")
    assert rows("SHOW NAMESPACES IN unity") == [("s",)]
    assert [row[:2] for row in rows("SHOW TABLES IN unity.s")] == [("s", "t")]
    spark.sql("INSERT INTO unity.s.t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    spark.sql("UPDATE unity.s.t SET name = 'x' WHERE id = 1")
    spark.sql("DELETE FROM unity.s.t WHERE id = 2")
    spark.sql(
        "MERGE INTO unity.s.t t USING (SELECT 3 AS id, 'm' AS name UNION ALL SELECT 4, 'n') s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    spark.sql("ALTER TABLE unity.s.t ADD COLUMN more INT")
    spark.sql("ALTER TABLE unity.s.t SET TBLPROPERTIES ('team' = 'a')")
    assert rows("SELECT * FROM unity.s.t ORDER BY id") == [(1, "x", None), (3, "m", None), (4, "n", None)]
    assert rows("SELECT count(*) FROM unity.s.t VERSION AS OF 1") == [(3,)]
    history = [row[4] for row in rows("DESCRIBE HISTORY unity.s.t")]
    expected = ["SET TBLPROPERTIES", "ADD COLUMNS", "MERGE", "DELETE", "UPDATE", "WRITE", "CREATE TABLE"]
    assert history == expected
    # The server knows each version, and what the table is now.
    table = entry(model)
    assert (table.latest, sorted(table.history)) == (6, [1, 2, 3, 4, 5, 6])
    assert [field["name"] for field in table.columns["fields"]] == ["id", "name", "more"]
    assert (table.properties["team"], table.comment) == ("a", "of tests")
    assert {"catalogManaged", "vacuumProtocolCheck"} <= {*committed(model)[0][1]["protocol"]["readerFeatures"]}
    spark.sql("COMMENT ON TABLE unity.s.t IS NULL")
    assert not entry(model).comment
    spark.sql("ALTER TABLE unity.s.t RENAME TO s.u")
    assert rows("SELECT count(*) FROM unity.s.u") == [(3,)]
    spark.sql("INSERT INTO unity.s.u VALUES (5, 'e', 1)")
    spark.sql("RESTORE TABLE unity.s.u TO VERSION AS OF 1")
    assert rows("SELECT count(*) FROM unity.s.u") == [(3,)]
    spark.sql("DROP TABLE unity.s.u")
    assert rows("SHOW TABLES IN unity.s") == []


def test_rows_of_queries_and_data_frames(model, spark, rows):
    spark.sql("CREATE TABLE unity.s.t USING delta AS SELECT id FROM range(5)")
    assert len(model.staged) == 0
    spark.sql(
        "CREATE OR REPLACE TABLE unity.s.t USING delta CLUSTER BY (id) TBLPROPERTIES (delta.enableRowTracking = true) "
        "AS SELECT id FROM range(7)"
    )
    assert entry(model).domains.keys() == {"delta.clustering", "delta.rowTracking"}
    assert entry(model).latest == 1
    assert entry(model).properties["io.unitycatalog.tableId"] == entry(model).id
    spark.range(7, 9).write.mode("append").saveAsTable("unity.s.t")
    spark.range(9, 10).writeTo("unity.s.t").append()
    assert rows("SELECT count(*), max(id) FROM unity.s.t") == [(10, 9)]
    spark.range(2).write.format("delta").mode("overwrite").saveAsTable("unity.s.t")
    assert spark.table("unity.s.t").count() == 2
    spark.sql("CREATE TABLE unity.s.c SHALLOW CLONE unity.s.t")
    spark.sql("CREATE TABLE unity.s.l LIKE unity.s.t")
    spark.sql("INSERT INTO unity.s.l SELECT * FROM unity.s.c")
    assert rows("SELECT count(*) FROM unity.s.l") == [(2,)]
    assert len({entry(model, name).id for name in "tcl"}) == 3


def test_missing_files_of_a_managed_table_are_removed_by_its_catalog(model, spark, rows):
    spark.sql("CREATE TABLE unity.s.t USING delta AS SELECT id FROM range(0, 4, 1, 1)")
    spark.sql("INSERT INTO unity.s.t VALUES (9)")
    (lost,) = (row[0] for row in rows("SELECT _metadata.file_path FROM unity.s.t WHERE id = 9"))
    Path(store_for(lost)[1]).unlink()
    assert len(rows("FSCK REPAIR TABLE unity.s.t DRY RUN")) == 1
    assert entry(model).latest == 1
    assert len(rows("FSCK REPAIR TABLE unity.s.t")) == 1
    assert entry(model).latest == 2
    assert rows("SELECT id FROM unity.s.t ORDER BY id") == [(0,), (1,), (2,), (3,)]


def test_an_index_of_a_managed_table_needs_no_permission(model, spark, rows):
    spark.sql("CREATE TABLE unity.s.t (id INT, name STRING) USING delta")
    spark.sql("INSERT INTO unity.s.t VALUES (1, 'a'), (2, 'b')")
    assert rows("CREATE INDEX by_name ON unity.s.t (name)")[0][:3] == ("by_name", 2, 2)
    assert [row[4] for row in rows("DESCRIBE HISTORY unity.s.t LIMIT 1")] == ["CREATE INDEX"]
    assert entry(model).properties["headwater.index.by_name.columns"] == "name"
    spark.sql("ALTER TABLE unity.s.t SET TBLPROPERTIES ('headwater.index.by_id.columns' = 'id')")
    assert [row[:3] for row in rows("REFRESH INDEX ON unity.s.t")] == [("by_id", 2, 2), ("by_name", 0, 0)]
    assert rows("SELECT id FROM unity.s.t WHERE name = 'b'") == [(2,)]
    spark.sql("DROP INDEX by_name ON unity.s.t")
    assert [row[0] for row in rows("SHOW INDEXES ON unity.s.t")] == ["by_id"]


def test_a_copy_outside_of_the_catalog_is_a_table_of_its_own(model, spark, rows, database):
    spark.sql("CREATE TABLE unity.s.t USING delta AS SELECT id FROM range(5)")
    spark.sql("CREATE TABLE like_it LIKE unity.s.t USING delta")
    spark.sql("CREATE TABLE cloned SHALLOW CLONE unity.s.t")
    for name in ("like_it", "cloned"):
        spark.sql(f"INSERT INTO {name} VALUES (7)")
        found = dict(rows(f"SHOW TBLPROPERTIES {name}"))
        assert "io.unitycatalog.tableId" not in found
        assert "delta.feature.catalogManaged" not in found
        path = rows(f"DESCRIBE DETAIL {name}")[0][4]
        assert spark.read.format("delta").load(path).count() == rows(f"SELECT count(*) FROM {name}")[0][0]


def test_streams_and_changes(model, spark, rows, tmp_path):
    spark.sql("CREATE TABLE unity.s.t (id INT, v STRING) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    spark.sql("INSERT INTO unity.s.t VALUES (1, 'a'), (2, 'b')")
    stream = spark.readStream.table("unity.s.t").writeStream.trigger(availableNow=True).format("delta")
    stream = stream.option("checkpointLocation", f"{tmp_path}/c")
    stream.toTable("unity.s.copy").awaitTermination()
    spark.sql("INSERT INTO unity.s.t VALUES (3, 'c')")
    stream.toTable("unity.s.copy").awaitTermination()
    assert rows("SELECT id FROM unity.s.copy ORDER BY id") == [(1,), (2,), (3,)]
    spark.sql("UPDATE unity.s.t SET v = 'z' WHERE id = 1")
    kinds = rows("SELECT id, v, _change_type FROM table_changes('unity.s.t', 3) ORDER BY v")
    assert kinds == [(1, "a", "update_preimage"), (1, "z", "update_postimage")]


def test_a_path_alone_gives_nothing(model, spark, rows, fails, settings):
    spark.sql("CREATE TABLE unity.s.t USING delta AS SELECT id FROM range(5)")
    assert rows("SELECT count(*) FROM unity.s.t") == [(5,)]
    path = entry(model).location
    with fails(BLOCKED, path, "by its name, `unity`.`s`.`t`."):
        spark.read.format("delta").load(path)
    with fails(BLOCKED, path, "by its name, `unity`.`s`.`t`."):
        spark.range(1).write.format("delta").mode("append").save(path)
    with fails(BLOCKED, path, "by its name, `unity`.`s`.`t`."):
        spark.sql(f"DELETE FROM delta.`{path}`")
    with settings({f"{SETTING}.uri": "http://127.0.0.1:1"}), fails(BLOCKED, path, "by its name in that catalog"):
        spark.read.format("delta").load(path)
    assert entry(model).latest == 0


def test_tables_that_lie_elsewhere(model, spark, rows, tmp_path):
    spark.sql(f"CREATE TABLE unity.s.e (id INT) USING delta LOCATION '{tmp_path}/e'")
    spark.sql("INSERT INTO unity.s.e VALUES (1)")
    assert rows(f"SELECT * FROM delta.`{tmp_path}/e`") == rows("SELECT * FROM unity.s.e") == [(1,)]
    assert not entry(model, "e").managed
    assert rows(f"SELECT * FROM unity.delta.`{tmp_path}/e`") == [(1,)]
    spark.sql("OPTIMIZE unity.s.e")
    spark.sql("DROP TABLE unity.s.e")
    assert rows(f"SELECT * FROM delta.`{tmp_path}/e`") == [(1,)]


def test_maintenance_that_the_catalog_allows(model, spark, rows, fails, settings):
    """Files are compacted, purged and deleted, and every version goes through the catalog."""
    spark.sql("CREATE TABLE unity.s.t USING delta AS SELECT id FROM range(5)")
    spark.sql("INSERT INTO unity.s.t VALUES (5), (6)")
    spark.sql("INSERT INTO unity.s.t VALUES (7)")
    spark.sql("DELETE FROM unity.s.t WHERE id = 1")
    model.allowed = ["DATA_REORGANIZATION"]
    assert rows("OPTIMIZE unity.s.t DRY RUN")
    spark.sql("REORG TABLE unity.s.t APPLY (PURGE)")
    spark.sql("OPTIMIZE unity.s.t")
    files = rows("SELECT DISTINCT _metadata.file_path FROM unity.s.t")
    assert len(files) == 1
    with fails(NOT_ALLOWED, "have it allow DATA_CLEANUP", state="0AKDC"):
        spark.sql("VACUUM unity.s.t")
    location = Path(entry(model).location)
    before = len([*location.glob("*.parquet")])
    assert before > 1
    model.allowed = ["DATA_CLEANUP"]
    spark.sql("VACUUM unity.s.t")  # within the retention
    assert len([*location.glob("*.parquet")]) == before
    old = time.time() - 30 * 24 * 3600
    for file in location.glob("*.parquet"):
        os.utime(file, (old, old))
    with settings({"spark.databricks.delta.retentionDurationCheck.enabled": "false"}):
        spark.sql("VACUUM unity.s.t RETAIN 0 HOURS")
    assert len([*location.glob("*.parquet")]) == 1
    assert sorted(rows("SELECT id FROM unity.s.t")) == [(0,), (2,), (3,), (4,), (5,), (6,), (7,)]
    with fails(NOT_ALLOWED, "have it allow DATA_REORGANIZATION", state="0AKDC"):
        spark.sql("OPTIMIZE unity.s.t")
    frame = spark.table("unity.s.t").write.format("delta").option("dataChange", "false").mode("overwrite")
    with fails(NOT_ALLOWED, "dataChange = false", state="0AKDC"):
        frame.saveAsTable("unity.s.t")
    model.allowed = ["DATA_REORGANIZATION"]
    frame.saveAsTable("unity.s.t")
    assert rows("SELECT count(*) FROM unity.s.t") == [(7,)]


@pytest.mark.parametrize("allowed", [None, ["DATA_REORGANIZATION"]])
def test_small_files_are_compacted_if_the_catalog_allows_it(allowed, model, spark, rows, settings):
    model.allowed = allowed
    spark.sql("CREATE TABLE unity.s.t (id INT) USING delta TBLPROPERTIES (delta.autoOptimize.autoCompact = true)")
    with settings({"spark.databricks.delta.autoCompact.minNumFiles": "2"}):
        for number in range(3):
            spark.sql(f"INSERT INTO unity.s.t VALUES ({number})")
        until = time.monotonic() + (1 if allowed is None else 60)
        while time.monotonic() < until and "OPTIMIZE" not in operations(rows):
            time.sleep(0.1)
    assert ("OPTIMIZE" in operations(rows)) == (allowed is not None)
    assert sorted(rows("SELECT id FROM unity.s.t")) == [(0,), (1,), (2,)]


def operations(rows):
    return [row[4] for row in rows("DESCRIBE HISTORY unity.s.t")]


def test_what_only_the_catalog_may_do(model, spark, rows, fails):
    spark.sql("CREATE TABLE unity.s.t USING delta AS SELECT id FROM range(5)")
    for statement in ("VACUUM unity.s.t", "OPTIMIZE unity.s.t", "REORG TABLE unity.s.t APPLY (PURGE)"):
        with fails(NOT_ALLOWED, "`unity`.`s`.`t`", state="0AKDC"):
            spark.sql(statement)
    for change in (
        "SET TBLPROPERTIES ('delta.feature.catalogManaged' = 'supported')",
        "SET TBLPROPERTIES ('io.unitycatalog.tableId' = 'x')",
        "UNSET TBLPROPERTIES ('io.unitycatalog.tableId')",
        "SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'false')",
        "DROP FEATURE catalogManaged",
    ):
        with pytest.raises(Exception, match=r"\[DELTA_"):
            spark.sql(f"ALTER TABLE unity.s.t {change}")
    assert entry(model).latest == 0


def test_what_is_no_table_of_the_catalog(model, spark, fails):
    with fails("TABLE_OR_VIEW_NOT_FOUND", "`unity`.`s`.`none`"):
        spark.sql("SELECT * FROM unity.s.none")
    with fails("SCHEMA_NOT_FOUND", "nowhere"):
        spark.sql("CREATE TABLE unity.nowhere.t (id INT) USING delta")
    with fails("HEADWATER_CATALOG_OPERATION_UNSUPPORTED", "USING parquet"):
        spark.sql("CREATE TABLE unity.s.p (id INT) USING parquet")
    with fails("HEADWATER_CATALOG_OPERATION_UNSUPPORTED", "CREATE SCHEMA"):
        spark.sql("CREATE SCHEMA unity.x")
    with fails("HEADWATER_CATALOG_PROPERTY_REQUIRED", "delta.enableDeletionVectors"):
        spark.sql("CREATE TABLE unity.s.t (id INT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')")
    assert not model.schemas["s"]
    spark.sql(
        "CREATE TABLE unity.s.t (id INT) USING delta TBLPROPERTIES ('delta.feature.catalogManaged' = 'supported')"
    )
    with fails("TABLE_OR_VIEW_ALREADY_EXISTS"):
        spark.sql("CREATE TABLE unity.s.t (id INT) USING delta")


def test_a_token_is_in_no_text(model, spark, rows, fails, settings):
    spark.sql("CREATE TABLE unity.s.t USING delta AS SELECT id FROM range(5)")
    texts = [
        str(rows(statement))
        for statement in (
            "EXPLAIN EXTENDED SELECT * FROM unity.s.t WHERE id > 1",
            "DESCRIBE EXTENDED unity.s.t",
            "SHOW CREATE TABLE unity.s.t",
            "DESCRIBE HISTORY unity.s.t",
        )
    ]
    with settings({f"{SETTING}.token": "dapi-wrong"}), fails("HEADWATER_CATALOG_FAILED", "status 401") as raised:
        spark.sql("INSERT INTO unity.s.t VALUES (1)")
    assert "dapi-" not in str(texts) + raised.text
    log = "".join(path.read_text() for path in Path(entry(model).location, "_delta_log").glob("*.json"))
    assert "dapi-" not in log


def test_below_the_connector_of_unity_catalog(model, spark, rows, server, tmp_path):
    """As Unity Catalog's own connector does: its catalog below, its settings handed over, tables by their schema."""
    jvm, sql = spark._jvm, spark._jvm.org.apache.spark.sql
    below = spark._jsparkSession.sessionState().catalogManager().v2SessionCatalog()
    catalog = jvm.headwater.spark.HeadwaterCatalog()
    catalog.setDelegateCatalog(below)
    catalog.initialize(CATALOG, sql.util.CaseInsensitiveStringMap({"uri": server[1], "token": TOKEN}))

    def identifier(name, schema="s"):
        namespace = spark._sc._gateway.new_array(jvm.String, 1)
        namespace[0] = schema
        return sql.connector.catalog.Identifier.of(namespace, name)

    schema = sql.types.StructType.fromDDL("id INT, v STRING")
    transforms = spark._sc._gateway.new_array(jvm.org.apache.spark.sql.connector.expressions.Transform, 0)
    given = {"provider": "delta", "delta.feature.catalogManaged": "supported"}
    catalog.createTable(identifier("t"), schema, transforms, given)
    assert entry(model).managed
    spark.sql("INSERT INTO unity.s.t VALUES (1, 'a')")
    found = catalog.loadTable(identifier("t"))
    assert [found.columns()[i].name() for i in range(2)] == ["id", "v"]
    catalog.stageCreateOrReplace(identifier("u"), schema, transforms, given).commitStagedChanges()
    catalog.stageCreateOrReplace(identifier("t"), schema, transforms, given).commitStagedChanges()
    assert (entry(model, "u").latest, entry(model).latest) == (0, 2)
    assert rows("SELECT * FROM unity.s.t") == []
    # What is no Delta table of the server is left to the catalog below.
    spark.sql(f"CREATE TABLE default.beside (id INT) USING parquet LOCATION '{tmp_path}/p'")
    try:
        assert catalog.tableExists(identifier("beside", "default"))
        assert not catalog.tableExists(identifier("none"))
        assert "beside" in str(catalog.loadTable(identifier("beside", "default")).name())
    finally:
        catalog.dropTable(identifier("beside", "default"))
    assert not spark.catalog.tableExists("default.beside")


def test_the_application_s_token_goes_to_the_application_s_server_only(spark, server, settings, fails):
    model, uri = server
    conf = spark._jsc.sc().conf()
    given = {SETTING: "headwater.spark.HeadwaterUnityCatalog", f"{SETTING}.uri": uri, f"{SETTING}.token": TOKEN}
    with serving(UnityModel(str(Path(model.root)), TOKEN, catalog=CATALOG)) as another, settings(given):
        for key in (f"{SETTING}.uri", f"{SETTING}.token"):
            conf.set(key, given[key])
        try:
            spark.sql("SHOW TABLES IN unity.s")
            spark.conf.set(f"{SETTING}.uri", another)
            with fails("HEADWATER_CATALOG_NOT_CONFIGURED", f"{SETTING}.token"):
                spark.sql("SHOW TABLES IN unity.s")
            # One that a session brings along goes where the session says.
            spark.conf.set(f"{SETTING}.token", "of my own")
            with fails("HEADWATER_CATALOG_FAILED"):
                spark.sql("SHOW TABLES IN unity.s")
        finally:
            for key in (f"{SETTING}.uri", f"{SETTING}.token"):
                conf.remove(key)
