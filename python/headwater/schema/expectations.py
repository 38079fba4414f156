"""Expectations: conditions on the rows that are written, each with what becomes of a row that does not meet it.

Owns the table properties ``headwater.expect.<name>``: one for each expectation, JSON. The protocol has no expectations,
and other writers keep properties that they do not know, but do not act on them. A row meets an expectation if its
condition is true; false and null are both violations, as for CHECK constraints. Promise: a property that cannot be read
refuses writes, because they would let rows pass that it turns away; it keeps nobody from reading the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from headwater.basics.errors import HeadwaterError
from headwater.protocol.columns import sql_name
from headwater.protocol.properties import EXPECT_PREFIX, TAKES_QUARANTINED
from headwater.protocol.types import ArrayType, PrimitiveType, StructField, StructType, as_nullable
from headwater.schema.checks import CHANGE_COLUMNS
from headwater.schema.constraints import CHECK, Check, check_constraints, find_constraint

KEEP, FAIL, DROP, QUARANTINE = "KEEP ROW", "FAIL UPDATE", "DROP ROW", "QUARANTINE"
_ACTIONS = (KEEP, FAIL, DROP, QUARANTINE)
#: The most expectations of a table that count rows: a row's violations are bits of one number.
MOST = 24
#: The columns of a quarantine table beside those of the table that its rows were written for.
REASON, TIME, SOURCE = "quarantine_reason", "quarantine_time", "quarantine_source"
ADDED_NAMES = (REASON, TIME, SOURCE)
_STRING, _VOID = PrimitiveType("string"), PrimitiveType("void")
_ADDED = (
    StructField(REASON, ArrayType(_STRING, True)),
    StructField(TIME, PrimitiveType("timestamp")),
    StructField(SOURCE, StructType.of(table=_STRING, operation=_STRING)),
)
#: The operation metrics of a write: rows that were not written, and rows of each expectation that violate it.
DROPPED_METRIC, QUARANTINED_METRIC = "numRowsDroppedByExpectations", "numRowsQuarantinedByExpectations"
KEPT_METRIC = "numRowsKeptAgainstExpectations"
VIOLATIONS_METRIC = "numViolations."


class Expectation(NamedTuple):
    """A condition, and what becomes of a row that does not meet it.

    :param name: as it was declared; compared ignoring case.
    :param sql: the condition, Spark SQL over the table's columns.
    :param action: :data:`KEEP`, :data:`FAIL`, :data:`DROP` or :data:`QUARANTINE`.
    :param into: the parts of the full name of the quarantine table; none for other actions.
    """

    name: str
    sql: str
    action: str = KEEP
    into: tuple[str, ...] = ()

    @property
    def turns_away(self) -> bool:
        """Whether rows that violate it are not written."""
        return self.action in (DROP, QUARANTINE)

    @property
    def check(self) -> Check:
        """The condition as that of a constraint."""
        return Check(self.name, self.sql, CHECK)

    @property
    def clause(self) -> str:
        """What it says, in SQL, without its name."""
        said = f"EXPECT ({self.sql})"
        if self.action == QUARANTINE:
            return f"{said} ON VIOLATION QUARANTINE INTO {'.'.join(map(sql_name, self.into))}"
        return said if self.action == KEEP else f"{said} ON VIOLATION {self.action}"


def expectations(configuration: Mapping[str, str]) -> list[Expectation]:
    """The expectations of a table by name, for a writer.

    :raises HeadwaterError: ``HEADWATER_EXPECTATION_NOT_READABLE``.
    """
    found = []
    for key, value in _stored(configuration):
        read = _read(key, value)
        if read is None:
            raise HeadwaterError("HEADWATER_EXPECTATION_NOT_READABLE", {"property": key, "value": value[:200]})
        found.append(read)
    return found


def readable(configuration: Mapping[str, str]) -> list[Expectation]:
    """The same without those that cannot be read, to show a table and to change its columns."""
    return [read for key, value in _stored(configuration) if (read := _read(key, value)) is not None]


def counted(configuration: Mapping[str, str]) -> list[Expectation]:
    """Those whose violations are counted: all but FAIL UPDATE, by name.

    A log that others write may have more than a table can have, or several quarantine tables: it is not known then what
    becomes of each row.

    :raises HeadwaterError: as :func:`expectations`.
    """
    found = [each for each in expectations(configuration) if each.action != FAIL]
    staging = [each for each in found if each.action == QUARANTINE]
    other = next((each for each in staging if _folded(each.into) != _folded(staging[0].into)), None)
    if len(found) > MOST or other is not None:
        beyond = other or found[MOST]
        raise HeadwaterError(
            "HEADWATER_EXPECTATION_NOT_READABLE",
            {"property": EXPECT_PREFIX + beyond.name.lower(), "value": _text(beyond)[:200]},
        )
    return found


def failing(configuration: Mapping[str, str]) -> list[Expectation]:
    """Those that fail the write, by name.

    :raises HeadwaterError: as :func:`expectations`.
    """
    return [each for each in expectations(configuration) if each.action == FAIL]


def row_conditions(configuration: Mapping[str, str]) -> list[Check]:
    """The conditions that CHECK constraints and expectations have: columns that they use cannot be dropped."""
    return [*check_constraints(configuration), *(each.check for each in readable(configuration))]


def find_expectation(configuration: Mapping[str, str], name: str) -> Expectation | None:
    """An expectation by its name, compared ignoring case."""
    return next((each for each in readable(configuration) if each.name.lower() == name.lower()), None)


def with_expectation(configuration: Mapping[str, str], added: Expectation) -> dict[str, str]:
    """The properties with one more expectation.

    :raises HeadwaterError: ``DELTA_CONSTRAINT_ALREADY_EXISTS``, ``HEADWATER_INVALID_EXPECTATION``.
    """
    check_name(configuration, added.name)
    made = {**configuration, EXPECT_PREFIX + added.name.lower(): _text(added)}
    check_together(made, added)
    return made


def check_together(configuration: Mapping[str, str], added: Expectation) -> None:
    """That a table can have one expectation beside its others.

    :raises HeadwaterError: ``HEADWATER_INVALID_EXPECTATION``.
    """
    check_takes_all(configuration)
    others = [each for each in readable(configuration) if each.name.lower() != added.name.lower()]
    tables = [each.into for each in others if each.action == QUARANTINE]
    if added.action == QUARANTINE and any(_folded(each) != _folded(added.into) for each in tables):
        other = ".".join(map(sql_name, tables[0]))
        raise invalid(added, f"The table has the quarantine table {other}, and can have only one. Use that one.")
    if added.action != FAIL and sum(each.action != FAIL for each in others) >= MOST:
        raise invalid(added, f"A table has at most {MOST} of them, without those of FAIL UPDATE. Join some by AND.")


def check_takes_all(configuration: Mapping[str, str]) -> None:
    """That a table which takes quarantined rows has no expectations.

    :raises HeadwaterError: ``HEADWATER_INVALID_EXPECTATION``.
    """
    expected = readable(configuration)
    if expected and TAKES_QUARANTINED.of(configuration):
        raise invalid(
            expected[0],
            f"The table takes quarantined rows ({TAKES_QUARANTINED.name} is true), which no expectation may turn "
            "away. Put the expectation on another table.",
        )


def check_name(configuration: Mapping[str, str], name: str) -> None:
    """That no expectation and no CHECK constraint has a name.

    :raises HeadwaterError: ``DELTA_CONSTRAINT_ALREADY_EXISTS``.
    """
    expectation = find_expectation(configuration, name)
    check = find_constraint(configuration, name)
    if expectation is not None or check is not None:
        old = expectation.clause if expectation is not None else check[1] if check is not None else ""
        raise HeadwaterError("DELTA_CONSTRAINT_ALREADY_EXISTS", {"constraintName": name, "oldConstraint": old})


def without_expectation(configuration: Mapping[str, str], name: str) -> dict[str, str]:
    """The properties without an expectation."""
    gone = EXPECT_PREFIX + name.lower()
    return {key: value for key, value in configuration.items() if key.lower() != gone}


def asked_in(properties: Mapping[str, str]) -> tuple[dict[str, str], list[Expectation]]:
    """The properties that a statement sets without those that declare expectations, and these expectations.

    :raises HeadwaterError: ``HEADWATER_EXPECTATION_NOT_READABLE``.
    """
    others = {key: value for key, value in properties.items() if not key.lower().startswith(EXPECT_PREFIX)}
    return others, expectations({k: v for k, v in properties.items() if k not in others})


def invalid(expectation: Expectation, reason: str) -> HeadwaterError:
    """The error for an expectation that a table cannot have."""
    return HeadwaterError(
        "HEADWATER_INVALID_EXPECTATION",
        {"constraintName": expectation.name, "expectation": expectation.clause, "reason": reason},
    )


def quarantine_columns(schema: StructType) -> StructType:
    """The columns of a quarantine table for a table: its columns, which may be null and are not computed, and those
    that say why, when and where rows were turned away.
    """
    own = tuple(StructField(column.name, as_nullable(column.type)) for column in schema if column.type != _VOID)
    return StructType((*own, *_ADDED))


def check_new_columns(configuration: Mapping[str, str], schema: StructType) -> None:
    """That a table whose rows may be quarantined can have columns.

    :raises HeadwaterError: ``HEADWATER_INVALID_EXPECTATION``.
    """
    for each in readable(configuration):
        if each.action == QUARANTINE:
            check_columns(each, schema)


def check_columns(expectation: Expectation, schema: StructType) -> None:
    """That rows of a table can be put into a quarantine table: no column has a name that is needed for that.

    :raises HeadwaterError: ``HEADWATER_INVALID_EXPECTATION``.
    """
    reserved = (*ADDED_NAMES, *CHANGE_COLUMNS)
    taken = next((column.name for column in schema if column.name.lower() in reserved), None)
    if taken is not None:
        raise invalid(
            expectation,
            f"The name of the column {sql_name(taken)} is reserved where rows are quarantined. Rename it: ALTER TABLE "
            f"… RENAME COLUMN {sql_name(taken)} TO ….",
        )


def _stored(configuration: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return ((key, configuration[key]) for key in sorted(configuration) if key.lower().startswith(EXPECT_PREFIX))


def _folded(name: Sequence[str]) -> list[str]:
    return [part.lower() for part in name]


def _text(expectation: Expectation) -> str:
    said: dict[str, Any] = {"name": expectation.name, "condition": expectation.sql, "onViolation": expectation.action}
    if expectation.into:
        said["into"] = list(expectation.into)
    return json.dumps(said, ensure_ascii=False)


def _read(key: str, text: str) -> Expectation | None:
    """A property as an expectation; None if it is none of ours. Only the condition is necessary."""
    name = key[len(EXPECT_PREFIX) :]
    try:
        said = json.loads(text)
        into = said.get("into", [])
        read = Expectation(
            said.get("name", name), said["condition"], said.get("onViolation", KEEP).upper(), tuple(into)
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    texts: Sequence[Any] = (read.name, read.sql, *read.into)
    is_text = isinstance(into, list) and all(isinstance(each, str) and each for each in texts)
    try:
        "".join(texts).encode() if is_text else b""
    except UnicodeEncodeError:  # half of a pair of surrogates, which JSON may have, and no text of Spark's
        return None
    fits = read.action in _ACTIONS and bool(read.into) == (read.action == QUARANTINE)
    return read if is_text and fits and name and read.name.lower() == name.lower() else None
