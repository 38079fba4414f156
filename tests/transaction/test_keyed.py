"""Winners of other keys: what of their files concerns a MERGE that knows the keys of its rows."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from headwater.basics.errors import HeadwaterError
from headwater.log import deletion_vectors
from headwater.log.files import vector_of
from headwater.log.snapshot import Snapshot
from headwater.protocol.actions import AddFile, Metadata, Protocol, RemoveFile
from headwater.protocol.types import DecimalType, PrimitiveType, StructField, StructType, parse_type, schema_string
from headwater.pruning.predicates import Column, Comparison, Literal
from headwater.transaction import Provenance, Transaction
from headwater.transaction.keyed import KeyReads, comparable
from headwater.transaction.row_level import Mark
from support.commits import create, newest

_PROTOCOL = Protocol(3, 7, frozenset({"deletionVectors"}), frozenset({"deletionVectors"}))


def table(path: Path, columns: dict[str, str], level: str = "WriteSerializable") -> Snapshot:
    schema = StructType(tuple(StructField(name, parse_type(kind)) for name, kind in columns.items()))
    configuration = {"delta.enableDeletionVectors": "true", "delta.isolationLevel": level}
    definition = Metadata("the-id", schema_string(schema), (), configuration, created_time=1)
    return create(path, protocol=_PROTOCOL, table=definition).snapshot


def data_file(
    snapshot: Snapshot, name: str, columns: dict[str, pa.Array], stats: dict[str, Any] | None = None
) -> AddFile:
    rows = pa.table(columns)
    pq.write_table(rows, f"{snapshot.table_path}/{name}")
    size = os.path.getsize(f"{snapshot.table_path}/{name}")
    return AddFile(name, {}, size, 1, True, json.dumps({"numRecords": rows.num_rows, **(stats or {})}))


def won(snapshot: Snapshot, *actions: AddFile | RemoveFile) -> Snapshot:
    """A commit of another writer, who read something, so that it is no blind append."""
    txn = Transaction(snapshot.table_path, snapshot.store, newest(snapshot))
    txn.read_whole_table()
    for action in actions:
        txn.add_action(action)
    return txn.commit(Provenance("MERGE")).snapshot


def lost(snapshot: Snapshot, names: list[str], keys: Any) -> Transaction:
    """A MERGE that inserts the keys given."""
    txn = Transaction(snapshot.table_path, snapshot.store, snapshot)
    txn.read_keys(KeyReads(snapshot, names, lambda: keys))
    txn.add([AddFile("inserted", {}, 10, 1)])
    return txn


def marked(snapshot: Snapshot, file: AddFile, *positions: int) -> AddFile:
    (vector,) = deletion_vectors.write_file([BitMap64(positions)], snapshot.table_path, snapshot.store)
    return AddFile(file.path, {}, file.size, 1, True, file.stats, deletion_vector=vector)


def removal(file: AddFile) -> RemoveFile:
    return RemoveFile(file.path, 2, True, True, {}, file.size, deletion_vector=file.deletion_vector)


def condition(txn: Transaction) -> str | None:
    try:
        txn.commit(Provenance("MERGE"))
    except HeadwaterError as error:
        return error.condition
    return None


VALUES: dict[str, tuple[pa.Array, Any, Any]] = {
    "byte": (pa.array([1, None, 3], pa.int8()), 3, 2),
    "short": (pa.array([1, None, 3], pa.int16()), 3, 2),
    "integer": (pa.array([1, None, 3], pa.int32()), 3, 2),
    "long": (pa.array([1, None, -(2**63)], pa.int64()), -(2**63), 0),
    # A column that was widened since the file was written.
    "long ": (pa.array([1, None, 3], pa.int32()), 3, 2),
    "string": (pa.array(["a", None, "Ä"]), "Ä", "ä"),
    "string ": (pa.array(["a", None, ""]), "", "A"),
    "decimal(5,2)": (pa.array([Decimal("1.50"), None, Decimal("-3.00")], pa.decimal128(5, 2)), "-3.00", "3.00"),
    "decimal(12,2)": (pa.array([Decimal("1.50"), None, Decimal("3.00")], pa.decimal128(5, 2)), "3.00", "3.01"),
    "date": (pa.array([0, None, 19000], pa.int32()).cast(pa.date32()), 19000, 18999),
    "timestamp": (pa.array([0, None, 5], pa.int64()).cast(pa.timestamp("us", "UTC")), 5, 4),
}


@pytest.mark.parametrize("kind", VALUES)
def test_values_of_every_type_are_compared_exactly(tmp_path, kind):
    held, present, absent = VALUES[kind]
    snapshot = table(tmp_path / "t", {"k": kind.strip()})
    won(snapshot, data_file(snapshot, "f", {"k": held}))
    assert condition(lost(snapshot, ["k"], [(present,)])) == "DELTA_CONCURRENT_APPEND"
    assert condition(lost(snapshot, ["k"], [(absent,)])) is None
    assert condition(lost(snapshot, ["k"], [(absent,), (present,)])) == "DELTA_CONCURRENT_APPEND"
    assert condition(lost(snapshot, ["k"], [])) is None


@pytest.mark.parametrize(
    ("kind", "held", "key"),
    [
        ("date", pa.array([-200_000], pa.int32()).cast(pa.date32()), 1),
        ("timestamp", pa.array([-(2**60)], pa.int64()).cast(pa.timestamp("us", "UTC")), 1),
        ("timestamp", pa.array([5], pa.int64()).cast(pa.timestamp("ns")), 1),
        ("date", pa.array([5], pa.int32()).cast(pa.date32()), -200_000),
        ("long", pa.array(["5"]), 1),
        ("string", pa.array([b"\xff"]), "a"),
    ],
)
def test_values_that_cannot_be_compared_are_a_conflict(tmp_path, kind, held, key):
    snapshot = table(tmp_path / "t", {"k": kind})
    won(snapshot, data_file(snapshot, "f", {"k": held}))
    assert condition(lost(snapshot, ["k"], [(key,)])) == "DELTA_CONCURRENT_APPEND"


def test_what_is_not_known_is_a_conflict(tmp_path):
    snapshot = table(tmp_path / "t", {"k": "long"})
    won(snapshot, AddFile("absent", {}, 10, 1))
    assert condition(lost(snapshot, ["k"], [(1,)])) == "DELTA_CONCURRENT_APPEND"
    snapshot = newest(snapshot)
    won(snapshot, data_file(snapshot, "other", {"j": pa.array([7])}))
    assert condition(lost(snapshot, ["k"], [(1,)])) == "DELTA_CONCURRENT_APPEND"
    snapshot = newest(snapshot)
    won(snapshot, data_file(snapshot, "known", {"k": pa.array([7])}))
    assert condition(lost(snapshot, ["k"], None)) == "DELTA_CONCURRENT_APPEND"


def test_statistics_are_asked_first(tmp_path):
    """A file that is not there is never opened where its bounds leave out every key."""
    snapshot = table(tmp_path / "t", {"k": "long", "s": "string"})
    stats = '{"numRecords":2,"minValues":{"k":10,"s":"b"},"maxValues":{"k":20,"s":"c"}}'
    won(snapshot, AddFile("absent", {}, 10, 1, True, stats))
    assert condition(lost(snapshot, ["k"], [(9,), (21,)])) is None
    snapshot = newest(snapshot)
    won(snapshot, AddFile("absent too", {}, 10, 1, True, stats))
    assert condition(lost(snapshot, ["k"], [(9,), (15,)])) == "DELTA_CONCURRENT_APPEND"
    assert condition(lost(snapshot, ["k", "s"], [(15, "a")])) is None


def test_padded_and_collated_columns_and_other_types_are_not_comparable():
    assert comparable(StructField("k", PrimitiveType("string")))
    assert comparable(StructField("k", DecimalType(3, 1)))
    assert not comparable(StructField("k", PrimitiveType("string"), True, {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}))
    assert not comparable(StructField("k", PrimitiveType("string"), True, {"__COLLATIONS": {"k": "icu.UNICODE_CI"}}))
    for name in ("float", "double", "binary", "timestamp_ntz", "boolean", "variant"):
        assert not comparable(StructField("k", PrimitiveType(name)))
    assert not comparable(StructField("k", StructType(())))


#: How writers spell the maximum of strings: whole, padded after a cut, cut and not padded, cut within a character.
MAXIMA: dict[str, Callable[[str], str]] = {
    "whole": json.dumps,
    "padded": lambda text: json.dumps(text if len(text) <= 8 else text[:8] + "\U0010ffff"),
    "cut off": lambda text: json.dumps(text[:8]),
    "cut off in a pair": lambda text: (
        f'"{json.dumps(text)[1:-1][:42]}"' if text.startswith("😀" * 4) else json.dumps(text)
    ),
}
#: Many are prefixes of others, of the length at which a maximum may be cut off and around it.
TEXTS = [
    "",
    "a",
    "abcdefg",
    "abcdefgh",
    "abcdefghi",
    "abcdefghij",
    "abcdefgi",
    "b",
    "~",
    "😀😀b",
    "😀😀😀",
    "😀😀😀😀b",
    "😀" * 5,
]
SETS_OF_TEXTS = st.sets(st.sampled_from(TEXTS), min_size=1, max_size=4)


@pytest.mark.random
@settings(
    max_examples=int(os.environ.get("HEADWATER_TEST_EXAMPLES", "40")),
    derandomize="HEADWATER_TEST_EXAMPLES" not in os.environ,
    deadline=None,
)
@given(SETS_OF_TEXTS, SETS_OF_TEXTS, st.sampled_from(sorted(MAXIMA)))
def test_strings_are_found_however_their_maximum_is_spelled(tmp_path_factory, held, keys, spelling):
    """A file has one of the keys, or it has not: its statistics change nothing."""
    snapshot = table(tmp_path_factory.mktemp("t") / "t", {"k": "string"})
    file = data_file(snapshot, "f", {"k": pa.array(sorted(held))})
    low, high = min(held, key=str.encode), max(held, key=str.encode)
    bounds = f'"minValues":{{"k":{json.dumps(low[:8])}}},"maxValues":{{"k":{MAXIMA[spelling](high)}}}'
    stats = f'{{"numRecords":{len(held)},{bounds}}}'
    won(snapshot, AddFile(file.path, {}, file.size, 1, True, stats))
    expected = "DELTA_CONCURRENT_APPEND" if held & keys else None
    assert condition(lost(snapshot, ["k"], [(key,) for key in keys])) == expected


KEYS = range(4)
ROWS = st.lists(st.tuples(st.none() | st.sampled_from(KEYS), st.sampled_from("xy")), min_size=1, max_size=4)


class Winners:
    """A table, what is in each of its files, and commits of other writers.

    :param wanted: whether a row has one of the keys of the statement that will lose.
    """

    def __init__(self, path: Path, level: str, wanted: Any) -> None:
        self.snapshot = table(path, {"a": "integer", "b": "string"}, level)
        self.wanted = wanted
        self.content: dict[str, list[Any]] = {}
        self.live: dict[str, AddFile] = {}
        self.gone: dict[str, set[int]] = {}

    def file(self, rows: list[Any], data_change: bool = True) -> AddFile:
        """A new file, with statistics or without."""
        name = f"f{len(self.content)}"
        keys = [a for a, _ in rows if a is not None]
        stats: dict[str, Any] = {}
        if keys and len(rows) % 2:
            texts = [b for _, b in rows]
            stats = {"minValues": {"a": min(keys), "b": min(texts)}, "maxValues": {"a": max(keys), "b": max(texts)}}
        columns = {"a": pa.array([a for a, _ in rows], pa.int32()), "b": pa.array([b for _, b in rows])}
        self.content[name] = rows
        made = data_file(self.snapshot, name, columns, stats)
        return AddFile(name, {}, made.size, 1, data_change, made.stats)

    def put(self, file: AddFile, gone: set[int]) -> AddFile:
        self.live[file.path], self.gone[file.path] = file, gone
        return file

    def with_keys(self) -> set[tuple[str, int]]:
        """The rows with one of the keys, by file and position."""
        return {(path, n) for path, n in self.rows() if self.wanted(self.content[path][n])}

    def rows(self) -> set[tuple[str, int]]:
        return {(path, n) for path in self.live for n in range(len(self.content[path])) if n not in self.gone[path]}

    def remark(self, path: str, gone: set[int]) -> None:
        """Mark these rows of a file, and no others."""
        old = self.live.pop(path)
        plain = AddFile(path, {}, old.size, 1, True, old.stats)
        if len(gone) == len(self.content[path]):
            won(self.snapshot, removal(old))
        else:
            won(self.snapshot, removal(old), self.put(marked(self.snapshot, plain, *gone) if gone else plain, gone))

    def rearrange(self, path: str) -> None:
        """Write the rows of a file into another one."""
        old = self.live.pop(path)
        rows = [row for n, row in enumerate(self.content[path]) if n not in self.gone[path]]
        removed = RemoveFile(path, 2, False, True, {}, old.size, deletion_vector=old.deletion_vector)
        won(self.snapshot, removed, self.put(self.file(rows, False), set()))


def test_rows_that_are_selected_whatever_their_keys_are_a_conflict(tmp_path):
    """As of a clause WHEN NOT MATCHED BY SOURCE: its files are known by their statistics."""
    snapshot = table(tmp_path / "t", {"k": "long", "s": "string"})

    def selecting(snapshot: Snapshot, level: int) -> Transaction:
        txn = lost(snapshot, ["k"], [(level,)])
        txn.read_where([Comparison("=", Column(("s",)), Literal("string", "x"))])
        return txn

    def described(name: str, text: str, k: int) -> AddFile:
        stats = {"minValues": {"s": text}, "maxValues": {"s": text}, "nullCount": {"s": 0}}
        return data_file(snapshot, name, {"k": pa.array([k]), "s": pa.array([text])}, stats)

    won(snapshot, described("other", "y", 1))
    assert condition(selecting(snapshot, 2)) is None
    assert condition(selecting(snapshot, 1)) == "DELTA_CONCURRENT_APPEND"
    snapshot = newest(snapshot)
    won(snapshot, described("selected", "x", 1))
    assert condition(selecting(snapshot, 2)) == "DELTA_CONCURRENT_APPEND"
    assert condition(lost(snapshot, ["k"], [(2,)])) is None
    snapshot = newest(snapshot)
    won(snapshot, data_file(snapshot, "unknown", {"k": pa.array([1]), "s": pa.array(["y"])}))
    assert condition(selecting(snapshot, 2)) == "DELTA_CONCURRENT_APPEND"


@pytest.mark.random
@pytest.mark.parametrize("selecting", [False, True])
@settings(
    max_examples=int(os.environ.get("HEADWATER_TEST_EXAMPLES", "40")),
    derandomize="HEADWATER_TEST_EXAMPLES" not in os.environ,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_a_statement_commits_if_and_only_if_no_row_with_its_keys_changed(tmp_path_factory, selecting, data):
    """Random winners, one after the other; then a statement with random keys, which has marked some rows with these.

    Judged by the rows alone. The statement may also lose where a winner removed a file it marked rows in, or brought
    rows of it back.

    :param selecting: whether it also marks all rows of another value, whatever their keys are. Then it may lose to any
        winner.
    """
    two = data.draw(st.booleans())
    keys = {
        key if two else key[:1] for key in data.draw(st.sets(st.tuples(st.sampled_from(KEYS), st.sampled_from("xy"))))
    }
    level = data.draw(st.sampled_from(["Serializable", "WriteSerializable"]))

    def keyed(row: Any) -> bool:
        return (row if two else row[:1]) in keys

    winners = Winners(
        tmp_path_factory.mktemp("t") / "t", level, lambda row: keyed(row) or (selecting and row[1] == "x")
    )
    won(winners.snapshot, *(winners.put(winners.file(data.draw(ROWS)), set()) for _ in range(2)))
    for path in sorted(winners.live):
        gone = data.draw(st.sets(st.sampled_from(range(len(winners.content[path])))))
        if gone:
            winners.remark(path, gone)

    snapshot = newest(winners.snapshot)
    read = winners.with_keys()
    acted = {(path, n) for path, n in sorted(read) if not keyed(winners.content[path][n]) or data.draw(st.booleans())}
    mine = Transaction(snapshot.table_path, snapshot.store, snapshot)
    mine.read_keys(KeyReads(snapshot, ["a", "b"] if two else ["a"], lambda: keys))
    if selecting:
        mine.read_where([Comparison("=", Column(("b",)), Literal("string", "x"))])
    for path in {path for path, _ in acted}:
        positions = {position for other, position in acted if other == path}
        file, rows, gone = winners.live[path], len(winners.content[path]), winners.gone[path] | positions
        plain = AddFile(path, {}, file.size, 1, True, file.stats)
        add = marked(snapshot, plain, *gone) if len(gone) < rows else None
        mine.mark(Mark(removal(file), add, BitMap64(positions), rows))
    added = winners.file(data.draw(ROWS))
    mine.add([added])

    changed = spoiled = False
    for _ in range(data.draw(st.integers(1, 5))):
        before = winners.with_keys()
        kind = data.draw(st.sampled_from(["add", "mark", "unmark", "replace", "remove", "rearrange"]))
        path = data.draw(st.sampled_from(sorted(winners.live))) if winners.live else ""
        has_marks = path in {other for other, _ in acted}
        if kind == "add" or not path:
            won(winners.snapshot, winners.put(winners.file(data.draw(ROWS)), set()))
        elif kind in ("mark", "unmark"):
            known = winners.gone[path]
            some = data.draw(st.sets(st.sampled_from(range(len(winners.content[path])))))
            after = known | some if kind == "mark" else known - some
            if after == known:
                continue
            spoiled |= has_marks and (kind == "unmark" or len(after) == len(winners.content[path]))
            winners.remark(path, after)
        elif kind == "rearrange":
            spoiled |= has_marks
            winners.rearrange(path)
            continue  # the rows are the same ones, elsewhere
        else:
            spoiled |= has_marks
            actions: list[AddFile | RemoveFile] = [removal(winners.live.pop(path))]
            if kind == "replace":
                actions.append(winners.put(winners.file(data.draw(ROWS)), set()))
            won(winners.snapshot, *actions)
        changed |= winners.with_keys() != before
    found = condition(mine)
    if changed or spoiled:
        assert found is not None
        return
    if selecting and found is not None:
        return
    assert found is None
    expected = Counter(winners.content[path][n] for path, n in read - acted)
    files = {file["path"]: vector_of(file["deletion_vector"]) for file in newest(snapshot).files.to_pylist()}
    shown: Counter[Any] = Counter()
    for path, vector in files.items():
        gone = deletion_vectors.read(vector, snapshot.table_path, snapshot.store) if vector else BitMap64()
        held: Any = winners.content[path]
        if path != added.path:
            shown.update(row for n, row in enumerate(held) if n not in gone and winners.wanted(row))
    assert shown == expected


def claiming(snapshot: Snapshot, keys: Any) -> Transaction:
    """An INSERT that relies on there being no row with the keys."""
    txn = Transaction(snapshot.table_path, snapshot.store, snapshot)
    txn.claim_keys(KeyReads(snapshot, ["k"], lambda: keys))
    txn.add([AddFile("inserted", {}, 10, 1)])
    return txn


def test_a_claimed_key_that_another_writer_added_is_a_conflict(tmp_path):
    """Whatever the isolation level, and also of a blind append; rows that are deleted or moved are no conflict."""
    snapshot = table(tmp_path / "t", {"k": "long"})
    file = data_file(snapshot, "f", {"k": pa.array([1, 2, 3], pa.int64())})
    blind = Transaction(snapshot.table_path, snapshot.store, snapshot)
    blind.add([file])
    blind.commit(Provenance("WRITE"))
    assert condition(claiming(snapshot, [(3,), (9,)])) == "DELTA_CONCURRENT_APPEND"
    assert condition(claiming(snapshot, None)) == "DELTA_CONCURRENT_APPEND"
    assert condition(claiming(snapshot, [(9,)])) is None
    base = newest(snapshot)
    won(base, removal(file), marked(base, file, 1))
    # The row with the key 3 was there before.
    assert condition(claiming(base, [(3,)])) is None
    moved = AddFile("g", {}, os.path.getsize(f"{snapshot.table_path}/f"), 1, False, file.stats)
    os.link(f"{snapshot.table_path}/f", f"{snapshot.table_path}/g")
    base = newest(snapshot)
    won(base, moved)
    assert condition(claiming(base, [(3,)])) is None
    again = newest(base)
    won(again, removal(marked(again, file, 1)), file)  # the deleted row is back
    assert condition(claiming(again, [(3,)])) is None
    assert condition(claiming(again, [(2,)])) == "DELTA_CONCURRENT_APPEND"
