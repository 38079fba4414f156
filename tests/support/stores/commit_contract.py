"""Commits on a store whose server decides, as tests that any such store can be run through.

Subclass :class:`CommitContract` in a test module, and give it the fixtures ``server``, told to misbehave by its
``rules`` (:mod:`support.stores.misbehaving`), with ``table``, the URI of a table of the test's own; and ``open_store``,
which gives the store of a path. ``race`` has two processes commit to the same tables.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from pyroaring import BitMap64

from headwater.basics.errors import HeadwaterError
from headwater.log import deletion_vectors
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.protocol.actions import AddFile, Metadata, Protocol
from headwater.stores import Store
from headwater.stores.schemes import Promise
from headwater.transaction import Provenance, Transaction, wait_for_maintenance
from support.processes import environment, python

COMMITS = 8
COMMIT = r"_delta_log/\d{20}\.json$"
COMMIT_NAME = f"{1:020}.json"


def create(table, store):
    store.check_writable(table)
    txn = Transaction(table, store, None)
    txn.update_protocol(Protocol(1, 2))
    txn.update_metadata(Metadata("the-id", '{"type":"struct","fields":[]}', created_time=1))
    return txn.commit(Provenance("CREATE TABLE")).snapshot


def append(table, store, snapshot, path="new"):
    txn = Transaction(table, store, snapshot)
    txn.add([AddFile(path, {}, 1, 1)])
    return txn.commit(Provenance("WRITE"))


def outcome(table, store, snapshot) -> str:
    """What the writer of a commit is told: ``done``, ``failed`` or an error condition."""
    try:
        append(table, store, snapshot)
    except OSError:
        return "failed"
    except HeadwaterError as error:
        return error.condition
    return "done"


def paths(snapshot: Snapshot) -> list[str]:
    return sorted(snapshot.files["path"].to_pylist())


def race(
    open_store: Callable[[str], Store], tables: Sequence[str], settings: Mapping[str, str], *reached: Sequence[str]
) -> None:
    """Two processes, which reach the tables with these settings, JARs and options, lose no commit of each other."""
    for table in tables:
        create(table, open_store(table))
    assert wait_for_maintenance(60)
    writers = [
        subprocess.Popen(
            python("support.stores.racing", json.dumps([settings, *reached]), name, str(COMMITS), *tables),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(),
        )
        for name in ("one", "two")
    ]  # fmt: skip
    acknowledged: list[Any] = []
    try:
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        for writer in writers:
            acknowledged += json.loads(writer.communicate(timeout=200)[0])
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    for table in tables:
        versions = {version: path for where, version, path in acknowledged if where == table}
        assert sorted(versions) == list(range(1, 2 * COMMITS + 1))
        store = open_store(table)
        assert paths(load_snapshot(table, store)) == sorted(versions.values())
        written = [versions[version].partition("-")[0] for version in sorted(versions)]
        assert len([1 for a, b in zip(written, written[1:], strict=False) if a != b]) > 1, "they did not race"
        for version, path in versions.items():
            assert path in store.read(f"{table}/_delta_log/{version:020d}.json").decode()


class CommitContract:
    """None is lost with an answer, and none is made where it is not safe."""

    @pytest.mark.parametrize(
        ("rule", "stands"),
        [
            ({"do": "lose", "times": 1}, True),  # the client asks again, and finds its own file
            ({"do": "lose"}, True),  # it gives up
            ({"do": "hang up", "times": 1}, True),
            ({"do": "hang up"}, True),
            ({"do": "fail"}, False),
            ({"do": "deny"}, False),
        ],
        ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else None,
    )
    def test_a_commit_whose_answer_is_lost_is_looked_for(self, server, open_store, rule, stands):
        table = server.table
        store = open_store(table)
        snapshot = create(table, store)
        assert wait_for_maintenance(60)
        server.rules({"method": "PUT", "path": COMMIT, **rule})
        if stands:
            assert append(table, store, snapshot).version == 1
        else:
            # After a failed rename there is nothing left to rename. Elsewhere, only a refusal is definite.
            is_definite = rule["do"] == "deny" or store.promise is Promise.RENAME
            with pytest.raises(OSError if is_definite else HeadwaterError) as raised:
                append(table, store, snapshot)
            if isinstance(raised.value, HeadwaterError):
                assert raised.value.condition == "HEADWATER_COMMIT_OUTCOME_UNKNOWN"
            else:
                assert raised.value.filename.endswith("00000000000000000001.json")
        assert wait_for_maintenance(60)
        server.rules()
        assert paths(load_snapshot(table, store)) == (["new"] if stands else [])
        assert append(table, store, snapshot, "next").version == (2 if stands else 1)

    @pytest.mark.parametrize("puts", [1, 2])
    def test_a_commit_that_is_carried_out_late_was_not_reported_as_failed(self, server, open_store, puts):
        """By the second put, if that works; otherwise the outcome is unknown."""
        table = server.table
        store = open_store(table)
        snapshot = create(table, store)
        assert wait_for_maintenance(60)
        server.rules({"method": "PUT", "path": COMMIT, "do": "fail"})
        failed = outcome(table, store, snapshot)
        asked = [path for method, path, _ in server.seen()["requests"] if method == "PUT" and COMMIT_NAME in path]
        # A client asks several times for each of the two puts.
        server.rules({"method": "PUT", "path": COMMIT, "do": "late", "times": len(asked) * puts // 2})
        told = outcome(table, store, snapshot)
        server.rules()
        assert told == ("done" if failed != "failed" and puts == 1 else failed)
        assert paths(load_snapshot(table, store)) == ([] if told == "failed" else ["new"])
        assert wait_for_maintenance(60)

    def test_a_file_of_a_name_of_its_own_is_there_though_an_answer_is_lost(self, server, open_store):
        table = server.table
        store = open_store(table)
        create(table, store)
        assert wait_for_maintenance(60)
        for do in ("lose", "hang up"):
            server.rules({"method": "PUT", "path": r"deletion_vector_[^/]*\.bin$", "do": do, "times": 1})
            (vector,) = deletion_vectors.write_file([BitMap64([1, 3])], table, store)
            server.rules()
            assert deletion_vectors.read(vector, table, store) == BitMap64([1, 3])

    def test_a_commit_that_may_be_there_says_so(self, server, open_store):
        table = server.table
        store = open_store(table)
        snapshot = create(table, store)
        assert wait_for_maintenance(60)
        server.rules({"path": COMMIT.removesuffix("$"), "do": "fail"})
        with pytest.raises(HeadwaterError, match="HEADWATER_COMMIT_OUTCOME_UNKNOWN"):
            append(table, store, snapshot)

    @pytest.mark.parametrize("do", ["ignore", "unknown"])
    def test_a_server_that_does_not_keep_conditions_is_refused(self, server, open_store, do):
        table = server.table
        server.rules({"method": "PUT", "do": do}, {"method": "POST", "do": do})
        for _ in range(2):  # a refusal is not kept: the server may be another one by then
            with pytest.raises(HeadwaterError) as raised:
                create(table, open_store(table))
            assert raised.value.condition == "HEADWATER_CONDITIONAL_CREATE_IGNORED"
            for word in (table, open_store(table).promise.value, f"spark.headwater.store.{table.partition(':')[0]}"):
                assert word in str(raised.value)
        server.rules()
        try:
            assert open_store(table).list_from(f"{table}/_delta_log") == []
        except FileNotFoundError:
            assert do == "unknown"
        assert create(table, open_store(table)).version == 0

    def test_a_server_is_tried_once(self, server, open_store):
        table, other = server.table, f"{server.table}-other"
        server.rules()
        open_store(table).check_writable(table)
        assert sum(had_a_condition for _, _, had_a_condition in server.seen()["requests"]) >= 2
        assert open_store(table).list_from(f"{table}/_delta_log") == []
        server.rules()
        for path in (table, other):
            open_store(path).check_writable(path)
        assert server.seen()["requests"] == []

    def test_a_server_that_cannot_be_asked_is_an_error_of_access(self, server, open_store):
        table = server.table
        server.rules({"do": "deny"})
        with pytest.raises(PermissionError) as raised:
            create(table, open_store(table))
        assert "403" in str(raised.value.strerror)
        server.rules()
        assert create(table, open_store(table)).version == 0
