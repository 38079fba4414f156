"""Changes of columns that a user must allow before a stream continues: renames, drops, wider types.

Owns what kind of change lies between two entries of a schema log, and the options and settings that let it through, by
the names of Delta Lake's own connector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.basics.errors import HeadwaterError
from headwater.protocol.columns import Path, format_name
from headwater.protocol.types import DataType, StructType
from headwater.schema.walk import held
from headwater.streams.schema_log import Entry

_PREFIX = "spark.databricks.delta.streaming.allowSourceColumn"
_ALWAYS = "always"


@dataclass(frozen=True)
class ColumnChanges:
    """Columns that were renamed, dropped or got a wider type, each in words."""

    renamed: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    widened: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The kinds there are, as statements: ``RENAME COLUMN and TYPE WIDENING``."""
        kinds = {"RENAME COLUMN": self.renamed, "DROP COLUMN": self.dropped, "TYPE WIDENING": self.widened}
        return " and ".join(kind for kind, columns in kinds.items() if columns)

    @property
    def details(self) -> str:
        return "; ".join((*self.renamed, *self.dropped, *self.widened))


def check_let_through(before: Entry, now: Entry, options: Mapping[str, str], settings: Mapping[str, str]) -> None:
    """That the user has let the changes between two entries through.

    :param options: the reader's options, by lower-case name.
    :param settings: the session's settings.
    :raises HeadwaterError: ``DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION``, which names what does.
    """
    changes = column_changes(before.definition_schema, now.definition_schema)
    needed = []
    suffix = f".ckpt_{java_hash(now.source)}"
    for columns, option, names in (
        (changes.renamed, "allowSourceColumnRename", ("Rename", "RenameAndDrop")),
        (changes.dropped, "allowSourceColumnDrop", ("Drop", "RenameAndDrop")),
        (changes.widened, "allowSourceColumnTypeChange", ("TypeChange",)),
    ):
        if columns and not _is_let_through(option, names, suffix, str(now.version), options, settings):
            needed.append((option, f"{_PREFIX}{names[0]}"))
    if needed:
        raise HeadwaterError(
            "DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION",
            {
                "opType": changes.kind,
                "previousSchemaChangeVersion": before.version,
                "currentSchemaChangeVersion": now.version,
                "columnChangeDetails": changes.details,
                "options": ", ".join(f"{option} = {now.version}" for option, _ in needed),
                "settings": ", ".join(f"{setting}{suffix} = {now.version}" for _, setting in needed),
                "everywhere": ", ".join(f"{setting} = {_ALWAYS}" for _, setting in needed),
            },
        )


def _is_let_through(
    option: str,
    names: tuple[str, ...],
    suffix: str,
    version: str,
    options: Mapping[str, str],
    settings: Mapping[str, str],
) -> bool:
    if options.get(option.lower(), "").strip().lower() in (_ALWAYS, version):
        return True
    for name in names:
        if settings.get(f"{_PREFIX}{name}", "").strip().lower() == _ALWAYS:
            return True
        if settings.get(f"{_PREFIX}{name}{suffix}", "").strip().lower() in (_ALWAYS, version):
            return True
    return False


def column_changes(before: StructType, now: StructType) -> ColumnChanges:
    """What became of the columns of one schema in another; columns are told by their names in the files."""
    renamed: list[str] = []
    dropped: list[str] = []
    widened: list[str] = []

    def compare(old: DataType, new: DataType, path: Path) -> None:
        both = held(old, new)
        for each in both:
            compare(each.one, each.two, (*path, each.step))
        if isinstance(old, StructType) and isinstance(new, StructType):
            fields = {field.physical_name: field for field in new}
            for field in old:
                where = (*path, field.name)
                following = fields.get(field.physical_name)
                if following is None:
                    dropped.append(f"{format_name(where)} was dropped")
                    continue
                if following.name != field.name:
                    renamed.append(f"{format_name(where)} was renamed to {format_name((*path, following.name))}")
                compare(field.type, following.type, (*path, following.name))
        elif not both and old != new:
            widened.append(f"{format_name(path)} was {old.sql()} and is {new.sql()}")

    compare(before, now, ())
    return ColumnChanges(tuple(renamed), tuple(dropped), tuple(widened))


def java_hash(text: str) -> int:
    """The hash of a string as Java computes it; settings for one checkpoint have it in their name."""
    value = 0
    for unit in memoryview(text.encode("utf-16-le")).cast("H"):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value
