"""Sessions with transactions over several statements, without Spark.

What a session of Spark keeps between two statements lives on in a :class:`Session`; each statement runs in a
handler of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.define import CreatedTable, TransactionArguments, TransactionRequest
from headwater.protocol.actions import AddCDCFile
from headwater.statements.begin_and_commit import begin_transaction, commit_transaction, rollback_transaction
from headwater.statements.running import open_transactions
from headwater.statements.running.committing import commit, removals, transaction
from headwater.statements.running.opening import open_snapshot
from headwater.transaction import Committed, Provenance
from support.commits import add_file
from support.recording_statement import RecordingStatement


def condition_of(do: Callable[[], Any]) -> str:
    """The condition that this fails with."""
    with pytest.raises(HeadwaterError) as caught:
        do()
    return caught.value.condition


class Session:
    """Its settings, ``names``, the entries of its catalog, and ``begun``, the commits that its last statement began."""

    def __init__(self, names: dict[str, CreatedTable] | None = None, **confs: str) -> None:
        self.confs = {name.replace("_", "."): value for name, value in confs.items()}
        self.names = {} if names is None else names
        self.begun: list[Any] = []

    def run(self, do: Callable[..., Any], *args: Any) -> Any:
        """A statement: ``do`` with these arguments and the statement as the last one."""
        statement = RecordingStatement(self.confs)
        statement.names = self.names
        try:
            return do(*args, statement)
        finally:
            self.confs = dict(statement.confs)
            self.begun = statement.begun

    def begin(self, isolation: str | None = None, *, script: bool = False) -> Any:
        return self.run(
            begin_transaction, TransactionRequest(arguments=TransactionArguments(isolation=isolation, script=script))
        )

    def commit(self, *, script: bool = False) -> Any:
        return self.run(commit_transaction, TransactionRequest(arguments=TransactionArguments(script=script)))

    def rollback(self) -> Any:
        return self.run(rollback_transaction, TransactionRequest(arguments=TransactionArguments()))

    def change_process(self) -> None:
        """Another handler runs its statements from now on, which knows nothing of what the last one had in memory."""
        known = self.run(open_transactions.known)
        if known is not None:
            open_transactions.end(known)

    def files(self, path: Any) -> set[str]:
        return set(self.run(open_snapshot, str(path)).files["path"].to_pylist())

    def insert(self, path: str, *names: str) -> Committed:
        """A statement that adds files and reads nothing."""

        def insert(statement: Any) -> Any:
            txn = transaction(path, statement, open_snapshot(path, statement))
            txn.add([add_file(name) for name in names])
            return commit(txn, statement, Provenance("WRITE", {}, {"numFiles": len(names)}))

        return self.run(insert)

    def replace(self, path: str, old: str, *new: str, changes: Sequence[str] = ()) -> Committed:
        """A statement that reads all rows, and rewrites those of a file.

        :param changes: the change data files that it writes.
        """

        def rewrite(statement: Any) -> Any:
            snapshot = open_snapshot(path, statement)
            txn = transaction(path, statement, snapshot)
            txn.read_whole_table()
            rows = snapshot.files
            txn.remove(removals(rows.filter([name == old for name in rows["path"].to_pylist()])))
            txn.add([add_file(name) for name in new])
            for name in changes:
                txn.add_action(AddCDCFile(name, {}, 1))
            return commit(txn, statement, Provenance("UPDATE", {}, {"numFiles": len(new)}))

        return self.run(rewrite)
