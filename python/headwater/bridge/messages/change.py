"""Messages of changing rows: DELETE, UPDATE, MERGE and their EXPLAIN, TRUNCATE.

Plans and expressions that Spark has resolved stay in the JVM. They are known by numbers, which stand in a rewrite as
``hw_plan.`n` `` and ``hw_expr.`n` ``.
"""

from __future__ import annotations

from typing import Any

from headwater.bridge.messages import Answer, Int, Request
from headwater.bridge.messages.read import TableDescription


class KeyEquality(Request, kw_only=True):
    """A column of the target that equals an expression over the source.

    :param value: the number of the expression; ``type``: JSON of its type.
    """

    column: str
    value: Int
    type: str


class Conjunct(Request, kw_only=True):
    """A part of the condition of a statement or clause. Of a part that is neither of the two, nothing is known.

    :param target: a conjunct over a row of the target alone, JSON of :mod:`headwater.pruning.predicates`.
    :param key: an equality of a key, in the condition of a MERGE.
    """

    target: dict[str, Any] | None = None
    key: KeyEquality | None = None


class ChangeClause(Request, kw_only=True):
    """A clause of a MERGE, or the one clause that an UPDATE is.

    :param kind: ``update``, ``delete`` or ``insert``.
    :param condition: the number of its condition; None if it has none.
    :param condition_text: the condition as the user wrote it, for the table's history.
    :param values: the numbers of the new values, one for each column of the target; none for a delete.
    :param assigned: the columns that the statement gave a value.
    :param conjuncts: the condition's parts, if the clause is for rows of the target that no row of the source matches.
    """

    kind: str
    condition: Int | None = None
    condition_text: str | None = None
    values: list[Int] = []
    assigned: list[str] = []
    conjuncts: list[Conjunct] = []


class ChangeRequest(Request, kw_only=True):
    """A DELETE, UPDATE or MERGE.

    :param table: the target's path.
    :param name: its name, for people.
    :param version: the version the statement was analysed against.
    :param table_id: the id the table had then.
    :param table_schema: the target's columns as the log has them, new columns of a MERGE included.
    :param target: the number of the target's relation.
    :param columns: the numbers of its columns, in the table's order.
    :param source: the number of the source's relation; None if the statement has no source.
    :param source_columns: the numbers of the source's columns; ``source_names``: their names.
    :param source_deterministic: whether the source has the same rows whenever it is read.
    :param source_bytes: the source's size by Spark's estimate, before it is optimised, but at least what the rows take
        that the source may multiply to.
    :param source_is_scan: whether the source only reads files, so that reading it again costs little.
    :param condition: the number of the condition; None if it has no condition.
    :param condition_deterministic: whether it is true for the same rows whenever it is evaluated.
    :param condition_text: the condition as the user wrote it.
    :param condition_columns: the target's columns that it is about.
    :param conjuncts: the condition's parts.
    :param runs_python: whether there are Python functions, which Spark runs for every row, before any condition.
    :param reads_target_elsewhere: whether the source or a subquery also reads the target.
    """

    table: str
    name: str
    version: int
    table_id: str
    table_schema: str
    target: Int
    columns: list[Int]
    source: Int | None
    source_columns: list[Int]
    source_names: list[str]
    source_deterministic: bool
    source_bytes: int | None
    source_is_scan: bool
    condition: Int | None
    condition_deterministic: bool
    condition_text: str | None
    condition_columns: list[str]
    conjuncts: list[Conjunct]
    runs_python: bool
    reads_target_elsewhere: bool
    matched: list[ChangeClause]
    not_matched: list[ChangeClause]
    not_matched_by_source: list[ChangeClause]


class ExplainRequest(Request, kw_only=True):
    """EXPLAIN of a statement that changes rows. The answer is ``str``.

    :param statement: ``delete``, ``update`` or ``merge``.
    :param mode: the mode of EXPLAIN, as Spark names it.
    """

    statement: str
    mode: str
    change: ChangeRequest


class MergeTargetRequest(Request, kw_only=True):
    """Asks which columns the target of a MERGE will have.

    :param source: the source's columns.
    :param star: whether a clause is UPDATE SET * or INSERT *.
    :param assigned: the columns and fields that matched and new rows are given, as paths of names: the target's, or the
        source's where the target has none of the name.
    """

    table: str
    version: int
    table_id: str | None = None
    with_schema_evolution: bool
    source: str
    star: bool
    assigned: list[list[str]]


class MergeTargetAnswer(Answer, kw_only=True):
    """What a MERGE is resolved against.

    :param target: the target with the columns the statement brings; None if it brings none.
    :param computed: the columns, in lower case, that the table fills in where the source lacks them.
    :param evolves: whether the statement may add columns; ``*`` then stands for the source's columns, not the target's.
    """

    target: TableDescription | None
    computed: list[str]
    evolves: bool


class TruncateRequest(Request, kw_only=True):
    """TRUNCATE TABLE."""

    table: str
