"""VACUUM over real files, without Spark: what goes and what stays, against a model in plain Python."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import threading
import time
from pathlib import Path

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.bridge import calls
from headwater.log import deletion_vectors
from headwater.log.checkpoint_writing import write_checkpoint
from headwater.log.files import canonical_path
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import AddCDCFile, AddFile, DeletionVector, RemoveFile
from headwater.protocol.partition_paths import encode_path, partition_directory
from headwater.statements.maintenance.health import health
from headwater.statements.maintenance.layouts import Settings
from headwater.statements.running.opening import open_snapshot
from headwater.stores import LocalStore
from headwater.transaction import Provenance, Transaction
from support.inline_vectors import inline
from support.recording_statement import RecordingStatement
from support.requests import actions, called, create_request, create_table, schema_json

HOUR = 3_600_000
SILENT = {"spark.databricks.delta.vacuum.logging.enabled": "false"}
UNCHECKED = {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}
PARTITIONS = ["a b", "_x", "50%:/", "ü", None]


class Model:
    """A table whose files and log are made by hand, and what of it each version needs. Times are hours ago."""

    def __init__(self, path: Path, statement, seed: int) -> None:
        self.path, self.drawn, self.statement = path, random.Random(seed), statement
        self.now = time.time_ns() // 1_000_000
        schema = schema_json(a="integer", _p="string")
        properties = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
        request = create_request(path, schema, properties=properties, partitionColumns=["_p"], partitioning=["_p"])
        create_table(request, statement)
        self.ages = [1000.0]  # of each version
        self.needs: list[set[str]] = [set()]  # of each version
        self.live: dict[str, AddFile] = {}
        self.change_files: dict[str, float] = {}
        self.set_time("_delta_log/00000000000000000000.json", 1000.0)

    def set_time(self, relative: str, hours_ago: float) -> None:
        seconds = (self.now - hours_ago * HOUR) / 1000
        os.utime(self.path / relative, (seconds, seconds))

    def make(self, relative: str, hours_ago: float) -> str:
        file = self.path / relative
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * 10)
        self.set_time(relative, hours_ago)
        return relative

    def commit(self, hours_ago: float) -> None:
        """Some files go, some get marks, some come."""
        drawn, stamp = self.drawn, int(self.now - hours_ago * HOUR)
        snapshot = load_snapshot(str(self.path), LocalStore())
        txn = Transaction(snapshot.table_path, snapshot.store, snapshot)
        for relative in [path for path in self.live if drawn.random() < 0.35]:
            old = self.live.pop(relative)
            txn.remove([RemoveFile(old.path, stamp, True, size=old.size, deletion_vector=old.deletion_vector)])
            if drawn.random() < 0.4:
                vector = self.vector(hours_ago)
                self.live[relative] = AddFile(
                    old.path, old.partition_values, 10, 5, True, '{"numRecords":9}', deletion_vector=vector
                )
                txn.add([self.live[relative]])
        for _ in range(drawn.randint(0, 3)):
            values = {"_p": drawn.choice(PARTITIONS)}
            relative = f"{partition_directory(values)}/f {len(self.needs)}-{drawn.randrange(10**9)}.parquet"
            self.make(relative, hours_ago)
            self.live[relative] = AddFile(encode_path(relative), values, 10, 5, True, '{"numRecords":9}')
            txn.add([self.live[relative]])
        if drawn.random() < 0.5:
            change = f"_change_data/cdc-{len(self.needs)}.parquet"
            self.change_files[self.make(change, hours_ago)] = hours_ago
            txn.add_action(AddCDCFile(encode_path(change), {"_p": "x"}, 10))
        version = txn.commit(Provenance("WRITE")).version
        self.set_time(f"_delta_log/{version:020d}.json", hours_ago)
        self.ages.append(hours_ago)
        vectors = {
            self.relative(deletion_vectors.absolute_location(f.deletion_vector, str(self.path)))
            for f in self.live.values()
            if f.deletion_vector is not None and f.deletion_vector.storage_type != "i"
        }
        self.needs.append(set(self.live) | vectors)

    def relative(self, path: str) -> str:
        return os.path.relpath(path, self.path)

    def vector(self, hours_ago: float) -> DeletionVector:
        from pyroaring import BitMap64

        marks = BitMap64([1, 2 + self.drawn.randrange(10**6)])
        (vector,) = deletion_vectors.write_file([marks], str(self.path), LocalStore())
        kind = self.drawn.choice("upi")
        location = deletion_vectors.absolute_location(vector, str(self.path))
        self.set_time(self.relative(location), hours_ago)
        if kind == "p":
            return DeletionVector("p", encode_path(f"file:{location}"), vector.size, 2, vector.offset)
        return inline(marks) if kind == "i" else vector

    def kept(self, hours: float) -> set[str]:
        """What versions need that were the newest within some hours."""
        ends = [*self.ages[1:], -1.0]
        return set().union(*(needs for needs, end in zip(self.needs, ends, strict=True) if end <= hours))

    def visible(self) -> set[str]:
        """Every file but those that VACUUM never looks at."""
        found = set()
        for file in self.path.rglob("*"):
            names = self.relative(str(file)).split("/")
            hidden = [n for n in names if n[0] in "._" and not n.startswith(("_p=", "_change_data"))]
            if file.is_file() and not hidden and "other" not in names and "link" not in names:
                found.add("/".join(names))
        return found


@pytest.fixture
def statement():
    return RecordingStatement(UNCHECKED)


def run(path, statement, **arguments):
    request = {"table": str(path), "name": "t", "arguments": arguments}
    return [row["path"] for row in called("vacuum")(request, statement)["rows"]]


def age_of(model: Model, relative: str) -> float:
    return (model.now - (model.path / relative).stat().st_mtime_ns / 1e6) / HOUR


@pytest.mark.parametrize("seed", range(12))
def test_what_goes_is_what_no_version_needs(tmp_path, statement, seed):
    model = Model(tmp_path / "a t", statement, seed)
    outside = tmp_path / "outside"
    (outside / "sub").mkdir(parents=True)
    (outside / "sub" / "f.parquet").touch()
    age = 900.0
    for _ in range(model.drawn.randint(3, 14)):
        age *= model.drawn.uniform(0.4, 0.95)
        model.commit(age)
    for hours_ago in (900, 30, -1):
        for name in ("left %25.parquet", "_p=q/left.parquet", "sub/deep/left", "_change_data/left"):
            model.make(f"{name}{hours_ago}", hours_ago)
    stays = [
        *("_SUCCESS", ".hidden", "_upserts/x.parquet", "sub/_upserts/_delta_log/0.json", ".spark/x", "_q=1/x.parquet"),
        *("other/_delta_log/00000000000000000000.json", "other/x.parquet", "other/sub/y.parquet"),
    ]
    for name in stays:
        model.make(name, 900)
    os.symlink(outside, model.path / "link")
    hours = model.drawn.choice([0, 1, 20, 100, 500])
    keep = model.kept(hours)
    before = model.visible()
    old = {file for file in before if age_of(model, file) > hours}
    shown = run(model.path, statement, hours=str(hours), dryRun=True, mode="full")
    garbage = {f"file:{model.path}/{file}" for file in old - keep}
    folders = {path for path in shown if Path(path[5:]).is_dir()}
    assert set(shown) - folders == garbage
    assert model.visible() == before
    if seed % 2:  # LITE does the part that the log knows of
        lite = set(run(model.path, statement, hours=str(hours), dryRun=True, mode="lite"))
        removed = set().union(*model.needs) - keep | {f for f, at in model.change_files.items() if at > hours}
        assert lite == {f"file:{model.path}/{file}" for file in removed & old}
        run(model.path, statement, hours=str(hours), mode="lite")
        assert model.visible() == before - (removed & old)
    assert run(model.path, statement, hours=str(hours)) == [f"file:{model.path}"]
    assert model.visible() == before - (old - keep)
    assert all((model.path / name).is_file() for name in stays)
    assert (outside / "sub" / "f.parquet").is_file()
    assert run(model.path, statement, hours=str(hours), dryRun=True, mode="lite") == []
    assert not [p for p in run(model.path, statement, hours=str(hours), dryRun=True) if Path(p[5:]).is_file()]


def test_lite_goes_on_from_any_run(tmp_path):
    statement = RecordingStatement({**UNCHECKED, **SILENT})  # commits of VACUUM would be of now
    model = Model(tmp_path / "t", statement, 3)
    for age in (90.0, 80.0, 70.0):
        model.commit(age)
    state = model.path / "_delta_log/_last_vacuum_info"
    run(model.path, statement, hours="75")
    assert json.loads(state.read_text()) == {"latestCommitVersionOutsideOfRetentionWindow": 2}
    for age in (60.0, 50.0, 40.0):
        model.commit(age)
    keep = model.kept(30)
    gone = model.visible() - keep
    assert {
        path[5 + len(str(model.path)) + 1 :]
        for path in run(model.path, statement, hours="30", mode="lite", dryRun=True)
    } == gone
    run(model.path, statement, hours="30", mode="lite")
    assert model.visible() == keep
    assert json.loads(state.read_text()) == {"latestCommitVersionOutsideOfRetentionWindow": 6}
    # The log is cleaned up beyond the state: only FULL can know.
    write_checkpoint(load_snapshot(str(model.path), LocalStore()))
    for version in range(3):
        (model.path / f"_delta_log/{version:020d}.json").unlink()
    assert run(model.path, statement, hours="1", mode="lite", dryRun=True) == []
    state.unlink()
    with pytest.raises(HeadwaterError) as refused:
        run(model.path, statement, hours="1", mode="lite")
    assert refused.value.condition == "DELTA_CANNOT_VACUUM_LITE"


def test_retention_is_kept_and_guarded(tmp_path):
    checked = RecordingStatement()
    model = Model(tmp_path / "t", checked, 5)
    for age in (400.0, 300.0, 200.0, 100.0):
        model.commit(age)
    model.make("left", 250)
    for hours, condition in (
        ("167.9", "DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT"),
        ("0", "DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT"),
        ("-1", "DELTA_VACUUM_RETENTION_PERIOD_NEGATIVE"),
        ("'week'", "DELTA_ILLEGAL_OPTION"),
    ):
        if hours == "'week'":
            checked.query = lambda sql: [{"value": "week"}]  # type: ignore[method-assign]
        with pytest.raises(HeadwaterError) as refused:
            run(model.path, checked, hours=hours)
        assert refused.value.condition == condition
    # More than the table's own: what went since then stays, and the rest of the log is asked, not only its tombstones.
    run(model.path, checked, hours="350")
    assert model.visible() == model.kept(350) | {"left"} | {f for f, at in model.change_files.items() if at <= 350}
    run(model.path, checked)
    assert model.visible() == model.kept(168) | {f for f, at in model.change_files.items() if at <= 168}
    starts = [a for v in range(5, 9) for a in actions(model.path, v, "commitInfo")]
    assert [info["operation"] for info in starts] == ["VACUUM START", "VACUUM END"] * 2
    assert starts[0]["operationParameters"] == {
        "retentionCheckEnabled": "true",
        "defaultRetentionMillis": str(168 * HOUR),
        "specifiedRetentionMillis": str(350 * HOUR),
    }
    assert set(starts[2]["operationMetrics"]) == {"numFilesToDelete", "sizeOfDataToDelete"}
    assert starts[3]["operationParameters"] == {"status": "COMPLETED"}
    assert set(starts[3]["operationMetrics"]) == {"numDeletedFiles", "numVacuumedDirectories"}


def test_files_of_running_statements_stay(tmp_path, statement, monkeypatch):
    model = Model(tmp_path / "t", statement, 5)
    model.make("fresh.parquet", 0.001)
    model.make("old.parquet", 5)
    monkeypatch.setitem(calls._running, threading.get_ident() + 1, (str(model.path), model.now - 10_000))
    assert run(model.path, statement, hours="0", dryRun=True) == [f"file:{model.path}/old.parquet"]
    monkeypatch.delitem(calls._running, threading.get_ident() + 1)
    assert len(run(model.path, statement, hours="0", dryRun=True)) == 2


def test_a_log_that_names_what_lies_outside(tmp_path, statement):
    model = Model(tmp_path / "t", statement, 5)
    outside = [tmp_path / "x.parquet", tmp_path / "y z.parquet", tmp_path / "linked" / "f.parquet"]
    outside[2].parent.mkdir()
    for file in outside:
        file.touch()
        os.utime(file, (1, 1))
    os.symlink(tmp_path / "linked", model.path / "inner")
    model.make("a", 900)
    model.commit(500)
    named = [
        "../x.parquet",
        "%2E%2E/x.parquet",
        f"file://{tmp_path}/y%20z.parquet",
        "b/../../x.parquet",
        "inner/f.parquet",
    ]
    lines = [json.dumps({"commitInfo": {"operation": "WRITE"}})]
    for path in named:
        remove = {"path": path, "deletionTimestamp": 1, "dataChange": True, "partitionValues": {"_p": "x"}, "size": 1}
        lines.append(json.dumps({"remove": remove}))
        lines.append(
            json.dumps({"cdc": {"path": path, "partitionValues": {"_p": "x"}, "size": 1, "dataChange": False}})
        )
    commit = model.path / f"_delta_log/{2:020d}.json"
    commit.write_text("\n".join(lines))
    os.utime(commit, (1e9, 1e9))
    run(model.path, statement, hours="0", mode="lite")
    run(model.path, statement, hours="0", mode="full")
    assert all(file.is_file() for file in outside)


def by_hand(model: Model, version: int, kind: str, *paths: str) -> None:
    """A commit that adds or removes files under such paths, 500 hours ago."""
    fields = {"partitionValues": {"_p": "x"}, "size": 10, "dataChange": True, "modificationTime": 1}
    fields |= {"deletionTimestamp": 1} if kind == "remove" else {}
    lines = [{"commitInfo": {"operation": "WRITE"}}, *({kind: {"path": path, **fields}} for path in paths)]
    name = f"_delta_log/{version:020d}.json"
    (model.path / name).write_text("\n".join(map(json.dumps, lines)))
    model.set_time(name, 500)


def test_files_stay_however_the_log_names_them(tmp_path, statement):
    model = Model(tmp_path / "t", statement, 5)
    (tmp_path / "link").symlink_to(model.path)
    named = {
        "a.parquet": f"file://{tmp_path}/link/a.parquet",
        "b.parquet": "../t/b.parquet",
        "c d.parquet": f"file:{tmp_path}/./t//c%20d.parquet",
        "_p=x:/e.parquet": "_p=x%3A/e.parquet",
        "x:/f.parquet": "x%3A/f.parquet",
        "g.parquet": f"s3://b{model.path}/g.parquet",
        "h.parquet": f"file://{model.path}/h.parquet",
    }
    for path in (*named, "left.parquet"):
        model.make(path, 900)
    by_hand(model, 1, "add", *named.values())
    by_hand(model, 2, "remove", "b.parquet", "_p=x%3A/e.parquet", "h.parquet", "g.parquet")
    by_hand(model, 3, "add", "../t/b.parquet", "_p=x%3A/e.parquet", f"file://{tmp_path}/link/h.parquet")
    for table in (model.path, tmp_path / "link"):
        assert run(table, statement, hours="1", dryRun=True) == [f"file:{table}/left.parquet"]
        assert run(table, statement, hours="1", dryRun=True, mode="lite") == []


class Spellings:
    """A table whose files have many names: through links to folders and to files, by schemes, with ``..`` and ``//``.

    The judge is the file system: what a live name leads to must stay, and so must all that lies outside.
    """

    def __init__(self, home: Path, statement, seed: int) -> None:
        self.model, self.home, self.drawn = Model(home / "t", statement, seed), home, random.Random(seed)
        table = self.model.path
        self.files = [f"{folder}f{number}.parquet" for folder in ("", "sub/", "sub/deep/") for number in range(4)]
        self.outside = [home / "outside" / f"f{number}.parquet" for number in range(4)]
        for name in self.files:
            self.model.make(name, 900)
        for file in self.outside:
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(b"x")
            os.utime(file, (1, 1))
        links = {"in": "sub", "in2": "in/deep", "up": "../t", "out": "../outside", "sub/back": "..", "dead": "nosuch"}
        links |= {"l.parquet": "sub/f1.parquet", "sub/m.parquet": "../l.parquet", "o.parquet": "../outside/f1.parquet"}
        for name, target in links.items():
            (table / name).symlink_to(target)
        (home / "link").symlink_to(table)
        self.live = [self.name() for _ in range(self.drawn.randint(0, 5))]
        self.removed = [self.name() for _ in range(self.drawn.randint(1, 12))]
        by_hand(self.model, 1, "add", *self.live)
        # The same file by another name may be removed while it is live; by the same it is live no more.
        gone = set(map(canonical_path, self.live))
        self.removed = [path for path in self.removed if canonical_path(path) not in gone]
        by_hand(self.model, 2, "remove", *self.removed)

    def name(self) -> str:
        drawn, table = self.drawn, self.model.path
        folders = [
            "",
            "sub/",
            "sub/deep/",
            "in/",
            "in2/",
            "up/",
            "up/sub/",
            "sub/back/",
            "in/back/up/",
            "out/",
            "dead/",
        ]
        inside = drawn.choice(folders) + f"f{drawn.randrange(4)}.parquet"
        inside = drawn.choice([inside] * 3 + ["l.parquet", "sub/m.parquet", "o.parquet", "in/m.parquet", "in"])
        odd = [
            inside,
            inside.replace("/", "//"),
            f"./{inside}",
            f"../t/{inside}",
            f"../link/{inside}",
            f"sub/../{inside}",
        ]
        whole = drawn.choice([table, self.home / "link", f"{self.home}//t", f"{table}/in/..", f"{self.home}/x/../t"])
        odd += [f"{scheme}{whole}/{inside}" for scheme in ("file://", "file:", "FILE:", "", "s3a://bucket")]
        odd.append(inside.replace("f", "%66"))
        return drawn.choice([inside, drawn.choice(odd)])

    def needed(self) -> set[str]:
        """Where live names lead to, those of another scheme too."""
        found = set()
        for name in self.live:
            path = name.replace("%66", "f")
            for scheme in ("file://", "file:", "FILE:", "s3a://bucket"):
                path = path.removeprefix(scheme)
            found.add(os.path.realpath(os.path.join(self.model.path, path)))
        return found


@pytest.mark.parametrize("form", ["full", "lite", "inventory"])
def test_no_form_deletes_what_another_name_needs(tmp_path, form):
    statement = RecordingStatement({**UNCHECKED, **SILENT})
    kinds = schema_json(path="string", length="long", isDir="boolean", modificationTime="long")
    statement.place_query = lambda text: (0, kinds)  # type: ignore[method-assign]
    deleted = 0
    for seed in range(60):
        names = Spellings(tmp_path / f"{seed}", statement, seed)
        table = names.model.path
        needed = {path for path in names.needed() if Path(path).is_file()}
        links = [path for path in table.rglob("*") if path.is_symlink()]
        listed = [f"{table}/{name}" for name in (*names.files, "in/f1.parquet", "out/f1.parquet", "l.parquet", "in2")]
        rows = [{"path": path, "length": 3, "isDir": path.endswith("in2"), "modificationTime": 5} for path in listed]
        statement.query = lambda sql, rows=rows: rows  # type: ignore[method-assign]
        arguments = {"inventory": "SELECT 1"} if form == "inventory" else {"mode": form}
        opened = names.home / "link" if seed % 3 == 0 and form != "inventory" else table
        shown = run(opened, statement, hours="1", dryRun=True, **arguments)
        before = {path for path in names.files if (table / path).is_file()}
        run(opened, statement, hours="1", **arguments)
        after = {path for path in names.files if (table / path).is_file()}
        said = (seed, names.live, names.removed)
        assert {f"file:{opened}/{path}" for path in before - after} == {p for p in shown if p.endswith("t")}, said
        assert [path for path in needed if not Path(path).is_file()] == [], said
        assert all(path.is_symlink() for path in links), said
        assert all(file.is_file() for file in names.outside), said
        # What goes has no live name; what has no name like a live one goes.
        same = {path.rpartition("/")[2] for path in (*names.live, *needed)} | {"f1.parquet"}
        plain = {path for path in names.files if path in names.removed or form != "lite"}
        assert not {p for p in plain & after if p.rpartition("/")[2] not in {n.replace("%66", "f") for n in same}}, said
        deleted += len(before - after)
    assert deleted > 20


def test_what_the_table_does_not_own_stays(tmp_path, statement):
    model = Model(tmp_path / "t", statement, 5)
    others = ["other/_delta_log/0.json", "other/x.parquet", "other/sub/y.parquet", "_hidden/z.parquet"]
    for path in (*others, "own/left.parquet"):
        model.make(path, 900)
    by_hand(model, 1, "remove", "_delta_log/00000000000000000000.json", *others, "own/left.parquet")
    left = [f"file:{model.path}/own/left.parquet"]
    assert run(model.path, statement, hours="1", dryRun=True, mode="lite") == left
    assert run(model.path, statement, hours="1", dryRun=True, mode="full") == left
    rows = [
        {"path": f"{model.path}/{path}", "length": 3, "isDir": False, "modificationTime": 5}
        for path in (*others, "own/left.parquet")
    ]
    rows.append({"path": f"{model.path}/of no known time.parquet", "length": 3, "isDir": False})
    rows.append({"path": f"{model.path}/of no known kind.parquet", "length": 3, "modificationTime": 5})
    kinds = schema_json(path="string", length="long", isDir="boolean", modificationTime="long")
    statement.place_query = lambda text: (0, kinds)
    statement.query = lambda sql: rows
    assert run(model.path, statement, hours="1", inventory="SELECT 1", dryRun=True) == left


def test_retentions_longer_than_time(tmp_path, statement):
    model = Model(tmp_path / "t", statement, 5)
    model.commit(500)
    model.make("left.parquet", 900)
    for hours in ("9999999999999", "9" * 40):
        assert run(model.path, statement, hours=hours, dryRun=True) == []
    run(model.path, statement, hours="9" * 40)
    (info,) = actions(model.path, 2, "commitInfo")
    assert info["operationParameters"]["specifiedRetentionMillis"] == str(2**63 - 1)


@pytest.mark.parametrize("interval", ["interval -5 hours", "interval 99999999999999999999 weeks"])
def test_retentions_that_others_have_stored(tmp_path, statement, interval):
    model = Model(tmp_path / "t", statement, 5)
    model.make("young.parquet", 0)
    (definition,) = actions(model.path, 0, "metaData")
    definition["configuration"]["delta.deletedFileRetentionDuration"] = interval
    (model.path / f"_delta_log/{1:020d}.json").write_text(json.dumps({"metaData": definition}))
    for look in (
        lambda: run(model.path, statement),
        lambda: health(
            load_snapshot(str(model.path), LocalStore()),
            Settings.of(statement, load_snapshot(str(model.path), LocalStore()).definition),
        ),
    ):
        invalid = pytest.raises(HeadwaterError, match="is not an interval")
        with invalid if "-" in interval else contextlib.nullcontext():
            look()
    assert (model.path / "young.parquet").is_file()


@pytest.mark.parametrize("version", ["7", "-5", "1" + "0" * 30, "[" * 100_000])
def test_a_state_that_is_none_of_this_table(tmp_path, version):
    statement = RecordingStatement({**UNCHECKED, **SILENT})
    model = Model(tmp_path / "t", statement, 5)
    for age in (500, 400):
        model.commit(age)
    by_hand(model, 3, "remove", "left.parquet")
    model.make("left.parquet", 900)
    (model.path / "_delta_log/_last_vacuum_info").write_text(
        f'{{"latestCommitVersionOutsideOfRetentionWindow":{version}}}'
    )
    assert f"file:{model.path}/left.parquet" in run(model.path, statement, hours="1", mode="lite", dryRun=True)


def test_an_inventory_is_taken_for_a_listing(tmp_path, statement):
    model = Model(tmp_path / "t", statement, 5)
    model.commit(500)
    for name in ("left.parquet", "_p=q/left", "_hidden/x", "not listed"):
        model.make(name, 100)
    base = f"file://{model.path}"
    stamp = model.now - 100 * HOUR
    listed = ["left.parquet", "_p=q/left", "_hidden/x", "../t/left.parquet", "a/../../x"]
    rows = [{"path": f"{base}/{n}", "length": 3, "isDir": False, "modificationTime": stamp} for n in listed]
    rows += [{"path": f"{base}/{n}", "length": 3, "isDir": False, "modificationTime": 5} for n in model.live]
    rows.append({"path": f"{tmp_path}/elsewhere/{model.path}/x", "length": 3, "isDir": False, "modificationTime": 5})
    kinds = schema_json(path="string", length="long", isDir="boolean", modificationTime="long", more="string")
    statement.place_query = lambda text: (0, kinds)
    statement.query = lambda sql: rows
    shown = run(model.path, statement, hours="1", inventory="SELECT 1", dryRun=True)
    assert shown == [f"file:{model.path}/left.parquet", f"file:{model.path}/_p=q/left"]
    run(model.path, statement, hours="1", inventory="SELECT 1")
    assert not (model.path / "left.parquet").exists()
    assert (model.path / "not listed").is_file()
    statement.place_query = lambda text: (0, schema_json(path="string", length="integer", isDir="boolean"))
    with pytest.raises(HeadwaterError) as refused:
        run(model.path, statement, inventory="SELECT 1")
    assert refused.value.condition == "DELTA_INVALID_INVENTORY_SCHEMA"
    assert "modificationTime bigint" in refused.value.text


def test_empty_folders_and_checksums_beside_files_go(tmp_path, statement):
    model = Model(tmp_path / "t", statement, 5)
    for name in ("e/mpty", "young"):
        (model.path / name).mkdir(parents=True)
    model.set_time("e/mpty", 50)
    model.make("gone.parquet", 50)
    model.make(".gone.parquet.crc", 50)
    assert run(model.path, statement, hours="1", dryRun=True) == [
        f"file:{model.path}/{name}" for name in ("gone.parquet", "e/mpty")
    ]
    run(model.path, statement, hours="1")
    assert [(model.path / name).exists() for name in ("e/mpty", "e", "young", ".gone.parquet.crc")] == [
        False,
        True,
        True,
        False,
    ]


def test_without_commits_where_a_session_wants_none(tmp_path):
    statement = RecordingStatement({**UNCHECKED, **SILENT})
    model = Model(tmp_path / "t", statement, 5)
    model.make("left", 50)
    run(model.path, statement, hours="1")
    assert not (model.path / "left").exists()
    assert open_snapshot(str(model.path), statement).version == 0


def test_what_cannot_be_deleted_is_said_and_goes_the_next_time(tmp_path, statement, monkeypatch):
    model = Model(tmp_path / "t", statement, 5)
    for number in range(3):
        model.make(f"left{number}", 50)
    unlink = os.unlink
    monkeypatch.setattr("os.unlink", lambda path, **_: (_ for _ in ()).throw(PermissionError(13, "no right to")))
    with pytest.raises(HeadwaterError) as refused:
        run(model.path, statement, hours="1")
    monkeypatch.setattr("os.unlink", unlink)
    assert refused.value.condition == "HEADWATER_VACUUM_FILES_LEFT"
    assert refused.value.parameters["count"] == "3"
    assert actions(model.path, 2, "commitInfo")[0]["operationParameters"] == {"status": "FAILED"}
    run(model.path, statement, hours="1")
    assert not list(model.path.glob("left*"))


def test_a_full_disk_gets_room(tmp_path, statement, monkeypatch, caplog):
    model = Model(tmp_path / "t", statement, 5)
    model.make("left", 50)
    put = LocalStore.put_if_absent

    def full_as_long_as_it_is_there(store, path, data):
        if (model.path / "left").exists():
            raise OSError(errno.ENOSPC, "No space left on device", path)
        put(store, path, data)

    monkeypatch.setattr(LocalStore, "put_if_absent", full_as_long_as_it_is_there)
    assert run(model.path, statement, hours="1") == [f"file:{model.path}"]
    assert not (model.path / "left").exists()
    assert [actions(model.path, 1, "commitInfo")[0]["operation"]] == ["VACUUM END"]
    assert "the disk is full, so the history will not contain VACUUM START" in caplog.text

    def broken(store, path, data):
        raise OSError(errno.EIO, "Input/output error", path)

    model.make("left", 50)
    monkeypatch.setattr(LocalStore, "put_if_absent", broken)
    with pytest.raises(OSError, match="Input/output"):
        run(model.path, statement, hours="1")
    assert (model.path / "left").exists()
