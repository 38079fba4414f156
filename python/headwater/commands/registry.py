"""Every call Spark makes, by name.

A handler takes the request and the statement and returns something JSON can hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headwater.bridge.statement import Statement
from headwater.commands import (
    alter,
    changes,
    create,
    delete,
    describe,
    explain,
    failures,
    merge,
    merge_target,
    read,
    recover,
    refuse,
    show,
    truncate,
    update,
    write,
)
from headwater.sql import elsewhere, statements

Handler = Callable[[dict[str, Any], Statement], Any]

HANDLERS: Mapping[str, Handler] = {
    "load_table": read.load_table,
    "refresh_table": read.refresh_table,
    "table_exists": read.table_exists,
    "scan": read.scan,
    "aggregate": read.aggregate,
    "table_changes": changes.table_changes,
    "bounds_of_call": changes.bounds_of_call,
    "asks_for_changes": changes.asks_for_changes,
    "check_change_files": changes.check_change_files,
    "plan_save": write.plan_save,
    "resolve_write": write.resolve_write,
    "write": write.write,
    "delete": delete.delete,
    "update": update.update,
    "merge": merge.merge,
    "merge_target": merge_target.merge_target,
    "explain": explain.explain,
    "create_table": create.create_table,
    "alter_table": alter.alter_table,
    "check_same_schema": alter.check_same_schema,
    "truncate": truncate.truncate,
    "describe_history": describe.describe_history,
    "describe_detail": describe.describe_detail,
    "show_create_table": show.show_create_table,
    "show_partitions": show.show_partitions,
    "parse": statements.parse,
    "not_parsed": elsewhere.refuse,
    "explain_failure": failures.explain_failure,
    "recover_commit": recover.recover_commit,
    "finish_upkeep": recover.finish_upkeep,
    "missing_path": refuse.missing_path,
    "invalid_version": refuse.invalid_version,
    "invalid_timestamp": refuse.invalid_timestamp,
    "two_versions": refuse.two_versions,
    "old_version": refuse.old_version,
    "unsupported_predicate": refuse.unsupported_predicate,
    "not_a_table": refuse.not_a_table,
    "not_of_one_row": refuse.not_of_one_row,
    "refuse_for_path": refuse.for_path,
    "not_delta": refuse.not_delta,
    "insert_into_directory": refuse.insert_into_directory,
    "no_file_system": refuse.no_file_system,
    "replace_other_format": refuse.replace_other_format,
}
