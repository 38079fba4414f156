"""The same tables from everywhere Spark takes statements: each of its shells and servers is started and worked with."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from headwater import launch

pytestmark = pytest.mark.spark

#: A table's short life; the last statement fails.
STATEMENTS = [
    "CREATE TABLE {name} (id BIGINT, part STRING) USING delta PARTITIONED BY (part)",
    "INSERT INTO {name} VALUES (1, 'a'), (2, 'b')",
    "INSERT INTO {name} SELECT id, 'c' FROM range(3, 6)",
    "SELECT id, part FROM {name} WHERE part > 'a' ORDER BY id",
    "DESCRIBE HISTORY {name}",
    "SELECT count(*), min(id), max(id) FROM {name}",
    "SELECT count(*) FROM {name} VERSION AS OF 1",
    "SELECT * FROM {name} VERSION AS OF 9",
]
READ = [[2, "b"], [3, "c"], [4, "c"], [5, "c"]]
OPERATIONS = ["WRITE", "WRITE", "CREATE TABLE"]


@pytest.mark.parametrize("frontend", ["classic", "connect"])
def test_pyspark(frontend: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    driver = request.getfixturevalue(frontend)
    found = driver.run("all_sql", texts=[text.format(name="frontends") for text in STATEMENTS])
    assert [answer.get("text", "") for answer in found[:-1]] == [""] * (len(found) - 1)
    assert found[3]["rows"] == READ
    assert [row[4] for row in found[4]["rows"]] == OPERATIONS
    assert found[5]["rows"] == [[5, 1, 5]]
    assert found[6]["rows"] == [[2]]
    assert found[7]["condition"] == "DELTA_VERSION_NOT_FOUND"
    assert driver.run("write_frame", path=str(tmp_path / "frame")) == [[n] for n in range(8)]
    driver.rows("DROP TABLE frontends")


@pytest.mark.parametrize("frontend", ["classic", "connect"])
def test_answers_from_the_log_and_pinned_versions(frontend: str, request: pytest.FixtureRequest) -> None:
    """The optimizer's rules work in every session, a server's too."""
    driver = request.getfixturevalue(frontend)
    driver.rows("CREATE TABLE logged USING delta AS SELECT id, id % 2 AS part FROM range(10)")
    plan = driver.run("plan", text="SELECT count(*), max(id) FROM logged")
    assert "LocalTableScan" in plan
    assert "FileScan" not in plan
    assert driver.rows("SELECT count(*), max(id) FROM logged") == [[10, 9]]
    assert driver.rows("SELECT a.id FROM logged a JOIN logged b ON a.id = b.id WHERE a.id = 3") == [[3]]
    driver.rows("INSERT INTO logged SELECT id + 10, part FROM logged")
    assert driver.rows("SELECT count(*), max(id) FROM logged") == [[20, 19]]
    driver.rows("DROP TABLE logged")


@pytest.mark.parametrize("frontend", ["classic", "connect"])
def test_changes(frontend: str, request: pytest.FixtureRequest) -> None:
    driver = request.getfixturevalue(frontend)
    driver.rows("CREATE TABLE fed (id BIGINT) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    driver.rows("INSERT INTO fed VALUES (1), (2)")
    expected = [[1, "insert", 1], [2, "insert", 1]]
    assert driver.run("read_changes", name="fed") == [expected] * 3
    for changes in ("table_changes('fed', 0)", "fed CHANGES FROM VERSION 0 TO VERSION 9"):
        found = driver.rows(f"SELECT id, _change_type, _commit_version FROM {changes} ORDER BY id")
        assert found == expected
    refused = driver.run("sql", text="SELECT * FROM table_changes('fed', 7)")
    assert (refused["condition"], refused["state"]) == ("DELTA_CDC_START_VERSION_AFTER_LATEST", "22003")
    driver.rows("DROP TABLE fed")


def test_sql_shell_with_a_statement(sparks: Any) -> None:
    text = "; ".join(statement.format(name="frontends") for statement in STATEMENTS)
    shell = sparks.shell("spark-sql", ["-e", text])
    assert shell.process.wait(180) != 0
    check_text(shell.output, "\t")
    assert "[DELTA_VERSION_NOT_FOUND]" in shell.log
    assert "py4j" not in shell.log.lower()


def test_sql_shell_with_a_file(sparks: Any, tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text("".join(statement.format(name="frontends") + ";\n" for statement in STATEMENTS[:-1]))
    shell = sparks.shell("spark-sql", ["-f", str(script)])
    assert shell.process.wait(180) == 0, shell.log[-3000:]
    check_text(shell.output, "\t")


def test_thrift_server_with_beeline(thrift_server: Any) -> None:
    server = thrift_server
    beeline = [
        str(launch.spark_home() / "bin" / "beeline"),
        *("-u", f"jdbc:hive2://127.0.0.1:{server.port}", "-n", "someone", "-p", "any"),
        *("--outputformat=tsv2", "--showHeader=false", "--silent=true", "--force=true"),
    ]
    for statement in STATEMENTS:
        beeline += ["-e", statement.format(name="frontends")]
    done = subprocess.run(beeline, capture_output=True, text=True, timeout=300, cwd=server.home)
    check_text(re.sub(r"0: jdbc:\S+> ", "", done.stdout), "\t")
    assert "[DELTA_VERSION_NOT_FOUND]" in done.stderr
    assert "py4j" not in done.stderr.lower()
    assert "Traceback" not in done.stderr + server.log
    assert len(server.handlers) == 1


def check_text(output: str, separator: str) -> None:
    """What a shell printed holds the rows and the history."""
    for row in READ:
        assert separator.join(map(str, row)) + "\n" in output, output
    assert separator.join(("5", "1", "5")) + "\n" in output
    history = [line for line in output.splitlines() if "WRITE" in line or "CREATE TABLE" in line]
    assert [line.split(separator)[0] for line in history] == ["2", "1", "0"], output
