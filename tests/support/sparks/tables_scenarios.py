"""The Python API from end to end, for a session of either kind."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headwater.tables import DeltaTable, IdentityGenerator


def _rows(table: DeltaTable) -> list[list[Any]]:
    return sorted(list(row) for row in table.toDF().select("id", "v").collect())


def _condition(work: Any) -> str | None:
    try:
        work()
    except PySparkException as error:
        return error.getCondition()
    return None


def tables_open(spark: SparkSession, home: str) -> dict[str, Any]:
    """Make a table, open it, describe it."""
    found: dict[str, Any] = {}
    path = f"{home}/made"
    begun = DeltaTable.create(spark).location(path).addColumn("id", "BIGINT", generatedAlwaysAs=IdentityGenerator())
    table = begun.addColumn("v", "STRING", nullable=False, comment="it's").property("mine", "x").execute()
    spark.sql(f"INSERT INTO delta.`{path}` (v) VALUES ('a')")
    found["rows"] = _rows(table)
    found["versions"] = [row.version for row in table.history(5).collect()]
    found["cloned"] = [_rows(table.clone(f"{home}/{n}", isShallow=bool(n))) == found["rows"] for n in range(2)]
    time = str(table.history(1).collect()[0].timestamp)
    found["earlier"] = [
        table.cloneAtVersion(0, f"{home}/earlier", True, properties={"mine": "y"}).toDF().count(),
        _rows(table.cloneAtTimestamp(time, f"{home}/earlier", replace=True)) == found["rows"],
    ]
    table.toDF().write.parquet(f"{home}/files")
    found["converted"] = _rows(DeltaTable.convertToDelta(spark, f"parquet.`{home}/files`")) == found["rows"]
    found["mine"] = table.detail().collect()[0].properties["mine"]
    found["is"] = [DeltaTable.isDeltaTable(spark, place) for place in (path, home, f"{home}/absent")]
    spark.sql("CREATE TABLE IF NOT EXISTS other_format (a INT) USING parquet")
    found["conditions"] = [
        _condition(lambda: DeltaTable.forPath(spark, f"{home}/absent")),
        _condition(lambda: DeltaTable.forName(spark, "absent")),
        _condition(lambda: DeltaTable.forName(spark, "other_format")),
        _condition(lambda: table.clone(path, isShallow=True)),
        _condition(lambda: table.delete(F.col("absent") == 1)),
    ]
    spark.sql("DROP TABLE other_format")
    return found


def tables_changes(spark: SparkSession, home: str) -> dict[str, Any]:
    """A changelog, its events in a batch and in a stream, and keys that are none."""
    path = f"{home}/followed"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id INT, v STRING) USING delta "
        "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
    for statement in ("INSERT INTO {} VALUES (1, 'a')", "UPDATE {} SET v = 'b'", "DELETE FROM {}"):
        spark.sql(statement.format(f"delta.`{path}`"))
    table = DeltaTable.forPath(spark, path)

    def changelog(*versions: int) -> list[Any]:
        rows = table.changelog(*versions, keys=["id"]).orderBy("_commit_version", "_ordinal")
        return [list(row) for row in rows.select("_row_kind", "id", "v").collect()]

    def events(frame: Any) -> list[Any]:
        return [[row.key, row.value and json.loads(row.value)["op"]] for row in frame.collect()]

    stream = spark.readStream.format("delta").option("readChangelog", True).option("changelogFormat", "debezium")
    read = stream.option("idCols", "id").option("startingVersion", 1).load(path).writeStream.format("memory")
    query = read.option("checkpointLocation", f"{home}/checkpoint").queryName("followed").trigger(availableNow=True)
    query.start().awaitTermination()

    def send(*keys: str) -> None:
        table.sendChanges("t", "127.0.0.1:1", checkpoint=f"{home}/sent", keys=keys, startingVersion=1)

    return {
        "changelog": changelog(1),
        "part": changelog(2, 2),
        "debezium": events(table.debezium(1, keys=["ID"])),
        "streamed": events(spark.table("followed")),
        "conditions": [_condition(lambda: send("q")), _condition(send)],
    }


def tables_change(spark: SparkSession, home: str) -> dict[str, Any]:
    """DELETE, UPDATE and MERGE, with texts, with Columns and with both."""
    found: dict[str, Any] = {}
    path = f"{home}/changed"
    spark.sql(f"CREATE TABLE delta.`{path}` USING delta AS SELECT id, id * 10 AS v FROM range(8)")
    table = DeltaTable.forPath(spark, path).alias("t")
    local = spark.createDataFrame([(4, 400), (5, 500), (8, 800), (9, 900)], "id BIGINT, v BIGINT").alias("s")
    found["deleted"] = [
        list(table.delete("t.id = 0").collect()[0]),
        list(table.delete(F.col("t.id") == 1).collect()[0]),
        list(table.delete(table.toDF().id == 2).collect()[0]),
    ]
    found["updated"] = [
        list(table.update("id = 3", {"t.v": "v + 1"}).collect()[0]),
        list(table.update(F.col("id") == 3, {"v": F.col("t.v") + 1}).collect()[0]),
    ]
    found["rows"] = [_rows(table)]
    table.merge(local, "t.id = s.id").whenMatchedUpdate(set={"v": "s.v + t.v"}).whenNotMatchedInsertAll(
        "s.id = 8"
    ).whenNotMatchedBySourceDelete("t.id = 6").execute()
    found["rows"].append(_rows(table))
    merged = (
        table.merge(local.where("s.id > 4"), F.col("t.id") == F.col("s.id"))
        .whenMatchedUpdate(F.col("s.id") == 5, {"v": F.col("s.v") - F.col("t.v")})
        .whenMatchedDelete("s.id = 8")
        .whenNotMatchedInsert(F.col("id") == 9, {"id": F.col("id"), "v": "v + 1"})
        .whenNotMatchedBySourceUpdate(F.col("id") == 7, {"v": -F.col("v")})
        .execute()
    )
    found["merged"] = list(merged.collect()[0])
    found["rows"].append(_rows(table))
    table.merge(table.toDF().alias("s"), F.col("t.id") == F.col("s.id") + 1).whenMatchedUpdate(
        set={"v": F.col("s.v")}
    ).execute()
    found["rows"].append(_rows(table))
    few = local.where("s.id > 7")
    table.merge(few, table.toDF().id == few.id).whenMatchedUpdate(
        set={"v": few.v - table.toDF().v}
    ).whenNotMatchedInsert(values={"id": few["id"], "v": few.v}).execute()
    found["rows"].append(_rows(table))
    table.upsert(
        local.selectExpr("id", "-1L AS v", "id = 5 AS gone"), ["id"], deleteWhen="gone", exceptColumns=["gone"]
    )
    found["rows"].append(_rows(table))
    found["conditions"] = [
        _condition(lambda: table.upsert(local, ["ids"])),
        _condition(lambda: table.merge(local, F.col("id") == 1).whenMatchedDelete().execute()),
        _condition(
            lambda: table.merge(local, "t.id = s.id").whenNotMatchedInsert(values={"id": F.col("t.id")}).execute()
        ),
    ]
    found["views"] = [view.name for view in spark.catalog.listTables() if view.name.startswith("__headwater")]
    return found


def tables_shown(spark: SparkSession, home: str) -> dict[str, Any]:
    """What a notebook shows of a table and of what is done to it; names and texts have markup in them."""
    path, odd = f"{home}/<i>t", "<b>&\"'\u202e"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id INT, `{odd}` INT) USING delta PARTITIONED BY (`{odd}`) COMMENT '<script>' "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true')"
    )
    for start in (0, 10):
        spark.sql(f"INSERT INTO delta.`{path}` SELECT CAST(id AS INT), 1 FROM range({start}, {start + 10}, 1, 1)")
    table = DeltaTable.forPath(spark, path)
    source = spark.createDataFrame([(4,), (5,)], "i INT")
    statements: dict[str, Callable[[], Any]] = {
        "deleted": lambda: table.delete("id < 3"),
        "nothing": lambda: table.delete("id < 0"),
        "updated": lambda: table.update("id < 5", {"id": "id + 100"}),
        "merged": lambda: table.merge(source, "id = i").whenMatchedDelete().execute(),
        "optimized": lambda: table.optimize().executeCompaction(),
        "vacuumed": table.vacuum,
        "restored": lambda: table.restoreToVersion(1),
    }
    html = {}
    for name, run in statements.items():
        answer = run()
        html[name] = answer._repr_html_()
    lines = {name: text.partition("</div>")[0].removeprefix("<div>") for name, text in html.items()}
    html["history"], html["card"] = table.history()._repr_html_(), table._repr_html_()
    return {
        "lines": {name: re.sub(r"[\d.]+ (s|K?i?B)\b", "#", line) for name, line in lines.items()},
        "tags": sorted(set(re.findall(r"<(\w+)", "".join(map(str, html.values()))))),
        "escaped": [text in html["card"] for text in ("&lt;script&gt;", "&lt;b&gt;&amp;&quot;&#x27;\\u202e")],
        "bars": html["card"].count("<rect"),
        "rows": html["history"].count("<tr>"),
        "answer": answer.columns[:2],
        "repr": repr(table).startswith("DeltaTable delta."),
    }
