"""The options that a write accepts: known names, and properties of the table.

Owns what table properties among a writer's options mean: a table that the write creates gets them; a table that exists
does not, as with Delta Lake. :mod:`headwater.statements.known_options` has the names and meanings of options.
"""

from __future__ import annotations

from collections.abc import Mapping

from headwater.basics.warn_once import warn_once
from headwater.bridge.statement import Statement
from headwater.log.snapshot import Snapshot
from headwater.protocol.properties import EXPECT_PREFIX, INDEX_PREFIX, PREFIX, TAKES_QUARANTINED, normalize
from headwater.statements.known_options import check_options
from headwater.statements.settings import ALLOWS_ARBITRARY


def check_given(
    given: Mapping[str, str | None], snapshot: Snapshot, statement: Statement, *, is_sql: bool = False
) -> None:
    """Check the options of a write into a table that exists.

    :param is_sql: whether the write is SQL, whose WITH has no options but Headwater's.
    :raises HeadwaterError: ``HEADWATER_UNKNOWN_OPTION``; those of :func:`ignore_properties`.
    """
    check_options(given, in_sql=is_sql)
    ignore_properties(given, snapshot, statement)


def properties_in(given: Mapping[str, str | None]) -> dict[str, str]:
    """The options that are properties of a new table, with names as given."""
    return {name: v for name, v in given.items() if v is not None and _is_property(name.lower())}


def _is_property(folded: str) -> bool:
    return folded.startswith((PREFIX, EXPECT_PREFIX, INDEX_PREFIX)) or folded == TAKES_QUARANTINED.name.lower()


def ignore_properties(given: Mapping[str, str | None], snapshot: Snapshot, statement: Statement) -> None:
    """Warn of properties that an existing table does not get; once each while the process lives.

    :raises HeadwaterError: as :func:`headwater.protocol.properties.normalize`.
    """
    properties = normalize(properties_in(given), allow_arbitrary=ALLOWS_ARBITRARY.of(statement))
    for name, value in sorted(properties.items() - snapshot.metadata.configuration.items()):
        table = snapshot.table_path
        warn_once(
            table,
            f"{table}: the option {name} has no effect, because the table already exists. To change the property, use "
            f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('{name}' = '{value}').",
        )
