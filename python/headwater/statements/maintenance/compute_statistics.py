"""ANALYZE TABLE … COMPUTE DELTA STATISTICS: computes the statistics of a table's files again.

Owns where they come from, Parquet footers where these say enough and else one query; and the commit that adds the files
again with them. Follows the protocol's chapter "Per-file Statistics". Promises: no row changes, and files whose
statistics are right already are not added again. A file with a deletion vector keeps bounds of all its rows, deleted
ones included. A writer that removed or marked a file meanwhile is no reason to fail: the statement runs again, and
reads only the footers that it has not read.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from json.encoder import encode_basestring as _quoted
from typing import Any

import pyarrow as pa

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.define import CommitAnswer
from headwater.bridge.messages.maintain import AnalyzeTableRequest
from headwater.bridge.statement import Statement
from headwater.log.files import file_of
from headwater.log.snapshot import Snapshot
from headwater.log.statistics.from_footers import FooterStatistics, Values, statistics_of
from headwater.log.statistics.writing import STRING_PREFIX_LENGTH, statistics_json
from headwater.protocol.actions import AddFile
from headwater.protocol.columns import Leaf, Path, find_path, format_name, leaves
from headwater.protocol.indexed_columns import has_bounds
from headwater.protocol.partition_values import parse_timestamp
from headwater.protocol.types import DataType, DecimalType, PrimitiveType
from headwater.sql.composing import Alias, Cast, Column, Expression, Field, Number, call, select
from headwater.statements.calls import own_statement
from headwater.statements.files.data_footers import data_footer
from headwater.statements.files.file_lists import file_list, relation_over
from headwater.statements.files.rows import Target, statistics_leaves
from headwater.statements.running.committing import commit, transaction
from headwater.statements.running.opening import open_snapshot
from headwater.statements.running.rerunning import run_again_after_losses
from headwater.stores import absolute_path
from headwater.stores.interface import in_parallel
from headwater.transaction.commit_info import Provenance

#: Footers that are read between two looks whether the statement was cancelled.
_AT_ONCE = 512
#: More characters of a text than :func:`statistics_json` looks at.
_LONGEST_TEXT = 2 * STRING_PREFIX_LENGTH + 2
_STRING = PrimitiveType("string")


@own_statement("analyze", output=None, commits=True, in_transaction=False, words="ANALYZE TABLE")
def analyze_table(request: AnalyzeTableRequest, statement: Statement) -> CommitAnswer:
    """Compute the statistics of a table's files again; no commit where all are right already.

    :raises HeadwaterError: ``DELTA_COLUMN_NOT_FOUND_IN_SCHEMA``, ``HEADWATER_COLUMN_WITHOUT_STATISTICS``,
        ``DELTA_FILE_NOT_FOUND_DETAILED``, ``HEADWATER_DATA_FILE_DAMAGED``, those of a commit.
    """
    attempts = _Attempts(request, statement)
    return run_again_after_losses(request.table, statement, attempts.run, waits_for_others=False)


class _Attempts:
    """The attempts of one statement. What a footer said counts for the next, as files never change."""

    def __init__(self, request: AnalyzeTableRequest, statement: Statement) -> None:
        self._request, self._statement = request, statement
        self._known: dict[str, FooterStatistics] = {}
        self._columns: list[Leaf] = []

    def run(self) -> CommitAnswer:
        statement = self._statement
        snapshot = open_snapshot(self._request.table, statement)
        txn = transaction(self._request.table, statement, snapshot)
        columns = self._chosen(snapshot)
        if columns != self._columns:
            self._columns, self._known = columns, {}
        files = snapshot.files
        self._read_footers(snapshot, files)
        self._query_others(snapshot, files)
        changed = [file for row in files.to_pylist() if (file := self._with_statistics(row)) is not None]
        if not changed:
            return CommitAnswer(version=snapshot.version)
        txn.add_again(changed)
        # All files of the table, as the history of other engines spells it.
        return commit(txn, statement, Provenance("COMPUTE STATS", {"predicate": ["true"]}))

    def _chosen(self, snapshot: Snapshot) -> list[Leaf]:
        """The columns with statistics, those of FOR COLUMNS where the statement has it."""
        target = Target(snapshot.table_path, snapshot.definition)
        kept = {path for path, _ in statistics_leaves(target)}
        columns = [leaf for leaf in leaves(snapshot.schema) if leaf.physical_path in kept]
        named = self._request.arguments.columns
        if named is None:
            return columns
        chosen = [_below(snapshot, columns, tuple(path), self._request.name) for path in named]
        return [leaf for leaf in columns if any(leaf in some for some in chosen)]

    def _read_footers(self, snapshot: Snapshot, files: pa.Table) -> None:
        rows = [row for row in files.select(["path", "size"]).to_pylist() if row["path"] not in self._known]
        by_id = snapshot.definition.mapping_mode == "id"

        def read(row: Mapping[str, Any]) -> FooterStatistics:
            footer = data_footer(snapshot, row["path"], row["size"])
            return statistics_of(footer, self._columns, by_id=by_id)

        for start in range(0, len(rows), _AT_ONCE):
            self._statement.check_cancelled()
            some = rows[start : start + _AT_ONCE]
            # Only on this statement's thread do calls over the bridge end when it is cancelled.
            found = in_parallel(read, some) if snapshot.store.is_shared else [read(row) for row in some]
            self._known.update(zip((row["path"] for row in some), found, strict=True))

    def _query_others(self, snapshot: Snapshot, files: pa.Table) -> None:
        """Find what footers leave open by one query over their files."""
        lacking = pa.array([None in self._known[path].values for path in files["path"].to_pylist()], pa.bool_())
        files = files.filter(lacking)
        if not files.num_rows:
            return
        # Without their vectors: the bounds are of all rows of a file.
        position = files.schema.get_field_index("deletion_vector")
        field = files.schema.field(position)
        every_row = files.set_column(position, field, pa.nulls(files.num_rows, field.type))
        paths = files["path"].to_pylist()
        open_columns = [
            number for number in range(len(self._columns)) if any(self._known[p].values[number] is None for p in paths)
        ]
        by_file = dict(zip(file_list(snapshot, files)["path"].to_pylist(), paths, strict=True))
        rows = relation_over(self._statement, snapshot, every_row)
        values = [Alias(Field(self._columns[number].path), f"c{number}") for number in open_columns]
        query = select(
            Column("file"),
            *(each for number in open_columns for each in _aggregates(number, self._columns[number].type)),
            rows=select(Alias(call("input_file_name"), "file"), *values, rows=rows),
            group_by=[Column("file")],
        )
        self._statement.step(f"compute the statistics of {len(paths)} files")
        answers = self._statement.query(query.text())
        # Spark gives a path as a URI.
        found = {by_file[absolute_path(snapshot.table_path, str(answer["file"]))]: answer for answer in answers}
        for path in paths:
            known = self._known[path]
            merged: list[Values | None] = list(known.values)
            for number in open_columns:
                if merged[number] is None:
                    merged[number] = _values(found.get(path), number, self._columns[number].type, known.rows)
            self._known[path] = FooterStatistics(known.rows, merged)

    def _with_statistics(self, row: Mapping[str, Any]) -> AddFile | None:
        """A file with its statistics; None if it has them already."""
        known = self._known[row["path"]]
        before = _parsed(row["stats"])
        columns = [(leaf.physical_path, leaf.type) for leaf in self._columns]
        tight = None if row["deletion_vector"] is None else False
        values = [each or (None, None, None) for each in known.values]
        text = statistics_json(known.rows, columns, values, tight_bounds=tight)
        stats = _parsed(text)
        if self._request.arguments.columns is not None:
            paths = [path for path, _ in columns]
            stats = {name: _merged(before.get(name), value, paths) for name, value in stats.items()}
            text = _json(stats)
        return None if stats == before else dataclasses.replace(file_of(row), stats=text)


def _below(snapshot: Snapshot, columns: Sequence[Leaf], path: Path, table: str) -> list[Leaf]:
    """The columns with statistics that a name stands for: of a struct, all of its leaves."""
    field = find_path(snapshot.schema, path)
    if field is None:
        raise HeadwaterError(
            "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA", {"columnName": format_name(path), "schema": snapshot.schema.sql()}
        )
    folded = tuple(name.lower() for name in path)
    found = [leaf for leaf in columns if tuple(name.lower() for name in leaf.path[: len(path)]) == folded]
    if not found:
        raise HeadwaterError(
            "HEADWATER_COLUMN_WITHOUT_STATISTICS", {"columnName": format_name(path), "tableName": table}
        )
    return found


def _aggregates(number: int, kind: DataType) -> list[Expression]:
    """Minimum, maximum and count of a column, whole numbers or text each."""
    column = Column(f"c{number}")
    found: list[Expression] = [Alias(call("count", column), f"count{number}")]
    if has_bounds(kind):
        found += [
            Alias(_spelled(call("min", column), kind), f"min{number}"),
            Alias(_spelled(call("max", column), kind), f"max{number}"),
        ]
    return found


def _spelled(value: Expression, kind: DataType) -> Expression:
    if kind == _STRING:
        return call("substring", value, Number(1), Number(_LONGEST_TEXT))
    if kind == PrimitiveType("timestamp"):
        value = call("unix_micros", value)
    if kind == PrimitiveType("date"):
        value = call("unix_date", value)
    return Cast(value, _STRING)


def _values(answer: Mapping[str, Any] | None, number: int, kind: DataType, rows: int) -> Values:
    """The values of a file's column in the answer of the query; a file without rows has no answer."""
    if answer is None:
        return None, None, rows
    low, high = (_value(answer.get(f"{bound}{number}"), kind) for bound in ("min", "max"))
    return low, high, rows - int(answer[f"count{number}"])


def _value(text: str | None, kind: DataType) -> Any:
    if text is None or kind == _STRING or isinstance(kind, DecimalType):
        return text
    if kind in (PrimitiveType("float"), PrimitiveType("double")):
        return text if "Infinity" in text else float(text)
    if kind == PrimitiveType("timestamp_ntz"):
        return parse_timestamp(text, None)
    return int(text)


class _Number(Decimal):
    """A number of a JSON text: of the exact value, which a floating number may not hold, and spelled as it was."""

    text: str

    def __new__(cls, text: str) -> _Number:
        number = super().__new__(cls, text)
        number.text = text
        return number


def _parsed(stats: str | None) -> dict[str, Any]:
    try:
        found = json.loads(stats or "{}", parse_float=_Number)
    except (ValueError, RecursionError, ArithmeticError):
        return {}
    return found if isinstance(found, dict) else {}


def _json(value: Any) -> str:
    """The text of what :func:`_parsed` gives."""
    match value:
        case dict():
            return f"{{{','.join(f'{_quoted(name)}:{_json(inner)}' for name, inner in value.items())}}}"
        case list():
            return f"[{','.join(map(_json, value))}]"
        case _Number():
            return value.text
    return json.dumps(value, ensure_ascii=False)


def _merged(before: Any, now: Any, paths: Sequence[Path]) -> Any:
    """Statistics of a kind in which the columns of some paths are replaced."""
    if not isinstance(now, dict):
        return now
    result = _copied(before) if isinstance(before, dict) else {}
    for path in paths:
        _put(result, path, _at(now, path))
    return result


def _copied(tree: Any) -> Any:
    return {name: _copied(inner) for name, inner in tree.items()} if isinstance(tree, dict) else tree


def _at(tree: Any, path: Path) -> Any:
    for name in path:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree


def _put(tree: dict[str, Any], path: Path, value: Any) -> None:
    for name in path[:-1]:
        if not isinstance(tree.get(name), dict):
            if value is None:
                return
            tree[name] = {}
        tree = tree[name]
    if value is None:
        tree.pop(path[-1], None)
    else:
        tree[path[-1]] = value
