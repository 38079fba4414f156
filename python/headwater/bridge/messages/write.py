"""Messages of writing rows: INSERT, ``DataFrame.write``, ``writeTo``, saves by path; and of INSERT … REPLACE."""

from __future__ import annotations

from headwater.bridge.messages import Answer, Int, Options, Request
from headwater.bridge.messages.change import ChangeRequest
from headwater.bridge.messages.read import TableDescription


class PlanSaveRequest(Request, kw_only=True):
    """Asks what ``save(path)`` does to the table at the path.

    :param mode: Spark's save mode: ``Append``, ``Overwrite``, ``ErrorIfExists`` or ``Ignore``.
    :param options: the writer's options.
    """

    table: str
    mode: str
    partition_columns: list[str]
    options: Options


class SavePlan(Answer, kw_only=True):
    """What a save does.

    :param action: ``create`` (call ``create_table``), ``write`` (call ``write``) or ``skip``.
    :param mode: for ``create``: the mode of ``create_table``.
    :param write: for ``write``: the mode of ``write``, or ``replace`` (call ``replace_target`` and ``replace``).
    """

    action: str
    mode: str | None = None
    write: str | None = None


class ResolveWriteRequest(Request, kw_only=True):
    """Asks which columns a write must bring.

    :param version: the version the write was analysed against.
    :param schema: the columns the rows have.
    :param by_name: whether columns are matched by name, not by position.
    :param mode: ``append``, ``overwrite`` or ``dynamic``, as of :class:`WriteRequest`.
    :param is_sql: whether the write is a statement of SQL, not of the DataFrame API.
    :param replace_where: as of :class:`WriteRequest`.
    :param options: the writer's options.
    """

    table: str
    name: str | None = None
    version: int
    schema: str
    by_name: bool
    is_sql: bool = False
    mode: str = "append"
    replace_where: str | None = None
    options: Options


class ResolvedWrite(Answer, kw_only=True):
    """The columns a write must bring, in the table's order."""

    schema: str


class WriteRequest(Request, kw_only=True):
    """Writes rows that have the table's columns.

    :param version: the version the write was analysed against.
    :param table_id: the id the table had then.
    :param plan: the number of the plan that has the rows.
    :param schema: the columns of the rows.
    :param mode: ``append``; ``overwrite``, of all rows or those of ``replace_where``; ``dynamic``, of the partitions
        that get rows.
    :param replace_where: the rows an INSERT … REPLACE WHERE or ``overwrite(condition)`` replaces, as SQL.
    :param reads_table: whether the rows are computed from the table's newest version.
    :param rows_are_fixed: whether there are rows among them whose origin is not known, such as those of a checkpoint:
        computed again, they are the same.
    :param options: the writer's options; a user may give ``replaceWhere`` among them.
    """

    table: str
    name: str | None = None
    version: int | None = None
    table_id: str | None = None
    plan: Int
    schema: str
    mode: str = "append"
    replace_where: str | None = None
    reads_table: bool = False
    rows_are_fixed: bool = False
    options: Options


class ReplaceTargetRequest(Request, kw_only=True):
    """Asks what an INSERT … REPLACE USING or ON is resolved against.

    :param version: the version the statement was analysed against.
    :param table_id: the id the table had then.
    :param source: the columns of the rows to insert, as the user named them.
    :param by_name: whether columns are matched by name, not by position.
    :param using: the columns of REPLACE USING, where the statement's text has them.
    :param has_condition: whether the statement's text has the condition of REPLACE ON.
    :param is_sql: whether the statement is SQL.
    :param options: the writer's options; ``replaceUsing``, ``replaceOn`` and ``targetAlias`` among them.
    """

    table: str
    name: str
    version: int
    table_id: str
    source: str
    by_name: bool
    using: list[str]
    has_condition: bool
    is_sql: bool = False
    options: Options


class ReplaceTargetAnswer(Answer, kw_only=True):
    """What an INSERT … REPLACE is resolved against.

    :param target: the table with the columns the rows bring; None if they bring none.
    :param columns: the columns the rows must have, in the table's order.
    :param using: the columns of REPLACE USING as the user wrote them; empty for REPLACE ON.
    :param target_keys: the positions of these columns in the table, and ``source_keys`` in the rows.
    :param condition: the condition of the option ``replaceOn``, as SQL.
    :param alias: the table's name in it, of the option ``targetAlias``.
    :param stored_otherwise: the positions, in the rows, of columns whose values a condition sees as ``stored_as``, an
        expression over the only column that it names.
    """

    target: TableDescription | None
    columns: str
    using: list[str]
    target_keys: list[Int]
    source_keys: list[Int]
    condition: str | None
    alias: str | None
    stored_otherwise: list[Int]
    stored_as: str


class ReplaceRequest(Request, kw_only=True):
    """Inserts rows and deletes the rows of the table for which a condition is true with one of them.

    :param change: the statement: the source's rows, a DELETE of rows that match one, an INSERT of all of them.
    :param using: as of :class:`ReplaceTargetAnswer`.
    :param condition: the condition of REPLACE ON, as the user wrote it.
    :param options: the writer's options.
    """

    change: ChangeRequest
    using: list[str]
    condition: str | None
    options: Options
