"""REORG TABLE … APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2)): makes a table readable for Iceberg.

Owns the steps: the properties of IcebergCompatV2, column mapping by name and no new deletion vectors; the files that
were written before, or have deleted rows, are written again; last the property that has each commit bring the Iceberg
metadata up to date. Follows the protocol's chapter "IcebergCompatV2". Promises: each step is a commit that leaves the
table whole, no row changes, and the statement can be repeated where it ended early.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.define import CommitAnswer
from headwater.bridge.messages.maintain import OptimizeArguments, OptimizeRequest, UpgradeUniformRequest
from headwater.bridge.statement import Statement
from headwater.iceberg.fitness import unfit
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.protocol.properties import UNIVERSAL_FORMATS, universal_formats
from headwater.schema import iceberg
from headwater.statements.calls import own_statement
from headwater.statements.files.bins import pack_where_they_lie
from headwater.statements.maintenance.layouts import Choice, Compaction, Layout, Settings
from headwater.statements.maintenance.optimize import OPTIMIZE_SCHEMA, Run
from headwater.statements.tables.alter_commit import alter
from headwater.statements.tables.draft import Draft, Operation

#: The version of Iceberg compatibility whose metadata is written.
_VERSION = 2


@own_statement("reorg", output=OPTIMIZE_SCHEMA, commits=True, in_transaction=False, words="UPGRADE UNIFORM")
def upgrade_uniform(request: UpgradeUniformRequest, statement: Statement) -> CommitAnswer:
    """Upgrade a table; one row of :data:`headwater.statements.maintenance.optimize.OPTIMIZE_SCHEMA`.

    :raises HeadwaterError: ``DELTA_ICEBERG_COMPAT_VIOLATION``; those of a copy and of a commit.
    """
    version = request.arguments.version
    if version != _VERSION:
        raise HeadwaterError("DELTA_ICEBERG_COMPAT_VIOLATION.COMPAT_VERSION_NOT_SUPPORTED", {"version": version})
    table, name = request.table, request.name
    alter(table, name, statement, _prepare, is_last=False)
    work = OptimizeRequest(table=table, name=name, arguments=OptimizeArguments())
    answer = _Rewrite(work, statement).to_the_end()
    enabled = alter(table, name, statement, _enable)
    return CommitAnswer(version=enabled.version, rows=answer.rows)


def _prepare(draft: Draft) -> Operation:
    given = {iceberg.switch(version): "false" for version in iceberg.VERSIONS if version != _VERSION}
    configuration = dict(draft.metadata.configuration)
    changed = {key: value for key, value in given.items() if key in configuration}
    changed[iceberg.switch(_VERSION)] = "true"
    if properties.DELETION_VECTORS.of(configuration):
        changed[properties.DELETION_VECTORS.name] = "false"
    if properties.COLUMN_MAPPING_MODE.of(configuration) == "none":
        changed[properties.COLUMN_MAPPING_MODE.name] = "name"
    if any(configuration.get(key) != value for key, value in changed.items()):
        draft.set_configuration({**configuration, **changed})
    return Operation("SET TBLPROPERTIES", {"properties": changed})


def _enable(draft: Draft) -> Operation:
    configuration = dict(draft.metadata.configuration)
    changed = {UNIVERSAL_FORMATS.name: ",".join(sorted(universal_formats(configuration) | {"iceberg"}))}
    draft.set_configuration({**configuration, **changed})
    return Operation("SET TBLPROPERTIES", {"properties": changed})


class _Rewrite(Run):
    """One run over the files that Iceberg's readers could not read right."""

    operation = "REORG"

    def layout(self, snapshot: Snapshot) -> Layout:
        """Files are written as they lie."""
        return Compaction(Settings.of(self._statement, snapshot.definition))

    def choose(self, snapshot: Snapshot, among: pa.Array | None) -> Choice:
        """The files that do not keep to the version."""
        light = snapshot.select(["path", "size", "modification_time", "partition_values", "deletion_vector"])
        wanted = unfit(snapshot, _VERSION)
        if among is not None:
            wanted = pc.and_(wanted, pc.is_in(light["path"].combine_chunks(), value_set=among))
        light = light.filter(wanted)
        sizes = light["size"].to_pylist()
        is_clustered = snapshot.clustering_columns is not None
        bins = pack_where_they_lie(light, self._layout.settings.max_file_size, is_clustered=is_clustered)
        chosen = snapshot.files.filter(wanted)
        return Choice(chosen, bins, snapshot.num_files, ["it is upgraded"] * len(sizes), sizes)

    def parameters(self) -> dict[str, Any]:
        """As the history has them."""
        return {"predicate": [], "applyPurge": False, "icebergCompatVersion": _VERSION}
