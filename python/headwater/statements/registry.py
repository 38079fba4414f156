"""The registry of handlers: every call that Spark's side makes, by name.

A handler takes the request and the statement, and returns the answer.
"""

from __future__ import annotations

from collections.abc import Mapping

from headwater.bridge.calls import Handler
from headwater.statements import failures, parsing, recovery, refusals
from headwater.statements.change import delete, explain, merge, merge_evolution, truncate, update
from headwater.statements.define import alter, create, show
from headwater.statements.read import change_feed, describe, scans
from headwater.statements.write import insert

HANDLERS: Mapping[str, Handler] = {
    "load_table": scans.load_table,
    "refresh_table": scans.refresh_table,
    "table_exists": scans.table_exists,
    "scan": scans.scan,
    "aggregate": scans.aggregate,
    "table_changes": change_feed.table_changes,
    "bounds_of_call": change_feed.bounds_of_call,
    "asks_for_changes": change_feed.asks_for_changes,
    "check_change_files": change_feed.check_change_files,
    "plan_save": insert.plan_save,
    "resolve_write": insert.resolve_write,
    "write": insert.write,
    "delete": delete.delete,
    "update": update.update,
    "merge": merge.merge,
    "merge_target": merge_evolution.merge_target,
    "explain": explain.explain,
    "create_table": create.create_table,
    "alter_table": alter.alter_table,
    "check_same_schema": alter.check_same_schema,
    "truncate": truncate.truncate,
    "describe_history": describe.describe_history,
    "describe_detail": describe.describe_detail,
    "show_create_table": show.show_create_table,
    "show_partitions": show.show_partitions,
    "parse": parsing.parse,
    "not_parsed": parsing.not_parsed,
    "explain_failure": failures.explain_failure,
    "recover_commit": recovery.recover_commit,
    "finish_upkeep": recovery.finish_upkeep,
    "missing_path": refusals.missing_path,
    "invalid_version": refusals.invalid_version,
    "invalid_timestamp": refusals.invalid_timestamp,
    "two_versions": refusals.two_versions,
    "old_version": refusals.old_version,
    "unsupported_predicate": refusals.unsupported_predicate,
    "not_a_table": refusals.not_a_table,
    "not_of_one_row": refusals.not_of_one_row,
    "refuse_for_path": refusals.for_path,
    "not_delta": refusals.not_delta,
    "insert_into_directory": refusals.insert_into_directory,
    "no_file_system": refusals.no_file_system,
    "replace_other_format": refusals.replace_other_format,
}
