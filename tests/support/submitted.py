"""A program that tests give to a cluster with ``spark-submit``: DML, maintenance and the change feed of one table.

Its arguments: the table's path, and a file of this machine. The file is there as soon as the table is, and has
:data:`ANSWERS` at the end.
"""

from __future__ import annotations

import sys

#: The lines that it writes, whatever the cluster.
ANSWERS = [
    "found [('added', 1100, 9249000), ('merged', 900, 6750000), ('new', 2800, 9800000), ('odd', 3500, 12250000)]",
    "changed [(800,)]",
]


def main(path: str, answers: str) -> None:
    from pyspark.sql import SparkSession

    from headwater.tables import DeltaTable

    spark = SparkSession.builder.getOrCreate()

    def rows(text: str) -> list[tuple]:
        return [tuple(row) for row in spark.sql(text).collect()]

    t = f"delta.`{path}`"
    rows(f"CREATE TABLE {t} (id BIGINT, v STRING) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    with open(answers, "w", encoding="utf-8") as file:  # what is printed is shown when the program ends, or nowhere
        for number in range(8):
            rows(f"INSERT INTO {t} SELECT id, 'new' FROM range({1000 * number}, {1000 * number + 1000}, 1, 4)")
        rows(f"DELETE FROM {t} WHERE id % 10 = 0")
        rows(f"UPDATE {t} SET v = 'odd' WHERE id % 2 = 1")
        DeltaTable.forPath(spark, path).alias("t").merge(
            spark.range(7000, 9000).alias("s"), "t.id = s.id"
        ).whenMatchedUpdate(set={"v": "'merged'"}).whenNotMatchedInsert(values={"id": "s.id", "v": "'added'"}).execute()
        rows(f"OPTIMIZE {t}")
        rows(f"VACUUM {t}")
        print("found", rows(f"SELECT v, count(*), sum(id) FROM {t} GROUP BY v ORDER BY v"), file=file)
        print("changed", rows(f"SELECT count(*) FROM table_changes_by_path('{path}', 9, 9)"), file=file)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
