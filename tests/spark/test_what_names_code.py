"""What a session sets and what a table's log says: neither has the driver run code that it names."""

from __future__ import annotations

import json

import pytest
from pyspark.errors import PySparkException

MARK = "headwater.test.ran"
TEXTS = {
    "java_method": f"java_method('java.lang.System', 'setProperty', '{MARK}', 'x')",
    "Reflect": f"system.builtin.Reflect('java.lang.System', 'setProperty', '{MARK}', 'x')",
    "try_reflect": f"coalesce(try_reflect('java.lang.System', 'setProperty', '{MARK}', 'x'), 'a')",
    "IDENTIFIER": f"IDENTIFIER('refl' || 'ect')('java.lang.System', 'setProperty', '{MARK}', 'x')",
    "a subquery": "(SELECT max(id) FROM range(2)) || s",
}


def in_constraint(metadata, text):
    metadata["configuration"]["delta.constraints.c"] = f"length({text}) >= 0"


def in_invariant(metadata, text):
    rule = json.dumps({"expression": {"expression": f"length({text}) >= 0"}})
    changed(metadata, {"delta.invariants": rule})


def in_generated(metadata, text):
    changed(metadata, {"delta.generationExpression": text})


def changed(metadata, of_field):
    schema = json.loads(metadata["schemaString"])
    schema["fields"][1]["metadata"] |= of_field
    metadata["schemaString"] = json.dumps(schema)


@pytest.mark.covering
@pytest.mark.parametrize("part", TEXTS)
@pytest.mark.parametrize("place", [in_constraint, in_invariant, in_generated])
@pytest.mark.parametrize(
    "change",
    [
        "INSERT INTO {} (id) VALUES (2)",
        "UPDATE {} SET s = 'c'",
        "MERGE INTO {} t USING (SELECT 1 AS id, 'd' AS s) n ON t.id = n.id WHEN MATCHED THEN UPDATE SET *",
    ],
)
def test_expressions_of_a_log_run_no_code(spark, tmp_path, fails, log, place, part, change):
    spark.sql(f"CREATE TABLE delta.`{tmp_path}` (id INT, s STRING) USING delta")
    spark.sql(f"INSERT INTO delta.`{tmp_path}` VALUES (1, 'a')")
    (metadata,) = (action["metaData"] for action in log(tmp_path, 0) if "metaData" in action)
    place(metadata, TEXTS[part])
    features = ["checkConstraints", "generatedColumns", "invariants"]
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}
    actions = [{"protocol": protocol}, {"metaData": metadata}]
    commit = tmp_path / "_delta_log" / f"{2:020d}.json"
    commit.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    with fails("HEADWATER_STORED_EXPRESSION_REFUSED", part):
        spark.sql(change.format(f"delta.`{tmp_path}`"))
    assert spark._jvm.System.getProperty(MARK) is None
    assert spark.sql(f"SELECT s FROM delta.`{tmp_path}`").collect() == [("a",)]


DEFINITIONS = (
    "CREATE TABLE {} (id INT, s STRING, CONSTRAINT c CHECK (length({}) >= 0)) USING delta",
    "CREATE TABLE {} (id INT, s STRING) USING delta TBLPROPERTIES ('delta.constraints.c' = \"length({}) >= 0\")",
    "CREATE TABLE {} (id INT, s STRING, g STRING GENERATED ALWAYS AS ({})) USING delta",
    "ALTER TABLE {} ADD CONSTRAINT c CHECK (length({}) >= 0)",
)


@pytest.mark.covering
@pytest.mark.parametrize("part", TEXTS)
@pytest.mark.parametrize("definition", DEFINITIONS)
def test_what_no_log_may_have_is_refused_when_it_is_defined(spark, tmp_path, definition, part):
    """Else the table would refuse all writes."""
    table = f"delta.`{tmp_path}`"
    is_new = definition.startswith("CREATE")
    if not is_new:
        spark.sql(f"CREATE TABLE {table} (id INT, s STRING) USING delta")
    with pytest.raises(PySparkException) as caught:
        spark.sql(definition.format(table, TEXTS[part]))
    assert caught.value.getSqlState() is not None
    assert spark._jvm.System.getProperty(MARK) is None
    if is_new:
        assert not (tmp_path / "_delta_log").exists()
    else:
        spark.sql(f"INSERT INTO {table} VALUES (1, 'a')")


@pytest.mark.parametrize(
    "text", ["to_json(struct(s AS x))", "transform(array(s), x -> struct(x AS y))[0].y", "struct(id AS q, s AS r).r"]
)
def test_an_expression_may_name_its_parts(spark, tmp_path, text):
    table = f"delta.`{tmp_path}`"
    spark.sql(f"CREATE TABLE {table} (id INT, s STRING, g STRING GENERATED ALWAYS AS ({text})) USING delta")
    spark.sql(f"ALTER TABLE {table} ADD CONSTRAINT c CHECK (length({text}) < 20)")
    spark.sql(f"INSERT INTO {table} (id, s) VALUES (1, 'a')")
    assert spark.sql(f"SELECT g = {text} FROM {table}").collect() == [(True,)]


def test_a_constraint_has_no_variable_of_a_session(spark, tmp_path, fails):
    table = f"delta.`{tmp_path}`"
    spark.sql(f"CREATE TABLE {table} (id INT) USING delta")
    spark.sql("DECLARE OR REPLACE VARIABLE most INT DEFAULT 5")
    with fails("HEADWATER_EXPRESSION_NOT_STORABLE", "variable", "most"):
        spark.sql(f"ALTER TABLE {table} ADD CONSTRAINT c CHECK (id < most * 1000)")
    spark.sql("DROP TEMPORARY VARIABLE most")
    spark.newSession().sql(f"INSERT INTO {table} VALUES (1)")


@pytest.mark.parametrize("text", ["to_timestamp(s)", "make_timestamp(2020, 1, id, 5, 0, 0, 'UTC')"])
def test_a_stored_timestamp_has_a_time_zone_in_every_session(spark, tmp_path, settings, text):
    table = f"delta.`{tmp_path}`"
    spark.sql(f"CREATE TABLE {table} (id INT, s STRING, g TIMESTAMP GENERATED ALWAYS AS ({text})) USING delta")
    with settings({"spark.sql.session.timeZone": "America/Los_Angeles"}):
        for kind in ("TIMESTAMP_LTZ", "TIMESTAMP_NTZ"):
            with settings({"spark.sql.timestampType": kind}):
                spark.sql(f"INSERT INTO {table} (id, s) VALUES (1, '2020-01-01T00:00:00Z')")
        assert spark.sql(f"SELECT DISTINCT g FROM {table}").count() == 1


@pytest.mark.parametrize("secret", ["${env:HOME}", "${system:java.home}", "${spark.app.name}"])
def test_expressions_of_a_log_read_no_settings(spark, tmp_path, log, secret):
    """Spark puts settings and variables of the process into a statement's text, but not into what a log says."""
    spark.sql(f"CREATE TABLE delta.`{tmp_path}` (id INT, s STRING) USING delta")
    (metadata,) = (action["metaData"] for action in log(tmp_path, 0) if "metaData" in action)
    in_generated(metadata, f"concat('{secret}', id)")
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["generatedColumns"]}
    commit = tmp_path / "_delta_log" / f"{1:020d}.json"
    commit.write_text(f"{json.dumps({'protocol': protocol})}\n{json.dumps({'metaData': metadata})}\n")
    spark.sql(f"INSERT INTO delta.`{tmp_path}` (id) VALUES (1)")
    assert spark.sql(f"SELECT s FROM delta.`{tmp_path}`").collect() == [(f"{secret}1",)]


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("spark.sql.ansi.doubleQuotedIdentifiers", '"id" > 0'),
        ("spark.sql.parser.escapedStringLiterals", "s <> '\\\\d'"),
        ("spark.sql.legacy.exponentLiteralAsDecimal.enabled", "id < 1e3"),
    ],
)
def test_an_expression_that_only_a_setting_gives_its_meaning_is_not_stored(
    spark, tmp_path, settings, fails, setting, text
):
    table = f"delta.`{tmp_path}`"
    spark.sql(f"CREATE TABLE {table} (id INT, s STRING) USING delta")
    with settings({setting: "true"}), fails("HEADWATER_EXPRESSION_OF_SETTINGS", "Nothing was changed"):
        spark.sql(f"ALTER TABLE {table} ADD CONSTRAINT c CHECK ({text})")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a')")


def test_a_session_names_no_store(spark, settings, fails, tmp_path, monkeypatch):
    (tmp_path / "a_trap.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with settings({"spark.headwater.store.trap": "a_trap:Store"}), fails("HEADWATER_FILE_SYSTEM_NOT_USABLE", "trap"):
        spark.sql("SELECT * FROM delta.`trap://bucket/t`")
    assert not (tmp_path / "ran").exists()


@pytest.fixture
def functions_of_users(spark, database):
    """A function in Python, one of the session in SQL, and one of the catalog."""
    spark.udf.register("in_python", lambda value: value is not None, "boolean")
    spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION of_session(value INT) RETURNS BOOLEAN RETURN value > 0")
    spark.sql("CREATE FUNCTION of_catalog(value INT) RETURNS BOOLEAN RETURN value > 0")
    yield
    for name in ("in_python", "of_session"):
        spark.sql(f"DROP TEMPORARY FUNCTION {name}")


@pytest.mark.parametrize("function", ["in_python", "of_session", "session.of_session", "of_catalog"])
@pytest.mark.usefixtures("functions_of_users")
def test_a_constraint_calls_no_function_of_a_user(spark, fails, function):
    """Other sessions, and other engines, have to check it."""
    spark.sql("CREATE TABLE t (id INT) USING delta")
    if function == "in_python":  # Spark itself refuses those in SQL in ALTER TABLE
        with fails("DELTA_UDF_IN_CHECK_CONSTRAINT", function):
            spark.sql(f"ALTER TABLE t ADD CONSTRAINT c CHECK ({function}(id))")
    with fails("DELTA_UDF_IN_CHECK_CONSTRAINT", function.rpartition(".")[2]):
        spark.sql(f"CREATE TABLE u (id INT, CONSTRAINT c CHECK (id IS NULL OR {function}(id))) USING delta")


@pytest.mark.parametrize("key", ["delta.constraints.c", "headwater.expect.c"])
@pytest.mark.parametrize(
    "condition", ["(" * 4000 + "id > 0" + ")" * 4000, "NOT " * 800 + "id > 0", "id > 0" + " + 0" * 2000]
)
def test_expressions_of_a_log_that_are_too_deep(spark, tmp_path, fails, log, key, condition):
    table = f"delta.`{tmp_path}`"
    spark.sql(f"CREATE TABLE {table} (id INT) USING delta")
    (metadata,) = (action["metaData"] for action in log(tmp_path, 0) if "metaData" in action)
    stored = condition if key.startswith("delta") else json.dumps({"condition": condition, "onViolation": "DROP ROW"})
    metadata["configuration"] = {key: stored}
    (tmp_path / "_delta_log" / f"{1:020d}.json").write_text(json.dumps({"metaData": metadata}) + "\n")
    for change in (
        "INSERT INTO {} VALUES (1)",
        "MERGE INTO {} USING (SELECT 1 AS n) ON id = n WHEN NOT MATCHED THEN INSERT (id) VALUES (n)",
    ):
        with fails("HEADWATER_EXPRESSION_TOO_DEEP", condition[:100]):
            spark.sql(change.format(table))
    assert spark.table(table).collect() == []
    spark.sql(f"ALTER TABLE {table} DROP CONSTRAINT c")
    spark.sql(f"INSERT INTO {table} VALUES (1)")


@pytest.mark.parametrize("levels", [600, 3000])
@pytest.mark.parametrize("nested", [("(", "id > 0", ")"), ("NOT ", "(id > 0)", ""), ("", "id", " + 0")])
def test_expressions_of_a_new_table_that_are_too_deep(spark, database, nested, levels):
    """By the parser or by what resolves the expression, whichever gives up first, the user learns why."""
    opened, inside, closed = nested
    expression = f"{opened * levels}{inside}{closed * levels}"
    for made in (
        f"CREATE TABLE t (id INT, g STRING GENERATED ALWAYS AS (CAST({expression} AS STRING))) USING delta",
        f"CREATE OR REPLACE TABLE t (id INT, g STRING GENERATED ALWAYS AS (CAST({expression} AS STRING))) USING delta",
    ):
        try:
            spark.sql(made)
        except PySparkException as error:
            refused = error
        else:
            # How many levels Spark takes depends on the code that it has compiled by then.
            assert levels < 3000
            spark.sql("DROP TABLE t")
            continue
        conditions = ("HEADWATER_EXPRESSION_TOO_DEEP", "FAILED_TO_PARSE_TOO_COMPLEX")
        assert refused.getCondition() in conditions, str(refused)[:1000]
        assert refused.getSqlState() == "54001"


@pytest.mark.parametrize(
    "condition", ["id > 0" + " + 0" * 430, " OR ".join(f"(id = {i} AND id < 2000)" for i in range(1000))]
)
def test_expressions_of_a_log_that_spark_resolves(spark, tmp_path, fails, log, condition):
    """However many levels these are."""
    table = f"delta.`{tmp_path}`"
    spark.sql(f"CREATE TABLE {table} (id INT) USING delta")
    spark.sql(f"ALTER TABLE {table} ADD CONSTRAINT c CHECK ({condition})")
    spark.sql(f"INSERT INTO {table} VALUES (1)")
    spark.sql(f"MERGE INTO {table} USING (SELECT 2 AS n) ON id = n WHEN NOT MATCHED THEN INSERT (id) VALUES (n)")
    with fails("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"):
        spark.sql(f"UPDATE {table} SET id = -1")
    assert spark.table(table).count() == 2
