"""The ``headwater`` command.

Owns the command line only: :mod:`headwater.cli.launch` and the modules beside this one do the work. Promises: a failure
that the user can fix is one message on stderr and exit code 1, never a traceback. Spark's shells and servers replace
this process, so exit code, signals and terminal are theirs.
"""

from __future__ import annotations

import importlib.util
import io
import os
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from headwater import __version__, delta_jar_path, jar_path
from headwater.basics.errors import HeadwaterError

app = typer.Typer(
    name="headwater",
    help="Delta tables for Apache Spark, run by Python.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

# Spark's shells parse their own options, --help among them.
_PASS_ON = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
# A server's --help is ours: Spark would show that of spark-submit.
_PASS_ON_BUT_HELP = {**_PASS_ON, "help_option_names": ["--help"]}

# The panels of the help.
_TABLES, _MAINTAIN = "Look at a table, without Spark", "Maintain tables"
_SPARK, _SETUP = "Run Spark", "Set up"

_PathArgument = Annotated[
    str, typer.Argument(help="The folder of a table, or its URI (s3://bucket/table) in a store of pyarrow or fsspec.")
]
_Version = Annotated[int | None, typer.Option(min=0, help="The table at this version. Default: the newest.")]
_Timestamp = Annotated[str | None, typer.Option(help="The table at this time (UTC), such as 2024-01-31T12:00.")]
_Limit = Annotated[int | None, typer.Option(min=1, help="Maximum number of rows. Default: 50; all with --json.")]
#: The exit code of a command that was told to fail on what it found.
_FOUND = 3


class FailOn(str, Enum):
    """The levels of :mod:`headwater.statements.maintenance.findings`, the worst first. They are here so that the help
    does not import that module.
    """

    WARNING = "warning"
    NOTE = "note"


_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def main() -> None:
    """Run the command that the arguments name."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names may have characters that the terminal's encoding lacks
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except (HeadwaterError, RuntimeError, OSError) as error:
        sys.exit(f"headwater: {error}")


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"headwater {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


@app.command(rich_help_panel=_SETUP)
def jar(
    delta: Annotated[
        bool,
        typer.Option(
            "--delta",
            help="Print the path of headwater-delta.jar instead, for programs and settings with io.delta's classes.",
        ),
    ] = False,
) -> None:
    """Print the path of headwater.jar, for --jars and spark.jars."""
    typer.echo(delta_jar_path() if delta else jar_path())


@app.command("spark-sql", rich_help_panel=_SPARK, context_settings=_PASS_ON)
def spark_sql(context: typer.Context) -> None:
    """Run Spark's SQL shell with Headwater set up; accepts the shell's arguments."""
    _run_shell("spark-sql", context.args)


@app.command(rich_help_panel=_SPARK, context_settings=_PASS_ON)
def pyspark(context: typer.Context) -> None:
    """Run the PySpark shell with Headwater set up; accepts the shell's arguments."""
    _run_shell("pyspark", context.args)


@app.command("thrift-server", rich_help_panel=_SPARK, context_settings=_PASS_ON_BUT_HELP)
def thrift_server(context: typer.Context) -> None:
    """Run Spark's Thrift server, for JDBC and ODBC, with Headwater set up, until it is interrupted.

    Takes the options of spark-submit (--master, --conf, --jars, ...; "spark-submit --help" lists them) and
    --hiveconf SETTING=VALUE. It listens on 127.0.0.1, port 10000, unless
    --hiveconf hive.server2.thrift.bind.host=... and --hiveconf hive.server2.thrift.port=... say otherwise: set up
    Hive's authentication before it listens to others.
    """
    _run_server("thrift-server", context.args)


@app.command("connect-server", rich_help_panel=_SPARK, context_settings=_PASS_ON_BUT_HELP)
def connect_server(context: typer.Context) -> None:
    """Run Spark Connect's server with Headwater set up, until it is interrupted.

    Takes the options of spark-submit (--master, --conf, --jars, ...; "spark-submit --help" lists them). It listens on
    127.0.0.1, port 15002, unless --conf spark.connect.grpc.binding.address=... and
    --conf spark.connect.grpc.binding.port=... say otherwise: set up Spark Connect's authentication before it listens
    to others.
    """
    _run_server("connect-server", context.args)


@app.command(rich_help_panel=_SPARK)
def demo(
    directory: Annotated[
        Path | None,
        typer.Option(
            help="The directory for the tables, which keeps them: empty or new. Default: headwater-demo, new."
        ),
    ] = None,
    cores: Annotated[int | None, typer.Option(min=1, help="Cores for Spark. Default: all.")] = None,
    report: Annotated[
        Path | None, typer.Option(help="The HTML file with the pictures. Default: beside the tables.")
    ] = None,
) -> None:
    """Load the 336,776 flights that left New York in 2013 and work with them in SQL."""
    if importlib.util.find_spec("pyspark") is None:
        raise RuntimeError("The demo needs PySpark: pip install 'headwater[demo]'")
    from pyspark.errors import PySparkException

    from headwater.cli.demo import run_demo

    try:
        run_demo(directory, cores, report)
    except PySparkException as error:
        raise RuntimeError(f"the demo failed in Spark: {error}") from error


@app.command(rich_help_panel=_TABLES)
def health(
    path: _PathArgument,
    where: Annotated[
        list[str] | None,
        typer.Option(help='A predicate, such as "a = 1 AND b > 2", to count the files that it reads. May be repeated.'),
    ] = None,
    fail_on: Annotated[
        FailOn | None,
        typer.Option(help="End with exit code 3 if there is a finding of this level, or of a worse one."),
    ] = None,
    as_json: _Json = False,
) -> None:
    """Show the health of a table from its log: what to do, then small files, deleted rows, layout, and the log.

    No data file is looked at. Timestamps without a zone in predicates are UTC.
    """
    from headwater.cli.health import show_health

    found = show_health(path, where or [], as_json=as_json)
    levels = list(FailOn)
    if fail_on is not None and any(levels.index(FailOn(each.level)) <= levels.index(fail_on) for each in found):
        raise typer.Exit(_FOUND)


@app.command(rich_help_panel=_TABLES)
def inspect(
    path: _PathArgument,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port on 127.0.0.1. Default: a free one.")] = 0,
) -> None:
    """Show a table, or the tables in a folder, in the browser: versions, files, what a predicate reads. Without Spark.

    Prints the address of the page and serves it until it is interrupted. It only reads.
    """
    from headwater.cli.inspecting import serve

    serve(path, port)


@app.command(rich_help_panel=_TABLES)
def describe(
    path: _PathArgument, version: _Version = None, timestamp: _Timestamp = None, as_json: _Json = False
) -> None:
    """Show a table's columns, partitions, clustering and constraints from its log, without Spark."""
    from headwater.cli.table_commands import show_description

    show_description(path, *_point(version, timestamp), as_json=as_json)


@app.command(rich_help_panel=_TABLES)
def history(path: _PathArgument, limit: _Limit = None, as_json: _Json = False) -> None:
    """Show the versions of a table, newest first: time, operation, and changes of rows, files and bytes."""
    from headwater.cli.table_commands import show_history

    show_history(path, limit, as_json=as_json)


@app.command(rich_help_panel=_TABLES)
def detail(path: _PathArgument, version: _Version = None, timestamp: _Timestamp = None, as_json: _Json = False) -> None:
    """Show the details of a table, as DESCRIBE DETAIL does: size, files, properties, protocol, features."""
    from headwater.cli.table_commands import show_detail

    show_detail(path, *_point(version, timestamp), as_json=as_json)


@app.command(rich_help_panel=_TABLES)
def log(path: _PathArgument, version: _Version = None, limit: _Limit = None, as_json: _Json = False) -> None:
    """Show the files of a table's log; with --version, the actions of that version's commit."""
    from headwater.cli.table_commands import show_log

    show_log(path, version, limit, as_json=as_json)


@app.command(rich_help_panel=_TABLES)
def diff(
    path: _PathArgument,
    older: Annotated[int | None, typer.Argument(min=0, help="A version. Default: the one before the newer.")] = None,
    newer: Annotated[int | None, typer.Argument(min=0, help="A version. Default: the newest.")] = None,
    as_json: _Json = False,
) -> None:
    """Show how two versions of a table differ: columns, properties, protocol, streams that write it, files, rows."""
    from headwater.cli.table_commands import show_difference

    show_difference(path, older, newer, as_json=as_json)


@app.command(rich_help_panel=_TABLES)
def files(
    path: _PathArgument,
    version: _Version = None,
    timestamp: _Timestamp = None,
    where: Annotated[
        str | None, typer.Option(help='A predicate, such as "a = 1 AND b > 2": only the files that it reads.')
    ] = None,
    limit: _Limit = None,
    as_json: _Json = False,
) -> None:
    """Show the live files of a table: size, rows, deleted rows, partition."""
    from headwater.cli.table_commands import show_files

    show_files(path, *_point(version, timestamp), where=where, limit=limit, as_json=as_json)


def _point(version: int | None, timestamp: str | None) -> tuple[int | None, str | None]:
    if version is not None and timestamp is not None:
        raise typer.BadParameter("give --version or --timestamp, not both")
    return version, timestamp


@app.command(rich_help_panel=_MAINTAIN)
def maintain(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH|NAME...",
            help="Tables, by path or name. A name of a schema or catalog means its tables with ENABLE PREDICTIVE "
            "OPTIMIZATION.",
        ),
    ] = None,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="All tables of the current catalog with ENABLE PREDICTIVE OPTIMIZATION.")
    ] = False,
    budget: Annotated[
        str | None, typer.Option(help="The time for a round, such as 10m: no action begins that would not end in it.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this action: optimize, reorg, analyze, checkpoint, vacuum or 'cluster by'. May repeat."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done. For paths, this starts no Spark.")
    ] = False,
    every: Annotated[
        str | None, typer.Option(help="Begin a round each so often, such as 1h, until SIGTERM; a line for each round.")
    ] = None,
    choose_clustering: Annotated[
        bool, typer.Option("--choose-clustering", help="Set the clustering columns that are proposed.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also maintain tables that say DISABLE PREDICTIVE OPTIMIZATION.")
    ] = False,
    conf: Annotated[list[str] | None, typer.Option(help="A setting of Spark, as NAME=VALUE. May be repeated.")] = None,
    master: Annotated[str | None, typer.Option(help="Where Spark runs its tasks. Default: as Spark is set up.")] = None,
    remote: Annotated[
        str | None, typer.Option(help="Use the Spark Connect server at this address (sc://host:port) instead.")
    ] = None,
    as_json: _Json = False,
) -> None:
    """Do what health advises: OPTIMIZE, REORG, ANALYZE, checkpoint and VACUUM, worst first, while others write.

    Exit code 0: done, or told to end by SIGTERM; 1: an action failed, or a table could not be opened.
    """
    from headwater.cli.maintain import Asked, is_path, run, seconds_of
    from headwater.sql.grammar.maintain import ACTIONS
    from headwater.tables.names import split_name

    if bool(targets) == everything:
        raise typer.BadParameter("name tables, a schema or a catalog, or give --all")
    if every is not None and dry_run:
        raise typer.BadParameter("--dry-run shows one round: leave out --every")
    actions = [each.upper() for each in only or ()]
    if unknown := [each for each in actions if each not in ACTIONS]:
        raise typer.BadParameter(f"--only takes {', '.join(ACTIONS)}, not {unknown[0]}")
    confs = dict(each.partition("=")[::2] for each in conf or ())
    if any("=" not in each for each in conf or ()):
        raise typer.BadParameter("--conf takes NAME=VALUE")
    try:
        seconds, period = (None if text is None else seconds_of(text) for text in (budget, every))
        for name in (each for each in targets or () if not is_path(each)):
            split_name(name)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    asked = Asked(targets or [], everything, actions, seconds, choose_clustering, force)
    if master is not None:
        confs["spark.master"] = master
    code = run(asked, every=period, dry_run=dry_run, as_json=as_json, confs=confs, remote=remote)
    if code:
        raise typer.Exit(code)


@app.command(rich_help_panel=_SETUP)
def doctor(
    path: Annotated[str | None, typer.Argument(help="The folder of a table, or the folder for a new one.")] = None,
    as_json: _Json = False,
) -> None:
    """Check what Headwater needs: Python, packages, Java, Spark, JAR, settings, handler, and the store of a path.

    Exit code 0: all is well, or has warnings only; 1: something must be changed, and the line says what.
    """
    from headwater.cli.doctor import run

    raise typer.Exit(run(path, as_json=as_json))


def _run_shell(shell: str, arguments: list[str]) -> None:
    from headwater.cli.launch import shell_command

    command, environment = shell_command(shell, arguments, headers=sys.stdout.isatty(), progress=sys.stderr.isatty())
    os.execve(command[0], command, environment)


def _run_server(server: str, arguments: list[str]) -> None:
    from headwater.cli.launch import server_command

    command, environment = server_command(server, arguments)
    os.execve(command[0], command, environment)
