"""Tables whose log has what harms nobody: values without quotes, metadata of fields that Spark has no type for."""

from __future__ import annotations

import json

ODD = {
    "mixed": [1, "a"],
    "nulls": [None, 1],
    "nested": [[1], [2]],
    "deep": {"inner": [True, 2.5]},
    "kept": "as it was",
    "numbers": [1, 2],
}


def test_what_spark_has_no_type_for_is_left_out_and_kept_in_the_log(spark, tmp_path, log):
    path, name = tmp_path / "t", f"delta.`{tmp_path / 't'}`"
    spark.sql(f"CREATE TABLE {name} (id INT, s STRUCT<x: INT>) USING delta")
    spark.sql(f"INSERT INTO {name} VALUES (1, named_struct('x', 2))")
    (metadata,) = (action["metaData"] for action in log(path, 0) if "metaData" in action)
    defined_before = spark.read.format("delta").load(str(path))
    schema = json.loads(metadata["schemaString"])
    schema["fields"][0]["metadata"] = ODD
    schema["fields"][1]["type"]["fields"][0]["metadata"] = ODD
    metadata["schemaString"] = json.dumps(schema)
    metadata["configuration"] |= {"delta.appendOnly": False, "delta.dataSkippingNumIndexedCols": 3, "mine": 1.5}
    commit = path / "_delta_log" / f"{2:020d}.json"
    commit.write_text(json.dumps({"metaData": metadata}) + "\n")
    spark.sql(f"INSERT INTO {name} VALUES (3, named_struct('x', 4))")
    spark.sql(f"UPDATE {name} SET id = 5 WHERE s.x = 2")
    read = spark.read.format("delta").load(str(path))
    assert sorted(read.collect()) == sorted(defined_before.collect()) == [(3, (4,)), (5, (2,))]
    assert read.schema["id"].metadata["kept"] == "as it was"
    assert read.schema["id"].metadata["numbers"] == [1, 2]
    shown = {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {name}").collect()}
    assert (shown["delta.appendOnly"], shown["delta.dataSkippingNumIndexedCols"], shown["mine"]) == (
        "false",
        "3",
        "1.5",
    )
    spark.sql(f"ALTER TABLE {name} ADD COLUMN more INT")
    changed = [action["metaData"] for version in (5,) for action in log(path, version) if "metaData" in action]
    assert json.loads(changed[0]["schemaString"])["fields"][0]["metadata"] == ODD


def test_a_case_sensitive_session_learns_which_names_differ(spark, settings, database, fails):
    spark.sql("CREATE TABLE t (Id INT, s STRUCT<X: INT>) USING delta")
    top, nested = "SELECT 1 AS id, named_struct('X', 1) AS s", "SELECT 1 AS Id, named_struct('x', 1) AS s"
    with settings({"spark.sql.caseSensitive": "true"}):
        for query, given, own in ((top, "id", "Id"), (nested, "s.x", "s.X")):
            words = (f"The data has {given}, the table has {own}", "spark.sql.caseSensitive")
            rows = spark.sql(query)
            for merges in ("false", "true"):
                with fails("DELTA_METADATA_MISMATCH", *words):
                    rows.write.format("delta").mode("append").option("mergeSchema", merges).saveAsTable("t")
            with fails("DELTA_METADATA_MISMATCH", *words):
                spark.sql(f"INSERT INTO t BY NAME {query}")
        spark.sql("SELECT 1 AS Id, named_struct('X', 1) AS s").write.format("delta").mode("append").saveAsTable("t")
    spark.sql(top).write.format("delta").mode("append").saveAsTable("t")
    assert spark.table("t").count() == 2
