"""The ``headwater`` command.

Owns the command line only: :mod:`headwater.launch` and the modules beside this one do the work. Promises: a failure
that the user can fix is one message on stderr and exit code 1, never a traceback. Spark's shells and servers replace
this process, so exit code, signals and terminal are theirs.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from headwater import __version__, delta_jar_path, jar_path
from headwater.errors import HeadwaterError

app = typer.Typer(
    name="headwater",
    help="Delta tables for Apache Spark, run by Python.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

# Spark's shells parse their own options, --help among them.
_PASS_ON = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
# A server's --help is ours: Spark would show that of spark-submit.
_PASS_ON_BUT_HELP = {**_PASS_ON, "help_option_names": ["--help"]}


def main() -> None:
    """The console script."""
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


@app.command()
def jar(
    delta: Annotated[
        bool,
        typer.Option(
            "--delta", help="The one beside it instead, for settings and programs that name io.delta's classes."
        ),
    ] = False,
) -> None:
    """Print the path of headwater.jar, for --jars and spark.jars."""
    typer.echo(delta_jar_path() if delta else jar_path())


@app.command("spark-sql", context_settings=_PASS_ON)
def spark_sql(context: typer.Context) -> None:
    """Run Spark's SQL shell with Headwater set up; takes its arguments."""
    _run_shell("spark-sql", context.args)


@app.command(context_settings=_PASS_ON)
def pyspark(context: typer.Context) -> None:
    """Run the PySpark shell with Headwater set up; takes its arguments."""
    _run_shell("pyspark", context.args)


@app.command("thrift-server", context_settings=_PASS_ON_BUT_HELP)
def thrift_server(context: typer.Context) -> None:
    """Run Spark's Thrift server, for JDBC and ODBC, with Headwater set up, until it is interrupted.

    Takes the options of spark-submit (--master, --conf, --jars, ...; "spark-submit --help" lists them) and
    --hiveconf SETTING=VALUE. It listens on 127.0.0.1, port 10000, unless
    --hiveconf hive.server2.thrift.bind.host=... and --hiveconf hive.server2.thrift.port=... say otherwise: set up
    Hive's authentication before it listens to others.
    """
    _run_server("thrift-server", context.args)


@app.command("connect-server", context_settings=_PASS_ON_BUT_HELP)
def connect_server(context: typer.Context) -> None:
    """Run Spark Connect's server with Headwater set up, until it is interrupted.

    Takes the options of spark-submit (--master, --conf, --jars, ...; "spark-submit --help" lists them). It listens on
    127.0.0.1, port 15002, unless --conf spark.connect.grpc.binding.address=... and
    --conf spark.connect.grpc.binding.port=... say otherwise: set up Spark Connect's authentication before it listens
    to others.
    """
    _run_server("connect-server", context.args)


@app.command()
def demo(
    directory: Annotated[
        Path | None,
        typer.Option(help="Where the tables go, and stay: an empty or new directory. Default: a temporary one."),
    ] = None,
    cores: Annotated[int | None, typer.Option(min=1, help="Cores for Spark. Default: all.")] = None,
) -> None:
    """Load the 336,776 flights that left New York in 2013 and work with them in SQL."""
    from pyspark.errors import PySparkException

    from headwater.cli.demo import run_demo

    try:
        run_demo(directory, cores)
    except PySparkException as error:
        raise RuntimeError(f"the demo failed in Spark: {error}") from error


@app.command()
def health(
    path: Annotated[str, typer.Argument(help="The folder of a table on the local file system.")],
    where: Annotated[
        list[str] | None,
        typer.Option(help='A predicate, such as "a = 1 AND b > 2": how many files does it read? May be repeated.'),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show from its log how a table is: small files, deleted rows, layout, and what OPTIMIZE and VACUUM would do.

    No data file is looked at. Timestamps without a zone in predicates are UTC. For a table in another store, run
    DESCRIBE HEALTH in Spark.
    """
    from headwater.cli.health import show_health

    show_health(path, where or [], as_json=as_json)


@app.command()
def inspect(
    path: Annotated[str, typer.Argument(help="The folder of a table, or its address in a store: s3://bucket/table.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="On 127.0.0.1. Default: a free one.")] = 0,
) -> None:
    """Show a table in the browser, from its log: versions, files, layout, what a predicate reads. Without Spark.

    Prints the address of the page and serves it until it is interrupted. It only reads.
    """
    from headwater.cli.inspecting import serve

    serve(path, port)


def _run_shell(shell: str, arguments: list[str]) -> None:
    from headwater.launch import shell_command

    command, environment = shell_command(shell, arguments)
    os.execve(command[0], command, environment)


def _run_server(server: str, arguments: list[str]) -> None:
    from headwater.launch import server_command

    command, environment = server_command(server, arguments)
    os.execve(command[0], command, environment)
