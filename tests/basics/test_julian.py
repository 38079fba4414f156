"""The calendar of Spark 2, judged by the tables that Spark's readers follow, which lie in PySpark's JARs."""

from __future__ import annotations

import importlib.util
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from headwater.basics.julian import days_from_julian, microseconds_from_julian
from headwater.basics.time_zones import time_zone_of

_SECOND = 1_000_000
#: Regions whose past the time zone database has not joined with another one's.
_ZONES = [
    "UTC", "Africa/Cairo", "Africa/Monrovia", "America/Los_Angeles", "America/New_York", "America/Sao_Paulo",
    "Asia/Kathmandu", "Asia/Kolkata", "Asia/Shanghai", "Asia/Tokyo", "Australia/Sydney", "Europe/Berlin",
    "Europe/Dublin", "Europe/London", "Europe/Moscow", "Europe/Paris", "Pacific/Auckland",
]  # fmt: skip


#: From which second on, and what is added from there.
Table = tuple[np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def tables() -> dict[str, Table]:
    """By zone."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    jars = Path(spec.submodule_search_locations[0]) / "jars"
    for jar in (jar for name in ("sql-api", "catalyst") for jar in jars.glob(f"spark-{name}_*.jar")):
        with zipfile.ZipFile(jar) as content:
            if "julian-gregorian-rebase-micros.json" in content.namelist():
                zones = json.loads(content.read("julian-gregorian-rebase-micros.json"))
                return {zone["tz"]: (np.array(zone["switches"]), np.array(zone["diffs"])) for zone in zones}
    pytest.skip("the JARs of PySpark are not there")


def moved(table: Table, seconds: np.ndarray) -> np.ndarray:
    switches, differences = table
    found: np.ndarray = seconds + differences[np.maximum(np.searchsorted(switches, seconds, side="right") - 1, 0)]
    return found


def test_days_are_those_of_spark(tables: dict[str, Table]) -> None:
    days = np.arange(-750_000, 1000)
    assert (days_from_julian(days) == moved(tables["UTC"], days * 86_400) // 86_400).all()


@pytest.mark.parametrize("zone", _ZONES)
def test_times_are_those_of_spark(tables: dict[str, Table], zone: str) -> None:
    near = [switch + some for switch in tables[zone][0] for some in (-3600, -1, 0, 1, 3600)]
    seconds = np.array([*near, *np.random.default_rng(7).integers(-62_200_000_000, 2_000_000_000, 1000)])
    found = microseconds_from_julian(seconds * _SECOND + 7, time_zone_of(zone))
    assert (found == moved(tables[zone], seconds) * _SECOND + 7).all()
