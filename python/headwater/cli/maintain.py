"""``headwater maintain``: the maintenance that tables need, worst first, within a budget, once or again and again.

Owns which tables are maintained, the order of actions over several tables, rounds and their end, and what is printed.
What a table needs, and what an action does, is MAINTAIN TABLE's: each action is one such statement, so a round can end
between two of them. Promises: rounds never overlap; SIGTERM, or Ctrl-C, ends the command with exit code 0 once the
action that runs has ended, and a second one ends that action; with ``--dry-run`` and paths alone, neither Spark nor a
JVM is started.
"""

from __future__ import annotations

import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.text import Text

from headwater.basics import clock
from headwater.basics.amounts import plural, seconds_text, size_text
from headwater.basics.errors import HeadwaterError, conf_directory
from headwater.basics.printable import printable
from headwater.cli.locations import reached, snapshot_of
from headwater.cli.printing import console, print_json, table
from headwater.log.history import format_timestamp
from headwater.protocol.columns import quote
from headwater.protocol.properties import PREDICTIVE_OPTIMIZATION
from headwater.statements.maintenance.budget import Budget
from headwater.statements.maintenance.clustering_choice import propose
from headwater.statements.maintenance.findings import LEVELS, by_path
from headwater.statements.maintenance.health import by_section, health
from headwater.statements.maintenance.layouts import Settings
from headwater.statements.maintenance.planning import (
    CLUSTER_BY,
    DONE,
    FAILED,
    LOST,
    NOTHING,
    PARTLY,
    PLANNED,
    SKIPPED,
    TOO_LONG,
    plan,
    with_proposal,
    within,
)
from headwater.statements.maintenance.predicate_use import uses_of
from headwater.stores import SCHEME
from headwater.tables.names import split_name

Row = dict[str, Any]
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[smhd])+")
_NOT_FOUND = (
    "TABLE_OR_VIEW_NOT_FOUND",
    "SCHEMA_NOT_FOUND",
    "NO_SUCH_CATALOG_EXCEPTION",
    "CATALOG_NOT_FOUND",
    # What SHOW TABLES IN says of Spark's own catalog, by Spark's version: it wants a schema.
    "MISSING_DATABASE_FOR_V1_SESSION_CATALOG",
    "REQUIRES_SINGLE_PART_NAMESPACE",
)
_ENABLED = re.compile(rf"\({re.escape(PREDICTIVE_OPTIMIZATION.name)},\s*ENABLE\)", re.IGNORECASE)
#: Seconds below which no action begins.
_LEAST_SECONDS = 0.5


@dataclass(frozen=True)
class Asked:
    """What the command line asks of each round.

    :param budget: seconds of a round; None without a limit.
    """

    targets: Sequence[str] = ()
    everything: bool = False
    only: Sequence[str] = ()
    budget: float | None = None
    chooses_clustering: bool = False
    force: bool = False

    def clauses(self) -> str:
        """The clauses of MAINTAIN TABLE that hold for all actions."""
        return f"{' CHOOSE CLUSTERING' if self.chooses_clustering else ''}{' FORCE' if self.force else ''}"


def seconds_of(text: str) -> float:
    """The seconds of a duration like ``90s``, ``10m``, ``1h30m`` or ``2d``.

    :raises ValueError: it is not one, or is 0.
    """
    written = text.strip().lower().replace(" ", "")
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd])", written) if _DURATION.fullmatch(written) else []
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if seconds <= 0:
        raise ValueError(f"{text!r} is no duration above 0, such as 90s, 10m, 1h30m or 2d")
    return seconds


def is_path(target: str) -> bool:
    """Whether a target is a table's path, else a name: it has a scheme or a slash, or something is there."""
    return SCHEME.match(target) is not None or "/" in target or (target != "" and Path(target).exists())


def planned_without_spark(asked: Asked) -> list[Row]:
    """What the tables at paths need, by their logs alone.

    :raises HeadwaterError: those of :func:`~headwater.cli.locations.reached` and of loading a snapshot.
    """
    budget, rows = Budget(asked.budget), []
    for target in asked.targets:
        with reached(target) as place:
            snapshot = snapshot_of(place, None, None)
            settings = Settings.of_table(snapshot.definition)
            facts = health(snapshot, settings, has_depths=False)
            name = by_path(place.shown)
            found = plan(by_section(facts), name, asked.only, is_local=snapshot.store.is_local)
            shows = not asked.only or CLUSTER_BY in asked.only
            proposal = propose(snapshot, uses_of(snapshot), settings.max_file_size) if shows else None
            chooses = asked.chooses_clustering and not snapshot.partition_columns
            found = with_proposal(found, proposal, name, asked.only, chooses=chooses)
            is_disabled = snapshot.definition.get(PREDICTIVE_OPTIMIZATION) == "disable" and not asked.force
        for each in found:
            ended = within(each, budget)
            if is_disabled and ended.outcome == PLANNED:
                ended = ended.ended(SKIPPED, "the table says DISABLE PREDICTIVE OPTIMIZATION; --force maintains it")
            rows.append({"table": name, **ended.row()})
    return _worst_first(rows)


def _worst_first(rows: Sequence[Row]) -> list[Row]:
    """As a plan orders them: new clustering columns first, so that OPTIMIZE uses them; what is not done last."""

    def place(row: Row) -> tuple[bool, bool, int, float]:
        is_first = row["action"] == CLUSTER_BY and row["outcome"] == PLANNED
        is_last = row["action"] in (None, CLUSTER_BY) and not is_first
        return is_last, not is_first, LEVELS.index(row["level"]), -(row["share"] or 0)

    return sorted(rows, key=place)


@dataclass
class Stop:
    """Whether the command is to end: set by a signal, waited for between rounds."""

    event: threading.Event = field(default_factory=threading.Event)

    def on_signals(self) -> None:
        """End after the action that runs on the first SIGTERM or SIGINT; on the second, at once."""

        def stop(number: int, frame: object) -> None:
            if self.event.is_set():
                raise KeyboardInterrupt
            self.event.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)

    @property
    def is_set(self) -> bool:
        return self.event.is_set()


class Maintainer:
    """Rounds of maintenance through a session.

    :param sql: runs a statement; its rows by their columns.
    :param failure: the condition and the text of an error of a statement; None for an error that is no statement's.
    """

    def __init__(
        self,
        asked: Asked,
        sql: Callable[[str], list[Row]],
        failure: Callable[[Exception], tuple[str, str] | None],
        stop: Stop,
    ) -> None:
        self._asked, self._sql, self._failure, self._stop = asked, sql, failure, stop
        #: Tables that a round has passed over because nothing marks them.
        self.unmarked = 0
        #: Rows of the report for what was asked for and could not be looked into, or has no table.
        self.without_tables: list[Row] = []

    def tables(self) -> list[str]:
        """The tables to maintain, as statements call them: those that were named; of schemas and catalogs, those that
        are marked. It ends early if the command is told to end.
        """
        self.unmarked, self.without_tables = 0, []
        found: list[str] = []
        for target in self._asked.targets:
            if is_path(target):
                local = SCHEME.match(target) is None
                found.append(by_path(str(Path(target).absolute()) if local else target))
            else:
                found += self._looked_into(quote(split_name(target)), self._named)
        if self._asked.everything:
            found += self._looked_into("the current catalog", lambda _: self._of_schemas("SHOW NAMESPACES"))
        return list(dict.fromkeys(found))

    def _looked_into(self, name: str, look: Callable[[str], list[str]]) -> list[str]:
        """What is found there, if the command is not told to end; an error, or finding nothing, is a row."""
        if self._stop.is_set:
            return []
        known = self.unmarked, len(self.without_tables)
        try:
            found = look(name)
        except Exception as error:
            if (failure := self._failure(error)) is None:
                raise
            self.without_tables.append({"table": name, **_failed(None, failure[1])})
            return []
        if not found and known == (self.unmarked, len(self.without_tables)) and not self._stop.is_set:
            row = {**_failed(None, "no Delta table was found in it"), "level": LEVELS[1], "outcome": NOTHING}
            self.without_tables.append({"table": name, **row})
        return found

    def _named(self, name: str) -> list[str]:
        """The table of a name; else the marked ones of the schema, or of the catalog, of that name."""
        try:
            self._sql(f"DESCRIBE DETAIL {name}")
        except Exception as error:
            if not self._says_missing(error):
                raise
            is_missing = True
            for tried in (self._of_schema, self._of_catalog) if len(split_name(name)) == 1 else (self._of_schema,):
                unmarked = self.unmarked
                try:
                    found = tried(name)
                except Exception as other:
                    if not self._says_missing(other):
                        raise
                else:
                    is_missing = False
                    # Of a catalog, SHOW TABLES may answer an empty list instead of an error.
                    if found or self.unmarked != unmarked:
                        return found
            if is_missing:
                raise
            return []
        return [name]

    def _says_missing(self, error: Exception) -> bool:
        known = self._failure(error)
        return known is not None and known[0] in _NOT_FOUND

    def _of_schema(self, name: str) -> list[str]:
        return self._marked(name, [row["tableName"] for row in self._sql(f"SHOW TABLES IN {name}")])

    def _of_catalog(self, name: str) -> list[str]:
        return self._of_schemas(f"SHOW NAMESPACES IN {name}", f"{name}.")

    def _of_schemas(self, listing: str, prefix: str = "") -> list[str]:
        """The marked tables of the schemas that a statement lists, whose names it quotes. A schema that fails is a row
        of the report.
        """
        found = []
        for row in self._sql(listing):
            if self._stop.is_set:
                break
            parts = split_name(row["namespace"])
            # Below a schema, the names that are listed begin with that schema's.
            name = f"{prefix if len(parts) == 1 else ''}{quote(parts)}"
            try:
                found += self._of_schema(name)
            except Exception as error:
                if (failure := self._failure(error)) is None:
                    raise
                self.without_tables.append({"table": name, **_failed(None, failure[1])})
        return found

    def _marked(self, schema: str, names: Sequence[str]) -> list[str]:
        """Those tables of a schema that are marked, by themselves or by their schema."""
        inherited: bool | None = None
        found = []
        for name in (f"{schema}.{quote([each])}" for each in names):
            if self._stop.is_set:
                break
            try:
                (detail,) = self._sql(f"DESCRIBE DETAIL {name}")
            except Exception as error:
                if self._failure(error) is None:
                    raise
                continue  # a view, or a table of another format, or one that is damaged: its owner names it
            if detail["format"] != "delta":
                continue
            mark = (dict(detail["properties"] or {}).get(PREDICTIVE_OPTIMIZATION.name) or "").upper()
            if not mark:
                inherited = self._is_marked(schema) if inherited is None else inherited
            if mark == "ENABLE" or (not mark and inherited):
                found.append(name)
            else:
                self.unmarked += 1
        return found

    def _is_marked(self, schema: str) -> bool:
        rows = self._sql(f"DESCRIBE NAMESPACE EXTENDED {schema}")
        return any(row["info_name"] == "Properties" and _ENABLED.search(str(row["info_value"])) for row in rows)

    def planned(self) -> list[Row]:
        """What the tables need, worst first over all of them. It ends early if the command is told to end."""
        rows: list[Row] = []
        for name in self.tables():
            if self._stop.is_set:
                break
            rows += self._statement(name, " DRY RUN")
        return _worst_first([*rows, *self.without_tables])

    def round(self) -> list[Row]:
        """Do it; a row for each action."""
        budget, done = Budget(self._asked.budget), []
        for row in self.planned():
            if row["outcome"] != PLANNED:
                done.append(row)
            elif self._stop.is_set:
                done.append({**row, "outcome": SKIPPED, "detail": "the command was told to end"})
            elif budget.left <= _LEAST_SECONDS:
                done.append({**row, "outcome": TOO_LONG, "detail": "the budget is used up"})
            else:
                done += self._statement(row["table"], "", row["action"], budget.left)
        return done

    def _statement(self, name: str, ending: str, action: str | None = None, left: float | None = None) -> list[Row]:
        only = [action] if action else list(self._asked.only)
        clauses = f" ONLY ({', '.join(only)})" if only else ""
        seconds = self._asked.budget if left is None else left
        if seconds is not None and seconds != float("inf"):
            clauses += f" BUDGET {max(seconds, 0.01):.2f} SECONDS"
        try:
            rows = self._sql(f"MAINTAIN TABLE {name}{clauses}{self._asked.clauses()}{ending}")
        except Exception as error:
            failure = self._failure(error)
            if failure is None:
                raise
            rows = [_failed(action, failure[1])]
        return [{"table": name, **row} for row in rows]


def _failed(action: str | None, text: str) -> Row:
    row = dict.fromkeys(("reason", "statement", "filesBefore", "filesAfter", "bytesBefore", "bytesAfter"))
    more = {"estimatedSeconds": None, "seconds": None}
    return {"action": action, "level": LEVELS[0], "share": 0.0, **row, **more, "outcome": FAILED, "detail": text}


def saved(rows: Sequence[Row]) -> str:
    """What a round did and saved, in one line."""
    if not rows:
        return "nothing to do"
    did = [row for row in rows if row["outcome"] in (DONE, PARTLY)]
    names = len({row["table"] for row in rows})
    parts = [f"{plural(len(did), 'action')} done on {plural(len({row['table'] for row in did}), 'table')} of {names}"]
    rewritten = [row for row in did if row["action"] in ("OPTIMIZE", "REORG")]
    for rows_of, words in (
        (rewritten, lambda before, after, _: f"{before:,} files became {after:,}" if before else None),
        ([row for row in did if row["action"] == "VACUUM"], _freed),
        ([row for row in did if row["action"] == "CHECKPOINT"], _replayed),
    ):
        if rows_of:
            before = sum(row["filesBefore"] or 0 for row in rows_of)
            after = sum(row["filesAfter"] or 0 for row in rows_of)
            text = words(before, after, rows_of)
            parts += [text] if text else []
    for outcome in (LOST, FAILED, TOO_LONG):
        some = [row for row in rows if row["outcome"] == outcome]
        if some:
            first = f" ({some[0]['table']}: {some[0]['detail']})" if outcome == FAILED else ""
            parts.append(f"{len(some)} {outcome}{first}")
    parts += [f"{row['table']}: {row['detail']}" for row in rows if row["action"] is None and row["outcome"] == NOTHING]
    return printable(", ".join(parts))


def _freed(before: int, after: int, rows: Sequence[Row]) -> str:
    size = sum((row["bytesBefore"] or 0) - (row["bytesAfter"] or 0) for row in rows)
    return f"{plural(before - after, 'file')} deleted ({size_text(max(size, 0))})"


def _replayed(before: int, after: int, rows: Sequence[Row]) -> str:
    sizes = [size_text(sum(row[name] or 0 for row in rows)) for name in ("bytesBefore", "bytesAfter")]
    return f"the log's replay went from {plural(before, 'file')} ({sizes[0]}) to {after:,} ({sizes[1]})"


def show(rows: Sequence[Row], *, as_json: bool, unmarked: int = 0) -> None:
    """Print a report: a table, and a line of what was saved."""
    if as_json:
        print_json({"actions": list(rows), "unmarkedTables": unmarked})
        return
    out = console()
    if rows:
        columns = ["table", "action", "outcome", "files", "bytes", "seconds", "what"]
        out.print(table(columns, [_shown(row) for row in rows]))
    else:
        out.print(Text("Nothing to do.", style="green"))
    if any(row["outcome"] in (DONE, PARTLY, LOST, FAILED) for row in rows):
        out.print(Text(f"{saved(rows)}."))
    if unmarked:
        out.print(Text(f"{plural(unmarked, 'table')} passed over: no ENABLE PREDICTIVE OPTIMIZATION.", style="dim"))


def _shown(row: Row) -> list[Any]:
    seconds = row["seconds"] if row["seconds"] is not None else row["estimatedSeconds"]
    return [
        row["table"],
        row["action"],
        row["outcome"],
        _change(row["filesBefore"], row["filesAfter"], "{:,}".format),
        _change(row["bytesBefore"], row["bytesAfter"], size_text),
        None if seconds is None else f"{'' if row['seconds'] is not None else 'about '}{seconds_text(seconds)}",
        row["detail"] or row["reason"],
    ]


def _change(before: int | None, after: int | None, text: Callable[[int], str]) -> str | None:
    return " → ".join(text(each) for each in (before, after) if each is not None) or None


def run(
    asked: Asked,
    *,
    every: float | None,
    dry_run: bool,
    as_json: bool,
    confs: Mapping[str, str],
    remote: str | None,
) -> int:
    """Run the command.

    :param every: seconds from the start of one round to the start of the next; None for one round.
    :param confs: settings of Spark.
    :param remote: the address of a Spark Connect server; None for a Spark of its own.
    :returns: the exit code: 1 if an action failed, or a table could not be planned.
    """
    has_names = asked.everything or not all(map(is_path, asked.targets))
    if dry_run and not has_names and not remote:
        show(planned_without_spark(asked), as_json=as_json)
        return 0
    stop = Stop()
    stop.on_signals()
    spark = _session(confs, remote, has_names=has_names)
    try:
        stop.on_signals()  # PySpark has set its own for SIGINT
        maintainer = Maintainer(asked, lambda text: [row.asDict() for row in spark.sql(text).collect()], _failure, stop)
        if dry_run:
            rows = maintainer.planned()
            show(rows, as_json=as_json, unmarked=maintainer.unmarked)
            return 0 if stop.is_set else _exit_code(rows)
        if every is None:
            rows = maintainer.round()
            show(rows, as_json=as_json, unmarked=maintainer.unmarked)
            return 0 if stop.is_set else _exit_code(rows)
        return rounds(maintainer.round, every, stop, as_json=as_json)
    finally:
        spark.stop()


def rounds(work: Callable[[], list[Row]], every: float, stop: Stop, *, as_json: bool) -> int:
    """Rounds until the command is told to end, a line for each."""
    number = 0
    while not stop.is_set:
        began = time.monotonic()
        number += 1
        at = format_timestamp(clock.milliseconds())
        try:
            rows = work()
        except Exception as error:  # such as a catalog that does not answer: the next round may do better
            if (failure := _failure(error)) is None:
                raise
            rows = [{"table": None, **_failed(None, failure[1])}]
        seconds = time.monotonic() - began
        if as_json:
            print_json({"round": number, "at": at, "seconds": round(seconds, 2), "actions": rows}, on_one_line=True)
        else:
            print(f"{at} round {number}: {saved(rows)}, {seconds_text(seconds)}", flush=True)
        stop.event.wait(max(0.0, every - seconds))
    return 0


def _exit_code(rows: Sequence[Row]) -> int:
    return int(any(row["outcome"] == FAILED for row in rows))


def _failure(error: Exception) -> tuple[str, str] | None:
    """The condition and the text of an error of a statement; None for any other."""
    from pyspark.errors import PySparkException

    if isinstance(error, HeadwaterError):
        return error.condition, error.text
    if not isinstance(error, PySparkException):
        return None
    return error.getCondition() or "", str(error).strip().partition("\n")[0]


def _session(confs: Mapping[str, str], remote: str | None, *, has_names: bool) -> Any:
    """The Spark that maintains: one of its own, or that of a server.

    :param has_names: whether tables are named, so that Hive's metastore is asked, as ``spark-sql`` does.
    :raises RuntimeError: there is no Spark, or it does not start.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise RuntimeError("maintain needs PySpark: pip install 'headwater[spark]'") from None
    from headwater import configure
    from headwater.cli.launch import default_settings, spark_home

    builder = SparkSession.builder.appName("headwater maintain")
    if remote:
        return builder.remote(remote).getOrCreate()
    known = {**default_settings(spark_home()), **confs}
    quiet = (conf_directory() / "log4j2-quiet.properties").as_uri()
    usual = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j.configurationFile={quiet}",
        "spark.sql.catalogImplementation": "hive" if has_names else "in-memory",
    }
    for key, value in {**{key: value for key, value in usual.items() if key not in known}, **confs}.items():
        builder.config(key, value)
    sys.stderr.flush()
    return configure(builder).getOrCreate()
