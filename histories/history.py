"""Histories: what clients asked for and what they were told, as JSON lines.

Owns the format. The first line is a :class:`Header`, each other line an :class:`Op`. A client writes an op before it
asks, with the outcome ``unknown``, and once more when it has its answer; so an op of a client that was killed is in the
file, and of two lines with the same process and number the last one counts.

A *micro-op* is a list: its verb, the table, the key, and what was written or seen.

| verb | of tables that hold | written or seen |
| --- | --- | --- |
| ``append`` | lists | the element that an UPDATE or a MERGE put at the end of the key's list |
| ``read`` | lists | the key's list as a query saw it; None if there is no answer |
| ``insert`` | rows | the ids of new rows with this key, which no other op inserts |
| ``delete`` | rows | how many rows with this key a DELETE removed; None if there is no answer |
| ``touch`` | rows | how many rows with this key an UPDATE counted up; None if there is no answer |
| ``merge`` | rows | the id that a MERGE counted up, or inserted; several ops may have the same one |
| ``replace`` | rows | the id of the row that an upsert set to 0 or inserted; several ops may have the same one |
| ``scan`` | rows | ``[id, n]`` of each row with this key as a query saw it; None if there is no answer |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

MicroOp = list[Any]


class TableFacts(msgspec.Struct, frozen=True):
    """What a table holds and promises.

    :param holds: a ``lists`` table has one row per key, whose text is a list; a ``rows`` table any number of rows.
    :param level: the property ``delta.isolationLevel``.
    :param vectors: whether deletion vectors are enabled; otherwise files are rewritten.
    :param appends_only: whether nothing is ever changed or deleted.
    """

    holds: Literal["lists", "rows"]
    level: Literal["Serializable", "WriteSerializable"] = "WriteSerializable"
    vectors: bool = True
    appends_only: bool = False


class Header(msgspec.Struct, kw_only=True):
    """How a history was made.

    :param clock: where the times are from; all are in nanoseconds of it.
    """

    tables: dict[str, TableFacts]
    seed: int = 0
    store: str = "local"
    nemesis: list[str] = []
    mutate: str | None = None
    clock: str = "CLOCK_MONOTONIC"


class Op(msgspec.Struct, kw_only=True):
    """A statement or a transaction.

    :param process: a client's own number; one that took over from a killed one has another.
    :param isolation: ``statement``; ``transaction`` or ``serializable`` for what BEGIN TRANSACTION began.
    :param call: nanoseconds, right before it was asked for; ``end`` right after the answer.
    :param outcome: ``failed`` if the client was told that nothing was changed.
    :param error: the condition or the class of the error.
    :param batch: the application and the number of a stream's micro-batch, which may be tried several times.
    :param is_foreign: whether another engine did it, whose commit may be built on one of a transaction that is not
        decided yet: sessions of Headwater see it when that is.
    :param is_last: whether it was run after all others, to see what there is at the end.
    """

    process: int
    number: int
    kind: str
    does: list[MicroOp]
    call: int
    isolation: Literal["statement", "transaction", "serializable"] = "statement"
    end: int | None = None
    outcome: Literal["ok", "failed", "unknown"] = "unknown"
    error: str | None = None
    batch: tuple[str, int] | None = None
    is_foreign: bool = False
    is_last: bool = False

    def __str__(self) -> str:
        does = "; ".join(" ".join(map(str, each)) for each in self.does)
        return f"{self.kind} {self.process}/{self.number} ({self.isolation}, {self.outcome}): {does}"


class History(msgspec.Struct):
    """A header, and ops in the order of their calls."""

    header: Header
    ops: list[Op]


def encode(value: Header | Op) -> bytes:
    """A line."""
    return msgspec.json.encode(value) + b"\n"


def read_ops(path: Path) -> list[Op]:
    """The ops of a client's file, whose last line may be cut off."""
    return [msgspec.json.decode(line, type=Op) for line in path.read_bytes().split(b"\n")[:-1]]


def of_ops(header: Header, ops: Iterable[Op]) -> History:
    """A history of lines in the order in which each process wrote them."""
    last = {(op.process, op.number): op for op in ops}
    return History(header, sorted(_joined(last.values()), key=lambda op: op.call))


def _joined(ops: Iterable[Op]) -> Iterable[Op]:
    """Ops, with the tries of a micro-batch as one: all of them are to have the effect of one."""
    batches: dict[tuple[str, int], list[Op]] = {}
    for op in ops:
        if op.batch is None:
            yield op
        else:
            batches.setdefault(op.batch, []).append(op)
    for tries in batches.values():
        told = next((each for each in tries if each.outcome == "ok"), None)
        open_one = next((each for each in tries if each.outcome == "unknown"), None)
        kept = told or open_one or tries[0]
        yield msgspec.structs.replace(kept, call=min(each.call for each in tries))


def write(path: Path, history: History) -> None:
    """Keep a history as one file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join([encode(history.header), *map(encode, history.ops)]))


def read(path: Path) -> History:
    """A history that was kept.

    :raises msgspec.DecodeError: the file holds something else.
    """
    first, *lines = path.read_bytes().splitlines()
    header = msgspec.json.decode(first, type=Header)
    return of_ops(header, [msgspec.json.decode(line, type=Op) for line in lines])


def changes(op: Op) -> Sequence[MicroOp]:
    """What an op writes."""
    return [each for each in op.does if each[0] not in ("read", "scan")]
