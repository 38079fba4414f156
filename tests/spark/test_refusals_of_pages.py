"""What the pages say is refused or is an error: each such sentence is run here, or names the test that does."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from support.documents import pages, sentences
from support.paths import ROOT

_CLAIM = re.compile(r"\brefuse[sd]?\b|\bis an error\b")
_OF_USERS = ("concepts", "guides", "statements", "schema-evolution.md", "what-it-does.md")

_MAPPED = "CREATE TABLE {t} (a INT, b INT) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
_PLAIN = "CREATE TABLE {t} (a INT, s STRING) USING delta"
_SOURCE = "(SELECT 1 AS a, 'x' AS s UNION ALL SELECT 1, 'y')"
_NESTED = "CREATE TABLE {t} (id INT, st STRUCT<x: INT, y: INT>) USING delta"
_EVENTS = "CREATE TABLE {t} (id INT NOT NULL, at INT) USING delta"


@dataclass(frozen=True)
class Refusal:
    """A part of a sentence, and statements of which the last one is refused. ``{t}`` is a table, ``{d}`` a folder."""

    claim: str
    condition: str
    statements: tuple[str, ...]


def _refusal(claim: str, condition: str, *statements: str) -> Refusal:
    return Refusal(claim, condition, statements)


REFUSALS = [
    _refusal(
        "A column of another type, or of another CHAR",
        "HEADWATER_QUARANTINE_TABLE",
        _PLAIN,
        "CREATE TABLE q (a STRING, s STRING, quarantine_reason ARRAY<STRING>, quarantine_time TIMESTAMP, "
        "quarantine_source STRUCT<table: STRING, operation: STRING>) USING delta "
        "TBLPROPERTIES ('headwater.quarantine' = 'true')",
        "ALTER TABLE {t} ADD CONSTRAINT c EXPECT (a > 0) ON VIOLATION QUARANTINE INTO q",
    ),
    _refusal(
        "renamed or dropped inside the range is an error",
        "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE",
        _MAPPED,
        "ALTER TABLE {t} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)",
        "INSERT INTO {t} VALUES (1, 2)",
        "ALTER TABLE {t} RENAME COLUMN b TO c",
        "SELECT * FROM table_changes('{t}', 1)",
    ),
    _refusal(
        "`METADATA ONLY` and `VERIFY …`, are refused",
        "PARSE_SYNTAX_ERROR",
        _PLAIN,
        "FSCK REPAIR TABLE {t} METADATA ONLY",
    ),
    _refusal(
        "ALTER CATALOG with it is refused",
        "DELTA_OPERATION_NOT_ALLOWED",
        "ALTER CATALOG spark_catalog ENABLE PREDICTIVE OPTIMIZATION",
    ),
    _refusal(
        "other characters that are refused without it",
        "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES",
        "CREATE TABLE {t} (`a b` INT) USING delta",
    ),
    _refusal(
        "are needed (they are refused)",
        "DELTA_UNSUPPORTED_MANIFEST_GENERATION_WITH_COLUMN_MAPPING",
        _MAPPED,
        "GENERATE symlink_format_manifest FOR TABLE {t}",
    ),
    _refusal(
        "Tables with deletion vectors or column mapping are refused",
        "DELTA_UNSUPPORTED_GENERATE_WITH_DELETION_VECTORS",
        _PLAIN,
        "ALTER TABLE {t} SET TBLPROPERTIES (delta.enableDeletionVectors = true)",
        "INSERT INTO {t} SELECT id, 'x' FROM range(0, 9, 1, 1)",
        "DELETE FROM {t} WHERE a = 3",
        "GENERATE symlink_format_manifest FOR TABLE {t}",
    ),
    _refusal(
        "Other changes of the mode are refused",
        "DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE",
        _MAPPED,
        "ALTER TABLE {t} SET TBLPROPERTIES (delta.columnMapping.mode = 'id')",
    ),
    _refusal(
        "`GENERATED ALWAYS AS IDENTITY` is refused",
        "DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED",
        "CREATE TABLE {t} (id BIGINT GENERATED ALWAYS AS IDENTITY, a INT) USING delta",
        "INSERT INTO {t} VALUES (1, 2)",
    ),
    _refusal(
        "`ADD COLUMN … DEFAULT` is refused",
        "WRONG_COLUMN_DEFAULTS_FOR_DELTA_ALTER_TABLE_ADD_COLUMN_NOT_SUPPORTED",
        _PLAIN,
        "ALTER TABLE {t} ADD COLUMN b INT DEFAULT 3",
    ),
    _refusal(
        "a write with other columns is refused",
        "INSERT_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS",
        _PLAIN,
        "INSERT INTO {t} VALUES (1, 'x', 2)",
    ),
    _refusal(
        "Everything else is refused",
        "DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP",
        _PLAIN,
        "ALTER TABLE {t} SET TBLPROPERTIES (delta.enableTypeWidening = true)",
        "ALTER TABLE {t} ALTER COLUMN a TYPE STRING",
    ),
    _refusal(
        "widening it is an error",
        "DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE",
        _PLAIN,
        "ALTER TABLE {t} SET TBLPROPERTIES (delta.enableTypeWidening = true)",
        "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (a > 0)",
        "ALTER TABLE {t} ALTER COLUMN a TYPE BIGINT",
    ),
    _refusal(
        "a string that is not a number is an error",
        "CAST_INVALID_INPUT",
        _PLAIN,
        "INSERT INTO {t} VALUES (1, 'x')",
        "UPDATE {t} SET a = 'one'",
    ),
    _refusal(
        "and `WITH SCHEMA EVOLUTION` is refused",
        "DELTA_OPERATION_ON_VIEW_NOT_ALLOWED",
        _PLAIN,
        "CREATE TEMPORARY VIEW {v} AS SELECT a AS b FROM {t}",
        "MERGE WITH SCHEMA EVOLUTION INTO {v} USING (SELECT 1 AS b, 2 AS c) ON {v}.b = c "
        "WHEN NOT MATCHED THEN INSERT *",
    ),
    *(
        _refusal(
            "a filter, a join, GROUP BY or LIMIT are refused",
            condition,
            _PLAIN,
            f"CREATE TEMPORARY VIEW {{v}} AS SELECT a FROM {{t}} {tail}",
            "DELETE FROM {v}",
        )
        for tail, condition in (
            ("WHERE a > 1", "DELTA_UNEXPECTED_PARTIAL_SCAN"),
            *((tail, "DELTA_UNSUPPORTED_SOURCE") for tail in ("JOIN range(3) ON a = id", "GROUP BY a", "LIMIT 3")),
        )
    ),
    _refusal(
        "if more than one source row would change",
        "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE",
        _PLAIN,
        "INSERT INTO {t} VALUES (1, 'x')",
        f"MERGE INTO {{t}} USING {_SOURCE} AS s ON {{t}}.a = s.a WHEN MATCHED THEN UPDATE SET *",
    ),
    _refusal(
        "a check refuses short ones", "DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT", _PLAIN, "VACUUM {t} RETAIN 1 HOURS"
    ),
    _refusal(
        "such property values are refused",
        "DELTA_INVALID_PROPERTY_VALUE",
        _PLAIN,
        "ALTER TABLE {t} SET TBLPROPERTIES (delta.logRetentionDuration = 'interval 1 hour')",
    ),
    _refusal(
        "with `enabledFormats` they are refused",
        "DELTA_UNIVERSAL_FORMAT_VIOLATION",
        "CREATE TABLE {t} (a INT) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name', "
        "'delta.enableIcebergCompatV1' = 'true', 'delta.universalFormat.enabledFormats' = 'iceberg')",
    ),
    _refusal(
        "The property is refused",
        "DELTA_UNIVERSAL_FORMAT_VIOLATION",
        _PLAIN,
        "ALTER TABLE {t} SET TBLPROPERTIES (delta.universalFormat.enabledFormats = 'hudi')",
    ),
    _refusal(
        "A misspelt option is an error",
        "HEADWATER_UNKNOWN_OPTION",
        _PLAIN,
        "SELECT * FROM {t} WITH (`versionAsOff` = 0)",
    ),
    _refusal(
        "`versionAsOf` and `timestampAsOf`; a misspelt",
        "HEADWATER_UNKNOWN_OPTION",
        _PLAIN,
        "SELECT * FROM {t} WITH (`versionAsOff` = 0)",
    ),
    _refusal(
        "of writers; any other name is an error",
        "HEADWATER_UNKNOWN_OPTION",
        _PLAIN,
        "INSERT INTO {t} WITH (`mergeSchem` = true) VALUES (1, 'x')",
    ),
    *(
        _refusal(
            "the INSERT is refused (",
            condition,
            _NESTED,
            f"INSERT INTO {{t}} {form} SELECT 1 AS id, named_struct('x', 1) AS st",
        )
        for form, condition in (
            ("BY NAME", "DELTA_INSERT_COLUMN_ARITY_MISMATCH"),
            ("", "INCOMPATIBLE_DATA_FOR_TABLE.STRUCT_MISSING_FIELDS"),
        )
    ),
    _refusal(
        "generated column or a constraint uses the column, it is an error",
        "DELTA_CONSTRAINT_DATA_TYPE_MISMATCH",
        _PLAIN,
        "ALTER TABLE {t} SET TBLPROPERTIES (delta.enableTypeWidening = true)",
        "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (a > 0)",
        "INSERT WITH SCHEMA EVOLUTION INTO {t} BY NAME SELECT 1L AS a, 'x' AS s",
    ),
    _refusal(
        "A name that neither table has is an error",
        "DELTA_MERGE_UNRESOLVED_EXPRESSION",
        _PLAIN,
        "MERGE WITH SCHEMA EVOLUTION INTO {t} USING (SELECT 1 AS a) AS s ON {t}.a = s.a "
        "WHEN MATCHED THEN UPDATE SET nosuch = s.a",
    ),
    *(
        _refusal(claim, "HEADWATER_DEEP_CLONE_OF_FILES", "CREATE TABLE {t} DEEP CLONE parquet.`{d}/files`")
        for claim in ("`DEEP CLONE` of such files is refused", "is not yet implemented, and is refused")
    ),
    _refusal(
        "`delta.appendOnly` refuses DELETE",
        "DELTA_CANNOT_MODIFY_APPEND_ONLY",
        _PLAIN,
        "ALTER TABLE {t} SET TBLPROPERTIES (delta.appendOnly = true)",
        "INSERT INTO {t} VALUES (1, 'x')",
        "DELETE FROM {t} WHERE a = 1",
    ),
    _refusal(
        "A NOT NULL column refuses `''`",
        "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
        "CREATE TABLE {t} (a INT, p STRING NOT NULL) USING delta PARTITIONED BY (p)",
        "INSERT INTO {t} VALUES (1, '')",
    ),
    _refusal(
        "refuses every row; write `p IS NULL`",
        "DELTA_REPLACE_WHERE_MISMATCH",
        "CREATE TABLE {t} (a INT, p STRING) USING delta PARTITIONED BY (p)",
        "INSERT INTO {t} REPLACE WHERE p = '' VALUES (1, '')",
    ),
    _refusal(
        "A null key or a null sequence is an error",
        "HEADWATER_UPSERT_NULL_KEY",
        _PLAIN,
        "INSERT INTO {t} WITH (idCols = 'a') VALUES (NULL, 'x')",
    ),
    _refusal(
        "the same key and the same sequence, but differ",
        "HEADWATER_UPSERT_SEVERAL_ROWS_OF_KEY",
        _PLAIN,
        "INSERT INTO {t} WITH (idCols = 'a') VALUES (1, 'x'), (1, 'y')",
    ),
    _refusal(
        "`CACHE TABLE` and `UNCACHE TABLE` are refused",
        "HEADWATER_NOT_IN_TRANSACTION",
        _PLAIN,
        "BEGIN TRANSACTION",
        "CACHE TABLE {t}",
    ),
]

#: Claims that another test runs, or that are about another product: a part of the sentence, and that test.
HELD_BY = {
    "USING and OPTIONS are refused": "spark/test_indexes.py::test_what_no_table_can_have",
    "collation, CHAR and VARCHAR are refused": "spark/test_indexes.py::test_what_no_table_can_have",
    "`WITH (CREDENTIAL …)` is refused": "sql/test_copy_into.py::test_credentials_are_refused_with_the_reason",
    "A name that is not there is an error": "spark/test_copy_into.py::test_files_and_pattern",
    "a hidden file that is named is an error": (
        "statements/writes/test_copy_into.py::test_a_path_that_is_a_hidden_file_is_an_error"
    ),
    "Files of a Delta table, or of a folder that a stream of Spark writes to, are refused": (
        "statements/writes/test_copy_into.py::test_files_that_a_log_lists_are_refused_however_they_are_named"
    ),
    "would leave out for any other reason is an error": (
        "spark/test_copy_into.py::test_a_file_that_the_reader_would_leave_out_or_add_is_an_error"
    ),
    "A column that the table does not have is an error": "spark/test_copy_into.py::test_new_columns_need_an_option",
    "A value that does not fit its column is an error": (
        "spark/test_copy_into.py::test_a_value_that_does_not_fit_is_an_error_and_nothing_is_loaded"
    ),
    "a file that vanishes is an error": "statements/writes/test_copy_into.py::test_a_file_that_vanishes_is_an_error",
    "`badRecordsPath` and `rescuedDataColumn` are refused": (
        "statements/writes/test_copy_into.py::test_options_of_databricks_that_would_be_ignored_are_refused"
    ),
    "a write with such rows is refused": "spark/test_expectations.py::test_a_table_that_takes_no_quarantined_rows",
    "An event with a null key or a null sequence is an error": (
        "spark/test_expectations_of_events.py::test_events_without_a_key_or_a_sequence"
    ),
    "one that uses a column that the rows lack is refused": (
        "spark/test_expectations_of_events.py::test_what_an_event_alone_does_not_say"
    ),
    "NOT NULL is refused for a column of the table": (
        "spark/test_expectations.py::test_what_rows_that_are_turned_away_would_not_meet"
    ),
    "both together are refused": "spark/test_expectations.py::test_a_quarantine_table_has_no_expectations",
    "has the CREATE TABLE to run": (
        "spark/test_expectations.py::test_the_statement_of_a_missing_quarantine_table_runs"
    ),
    "refused while an expectation uses": "spark/test_expectations.py::test_new_columns_reach_the_quarantine_table",
    "refused if it leaves out a column that one uses": (
        "spark/test_expectations.py::test_columns_that_expectations_use_stay"
    ),
    "the catalog refuses them (403)": "stores/test_vended_credentials.py::test_rights_that_are_for_reading_alone",
    "or the store refuses them": (
        "stores/test_vended_credentials.py::test_credentials_are_replaced_before_and_when_they_expire"
    ),
    "refuses the token as wrong": "spark/test_unity_catalog.py::test_a_token_is_in_no_text",
    "`DATA_REORGANIZATION` | OPTIMIZE": "spark/test_unity_catalog.py::test_maintenance_that_the_catalog_allows",
    "`DATA_CLEANUP` | VACUUM": "spark/test_unity_catalog.py::test_maintenance_that_the_catalog_allows",
    "`refused` (by the catalog)": (
        "statements/test_maintain_table.py::"
        "test_what_a_catalog_does_not_allow_is_refused_and_a_disabled_table_left_alone"
    ),
    "A table with `delta.appendOnly` is refused": (
        "statements/maintenance/test_fsck.py::test_a_table_that_only_takes_appends_keeps_its_entries"
    ),
    "A store that fails is an error": (
        "statements/maintenance/test_fsck.py::test_a_store_that_fails_is_an_error_and_no_missing_file"
    ),
    "hook can refuse a commit": "statements/running/test_hooks.py::test_a_veto_by_property_and_by_setting",
    "A refused statement fails with `HEADWATER_COMMIT": "bridge/test_hooks.py::test_a_table_names_hooks",
    "but does not exist or cannot be imported": (
        "statements/running/test_hooks.py::test_a_hook_that_is_not_there_is_no_check_passed"
    ),
    "A query that is refused leaves no table": "streams/test_sink.py::test_options_that_are_refused",
    "A DataFrame with other columns is refused": (
        "streams/test_source_through_spark.py::test_a_column_that_comes_while_the_stream_runs"
    ),
    "the most similar one, both for reading": "streams/test_sink.py::test_options_that_are_refused",
    "After a killed driver, a transaction": (
        "spark/test_transactions.py::test_created_tables_are_there_by_their_names_and_for_others_after_commit"
    ),
    "| refused | REPLACE TABLE": (
        "spark/test_transactions.py::test_what_rollback_would_not_undo_is_refused_and_the_transaction_goes_on"
    ),
    "tables that a catalog manages; changed": "statements/test_transactions.py::test_a_table_of_a_catalog_is_refused",
    "with the change data feed on, unless": (
        "spark/test_transactions_with_changes.py::test_what_one_statement_did_not_record_is_recorded_beside_another"
    ),
    "fails with `HEADWATER_NOT_IN_TRANSACTION`, changes nothing": (
        "spark/test_transactions.py::test_what_rollback_would_not_undo_is_refused_and_the_transaction_goes_on"
    ),
    "A statement that finds such a row": (
        "spark/test_transactions_with_changes.py::test_what_one_statement_did_not_record_is_recorded_beside_another"
    ),
    "a second UPDATE of another row of that file": (
        "spark/test_transactions_with_changes.py::test_the_feed_is_the_difference_of_versions"
    ),
    "meaning depends on settings of the session is refused": (
        "spark/test_what_names_code.py::test_an_expression_that_only_a_setting_gives_its_meaning_is_not_stored"
    ),
    "A write without `storedAs`": "spark/test_upsert_history.py::test_what_cannot_be",
    "Links are refused": "spark/test_convert.py::test_what_is_refused_leaves_folder_and_catalog",
    "newer than the newest `v<n>": "iceberg/test_reading.py::test_only_a_catalog_knows_which_of_two_counts",
    "The following are refused": "iceberg/test_reading.py::test_what_a_plan_refuses",
    "the statement is refused before anything": (
        "spark/test_writes_insert.py::test_inserts_that_cannot_be_one_are_done_whole_or_not_at_all"
    ),
    "the same `txnAppId` and `txnVersion` are also": (
        "spark/test_writes_insert.py::test_inserts_that_one_transaction_version_would_lose_are_refused"
    ),
    "An enforced foreign key is refused": "spark/test_keys.py::test_keys_that_are_refused",
    "it is refused with one of them": "spark/test_enforced_keys.py::test_a_key_of_a_table_with_rows",
    "A time before its first commit is refused": "spark/test_default_time.py::test_errors_name_the_time",
    "so is UNIQUE": "spark/test_keys.py::test_keys_that_are_refused",
    "refused for a primary key that foreign keys refer to": (
        "spark/test_keys.py::test_a_primary_key_that_is_referenced_stays"
    ),
    "refused while a key names the column": "spark/test_keys.py::test_keys_follow_changes_of_the_table",
    "refused for columns of the primary key": "spark/test_keys.py::test_keys_follow_changes_of_the_table",
    "the error has the statements that drop": "spark/test_keys.py::test_a_primary_key_that_is_referenced_stays",
    "if a metastore refuses the update": "bridge/test_remote_metastore.py::test_entries_follow_their_tables",
}


def _claims() -> list[str]:
    return [
        sentence
        for page in pages()
        if any(part in _OF_USERS for part in page.parts)
        for sentence in sentences(page)
        if _CLAIM.search(sentence) and not sentence.startswith("#") and "onnector refuses" not in sentence
    ]


def test_every_such_sentence_is_held() -> None:
    held = {*(refusal.claim for refusal in REFUSALS), *HELD_BY}
    claims = _claims()
    assert [claim for claim in claims if not any(part in claim for part in held)] == []
    assert [part for part in held if not any(part in claim for claim in claims)] == []
    for test in HELD_BY.values():
        file, name = test.split("::")
        assert f"def {name}(" in (ROOT / "tests" / file).read_text("utf-8"), test


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.claim)
def test_it_is_refused(spark: Any, database: str, tmp_path: Path, refusal: Refusal) -> None:
    spark.range(3).write.parquet(str(tmp_path / "files"))
    *before, last = (text.format(t="t", v="v", d=tmp_path) for text in refusal.statements)
    try:
        for text in before:
            spark.sql(text)
        with pytest.raises(PySparkException) as raised:
            spark.sql(last).collect()
    finally:
        spark.catalog.dropTempView("v")
        spark.sql("ROLLBACK") if "BEGIN" in str(before) else None
    assert raised.value.getCondition() == refusal.condition
