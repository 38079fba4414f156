import json
import re
from types import SimpleNamespace
from typing import cast

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.bridge.statement import Statement
from headwater.sql import marked_schemas, scripts
from headwater.sql.tokens import at_markers
from support.requests import called

#: One whose Spark is the newest.
_STATEMENT = cast(Statement, SimpleNamespace(spark_version=None))


def parsed(text):
    return called("parse")({"text": text}, _STATEMENT)


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("DESCRIBE HISTORY t", "t"),
        ("desc history `a b`.`c``d` ;", "`a b`.`c``d`"),
        ("  -- a comment\n DESCRIBE /* another */ HISTORY db.t", "db.t"),
        ("DESCRIBE HISTORY TABLE", "TABLE"),
        ("DESCRIBE HISTORY table.t", "table.t"),
        ("DESCRIBE HISTORY table . t LIMIT 1", "table . t"),
        ("DESCRIBE HISTORY TABLE LIMIT 5", "TABLE"),
        ("DESCRIBE HISTORY limit", "limit"),
        ("DESCRIBE HISTORY db.limit", "db.limit"),
        ("DESCRIBE HISTORY `limit` LIMIT 1", "`limit`"),
        ("DESCRIBE HISTORY IDENTIFIER('a' || \"-- ;\") LIMIT 1", "IDENTIFIER('a' || \"-- ;\")"),
        ("DESCRIBE HISTORY '/it\\'s';;", "'/it\\'s'"),
        ("/* first */ describe history delta.`/a path/x`", "delta.`/a path/x`"),
        ("DESCRIBE HISTORY '/a path/x'", "'/a path/x'"),
        ('DESCRIBE HISTORY "/a"', '"/a"'),
        ("DESCRIBE HISTORY TABLE t", "t"),
    ],
)
def test_the_table_of_a_history(text, table):
    assert parsed(text)["table"] == table
    assert parsed(text)["command"] == "describe_history"


def test_a_history_may_be_limited():
    assert parsed("DESCRIBE HISTORY t LIMIT 5")["arguments"] == {"limit": 5}
    assert parsed("DESCRIBE HISTORY t")["arguments"] == {"limit": None}
    for path in ("delta.`/no limit 5`", "'/no limit 5'"):
        assert parsed(f"DESCRIBE HISTORY {path}")["arguments"] == {"limit": None}
        assert parsed(f"DESCRIBE HISTORY {path} LIMIT 3")["arguments"] == {"limit": 3}


def test_detail_has_its_own_columns():
    answer = parsed("DESCRIBE DETAIL t")
    assert answer["command"] == "describe_detail"
    names = [f["name"] for f in json.loads(answer["output"])["fields"]]
    assert names[:4] == ["format", "id", "name", "description"]


def test_health_has_its_own_columns_and_only_reads():
    answer = parsed("desc health delta.`/a b`")
    assert (answer["command"], answer["table"], answer["mayCommit"]) == ("describe_health", "delta.`/a b`", False)
    assert [f["name"] for f in json.loads(answer["output"])["fields"]] == ["section", "subject", "name", "value"]


@pytest.mark.parametrize(
    "text", ["SELECT 1", "DESCRIBE t", "DESCRIBE TABLE EXTENDED history", "DESCRIBE HISTORY", "DESCRIBE HISTORY 't"]
)
def test_what_is_sparks_is_left_to_spark(text):
    assert parsed(text) is None


@pytest.mark.parametrize("text", ["DESCRIBE HISTORY t LIMIT many", "DESCRIBE HISTORY t WHERE x", "DESCRIBE DETAIL a b"])
def test_what_cannot_be_understood_is_said(text):
    with pytest.raises(HeadwaterError) as refused:
        parsed(text)
    assert refused.value.condition == "PARSE_SYNTAX_ERROR"


@pytest.mark.parametrize(
    ("text", "table", "column"),
    [
        ("ALTER TABLE t ALTER COLUMN id SYNC IDENTITY", "t", ["id"]),
        ("alter table db.`a b` alter id sync identity;", "db.`a b`", ["id"]),
        ("ALTER TABLE alter.column ALTER column SYNC IDENTITY", "alter.column", ["column"]),
        (
            "ALTER TABLE IDENTIFIER('a' || :b) CHANGE COLUMN s.`i.d` SYNC IDENTITY",
            "IDENTIFIER('a' || :b)",
            ["s", "i.d"],
        ),
        ("ALTER TABLE '/a path' ALTER COLUMN id /* all */ SYNC IDENTITY", "'/a path'", ["id"]),
    ],
)
def test_sync_identity(text, table, column):
    answer = parsed(text)
    assert (answer["command"], answer["table"], answer["arguments"]) == ("sync_identity", table, {"column": column})
    assert answer["output"] is None


@pytest.mark.parametrize(
    ("text", "table", "feature", "truncates"),
    [
        ("ALTER TABLE t DROP FEATURE deletionVectors", "t", "deletionVectors", False),
        ("alter table db.`a b` drop feature `v2Checkpoint` truncate history;", "db.`a b`", "v2Checkpoint", True),
        ("ALTER TABLE '/a path' DROP FEATURE 'a.b'", "'/a path'", "a.b", False),
        (
            "ALTER TABLE IDENTIFIER(:t) DROP FEATURE typeWidening-preview",
            "IDENTIFIER(:t)",
            "typeWidening-preview",
            False,
        ),
        ("ALTER TABLE drop.feature DROP FEATURE truncate TRUNCATE HISTORY", "drop.feature", "truncate", True),
    ],
)
def test_drop_feature(text, table, feature, truncates):
    answer = parsed(text)
    assert (answer["command"], answer["table"], answer["output"]) == ("drop_feature", table, None)
    assert answer["arguments"] == {"feature": feature, "truncateHistory": truncates}


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE t DROP FEATURE",
        "ALTER TABLE t DROP FEATURE a b",
        "ALTER TABLE t DROP FEATURE a TRUNCATE",
        "ALTER TABLE t DROP FEATURE 5",
        "ALTER TABLE t DROP FEATURE a, b",
    ],
)
def test_a_feature_to_drop_is_one_name(text):
    with pytest.raises(HeadwaterError, match="DROP FEATURE takes the name of a table feature") as refused:
        parsed(text)
    assert refused.value.condition == "PARSE_SYNTAX_ERROR"


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE t ALTER COLUMN id SYNC IDENTITY now",
        "ALTER TABLE t ALTER COLUMN 'id' SYNC IDENTITY",
        "ALTER TABLE t ADD COLUMN id INT",
        "ALTER VIEW t ALTER COLUMN id SYNC IDENTITY",
        "ALTER TABLE",
    ],
)
def test_other_alterations_are_sparks(text):
    assert parsed(text) is None


@pytest.mark.parametrize(
    ("text", "table", "columns"),
    [
        ("ANALYZE TABLE t COMPUTE DELTA STATISTICS", "t", None),
        ("analyze table db.`a b` compute delta statistics for all columns;", "db.`a b`", None),
        ("ANALYZE TABLE '/a path' COMPUTE DELTA STATISTICS FOR COLUMNS a", "'/a path'", [["a"]]),
        (
            "ANALYZE TABLE IDENTIFIER('a' || :b) COMPUTE DELTA STATISTICS FOR COLUMNS s.`x.y`, for, b",
            "IDENTIFIER('a' || :b)",
            [["s", "x.y"], ["for"], ["b"]],
        ),
        ("ANALYZE TABLE compute.delta COMPUTE DELTA STATISTICS", "compute.delta", None),
    ],
)
def test_delta_statistics(text, table, columns):
    answer = parsed(text)
    assert (answer["command"], answer["table"]) == ("analyze_table", table)
    assert answer["arguments"] == {"columns": columns}
    assert answer["output"] is None


@pytest.mark.parametrize(
    "text", ["ANALYZE TABLE t COMPUTE STATISTICS", "ANALYZE TABLES COMPUTE DELTA STATISTICS", "ANALYZE TABLE"]
)
def test_other_statistics_are_sparks(text):
    assert parsed(text) is None


@pytest.mark.parametrize(
    ("ending", "reason"),
    [
        ("COMPUTE DELTA STATISTICS NOSCAN", "'NOSCAN'"),
        ("COMPUTE DELTA STATISTICS FOR COLUMNS", "'FOR COLUMNS'"),
        ("COMPUTE DELTA STATISTICS FOR COLUMNS a,", "'FOR COLUMNS a,'"),
        ("COMPUTE DELTA STATISTICS FOR COLUMNS a b", "'FOR COLUMNS a b'"),
        ("COMPUTE DELTA STATISTICS FOR COLUMNS 'a'", "FOR COLUMNS a, b"),
        ("PARTITION (p = 1) COMPUTE DELTA STATISTICS", "PARTITION"),
    ],
)
def test_delta_statistics_take_nothing_else(ending, reason):
    with pytest.raises(HeadwaterError) as caught:
        parsed(f"ANALYZE TABLE t {ending}")
    assert caught.value.condition == "PARSE_SYNTAX_ERROR"
    assert reason in caught.value.text


@pytest.mark.parametrize(
    ("text", "table", "arguments"),
    [
        ("RESTORE t TO VERSION AS OF 3", "t", {"version": "3"}),
        ("restore table `to`.`version` version as of '3' ;", "`to`.`version`", {"version": "'3'"}),
        ("RESTORE TABLE table TO VERSION AS OF 1", "table", {"version": "1"}),
        ("RESTORE '/a b' FOR SYSTEM_VERSION AS OF 1 + f(2)", "'/a b'", {"version": "1 + f(2)"}),
        ("RESTORE identifier('a' || 'b') TO TIMESTAMP AS OF now()", "identifier('a' || 'b')", {"timestamp": "now()"}),
        ("RESTORE a.b.c FOR SYSTEM_TIME AS OF ' x'", "a.b.c", {"timestamp": "' x'"}),
    ],
)
def test_what_is_restored(text, table, arguments):
    found = parsed(text)
    assert (found["command"], found["table"], found["arguments"]) == ("restore", table, arguments)
    assert found["mayCommit"] is True


@pytest.mark.parametrize("text", ["RESTORE t", "RESTORE TABLE t TO 3", "RESTORE t TO VERSION AS OF", "RESTORE t 1"])
def test_restore_says_how_it_is_written(text):
    with pytest.raises(HeadwaterError, match="RESTORE \\[TABLE\\] t TO VERSION AS OF"):
        parsed(text)


@pytest.mark.parametrize(
    ("text", "markers"),
    [
        ("RESTORE IDENTIFIER(:t) TO VERSION AS OF :v;", [":t", ":v"]),
        ("RESTORE IDENTIFIER(?) TO VERSION AS OF (?+?)", ["?", "?", "?"]),
        ("RESTORE t TO VERSION AS OF ':v ?' -- ? :v\n /* ? */ + `:v`", []),
        ("BEGIN lbl: LOOP LEAVE lbl; END LOOP lbl; END", []),
        ("SELECT a:b, c::INT, :d::INT, f(:e), `x`:y", [":d", ":e"]),
        ("SELECT 'no end", []),
    ],
)
def test_parameter_markers(text, markers):
    pieces = at_markers(text)
    assert "".join(pieces) == text
    assert pieces[1::2] == markers


@pytest.mark.parametrize(
    ("text", "table", "arguments"),
    [
        ("VACUUM t", "t", {}),
        ("vacuum '/a b' dry run", "'/a b'", {"dryRun": True}),
        ("VACUUM a.full FULL", "a.full", {"mode": "full"}),
        ("VACUUM lite LITE RETAIN 1.5 HOURS DRY RUN;", "lite", {"mode": "lite", "hours": "1.5", "dryRun": True}),
        ("VACUUM t RETAIN - 2 + f(1) HOURS", "t", {"hours": "- 2 + f(1)"}),
        ("VACUUM t DRY RUN USING INVENTORY a.b RETAIN 1 HOUR", "t", {"inventory": "SELECT * FROM a.b", "hours": "1"}),
        (
            "VACUUM t USING INVENTORY '/x`y'",
            "t",
            {"inventory": "SELECT * FROM IDENTIFIER('spark_catalog.delta.`' || replace('/x`y', '`', '``') || '`')"},
        ),
        ("VACUUM t USING INVENTORY (SELECT (1), ')' FROM x) LITE", "t", {"inventory": "SELECT (1), ')' FROM x"}),
        ("VACUUM identifier('a' || 'b') FULL", "identifier('a' || 'b')", {"mode": "full"}),
    ],
)
def test_what_is_vacuumed(text, table, arguments):
    found = parsed(text)
    assert (found["command"], found["table"], found["mayCommit"]) == ("vacuum", table, True)
    assert {name: found["arguments"].get(name) for name in arguments} == arguments


@pytest.mark.parametrize(
    ("text", "table", "dry_run"),
    [
        ("FSCK REPAIR TABLE t", "t", False),
        ("fsck repair table a.`b c` dry run;", "a.`b c`", True),
        ("FSCK REPAIR TABLE '/a b' DRY RUN", "'/a b'", True),
        ("FSCK REPAIR TABLE dry DRY RUN", "dry", True),
        ("FSCK REPAIR TABLE delta.`/x`", "delta.`/x`", False),
        ("FSCK REPAIR TABLE IDENTIFIER(:t)", "IDENTIFIER(:t)", False),
    ],
)
def test_what_is_repaired(text, table, dry_run):
    found = parsed(text)
    assert (found["command"], found["table"], found["mayCommit"]) == ("fsck", table, True)
    assert found["arguments"].get("dryRun", False) == dry_run


@pytest.mark.parametrize(
    "rest", ["METADATA ONLY", "VERIFY ALL FILES DRY RUN", "DRY RUN DRY RUN", "DRY", "VERSION AS OF 1", "WHERE a = 1"]
)
def test_fsck_says_how_it_is_written(rest):
    with pytest.raises(HeadwaterError, match=r"FSCK is written FSCK REPAIR TABLE t \[DRY RUN\]"):
        parsed(f"FSCK REPAIR TABLE t {rest}")


@pytest.mark.parametrize(
    ("text", "table", "arguments"),
    [
        ("MAINTAIN TABLE t", "t", {}),
        ("maintain table a.`b c` dry run;", "a.`b c`", {}),
        ("MAINTAIN TABLE '/a b' FORCE", "'/a b'", {"force": True}),
        ("MAINTAIN TABLE force FORCE BUDGET 5 MINUTES", "force", {"force": True, "budget": "5", "unit": 60}),
        ("MAINTAIN TABLE t BUDGET 1 + f(2) HOUR", "t", {"budget": "1 + f(2)", "unit": 3600}),
        ("MAINTAIN TABLE t ONLY (optimize, cluster   by)", "t", {"only": ["OPTIMIZE", "CLUSTER BY"]}),
        (
            "MAINTAIN TABLE IDENTIFIER(:t) CHOOSE CLUSTERING DRY RUN BUDGET 9 SECONDS",
            "IDENTIFIER(:t)",
            {"choosesClustering": True, "budget": "9", "unit": 1},
        ),
    ],
)
def test_what_is_maintained(text, table, arguments):
    found = parsed(text)
    is_dry = "dry run" in text.lower()
    assert found["command"] == ("maintain_table_dry_run" if is_dry else "maintain_table")
    assert (found["table"], found["arguments"], found["mayCommit"]) == (table, arguments, not is_dry)


@pytest.mark.parametrize(
    ("rest", "why"),
    [
        ("BUDGET MINUTES", "BUDGET MINUTES"),
        ("BUDGET 5", "'BUDGET 5' is not part of it"),
        ("FORCE FORCE", "'FORCE' is there twice"),
        ("DRY RUN DRY RUN", "'DRY RUN' is not part of it"),
        ("ONLY (FSCK)", "not 'FSCK'"),
        ("ONLY (OPTIMIZE", "is not part of it"),
        ("ONLY ()", "ONLY takes OPTIMIZE"),
        ("WHERE a = 1", "is not part of it"),
    ],
)
def test_maintain_says_how_it_is_written(rest, why):
    with pytest.raises(HeadwaterError, match=re.escape(why)):
        parsed(f"MAINTAIN TABLE t {rest}")


@pytest.mark.parametrize(("word", "mark"), [("ENABLE", "ENABLE"), ("disable", "DISABLE"), ("INHERIT", None)])
def test_tables_and_schemas_are_marked(word, mark):
    found = parsed(f"ALTER TABLE a.b {word} PREDICTIVE OPTIMIZATION")
    assert (found["command"], found["table"], found["arguments"]) == (
        "alter_table_predictive_optimization",
        "a.b",
        {"mark": mark},
    )
    text = f"ALTER DATABASE `a b` {word} PREDICTIVE OPTIMIZATION"
    expected = f"ALTER DATABASE `a b` SET DBPROPERTIES ('headwater.predictiveOptimization' = '{word.upper()}')"
    assert marked_schemas.for_spark(text) == expected
    assert scripts.for_spark(f"BEGIN {text}; END") == f"BEGIN {expected}; END"
    for other in (f"{text} x", "ALTER SCHEMA s SET DBPROPERTIES ('a' = 'b')", "ALTER SCHEMA", "'no end"):
        assert marked_schemas.for_spark(other) is None


@pytest.mark.parametrize(
    ("text", "command", "table", "arguments"),
    [
        ("SHOW INDEXES ON t", "show_indexes", "t", {}),
        ("show index from table a.`b c`;", "show_indexes", "a.`b c`", {}),
        ("SHOW INDEXES IN table", "show_indexes", "table", {}),
        ("SHOW INDEXES IN IDENTIFIER(:t)", "show_indexes", "IDENTIFIER(:t)", {}),
        ("REFRESH INDEX i ON t", "refresh_index", "t", {"index": "i"}),
        ("refresh index `a-b` on table delta.`/x y`", "refresh_index", "delta.`/x y`", {"index": "a-b"}),
        ("REFRESH INDEX i ON '/x'", "refresh_index", "'/x'", {"index": "i"}),
        ("REFRESH INDEX ON t", "refresh_index", "t", {}),
        ("REFRESH INDEX ON TABLE t", "refresh_index", "t", {}),
        ("REFRESH INDEX ON on", "refresh_index", "on", {}),
        ("REFRESH INDEX on ON t", "refresh_index", "t", {"index": "on"}),
        ("CREATE INDEX i ON '/x' (a)", "create_index", "'/x'", {"index": "i", "columns": [["a"]]}),
        (
            "create index if not exists `a-b` on table '/x' (a, `b c`, s.x);",
            "create_index",
            "'/x'",
            {"index": "a-b", "columns": [["a"], ["b c"], ["s", "x"]], "ifNotExists": True},
        ),
        ("CREATE INDEX on ON '/x' (a)", "create_index", "'/x'", {"index": "on", "columns": [["a"]]}),
        ("DROP INDEX i ON '/x'", "drop_index", "'/x'", {"index": "i"}),
        ("drop index if exists i on table '/x'", "drop_index", "'/x'", {"index": "i", "ifExists": True}),
    ],
)
def test_statements_of_indexes(text, command, table, arguments):
    found = parsed(text)
    assert (found["command"], found["table"], found["arguments"]) == (command, table, arguments)
    assert found["mayCommit"] == (command in ("create_index", "drop_index"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SHOW INDEXES", "SHOW INDEXES {ON"),
        ("SHOW INDEXES ON t LIKE 'a'", "SHOW INDEXES {ON"),
        ("REFRESH INDEX i", "REFRESH INDEX [name]"),
        ("REFRESH INDEX i ON t WHERE a = 1", "REFRESH INDEX [name]"),
        ("CREATE INDEX i ON '/x'", "CREATE INDEX [IF NOT EXISTS]"),
        ("CREATE INDEX i ON '/x' ()", "CREATE INDEX [IF NOT EXISTS]"),
        ("CREATE INDEX i ON '/x' (a", "CREATE INDEX [IF NOT EXISTS]"),
        ("CREATE INDEX i ON '/x' (a) OPTIONS ('b' = 'c')", "CREATE INDEX [IF NOT EXISTS]"),
        ("CREATE INDEX i ON '/x' USING b (a)", "CREATE INDEX [IF NOT EXISTS]"),
        ("DROP INDEX i ON '/x' CASCADE", "is not a table name"),
    ],
)
def test_statements_of_indexes_say_how_they_are_written(text, says):
    with pytest.raises(HeadwaterError, match=re.escape(says)):
        parsed(text)


@pytest.mark.parametrize("text", ["CREATE INDEX i ON t (a)", "CREATE INDEX i ON t", "DROP INDEX i ON delta.`/x`"])
def test_what_spark_parses_of_indexes_is_left_to_it(text):
    assert parsed(text) is None


@pytest.mark.parametrize(
    "text",
    ["VACUUM t FULL LITE", "VACUUM t RETAIN HOURS", "VACUUM t RETAIN 3", "VACUUM t DRY RUN DRY RUN", "VACUUM TABLE t"],
)
def test_vacuum_says_how_it_is_written(text):
    with pytest.raises(HeadwaterError, match="VACUUM is written VACUUM t"):
        parsed(text)
