"""Messages of defining tables: CREATE, ALTER, DROP FEATURE, SHOW; of the parser; the answer of every commit."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from headwater.bridge.messages import Answer, Int, Options, PassedOn, Request


class CommitAnswer(Answer, kw_only=True):
    """What every statement that may commit answers.

    :param version: the version it made, or found where it made none.
    :param skipped: whether the write was in the table already.
    :param counts: for a DELETE, UPDATE or MERGE: how many rows it affected, then, for a MERGE, how many it updated,
        deleted and inserted.
    :param rows: as of :class:`RowsAnswer`, for a statement that has rows and may commit.
    """

    version: int
    skipped: bool = False
    counts: list[int] | None = None
    rows: list[dict[str, Any]] | None = None


class MadeCommit(Answer, kw_only=True):
    """What a commit did to a table, for those that watch Spark: a listener of lineage.

    :param table: the table's path, as its store spells it.
    :param metrics: those of the history that are numbers.
    :param rows: how many rows the statement has written or, if it wrote none, deleted; None if nobody has counted.
    :param size: the bytes of the files it added, ``files`` their number; None if nobody has counted.
    :param copies: whether rows that it wrote were the table's own, as those of OPTIMIZE are.
    :param change: what became of the table or of all of its rows: ``CREATE``, ``OVERWRITE``, ``TRUNCATE``; or None.
    """

    table: str
    version: int
    operation: str
    metrics: dict[str, int]
    rows: int | None = None
    size: int | None = None
    files: int | None = None
    copies: bool = False
    change: str | None = None


class ParsedStatementRequest(Request, kw_only=True):
    """A statement that this process has parsed, and that only reads or is about no table. Each has a subclass, which
    says what ``arguments`` are: those of its :class:`ParsedStatement`.

    :param table: the table's path; empty for a statement about none.
    :param name: what the statement calls it.
    """

    table: str
    name: str
    arguments: PassedOn


class ParsedChangeRequest(Request, kw_only=True):
    """The same of a statement that may commit."""

    table: str
    name: str
    arguments: PassedOn


class TableConstraint(Request, kw_only=True):
    """A constraint that a table declares or has.

    :param kind: ``check``, ``expect``, ``primary_key``, ``foreign_key``, or the SQL of a constraint of another kind.
    :param expression: what a CHECK or an expectation asks of each row.
    :param columns: those of a key.
    :param references: the parts of the name of the table that a foreign key refers to, or that an expectation puts
        rows into.
    :param referenced: the columns of that table; none for those of its primary key.
    :param rely: whether an optimizer may rely on a key.
    :param enforced: whether a primary key is enforced.
    :param on_violation: what becomes of a row that does not meet an expectation; None if it is kept.
    """

    kind: str
    name: str | None = None
    expression: str | None = None
    columns: list[str] = []
    references: list[str] = []
    referenced: list[str] = []
    rely: bool = False
    enforced: bool = False
    on_violation: str | None = None


class IdentitySpecification(Request, kw_only=True):
    """How an identity column is numbered."""

    column: str
    start: int
    step: int
    allow_explicit_insert: bool


class CreatedTableRequest(Request, kw_only=True):
    """Asks for a table that the session's open transaction creates. The answer is :class:`CreatedTable`.

    :param identifier: its namespace and its name in the session catalog.
    """

    identifier: list[str]


class CreatedTable(Answer, kw_only=True):
    """A table that a transaction creates, and what the session catalog's entry of it will say.

    :param identifier: its namespace and its name.
    :param table: its path; None if there is no such table.
    :param external: whether the user said where it is.
    """

    identifier: list[str]
    table: str | None = None
    external: bool = False
    comment: str | None = None


class CreateTableRequest(Request, kw_only=True):
    """Creates or replaces a table, with rows or without.

    :param table: where it will be.
    :param name: its name in the catalog; None for a table that is only a path.
    :param identifier: its namespace and name, where the session catalog is to have an entry of it.
    :param mode: ``create``, ``replace`` or ``create_or_replace``.
    :param known: whether the catalog has the name, at this place; true for a table that is only a path.
    :param external: whether the user said where it is.
    :param schema: the columns that are declared.
    :param partitioning: all of PARTITIONED BY and CLUSTER BY, as Spark describes them.
    :param partition_columns: the columns of PARTITIONED BY.
    :param like: the path of the table whose definition is copied.
    :param generated: the expressions of generated columns, by column.
    :param plan: the number of the plan that has the rows; None for a table without rows.
    :param row_schema: the columns of the rows.
    :param save_mode: for a save by path: the writer's mode. The statement is then a ``WRITE`` in the table's history.
    :param options: the writer's options.
    """

    table: str
    name: str | None = None
    identifier: list[str] = []
    mode: str
    known: bool = True
    external: bool = False
    schema: str
    partitioning: list[str] = []
    partition_columns: list[str]
    comment: str | None = None
    properties: dict[str, str] = {}
    like: str | None = None
    constraints: list[TableConstraint] = []
    identity: list[IdentitySpecification] = []
    generated: dict[str, str] = {}
    plan: Int | None = None
    row_schema: str | None = None
    save_mode: str | None = None
    options: Options = {}


class CatalogPartition(Request, kw_only=True):
    """A partition that a catalog has of a table: where it lies, and its values by column, texts as in a path."""

    location: str
    values: dict[str, str | None]


class CatalogEntry(Request, kw_only=True):
    """What a catalog says of a table of another format.

    :param schema: JSON, partition columns included.
    :param partitions: None for a table that is not partitioned, or whose folders alone show its partitions.
    """

    name: str
    schema: str
    partition_columns: list[str]
    properties: dict[str, str] = {}
    partitions: list[CatalogPartition] | None = None


class CloneArguments(PassedOn, kw_only=True):
    """What CLONE is asked beside its tables.

    :param is_shallow: whether the files stay where they are.
    :param version: of the source, Spark SQL; None if the statement names none.
    :param timestamp: the same for a time.
    :param statistics: whether files that are no Delta table's get statistics.
    :param partitioned_by: the partition columns of a folder with such files and their types, as the statement has them;
        None without.
    """

    is_shallow: bool
    version: str | None = None
    timestamp: str | None = None
    statistics: bool = True
    partitioned_by: str | None = None


class CloneRequest(Request, kw_only=True):
    """CREATE TABLE … CLONE. ``arguments`` are those that the parser's answer had.

    :param table: where the new table will be.
    :param name: its name in the catalog; None for a table that is only a path.
    :param mode: ``create``, ``replace`` or ``create_or_replace``.
    :param known: whether the catalog has the name, at this place; true for a table that is only a path.
    :param external: whether the user said where it is.
    :param properties: of TBLPROPERTIES, over those of the source.
    :param source: the path of the table that is cloned.
    :param source_name: its name in the catalog; None for a table that is only a path.
    :param source_version: the version that its path names; None if it names none.
    :param format: of files that are no Delta table; None for a Delta table.
    :param entry: what the catalog has of such files; None for a folder that the statement names by its path.
    """

    table: str
    name: str | None = None
    mode: str
    known: bool = True
    external: bool = False
    properties: dict[str, str] = {}
    source: str
    source_name: str | None = None
    source_version: int | None = None
    format: str | None = None
    entry: CatalogEntry | None = None
    arguments: CloneArguments


class DefinitionChange(Request, tag_field="kind", kw_only=True):
    """One change of an ALTER TABLE; ``kind`` says which."""


class SetProperty(DefinitionChange, tag="set_property", kw_only=True):
    """SET TBLPROPERTIES, COMMENT ON TABLE (the property ``comment``)."""

    key: str
    value: str


class RemoveProperty(DefinitionChange, tag="remove_property", kw_only=True):
    """UNSET TBLPROPERTIES."""

    key: str


class ColumnPosition(Request, kw_only=True):
    """Where a column goes: after another one, or, where that is None, first."""

    after: str | None = None


class AddColumn(DefinitionChange, tag="add_column", kw_only=True):
    """ADD COLUMN.

    :param path: the names from the top level down.
    :param type: JSON of the type, CHAR and VARCHAR as ``string``.
    :param declared_type: the CHAR or VARCHAR it was declared as.
    :param position: None if the statement does not say.
    :param default: the SQL of its default.
    """

    path: list[str]
    type: str
    nullable: bool
    declared_type: str | None = None
    comment: str | None = None
    position: ColumnPosition | None = None
    default: str | None = None


class CommentColumn(DefinitionChange, tag="column_comment", kw_only=True):
    """COMMENT ON COLUMN, ALTER COLUMN … COMMENT."""

    path: list[str]
    comment: str | None


class AddConstraint(DefinitionChange, tag="add_constraint", kw_only=True):
    """ADD CONSTRAINT."""

    constraint: TableConstraint


class DropConstraint(DefinitionChange, tag="drop_constraint", kw_only=True):
    """DROP CONSTRAINT; ``cascade``: with the foreign keys that refer to it."""

    name: str
    if_exists: bool
    cascade: bool = False


class ClusterBy(DefinitionChange, tag="cluster_by", kw_only=True):
    """CLUSTER BY: paths of columns; none for CLUSTER BY NONE."""

    columns: list[list[str]]


class ChangeColumnType(DefinitionChange, tag="column_type", kw_only=True):
    """ALTER COLUMN … TYPE; ``type`` and ``declared_type`` as of :class:`AddColumn`."""

    path: list[str]
    type: str
    declared_type: str | None = None


class ChangeColumnNullability(DefinitionChange, tag="column_nullability", kw_only=True):
    """ALTER COLUMN … SET NOT NULL, DROP NOT NULL."""

    path: list[str]
    nullable: bool


class ChangeColumnDefault(DefinitionChange, tag="column_default", kw_only=True):
    """ALTER COLUMN … SET DEFAULT; DROP DEFAULT where ``default``, the SQL, is None."""

    path: list[str]
    default: str | None


class MoveColumn(DefinitionChange, tag="column_position", kw_only=True):
    """ALTER COLUMN … FIRST, AFTER."""

    path: list[str]
    position: ColumnPosition


class RenameColumn(DefinitionChange, tag="rename_column", kw_only=True):
    """RENAME COLUMN; ``new_name`` is that of the column itself, without the path to it."""

    path: list[str]
    new_name: str


class DropColumn(DefinitionChange, tag="drop_column", kw_only=True):
    """DROP COLUMN. REPLACE COLUMNS drops every column, then adds."""

    path: list[str]
    if_exists: bool = False


class UnsupportedChange(DefinitionChange, tag="unsupported", kw_only=True):
    """A change that cannot be made; ``change`` names it, as ``cluster_by``."""

    change: str


ColumnChange = (
    AddColumn
    | CommentColumn
    | ChangeColumnType
    | ChangeColumnNullability
    | ChangeColumnDefault
    | MoveColumn
    | RenameColumn
    | DropColumn
)
AnyTableChange = (
    SetProperty | RemoveProperty | ColumnChange | AddConstraint | DropConstraint | ClusterBy | UnsupportedChange
)


class AlterTableRequest(Request, kw_only=True):
    """Changes a table's definition."""

    table: str
    name: str | None = None
    changes: list[AnyTableChange]


class CheckSameSchemaRequest(Request, kw_only=True):
    """Checks that a table at another path has the same columns."""

    table: str
    other: str


class CheckSamePlaceRequest(Request, kw_only=True):
    """Checks that two spellings of a path, that of a table and that of LOCATION, are one place.

    :param name: the table's name in the catalog; None for a table that is only a path.
    """

    table: str
    other: str
    name: str | None = None


class SyncIdentityArguments(PassedOn, kw_only=True):
    """The path of the column of ALTER COLUMN … SYNC IDENTITY."""

    column: list[str]


class SyncIdentityRequest(ParsedChangeRequest, kw_only=True):
    """ALTER TABLE … ALTER COLUMN … SYNC IDENTITY."""

    arguments: SyncIdentityArguments


class DropFeatureArguments(PassedOn, kw_only=True):
    """What ALTER TABLE … DROP FEATURE is asked: the feature as it is written, and whether with TRUNCATE HISTORY."""

    feature: str
    truncate_history: bool = False


class DropFeatureRequest(ParsedChangeRequest, kw_only=True):
    """ALTER TABLE … DROP FEATURE."""

    arguments: DropFeatureArguments


class AddConstraintArguments(PassedOn, kw_only=True):
    """What ALTER TABLE … ADD CONSTRAINT is asked, where Spark does not parse it; as of :class:`TableConstraint`."""

    kind: str
    name: str | None = None
    expression: str | None = None
    columns: list[str] = []
    references: list[str] = []
    referenced: list[str] = []
    rely: bool = False
    enforced: bool = False
    on_violation: str | None = None


class AddConstraintRequest(ParsedChangeRequest, kw_only=True):
    """ALTER TABLE … ADD CONSTRAINT."""

    arguments: AddConstraintArguments


class DropConstraintArguments(PassedOn, kw_only=True):
    """What ALTER TABLE … DROP CONSTRAINT is asked, where Spark does not parse it."""

    name: str
    if_exists: bool = False
    cascade: bool = False


class DropConstraintRequest(ParsedChangeRequest, kw_only=True):
    """ALTER TABLE … DROP CONSTRAINT."""

    arguments: DropConstraintArguments


class DropKeyArguments(PassedOn, kw_only=True):
    """What ALTER TABLE … DROP PRIMARY KEY, or DROP FOREIGN KEY of ``columns``, is asked."""

    columns: list[str] | None = None
    if_exists: bool = False
    cascade: bool = False


class DropKeyRequest(ParsedChangeRequest, kw_only=True):
    """ALTER TABLE … DROP PRIMARY KEY, or DROP FOREIGN KEY."""

    arguments: DropKeyArguments


class ShowColumnsRequest(Request, kw_only=True):
    """SHOW COLUMNS; ``namespace`` is what IN or FROM adds to the table's name."""

    table: str
    namespace: list[str] | None = None
    name: str


class ShowCreateTableRequest(Request, kw_only=True):
    """SHOW CREATE TABLE; ``location`` is None for a managed table."""

    table: str
    name: str
    location: str | None = None


class SummarizeTablesRequest(Request, kw_only=True):
    """Asks what SHOW TABLE EXTENDED and DESCRIBE EXTENDED say of the newest versions of tables: their paths."""

    tables: list[str]


class TableSummary(Answer, kw_only=True):
    """What a table is and how large.

    :param rows: None if a file has no statistics.
    """

    schema: str
    partition_columns: list[str]
    description: str | None
    properties: dict[str, str]
    size_in_bytes: int
    rows: int | None


class TableSummaries(Answer, kw_only=True):
    """One for each table that was asked for; None for one that cannot be opened."""

    tables: list[TableSummary | None]


class ShowPartitionsRequest(Request, kw_only=True):
    """SHOW PARTITIONS; ``partition`` has the values that are asked for, by column."""

    table: str
    name: str
    partition: dict[str, str | None] | None = None


class RowsAnswer(Answer, kw_only=True):
    """The rows of a statement, each an object by column name. The statement's schema says how Spark reads values."""

    rows: list[dict[str, Any]]


class TransactionArguments(PassedOn, kw_only=True):
    """What BEGIN TRANSACTION is asked.

    :param isolation: ``serializable`` or ``snapshot``.
    :param script: whether a script (``BEGIN ATOMIC … END``) begins or ends the transaction, and not a statement.
        COMMIT and ROLLBACK have this argument as well.
    """

    isolation: Literal["serializable", "snapshot"] = "snapshot"
    script: bool = False


class TransactionRequest(ParsedStatementRequest, kw_only=True):
    """BEGIN TRANSACTION, COMMIT or ROLLBACK. It is about no table."""

    table: str = ""
    name: str = ""
    arguments: TransactionArguments


class ConvertArguments(PassedOn, kw_only=True):
    """What CONVERT TO DELTA is asked beside its table.

    :param statistics: whether the files get statistics.
    :param partitioned_by: the partition columns and their types, as the statement has them; None without.
    """

    statistics: bool = True
    partitioned_by: str | None = None


class ConvertRequest(Request, kw_only=True):
    """CONVERT TO DELTA. ``arguments`` are those that the parser's answer had.

    :param table: the folder with the files.
    :param format: of the files; None for a path that the statement names without one.
    :param entry: None for a folder that the statement names by its path.
    """

    table: str
    format: str | None = None
    entry: CatalogEntry | None = None
    arguments: ConvertArguments


class ParseRequest(Request, kw_only=True):
    """Asks whether a text is a statement that Spark's parser does not know."""

    text: str


class ParsedStatement(Answer, kw_only=True):
    """A statement that Spark's parser does not know.

    :param command: the call that runs it, as ``describe_history``.
    :param table: a table as it is written: a name, a path in quotes of any kind, or ``IDENTIFIER(…)``; empty for a
        statement about none.
    :param arguments: what that call is to be sent as ``arguments``; the JVM does not look into it.
    :param output: the schema of the rows it answers with; None for a statement without rows.
    :param may_commit: whether it changes the table.
    :param creates: for a statement that makes a new table of ``table``: the CREATE TABLE or REPLACE TABLE, as Spark
        parses it, that says which.
    """

    command: str
    table: str
    arguments: msgspec.Raw
    output: str | None
    may_commit: bool
    creates: str | None = None


class ParameterMarkersRequest(Request, kw_only=True):
    """Asks where a text has parameter markers. The answer is the text in pieces, of which each second is a marker."""

    text: str
