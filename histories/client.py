"""A client: ``python -m histories.client PLAN NAME NUMBER`` runs statements until a file says stop, and writes its ops.

Owns what clients ask for: single statements, queries, transactions over several tables, micro-batches of a stream that
are tried again after a crash, compaction. The plan is a file of JSON (:class:`Plan`). The process forks another that
does the work, whose id is in the file ``pid-NAME``, and forks the next one if that is killed: to start one from nothing
takes seconds. A client called ``last`` reads all tables and ends. One called ``delta-rs`` appends with that engine, one
called ``peer`` with Delta Lake's own connector, and one called ``spark`` runs SQL (:mod:`histories.sql`).

Keys and lists are young: which keys are in use changes every :data:`_GENERATION_SECONDS`, so that lists stay short and
each is written by several clients.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from histories.history import MicroOp, Op, TableFacts, encode

_GENERATION_SECONDS = 2.0
_KEYS_PER_GENERATION = 4
#: Ids of rows that MERGE and upserts change, the same of all clients; others are a client's own and above these.
_MERGED_IDS = 3
#: Elements and ids that one process may use, and processes that one client may be, one after the other.
_PER_PROCESS, _MOST_LIVES = 1_000_000, 10_000
#: The most rows that an INSERT has, and the most keys that a statement is about.
_MOST_ROWS = 3
#: How often a statement of a transaction is one of these.
_IN_TRANSACTIONS = {"append": 5, "read": 6, "insert": 3, "scan": 2, "delete": 1, "touch": 1, "merge": 2, "replace": 1}
#: How often, of 1, a serializable transaction reads one of two lists and appends to the other.
_SKEWED = 0.4
#: Seconds that it takes between its statements at most, so that it meets another one.
_LONGEST_THOUGHT = 0.4
#: How often, of 1, a micro-batch that was committed is tried once more.
_REPEATED = 0.3
#: How often a table is read at the end, until an answer comes: without one, the history is refused.
_LAST_TRIES = 10
#: The clients that are other engines: delta-rs, and Delta Lake's own connector.
FOREIGN = ("delta-rs", "peer")
#: Statements about one row by key and id, which several clients are about.
_BY_ID = ("merge", "replace")
#: Errors after which a commit may stand.
_UNKNOWN = ("OUTCOME_UNKNOWN", "HEADWATER_TRANSACTION_NOT_UNDONE")


class Plan(msgspec.Struct, kw_only=True):
    """What all clients of a run are to do.

    :param folder: where they find ``stop``, and write their ops.
    :param paths: of the tables, by name.
    :param began: of the run, in nanoseconds of the monotonic clock.
    :param patience: seconds after which a transaction's writer that gives no sign of life is given up.
    :param stops: how often a client stops itself before or after a commit or a decision, of 1.
    :param kills: the same, killing itself.
    :param moves_clock: whether each statement is dated by another clock.
    :param gateway: the port of the JVM that reaches stores that are not local.
    :param hadoop: its settings of Hadoop.
    """

    folder: str
    paths: dict[str, str]
    tables: dict[str, TableFacts]
    began: int
    seed: int
    mutate: str | None = None
    patience: float = 1.0
    stops: float = 0.0
    kills: float = 0.0
    moves_clock: bool = False
    gateway: int | None = None
    hadoop: dict[str, str] = {}


class Journal:
    """The ops of one process, a line when each begins and one when it ends."""

    def __init__(self, folder: str, process: int) -> None:
        self._file = open(Path(folder) / f"ops-{process}.jsonl", "ab", buffering=0)  # noqa: SIM115 - as long as it
        self._process, self._number = process, 0

    @contextlib.contextmanager
    def op(self, kind: str, does: list[MicroOp], **more: Any) -> Iterator[Op]:
        """An op; in the block, ``does`` gets the answers. What the block raises says what became of it."""
        self._number += 1
        op = Op(process=self._process, number=self._number, kind=kind, does=does, call=time.monotonic_ns(), **more)
        self._file.write(encode(op))
        try:
            yield op
        except Exception as error:
            name = getattr(error, "condition", None) or type(error).__name__
            op.error = name if hasattr(error, "condition") else f"{name}: {str(error)[:300].splitlines()[0]}"
            # What the package promises of an error, whatever it is: nothing was changed, unless its name says other.
            op.outcome = "unknown" if any(each in name for each in _UNKNOWN) else "failed"
            if not hasattr(error, "condition"):
                traceback.print_exc()
        else:
            op.outcome = "ok"
        op.end = time.monotonic_ns() if op.outcome != "unknown" else None
        self._file.write(encode(op))


class Worker:
    """Draws ops and runs them.

    :param client: a :class:`histories.tables.Client`.
    """

    def __init__(self, plan: Plan, name: str, process: int, client: Any) -> None:
        self._plan, self._name, self._client = plan, name, client
        self._journal = Journal(plan.folder, process)
        self._chance = random.Random(f"{plan.seed} {name} {process}")
        self._next = process * _PER_PROCESS + _MERGED_IDS + 1
        self._lists = [name for name, facts in plan.tables.items() if facts.holds == "lists"]
        self._logs = [name for name, facts in plan.tables.items() if facts.appends_only]
        self._rows = [name for name, facts in plan.tables.items() if facts.holds == "rows" and not facts.appends_only]
        self._batch_file = Path(plan.folder) / f"batch-{name}.json"
        self._kinds: list[tuple[Callable[[], None], int]] = [
            (self._append, 8), (self._query_lists, 4), (self._transaction, 8), (self._insert, 2), (self._stream, 2),
            (self._change_rows, 8), (self._scan, 4), (self._compact, 2),
        ]  # fmt: skip

    def run(self) -> None:
        """Until the file ``stop`` is in the folder."""
        stop = Path(self._plan.folder) / "stop"
        kinds, weights = zip(*self._kinds, strict=True)
        if self._batch_file.exists():
            self._stream()
        while not stop.exists():
            self._chance.choices(kinds, weights)[0]()

    # What is drawn

    def _new(self) -> int:
        self._next += 1
        return self._next

    def _generation(self) -> int:
        return int((time.monotonic_ns() - self._plan.began) / 1e9 / _GENERATION_SECONDS)

    def _keys(self, most: int = 1) -> list[int]:
        generation, count = self._generation(), self._chance.randint(1, most)
        young = range(generation * _KEYS_PER_GENERATION, (generation + 1) * _KEYS_PER_GENERATION)
        return sorted(self._chance.sample(young, count))

    def _table(self, names: list[str]) -> str:
        return self._chance.choice(names)

    # Single statements

    def _append(self) -> None:
        table, keys = self._table(self._lists), self._keys(_MOST_ROWS)
        elements = {key: self._new() for key in keys}
        does: list[MicroOp] = [["append", table, key, element] for key, element in elements.items()]
        with self._journal.op("merge", does):
            self._client.append(table, elements)

    def _query_lists(self) -> None:
        table, keys = self._table(self._lists), self._keys(_KEYS_PER_GENERATION)
        does: list[MicroOp] = [["read", table, key, None] for key in keys]
        with self._journal.op("query", does):
            self._answer(table, keys, does)

    def _answer(self, table: str, keys: list[int], does: list[MicroOp]) -> None:
        rows = self._client.query(table, keys)
        for each in does:
            mine = [row for row in rows if row.k == each[2]]
            if each[0] == "scan":
                each[3] = sorted([row.id, int(row.text)] for row in mine)
            else:
                each[3] = [element for row in mine for element in row.elements]

    def _insert(self) -> None:
        self._insert_into(self._table(self._logs))

    def _insert_into(self, table: str, **more: Any) -> None:
        from histories.tables import Row

        (key,) = self._keys()
        ids = [self._new() for _ in range(self._chance.randint(1, _MOST_ROWS))]
        with self._journal.op("insert", [["insert", table, key, ids]], **more):
            self._client.insert(table, [Row(key, id, "0") for id in ids])

    def _stream(self) -> None:
        """The next micro-batch, or the one that was begun before a crash. Some that were committed are tried again, as
        after a crash right before the checkpoint says so.
        """
        from histories.tables import Row

        application = f"stream-{self._name}"
        if self._batch_file.exists():
            table, key, ids, number = json.loads(self._batch_file.read_text())
            next_one = False
        else:
            done = Path(f"{self._batch_file}.done")
            number = int(done.read_text()) + 1 if done.exists() else 0
            table, (key,), ids = self._table(self._logs), self._keys(), [self._new(), self._new()]
            next_one = True
        if next_one:
            coming = self._batch_file.with_suffix(".coming")
            coming.write_text(json.dumps([table, key, ids, number]))
            coming.rename(self._batch_file)
        batch = (f"{application}-{table}", number)
        with self._journal.op("stream", [["insert", table, key, ids]], batch=batch) as op:
            self._client.insert(table, [Row(key, id, "0") for id in ids], batch)
        if op.outcome == "ok" and self._chance.random() >= _REPEATED:
            Path(f"{self._batch_file}.done").write_text(str(number))
            self._batch_file.unlink()

    def _change_rows(self) -> None:
        table, (key,) = self._table(self._rows), self._keys()
        kind = self._chance.choices(["insert", "delete", "touch", "merge", "replace"], [4, 1, 2, 4, 2])[0]
        if kind == "insert":
            self._insert_into(table)
            return
        id = self._chance.randint(1, _MERGED_IDS)
        does: list[MicroOp] = [[kind, table, key, id if kind in _BY_ID else None]]
        with self._journal.op(kind, does):
            if kind in _BY_ID:
                getattr(self._client, kind)(table, key, id)
            else:
                does[0][3] = (self._client.touch if kind == "touch" else self._client.delete)(table, key)

    def _scan(self) -> None:
        table, keys = self._table([*self._rows, *self._logs]), self._keys(2)
        does: list[MicroOp] = [["scan", table, key, None] for key in keys]
        with self._journal.op("query", does):
            self._answer(table, keys, does)

    def _compact(self) -> None:
        table = self._table(list(self._plan.tables))
        with self._journal.op("optimize", []):
            self._client.compact(table, lambda count: range(max(0, count - self._chance.randint(2, 12)), count))

    # Transactions

    def _transaction(self) -> None:
        isolation = self._chance.choice(["transaction", "serializable"])
        skew = isolation == "serializable" and self._chance.random() < _SKEWED
        does: list[MicroOp] = self._skewed() if skew else []
        for _ in range(0 if skew else self._chance.randint(2, 4)):
            (key,) = self._keys()
            verb = self._chance.choices(list(_IN_TRANSACTIONS), list(_IN_TRANSACTIONS.values()))[0]
            if verb in ("append", "read"):
                table = self._table(self._lists)
            else:  # of rows that others change, a query may see another version than the transaction writes to
                table = self._table(self._logs if verb == "scan" else [*self._logs, *self._rows])
            if table in self._logs and verb not in ("insert", "scan"):
                verb = "insert"
            what = {"append": self._new(), "insert": [self._new()]}
            what |= dict.fromkeys(_BY_ID, self._chance.randint(1, _MERGED_IDS))
            does.append([verb, table, key, what.get(verb)])
        with self._journal.op("transaction", does, isolation=isolation):
            self._client.begin("serializable" if isolation == "serializable" else None)
            try:
                for each in does:
                    self._in_transaction(each)
                    if skew:
                        time.sleep(self._chance.random() * _LONGEST_THOUGHT)
            except BaseException:
                self._client.rollback()
                raise
            self._client.commit()

    def _skewed(self) -> list[MicroOp]:
        """Write skew, if another does the same with both tables changed round: COMMIT must check what was read."""
        read, written = self._chance.sample(self._lists[:2], 2)
        key = self._generation() * _KEYS_PER_GENERATION
        return [["read", read, key, None], ["append", written, key, self._new()]]

    def _in_transaction(self, each: MicroOp) -> None:
        from histories.tables import Row

        verb, table, key, what = each
        if verb == "append":
            self._client.append(table, {key: what})
        elif verb == "insert":
            self._client.insert(table, [Row(key, id, "0") for id in what])
        elif verb in _BY_ID:
            getattr(self._client, verb)(table, key, what)
        elif verb in ("delete", "touch"):
            each[3] = (self._client.touch if verb == "touch" else self._client.delete)(table, key)
        else:
            self._answer(table, [key], [each])

    # The end

    def read_all(self) -> None:
        """A query of each table, of all keys that any op was about."""
        for table, facts in self._plan.tables.items():
            keys = sorted({each[2] for op in self._all_ops() for each in op.does if each[1] == table})
            verb = "read" if facts.holds == "lists" else "scan"
            for _ in range(_LAST_TRIES):  # a network that is disturbed may lose a query
                does: list[MicroOp] = [[verb, table, key, None] for key in keys]
                with self._journal.op("query", does, is_last=True) as op:
                    self._answer(table, keys, does)
                if op.outcome == "ok":
                    break

    def _all_ops(self) -> Iterator[Op]:
        from histories.history import read_ops

        for file in sorted(Path(self._plan.folder).glob("ops-*.jsonl")):
            yield from read_ops(file)


class Foreign:
    """Appends with another engine, which knows nothing of transactions over several tables."""

    def __init__(self, plan: Plan, name: str, process: int) -> None:
        self._plan = plan
        self._journal = Journal(plan.folder, process)
        self._chance = random.Random(f"{plan.seed} {name} {process}")
        self._next = process * _PER_PROCESS + _MERGED_IDS + 1
        self._tables = [name for name, facts in plan.tables.items() if facts.appends_only]
        self._name, self._insert = name, _delta_rs() if name.startswith("delta-rs") else _peer(plan, process)

    def run(self) -> None:
        """Until the file ``stop`` is in the folder."""
        while not (Path(self._plan.folder) / "stop").exists():
            table = self._chance.choice(self._tables)
            generation = int((time.monotonic_ns() - self._plan.began) / 1e9 / _GENERATION_SECONDS)
            key, self._next = generation * _KEYS_PER_GENERATION, self._next + 1
            does: list[MicroOp] = [["insert", table, key, [self._next]]]
            with self._journal.op(f"{self._name} insert", does, is_foreign=True) as op:
                self._insert(self._plan.paths[table], key, self._next)
            if op.outcome == "failed" and "CommitFailed" not in str(op.error):
                op.outcome = "unknown"
            time.sleep(self._chance.random() * 0.5)


def _delta_rs() -> Callable[[str, int, int], None]:
    import deltalake
    import pyarrow as pa

    def insert(path: str, key: int, id: int) -> None:
        deltalake.write_deltalake(path, pa.table({"k": [key], "id": [id], "text": ["0"]}), mode="append")

    return insert


def _peer(plan: Plan, process: int) -> Callable[[str, int, int], None]:
    from histories.sql import peer

    session = peer(plan, process)
    return lambda path, key, id: session.sql(f"INSERT INTO delta.`{path}` VALUES ({key}L, {id}L, '0')").collect()


def main(plan_file: str, name: str, number: str) -> None:
    """Run a client: one process after the other, until one ends that was not killed."""
    plan = msgspec.json.decode(Path(plan_file).read_bytes(), type=Plan)
    _import_all(name)
    for life in range(_MOST_LIVES):
        pid = os.fork()
        if pid == 0:
            _live(plan, name, int(number) * _MOST_LIVES + life)
        _, status = os.waitpid(pid, 0)
        if not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL):
            sys.exit(os.waitstatus_to_exitcode(status))


def _import_all(name: str) -> None:
    """What a fork need not import again. Nothing of it starts a thread."""
    if name.startswith("delta-rs"):
        import deltalake  # noqa: F401
    else:
        from histories import faults, mutations, tables  # noqa: F401


def _live(plan: Plan, name: str, process: int) -> None:
    """The work of one process, which ends with it."""
    own = Path(plan.folder) / f"pid-{name}"
    own.with_suffix(".coming").write_text(str(os.getpid()))
    own.with_suffix(".coming").rename(own)
    try:
        _work(plan, name, process)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)  # without waiting for post-commit maintenance


def _work(plan: Plan, name: str, process: int) -> None:
    if name in FOREIGN:
        Foreign(plan, name, process).run()
        return
    if name == "spark":
        from histories import sql

        sql.run(plan, process, lambda thread, client: Worker(plan, f"spark{thread}", process + thread, client).run())
        return
    from histories import faults, mutations
    from histories.tables import Client

    logging.disable(logging.WARNING)  # of lost races, and of settings that only Spark's side knows
    if plan.mutate is not None and name != "last":
        mutations.apply(plan.mutate)
    faults.prepare(plan, name, random.Random(f"faults {plan.seed} {name} {process}"), quiet=name == "last")
    worker = Worker(plan, name, process, Client(plan.paths, plan.tables))
    if name == "last":
        worker.read_all()
    else:
        worker.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
