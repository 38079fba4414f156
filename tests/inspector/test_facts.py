"""The inspector's facts: what they are, beside what else of the package says of the same tables."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from headwater.basics.errors import HeadwaterError
from headwater.inspector.definitions import property_changes, protocol_changes, schema_changes
from headwater.inspector.history import History
from headwater.inspector.table import InspectedTable
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import Metadata, Protocol
from headwater.statements.maintenance.findings import by_path, findings
from headwater.statements.maintenance.health import by_section, health
from headwater.statements.maintenance.layouts import Settings
from headwater.stores import LocalStore
from inspector.conftest import add, definition, facts_of, remove
from support.commits import write_commit
from support.damaged_table import INTERNAL, small_table, spoiled
from support.damages import DAMAGES

#: Every call that needs nothing but a table.
OF_A_TABLE = (
    "newest", "overview", "counts", "sizes", "optimize", "vectors", "partitions", "writers", "vacuum", "log", "history",
    "sample",
)  # fmt: skip
#: The shared tables that have much in them, and damaged ones.
_MANY_COMMITS = {"table-with-domain-metadata"}
#: Into how many tests the damages of logs are divided.
PARTS = 5


def test_every_shared_table_is_shown(shared: Path) -> None:
    """All of them answer every call, those that cannot be read with one error, and the figures are those of health."""
    for table in sorted(path.parent for path in (shared / "tables").glob("**/_delta_log")):
        ask = facts_of(table)
        status, overview = ask("overview")
        if status == 422:
            assert {ask(name)[0] for name in ("sizes", "counts", "sample")} == {422}, table
            assert ask("log")[0] == ask("history")[0] == 200, table
            continue
        answers = {name: ask(name) for name in OF_A_TABLE}
        assert {status for status, _ in answers.values()} == {200}, (table, answers)
        snapshot = load_snapshot(str(table), LocalStore())
        facts = {(fact.section, fact.name): fact.value for fact in health(snapshot, Settings()) if not fact.subject}
        assert overview["files"] == facts["files", "files"] == sum(bar[0] for bar in answers["sizes"][1]["bars"])
        assert overview["bytes"] == facts["files", "bytes"] == sum(bar[1] for bar in answers["sizes"][1]["bars"])
        assert answers["counts"][1]["rows"] == facts["rows", "rows"]
        for name in ("filesRemoved", "filesAdded", "bytesRead", "bytesWritten"):
            about = 0 if name != "bytesWritten" else answers["optimize"][1]["filesAdded"]
            assert abs(answers["optimize"][1][name] - facts["optimize", name]) <= about, (table, name)
        parts = answers["partitions"][1]
        if parts["columns"]:
            assert sum(part["files"] for part in parts["partitions"]) + parts["rest"]["files"] == overview["files"]
        for column in overview["columnsWithBounds"][:3]:
            assert ask("overlap", column=column)[0] == 200, (table, column)
        entries = answers["history"][1]["entries"]
        for entry in entries[:3] if table.name in _MANY_COMMITS else entries:
            assert ask("version", number=entry["version"])[0] == 200, (table, entry)
            _check_total(table, entry)


def _check_total(table: Path, entry: dict[str, Any]) -> None:
    """What the timeline says of the table after a version is what the version holds, where it says anything."""
    try:
        snapshot = load_snapshot(str(table), LocalStore(), entry["version"])
    except HeadwaterError:
        return  # the log no longer has what came before it
    records, vectors = snapshot.statistics([])["num_records"], snapshot.select(["deletion_vector"])["deletion_vector"]
    deleted = pc.sum(pc.struct_field(vectors, "cardinality")).as_py() or 0
    rows = None if records.null_count else (pc.sum(records).as_py() or 0) - deleted
    held = (snapshot.num_files, snapshot.size_in_bytes, rows)
    differences = [pair for pair in zip(entry["total"] or (), held, strict=False) if pair[0] not in (None, pair[1])]
    assert differences == [], (table, entry["version"])


def test_the_advice_is_that_of_the_command(tmp_path: Path) -> None:
    """The same findings in the same words, each with the statement that its text has."""
    columns = (("id", "long"), ("day", "string"))
    write_commit(tmp_path, 0, *definition(*columns, partitioned=("day",)), add("bare", rows=None))
    vector = {"storageType": "u", "pathOrInlineDv": "x" * 20, "offset": 1, "sizeInBytes": 40, "cardinality": 9}
    for version in range(1, 120):
        day = {"partitionValues": {"day": f"{version % 3}"}}
        write_commit(tmp_path, version, add(f"{version}", 1000, deletionVector=vector, **day))
    write_commit(tmp_path, 120, remove("1", size=10**9), remove("bare"))
    copied = set()
    for version in (0, 119, 120):
        snapshot = load_snapshot(str(tmp_path), LocalStore(), version)
        found_by_health = findings(by_section(health(snapshot, Settings())), by_path(str(tmp_path)))
        expected = [each for each in found_by_health if each.name != "missingFiles"]
        found = facts_of(tmp_path)("advice", version=version)[1]["findings"]
        assert [(each["level"], each["name"], each["text"]) for each in found] == expected, version
        assert all(each["sql"] is None or each["sql"] in each["text"] for each in found)
        copied |= {each["name"] for each in found if each["sql"]}
    assert copied == {"statistics", "smallFiles", "deletedRows", "checkpoint"}


def test_the_growth_is_that_of_the_snapshots(tmp_path: Path) -> None:
    """Whatever removes leave out: their sizes come from the adds, also across answers."""
    write_commit(tmp_path, 0, *definition(("id", "long")), {"commitInfo": {"operation": "CREATE TABLE"}})
    draw = random.Random(5)
    live: list[str] = []
    for version in range(1, 40):
        actions = [add(f"{version}-{i}", draw.randrange(1, 999), draw.randrange(50)) for i in range(draw.randrange(4))]
        gone = draw.sample(live, min(len(live), draw.randrange(3)))
        live = [path for path in live if path not in gone] + [action["add"]["path"] for action in actions]
        # A compaction may remove a file before the action that adds another.
        write_commit(tmp_path, version, *map(remove, gone), *actions, {"commitInfo": {"operation": "WRITE"}})
    ask = facts_of(tmp_path)
    _, page = ask("history")
    assert [entry["version"] for entry in page["entries"]] == list(range(39, -1, -1))
    for entry in page["entries"]:
        snapshot = load_snapshot(str(tmp_path), LocalStore(), entry["version"])
        rows = sum(value.as_py() for value in snapshot.statistics([])["num_records"])
        assert entry["total"] == [snapshot.num_files, snapshot.size_in_bytes, rows], entry["version"]


def test_pages_of_the_history_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.inspector.history.PAGE", 3)
    write_commit(tmp_path, 0, *definition(("id", "long")))
    for version in range(1, 8):
        write_commit(tmp_path, version, add(str(version), version))
    table = InspectedTable(str(tmp_path), LocalStore())
    history, found, before = History(table), [], None
    while True:
        page = history.page(before, table.view().snapshot)
        found += page["entries"]
        before = page["entries"][-1]["version"]
        if not page["more"]:
            break
    assert [(entry["version"], entry["total"][0]) for entry in found] == [(n, n) for n in range(7, -1, -1)]


def test_a_large_commit_is_told_by_its_provenance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.inspector.history._MOST_BYTES", 2000)
    write_commit(tmp_path, 0, *definition(("id", "long")))
    metrics = {"numFiles": "50", "numOutputBytes": "5000", "numOutputRows": "500"}
    info = {"commitInfo": {"operation": "WRITE", "operationMetrics": metrics}}
    write_commit(tmp_path, 1, info, *(add(str(n)) for n in range(50)))
    _, page = facts_of(tmp_path)("history")
    assert page["entries"][0]["estimated"]
    assert page["entries"][0]["added"] == [50, 5000, 500]
    assert page["entries"][0]["total"] == [50, 5000, 500]


def test_the_timeline_knows_which_commits_change_the_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = (("id", "long"), ("more", "string"))
    write_commit(tmp_path, 0, *definition(columns[0]))
    write_commit(tmp_path, 1, definition(*columns)[1])
    write_commit(tmp_path, 2, definition(*columns, configuration={"a": "1"})[1])
    write_commit(tmp_path, 3, add("a"))
    write_commit(tmp_path, 4, definition(columns[1])[1])

    def changed() -> dict[int, bool | None]:
        return {entry["version"]: entry["schemaChanged"] for entry in facts_of(tmp_path)("history")[1]["entries"]}

    assert changed() == {0: False, 1: True, 2: False, 3: False, 4: True}
    monkeypatch.setattr("headwater.inspector.history.PAGE", 3)
    assert changed() == {2: None, 3: False, 4: True}


def test_a_predicate_says_which_part_skips_what(tmp_path: Path) -> None:
    actions = definition(("id", "long"), ("day", "string"), partitioned=("day",))
    files = [
        add(f"{n}", n + 1, low=10 * n, high=10 * n + 9, partitionValues={"day": "a" if n < 3 else "b"})
        for n in range(6)
    ]
    write_commit(tmp_path, 0, *actions, *files, add("bare", rows=None, partitionValues={"day": "a"}))
    ask = facts_of(tmp_path)
    _, found = ask("skipping", where="id >= 20 AND day = 'a' AND length(day) = 1", column="id")
    assert (found["filesRead"], found["filesSkipped"], found["bytesRead"]) == (2, 5, 3 + 100)
    assert found["notUnderstood"] == ["LENGTH(day) = 1"]
    assert [(part["text"], part["by"], part["skips"], part["alone"]) for part in found["parts"]] == [
        ("id >= 20", "minimum and maximum", 2, 2),
        ("day = 'a'", "partition values", 3, 3),
        ("…", "not understood: it skips no file", 0, 0),
    ]
    assert {file["path"]: (file["because"], file["bounds"]) for file in found["skipped"]}["1"] == (
        "id >= 20",
        ["id: 10 to 19, no nulls"],
    )
    _, ranges = ask("overlap", column="id")
    drawn = dict(zip((each["low"] for each in ranges["ranges"]), found["drawn"], strict=True))
    assert drawn == {"0": False, "10": False, "20": True, "30": False, "40": False, "50": False}
    assert (ranges["known"], ranges["withoutBounds"], ranges["maximum"]) == (6, 1, 2)
    for odd in ("", "id =", "'", "id = 'x", ")", "id = " + "(" * 3000, "day = '" + "x" * 9000 + "'"):
        status, found = ask("skipping", where=odd)
        assert (status, found["condition"]) == (422, "PARSE_SYNTAX_ERROR"), odd


def test_differences_of_definitions() -> None:
    def metadata(fields: list[dict[str, object]], **configuration: str) -> Metadata:
        named = {name.replace("__", "."): value for name, value in configuration.items()}
        named["delta.columnMapping.mode"] = "name"
        return Metadata("i", json.dumps({"type": "struct", "fields": fields}), (), named)

    def column(name: str, kind: object, number: int, **more: object) -> dict[str, object]:
        mapped = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"}
        ids = {**mapped, **more.pop("metadata", {})}  # type: ignore[dict-item]
        return {"name": name, "type": kind, "nullable": True, "metadata": ids, **more}

    inner = {"type": "struct", "fields": [column("x", "integer", 9)]}
    wider = {"type": "struct", "fields": [column("x", "long", 9), column("y", "string", 10)]}
    old = metadata([column("a", "long", 1), column("b", "string", 2), column("c", inner, 3)], delta__x="1", gone="2")
    new = metadata(
        [column("z", "long", 1, nullable=False), column("c", wider, 3, metadata={"comment": "new"})],
        delta__x="2",
        more="3",
    )
    assert [(c["kind"], c["name"], c["before"], c["after"]) for c in schema_changes(old, new)] == [
        ("renamed", "z", "a", "z"),
        ("nullability", "z", "nullable", "NOT NULL"),
        ("metadata", "c: comment", None, "new"),
        ("type", "c.x", "int", "bigint"),
        ("added", "c.y", None, "string"),
        ("dropped", "b", "string", None),
    ]
    assert [(c["kind"], c["name"], c["before"], c["after"]) for c in property_changes(old, new)] == [
        ("changed", "delta.x", "1", "2"),
        ("unset", "gone", "2", None),
        ("set", "more", None, "3"),
    ]
    before, after = Protocol(1, 2), Protocol(3, 7, frozenset({"deletionVectors"}), frozenset({"deletionVectors"}))
    assert [(c["kind"], c["name"], c["after"]) for c in protocol_changes(before, after)] == [
        ("changed", "reader version", "3"),
        ("changed", "writer version", "7"),
        ("added", "reader feature", "deletionVectors"),
        ("added", "writer feature", "deletionVectors"),
    ]


def test_the_definition_before_is_found_without_the_table(tmp_path: Path) -> None:
    """In commits, in a checksum, in a checkpoint; and where the log no longer has it, the page is told."""
    write_commit(tmp_path, 0, *definition(("id", "long"), configuration={"a": "1"}))
    for version in (1, 2):
        write_commit(tmp_path, version, add(str(version)))
    write_commit(tmp_path, 3, definition(("id", "long"), ("more", "string"), configuration={"a": "2"})[1])
    write_commit(tmp_path, 4, add("4"))
    _, found = facts_of(tmp_path)("version", number=3)
    assert [(c["kind"], c["name"]) for c in found["changes"]["schema"]] == [("added", "more")]
    assert [(c["name"], c["before"], c["after"]) for c in found["changes"]["properties"]] == [("a", "1", "2")]
    assert found["changes"]["unknown"] == []
    for version in (0, 1):
        (tmp_path / "_delta_log" / f"{version:020d}.json").unlink()
    _, found = facts_of(tmp_path)("version", number=3)
    assert found["changes"]["unknown"] == ["metaData"]


def test_two_versions_are_compared(tmp_path: Path) -> None:
    """Whichever is named first, and however many commits lie between them."""
    mapped = {"configuration": {"a": "1"}}
    write_commit(tmp_path, 0, *definition(("id", "long"), **mapped), add("a", 10, 1), add("b", 20, 2))
    write_commit(tmp_path, 1, remove("a"), add("c", 1024, 3), definition(("id", "long"), ("more", "string"))[1])
    vector = {
        "storageType": "i",
        "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
        "sizeInBytes": 40,
    }
    vector["cardinality"] = 1
    write_commit(tmp_path, 2, remove("b"), add("b", 20, 2, deletionVector=vector))
    write_commit(tmp_path, 3, add("d", 7, None))
    ask = facts_of(tmp_path)
    found = ask("compare", **{"from": 0, "to": 2})[1]
    assert ask("compare", **{"from": 2, "to": 0})[1] == found
    assert [(side["version"], side["files"], side["bytes"], side["rows"]) for side in found["sides"]] == [
        (0, 2, 30, 3),
        (2, 2, 1044, 4),
    ]
    assert found["files"] == {
        "added": 1, "addedBytes": 1024, "removed": 1, "removedBytes": 10, "withOtherDeletedRows": 1
    }  # fmt: skip
    assert found["sentence"] == (
        "Compared with version 0, version 2 has 1 new file (1.0 KiB), no longer has 1 file (10 B) and has other "
        "deleted rows in 1 file."
    )
    assert [(c["kind"], c["name"]) for c in found["changes"]["schema"]] == [("added", "more")]
    assert [(c["kind"], c["name"]) for c in found["changes"]["properties"]] == [("unset", "a")]
    assert found["changes"]["protocol"] == []
    assert ask("compare", **{"from": 2, "to": 3})[1]["sides"][1]["rows"] is None
    assert ask("compare", **{"from": 1, "to": 1})[1]["sentence"] == "This is version 1 beside itself."
    status, error = ask("compare", **{"from": 0, "to": 9})
    assert (status, error["condition"]) == (422, "DELTA_VERSION_NOT_FOUND")


@pytest.mark.parametrize(
    ("version", "sentence"),
    [
        (0, "Version 0 is the result of an unnamed operation: no file changed."),
        (1, "Version 1 is the result of MERGE by Headwater/1: 3 rows updated, 1 file added, 2.0 KiB added, 1.50 s."),
        (2, "Version 2 is the result of WRITE: 2 files added, 1 file removed. It changed the table's schema."),
        (3, "Version 3 is the result of an unnamed operation: no file changed. It changed the table's properties."),
        (4, "Version 4 is the result of ADD COLUMNS: more bigint. It changed the table's schema and properties."),
    ],
)
def test_a_version_begins_with_a_sentence(tmp_path: Path, version: int, sentence: str) -> None:
    metrics = {"numTargetRowsUpdated": "3", "numTargetFilesAdded": "1", "numTargetBytesAdded": "2048"}
    info = {"operation": "MERGE", "engineInfo": "Headwater/1", "operationMetrics": {**metrics, "executionTimeMs": 1500}}
    write_commit(tmp_path, 0, *definition(("id", "long")))
    write_commit(tmp_path, 1, {"commitInfo": info}, add("a"))
    wider = (("id", "long"), ("x", "long"))
    write_commit(
        tmp_path, 2, definition(*wider)[1], add("b"), add("c"), remove("a"), {"commitInfo": {"operation": "WRITE"}}
    )
    write_commit(tmp_path, 3, definition(*wider, configuration={"a": "1"})[1], {"commitInfo": {"operation": 7}})
    columns = {"columns": json.dumps([{"column": {"name": "more", "type": "long"}}])}
    declared = {"commitInfo": {"operation": "ADD COLUMNS", "operationMetrics": None, "operationParameters": columns}}
    write_commit(tmp_path, 4, definition(*wider, ("more", "long"))[1], declared)
    assert facts_of(tmp_path)("version", number=version)[1]["sentence"] == sentence


def test_rows_are_read_without_deleted_ones(tmp_path: Path) -> None:
    table = small_table(tmp_path / "t", "classic")
    _, found = facts_of(table)("sample")
    ids = [row[0] for row in found["rows"]]
    # Of four files with the ids 1 to 4, vectors mark the second and third row of one and the first of another.
    assert sorted(ids) == sorted(["1", "2", "3", "4"] * 2 + ["1", "4"] + ["2", "3", "4"])
    assert found["problems"] == []


def test_values_are_text_that_is_short(tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>"
    write_commit(tmp_path, 0, *definition((evil, "string"), ("id", "long"), name=evil, configuration={evil: evil}))
    pq.write_table(pa.table({evil: [evil, None, "x" * 5000], "id": [1 << 60, 2, 3]}), tmp_path / "f")
    write_commit(tmp_path, 1, add("f"), {"commitInfo": {"operation": evil, "userMetadata": evil, "big": 1 << 60}})
    ask = facts_of(tmp_path)
    assert ask("overview")[1]["name"] == evil
    assert ask("overview")[1]["properties"] == {evil: evil}
    assert ask("version", number=1)[1]["commitInfo"]["big"] == str(1 << 60)
    rows = ask("sample")[1]["rows"]
    assert rows[0] == [evil, str(1 << 60)]
    assert rows[1][0] is None
    assert len(rows[2][0]) == 200


def test_a_table_grows_while_it_is_looked_at(tmp_path: Path) -> None:
    write_commit(tmp_path, 0, *definition(("id", "long")))
    ask = facts_of(tmp_path)
    assert ask("overview")[1]["version"] == ask("newest")[1]["version"] == 0
    write_commit(tmp_path, 1, add("a"))
    assert ask("newest")[1]["version"] == 1
    assert ask("sizes", version=0)[1]["largest"] is None  # what is shown stays
    assert ask("sizes", version=1)[1]["largest"] == 100
    (tmp_path / "_delta_log" / f"{2:020d}.json").write_text('{"add": {"pa')
    status, error = ask("newest")
    assert (status, error["condition"]) == (422, "DELTA_INVALID_COMMIT")
    assert ask("sizes", version=1)[0] == 200
    _, page = ask("history")
    assert [(entry["version"], entry["error"] is None) for entry in page["entries"]] == [
        (2, False),
        (1, True),
        (0, True),
    ]
    _, found = ask("version", number=2)
    assert found["actions"][0]["kind"] == "damaged"


def test_odd_requests_are_refused(tmp_path: Path) -> None:
    write_commit(tmp_path, 0, *definition(("id", "long")), add("a"))
    ask = facts_of(tmp_path)
    for name, values in (
        ("version", {"number": 9}), ("version", {"number": 1 << 62}), ("overview", {"version": 7}),
        ("overview", {"version": "-1"}), ("overview", {"version": "x"}), ("overview", {"version": "٣"}),
        ("version", {"number": str(1 << 70)}),
    ):  # fmt: skip
        status, error = ask(name, **values)
        assert status in (400, 422), (name, values)
        assert error["message"], (name, values)
    for column in ([], "", "no", ["id", "x"]):
        assert ask("overlap", column=column)[0] == 200, column
    assert ask("sample", start=99)[1]["rows"] == []


@pytest.mark.parametrize("part", [0, *(pytest.param(n, marks=pytest.mark.soak) for n in range(1, PARTS))])
def test_damaged_logs_are_shown_as_far_as_they_can_be(tmp_path: Path, part: int) -> None:
    """Each call answers, or says what is wrong: never with an exception of Python's. The usual run has a part of the
    damages; tests/statements/test_damaged_tables.py has all of them with the handler's statements.
    """
    whole = [small_table(tmp_path / str(kind), kind) for kind in (None, "classic", "v2")]
    damages = [(name, whole[0], damage) for name, damage in DAMAGES.items()][part::PARTS]
    spoiling = range(part, 40, PARTS)
    damages += [(f"spoiled {n}", whole[n % 3], lambda t, n=n: spoiled(t, random.Random(n))) for n in spoiling]
    for number, (name, table, damage) in enumerate(damages):
        copy = tmp_path / f"d{number}"
        shutil.copytree(table, copy)
        damage(copy)
        ask = facts_of(copy)
        calls: list[tuple[str, dict[str, Any]]] = [(call, {}) for call in OF_A_TABLE]
        calls += [("version", {"number": n}) for n in range(5)] + [("overlap", {"column": "id"})]
        calls += [("advice", {}), ("compare", {"from": 0, "to": 1})]
        calls += [("skipping", {"where": "id > 3 AND day = '2024-01-01' AND s.x < 2", "column": "id"})]
        for call, values in calls:
            status, found = ask(call, **values)
            assert status in (200, 422), (name, call, values, found)
            assert status == 200 or not INTERNAL.search(found["message"]), (name, call, found)
        shutil.rmtree(copy)
