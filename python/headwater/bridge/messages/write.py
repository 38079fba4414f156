"""Messages of writing rows: INSERT, ``DataFrame.write``, ``writeTo``, saves by path."""

from __future__ import annotations

from headwater.bridge.messages import Answer, Request


class PlanSaveRequest(Request, kw_only=True):
    """Asks what ``save(path)`` does to the table at the path.

    :param mode: Spark's save mode: ``Append``, ``Overwrite``, ``ErrorIfExists`` or ``Ignore``.
    :param options: the writer's options; those set to None mean nothing.
    """

    table: str
    mode: str
    partition_columns: list[str]
    options: dict[str, str | None]


class SavePlan(Answer, kw_only=True):
    """What a save does.

    :param action: ``create`` (call ``create_table``), ``write`` (call ``write``) or ``skip``.
    :param mode: for ``create``: the mode of ``create_table``.
    :param write: for ``write``: the mode of ``write``.
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
    :param replace_where: as of :class:`WriteRequest`.
    :param options: the writer's options; those set to None mean nothing.
    """

    table: str
    name: str | None = None
    version: int
    schema: str
    by_name: bool
    mode: str = "append"
    replace_where: str | None = None
    options: dict[str, str | None]


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
    :param options: the writer's options; ``replaceWhere`` among them is a user's, too.
    """

    table: str
    name: str | None = None
    version: int | None = None
    table_id: str | None = None
    plan: int
    schema: str
    mode: str = "append"
    replace_where: str | None = None
    options: dict[str, str | None]
