"""CONVERT TO DELTA: a Delta log for existing Parquet files, which keep their location.

Owns its one commit; its definition and files are :mod:`headwater.statements.tables.parquet_table`'s. Follows the
protocol's chapter "Add File and Remove File".
Promises: nothing is written unless every file fits, and the error names the first that does not; a table that is Delta
already stays as it is. The catalog's entry is changed by Spark's side, after the commit; where it was not, because the
statement was cut off, the next run ends the work.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.define import CommitAnswer, ConvertRequest
from headwater.bridge.statement import Statement
from headwater.log.snapshot import table_exists
from headwater.protocol.properties import for_new_table
from headwater.statements.calls import own_statement
from headwater.statements.running.committing import commit, transaction
from headwater.statements.running.opening import locate, open_snapshot
from headwater.statements.settings import CONVERT_CHECKS_METADATA
from headwater.statements.tables.draft import Draft
from headwater.statements.tables.iceberg_table import FORMAT, folder_of, of_iceberg, refuse_partitions
from headwater.statements.tables.parquet_table import OtherFiles, of_parquet
from headwater.transaction.commit_info import Provenance

_LOG = logging.getLogger(__name__)
_PARQUET = "parquet"


@own_statement("convert", output=None, commits=True, in_transaction=False, words="CONVERT TO DELTA")
def convert_to_delta(request: ConvertRequest, statement: Statement) -> CommitAnswer:
    """Make a Delta table of the files in a folder, or of those of a catalog's table.

    :raises HeadwaterError: ``DELTA_MISSING_PROVIDER_FOR_CONVERT``, ``DELTA_CONVERT_NON_PARQUET_TABLE``,
        ``DELTA_CONVERT_METASTORE_METADATA_MISMATCH``; those of :func:`of_parquet` and of a commit.
    """
    _check_format(request)
    is_iceberg = request.entry is None and str(request.format).lower() == FORMAT
    if is_iceberg:
        request, named = msgspec.structs.replace(request, table=folder_of(request.table)), request.table
    location = locate(request.table, statement)
    if table_exists(location.path, location.store):
        return _already(request, statement)
    entry = request.entry
    found = OtherFiles(location, entry, request.arguments.statistics, request.arguments.partitioned_by)
    name, given = (None, {}) if entry is None else (entry.name, entry.properties)
    if is_iceberg:
        refuse_partitions(found)
        becoming = of_iceberg(found, request.table, None, {}, None, named, statement)
    else:
        becoming = of_parquet(found, request.table, name, given, statement)
    txn = transaction(request.table, statement, None)
    # Its files were there before: another writer's table at the place has nothing to do with them.
    txn.follow_directly()
    txn.redefine(becoming.definition)
    txn.add(becoming.with_vectors(location))
    _LOG.info("%s: %d files become a Delta table", location.path, len(becoming.files))
    parameters = _parameters(request, len(becoming.files), becoming.partition_columns)
    return commit(txn, statement, Provenance("CONVERT", parameters, {"numConvertedFiles": len(becoming.files)}))


def _check_format(request: ConvertRequest) -> None:
    if request.format is None:
        raise HeadwaterError("DELTA_MISSING_PROVIDER_FOR_CONVERT", {"path": request.table})
    known = (_PARQUET,) if request.entry is not None else (_PARQUET, FORMAT)
    if request.format.lower() not in known:
        name = request.entry.name if request.entry is not None else request.table
        raise HeadwaterError(
            "DELTA_CONVERT_NON_PARQUET_TABLE", {"tableId": name, "sourceName": f"of the format {request.format}"}
        )


def _parameters(request: ConvertRequest, files: int, partitions: Sequence[str]) -> dict[str, Any]:
    """As the history of Delta Lake's own connector has them: partition columns only where the statement names them."""
    parameters: dict[str, Any] = {
        "numFiles": files,
        "partitionedBy": [] if request.arguments.partitioned_by is None else list(partitions),
        "collectStats": files > 0 and request.arguments.statistics,
    }
    if request.entry is not None:
        parameters["catalogTable"] = request.entry.name
    parameters["sourceFormat"] = str(request.format).lower() if request.entry is None else _PARQUET
    return parameters


def _already(request: ConvertRequest, statement: Statement) -> CommitAnswer:
    """What is left to do where there is a Delta table: its properties may lack some that the catalog has."""
    snapshot = open_snapshot(request.table, statement)
    if request.entry is None:
        _LOG.warning("%s is a Delta table already", snapshot.table_path)
        return CommitAnswer(version=snapshot.version)
    before: Mapping[str, str] = snapshot.metadata.configuration
    merged = {**before, **for_new_table(request.entry.properties, {})}
    if merged == before:
        return CommitAnswer(version=snapshot.version)
    if before and CONVERT_CHECKS_METADATA.of(statement):
        raise HeadwaterError(
            "DELTA_CONVERT_METASTORE_METADATA_MISMATCH",
            {
                "tableProperties": _pairs(request.entry.properties),
                "configuration": _pairs(before),
                "metadataCheckSqlConf": CONVERT_CHECKS_METADATA.name,
            },
        )
    draft = Draft.of(snapshot, statement, request.entry.name)
    draft.set_configuration(merged)
    txn = transaction(request.table, statement, snapshot)
    txn.redefine(draft.definition)
    return commit(txn, statement, Provenance("CONVERT", _parameters(request, 0, snapshot.partition_columns)))


def _pairs(configuration: Mapping[str, str]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in sorted(configuration.items())) or "none"
