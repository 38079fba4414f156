"""MAINTAIN TABLE without Spark: actions that fail, lose or are not allowed; none of its commits is the last."""

from __future__ import annotations

import os
import shutil
import time
import uuid
from dataclasses import replace

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.catalogs.interface import Maintenance
from headwater.log.files import file_of
from headwater.statements import maintain_table as module
from headwater.statements.maintenance.budget import Budget
from headwater.statements.maintenance.layouts import Clustering, Compaction
from headwater.statements.maintenance.planning import FAILED, LOST, REFUSED, SKIPPED
from headwater.transaction.moved_rows import Copy
from support.commits import add_file, commit, create, newest, remove_file
from support.recording_statement import RecordingStatement
from support.requests import called

MARK = "headwater.predictiveOptimization"


@pytest.fixture
def path(tmp_path):
    """Twenty small files, and as many that nothing needs any more."""
    create(str(tmp_path), delta_deletedFileRetentionDuration="interval 1 hours")
    then = int((time.time() - 7200) * 1000)
    for name in (*(f"new{n}" for n in range(20)), *(f"old{n}" for n in range(20))):
        (tmp_path / name).write_bytes(b"x" * 100)
        os.utime(tmp_path / name, (then / 1000, then / 1000))
    commit(tmp_path, *(add_file(f"old{n}") for n in range(20)))
    commit(tmp_path, *(replace(remove_file(f"old{n}"), deletion_timestamp=then) for n in range(20)))
    commit(tmp_path, *(add_file(f"new{n}") for n in range(20)))
    for commit_file in (tmp_path / "_delta_log").glob("*.json"):
        os.utime(commit_file, (then / 1000, then / 1000))
    return tmp_path


def maintained(path, statement=None, **arguments):
    request = {"table": str(path), "name": "t", "arguments": arguments}
    answer = called("maintain_table")(request, statement or RecordingStatement())
    return {row["action"]: row for row in answer["rows"]}


def failing(monkeypatch, action, error):
    def fail(run, planned):
        raise error

    monkeypatch.setitem(module._DO, action, fail)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (HeadwaterError("DELTA_CONCURRENT_APPEND", {"operation": "x", "partition": "", "version": "1"}), LOST),
        (HeadwaterError("HEADWATER_DATA_FILE_DAMAGED", {}), FAILED),
        (OSError(28, "No space left on device"), FAILED),
    ],
)
def test_an_action_that_loses_or_fails_is_reported_and_the_next_one_begins(path, monkeypatch, error, outcome):
    failing(monkeypatch, "OPTIMIZE", error)
    statement = RecordingStatement()
    found = maintained(path, statement)
    assert list(found) == ["OPTIMIZE", "VACUUM"]
    assert found["OPTIMIZE"]["outcome"] == outcome
    assert found["OPTIMIZE"]["detail"]
    assert statement.discarded == 1
    vacuumed = found["VACUUM"]
    assert (vacuumed["outcome"], vacuumed["filesBefore"], vacuumed["filesAfter"]) == ("done", 20, 0)
    assert (vacuumed["bytesBefore"], vacuumed["bytesAfter"]) == (2000, 0)
    assert not list(path.glob("old*"))
    assert len(list(path.glob("new*"))) == 20
    # A handler that dies in between runs the statement again: none of its commits is the last.
    assert statement.begun == [None, None]


def test_the_retention_is_the_tables_own(path):
    log = newest(path)
    assert len(list(path.glob("old*"))) == 20
    commit(path, replace(log.metadata, configuration={"delta.deletedFileRetentionDuration": "interval 1 week"}))
    off = RecordingStatement({"spark.headwater.predicateUse": "false"})
    assert "VACUUM" not in maintained(path, off, only=["VACUUM"])
    assert not (path / "_headwater").exists()
    assert len(list(path.glob("old*"))) == 20


def test_what_a_catalog_does_not_allow_is_refused_and_a_disabled_table_left_alone(path, monkeypatch):
    monkeypatch.setattr(module, "is_allowed", lambda _, asked: asked is not Maintenance.DATA_REORGANIZATION)
    found = maintained(path)
    assert (found["OPTIMIZE"]["outcome"], found["VACUUM"]["outcome"]) == (REFUSED, "done")
    monkeypatch.undo()
    configuration = newest(path).metadata.configuration
    commit(path, replace(newest(path).metadata, configuration={**configuration, MARK: "DISABLE"}))
    assert {row["outcome"] for row in maintained(path).values()} == {SKIPPED}
    # Neither does FORCE count: the folder of counts is the consent for later scans.
    shutil.rmtree(path / "_headwater")
    failing(monkeypatch, "OPTIMIZE", OSError("reached"))
    assert maintained(path, force=True)["OPTIMIZE"]["detail"] == "reached"
    assert not (path / "_headwater").exists()


def test_clustering_is_considered_only_if_it_may_be_shown(path, monkeypatch):
    monkeypatch.setattr(module, "propose", lambda *_: pytest.fail("nothing asks for it"))
    assert maintained(path, only=["VACUUM"])["VACUUM"]["outcome"] == "done"


def test_the_statements_of_a_report_quote_a_path(path):
    request = {"table": str(path), "name": "delta.`/a`b t`", "arguments": {}}
    answer = called("maintain_table_dry_run")(request, RecordingStatement())
    assert [row["statement"] for row in answer["rows"]] == ["OPTIMIZE delta.`/a``b t`", "VACUUM delta.`/a``b t`"]


def copied(layout, statement, snapshot, files, bins, target):
    """Bins of files, each written again as one of the size of all."""
    rows = [file_of(row) for row in files.to_pylist()]
    return [
        Copy(
            [rows[position].removal(1, False) for position in each.positions],
            [10] * len(each.positions),
            [replace(add_file(uuid.uuid4().hex), size=each.size, data_change=False)],
        )
        for each in bins
    ]


def test_a_long_rewrite_keeps_what_fits_and_the_next_run_goes_on(path, monkeypatch):
    statement = RecordingStatement(
        {"spark.databricks.delta.optimize.maxFileSize": "250", "spark.databricks.delta.optimize.batchSize": "1"}
    )
    monkeypatch.setattr(Compaction, "write", copied)
    answers = iter([True, True, True, False])
    monkeypatch.setattr(Budget, "allows_rewrite", lambda *_: next(answers, True))
    partly = maintained(path, statement, only=["OPTIMIZE"])["OPTIMIZE"]
    assert partly["outcome"] == "partly done"
    assert partly["detail"] == "6 files (600 B) became 3, in 3 commits; the next run goes on"
    assert (partly["filesBefore"], partly["filesAfter"]) == (20, 17)
    answers = iter([False])
    late = maintained(path, statement, only=["OPTIMIZE"], budget="60")["OPTIMIZE"]
    assert (late["outcome"], "larger budget" in late["detail"], late["filesAfter"]) == ("over budget", True, None)
    done = maintained(path, statement, only=["OPTIMIZE"], budget="1", unit=3600)["OPTIMIZE"]
    assert (done["outcome"], done["filesBefore"], done["filesAfter"]) == ("done", 17, 10)


def test_clustering_within_a_budget_is_done_in_parts(path, monkeypatch):
    statement = RecordingStatement({"spark.databricks.delta.optimize.batchSize": "1"})
    change = {"kind": "cluster_by", "columns": [["id"]]}
    called("alter_table")({"table": str(path), "name": "t", "changes": [change]}, statement)
    monkeypatch.setattr(Clustering, "write", copied)
    monkeypatch.setattr(Budget, "part_bytes", lambda *_: 500)
    row = maintained(path, statement, only=["OPTIMIZE"], budget="1", unit=3600)["OPTIMIZE"]
    assert (row["outcome"], row["detail"]) == ("done", "20 files (2.0 KiB) became 4, in 4 commits")
