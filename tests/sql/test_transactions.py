"""The grammar of transactions over several statements."""

import pytest

from headwater.sql.grammar import parse
from headwater.sql.grammar.shared import Parsed


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("BEGIN TRANSACTION", "begin_transaction"),
        ("start transaction;", "begin_transaction"),
        ("COMMIT", "commit_transaction"),
        ("commit work ;", "commit_transaction"),
        ("/* done */ COMMIT TRANSACTION -- now", "commit_transaction"),
        ("ROLLBACK", "rollback_transaction"),
        ("rollback transaction", "rollback_transaction"),
    ],
)
def test_the_beginning_and_the_ends(text, command):
    assert parse(text) == Parsed(command, "", {})


@pytest.mark.parametrize(("level", "arguments"), [("SERIALIZABLE", {"isolation": "serializable"}), ("snapshot", {})])
def test_an_isolation_level(level, arguments):
    asked = parse(f"START TRANSACTION ISOLATION LEVEL {level};")
    assert asked == Parsed("begin_transaction", "", arguments)
    assert parse("START TRANSACTION ISOLATION LEVEL READ COMMITTED") is None


def test_a_script_that_is_one_transaction():
    text = "begin atomic\n  INSERT INTO t VALUES ('; END');\n  DELETE FROM t;\nend;"
    script = "BEGIN\n  INSERT INTO t VALUES ('; END');\n  DELETE FROM t;\nend"
    assert parse(text) == Parsed("atomic", "", {"script": script})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "BEGIN",
        "BEGIN SELECT 1; END",
        "BEGIN TRANSACTION t",
        "BEGIN ATOMIC SELECT 1;",
        "COMMIT t",
        "COMMIT TRANSACTION WORK",
        "ROLLBACK TO SAVEPOINT s",
        "START",
        "'COMMIT'",
        "`COMMIT`",
    ],
)
def test_what_is_none_of_them(text):
    assert parse(text) is None
