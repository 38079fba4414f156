"""Messages of maintenance statements: OPTIMIZE, REORG, GENERATE, ANALYZE, RESTORE, VACUUM, FSCK REPAIR TABLE, indexes,
DESCRIBE HEALTH, MAINTAIN TABLE and ALTER TABLE … PREDICTIVE OPTIMIZATION.
"""

from __future__ import annotations

from headwater.bridge.messages import PassedOn, Request
from headwater.bridge.messages.define import ParsedChangeRequest, ParsedStatementRequest


class OptimizeArguments(PassedOn, kw_only=True):
    """What OPTIMIZE is asked, with or without DRY RUN.

    :param full: whether files that are laid out already are written again.
    :param where: a condition over partition columns, as Spark SQL.
    :param z_order_by: the paths of the columns of ZORDER BY.
    """

    full: bool = False
    where: str | None = None
    z_order_by: list[list[str]] = []


class OptimizeRequest(ParsedChangeRequest, kw_only=True):
    """OPTIMIZE."""

    arguments: OptimizeArguments


class OptimizeDryRunRequest(ParsedStatementRequest, kw_only=True):
    """OPTIMIZE … DRY RUN."""

    arguments: OptimizeArguments


AnyOptimizeRequest = OptimizeRequest | OptimizeDryRunRequest


class ReorgArguments(PassedOn, kw_only=True):
    """What REORG … APPLY (PURGE) is asked.

    :param where: a condition over partition columns, as Spark SQL.
    """

    where: str | None = None


class ReorgRequest(ParsedChangeRequest, kw_only=True):
    """REORG … APPLY (PURGE)."""

    arguments: ReorgArguments


class UpgradeUniformArguments(PassedOn, kw_only=True):
    """What REORG … APPLY (UPGRADE UNIFORM …) is asked.

    :param version: the version of Iceberg compatibility.
    """

    version: int


class UpgradeUniformRequest(ParsedChangeRequest, kw_only=True):
    """REORG … APPLY (UPGRADE UNIFORM …)."""

    arguments: UpgradeUniformArguments


class GenerateArguments(PassedOn, kw_only=True):
    """What GENERATE is asked beside its table.

    :param mode: what to generate.
    """

    mode: str


class GenerateRequest(ParsedStatementRequest, kw_only=True):
    """GENERATE."""

    arguments: GenerateArguments


class AutoCompactRequest(Request, kw_only=True):
    """Compacts, in the background, the partitions of a table that commits made due. The answer is ``bool``: whether
    there were any.

    :param table: the table's path.
    """

    table: str


class HealthArguments(PassedOn, kw_only=True):
    """What DESCRIBE HEALTH is asked beside its table: nothing."""


class DescribeHealthRequest(ParsedStatementRequest, kw_only=True):
    """DESCRIBE HEALTH."""

    arguments: HealthArguments


class AnalyzeTableArguments(PassedOn, kw_only=True):
    """The paths of the columns of FOR COLUMNS; None if the statement has none."""

    columns: list[list[str]] | None = None


class AnalyzeTableRequest(ParsedChangeRequest, kw_only=True):
    """ANALYZE TABLE … COMPUTE DELTA STATISTICS."""

    arguments: AnalyzeTableArguments


class RestoreArguments(PassedOn, kw_only=True):
    """What RESTORE goes back to: a version or a time, Spark SQL each; the other is None."""

    version: str | None = None
    timestamp: str | None = None


class RestoreRequest(ParsedChangeRequest, kw_only=True):
    """RESTORE."""

    arguments: RestoreArguments


class VacuumArguments(PassedOn, kw_only=True):
    """What VACUUM is asked beside its table.

    :param mode: ``full`` or ``lite``; None if the statement does not say.
    :param hours: of RETAIN, Spark SQL.
    :param inventory: the query that gives the rows of USING INVENTORY.
    """

    mode: str | None = None
    hours: str | None = None
    inventory: str | None = None
    dry_run: bool = False


class VacuumRequest(ParsedChangeRequest, kw_only=True):
    """VACUUM."""

    arguments: VacuumArguments


class FsckArguments(PassedOn, kw_only=True):
    """What FSCK REPAIR TABLE is asked beside its table."""

    dry_run: bool = False


class FsckRequest(ParsedChangeRequest, kw_only=True):
    """FSCK REPAIR TABLE."""

    arguments: FsckArguments


class CreateIndexArguments(PassedOn, kw_only=True):
    """What CREATE INDEX is asked beside its table.

    :param index: its name.
    :param columns: the paths of its columns.
    :param kind: of USING; empty if the statement says none.
    :param has_options: whether it has OPTIONS, of the index or of a column.
    """

    index: str
    columns: list[list[str]]
    if_not_exists: bool = False
    kind: str = ""
    has_options: bool = False


class CreateIndexRequest(ParsedChangeRequest, kw_only=True):
    """CREATE INDEX."""

    arguments: CreateIndexArguments


class DropIndexArguments(PassedOn, kw_only=True):
    """What DROP INDEX is asked beside its table: the name of an index."""

    index: str
    if_exists: bool = False


class DropIndexRequest(ParsedChangeRequest, kw_only=True):
    """DROP INDEX."""

    arguments: DropIndexArguments


class RefreshIndexArguments(PassedOn, kw_only=True):
    """What REFRESH INDEX is asked beside its table: the name of an index; None for all."""

    index: str | None = None


class RefreshIndexRequest(ParsedStatementRequest, kw_only=True):
    """REFRESH INDEX."""

    arguments: RefreshIndexArguments


class ShowIndexesArguments(PassedOn, kw_only=True):
    """What SHOW INDEXES is asked beside its table: nothing."""


class ShowIndexesRequest(ParsedStatementRequest, kw_only=True):
    """SHOW INDEXES."""

    arguments: ShowIndexesArguments


class MaintainArguments(PassedOn, kw_only=True):
    """What MAINTAIN TABLE is asked, with or without DRY RUN.

    :param only: the actions that may be done, as the report names them; empty for all.
    :param budget: the number of BUDGET, Spark SQL; None without a limit.
    :param unit: the seconds that BUDGET's unit has.
    :param chooses_clustering: whether the table gets the clustering columns that are proposed.
    :param force: whether a table is maintained that says DISABLE.
    """

    only: list[str] = []
    budget: str | None = None
    unit: int = 1
    chooses_clustering: bool = False
    force: bool = False


class MaintainTableRequest(ParsedChangeRequest, kw_only=True):
    """MAINTAIN TABLE."""

    arguments: MaintainArguments


class MaintainTableDryRunRequest(ParsedStatementRequest, kw_only=True):
    """MAINTAIN TABLE … DRY RUN."""

    arguments: MaintainArguments


class MarkTableArguments(PassedOn, kw_only=True):
    """What ALTER TABLE … PREDICTIVE OPTIMIZATION sets: ``ENABLE`` or ``DISABLE``; None for INHERIT."""

    mark: str | None = None


class MarkTableRequest(ParsedChangeRequest, kw_only=True):
    """ALTER TABLE … {ENABLE | DISABLE | INHERIT} PREDICTIVE OPTIMIZATION."""

    arguments: MarkTableArguments
