"""What a winner changed in a table's definition, and which writers the change concerns.

Owns the comparison of two definitions (a protocol and a metadata) as a list of named changes, and for each kind of
change the rule which writers cannot commit after it. Follows the protocol's chapters "Protocol Evolution", "Change
Metadata", "Table Features", "Column Mapping" and "Identity Columns". Promise: pure functions; what is not known
concerns everybody.

**The rules.** A transaction wrote its files under the definition it read. It may commit after a winner that changed
the definition if those files, and what it removes, mean the same under the new one.

================================================================  =============================================
the winner                                                        cannot go on
================================================================  =============================================
changed comments, name, description, defaults, other properties   nobody
added nullable columns or fields                                  nobody
dropped a CHECK constraint, NOT NULL or a generation expression   nobody
dropped an expectation                                            nobody
enabled deletion vectors, in-commit timestamps, V2 checkpoints,   nobody; the commit has what they ask of it
  row tracking; or column mapping by name, none before
turned the change data feed off                                   nobody
gave values to an identity column                                 who gave values too: they would be the same
dropped, renamed or retyped a column                              everybody
changed partitioning, table id, format, physical names or ids     everybody
added a NOT NULL or generated column, an identity column or       who adds files
  an invariant
added a CHECK constraint or NOT NULL                              who adds files whose statistics do not prove it
added or changed an expectation, or an enforced primary key       who adds files
turned the change data feed on, made the table append-only        who removes rows
turned deletion vectors off                                       who marks rows deleted
set the isolation level to Serializable                           who read rows
dropped a feature, or added one that is not listed here           everybody
================================================================  =============================================

Beside these, two changes of the definition always conflict. An identity column's high-water mark is the one exception:
a transaction that changes nothing else puts it into the winner's metadata, where the winner gave no values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from headwater.protocol import properties
from headwater.protocol.column_metadata import (
    COLUMN_ID,
    CURRENT_DEFAULT,
    DECLARED_TYPE,
    EXISTS_DEFAULT,
    GENERATION_EXPRESSION,
    IDENTITY_HIGH_WATER_MARK,
    INVARIANTS,
    PHYSICAL_NAME,
    TYPE_CHANGES,
)
from headwater.protocol.columns import Path, format_name
from headwater.protocol.concerns import Concern
from headwater.protocol.features import FEATURES, supported_features
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import DataType, StructField, StructType
from headwater.schema.identity import is_identity
from headwater.schema.keys import says_enforced
from headwater.schema.walk import held


class Kind(Enum):
    """A kind of change, and whom it concerns."""

    def __init__(self, words: str, concern: Concern) -> None:
        self.words = words
        self.concern = concern

    DESCRIPTION = "name, description or comment", Concern.NOBODY
    PROPERTY = "a property, which says itself whom it concerns", Concern.NOBODY
    DEFAULT = "a column's default, which a statement takes when it is analysed", Concern.NOBODY
    NEW_COLUMN = "a new nullable column", Concern.NOBODY
    RELAXED = "a constraint, NOT NULL or generation expression dropped", Concern.NOBODY
    MAPPING_ENABLED = "column mapping by name, with the names that files have", Concern.NOBODY
    NEW_FEATURE = "a new feature, whose use shows in the metadata", Concern.NOBODY
    IDENTITY_MARK = "a high-water mark of an identity column", Concern.NUMBERING
    COMPUTED_COLUMN = "a NOT NULL, generated or identity column, or an invariant", Concern.NEW_FILES
    EXPECTATION = "an expectation, whose violations are counted in the job that writes", Concern.NEW_FILES
    ENFORCED_KEY = (
        "a primary key that is enforced, by which new rows are checked before their commit",
        Concern.NEW_FILES,
    )
    CONDITION = "a CHECK constraint or NOT NULL", Concern.UNPROVEN_FILES
    DROPPED_COLUMN = "a column less", Concern.EVERYBODY
    RENAMED_COLUMN = "another name for a column", Concern.EVERYBODY
    RETYPED_COLUMN = "another type for a column", Concern.EVERYBODY
    PARTITIONING = "other partition columns", Concern.EVERYBODY
    TABLE = "another table id or file format", Concern.EVERYBODY
    PHYSICAL_COLUMN = "another physical name, id or mode of column mapping", Concern.EVERYBODY
    LOST_FEATURE = "a feature less", Concern.EVERYBODY
    UNKNOWN = "what this version does not know", Concern.EVERYBODY


@dataclass(frozen=True)
class Change:
    """One change of a definition.

    :param text: what changed, for people: a clause whose subject is what was changed.
    :param of_protocol: whether the ``protocol`` action has it.
    :param not_null: for a NOT NULL condition: the column's logical path.
    :param check: for a CHECK constraint: its condition, Spark SQL.
    :param of_property: for a known property: whom its new value concerns.
    """

    kind: Kind
    text: str
    of_protocol: bool = False
    not_null: Path | None = None
    check: str | None = None
    of_property: Concern | None = None

    @property
    def concern(self) -> Concern:
        """Which writers cannot commit after it."""
        return self.kind.concern if self.of_property is None else self.of_property


def definition_changes(before: TableDefinition, after: TableDefinition) -> list[Change]:
    """What changed, in no particular order; nothing for equal definitions."""
    return [*_of_protocol(before, after), *_of_metadata(before, after)]


def changes_marks_only(before: TableDefinition, after: TableDefinition) -> bool:
    """Whether the definitions differ in high-water marks of identity columns and in nothing else."""
    changes = definition_changes(before, after)
    return bool(changes) and all(change.kind is Kind.IDENTITY_MARK for change in changes)


# Protocol


def _of_protocol(before: TableDefinition, after: TableDefinition) -> Iterator[Change]:
    had, has = supported_features(before.protocol), supported_features(after.protocol)
    for name in sorted(has - had):
        by_use = name in FEATURES and not FEATURES[name].binds_files
        kind = Kind.NEW_FEATURE if by_use else Kind.UNKNOWN
        yield Change(kind, f"the table feature {name} was added", of_protocol=True)
    for name in sorted(had - has):
        yield Change(Kind.LOST_FEATURE, f"the table feature {name} was dropped", of_protocol=True)


# Metadata


def _of_metadata(before: TableDefinition, after: TableDefinition) -> Iterator[Change]:
    old, new = before.metadata, after.metadata
    if old == new:
        return
    if old.id != new.id:
        yield Change(Kind.TABLE, "the table was replaced by another one")
    if old.format != new.format:
        yield Change(Kind.TABLE, "the format of the data files was changed")
    if (old.name, old.description, old.created_time, old.extra) != (
        new.name,
        new.description,
        new.created_time,
        new.extra,
    ):
        yield Change(Kind.DESCRIPTION, "the description was changed")
    modes = before.mapping_mode, after.mapping_mode
    if modes[0] != modes[1]:
        kind = Kind.MAPPING_ENABLED if modes == ("none", "name") else Kind.PHYSICAL_COLUMN
        yield Change(kind, f"column mapping was changed from {modes[0]} to {modes[1]}")
    yield from _configurations(old.configuration, new.configuration)
    if old.schema_string != new.schema_string:
        yield from _Schemas(*modes).structs(old.schema, new.schema, ())
    if old.partition_columns != new.partition_columns:
        yield Change(Kind.PARTITIONING, "the partition columns were changed")


#: Properties of other prefixes that no file depends on.
_HARMLESS_PREFIXES = (properties.FEATURE_PREFIX, "delta.universalFormat.")


def _configurations(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Change]:
    for key in sorted(old.keys() | new.keys()):
        before, after = old.get(key), new.get(key)
        if before == after:
            continue
        if key.lower().startswith(properties.CONSTRAINT_PREFIX):
            yield _constraint(key[len(properties.CONSTRAINT_PREFIX) :], before, after)
            continue
        if key.lower().startswith(properties.EXPECT_PREFIX):
            yield _expectation(key[len(properties.EXPECT_PREFIX) :], before, after)
            continue
        if key.lower().startswith(properties.KEY_PREFIX) and after is not None and says_enforced(after):
            done = "changed" if before is not None and says_enforced(before) else "enforced"
            yield Change(Kind.ENFORCED_KEY, f"the primary key {key[len(properties.KEY_PREFIX) :]} was {done}")
            continue
        name = properties.canonical_name(key, allow_arbitrary=True)
        text = f"the property {name} was " + ("unset" if after is None else f"set to '{after}'")
        known = properties.PROPERTIES.get(name)
        if known is not None:
            yield Change(Kind.PROPERTY, text, of_property=known.concern(before, after))
        else:
            is_harmless = not name.startswith(properties.PREFIX) or name.startswith(_HARMLESS_PREFIXES)
            yield Change(Kind.PROPERTY if is_harmless else Kind.UNKNOWN, text)


def _constraint(name: str, before: str | None, after: str | None) -> Change:
    if after is None:
        return Change(Kind.RELAXED, f"the CHECK constraint {name} was dropped")
    done = "added" if before is None else "changed"
    return Change(Kind.CONDITION, f"the CHECK constraint {name} ({after}) was {done}", check=after)


def _expectation(name: str, before: str | None, after: str | None) -> Change:
    if after is None:
        return Change(Kind.RELAXED, f"the expectation {name} was dropped")
    return Change(Kind.EXPECTATION, f"the expectation {name} was {'added' if before is None else 'changed'}")


class _Schemas:
    """The comparison of two schemas; a column is the same one if its physical name is.

    :param old_mode: the mode of column mapping of the old schema, and of the new.
    """

    def __init__(self, old_mode: str, new_mode: str) -> None:
        self._old_mode = old_mode
        self._new_mode = new_mode

    def structs(self, old: StructType, new: StructType, path: Path) -> Iterator[Change]:
        now = {_key(field, self._new_mode): field for field in new}
        for field in old:
            here = (*path, field.name)
            same = now.pop(_key(field, self._old_mode), None)
            if same is not None:
                yield from self._fields(field, same, here)
            else:
                again = " and added again" if new.find(field.name) is not None else ""
                yield Change(Kind.DROPPED_COLUMN, f"the column {format_name(here)} was dropped{again}")
        for field in now.values():
            yield _added(field, (*path, field.name))

    def _fields(self, old: StructField, new: StructField, path: Path) -> Iterator[Change]:
        name = format_name(path)
        if old.name != new.name:
            yield Change(Kind.RENAMED_COLUMN, f"the column {name} was renamed to {format_name((*path[:-1], new.name))}")
        if old.nullable and not new.nullable:
            yield Change(Kind.CONDITION, f"the column {name} was made NOT NULL", not_null=path)
        elif new.nullable and not old.nullable:
            yield Change(Kind.RELAXED, f"the column {name} was made nullable")
        for key in sorted(old.metadata.keys() | new.metadata.keys()):
            before, after = old.metadata.get(key), new.metadata.get(key)
            if before != after and (change := _metadata_change(key, before, after, name)) is not None:
                yield change
        yield from self._types(old.type, new.type, path)

    def _types(self, old: DataType, new: DataType, path: Path) -> Iterator[Change]:
        both = held(old, new)
        for each in both:
            if each.one_nulls and not each.two_nulls:
                text = f"the values within {format_name(path)} were made NOT NULL"
                yield Change(Kind.COMPUTED_COLUMN, text)
            yield from self._types(each.one, each.two, (*path, each.step))
        if isinstance(old, StructType) and isinstance(new, StructType):
            yield from self.structs(old, new, path)
        elif not both and old != new:
            text = f"the type of {format_name(path)} was changed from {old.sql()} to {new.sql()}"
            yield Change(Kind.RETYPED_COLUMN, text)


def _key(field: StructField, mode: str) -> str:
    return field.name.lower() if mode == "none" else field.physical_name.lower()


def _added(field: StructField, path: Path) -> Change:
    what = ""
    if is_identity(field):
        what = "identity "
    elif GENERATION_EXPRESSION in field.metadata:
        what = "generated "
    elif not field.nullable:
        what = "NOT NULL "
    elif INVARIANTS in field.metadata:
        what = "constrained "
    kind = Kind.COMPUTED_COLUMN if what else Kind.NEW_COLUMN
    return Change(kind, f"the {what}column {format_name(path)} was added")


def _metadata_change(key: str, before: Any, after: Any, name: str) -> Change | None:
    """The change that a key of a column's metadata makes; None if another change says it."""
    if key == IDENTITY_HIGH_WATER_MARK:
        return Change(Kind.IDENTITY_MARK, f"values were generated for the identity column {name}")
    if key.startswith("delta.identity."):
        return Change(Kind.COMPUTED_COLUMN, f"the identity of the column {name} was changed")
    if key in (GENERATION_EXPRESSION, INVARIANTS):
        what = "generation expression" if key == GENERATION_EXPRESSION else "invariant"
        if after is None:
            return Change(Kind.RELAXED, f"the {what} of the column {name} was dropped")
        return Change(Kind.COMPUTED_COLUMN, f"the {what} of the column {name} was set")
    if key in (COLUMN_ID, PHYSICAL_NAME):
        # Mapping that is switched on gives both; a column with another physical name is another column.
        return None if before is None else Change(Kind.PHYSICAL_COLUMN, f"the {key} of the column {name} was changed")
    if key == DECLARED_TYPE:
        return Change(Kind.RETYPED_COLUMN, f"the declared type of the column {name} was changed")
    if key in (CURRENT_DEFAULT, EXISTS_DEFAULT):
        return Change(Kind.DEFAULT, f"the default of the column {name} was changed")
    if key == TYPE_CHANGES or key.startswith("delta.columnMapping.") and before is None:
        return None
    if key.startswith(properties.PREFIX):
        return Change(Kind.UNKNOWN, f"the {key} of the column {name} was changed")
    return Change(Kind.DESCRIPTION, f"the {key} of the column {name} was changed")
