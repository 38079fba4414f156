"""Which of a table's computed columns each file has that COPY INTO loads.

Owns the question by format. A column that a file lacks is computed for its rows, so this must not depend on the files
that are read with it. Promises:

1. A file has a column if Spark's reader finds it in the file alone. Parquet files say so in their footers, which tasks
   read; files of JSON and XML by any of their rows, in one query over all of them. ORC files are opened one by one.
2. Nothing is read twice if no file has a computed column, or if there is one file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from urllib.parse import unquote

from msgspec import structs

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.load import SourceFiles
from headwater.bridge.statement import Statement
from headwater.protocol.types import PrimitiveType, StructField, StructType, parse_schema, schema_string
from headwater.sql.composing import Alias, Column, Field, Relation, call, is_not_null, select
from headwater.statements.writes.source_files import SourceFile, plain_path, url_path

_Finds = Callable[[Sequence[SourceFile], StructType, SourceFiles, Statement], list[frozenset[str]]]


def computed_in_files(
    files: Sequence[SourceFile], found: StructType, computed: frozenset[str], source: SourceFiles, statement: Statement
) -> list[frozenset[str]]:
    """The names in lower case, among those of computed columns, that each file has columns of.

    :param files: with content.
    :param found: the columns of all files, as Spark found them.
    :param source: how the files are read.
    """
    some = StructType(tuple(column for column in found if column.name.lower() in computed))
    if not computed or len(files) == 1 or not some.fields and finds_all(source):
        return [_names(some)] * len(files)
    return [names & computed for names in _FINDS[source.format](files, some, source, statement)]


def may_differ(format_name: str) -> bool:
    """Whether files of a format that are read together may have other columns than those that Spark found."""
    return format_name in _FINDS


def finds_all(source: SourceFiles) -> bool:
    """Whether Spark finds the columns of all files that it reads together, not of one file."""
    merges = {name.lower(): value for name, value in source.options.items()}.get("mergeschema", "")
    return source.format in ("json", "xml") or source.format in ("parquet", "orc") and merges.lower() == "true"


def _by_footers(
    files: Sequence[SourceFile], _: StructType, source: SourceFiles, statement: Statement
) -> list[frozenset[str]]:
    places = [(url_path(file.path), file.size) for file in files]
    answer = statement.footers("", places, [])
    schemas = [_names(parse_schema(schema)) for schema in answer.schemas]
    return [
        # Spark's reader may open files that tasks cannot, or says why it cannot either.
        _alone(file, source, statement) if footer.problem else schemas[footer.schema]
        for file, footer in zip(files, answer.files, strict=True)
    ]


def _one_by_one(
    files: Sequence[SourceFile], _: StructType, source: SourceFiles, statement: Statement
) -> list[frozenset[str]]:
    return [_alone(file, source, statement) for file in files]


def _alone(file: SourceFile, source: SourceFiles, statement: Statement) -> frozenset[str]:
    options = {name: value for name, value in source.options.items() if name.lower() != "mergeschema"}
    plan = statement.add_source(structs.replace(source, paths=[file.path], options={**options, "mergeSchema": "false"}))
    return _names(parse_schema(statement.plan_schema(plan)))


def _by_rows(
    files: Sequence[SourceFile], found: StructType, source: SourceFiles, statement: Statement
) -> list[frozenset[str]]:
    # A VARIANT keeps the nulls that JSON writes, and a STRING the empty elements of XML if no text stands for nulls.
    kind = PrimitiveType("variant" if source.format == "json" else "string")
    options = {name: value for name, value in source.options.items() if name.lower() != "nullvalue"}
    schema = schema_string(StructType(tuple(StructField(column.name, kind) for column in found)))
    paths = [file.path for file in files]
    plan = statement.add_source(structs.replace(source, paths=paths, schema=schema, options=options))
    path = Field(("_metadata", "file_path"))
    named = [Alias(call("max", is_not_null(Column(c.name))), f"has_{n}") for n, c in enumerate(found)]
    rows = statement.query(select(Alias(path, "path"), *named, rows=Relation(plan), group_by=[path]).text())
    have: Mapping[str, frozenset[str]] = {
        plain_path(unquote(row["path"])): frozenset(c.name.lower() for n, c in enumerate(found) if row[f"has_{n}"])
        for row in rows
    }
    if unknown := have.keys() - set(paths):
        raise HeadwaterError("HEADWATER_COPY_FILE_NOT_READ", {"path": min(unknown)})
    return [have.get(file.path, _names(found)) for file in files]  # a file without rows may have any


_FINDS: Mapping[str, _Finds] = {
    "parquet": _by_footers,
    "orc": _one_by_one,
    "json": _by_rows,
    "xml": _by_rows,
}


def _names(columns: StructType) -> frozenset[str]:
    return frozenset(column.name.lower() for column in columns)
