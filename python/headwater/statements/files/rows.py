"""Writing rows: a resolved plan becomes data files and their ``add`` actions.

Owns what every statement that writes rows shares: computed columns, constraints as part of the query, the columns'
names and ids in files, statistics. Nothing here commits; files that no commit references are harmless.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from headwater.basics.errors import HeadwaterError, conditions
from headwater.bridge.messages.callbacks import SmallJob, WriteSpecification, WrittenFile
from headwater.bridge.statement import Statement
from headwater.change_data.changelog import PAIRED, PAIRED_TAG
from headwater.iceberg.fitness import TAG as ICEBERG_COMPAT_TAG
from headwater.key_index.definition import indexes
from headwater.log.statistics.writing import statistics_json
from headwater.protocol import properties
from headwater.protocol.actions import AddCDCFile, AddFile
from headwater.protocol.column_metadata import COLUMN_ID, NESTED_IDS
from headwater.protocol.columns import map_fields, parse_name
from headwater.protocol.partition_paths import encode_path
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    schema_string,
)
from headwater.schema.checks import check_reserved_names, check_writable, without_void
from headwater.schema.constraints import GENERATED, NOT_NULL, Check, check_constraints, invariants, not_null_checks
from headwater.schema.generated import generated_checks, generated_columns
from headwater.schema.identity import IdentityColumn, identity_columns
from headwater.sql.composing import (
    FALSE,
    NULL,
    STAR,
    TRUE,
    Alias,
    Case,
    Cast,
    Column,
    Expression,
    Field,
    IsNull,
    Number,
    Query,
    Relation,
    Resolved,
    Rows,
    Text,
    call,
    every,
    infix,
    is_not_null,
    select,
    when,
)
from headwater.statements.files.change_data import change_column, inserted_rows, is_change_file, with_changes
from headwater.statements.files.distribution import SETTINGS as GATHERING_SETTINGS
from headwater.statements.files.distribution import Gathering, gathering
from headwater.statements.files.identities import advanced_identities, identities_to_give, identity_values
from headwater.statements.files.judging import Judging, Violations, fail_checks, unstaged
from headwater.statements.files.stored_values import as_stored, columns_stored_otherwise
from headwater.statements.internal_names import InternalNames
from headwater.statements.running.opening import Options

#: Metadata key under which Spark's Parquet writer finds a column's field id.
PARQUET_FIELD_ID = "parquet.field.id"
#: The same for the ids of elements, keys and values; our own writer (``NestedFieldIds``) reads it.
_PARQUET_NESTED_IDS = "parquet.field.nested.ids"
_NOT_NULL = "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"
#: The most columns of a row that an error about NOT NULL shows.
_MOST_SHOWN = 10
#: So many characters of an array, map or struct are.
_LONGEST_SHOWN = 1000
#: A job that reads at most this many bytes is small: generating and compiling code for it takes longer than it saves
#: (bench case ``merge-small``).
SMALL_JOB_BYTES = 1 << 20
#: A job is not small, however little it reads, if a node of its plan may handle more rows than this: they take longer
#: without generated code than it takes to compile it (bench case ``explode``).
_SMALL_JOB_ROWS = 1 << 18
#: Spark's settings of a job without a stage whose end could change the plan of the next: no adaptive execution.
STATIC_PLAN_SETTINGS = {"spark.sql.adaptive.enabled": "false"}
SMALL_JOB = SmallJob(
    bytes=SMALL_JOB_BYTES,
    rows=_SMALL_JOB_ROWS,
    settings={
        **STATIC_PLAN_SETTINGS,
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.shuffle.partitions": "1",
    },
)
#: Options of Spark's Parquet writer that keep variants whole. Without them, Spark shreds variants, which is only
#: allowed in tables with shredding on (Writer Requirements for Variant Shredding).
_UNSHREDDED = {"spark.sql.variant.inferShreddingSchema": "false"}
#: Options of Spark's Parquet writer for tables with a key index: a row that it finds costs the page that it is in. By
#: default, a page has 20,000 rows.
_SMALL_PAGES = {"parquet.page.row.count.limit": "1000"}

#: Makes a node of an expression that a user wrote.
Parsed = Callable[[str], Expression]


@dataclass
class Written:
    """What a write job wrote: files for the commit, and its metrics."""

    files: list[AddFile] = field(default_factory=list)
    changes: list[AddCDCFile] = field(default_factory=list)
    rows: int = 0
    #: The table's schema with new high-water marks of identity columns; None if none was generated.
    schema: StructType | None = None
    #: What became of rows that violate expectations.
    violations: Violations = field(default_factory=Violations)

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)

    def add(self, later: Written) -> None:
        """Count what another job of the same write wrote after it."""
        self.files += later.files
        self.changes += later.changes
        self.rows += later.rows
        self.schema = later.schema or self.schema
        self.violations.add(later.violations)


@dataclass(frozen=True)
class Target:
    """The table rows are written for, as it will be after the commit."""

    path: str
    definition: TableDefinition

    @property
    def schema(self) -> StructType:
        return self.definition.schema

    @property
    def partition_columns(self) -> list[str]:
        return self.definition.partition_columns


def write_rows(
    statement: Statement,
    target: Target,
    plan: int | Query,
    provided: Sequence[str],
    options: Options,
    *,
    extra_checks: Sequence[tuple[Check, str]] = (),
    data_change: bool = True,
    changes: bool = False,
    has_more: bool = False,
) -> Written:
    """Write a plan's rows. Rows that are only stored otherwise, without a change of data, meet expectations already.

    :param plan: the number of the plan, or a query, whose columns are ``provided``, in order.
    :param provided: the table's columns the plan has; generated and identity columns it lacks are computed.
    :param extra_checks: conditions beyond the table's own, each with the error condition it violates.
    :param changes: whether each row is also written as change data: an ``insert``.
    :param has_more: whether the plan also has other columns, which are not written.
    """
    schema = target.schema
    check_writable(schema)
    check_reserved_names(
        StructType(tuple(StructField(n, PrimitiveType("string")) for n in provided)),
        target.definition.metadata.configuration,
        writing=True,
    )
    identities = identities_to_give(schema, provided)
    gathered = gathering(statement, target.definition, options)
    judging = Judging.of(target.definition) if data_change else None
    query = _query(
        target,
        Relation(plan) if isinstance(plan, int) else plan,
        provided=provided,
        identities=identities,
        extra_checks=extra_checks,
        fails=fail_checks(target.definition) if data_change else (),
        has_more=has_more,
        statement=statement,
        gathered=gathered,
        judging=judging,
        changes=changes,
    )
    if changes and judging is None:
        query = inserted_rows(schema, query)
    statement.step("write rows")
    violations = Violations()
    if judging is None:
        spec = specification(target, query, options, is_gathered=gathered is not None)
        files = statement.write(with_changes(spec, change_column(schema)) if changes else spec)
    else:
        files, violations = write_judged(
            statement, target, query, options, judging, changes=changes, is_gathered=gathered is not None
        )
    written = describe_files(target, files, data_change, has_pairs=changes)
    written.violations = violations
    # Numbers that rows in quarantine have are not given again.
    of_rows = [*(file for file in files if not is_change_file(file)), *violations.staged]
    written.schema = advanced_identities(schema, identities, statistics_leaves(target), of_rows)
    return written


def write_judged(
    statement: Statement,
    target: Target,
    query: Query,
    options: Options,
    judging: Judging,
    *,
    changes: bool,
    is_gathered: bool = False,
) -> tuple[list[WrittenFile], Violations]:
    """Write the rows of a query that says what becomes of each (:meth:`Judging.new_rows`); the files of the table, and
    what became of rows that violate expectations.

    :param is_gathered: whether the query gathers its rows, for an optimized write.
    """
    spec = specification(target, query, options, is_gathered=is_gathered)
    if judging.has_places(changes):
        spec = with_changes(spec, change_column(target.schema), stages=True)
    answer = statement.write_tracked(msgspec.structs.replace(spec, tracked=True))
    assert answer.tracked is not None
    _, violations = judging.counts(answer.tracked.actions)
    files, violations.staged = unstaged(answer.files)
    return files, violations


def check_rows(
    statement: Statement,
    target: Target,
    plan: int,
    provided: Sequence[str],
    options: Options,
    most: int,
) -> list[dict[str, Any]]:
    """Compute and check a plan's rows as :func:`write_rows` does, and write nothing.

    :param most: how many of them, as they would be stored, are returned.
    """
    check_writable(target.schema)
    identities = identities_to_give(target.schema, provided)
    query = _query(
        target,
        Relation(plan),
        provided=provided,
        identities=identities,
        extra_checks=(),
        fails=fail_checks(target.definition),
        has_more=False,
        statement=statement,
        gathered=None,
        judging=Judging.of(target.definition),
        changes=False,
        only_written=True,
    )
    statement.step("check rows")
    nothing = specification(target, query, options)
    nothing.schema, nothing.partition_by, nothing.statistics = schema_string(StructType()), [], []
    statement.write(nothing)
    return statement.query(select(STAR, rows=query, limit=most).text())


def describe_files(
    target: Target, files: Sequence[WrittenFile], data_change: bool, *, has_pairs: bool = False
) -> Written:
    """The ``add`` and ``cdc`` actions of a write job's files.

    :param has_pairs: whether each preimage of its change data is directly followed by its postimage.
    """
    leaves = statistics_leaves(target)
    written = Written()
    compat = max(target.definition.iceberg_compat, default=1)
    for described in files:
        if is_change_file(described):
            values = partition_values(target.schema, described.partition)
            tags = {PAIRED_TAG: PAIRED} if has_pairs else None
            written.changes.append(AddCDCFile(encode_path(described.path), values, described.size, tags))
            continue
        written.rows += described.rows
        written.files.append(
            AddFile(
                path=encode_path(described.path),
                partition_values=partition_values(target.schema, described.partition),
                size=described.size,
                modification_time=described.modification_time,
                data_change=data_change,
                stats=statistics_json(described.rows, leaves, described.statistics),
                tags={ICEBERG_COMPAT_TAG: str(compat)} if compat > 1 else None,
            )
        )
    return written


def parsed_by_spark(statement: Statement) -> Parsed:
    """Nodes of expressions that users wrote: Spark parses each by itself."""
    return lambda text: Resolved(statement.place(text))


def stored_in_log(statement: Statement) -> Parsed:
    """Nodes of expressions in a table's log, whose authors nobody knows."""
    return lambda text: Resolved(statement.place_stored(text))


def _query(
    target: Target,
    plan: Query,
    *,
    provided: Sequence[str],
    identities: Sequence[IdentityColumn],
    extra_checks: Sequence[tuple[Check, str]],
    fails: Sequence[tuple[Check, str]],
    has_more: bool,
    statement: Statement,
    gathered: Gathering | None,
    judging: Judging | None,
    changes: bool,
    only_written: bool = False,
) -> Query:
    """The query for the rows of the files: the plan itself where nothing is to be added, else one level a step.

    Expectations see each row, and the table's other conditions those that are written.

    :param only_written: leave out rows that expectations turn away, and say nothing of what becomes of them.
    """
    schema = target.schema
    have = {name.lower() for name in provided}
    computed = {c.name.lower(): c for c in generated_columns(schema) if c.name.lower() not in have}
    ids = {c.name.lower(): c for c in identities}
    of_table = stored_in_log(statement)
    holding = check_conditions(table_checks(target, provided), target, of_table)
    holding += check_conditions(extra_checks, target, parsed_by_spark(statement))
    failing = check_conditions(fails, target, of_table)
    is_checked = bool(holding or failing or judging)
    stored = [f for f in schema if not is_void(f)]
    rows: Rows = plan
    otherwise = columns_stored_otherwise(target.definition)
    in_files = otherwise if target.definition.has_partition_columns_in_files else []
    if not (computed or ids or is_checked or has_more or in_files) and [f.name for f in stored] == list(provided):
        return plan if gathered is None else gathered.of(rows, target.partition_columns)
    # Computed columns and checks see values as they are stored. The writer gets the given values, by which the rows may
    # be sorted, unless the files hold partition columns too.
    names = InternalNames.beside([*schema.names, *provided])
    given = {f.name: names.of(f"given_{i}") for i, f in enumerate(otherwise) if f.name.lower() in have}
    if not (computed or is_checked or in_files):
        given = {}
    if given:
        brought = [f.name for f in stored if f.name.lower() in have]
        rows = select(*_as_stored(brought, given), *(Alias(Column(n), given[n]) for n in given), rows=rows)
    columns: list[Expression] = []
    for column in stored:
        folded = column.name.lower()
        if folded in have:
            columns.append(Column(column.name))
        elif folded in computed:
            columns.append(Alias(Cast(of_table(computed[folded].sql), column.type), column.name))
        elif folded in ids:
            columns.append(Alias(identity_values(ids[folded]), column.name))
        else:
            columns.append(Alias(Cast(NULL, column.type), column.name))
    query: Query = select(*columns, *map(Column, given.values()), rows=in_one_partition(rows) if ids else rows)
    generated = [f.name for f in otherwise if f.name.lower() in computed]
    if generated and (is_checked or in_files):
        query = select(*_as_stored([f.name for f in stored], generated), *map(Column, given.values()), rows=query)
    if gathered is not None:
        # Below the conditions: the task that writes a row finds what is wrong with it.
        query = gathered.of(query, [given.get(name, name) for name in target.partition_columns])
    violated = names.of("violated")
    query = _checked(query, failing, holding, judging, of_table, violated)
    written: list[Expression] = [
        Alias(Column(given[f.name]), f.name) if f.name in given and not in_files else Column(f.name) for f in stored
    ]
    if judging is not None and only_written:
        return select(*written, rows=query, where=when(judging.is_turned_away(Column(violated)), FALSE, TRUE))
    if judging is not None:
        return judging.new_rows(written, query, violated, change_column(schema), changes=changes)
    return select(*written, rows=query) if given else query


def _checked(
    query: Query,
    failing: Sequence[Expression],
    holding: Sequence[Expression],
    judging: Judging | None,
    parsed: Parsed,
    violated: str,
) -> Query:
    """The rows as far as they meet conditions.

    :param failing: those that each row must meet; ``holding``: those that each row that is written must.
    :param violated: the column that says what a row violates, if the table counts it.
    """
    for holds in failing:
        query = select(STAR, rows=query, where=holds)
    if judging is not None:
        query = select(STAR, Alias(judging.violated(parsed), violated), rows=query)
    is_away = judging.is_turned_away(Column(violated)) if judging is not None and judging.turns_away else None
    for holds in holding:
        query = select(STAR, rows=query, where=holds if is_away is None else when(is_away, TRUE, holds))
    return query


def _as_stored(names: Iterable[str], otherwise: Container[str]) -> list[Expression]:
    """Columns, some of them with the values that are stored for those of the rows."""
    return [Alias(as_stored(Column(name)), name) if name in otherwise else Column(name) for name in names]


def in_one_partition(rows: Rows) -> Rows:
    """Rows in one partition, below the expression that numbers them: so the numbers have no gaps."""
    return select(STAR, rows=rows, hint="REPARTITION(1)")


def table_checks(target: Target, provided: Sequence[str]) -> list[tuple[Check, str]]:
    """The table's own conditions on each row, each with the error condition it violates."""
    schema = target.schema
    violated = "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"
    return [
        *((check, _NOT_NULL) for check in not_null_checks(schema)),
        *((check, violated) for check in invariants(schema)),
        *((check, violated) for check in check_constraints(target.definition.metadata.configuration)),
        *((check, violated) for check in generated_checks(schema, provided)),
    ]


def check_conditions(checks: Sequence[tuple[Check, str]], target: Target, parsed: Parsed) -> list[Expression]:
    """Conditions that are true where the checks hold, and else end the statement with the row's values.

    :param checks: each with the error condition of its violation.
    """
    not_null: dict[str, list[Check]] = {}
    found = []
    for check, condition in checks:
        if check.kind == NOT_NULL:
            not_null.setdefault(condition, []).append(check)
        else:
            found.append(_check_condition(check, condition, target, parsed))
    return [*(_not_null_condition(of, condition, target.schema) for condition, of in not_null.items()), *found]


def _not_null_condition(checks: Sequence[Check], condition: str, schema: StructType) -> Expression:
    """All of them in one condition, as there may be many. The error names the first that is violated."""
    # A check's name is the path of its column.
    columns = [(check.name, Field(parse_name(check.name))) for check in checks]
    holds = every(*(is_not_null(column) for _, column in columns))
    assert holds is not None
    violated = Case(tuple((IsNull(column), Text(name)) for name, column in columns))
    shown = [column for column in schema if _shown(column)][:_MOST_SHOWN]
    return when(holds, TRUE, row_error(condition, {"columnName": violated}, shown))


def _check_condition(check: Check, condition: str, target: Target, parsed: Parsed) -> Expression:
    name = Text(check.name)
    shown = [column for column in _mentioned(check.text, target.schema) if has_text(column.type)]
    fill = {"constraintName": name, "columnName": name, "expression": Text(check.text)}
    return when(_holds(check, target, parsed), TRUE, row_error(condition, fill, shown))


def _holds(check: Check, target: Target, parsed: Parsed) -> Expression:
    if check.kind != GENERATED:
        return parsed(check.sql)
    column = target.schema.find(check.name)
    assert column is not None
    value: Expression = Cast(parsed(check.sql), column.type)
    if column in columns_stored_otherwise(target.definition):
        value = as_stored(value)
    return infix("<=>", Column(column.name), value)


def row_error(condition: str, fill: Mapping[str, Expression], shown: Sequence[StructField] = ()) -> Expression:
    """Ends the statement with an error condition, its message filled with expressions and a row's columns."""
    message = conditions()[condition]
    lines = message["message"]
    template = "\n".join(lines) if isinstance(lines, list) else str(lines)
    values: list[Expression] = []
    for column in shown:
        shown_text: Expression = Cast(Column(column.name), PrimitiveType("string"))
        if not _shown(column):
            shown_text = call("substring", shown_text, Number(1), Number(_LONGEST_SHOWN))
        value = call("coalesce", shown_text, Text("null"))
        values += [Text(f" - {column.name} : "), value, Text("\n")]
    parts: list[Expression] = []
    for text in re.split(r"(<\w+>)", template):
        name = text[1:-1] if text.startswith("<") else ""
        if name == "values":
            parts += values
        elif name in fill:
            parts.append(fill[name])
        elif text:
            parts.append(Text(text))
    return call("raise_row_error", Text(condition), Text(str(message["sqlState"])), call("concat", *parts))


def _mentioned(sql: str, schema: StructType) -> list[StructField]:
    """The columns whose names occur in a condition: what a user needs to see of a row that violates it."""
    folded = sql.lower()
    return [f for f in schema if re.search(rf"(?<!\w){re.escape(f.name.lower())}(?!\w)", folded)]


def has_text(kind: DataType) -> bool:
    """Whether a value, or each of its elements and fields, has a text that people can read."""
    match kind:
        case StructType():
            return all(has_text(field.type) for field in kind)
        case ArrayType():
            return has_text(kind.element)
        case MapType():
            return has_text(kind.key) and has_text(kind.value)
    return _shown(StructField("", kind))


def _shown(column: StructField) -> bool:
    is_primitive = isinstance(column.type, PrimitiveType) and column.type.name not in ("void", "binary", "variant")
    return is_primitive or isinstance(column.type, DecimalType)


def is_void(column: StructField) -> bool:
    """Whether a column has only nulls, which no file holds."""
    return column.type == PrimitiveType("void")


def specification(target: Target, query: Query, options: Options, *, is_gathered: bool = False) -> WriteSpecification:
    """A write job, as Spark's side takes it.

    :param is_gathered: whether the query gathers its rows, for an optimized write.
    """
    mode = target.definition.mapping_mode
    stored = without_void(target.schema)
    physical = {f.name.lower(): f.physical_name for f in target.schema}
    codec = options.get("compression") or target.definition.get(properties.COMPRESSION_CODEC) or None
    shreds = target.definition.get(properties.VARIANT_SHREDDING)
    kept = {"maxRecordsPerFile": options.get("maxrecordsperfile"), "compression": codec}
    partition_by = [
        physical[name.lower()] if mode != "none" else _cased(stored, name) for name in target.partition_columns
    ]
    in_files = target.definition.has_partition_columns_in_files
    return WriteSpecification(
        path=target.path,
        query=query.text(),
        schema=schema_string(file_schema(stored, mode)),
        partition_by=partition_by,
        partitions_in_files=partition_by if in_files else [],
        statistics=[list(path) for path, _ in statistics_leaves(target)],
        small_job=SMALL_JOB,
        settings=GATHERING_SETTINGS if is_gathered else {},
        # Partition values of timestamps are text in UTC, whatever the session's time zone.
        options={
            "timeZone": "UTC",
            **({} if shreds else _UNSHREDDED),
            **(_SMALL_PAGES if indexes(target.definition) else {}),
            **{k: v for k, v in kept.items() if v is not None},
        },
    )


def _cased(schema: StructType, name: str) -> str:
    found = schema.find(name)
    return found.name if found is not None else name


def file_schema(schema: StructType, mode: str) -> StructType:
    """The schema of data files: with column mapping, physical names and field ids; no metadata of the table's."""

    def as_in_files(column: StructField, _: Any) -> StructField:
        if mode == "none":
            return replace(column, metadata={}, nullable=True)
        ids: dict[str, Any] = {}
        if COLUMN_ID in column.metadata:
            ids[PARQUET_FIELD_ID] = int(column.metadata[COLUMN_ID])
        if column.metadata.get(NESTED_IDS):
            ids[_PARQUET_NESTED_IDS] = column.metadata[NESTED_IDS]
        return replace(column, name=column.physical_name, metadata=ids, nullable=True)

    return map_fields(schema, as_in_files)


def statistics_leaves(target: Target) -> list[tuple[tuple[str, ...], Any]]:
    """The leaves whose statistics a file of the table has: physical path and type."""
    leaves = target.definition.indexed_leaves
    known = {path for path, _ in leaves}
    # The high-water mark of an identity column is read from its files' statistics.
    for column in identity_columns(target.schema):
        stored = target.schema.find(column.name)
        if stored is not None and (stored.physical_name,) not in known:
            leaves.append(((stored.physical_name,), stored.type))
    return leaves


def partition_values(schema: StructType, texts: Mapping[str, str | None]) -> dict[str, str | None]:
    """Partition values as the log has them, of those in a written file's path."""
    by_physical = {f.physical_name: f for f in schema} | {f.name: f for f in schema}
    return {name: _partition_text(by_physical[name], text) for name, text in texts.items()}


def _partition_text(column: StructField, text: str | None) -> str | None:
    if text is not None and column.type == PrimitiveType("binary") and "\ufffd" in text:
        raise HeadwaterError("DELTA_PARTITION_VALUE_NOT_TEXT", {"columnName": column.name})
    if text is None or column.type != PrimitiveType("timestamp"):
        return text
    # `2020-01-01 00:00:00` in UTC becomes the unambiguous form readers need no time zone for.
    whole, _, fraction = text.partition(".")
    return f"{whole.replace(' ', 'T')}.{fraction.ljust(6, '0')}Z"
