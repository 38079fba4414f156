"""Hooks of commits: vetoes, failures and deadlines before; every version at least once, in order, after."""

from __future__ import annotations

import json
import logging
import random
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater import hooks
from headwater.basics import backoff
from headwater.basics.errors import HeadwaterError
from headwater.hooks import Commit, Veto
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import AddFile
from headwater.statements.running import hooks as showing
from headwater.statements.running.committing import commit, transaction
from headwater.statements.running.opening import open_snapshot
from headwater.stores import LocalStore
from headwater.transaction.commit_info import Provenance
from headwater.transaction.maintenance import wait_for_maintenance
from support.paths import ROOT
from support.recording_statement import RecordingStatement
from support.requests import create_request, create_table, schema_json

GUIDE = ROOT / "docs" / "guides" / "hooks.md"
SEEN: list[Commit] = []
_held = threading.Event()


def keep(commit: Commit) -> None:
    SEEN.append(commit)


def refuse(commit: Commit) -> None:
    raise Veto(f"{commit.metrics['numOutputRows']} rows")


def fail(commit: Commit) -> None:
    raise RuntimeError("broken")


def leave(commit: Commit) -> None:
    raise SystemExit(3)


def hang(commit: Commit) -> None:
    _held.wait(60)


FAILURES: list[int] = []


def fail_sometimes(commit: Commit) -> None:
    if FAILURES and FAILURES.pop():
        raise RuntimeError("not now")
    SEEN.append(commit)


@pytest.fixture(autouse=True)
def no_hooks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(backoff, "OF_HOOKS", backoff.Backoff(0.0, 0.0))
    monkeypatch.setattr(showing, "TRIES", 3)
    SEEN.clear()
    FAILURES.clear()
    _held.clear()
    yield
    _held.set()
    assert showing.wait_for_hooks(20)
    showing._noted.clear()
    hooks.configure({})


def named(**functions: str) -> None:
    """Hooks as the settings of a start name them: ``name_before = "function"``."""
    given = {key.replace("_", ".", 1): f"{__name__}:{function}" for key, function in functions.items()}
    hooks.configure(given)


def make(path: Path, statement: Any, **properties: str) -> None:
    create_table(create_request(path, schema_json(a="integer"), properties=properties), statement)


def write(path: Path, statement: Any, rows: int = 1) -> int:
    txn = transaction(str(path), statement, open_snapshot(str(path), statement))
    txn.add([AddFile(f"{random.random()}.parquet", {}, 7, 5, True, f'{{"numRecords":{rows}}}')])
    return commit(txn, statement, Provenance("WRITE", {"mode": "Append"}, {"numOutputRows": rows})).version


def versions(path: Path) -> int:
    return load_snapshot(str(path), LocalStore()).version


def test_a_veto_by_property_and_by_setting(tmp_path: Path) -> None:
    named(check_before="refuse")
    make(tmp_path / "t", RecordingStatement())
    assert write(tmp_path / "t", RecordingStatement()) == 1
    with pytest.raises(HeadwaterError) as refused:
        write(tmp_path / "t", RecordingStatement({"spark.headwater.hooks": "check"}), 7)
    assert refused.value.condition == "HEADWATER_COMMIT_REFUSED"
    assert refused.value.parameters["reason"] == "7 rows"
    assert versions(tmp_path / "t") == 1
    named(check_before="refuse_all")
    with pytest.raises(HeadwaterError, match="refuses this CREATE TABLE"):
        make(tmp_path / "u", RecordingStatement(), **{"headwater.hooks": "check"})
    assert not (tmp_path / "u" / "_delta_log").exists()


def refuse_all(commit: Commit) -> None:
    raise Veto("never")


def test_a_load_with_half_the_rows_of_the_last(tmp_path: Path) -> None:
    """The example of the documents, as it stands there."""
    (code,) = re.findall(r'```python title="checks.py"\n(.*?)```', GUIDE.read_text(), re.DOTALL)
    (tmp_path / "checks.py").write_text(code)
    hooks.configure({"loads.before": f"{tmp_path}/checks.py:not_half"})
    statement = RecordingStatement()
    make(tmp_path / "t", statement, **{"headwater.hooks": "loads"})
    assert [write(tmp_path / "t", statement, rows) for rows in (100, 60)] == [1, 2]
    with pytest.raises(HeadwaterError, match="29 rows, where the last load had 60"):
        write(tmp_path / "t", statement, 29)
    assert write(tmp_path / "t", statement, 30) == 3


@pytest.mark.parametrize("function", ["fail", "leave"])
def test_a_hook_that_fails_breaks_no_commit(tmp_path: Path, function: str, caplog: pytest.LogCaptureFixture) -> None:
    named(bad_before=function)
    make(tmp_path / "t", RecordingStatement())
    with caplog.at_level(logging.WARNING):
        assert write(tmp_path / "t", RecordingStatement({"spark.headwater.hooks": "bad"})) == 1
    assert "the hook bad failed" in caplog.text


def test_a_hook_that_hangs_delays_one_commit_by_its_deadline(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    named(slow_before="hang")
    make(tmp_path / "t", RecordingStatement())
    statement = RecordingStatement({"spark.headwater.hooks": "slow", "spark.headwater.hooks.deadlineSeconds": "0.05"})
    with caplog.at_level(logging.WARNING):
        assert [write(tmp_path / "t", statement) for _ in range(2)] == [1, 2]
    assert "took longer than 0.05 s" in caplog.text
    assert "still busy with an earlier commit" in caplog.text
    wrong = RecordingStatement({"spark.headwater.hooks": "slow", "spark.headwater.hooks.deadlineSeconds": "soon"})
    with pytest.raises(HeadwaterError, match="positive number of seconds"):
        write(tmp_path / "t", wrong)


@pytest.mark.parametrize("what", ["no setting", "no module", "no function"])
def test_a_hook_that_is_not_there_is_no_check_passed(tmp_path: Path, what: str) -> None:
    if what != "no setting":
        hooks.configure({"gone.before": "no_such_module:f" if what == "no module" else f"{__name__}:no_such"})
    make(tmp_path / "t", RecordingStatement())
    with pytest.raises(HeadwaterError) as missing:
        write(tmp_path / "t", RecordingStatement({"spark.headwater.hooks": "gone"}))
    assert missing.value.condition == "HEADWATER_COMMIT_HOOK_NOT_USABLE"
    assert versions(tmp_path / "t") == 0


def test_what_a_hook_sees(tmp_path: Path) -> None:
    named(spy_before="keep", ear_after="keep")
    statement = RecordingStatement({"spark.headwater.hooks": "spy, ear,, spy"})
    make(tmp_path / "t", statement)
    write(tmp_path / "t", statement, 3)
    assert showing.wait_for_hooks(20)
    before = [each for each in SEEN if each.version is None]
    assert [(each.operation, each.metrics) for each in before][1:] == [("WRITE", {"numOutputRows": 3})]
    assert [list(action) for action in before[0].actions()] == [["protocol"], ["metaData"]]
    (action,) = before[1].actions()
    assert json.loads(action["add"]["stats"]) == {"numRecords": 3}
    assert [each.version for each in before[1].history()] == [0]
    assert (before[0].history(), before[1].history(0)) == ((), [])
    after = [each for each in SEEN if each.version is not None]
    assert [each.version for each in after] == [0, 1]
    assert (after[1].metrics, after[1].parameters) == ({"numOutputRows": 3}, {"mode": "Append"})
    assert [list(action) for action in after[1].actions()] == [["add"]]
    assert [each.version for each in after[1].history()] == [0]
    assert after[1].timestamp is not None


def test_a_file_of_functions_and_settings_that_are_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "mine.py").write_text("def look(commit):\n    commit.seen.append(1)\n")
    hooks.configure(
        {"ok.before": f"{tmp_path}/mine.py:look", "no.such": "m:f", "a/b.before": "m:f", "x.after": " ", "y": "m:f"}
    )
    assert caplog.text.count("is ignored") == 4
    found = hooks.configured("ok")
    assert found is not None
    assert callable(hooks.load(str(found.before)))
    for text in ("nothing", "json:no_such", ":f"):
        with pytest.raises(ImportError):
            hooks.load(text)


def test_versions_of_others_are_shown_in_order_and_at_least_once(tmp_path: Path) -> None:
    """Also what a process committed that died before its hook heard of it: here, one without the hook's function."""
    table = tmp_path / "t"
    make(table, RecordingStatement())
    write(table, RecordingStatement())
    named(ear_after="keep")
    heard = RecordingStatement({"spark.headwater.hooks": "ear"})
    write(table, heard)
    assert showing.wait_for_hooks(20)
    for _ in range(3):
        write(table, RecordingStatement())
    showing._noted.clear()  # another process
    write(table, heard)
    assert showing.wait_for_hooks(20)
    assert [each.version for each in SEEN] == [2, 3, 4, 5, 6]


def test_where_a_hook_begins_is_noted_beside_a_copy_of_a_table_that_it_knows(tmp_path: Path) -> None:
    table, copy = tmp_path / "t", tmp_path / "copy"
    make(table, RecordingStatement())
    assert wait_for_maintenance(60)
    shutil.copytree(table, copy)
    named(ear_after="fail_sometimes")
    for each in (table, copy):
        FAILURES.extend([1] * 9)  # it is shown nothing with success
        write(each, RecordingStatement({"spark.headwater.hooks": "ear"}))
        assert showing.wait_for_hooks(20)
        assert (each / "_headwater" / "hooks" / "ear.json").exists()


def test_a_hook_that_fails_is_shown_it_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A model: whatever fails, a version is shown until it was taken, and none is left out."""
    rng = random.Random(4)
    table = tmp_path / "t"
    named(ear_after="fail_sometimes")
    heard = RecordingStatement({"spark.headwater.hooks": "ear"})
    make(table, RecordingStatement())
    for _ in range(25):
        FAILURES.extend(rng.random() < 0.6 for _ in range(3))
        write(table, heard)
        if rng.random() < 0.5:
            assert showing.wait_for_hooks(20)
    FAILURES.clear()
    write(table, heard)
    assert showing.wait_for_hooks(20)
    shown = [each.version or 0 for each in SEEN]
    assert shown == sorted(shown)
    assert sorted(set(shown)) == list(range(1, 27))
    assert "is shown again after the next commit" in caplog.text


def test_what_the_log_no_longer_has_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = tmp_path / "t"
    named(ear_after="keep")
    heard = RecordingStatement({"spark.headwater.hooks": "ear"})
    make(table, heard)
    assert showing.wait_for_hooks(20)
    for _ in range(3):
        write(table, RecordingStatement())
    (table / "_delta_log" / f"{1:020}.json").unlink()
    write(table, heard)
    assert showing.wait_for_hooks(20)
    assert [each.version for each in SEEN] == [0, 2, 3, 4]
    assert "no hook is shown version 1, which the log no longer has" in caplog.text


def test_a_commit_before_the_tables_first_one_is_shown_takes_nothing_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named(ear_after="keep")
    heard = RecordingStatement({"spark.headwater.hooks": "ear"})
    may_begin, show = threading.Event(), showing._show

    def slowly(*shown: Any) -> None:
        assert may_begin.wait(20)
        show(*shown)

    monkeypatch.setattr(showing, "_show", slowly)
    make(tmp_path / "t", heard)
    write(tmp_path / "t", heard)
    may_begin.set()
    assert showing.wait_for_hooks(20)
    assert [each.version for each in SEEN] == [0, 1]


def test_another_table_at_the_path_begins_anew(tmp_path: Path) -> None:
    table = tmp_path / "t"
    named(ear_after="keep")
    heard = RecordingStatement({"spark.headwater.hooks": "ear"})
    make(table, heard)
    write(table, heard)
    assert showing.wait_for_hooks(20)
    assert wait_for_maintenance(20)
    shutil.rmtree(table / "_delta_log")
    SEEN.clear()
    make(table, heard)
    write(table, heard)
    assert showing.wait_for_hooks(20)
    assert [each.version for each in SEEN] == [0, 1]
