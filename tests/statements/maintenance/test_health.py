"""The health of a table, from its log alone."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headwater.basics.errors import HeadwaterError
from headwater.cli import main as cli
from headwater.log.checkpoint_writing import write_checkpoint
from headwater.log.deletion_vectors import absolute_location
from headwater.protocol.actions import AddFile, DeletionVector, Protocol
from headwater.statements.maintenance.findings import findings
from headwater.statements.maintenance.health import HEALTH_SCHEMA, SECTIONS, by_section, health
from headwater.statements.maintenance.layouts import Settings
from headwater.statements.reads.loading import describe
from headwater.stores import LocalStore
from support.commits import add_file, commit, create, newest, remove_file, write_commit
from support.recording_statement import RecordingStatement
from support.requests import alter_table, called

VECTORS = Protocol(3, 7, frozenset({"deletionVectors"}), frozenset({"deletionVectors"}))
HOUR = 3600
#: A vector whose rows nobody looks up here.
VECTOR = DeletionVector("u", "ab^-aqEH.-t@S}K{vb[*k^", 36, 4, 1)


def large(name, low, high, day=None, vector=None):
    small = add_file(name, low, high, day)
    return AddFile(name, small.partition_values, 2 << 30, 1, True, small.stats, deletion_vector=vector)


def of(path, *conditions, settings=None):
    found = health(newest(path), settings or Settings(), conditions)
    return by_section(found)


@pytest.fixture
def path(tmp_path):
    """Two small files, a large one, and a large one with 4 of 10 rows deleted. They are empty, as nobody reads them."""
    create(str(tmp_path), protocol=VECTORS)
    vector = absolute_location(VECTOR, str(tmp_path))
    os.mkdir(os.path.dirname(vector))
    for file in (*(tmp_path / name for name in "abcd"), Path(vector)):
        file.touch()
    commit(tmp_path, add_file("a", 0, 9), add_file("b", 10, 19))
    commit(tmp_path, large("c", 5, 14), large("d", 30, 39, vector=VECTOR))
    return tmp_path


def test_files_and_rows(path):
    found = of(path)
    assert found["files"] == {
        "files": 4,
        "bytes": (4 << 30) + 200,
        "averageBytes": (1 << 30) + 50,
        "smallFiles": 2,
        "filesElsewhere": 0,
        "bytesElsewhere": 0,
        "smallBytes": 200,
        "smallerThan": 1 << 30,
        "partitions": 1,
        "missingFiles": 0,
    }
    assert found["rows"] == {"rows": 36, "deletedRows": 4, "filesWithDeletedRows": 1, "filesWithoutStatistics": 0}


def test_files_that_are_missing_are_found_with_the_statement_that_lists_them(path, monkeypatch):
    (path / "a").unlink()
    Path(absolute_location(VECTOR, str(path))).unlink()
    assert of(path)["files"]["missingFiles"] == 2
    first = findings(of(path), "t")[0]
    assert (first.level, first.name) == ("warning", "missingFiles")
    assert "2 files that the table names are missing" in first.text
    assert "FSCK REPAIR TABLE t DRY RUN" in first.text
    # Of a file system that fails, nothing is said.
    monkeypatch.setattr(LocalStore, "exists", lambda store, path: os.stat("/dev/null/x"))
    assert of(path)["files"]["missingFiles"] is None


def test_what_optimize_would_do(path):
    """It takes the small files, and the one full of deleted rows."""
    found = of(path)["optimize"]
    assert (found["filesRemoved"], found["filesAdded"]) == (3, 2)
    assert (found["bytesRead"], found["bytesWritten"]) == ((2 << 30) + 200, int((2 << 30) * 0.6) + 200)
    tiny = of(path, settings=Settings(min_file_size=1, deleted_rows_ratio=0.5))["optimize"]
    assert (tiny["filesRemoved"], tiny["filesAdded"], tiny["bytesRead"]) == (0, 0, 0)


def test_depth_and_what_predicates_read(path):
    found = of(path, "id = 35", "id < 12 AND upper(day) = 'X'")
    # At 0, 19, 30 and 39 there is one file; at 5, 9, 10 and 14 there are two.
    assert found["depth"]["id"] == {"average": 1.5, "maximum": 2, "filesWithoutBounds": 0}
    assert found["depth"]["day"] == {"average": None, "maximum": None, "filesWithoutBounds": 4}
    assert found["skipping"]["id = 35"] == {
        "filesRead": 1,
        "filesSkipped": 3,
        "bytesRead": 2 << 30,
        "notUnderstood": [],
    }
    partly = found["skipping"]["id < 12 AND upper(day) = 'X'"]
    assert (partly["filesRead"], partly["notUnderstood"]) == (3, ["UPPER(day) = 'X'"])


def test_partitions_are_counted(tmp_path):
    create(str(tmp_path), partitioned=True)
    commit(tmp_path, add_file("x", day="1"), add_file("y", day="1"), add_file("z", day="2"))
    found = of(tmp_path, "day = '1'")
    assert found["files"]["partitions"] == 2
    assert (found["optimize"]["filesRemoved"], found["optimize"]["filesAdded"]) == (2, 1)
    assert found["skipping"]["day = '1'"]["filesSkipped"] == 1


def test_the_log_and_its_checkpoint(path):
    before = of(path)["log"]
    assert before["lastCheckpoint"] is None
    assert (before["commits"], before["commitsSinceLastCheckpoint"], before["earliestVersion"]) == (3, 3, 0)
    write_checkpoint(newest(path))
    commit(path, add_file("e"))
    after = of(path)["log"]
    assert (after["lastCheckpoint"], after["commitsSinceLastCheckpoint"], after["commits"]) == (2, 1, 4)
    assert after["bytes"] == sum(f.stat().st_size for f in (path / "_delta_log").rglob("*") if f.is_file())
    assert after["bytes"] > before["bytes"]
    assert after["hoursSinceLastCheckpoint"] >= 0


def test_what_vacuum_would_do(tmp_path):
    """Of two removed files, one is beyond the retention."""
    create(str(tmp_path), delta_deletedFileRetentionDuration="interval 10 hours")
    commit(tmp_path, add_file("a"), add_file("b"), add_file("c"))
    now = time.time()
    old, new = (
        replace(remove_file(name), deletion_timestamp=int((now - hours * HOUR) * 1000))
        for name, hours in (("a", 20), ("b", 1))
    )
    commit(tmp_path, old)
    for version, hours in ((0, 30), (1, 25), (2, 20)):
        os.utime(tmp_path / f"_delta_log/{version:020}.json", (now - hours * HOUR,) * 2)
    commit(tmp_path, new)
    assert of(tmp_path)["vacuum"] == {
        "retentionHours": 10.0,
        "filesDeleted": 1,
        "bytesDeleted": 100,
        "filesRetained": 1,
        "bytesRetained": 100,
        "cleanedUpToVersion": None,
    }
    (tmp_path / "_delta_log/_last_vacuum_info").write_text('{"latestCommitVersionOutsideOfRetentionWindow":2}')
    found = of(tmp_path)["vacuum"]
    assert (found["filesDeleted"], found["cleanedUpToVersion"]) == (0, 2)


def test_an_empty_table(tmp_path):
    create(str(tmp_path))
    found = of(tmp_path, "id = 1")
    assert found["files"]["averageBytes"] is None
    assert found["rows"]["rows"] == 0
    assert found["depth"]["id"] == {"average": None, "maximum": None, "filesWithoutBounds": 0}
    assert found["optimize"]["filesRemoved"] == 0


def test_the_statement_has_the_same_figures(path):
    statement = RecordingStatement({"spark.databricks.delta.optimize.minFileSize": "1"})
    answer = called("describe_health")({"table": str(path), "name": "t", "arguments": {}}, statement)["rows"]
    assert [list(row) for row in answer] == [[field.name for field in HEALTH_SCHEMA]] * len(answer)
    values = {(row["section"], row["subject"], row["name"]): row["value"] for row in answer}
    assert values["depth", "id", "average"] == "1.50"
    assert values["rows", None, "deletedRows"] == "4"
    assert values["files", None, "smallFiles"] == "0"
    assert values["log", None, "lastCheckpoint"] is None


def test_the_command_shows_tables_and_json(path):
    shown = CliRunner().invoke(cli.app, ["health", str(path), "--where", "id = 35", "--where", "f(id) = 1"])
    assert shown.exit_code == 0, shown.exception
    for words in ("files", "optimize", "vacuum", "none", "id = 35", "F(id) = 1"):
        assert words in shown.output
    printed = CliRunner().invoke(cli.app, ["health", f"file://{path}", "--json", "--where", "id = 35"])
    found = json.loads(printed.stdout)
    assert [each["name"] for each in found["findings"]] == ["smallFiles", "deletedRows"]
    assert list(found) == ["findings", *SECTIONS]
    assert found.pop("iceberg") == {}
    expected = of(path, "id = 35")
    for section in ("table", "files", "rows", "clustering", "depth", "skipping", "optimize", "vacuum"):
        assert found[section] == expected[section]


FIGURES: dict[str, dict[str, Any]] = {
    "files": {
        "files": 216, "bytes": 1 << 40, "smallFiles": 216, "smallerThan": 1 << 30, "partitions": 1,
        "filesElsewhere": 0, "bytesElsewhere": 0,
    },
    "rows": {"rows": 900, "deletedRows": 0, "filesWithDeletedRows": 0, "filesWithoutStatistics": 0},
    "log": {"commitsSinceLastCheckpoint": 3},
    "optimize": {"filesRemoved": 0, "filesAdded": 0, "bytesRead": 0},
    "vacuum": {"filesDeleted": 0, "bytesDeleted": 0, "retentionHours": 168.0},
    "skipping": {},
    "iceberg": {},
}  # fmt: skip


@pytest.mark.parametrize(
    ("section", "figures", "level", "words"),
    [
        ("optimize", {"filesRemoved": 216, "filesAdded": 4, "bytesRead": 5 << 30}, "warning",
         "216 of 216 files are smaller than 1.0 GiB: OPTIMIZE t rewrites 216 files (5.0 GiB) as 4."),
        ("optimize", {"filesRemoved": 2, "filesAdded": 1}, "note", "OPTIMIZE t"),
        ("rows", {"deletedRows": 900, "filesWithDeletedRows": 7}, "warning", "REORG TABLE t APPLY (PURGE)"),
        ("rows", {"deletedRows": 100, "filesWithDeletedRows": 7}, "note", "10% of the rows"),
        ("rows", {"filesWithoutStatistics": 3}, "warning", "ANALYZE TABLE t COMPUTE DELTA STATISTICS"),
        ("vacuum", {"filesDeleted": 3, "bytesDeleted": 1 << 20}, "note",
         "VACUUM t deletes 3 files (1.0 MiB) that no version of the last 168 hours needs."),
        ("vacuum", {"filesDeleted": 3, "bytesDeleted": 1 << 40}, "warning", "VACUUM t"),
        ("log", {"commitsSinceLastCheckpoint": 1200}, "warning", "1,200 commits"),
        ("files", {"partitions": 100_000}, "warning", "100,000 partitions have 10.5 MiB each"),
        ("files", {"filesElsewhere": 5, "bytesElsewhere": 10}, "note", "5 of 216 files (10 B) are in other"),
        ("iceberg", {"versionsBehind": 2, "failure": "no rights"}, "warning", "2 versions behind the table: no rights"),
        ("skipping", {"a = 1": {"filesRead": 216, "filesSkipped": 0, "notUnderstood": []}}, "note", "OPTIMIZE t FULL"),
        ("skipping", {"f(a)": {"filesRead": 2, "filesSkipped": 0, "notUnderstood": ["F(a)"]}}, "note", "F(a) skips"),
    ],
)  # fmt: skip
def test_a_figure_becomes_a_finding_with_its_statement(section, figures, level, words):
    (found,) = findings({**FIGURES, section: {**FIGURES[section], **figures}}, "t")
    assert found.level == level
    assert words in found.text


def test_a_table_that_is_well_has_no_finding_and_warnings_come_first():
    assert findings(FIGURES, "t") == []
    bad = {**FIGURES, "vacuum": {**FIGURES["vacuum"], "filesDeleted": 1}, "log": {"commitsSinceLastCheckpoint": 1200}}
    bad["rows"] = {**FIGURES["rows"], "filesWithoutStatistics": 1}
    assert [each.level for each in findings(bad, "t")] == ["warning", "warning", "note"]


def test_a_command_fails_on_findings_of_a_level(path):
    for level, code in ((None, 0), ("warning", 0), ("note", 3)):
        asked = [] if level is None else ["--fail-on", level]
        assert CliRunner().invoke(cli.app, ["health", str(path), *asked]).exit_code == code


def test_where_there_is_no_table(tmp_path):
    with pytest.raises(HeadwaterError) as refused:
        CliRunner().invoke(cli.app, ["health", str(Path(tmp_path) / "none")], catch_exceptions=False)
    assert refused.value.condition == "DELTA_TABLE_NOT_FOUND"


@pytest.mark.parametrize("domain", ["no JSON", "[]", '{"clusteringColumns":"a"}'])
def test_a_damaged_clustering_domain_has_an_error_and_can_be_replaced(path, domain):
    action = {"domainMetadata": {"domain": "delta.clustering", "configuration": domain, "removed": False}}
    write_commit(path, newest(path).version + 1, action)
    with pytest.raises(HeadwaterError) as refused:
        CliRunner().invoke(cli.app, ["health", str(path)], catch_exceptions=False)
    assert refused.value.condition == "HEADWATER_CLUSTERING_UNREADABLE"
    assert describe(newest(path)).clustering_columns is None
    change = {"kind": "cluster_by", "columns": []}
    alter_table({"table": str(path), "name": "t", "changes": [change]}, RecordingStatement())
    assert of(path)["clustering"]["columns"] == []


@pytest.mark.parametrize("what", ["null", "[" * 100_000, None])
def test_a_damaged_note_of_vacuum_is_none(path, what):
    note = path / "_delta_log/_last_vacuum_info"
    note.mkdir() if what is None else note.write_text(what)
    assert of(path)["vacuum"]["cleanedUpToVersion"] is None
