"""Headwater: Delta tables for Apache Spark, run by Python.

The public names are few: :func:`configure`, :func:`in_transaction`, :func:`show_progress`, :func:`jar_path` and
:func:`delta_jar_path` here, and the ``headwater`` command in :mod:`headwater.cli.main`. Importing this package is
cheap; nothing heavy is loaded until used.
"""

from __future__ import annotations

import sys
from typing import Any, TypeVar

# Spark may find an older Python first, to which the package's syntax is a traceback: this file is one that it can read.
if sys.version_info < (3, 10):  # noqa: UP036
    raise ImportError(
        "headwater needs Python 3.10 or newer, and {} is {}.{}. Name a newer one, in spark.headwater.python or "
        "PYSPARK_PYTHON.".format(sys.executable, *sys.version_info[:2])
    )

__version__ = "1.0.0rc1"

SessionBuilder = TypeVar("SessionBuilder", bound=Any)


def configure(builder: SessionBuilder) -> SessionBuilder:
    """Make the sessions of a ``SparkSession.builder`` work with Delta tables.

    Sets Headwater's extension, catalog and Python, and adds its JAR; extensions and JARs that the builder or
    ``spark-defaults.conf`` already name are kept. Call it before ``getOrCreate()``, and after your own ``config`` calls
    for these settings. A builder for a remote server (``sc://…``) is returned unchanged, because that
    server has its own configuration.

    :returns: the same builder.
    :raises headwater.basics.errors.HeadwaterError: the installed PySpark is not a version in
        ``headwater.basics.versions``; a session without Headwater runs already in this process, and would be what
        ``getOrCreate()`` returns.
    """
    from headwater.cli import launch

    launch.configure(builder)
    return builder


def show_progress(spark: Any, show: Any = None) -> Any:
    """Show Spark's running work in this session, by name: below the cell of a notebook, or as a line of the terminal.

    A line has the statement and its table, the step, the tasks that are done and all of them, the rows that they have
    read and written so far, and the seconds, such as ``OPTIMIZE sales: compact 120 files of 8000000 bytes into 4 …
    12 of 40 tasks, 1,200,000 rows read, 5 s``. Work of less than a second is not shown, nor are streams and
    auto-compaction. Jobs that neither a statement nor the program has named are ``query``. Over Spark Connect,
    statements have their first words as name, and bytes in place of rows.

    Rows of tasks that still run are counted if executors are processes of their own; in a local session, those of tasks
    that are done. Spark's own bars end in a classic session, unless you have set ``spark.ui.showConsoleProgress``.

    :param spark: a classic session or one of Spark Connect.
    :param show: called with the running work, a sequence of :class:`headwater.progress.Work`, empty at the end. By
        default, the notebook or terminal shows it; without either, nothing is shown.
    :returns: an object whose ``stop()`` ends it; also a context manager.
    """
    from headwater import progress
    from headwater.cli import launch

    return progress.follow(spark, show, launch.asks_for_bar)


def in_transaction(spark: Any, *, serializable: bool = False) -> Any:
    """Make the statements of a ``with`` block one transaction of a session: all tables are changed, or none.

    The block commits at its end, and rolls back if it raises an exception. Its statements are SQL or DataFrame
    operations. They see what earlier statements wrote; other sessions see nothing before the end.

    :param spark: a classic session or one of Spark Connect. Everything that runs in it during the block, even in
        other threads, is part of the transaction.
    :param serializable: whether tables that it only reads must be unchanged when it commits.
    :returns: a :class:`headwater.tables.transactions.InTransaction`: ``rollback()`` ends it without a change, and
        ``versions`` has the version of each table, by its path, after the block.
    """
    from headwater.tables.transactions import InTransaction

    return InTransaction(spark, serializable=serializable)


def jar_path() -> str:
    """The absolute path of ``headwater.jar``, for ``--jars`` or ``spark.jars``.

    In a source checkout a JAR older than its sources is rebuilt first, which needs a JDK; an installed package only
    checks that it exists.

    :raises RuntimeError: the JAR cannot be built, or the installation has none; the message says what to do.
    """
    from headwater.cli import launch

    return str(launch.jar_path())


def delta_jar_path() -> str:
    """The absolute path of ``headwater-delta.jar``, for ``--jars`` or ``spark.jars`` beside :func:`jar_path`.

    It has Headwater's extension, its catalog and a Scala and Java API under the names of Delta Lake's own connector
    (``io.delta.sql.DeltaSparkSessionExtension``, ``org.apache.spark.sql.delta.catalog.DeltaCatalog``,
    ``io.delta.tables.DeltaTable``), for settings and programs that name these.

    :raises RuntimeError: as :func:`jar_path`.
    """
    from headwater.cli import launch

    return str(launch.delta_jar_path())
