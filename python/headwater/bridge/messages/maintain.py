"""Messages of statements that keep a table in good order: OPTIMIZE, REORG and GENERATE."""

from __future__ import annotations

from headwater.bridge.messages import Request


class OptimizeArguments(Request, kw_only=True):
    """What OPTIMIZE is asked, with or without DRY RUN.

    :param full: whether files that are laid out already are written again.
    :param where: a condition over partition columns, as Spark SQL.
    :param z_order_by: the paths of the columns of ZORDER BY.
    """

    full: bool = False
    where: str | None = None
    z_order_by: list[list[str]] = []


class OptimizeRequest(Request, kw_only=True):
    """OPTIMIZE. ``arguments`` are those that the parser's answer had."""

    table: str
    name: str
    arguments: OptimizeArguments


class OptimizeDryRunRequest(OptimizeRequest, kw_only=True):
    """OPTIMIZE … DRY RUN."""


class ReorgArguments(Request, kw_only=True):
    """What REORG … APPLY (PURGE) is asked.

    :param where: a condition over partition columns, as Spark SQL.
    """

    where: str | None = None


class ReorgRequest(Request, kw_only=True):
    """REORG … APPLY (PURGE). ``arguments`` are those that the parser's answer had."""

    table: str
    name: str
    arguments: ReorgArguments


class GenerateArguments(Request, kw_only=True):
    """What GENERATE is asked beside its table.

    :param mode: what to generate.
    """

    mode: str


class GenerateRequest(Request, kw_only=True):
    """GENERATE. ``arguments`` are those that the parser's answer had."""

    table: str
    name: str
    arguments: GenerateArguments


class AutoCompactRequest(Request, kw_only=True):
    """Compacts, in the background, the partitions of a table that commits made due. The answer is ``bool``: whether
    there were any.

    :param table: the table's path.
    """

    table: str
