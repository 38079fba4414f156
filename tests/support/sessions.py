"""The settings that all sessions of tests have in common."""

from __future__ import annotations

from pathlib import Path

from support.sparks import archive

#: Java options for JVMs that live for minutes: optimizing for longer takes a third of their time.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
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
    }
    if home is not None:
        options.append(f"-Dderby.system.home={home}")
        given |= {"spark.sql.warehouse.dir": f"{home}/warehouse", "spark.local.dir": f"{home}/local"}
    return {**given, "spark.driver.extraJavaOptions": java_options(*options)}
