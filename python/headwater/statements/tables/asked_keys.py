"""The keys that statements ask for, and the tables that they refer to.

Owns the step from a message to a key: its name if the statement gives none, the full name of the table that a foreign
key refers to, and the columns of that table's primary key. Promise: when it is declared, a foreign key has as many
columns as the primary key, of the same types, and each of these columns once.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from itertools import chain, count

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.callbacks import NamedTable
from headwater.bridge.messages.define import TableConstraint
from headwater.bridge.statement import Statement
from headwater.key_index.definition import check, declared
from headwater.protocol.columns import parse_name, quote, sql_name
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import StructType, parse_schema
from headwater.schema import keys
from headwater.schema.keys import FOREIGN, PRIMARY, Key
from headwater.sql.key_clauses import ENFORCED_NAME, OWN_KEY

#: What the name of an index does not have, and how many characters of a key's name go into it.
_NO_NAME, _LONGEST_NAME = re.compile(r"[^a-z0-9_-]"), 56


def asked_key(constraint: TableConstraint, table: str) -> Key | None:
    """The key that a statement asks for; None for a constraint that is not a key.

    :param table: its name, which the name of a key without one begins with.
    """
    if constraint.kind not in (PRIMARY, FOREIGN):
        return None
    if constraint.kind == FOREIGN and constraint.enforced:
        raise HeadwaterError("HEADWATER_KEY_ENFORCED")
    own = parse_name(table)[-1].rstrip("/").rpartition("/")[-1]
    given = constraint.name or ""
    enforced = constraint.enforced or given.startswith(ENFORCED_NAME)
    name = given.removeprefix(ENFORCED_NAME) or f"{own}_pk"
    if not given and constraint.kind == FOREIGN:
        name = f"{own}_{constraint.references[-1].rpartition('/')[-1]}_fk_{uuid.uuid4().hex[:7]}"
    return Key(
        *(name, constraint.kind, tuple(constraint.columns), constraint.rely, enforced),
        *(tuple(constraint.references), () if constraint.referenced == [OWN_KEY] else tuple(constraint.referenced)),
    )


def possible_index(definition: TableDefinition, key: Key) -> tuple[str, list[str]]:
    """The name and the columns of an index by which a key can be enforced.

    :raises HeadwaterError: ``HEADWATER_INVALID_INDEX`` if the table can have none.
    """
    known = {each.name for each in declared(definition)}
    wanted = _NO_NAME.sub("_", key.name.lower())[:_LONGEST_NAME].lstrip("-") or "key"
    name = next(each for each in chain([wanted], (f"{wanted}_{n}" for n in count(1))) if each not in known)
    columns = [column for column in key.columns if column not in definition.partition_columns] or list(key.columns)
    check(definition, name, columns)
    return name, columns


def with_parent(key: Key, schema: StructType, known: Sequence[Key], table: Sequence[str], statement: Statement) -> Key:
    """A foreign key with the full name and the columns that it refers to; any other key as it is.

    :param schema: the columns of the key's own table, ``known``: its other keys, ``table``: the parts of its name.
    :raises HeadwaterError: ``HEADWATER_INVALID_KEY``.
    """
    if key.kind != FOREIGN:
        return key
    parent = statement.table_named(key.references)
    name = ".".join(map(sql_name, parent.name))
    key = key._replace(references=tuple(parent.name))
    if keys.is_same_name(parent.name, statement.table_named(table).name):
        columns, primary = schema, keys.primary_key(known)
    elif parent.schema is None:
        raise keys.invalid(key, f"There is no Delta table {name}. Create it first, with its primary key.")
    else:
        columns, primary = parse_schema(parent.schema), keys.primary_key(_keys_of(parent))
    if primary is None:
        hint = f"Use ALTER TABLE {name} ADD CONSTRAINT … PRIMARY KEY (…) first."
        raise keys.invalid(key, f"The table {name} has no primary key. {hint}")
    referenced = key.referenced or primary.columns
    own = ", ".join(map(sql_name, primary.columns))
    if sorted(map(str.lower, referenced)) != sorted(map(str.lower, primary.columns)):
        raise keys.invalid(key, f"It must refer to the columns of the primary key of {name}: {own}.")
    if len(key.columns) != len(referenced):
        raise keys.invalid(
            key, f"It has {len(key.columns)} columns, but the primary key of {name} has {len(referenced)}: {own}."
        )
    _check_types(key, schema, referenced, columns)
    return key._replace(referenced=tuple(found.name if (found := columns.find(c)) else c for c in referenced))


def _check_types(key: Key, schema: StructType, referenced: Sequence[str], columns: StructType) -> None:
    for here, there in zip(key.columns, referenced, strict=True):
        field, other = schema.find(here), columns.find(there)
        if field is not None and other is not None and field.type != other.type:
            raise keys.invalid(
                key,
                f"The column {sql_name(field.name)} is of type {field.type.sql().upper()}, but {sql_name(other.name)} "
                f"of {quote(key.references)} is of type {other.type.sql().upper()}. Both must be of the same type.",
            )


def _keys_of(table: NamedTable) -> list[Key]:
    return [key for each in table.keys if (key := asked_key(each, quote(table.name))) is not None]


def refuse_references(
    key: Key, known: Sequence[Key], table: str, statement: Statement, change: str, *, cascade: bool = False
) -> list[Key]:
    """Refuse to change a primary key that foreign keys refer to. With CASCADE, the foreign keys of the same table are
    returned, to be dropped with it; those of other tables are refused, because one commit changes one table.

    :param known: the keys of the same table, ``table``: its name. Only the tables of its namespace are looked at.
    :raises HeadwaterError: ``HEADWATER_KEY_IS_REFERENCED``.
    """
    name = statement.table_named(parse_name(table)).name
    own = [each for each in known if each.refers_to(name)]
    others = [
        f"ALTER TABLE {'.'.join(map(sql_name, other.name))} DROP CONSTRAINT {sql_name(each.name)}"
        for other in statement.tables_beside(name)
        if not keys.is_same_name(other.name, name)
        for each in _keys_of(other)
        if each.refers_to(name)
    ]
    if not cascade:
        others += [f"ALTER TABLE {table} DROP CONSTRAINT {sql_name(each.name)}" for each in own]
    if others:
        raise HeadwaterError(
            "HEADWATER_KEY_IS_REFERENCED",
            {"constraintName": key.name, "tableName": table, "change": change, "statements": "; ".join(others)},
        )
    return own
