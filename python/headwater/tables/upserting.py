"""The writer options of :meth:`DeltaTable.upsert <headwater.tables.table.DeltaTable.upsert>`."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.tables.errors import check_type
from headwater.tables.names import quote


def upsert_options(
    keys: Sequence[str],
    *,
    sequence: str | None,
    deletes: str | None,
    ignores_nulls: bool,
    left_out: Sequence[str],
    stored_as: str,
    retention: str | None,
    merges_schema: bool,
) -> dict[str, str]:
    """The options by name; parameters are those of the method, in its order.

    :raises TypeError: an argument is of another type.
    """
    texts = {"sequenceBy": sequence, "deleteWhen": deletes, "storedAs": stored_as, "tombstoneRetention": retention}
    options = {}
    for name, text in texts.items():
        if text is not None:
            check_type(name, text, str, "a string")
            options[name] = text
    for name, flag in (("ignoreNullUpdates", ignores_nulls), ("mergeSchema", merges_schema)):
        check_type(name, flag, bool, "a bool")
        if flag:
            options[name] = "true"
    options["idCols"] = _listed("keys", keys)
    if len(left_out):
        options["exceptColumns"] = _listed("exceptColumns", left_out)
    return options


def _listed(name: str, columns: Sequence[str]) -> str:
    what = "a list of column names"
    check_type(name, columns, (list, tuple), what)
    for column in columns:
        check_type(name, column, str, what)
    return ",".join(quote(column) for column in columns)
