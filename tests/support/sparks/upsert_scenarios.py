"""What the tests have a Spark driver do with upserts; see :mod:`support.sparks.scenarios`."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from headwater.tables import DeltaTable

_KEYED = {"idCols": "id", "sequenceBy": "at", "deleteWhen": "v = 'gone'"}
_COLUMNS = "id INT, part STRING, at INT, v STRING"


def upserts(spark: SparkSession, home: str, stored_as: str) -> list[list[Any]]:
    """Upsert into a partitioned table by each writer and by a stream, with late events and deletions; its rows."""
    name, path, source = f"upserted_{stored_as}", f"{home}/{stored_as}", f"{home}/{stored_as}-source"
    options = {**_KEYED, "storedAs": stored_as}

    def writer(*events: tuple[int, str, int, str]) -> Any:
        rows = spark.createDataFrame(list(events), _COLUMNS)
        return rows.write.format("delta").mode("append").options(**options)

    writer((1, "a", 10, "x"), (2, "b", 10, "y")).partitionBy("part").option("path", path).saveAsTable(name)
    writer((1, "a", 5, "late"), (2, "b", 20, "gone")).save(path)
    spark.createDataFrame([(2, "b", 15, "late"), (4, "b", 9, "gone")], _COLUMNS).writeTo(name).options(
        **options
    ).append()
    given = ", ".join(f"{key} = '{value}'" for key, value in {**options, "deleteWhen": 'v = "gone"'}.items())
    spark.sql(f"INSERT INTO {name} WITH ({given}) BY NAME SELECT 3 AS id, 'a' AS part, 1 AS at, 'n' AS v").collect()
    moved = spark.createDataFrame([(1, "b", 30, "z"), (4, "b", 8, "late")], _COLUMNS)
    DeltaTable.forName(spark, name).upsert(
        moved, ["id"], sequenceBy="at", deleteWhen="v = 'gone'", storedAs=stored_as, tombstoneRetention="1 day"
    )
    spark.sql(f"CREATE TABLE delta.`{source}` ({_COLUMNS}) USING delta")
    spark.sql(f"INSERT INTO delta.`{source}` VALUES (3, 'a', 9, 'gone'), (3, 'a', 7, 'late'), (1, 'b', 20, 'm')")
    stream = spark.readStream.format("delta").load(source).writeStream.format("delta").outputMode("update")
    stream = stream.options(**options).option("checkpointLocation", f"{home}/{stored_as}-checkpoint")
    stream.trigger(availableNow=True).toTable(name).awaitTermination()
    rows = sorted((list(row) for row in spark.table(name).collect()), key=repr)
    spark.sql(f"DROP TABLE {name}")
    return rows


#: What :func:`upserts` returns, by the way of storing.
UPSERTED: dict[str, list[list[Any]]] = {
    "scd1": [[1, "b", 30, "z"]],
    "scd2": [
        [1, "a", 10, "x", 10, 20],
        [1, "a", 5, "late", 5, 10],
        [1, "b", 20, "m", 20, 30],
        [1, "b", 30, "z", 30, None],
        [2, "b", 10, "y", 10, 15],
        [2, "b", 15, "late", 15, 20],
        [3, "a", 1, "n", 1, 7],
        [3, "a", 7, "late", 7, 9],
        [4, "b", 8, "late", 8, 9],
    ],
}
