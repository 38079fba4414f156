"""The rows of the files that COPY INTO loads, read by Spark's own readers.

Owns with which options and columns files are read, and which of them together. Promises:

1. Files are read in as few parts as there must be for one reader to take each. In a part, a column has one type; in the
   rows of all parts, one to which the others are cast.
2. What a table does with the columns that a file lacks does not depend on the files that are read with it: the rows of
   files that have different computed columns come apart (:mod:`.source_parts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from msgspec import structs

from headwater.basics.errors import HeadwaterError, illegal_option
from headwater.bridge.messages.load import CopyArguments, SourceFiles
from headwater.bridge.statement import Statement
from headwater.protocol.columns import format_name
from headwater.protocol.partition_paths import values_of_directory
from headwater.protocol.types import StructField, StructType, is_nested, parse_schema, schema_string
from headwater.schema import visible
from headwater.schema.generated import generated_columns
from headwater.schema.identity import identity_columns
from headwater.statements.running.opening import Options
from headwater.statements.writes.source_columns import (
    FolderGroup,
    by_folders,
    computed_columns,
    folder_columns,
    merged_columns,
    of_lines,
    of_rows,
    values_of_folders,
)
from headwater.statements.writes.source_files import SourceFile, url_path
from headwater.statements.writes.source_parts import computed_in_files, finds_all, may_differ

#: Formats whose values are texts until a column says what they are.
_OF_TEXT = ("csv", "json", "xml")
#: Formats whose rows name their fields.
_OF_ROWS = ("json", "xml")
#: Spark's errors if files have a column with types that its reader does not merge, or names that differ in case alone.
_NOT_MERGED = ("CANNOT_MERGE_SCHEMAS", "COLUMN_ALREADY_EXISTS")
#: What the list of files has done with already, or what could leave out a file that then counts as loaded.
_OWN_OPTIONS = ("pathglobfilter", "modifiedafter", "modifiedbefore", "ignorecorruptfiles", "ignoremissingfiles",
                "recursivefilelookup", "path", "paths", "basepath", "__globpaths__")  # fmt: skip


class Part(NamedTuple):
    """Files that one reader takes together.

    :param plan: reads them with the columns that were found; None if it reads others too.
    :param found: their columns as Spark finds them, if it knows nothing of the table.
    :param columns: those that the files are read with, less those of folders.
    """

    files: Sequence[SourceFile]
    plan: int | None
    found: StructType
    columns: StructType


@dataclass(frozen=True)
class SourceRows:
    """The rows of files.

    :param name: of the table, as errors show it; ``table``: its columns.
    :param format: of the files, as Spark calls it; ``options``: those of the reader, as the user wrote them.
    :param folder: that the files lie in.
    """

    statement: Statement
    arguments: CopyArguments
    name: str
    table: StructType
    format: str
    options: Mapping[str, str]
    folder: str
    files: Sequence[SourceFile]

    def plans(self) -> list[int]:
        """The plans that read the files. The files of a plan have the same computed columns of the table."""
        self.statement.step("find the columns of the files")
        if self.arguments.select is not None:
            found = [plan for part in self._with_one_type(self._parts()) for plan in self._read(part)]
            if not found:
                return []
            return [self._selected(found[0] if len(found) == 1 else self.statement.add_sources(found))]
        return [plan for part in self._parts() for some in self._divided(part) for plan in self._read(some)]

    @cached_property
    def reader(self) -> Options:
        """The options of the reader."""
        return Options(self.options)

    @cached_property
    def _source(self) -> SourceFiles:
        """How files are read whose columns are not known; without files."""
        options = {name: value for name, value in self.options.items() if name.lower() not in _OWN_OPTIONS}
        asked = Options(options)
        defaults = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
        if self.format in _OF_TEXT and "mode" not in asked:
            defaults["mode"] = "FAILFAST"
        if self.format == "csv" and asked.flag("header") and "enforceschema" not in asked:
            defaults["enforceSchema"] = "false"
        if self.format == "orc" or self.format == "parquet" and "mergeschema" not in asked:
            # ORC's reader makes a null of a value that does not fit the type in the file whose columns are taken.
            options = {name: value for name, value in options.items() if name.lower() != "mergeschema"}
            defaults["mergeSchema"] = "true"
        if self.format == "avro":
            options = {name: value for name, value in options.items() if name.lower() != "ignoreextension"}
            defaults["ignoreExtension"] = "true"  # else its reader leaves out files with other names
        if self._by_rows and "samplingratio" in asked and self._computed:
            defaults["samplingRatio"] = "1.0"  # only what all rows say tells whether a default applies
            options = {name: value for name, value in options.items() if name.lower() != "samplingratio"}
        return SourceFiles(format=self.format, paths=[], schema=None, options={**options, **defaults})

    @property
    def _by_rows(self) -> bool:
        return self.format in _OF_ROWS and not self.reader.get("singlevariantcolumn")

    @property
    def _corrupt(self) -> str:
        return self.reader.get("columnnameofcorruptrecord", "_corrupt_record")

    @cached_property
    def _computed(self) -> frozenset[str]:
        """The names of the table's computed columns in lower case."""
        return frozenset(column.name.lower() for column in computed_columns(self.table))

    @cached_property
    def _folder_values(self) -> dict[str, list[str | None]]:
        """The values of the columns of the files' folders. However the files are divided, a column has one type."""
        return {} if self.reader.flag("recursiveFileLookup") else values_of_folders(self.files)

    # -- Parts --------------------------------------------------------------------------------------------------------

    def _parts(self) -> list[Part]:
        """The files in as few parts as there must be for one reader to take each: in a part, a column has one type."""
        files = [file for file in self.files if file.size]  # Spark's readers leave out the others

        def parted(files: Sequence[SourceFile]) -> list[Part]:
            try:
                return [self._found(files)]
            except Exception as error:
                if len(files) == 1 or not any(self.statement.names_condition(error, each) for each in _NOT_MERGED):
                    raise
            half = len(files) // 2
            return [*parted(files[:half]), *parted(files[half:])]

        # Spark takes the columns of one file of Avro for those of all.
        parts = [self._found([file]) for file in files] if self.format == "avro" else parted(files) if files else []
        alike: dict[str, list[Part]] = {}
        for part in parts:
            alike.setdefault(schema_string(part.found), []).append(part)
        return [some[0] if len(some) == 1 else self._together(some) for some in alike.values()]

    def _together(self, parts: Sequence[Part]) -> Part:
        """Parts with the same columns as one."""
        return parts[0]._replace(files=[file for part in parts for file in part.files], plan=None)

    def _found(self, files: Sequence[SourceFile]) -> Part:
        """Files that one reader takes, with the columns that Spark finds."""
        plan = self.statement.add_source(structs.replace(self._source, paths=[file.path for file in files]))
        found = parse_schema(self.statement.plan_schema(plan))
        return Part(files, plan, found, self._columns(found))

    def _with_one_type(self, parts: Sequence[Part]) -> list[Part]:
        """Parts whose rows can come together: arrays, maps and structs have one type. Of the types of other columns,
        Spark takes the wider one.

        :raises HeadwaterError: ``HEADWATER_COPY_TYPES_DIFFER``.
        """
        own = [[column for column in part.columns if column.name.lower() not in self._folder_values] for part in parts]
        merged = merged_columns([StructType(tuple(columns)) for columns in own], StructType(()), widens=False)

        def typed(column: StructField) -> StructField:
            found = merged.find(column.name)
            if found is None or not is_nested(found.type) or found.type == column.type:
                return column
            return StructField(column.name, found.type)

        read = [StructType(tuple(map(typed, part.columns))) for part in parts]
        return [
            part if columns == part.columns else part._replace(plan=None, columns=columns)
            for part, columns in zip(parts, read, strict=True)
        ]

    def _divided(self, part: Part) -> list[Part]:
        """A part's files by the computed columns that they or their folders have."""
        names = {column.name.lower() for column in part.columns}
        own = [self._computed & names] * len(part.files)
        if may_differ(self.format) and (self._by_rows or self.format not in _OF_ROWS):
            # Spark fills the column of rows that cannot be read, whatever the rows are.
            filled = own[0] & {self._corrupt.lower()} if self._by_rows else frozenset()
            found = computed_in_files(part.files, part.found, self._computed - filled, self._source, self.statement)
            own = [some | filled for some in found]
        groups: dict[frozenset[str], list[SourceFile]] = {}
        for file, some in zip(part.files, own, strict=True):
            groups.setdefault(some | self._computed & self._in_folders(file), []).append(file)
        return [self._only(part, files, self._computed - have) for have, files in groups.items()]

    def _in_folders(self, file: SourceFile) -> set[str]:
        folder = "" if self.reader.flag("recursiveFileLookup") else file.below.rpartition("/")[0]
        return {name.lower() for name, _ in values_of_directory(folder)}

    def _only(self, part: Part, files: Sequence[SourceFile], lacking: frozenset[str]) -> Part:
        """Some files of a part, without columns that none of them has."""
        if len(files) < len(part.files) and not finds_all(self._source) and may_differ(self.format):
            part = self._found(files)
        columns = StructType(tuple(column for column in part.columns if column.name.lower() not in lacking))
        plan = part.plan if len(files) == len(part.files) else None
        return Part(files, plan, part.found, columns)

    # -- One part -----------------------------------------------------------------------------------------------------

    def _read(self, part: Part) -> list[int]:
        """The plan that reads the files of a part; none if they are without a row."""
        if not part.found.fields and self.format == "csv":
            return []
        if self.reader.flag("recursiveFileLookup"):
            groups = [FolderGroup("", {}, list(part.files))]
        else:
            groups = by_folders(part.files)
        if part.plan is not None and len(groups) == 1 and not groups[0].values and part.columns == part.found:
            return [part.plan]
        plans = [self._read_group(group, part.columns) for group in groups]
        return [plans[0] if len(plans) == 1 else self.statement.add_sources(plans)]

    def _columns(self, found: StructType) -> StructType:
        """The columns that a reader of files is given; Spark found others."""
        if self.arguments.select is not None:
            return found if found.fields or not self._by_rows else of_rows(found, self.table, self._corrupt)
        if self._by_rows:
            return of_rows(found, self.table, self._corrupt)
        if self.format not in _OF_TEXT or not found.fields and self.format == "csv":
            return found
        if self.arguments.by_position or self.arguments.columns is not None:
            return self._by_position(found)
        return of_lines(found, self.table, self._corrupt if self.format == "csv" else None)

    def _read_group(self, group: FolderGroup, columns: StructType) -> int:
        """The plan that reads the files of one group."""
        values = self._folder_values if self.arguments.select is None else None
        of_folders = folder_columns(group, self.table, values)
        names = {column.name.lower() for column in of_folders}
        own = (column for column in columns if column.name.lower() not in names)
        options = dict(self._source.options)
        if of_folders:
            options["basePath"] = url_path(f"{self.folder}/{group.base}".rstrip("/"))
        return self.statement.add_source(
            SourceFiles(
                format=self.format,
                paths=[file.path for file in group.files],
                schema=schema_string(StructType((*own, *of_folders))),
                options=options,
            )
        )

    def _by_position(self, columns: StructType) -> StructType:
        """The columns of files without names, as the columns of the table that they are."""
        if self.arguments.columns is not None:
            table = [self._named(name) for name in self.arguments.columns]
        else:
            computed = {c.name.lower() for c in generated_columns(self.table)}
            computed |= {c.name.lower() for c in identity_columns(self.table)}
            table = [column for column in self.table if column.name.lower() not in computed]
        self._check_arity([column.name for column in table], columns)
        return StructType(
            tuple(StructField(column.name, column.type) for column in visible.for_reading(StructType(tuple(table))))
        )

    def _selected(self, plan: int) -> int:
        """What the statement selects of the rows."""
        select, names = self.arguments.select, self.arguments.columns
        assert select is not None
        selected = self.statement.add_selection(select, plan)
        if names is None:
            return selected
        for name in names:
            self._named(name)
        self._check_arity(names, parse_schema(self.statement.plan_schema(selected)))
        return self.statement.add_selection(select, plan, names)

    def _named(self, name: str) -> StructField:
        found = self.table.find(name)
        if found is None:
            raise illegal_option("the column", name, f"must be one of {self.name}: {', '.join(self.table.names)}")
        return found

    def _check_arity(self, names: Sequence[str], found: StructType) -> None:
        if len(names) != len(found):
            raise HeadwaterError(
                "COPY_INTO_COLUMN_ARITY_MISMATCH",
                {
                    "tableName": self.name,
                    "tableColumns": ", ".join(format_name((name,)) for name in names),
                    "expected": str(len(names)),
                    "found": str(len(found)),
                },
            )
