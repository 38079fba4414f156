"""What every written row must satisfy, and the value of a column that a row does not have.

Owns CHECK constraints, invariants, NOT NULL and column defaults, read from configuration and schema. Follows the
protocol's chapters "CHECK Constraints", "Column Invariants" and "Default Columns". Promise: :func:`checks` is
complete; a writer that enforces each and refuses rows where one is false or null honours all three.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from headwater.basics.errors import HeadwaterError
from headwater.protocol.column_metadata import CURRENT_DEFAULT, EXISTS_DEFAULT, INVARIANTS
from headwater.protocol.columns import Path, all_fields, format_name, map_fields, quote
from headwater.protocol.properties import CONSTRAINT_PREFIX
from headwater.protocol.types import StructField, StructType
from headwater.schema.evolution import replace_field

CHECK, INVARIANT, NOT_NULL, GENERATED = "check", "invariant", "not_null", "generated"


class Check(NamedTuple):
    """A condition on each row, in Spark SQL over the table's logical columns; false and null are both violations.

    ``name`` is the constraint's, or the column's for the kinds that belong to one. ``sql`` is as the user wrote it, but
    for NOT NULL; what this package puts around it is in ``before`` and ``after``.
    """

    name: str
    sql: str
    kind: str
    before: str = ""
    after: str = ""

    @property
    def text(self) -> str:
        """The whole condition, for people."""
        return f"{self.before}{self.sql}{self.after}"


def checks(schema: StructType, configuration: Mapping[str, str]) -> list[Check]:
    """Every NOT NULL, invariant and CHECK constraint of a table, in that order. Generated columns: see
    ``headwater.schema.generated``.

    :raises HeadwaterError: ``DELTA_UNRECOGNIZED_INVARIANT``, ``DELTA_UNSUPPORTED_INVARIANT_NON_STRUCT``.
    """
    return [*not_null_checks(schema), *invariants(schema), *check_constraints(configuration)]


def check_constraints(configuration: Mapping[str, str]) -> list[Check]:
    """The CHECK constraints by name."""
    return [
        Check(key[len(CONSTRAINT_PREFIX) :], value, CHECK)
        for key, value in sorted(configuration.items())
        if key.lower().startswith(CONSTRAINT_PREFIX)
    ]


def find_constraint(configuration: Mapping[str, str], name: str) -> tuple[str, str] | None:
    """A CHECK constraint's configuration key and expression, its name compared ignoring case."""
    wanted = (CONSTRAINT_PREFIX + name).lower()
    return next(((key, value) for key, value in configuration.items() if key.lower() == wanted), None)


def add_constraint(configuration: Mapping[str, str], name: str, sql: str) -> dict[str, str]:
    """The configuration with one more CHECK constraint; that rows satisfy it already is the caller's to prove.

    :raises HeadwaterError: ``DELTA_CONSTRAINT_ALREADY_EXISTS``.
    """
    found = find_constraint(configuration, name)
    if found is not None:
        raise HeadwaterError("DELTA_CONSTRAINT_ALREADY_EXISTS", {"constraintName": name, "oldConstraint": found[1]})
    return {**configuration, CONSTRAINT_PREFIX + name.lower(): sql}


def drop_constraint(configuration: Mapping[str, str], name: str, *, if_exists: bool = False) -> dict[str, str]:
    """The configuration without a CHECK constraint.

    :raises HeadwaterError: ``DELTA_CONSTRAINT_DOES_NOT_EXIST`` unless ``if_exists``.
    """
    found = find_constraint(configuration, name)
    if found is None and not if_exists:
        raise HeadwaterError("DELTA_CONSTRAINT_DOES_NOT_EXIST", {"constraintName": name})
    return {key: value for key, value in configuration.items() if found is None or key != found[0]}


def invariants(schema: StructType) -> list[Check]:
    """The expressions in ``delta.invariants``.

    :raises HeadwaterError: as :func:`checks`.
    """
    found: list[Check] = []
    reachable = dict(_struct_fields(schema))
    for path, field in all_fields(schema):
        if INVARIANTS in field.metadata:
            if path not in reachable:
                raise HeadwaterError("DELTA_UNSUPPORTED_INVARIANT_NON_STRUCT", {"column": format_name(path)})
            found.append(Check(format_name(path), _invariant(path, field.metadata[INVARIANTS]), INVARIANT))
    return found


def _invariant(path: Path, value: Any) -> str:
    try:
        expression = (json.loads(value) if isinstance(value, str) else value)["expression"]["expression"]
        if isinstance(expression, str):
            return expression
    except (ValueError, KeyError, TypeError):
        pass
    # What cannot be understood cannot be enforced, and the protocol allows no row past it.
    raise HeadwaterError("DELTA_UNRECOGNIZED_INVARIANT", {"column": format_name(path), "invariant": str(value)[:200]})


def not_null_checks(schema: StructType) -> list[Check]:
    """NOT NULL columns and fields of structs. A field of a null struct is null, which violates, as for other
    writers of the format.
    """
    return [not_null_check(path) for path, field in _struct_fields(schema) if not field.nullable]


def not_null_check(path: Sequence[str]) -> Check:
    """The check of a NOT NULL column or field."""
    return Check(format_name(path), f"{quote(path)} IS NOT NULL", NOT_NULL)


def _struct_fields(schema: StructType, path: Path = ()) -> Iterator[tuple[Path, StructField]]:
    """The fields not within an array or map, parents first."""
    for field in schema:
        here = (*path, field.name)
        yield here, field
        if isinstance(field.type, StructType):
            yield from _struct_fields(field.type, here)


def defaults(schema: StructType) -> dict[str, str]:
    """The default expression, Spark SQL, of each top-level column that has one, by name."""
    return {f.name: str(f.metadata[CURRENT_DEFAULT]) for f in schema if CURRENT_DEFAULT in f.metadata}


def set_default(schema: StructType, path: Sequence[str], sql: str | None) -> StructType:
    """The schema with a column's default set, or dropped where None.

    :raises HeadwaterError: ``DELTA_COLUMN_NOT_FOUND_IN_SCHEMA``.
    """

    def change(field: StructField) -> StructField:
        metadata = {key: value for key, value in field.metadata.items() if key != CURRENT_DEFAULT}
        if sql is not None:
            metadata[CURRENT_DEFAULT] = sql
        return replace(field, metadata=metadata)

    return replace_field(schema, path, change)


def without_exists_defaults(schema: StructType) -> StructType:
    """The schema without ``EXISTS_DEFAULT``, which Spark adds to a declared default.

    Delta has no such thing: a column missing from a file is null, but Spark's Parquet reader would put that value
    there.
    """
    return map_fields(
        schema, lambda f, _: replace(f, metadata={k: v for k, v in f.metadata.items() if k != EXISTS_DEFAULT})
    )
