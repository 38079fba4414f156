"""The registry of handlers: every call that Spark's side makes, by name.

Each is declared with the type of its request; the handler's annotation declares the type of its answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import wraps
from typing import Any

from headwater.bridge.calls import Handler
from headwater.bridge.messages import catalogs, change, define, follow, maintain, read, trouble, write
from headwater.bridge.statement import Statement
from headwater.errors import HeadwaterError
from headwater.statements import failures, parsing, refusals, writing
from headwater.statements.change import delete, explain, merge, merge_evolution, replace, truncate, update
from headwater.statements.commit import created_tables, open_transactions, recovery, transactions
from headwater.statements.commit.managed import named as by_name
from headwater.statements.define import (
    alter,
    clone,
    convert,
    create,
    drop_feature,
    show,
    sync_identity,
    upgrade_uniform,
)
from headwater.statements.define import catalogs as managed
from headwater.statements.files import scans
from headwater.statements.files.missing_changes import record_missing_changes
from headwater.statements.follow import sink, source
from headwater.statements.maintain import (
    auto_compaction,
    compute_statistics,
    generate,
    health,
    optimize,
    reorg,
    restore,
    vacuum,
)
from headwater.statements.read import change_feed, describe, options
from headwater.statements.write import insert

#: What may be part of a transaction over several statements: what reads, and the changes that COMMIT makes one of.
_IN_TRANSACTION = frozenset(
    {
        "load_table",
        "refresh_tables",
        "check_columns",
        "table_exists",
        "scans",
        "aggregate",
        "plan_save",
        "resolve_write",
        "write",
        "create_table",
        "created_table",
        "replace_target",
        "replace",
        "delete",
        "update",
        "merge",
        "merge_target",
        "truncate",
        "explain",
        "describe_history",
        "describe_detail",
        "describe_other_detail",
        "show_create_table",
        "show_columns",
        "show_partitions",
        "summarize_tables",
        "alter_table",
        "add_constraint",
        "drop_constraint",
        "list_catalog",
        "find_in_catalog",
        "parse",
        "parameter_markers",
        "not_parsed",
        "explain_failure",
        "recover_commit",
        "finish_maintenance",
        "in_transaction",
        "begin_transaction",
        "commit_transaction",
        "rollback_transaction",
    }
)
#: Calls that do nothing but refuse.
_REFUSALS = frozenset(
    {
        "check_read_options",
        "missing_path",
        "invalid_version",
        "invalid_timestamp",
        "two_versions",
        "old_version",
        "unsupported_predicate",
        "assigned_twice",
        "truncate_partition",
        "not_a_table",
        "replace_condition",
        "nothing_at_path",
        "unresolved_in_merge",
        "not_of_one_row",
        "refuse_for_path",
        "not_delta",
        "not_cloned",
        "not_converted",
        "insert_into_directory",
        "no_file_system",
        "replace_other_format",
    }
)
#: What a user calls what these calls are for.
_IN_WORDS = {
    "auto_compact": "OPTIMIZE",
    "optimize_dry_run": "OPTIMIZE",
    "open_stream": "A stream",
    "check_sink": "A stream",
    "plan_batch": "A stream",
    "write_batch": "A stream",
    "table_changes": "table_changes",
    "check_same_schema": "ALTER TABLE … SET LOCATION",
    "drop_feature": "ALTER TABLE",
}


def _guarded(name: str, handler: Handler[Any]) -> Handler[Any]:
    """The handler of a call, which refuses within a transaction over several statements what cannot be part of one, and
    says by which name a table may be reached that may not be by its path.
    """
    is_allowed = name in _IN_TRANSACTION or name in _REFUSALS

    @wraps(handler.run)
    def run(request: Any, statement: Statement) -> Any:
        if not is_allowed and open_transactions.current(statement) is not None:
            words = _IN_WORDS.get(name) or name.replace("_", " ").upper()
            subject = getattr(request, "name", None) or getattr(request, "table", None) or "this session"
            raise open_transactions.not_in_transaction(words, str(subject))
        try:
            return handler.run(request, statement)
        except HeadwaterError as error:
            if (better := by_name(error, statement)) is not error:
                raise better from error
            raise

    return Handler(handler.request, run)


def _commit_transaction(request: define.TransactionRequest, statement: Statement) -> define.RowsAnswer:
    return transactions.commit_transaction(request, statement, record_missing_changes)


_HANDLERS: Mapping[str, Handler[Any]] = {
    "load_table": Handler(read.LoadTableRequest, scans.load_table),
    "refresh_tables": Handler(read.RefreshTablesRequest, scans.refresh_tables),
    "check_columns": Handler(read.CheckColumnsRequest, scans.check_columns),
    "table_exists": Handler(read.TableExistsRequest, scans.table_exists),
    "scans": Handler(read.ScansRequest, scans.list_scans),
    "aggregate": Handler(read.AggregateRequest, scans.aggregate),
    "table_changes": Handler(read.TableChangesRequest, change_feed.table_changes),
    "bounds_of_call": Handler(read.BoundsOfCallRequest, change_feed.bounds_of_call),
    "asks_for_changes": Handler(read.AsksForChangesRequest, change_feed.asks_for_changes),
    "check_read_options": Handler(read.CheckReadOptionsRequest, options.check_read_options),
    "check_change_files": Handler(read.CheckChangeFilesRequest, change_feed.check_change_files),
    "open_stream": Handler(follow.OpenStreamRequest, source.open_stream),
    "stream_end": Handler(follow.StreamEndRequest, source.stream_end),
    "stream_condition": Handler(follow.StreamConditionRequest, source.stream_condition),
    "stream_files": Handler(follow.StreamFilesRequest, source.stream_files),
    "stream_changes": Handler(follow.StreamChangesRequest, source.stream_changes),
    "stream_committed": Handler(follow.StreamCommittedRequest, source.stream_committed),
    "plan_save": Handler(write.PlanSaveRequest, insert.plan_save),
    "resolve_write": Handler(write.ResolveWriteRequest, insert.resolve_write),
    "write": Handler(write.WriteRequest, writing.write),
    "replace_target": Handler(write.ReplaceTargetRequest, replace.replace_target),
    "replace": Handler(write.ReplaceRequest, replace.replace),
    "check_sink": Handler(follow.CheckSinkRequest, sink.check_sink),
    "plan_batch": Handler(follow.PlanBatchRequest, sink.plan_batch),
    "write_batch": Handler(follow.WriteBatchRequest, writing.write_batch),
    "delete": Handler(change.ChangeRequest, delete.delete),
    "update": Handler(change.ChangeRequest, update.update),
    "merge": Handler(change.ChangeRequest, merge.merge),
    "merge_target": Handler(change.MergeTargetRequest, merge_evolution.merge_target),
    "explain": Handler(change.ExplainRequest, explain.explain),
    "create_table": Handler(define.CreateTableRequest, writing.create_table),
    "clone": Handler(define.CloneRequest, clone.clone),
    "convert_to_delta": Handler(define.ConvertRequest, convert.convert),
    "alter_table": Handler(define.AlterTableRequest, alter.alter_table),
    "sync_identity": Handler(define.SyncIdentityRequest, sync_identity.sync_identity),
    "analyze_table": Handler(maintain.AnalyzeTableRequest, compute_statistics.compute_statistics),
    "optimize": Handler(maintain.OptimizeRequest, optimize.optimize),
    "optimize_dry_run": Handler(maintain.OptimizeDryRunRequest, optimize.optimize_dry_run),
    "auto_compact": Handler(maintain.AutoCompactRequest, auto_compaction.auto_compact),
    "reorg": Handler(maintain.ReorgRequest, reorg.reorg),
    "upgrade_uniform": Handler(maintain.UpgradeUniformRequest, upgrade_uniform.upgrade_uniform),
    "generate": Handler(maintain.GenerateRequest, generate.generate),
    "add_constraint": Handler(define.AddConstraintRequest, alter.add_constraint),
    "drop_constraint": Handler(define.DropConstraintRequest, alter.drop_constraint),
    "drop_feature": Handler(define.DropFeatureRequest, drop_feature.drop_feature),
    "check_same_place": Handler(define.CheckSamePlaceRequest, create.check_same_place),
    "check_same_schema": Handler(define.CheckSameSchemaRequest, alter.check_same_schema),
    "truncate": Handler(change.TruncateRequest, truncate.truncate),
    "describe_history": Handler(read.DescribeHistoryRequest, describe.describe_history),
    "describe_detail": Handler(read.DescribeDetailRequest, describe.describe_detail),
    "describe_other_detail": Handler(read.DescribeOtherDetailRequest, describe.describe_other_detail),
    "describe_health": Handler(maintain.DescribeHealthRequest, health.describe_health),
    "show_create_table": Handler(define.ShowCreateTableRequest, show.show_create_table),
    "show_columns": Handler(define.ShowColumnsRequest, show.show_columns),
    "summarize_tables": Handler(define.SummarizeTablesRequest, show.summarize_tables),
    "show_partitions": Handler(define.ShowPartitionsRequest, show.show_partitions),
    "restore": Handler(maintain.RestoreRequest, restore.restore),
    "vacuum": Handler(maintain.VacuumRequest, vacuum.vacuum),
    "begin_transaction": Handler(define.TransactionRequest, transactions.begin_transaction),
    "commit_transaction": Handler(define.TransactionRequest, _commit_transaction),
    "rollback_transaction": Handler(define.TransactionRequest, transactions.rollback_transaction),
    "list_catalog": Handler(catalogs.ListCatalogRequest, managed.list_catalog),
    "find_in_catalog": Handler(catalogs.FindInCatalogRequest, managed.find_in_catalog),
    "add_to_catalog": Handler(catalogs.AddToCatalogRequest, managed.add_to_catalog),
    "not_in_catalog": Handler(catalogs.NotInCatalogRequest, managed.not_in_catalog),
    "stage_in_catalog": Handler(catalogs.StageInCatalogRequest, managed.stage_in_catalog),
    "drop_from_catalog": Handler(catalogs.DropFromCatalogRequest, managed.drop_from_catalog),
    "rename_in_catalog": Handler(catalogs.RenameInCatalogRequest, managed.rename_in_catalog),
    "parse": Handler(define.ParseRequest, parsing.parse),
    "parameter_markers": Handler(define.ParameterMarkersRequest, parsing.parameter_markers),
    "not_parsed": Handler(trouble.NotParsedRequest, parsing.not_parsed),
    "explain_failure": Handler(trouble.ExplainFailureRequest, failures.explain_failure),
    "recover_commit": Handler(trouble.RecoverCommitRequest, recovery.recover_commit),
    "finish_maintenance": Handler(trouble.FinishMaintenanceRequest, recovery.finish_maintenance),
    "missing_path": Handler(trouble.MissingPathRequest, refusals.missing_path),
    "invalid_version": Handler(trouble.InvalidVersionRequest, refusals.invalid_version),
    "invalid_timestamp": Handler(trouble.InvalidTimestampRequest, refusals.invalid_timestamp),
    "two_versions": Handler(trouble.TwoVersionsRequest, refusals.two_versions),
    "old_version": Handler(trouble.OldVersionRequest, refusals.old_version),
    "unsupported_predicate": Handler(trouble.UnsupportedPredicateRequest, refusals.unsupported_predicate),
    "assigned_twice": Handler(trouble.AssignedTwiceRequest, refusals.assigned_twice),
    "truncate_partition": Handler(trouble.TruncatePartitionRequest, refusals.truncate_partition),
    "not_a_table": Handler(trouble.NotATableRequest, refusals.not_a_table),
    "replace_condition": Handler(write.ReplaceConditionRequest, refusals.replace_condition),
    "nothing_at_path": Handler(trouble.NothingAtPathRequest, refusals.nothing_at_path),
    "unresolved_in_merge": Handler(trouble.UnresolvedInMergeRequest, refusals.unresolved_in_merge),
    "not_of_one_row": Handler(trouble.NotOfOneRowRequest, refusals.not_of_one_row),
    "refuse_for_path": Handler(trouble.PathOperationRequest, refusals.for_path),
    "created_table": Handler(define.CreatedTableRequest, created_tables.created_table),
    "in_transaction": Handler(trouble.InTransactionRequest, transactions.in_transaction),
    "not_delta": Handler(trouble.NotDeltaRequest, refusals.not_delta),
    "not_cloned": Handler(trouble.NotClonedRequest, refusals.not_cloned),
    "not_converted": Handler(trouble.NotConvertedRequest, refusals.not_converted),
    "insert_into_directory": Handler(trouble.InsertIntoDirectoryRequest, refusals.insert_into_directory),
    "no_file_system": Handler(trouble.NoFileSystemRequest, refusals.no_file_system),
    "replace_other_format": Handler(trouble.ReplaceOtherFormatRequest, refusals.replace_other_format),
}
HANDLERS: Mapping[str, Handler[Any]] = {name: _guarded(name, handler) for name, handler in _HANDLERS.items()}
