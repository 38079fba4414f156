"""The settings that all sessions of tests have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.sparks import archive

#: Java options for JVMs that live for minutes: optimizing for longer takes a third of their time.
#: At its first sizes, the space for classes makes Spark collect all garbage while it starts, and that for young objects
#: makes it collect those all the time. Without optimizing, that for code is a fifth of the usual one, and Spark ends
#: when it is full.
SHORT_LIVED = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MetaspaceSize=200m -XX:NewSize=256m -XX:ReservedCodeCacheSize=240m"
)
#: Java options for sessions that read times as Python reads them.
IN_UTC = "-Duser.timezone=UTC"


def java_options(*more: str) -> str:
    """Those of a JVM that lives for minutes."""
    return " ".join(option for option in (SHORT_LIVED, archive.options(), *more) if option)


def settings(home: Path | str | None = None, *more: str) -> dict[str, str]:
    """A small local session, times in UTC; with ``home``, all it writes lies there."""
    options = list(more)
    given = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        # The text of each plan, which Spark makes for its UI.
        "spark.sql.ui.explainMode": "simple",
    }
    if home is not None:
        options.append(f"-Dderby.system.home={home}")
        given |= {"spark.sql.warehouse.dir": f"{home}/warehouse", "spark.local.dir": f"{home}/local"}
    return {**given, "spark.driver.extraJavaOptions": java_options(*options)}


#: Hadoop's settings of what a local session has not.
_OF_OTHERS = (
    *("dfs.", "yarn.", "ha.", "ipc.", "fs.s3a.", "fs.azure.", "fs.adl.", "hadoop.http.", "hadoop.security.kms."),
    *("mapreduce.map.", "mapreduce.reduce.", "mapreduce.jobhistory.", "mapreduce.shuffle.", "mapreduce.client."),
)


def lighten(spark: Any) -> None:
    """Leave out of Hadoop's configuration what a local session has no use for: where each setting came from, and the
    settings of clusters and other stores.

    Spark writes all of this into every scan and every job, and compresses where a setting came from for each by itself.
    That is a sixth of the time of small statements.
    """
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    entries, names = configuration.iterator(), []
    while entries.hasNext():
        names.append(entries.next().getKey())
    for name in names:
        if name.startswith(_OF_OTHERS):
            configuration.unset(name)
    origins = configuration.getClass().getDeclaredField("updatingResource")
    origins.setAccessible(True)
    origins.get(configuration).clear()
