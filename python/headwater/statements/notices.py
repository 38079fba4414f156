"""Warnings about properties and settings that are accepted but have no effect here.

Each is logged once for each table and process, as is a table whose Iceberg or Hudi metadata falls behind. Properties
without effect are marked where they are declared (:attr:`headwater.protocol.properties.Property.unused`); settings have
their list here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headwater.basics.suggestions import did_you_mean
from headwater.basics.warn_once import warn_once
from headwater.change_data.changelog import unpaired_advice
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.protocol.properties import PROPERTIES
from headwater.schema.iceberg import is_converted
from headwater.statements.settings import SETTINGS, UNUSED_SETTINGS, UNUSED_VALUES

_OWN = "spark.headwater."
#: Settings of our own, and beginnings of such.
OWN_SETTINGS = tuple(s.name for s in SETTINGS if s.name.startswith(_OWN) and not s.is_family)
_UNUSED_FAMILIES = tuple(name for name in UNUSED_SETTINGS if name.endswith("."))
_OWN_FAMILIES = (*(s.prefix for s in SETTINGS if s.name.startswith(_OWN) and s.is_family), "spark.headwater.dml.")


def of_properties(given: Mapping[str, str], table: str) -> None:
    """Warn of properties that a statement, or the session's defaults, gave a table and nothing acts on."""
    for name in given:
        known = PROPERTIES.get(name)
        if known is not None and known.unused is not None:
            warn_once(table, f"{table}: the property {name} is recorded and has no effect here: {known.unused}")


def of_written(snapshot: Snapshot) -> None:
    """Warn of a table whose metadata of other formats another engine keeps up, and this writer does not."""
    formats = snapshot.definition.get(properties.UNIVERSAL_FORMATS).strip()
    if formats and not is_converted(snapshot.definition):
        table = snapshot.table_path
        warn_once(
            table,
            f"{table}: the table has {properties.UNIVERSAL_FORMATS.name} = {formats}, but this write does not update "
            "that metadata: its readers see the state of the last write of an engine that does",
        )


def of_unpaired_images(table: str, versions: Collection[int]) -> None:
    """Warn of updates that a changelog cannot give row by row."""
    warn_once(table, unpaired_advice(table, versions))


def of_settings(settings: Mapping[str, str]) -> None:
    """Warn of settings of the session that have no effect; once each while the process lives."""
    for name, value in settings.items():
        without_effect, why = UNUSED_VALUES.get(name, (None, ""))
        if value.strip().upper() == without_effect:
            warn_once(name, f"the setting {name} = {value} has no effect here: {why}")
        unused = name if name in UNUSED_SETTINGS else next((n for n in _UNUSED_FAMILIES if name.startswith(n)), None)
        if unused is not None:
            warn_once(name, f"the setting {name} has no effect here: {UNUSED_SETTINGS[unused]}")
        elif name.startswith(_OWN) and name not in OWN_SETTINGS and not name.startswith(_OWN_FAMILIES):
            warn_once(name, f"the setting {name} is not known.{did_you_mean(name, OWN_SETTINGS)}")
