"""VACUUM in each of its forms, as tests that any store can be run through.

They are part of :class:`~support.stores.store_contract.StoreContract`, which says what its fixtures are.
"""

from __future__ import annotations

import json

import pytest

from headwater.protocol.actions import AddFile, Metadata, Protocol
from headwater.statements.running import opening
from headwater.stores import Store
from headwater.transaction import Provenance, Transaction, wait_for_maintenance
from support.recording_statement import RecordingStatement
from support.requests import called, schema_json

_HOUR = 3_600_000
#: What no version names, in folders and beside them.
LEFT = ["left.parquet", "p=1/left.parquet", "_change_data/left.parquet", "sub/deep/left %25.parquet"]
#: What versions name that are too old to be kept.
REMOVED = ["removed.parquet", "p=1/removed.parquet"]
LIVE = ["live.parquet", "p=1/live.parquet"]
#: Tables below the table, one of them in a folder of its own files, one deeper; and what is hidden.
OTHERS = [
    *("other/_delta_log/00000000000000000000.json", "other/x.parquet", "other/p=1/y.parquet"),
    *("sub/other/_delta_log/00000000000000000000.json", "sub/other/x.parquet", "sub/other/deep/y.parquet"),
    *("p=1/other/_delta_log/00000000000000000000.json", "p=1/other/x.parquet"),
    *("_hidden/x.parquet", ".hidden/x.parquet", "_upserts/_delta_log/00000000000000000000.json"),
]


def _escaped(path: str) -> str:
    return path.replace("%", "%25").replace(" ", "%20")


class VacuumContract:
    """The same goes, and the same stays, wherever the table lies."""

    @pytest.mark.parametrize("form", ["full", "lite", "inventory"])
    def test_vacuum_deletes_what_no_version_needs_and_no_file_of_another_table(
        self, store: Store, root: str, form: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = f"{root}/{form} t"
        monkeypatch.setattr(opening, "store_for", lambda path, *_: (store, path))
        self._fill(store, table)
        statement = RecordingStatement()
        arguments = {"inventory": "SELECT 1"} if form == "inventory" else {"mode": form}
        kinds = schema_json(path="string", length="long", isDir="boolean", modificationTime="long")
        every = [f"{table}/{path}" for path in (*LEFT, *REMOVED, *LIVE, *OTHERS)]
        listed = [{"path": path, "length": 1, "isDir": False, "modificationTime": 5} for path in every]
        statement.place_query = lambda text: (0, kinds)  # type: ignore[method-assign]
        statement.query = lambda sql: listed  # type: ignore[method-assign]
        # A store sets the times of its files.
        later = opening.clock.milliseconds() + 1000 * _HOUR
        monkeypatch.setattr("headwater.basics.clock.milliseconds", lambda: later)

        def run(**more: object) -> list[str]:
            request = {"table": table, "name": "t", "arguments": {**arguments, **more}}
            return [row["path"].removeprefix("file:") for row in called("vacuum")(request, statement)["rows"]]

        goes = {f"{table}/{path}" for path in (REMOVED if form == "lite" else (*LEFT, *REMOVED))}
        shown = set(run(dryRun=True))
        assert {path for path in shown if path.endswith(".parquet")} == goes
        assert store.missing(every) == []
        assert run() == [table]
        assert set(store.missing(every)) == goes
        assert wait_for_maintenance(60)

    @staticmethod
    def _fill(store: Store, table: str) -> None:
        for path in (*LEFT, *REMOVED, *LIVE, *OTHERS):
            store.make_directory(f"{table}/{path}".rpartition("/")[0])
            store.put(f"{table}/{path}", b"x")
        txn = Transaction(table, store, None)
        txn.update_protocol(Protocol(1, 2))
        txn.update_metadata(Metadata("the-id", schema_json(a="integer", p="integer"), ("p",), created_time=1))
        snapshot = txn.commit(Provenance("CREATE TABLE")).snapshot
        # A log may name what the table does not own.
        named = [_escaped(path) for path in (*REMOVED, *OTHERS)]
        removes = [{"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True}} for path in named]
        removes.insert(0, {"commitInfo": {"operation": "WRITE"}})
        commit = "\n".join(map(json.dumps, removes)).encode()
        store.put_if_absent(f"{table}/_delta_log/{1:020d}.json", commit)
        txn = Transaction(table, store, snapshot)
        txn.add([AddFile(path, {"p": "1"}, 1, 1) for path in LIVE])
        txn.commit(Provenance("WRITE"))
