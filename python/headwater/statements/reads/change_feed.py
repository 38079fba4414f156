"""Reading changes: ``table_changes``, the option ``readChangeFeed`` and CHANGES FROM for the change data feed,
``table_changelog`` and the option ``readChangelog`` for the changelog, ``table_debezium`` and the option
``changelogFormat`` for its events.

Owns what these share: the bounds as the user wrote them, and the answer from which the JVM builds a relation.
Promise: the range and its files are fixed when the query is analyzed. Later versions are not in it, and a file that
VACUUM deleted meanwhile is an error when it is read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import NoReturn

from headwater.basics.errors import HeadwaterError, illegal_option
from headwater.basics.times import timestamp_text
from headwater.bridge.messages.read import (
    AsksForChangesRequest,
    BoundsOfCallRequest,
    CallBounds,
    ChangeGroup,
    ChangesAnswer,
    ChangesBound,
    ChangesForm,
    CheckChangeFilesRequest,
    FunctionArgument,
    TableChangesRequest,
)
from headwater.bridge.statement import Statement
from headwater.change_data.bounds import Bound, resolve
from headwater.change_data.changelog import (
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    check_names,
    file_order,
    key_columns,
)
from headwater.change_data.feed import open_feed
from headwater.change_data.files import ChangedFile, file_not_found
from headwater.change_data.kinds_in_files import versions_with_unpaired_images
from headwater.change_data.schemas import VersionedDefinition
from headwater.log.history import CommitTimes
from headwater.log.segment import list_log
from headwater.log.snapshot import Snapshot
from headwater.protocol.actions import DeletionVector
from headwater.protocol.columns import format_name, parse_name_list
from headwater.protocol.partition_values import text_of
from headwater.protocol.types import PrimitiveType, StructField, StructType, schema_string
from headwater.schema import visible
from headwater.statements import notices
from headwater.statements.calls import call, reads
from headwater.statements.files.file_lists import MOST_FILES_CHECKED, describe_vector
from headwater.statements.reads import changelog, debezium
from headwater.statements.running.opening import Options, check_retention, open_snapshot
from headwater.statements.settings import CHANGES_OUT_OF_RANGE, IGNORE_MISSING_FILES, SCHEMA_MODE
from headwater.stores import Store, absolute_path

_CHANGE_COLUMNS = (
    StructField(CHANGE_TYPE, PrimitiveType("string")),
    StructField(COMMIT_VERSION, PrimitiveType("long")),
    StructField(COMMIT_TIMESTAMP, PrimitiveType("timestamp")),
)
#: The options that ask for a changelog, and that name its key columns.
READ_CHANGELOG, KEY_COLUMNS = "readChangelog", "idCols"
#: The options that say in which form its rows come, and whether deletions are followed by tombstones.
FORMAT, TOMBSTONES = "changelogFormat", "tombstones"
#: The most arguments of a call, and words for it: of the change feed, and of the changelog.
_LONGEST_CALL = ((3, "two or three", "the end"), (4, "two to four", "the end and the key columns"))
_DEBEZIUM = "debezium"
_FORMATS = ("rows", _DEBEZIUM)
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_TIMES = ("string", "timestamp", "timestamp_ntz", "date")


@call(commits=False, in_transaction=False, words="A read of changes")
def table_changes(request: TableChangesRequest, statement: Statement) -> ChangesAnswer:
    """The changes of a table as groups of files, which a relation each reads.

    :raises HeadwaterError: those of the bounds and of opening the feed.
    """
    if request.time_travel:
        raise HeadwaterError("DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS", {"tableName": request.table})
    if request.deduplication_mode == "netChanges":
        raise HeadwaterError("DELTA_CHANGELOG_UNSUPPORTED_OPTION", {"option": "deduplicationMode = netChanges"})
    asked = _asked(request.bounds)
    try:
        snapshot = open_snapshot(request.table, statement)
    except HeadwaterError as error:
        if error.condition != "DELTA_TABLE_NOT_FOUND":
            raise
        raise HeadwaterError("DELTA_MISSING_DELTA_TABLE", error.parameters) from None
    times = CommitTimes(
        list_log(snapshot.table_path, snapshot.store), snapshot.metadata, snapshot.store, snapshot.version
    )
    versions = resolve(*asked, times, snapshot.version, may_be_after_latest=CHANGES_OUT_OF_RANGE.of(statement))
    if versions is None:
        return _empty(snapshot, request.form)
    # VACUUM counts the age of change data, and of the files that the first version removed, from that version itself.
    check_retention(snapshot, versions.first, times.of(versions.first), statement)
    feed = open_feed(
        versions,
        snapshot,
        times,
        lambda version: open_snapshot(request.table, statement, version),
        SCHEMA_MODE.of(statement),
    )
    return describe_feed(
        snapshot.table_path,
        snapshot.store,
        feed.definition,
        feed.files,
        feed.timestamps,
        versions.last,
        request.form,
    )


@reads
def bounds_of_call(request: BoundsOfCallRequest, statement: Statement) -> CallBounds:
    """The table, bounds and form of ``table_changes('name', start [, end])``, of ``table_changelog('name', start
    [, end] [, keys])``, of ``table_debezium`` with the same arguments, or of one of them by path.

    The third argument of a changelog is its keys where it is an array, or a text that is no time.

    :raises HeadwaterError: ``INCORRECT_NUMBER_OF_ARGUMENTS``, ``DELTA_UNSUPPORTED_EXPRESSION``,
        ``DELTA_CDC_NON_CONSTANT_ARGUMENT``; those of :func:`key_list`.
    """
    function, arguments = request.function, request.arguments
    is_changelog = not function.startswith("table_changes")
    most, allowed, optional = _LONGEST_CALL[is_changelog]
    if not 2 <= len(arguments) <= most:
        raise HeadwaterError(
            "INCORRECT_NUMBER_OF_ARGUMENTS",
            {"functionName": function, "found": len(arguments), "allowed": allowed, "optional": optional},
        )
    for position, argument in enumerate(arguments, 1):
        if not argument.constant:
            raise HeadwaterError(
                "DELTA_CDC_NON_CONSTANT_ARGUMENT",
                {"pos": position, "functionName": function, "sqlExpr": argument.sql},
            )
    table, *given = arguments
    if table.type != "string" or table.value is None:
        _unsupported(table, "table", "a string")
    keys = None
    if is_changelog and (len(given) == 3 or (len(given) == 2 and _names_keys(given[1]))):
        keys = _keys_of(given.pop())
    bounds = []
    for name, argument in zip(("starting", "ending"), given, strict=False):
        if argument.value is not None and argument.type in _INTEGERS:
            kind = "Version"
        elif argument.value is None or argument.type in _TIMES:
            kind = "Timestamp"
        else:
            _unsupported(argument, name.removesuffix("ing"), "a whole number, a string or a timestamp")
        bounds.append(ChangesBound(name=f"{name}{kind}", value=argument.value, micros=argument.micros))
    form = ChangesForm(changelog=is_changelog, keys=keys, debezium=function.startswith("table_debezium"))
    return CallBounds(table=table.value, bounds=bounds, form=form)


def _names_keys(argument: FunctionArgument) -> bool:
    is_text = argument.type == "string" and argument.value is not None
    return argument.elements is not None or (is_text and argument.micros is None)


def _keys_of(argument: FunctionArgument) -> list[str]:
    if argument.elements is not None:
        return argument.elements
    if argument.type != "string" or argument.value is None:
        _unsupported(argument, "keys", "a string of column names with commas between them, or an array of names")
    return key_list(argument.value)


def key_list(text: str) -> list[str]:
    """The names in a list of key columns with commas between them, names of odd characters in backticks.

    :raises HeadwaterError: ``HEADWATER_KEY_COLUMN_NESTED``; those of parsing names.
    """
    paths = parse_name_list(text)
    for path in paths:
        if len(path) > 1:
            raise HeadwaterError("HEADWATER_KEY_COLUMN_NESTED", {"columnName": format_name(path), "outer": path[0]})
    return [path[0] for path in paths]


@reads
def asks_for_changes(request: AsksForChangesRequest, statement: Statement) -> ChangesForm | None:
    """The form of the changes that a reader's options ask for; None if they ask for none.

    :raises HeadwaterError: as :func:`asked_form`.
    """
    return asked_form(Options(request.options))


def asked_form(options: Options) -> ChangesForm | None:
    """The form of changes that the options of a batch or of a stream ask for; None if they ask for none.

    :raises HeadwaterError: ``DELTA_ILLEGAL_OPTION``, ``HEADWATER_CHANGELOG_AND_CHANGE_FEED``; those of
        :func:`key_list`.
    """
    feed = bool(options.flag("readChangeFeed")) or bool(options.flag("readChangeData"))
    form = options.get(FORMAT.lower())
    if not options.flag(READ_CHANGELOG):
        if form is not None:
            raise illegal_option(FORMAT, form, f"says how a changelog is read: set {READ_CHANGELOG} to true as well")
        return ChangesForm() if feed else None
    if feed:
        raise HeadwaterError("HEADWATER_CHANGELOG_AND_CHANGE_FEED", {})
    if form is not None and form.strip().lower() not in _FORMATS:
        raise illegal_option(FORMAT, form, f"must be {' or '.join(_FORMATS)}")
    keys = options.get(KEY_COLUMNS.lower())
    return ChangesForm(
        changelog=True,
        keys=None if keys is None else key_list(keys),
        debezium=form is not None and form.strip().lower() == _DEBEZIUM,
        tombstones=options.flag(TOMBSTONES) is not False,
    )


@call(commits=False, in_transaction=False, words="A read of changes")
def check_change_files(request: CheckChangeFilesRequest, statement: Statement) -> None:
    """Name a file of a scan that is gone before any task looks for it; only where looking is cheap.

    :raises HeadwaterError: ``DELTA_CHANGE_DATA_FILE_NOT_FOUND``.
    """
    if IGNORE_MISSING_FILES.of(statement):
        return
    for file in request.files:
        for needed in (file.path, *_vector_files(file.rows)):
            if needed.startswith("/") and not os.path.exists(needed):
                raise file_not_found(file.version, needed, request.table)


def _unsupported(argument: FunctionArgument, name: str, supported: str) -> NoReturn:
    raise HeadwaterError(
        "DELTA_UNSUPPORTED_EXPRESSION",
        {"expType": argument.type.upper(), "causedBy": name, "supportedTypes": supported},
    )


def _asked(given: Sequence[ChangesBound]) -> tuple[Bound, Bound | None]:
    """The two bounds of a read.

    :raises HeadwaterError: ``DELTA_MULTIPLE_CDC_BOUNDARY``, ``DELTA_NO_START_FOR_CDC_READ`` and those of a bound.
    """
    found: dict[str, list[ChangesBound]] = {"starting": [], "ending": []}
    for bound in given:
        found["starting" if bound.name.lower().startswith("starting") else "ending"].append(bound)
    for side, several in found.items():
        if len(several) > 1:
            raise HeadwaterError("DELTA_MULTIPLE_CDC_BOUNDARY", {"startingOrEnding": side})
    if not found["starting"]:
        raise HeadwaterError("DELTA_NO_START_FOR_CDC_READ", {})
    start = _bound(found["starting"][0])
    return start, _bound(found["ending"][0]) if found["ending"] else None


def _bound(given: ChangesBound) -> Bound:
    value, inclusive = given.value, given.inclusive
    if value is None:
        raise HeadwaterError("DELTA_CDC_READ_NULL_RANGE_BOUNDARY", {})
    if given.name.lower().endswith("version"):
        text = value.strip()
        if not (text.isascii() and text.isdigit()):
            raise HeadwaterError("DELTA_VERSION_INVALID", {"version": value})
        return Bound(version=int(text), inclusive=inclusive)
    if given.micros is None:
        raise HeadwaterError("DELTA_TIMESTAMP_INVALID", {"expr": value})
    return Bound(timestamp=int(given.micros), inclusive=inclusive)


def _empty(snapshot: Snapshot, form: ChangesForm) -> ChangesAnswer:
    if form.keys is not None:
        key_columns(form.keys, snapshot.schema, snapshot.table_path)
    schema = schema_string(columns_of_changes(snapshot.schema, form, snapshot.table_path))
    return ChangesAnswer(
        path=snapshot.table_path,
        table_id=snapshot.metadata.id,
        version=snapshot.version,
        schema=schema,
        file_schema=schema,
        table_schema=schema_string(snapshot.schema),
        column_mapping_mode="none",
        most_files_checked=MOST_FILES_CHECKED,
        groups=[],
    )


def columns_of_changes(schema: StructType, form: ChangesForm, table: str) -> StructType:
    """A table's columns with those that say what changed and when and, in a changelog, in which order; the columns of
    events where a form has these.

    :raises HeadwaterError: ``HEADWATER_CHANGELOG_COLUMN_TAKEN``.
    """
    if form.changelog:
        check_names(schema, table)
    if form.debezium:
        return debezium.COLUMNS
    feed = (*visible.for_reading(schema), *_CHANGE_COLUMNS)
    return StructType((*feed, *changelog.COLUMNS) if form.changelog else feed)


def describe_feed(
    table_path: str,
    store: Store,
    definition: VersionedDefinition,
    files: Sequence[ChangedFile],
    timestamps: Mapping[int, int],
    last: int,
    form: ChangesForm,
    *,
    in_order: bool = False,
) -> ChangesAnswer:
    """Changes up to the version ``last`` as groups of files, read with a definition.

    :param in_order: whether the rows of a changelog are sorted.
    :raises HeadwaterError: those of :func:`~headwater.statements.reads.changelog.key_columns`.
    """
    schema = definition.schema
    columns = columns_of_changes(schema, form, table_path)
    feed = columns_of_changes(schema, ChangesForm(), table_path)
    names = changelog.ChangelogNames(feed) if form.changelog else None
    partition_columns = list(definition.metadata.partition_columns)
    physical = [field.physical_name for name in partition_columns if (field := schema.find(name)) is not None]
    groups: list[ChangeGroup] = []
    paired: list[bool | None] = []
    # A changelog reads files of pairs apart, so that no row has to say of which kind its file is.
    for is_paired, some in _grouped(files, by_pairs=form.changelog):
        constants = [] if is_paired is not None else [CHANGE_TYPE]
        order = [] if names is None else [names.order]
        paired.append(is_paired)
        listed = [_listed(f, physical, table_path, timestamps[f.version], has_order=form.changelog) for f in some]
        group = ChangeGroup(
            partition_columns=[*partition_columns, *constants, *order, COMMIT_VERSION, COMMIT_TIMESTAMP],
            files=listed,
            size_in_bytes=sum(file.size for file in some),
            has_deletion_vectors=any(file.without or file.only for file in some),
        )
        groups.append(group)
    query = None
    if names is not None:
        keys = [] if form.keys is None else key_columns(form.keys, schema, table_path)
        if not keys and (versions := versions_with_unpaired_images(files, table_path, store)):
            notices.of_unpaired_images(table_path, versions)
        rows = changelog.compose(feed, names, COMMIT_VERSION, paired, keys, in_order=in_order and not form.debezium)
        if form.debezium:
            own = visible.for_reading(schema).fields
            rows = debezium.compose(rows, own, keys, table=table_path, tombstones=form.tombstones)
        query = rows.text()
    return ChangesAnswer(
        path=table_path,
        table_id=definition.metadata.id,
        version=last,
        schema=schema_string(columns),
        file_schema=schema_string(feed if names is None else StructType((*feed, *names.in_files))),
        position_column=None if names is None else names.position,
        query=query,
        table_schema=schema_string(schema),
        column_mapping_mode=definition.mapping_mode,
        most_files_checked=MOST_FILES_CHECKED,
        groups=groups,
    )


def _grouped(files: Sequence[ChangedFile], *, by_pairs: bool) -> Iterator[tuple[bool | None, list[ChangedFile]]]:
    """Groups of files: data files, then change data files, of which those of pairs may come apart. Each group with
    whether its images are paired; None if it has none.
    """
    groups: dict[bool | None, list[ChangedFile]] = {None: [], False: [], True: []}
    for file in files:
        groups[None if file.change_type is not None else file.is_paired and by_pairs].append(file)
    return ((is_paired, some) for is_paired, some in groups.items() if some)


def _listed(
    file: ChangedFile, partition_names: Sequence[str], table_path: str, timestamp: int, *, has_order: bool
) -> list[str | int | None]:
    """A file as the JVM's lists have it: path, size, time, deletion vector, then the partition columns as texts."""
    return [
        absolute_path(table_path, file.path),
        file.size,
        timestamp if file.modification_time is None else file.modification_time,
        _rows(file, table_path),
        *(text_of(file.partition_values, name) for name in partition_names),
        *([] if file.change_type is None else [file.change_type]),
        *([str(file_order(file.number))] if has_order else []),
        str(file.version),
        f"{timestamp_text(timestamp * 1000, digits=3)}Z",
    ]


def _rows(file: ChangedFile, table_path: str) -> str | None:
    """Which rows to read: a deletion vector as in any scan, or a list of two, of rows to read and of rows not to."""
    without = None if file.without is None else _vector(file.without, table_path)
    if file.only is None:
        return without
    return json.dumps([_vector(file.only, table_path), without])


def _vector(vector: DeletionVector, table_path: str) -> str:
    return describe_vector(table_path, asdict(vector))


def _vector_files(rows: str | None) -> list[str]:
    """The files of deletion vectors that reading a file's rows needs, from what :func:`_rows` gave."""
    if rows is None:
        return []
    vectors = json.loads(rows) if rows.startswith("[") else [rows]
    return [v.split(" ", 2)[2] for v in vectors if v is not None and not v.startswith("inline ")]
