"""The statement that a handler works for.

Owns the Python face of the JVM's statement context: the session's settings, the writer, Hadoop's file systems. What a
handler does to Spark, it does through this and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
from py4j.protocol import Py4JJavaError

from headwater.basics import start_settings
from headwater.basics.errors import HeadwaterError
from headwater.bridge.hadoop_files import HadoopFileSystem
from headwater.bridge.messages import Answer, SessionSettings
from headwater.bridge.messages.callbacks import (
    CheckedCondition,
    CopiedFile,
    CopiedFiles,
    CopySpecification,
    FileRows,
    FilesOfVersion,
    Footers,
    FootersQuestion,
    MatchingPartitions,
    NamedTable,
    NotedKeys,
    ParquetFiles,
    ParquetFilesQuestion,
    PartitionsQuestion,
    PinnedVersion,
    Restriction,
    SparkRun,
    StagedFiles,
    WriteSpecification,
    WrittenFile,
    WrittenRows,
)
from headwater.bridge.messages.change import ChangeRequest
from headwater.bridge.messages.define import CreatedTable, MadeCommit
from headwater.bridge.messages.failures import BegunCommit
from headwater.bridge.messages.load import Placement, SourceFiles
from headwater.pruning.predicates import Predicate, decode

_WRITTEN_ROWS = msgspec.json.Decoder(WrittenRows)
_PARQUET_FILES = msgspec.json.Decoder(ParquetFiles)
_COPIED_FILES = msgspec.json.Decoder(CopiedFiles)
_MATCHING_PARTITIONS = msgspec.json.Decoder(MatchingPartitions)
_FOOTERS = msgspec.json.Decoder(Footers)
_SPARK_RUNS = msgspec.json.Decoder(list[SparkRun])
_NAMED_TABLE = msgspec.json.Decoder(NamedTable)
_NAMED_TABLES = msgspec.json.Decoder(list[NamedTable])
_NOTED_KEYS = msgspec.json.Decoder(NotedKeys)
_CHECKED_CONDITION = msgspec.json.Decoder(CheckedCondition)
_CHANGE_REQUEST = msgspec.json.Decoder(ChangeRequest)
_TEXTS = msgspec.json.Decoder(list[str])
#: Where a file of a relation has what is left out of it.
_DELETION_VECTOR = 3
_ROWS = msgspec.json.Decoder(list[dict[str, Any]])


class StatementContext(Protocol):
    """The JVM's object of the same name, as far as it is called from here. Messages are JSON texts."""

    def files(self) -> Any: ...
    def write(self, specification: str, purpose: str) -> str: ...
    def copyFiles(self, specification: str, purpose: str) -> str: ...
    def lostKept(self, error: Any) -> bool: ...
    def discard(self) -> None: ...
    def settled(self, path: str) -> bool: ...
    def restrict(self, plan: int, restriction: str) -> int: ...
    def pin(self, plan: int, version: str) -> None: ...
    def keep(self, sql: str, purpose: str) -> int: ...
    def notedKeys(self) -> str: ...
    def runsIn(self, transaction: str) -> str: ...
    def planSize(self, plan: int) -> int: ...
    def expressionTexts(self) -> str: ...
    def explain(self, sql: str, mode: str) -> str: ...
    def query(self, sql: str, purpose: str) -> Iterable[str]: ...
    def parquetFiles(self, question: str) -> str | None: ...
    def matchingPartitions(self, question: str) -> str: ...
    def footers(self, question: str, purpose: str) -> str: ...
    def addRelation(self, files: str) -> int: ...
    def addStaged(self, files: str) -> int: ...
    def addQuery(self, text: str) -> int: ...
    def planSchema(self, plan: int) -> str: ...
    def addText(self, text: str) -> int: ...
    def addStored(self, text: str) -> int: ...
    def addQualified(self, text: str, qualifier: str) -> int: ...
    def addTarget(self, table: str) -> int: ...
    def qualified(self, path: str) -> str: ...
    def sessionFiles(self) -> Any: ...
    def addSource(self, files: str, purpose: str) -> int: ...
    def addSources(self, numbers: str) -> int: ...
    def addSelection(self, text: str, plan: int, names: str) -> int: ...
    def addPlacement(self, placement: str) -> int: ...
    def damagedFile(self, error: Any) -> str | None: ...
    def resolveMerge(self, sql: str) -> str: ...
    def checkExpression(self, text: str, schema: str) -> str: ...
    def checkOverRow(self, text: str, schema: str) -> str: ...
    def checkStorable(self, text: str, schema: str) -> None: ...
    def endTransaction(self) -> None: ...
    def set(self, setting: str, value: str) -> None: ...
    def unset(self, setting: str) -> None: ...
    def checkCancelled(self) -> None: ...
    def checkCondition(self, text: str, schema: str) -> str: ...
    def beginCommit(self, description: str) -> None: ...
    def beginInnerCommit(self) -> None: ...
    def endInnerCommit(self) -> None: ...
    def definitionChanged(self) -> None: ...
    def tableChanged(self, table: str) -> None: ...
    def isNameTaken(self, created: str) -> bool: ...
    def registerTable(self, created: str) -> str | None: ...
    def tableNamed(self, name: str) -> str: ...
    def tablesBeside(self, name: str) -> str: ...
    def compactLater(self, table: str) -> None: ...
    def reach(self, table: str, options: str) -> None: ...


def _json(message: Answer) -> str:
    return msgspec.json.encode(message).decode()


@dataclass(frozen=True)
class Condition:
    """A condition over a table's rows.

    :param columns: every top-level column it refers to, as the schema spells it; None for a condition that depends on
        more than the values of one row, such as one with a subquery or a random number.
    """

    predicate: Predicate
    columns: frozenset[str] | None


class Statement:
    """One running statement; lives as long as the call that brought it.

    :param title: the statement's kind and its table, as Spark's UI is to show them.
    """

    def __init__(self, context: StatementContext, settings: SessionSettings, title: str = "") -> None:
        self._context = context
        self._placed: dict[str, int] = {}
        self._placed_stored: dict[str, int] = {}
        self._confs = start_settings.of_session(settings.confs)
        self._stores = settings.stores
        self.time_zone = settings.time_zone
        self.user = settings.user
        self.spark_version = settings.spark_version
        self.title, self._step, self._steps = title, "", 1
        #: Whether the statement has more to do after each of its commits, so that none of them is its last.
        self.goes_on = False
        #: What its commits did that are in the log, by the table's path.
        self.made: dict[str, MadeCommit] = {}

    def step(self, what: str, number: int = 1, of: int = 1) -> None:
        """Say what the jobs that come are for: ``find matching rows``, which is step 2 of 3."""
        self._step, self._steps = f"{number} of {of}, {what}" if of > 1 else what, of

    def last_step(self, what: str) -> None:
        """The same for the last of the steps that there were to be."""
        self.step(what, self._steps, self._steps)

    @property
    def _purpose(self) -> str:
        return f"{self.title}: {self._step}" if self._step else self.title

    @property
    def confs(self) -> Mapping[str, str]:
        """The session's ``spark.databricks.delta.*``, ``spark.headwater.*`` and a few of Spark's own settings, but not
        those that count only at Spark's start (:mod:`headwater.basics.start_settings`).
        """
        return self._confs

    def managed(self, path: str) -> str | None:
        """What a call before this one named the table at a path, which a catalog manages; None for any other."""
        return next((store.managed for store in self._stores if store.managed is not None and store.root == path), None)

    def reach(self, path: str, options: Mapping[str, str]) -> None:
        """From here on, reach a table with other options of Hadoop: credentials that expire have been replaced."""
        self._context.reach(path, json.dumps(dict(options)))

    @property
    def hadoop(self) -> HadoopFileSystem:
        """Stores that are not local paths."""
        return HadoopFileSystem(self._context.files, self._stores)

    def write(self, specification: WriteSpecification) -> list[WrittenFile]:
        """Run a write job; the files written."""
        return self.write_tracked(specification).files

    def write_tracked(self, specification: WriteSpecification) -> WrittenRows:
        """Run a write job whose rows may say what they replace."""
        with self._kept_rows():
            return _WRITTEN_ROWS.decode(self._context.write(_json(specification), self._purpose))

    def copy_files(self, specification: CopySpecification) -> list[CopiedFile]:
        """Run a job that copies files; what became of each. Copies stay, also if the statement fails."""
        return _COPIED_FILES.decode(self._context.copyFiles(_json(specification), self._purpose)).files

    @contextmanager
    def _kept_rows(self) -> Iterator[None]:
        try:
            yield
        except Py4JJavaError as error:
            if self._context.lostKept(error.java_exception):
                raise HeadwaterError("DELTA_MERGE_MATERIALIZE_SOURCE_FAILED_REPEATEDLY", {}) from error
            raise

    def discard(self) -> None:
        """Delete the files this call has written since its last commit."""
        self._context.discard()

    def settled(self, path: str) -> bool:
        """Wait until failed jobs of this Spark have removed what they wrote below a path; whether there were any."""
        return self._context.settled(path)

    def restrict(self, plan: int, restriction: Restriction) -> int:
        """Make a relation over some files of a version, numbered in order, available as ``hw_plan.`n` ``; returns n."""
        return self._context.restrict(plan, _json(restriction))

    def pin(self, plan: int, version: PinnedVersion) -> None:
        """From here on, read the table of a relation at a version wherever the statement reads it."""
        self._context.pin(plan, _json(version))

    def keep(self, sql: str) -> int:
        """Make a query's rows, computed once, available as ``hw_plan.`n` ``; returns n.

        A job that reads them after executors were lost with some of them raises
        ``DELTA_MERGE_MATERIALIZE_SOURCE_FAILED_REPEATEDLY``: rows computed again may be others.
        """
        return self._context.keep(sql, self._purpose)

    def noted_keys(self) -> list[list[str | int]] | None:
        """The keys that ``note_keys(…)`` noted in the last query that has it (:class:`NotedKeys`)."""
        return _NOTED_KEYS.decode(self._context.notedKeys()).keys

    def runs_in(self, transaction: str) -> list[SparkRun]:
        """When Spark ran the statements of an open transaction, of any session: those that run, and the ended ones that
        Spark still remembers.
        """
        return _SPARK_RUNS.decode(self._context.runsIn(transaction))

    def plan_size(self, plan: int) -> int:
        """Spark's estimate of a relation's size in bytes."""
        return self._context.planSize(plan)

    def expression_texts(self) -> list[str]:
        """The statement's expressions by number, as SQL."""
        return _TEXTS.decode(self._context.expressionTexts())

    def explain(self, sql: str, mode: str) -> str:
        """How Spark would run a query, in a mode of EXPLAIN."""
        return self._context.explain(sql, mode)

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Run a query over the statement's pieces; its rows, by the names of the query's columns, without nulls."""
        with self._kept_rows():
            return [row for some in self._context.query(sql, self._purpose) for row in _ROWS.decode(some)]

    def parquet_files(self, plan: int, expressions: list[int], most: int) -> ParquetFiles | None:
        """What a plan reads, where it does no more than read all rows of at most so many Parquet files; else None."""
        question = ParquetFilesQuestion(plan=plan, expressions=expressions, most=most)
        answer = self._context.parquetFiles(_json(question))
        return None if answer is None else _PARQUET_FILES.decode(answer)

    def footers(
        self, table: str, files: Sequence[tuple[str, int]], columns: Sequence[Sequence[str]] | None, most: int = -1
    ) -> Footers:
        """What the footers of Parquet files say, read by tasks.

        :param files: path and size in bytes of each.
        :param columns: as of :class:`FootersQuestion`.
        """
        question = FootersQuestion(
            table=table,
            paths=[path for path, _ in files],
            sizes=[size for _, size in files],
            columns=None if columns is None else [list(path) for path in columns],
            most=most,
        )
        return _FOOTERS.decode(self._context.footers(_json(question), self._purpose))

    def matching_partitions(self, plan: int, condition: int, partitions: list[list[str | None]]) -> list[bool] | None:
        """In which partitions of a relation a condition is true; None if it is about more than their values."""
        question = PartitionsQuestion(plan=plan, condition=condition, partitions=partitions)
        return _MATCHING_PARTITIONS.decode(self._context.matchingPartitions(_json(question))).matches

    def add_relation(
        self,
        table: str,
        version: int,
        files: FileRows,
        row_tracking_columns: Sequence[str] = (),
        tasks: Sequence[int] = (),
        position: tuple[str, str] | None = None,
        *,
        skips_none: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> int:
        """Make a relation over some files of a version available as ``hw_plan.`n` ``; returns n.

        :param tasks: how many files each task reads, in order; without it, Spark packs the files into tasks.
        :param position: the names of added columns with the number of a row's file and the row's position in it.
        :param skips_none: whether no file may be skipped, whatever the session says of missing and damaged ones.
        :param settings: with ``position``: Spark's settings of the scan that the session has not.
        """
        wanted = FilesOfVersion(
            table=table,
            version=version,
            lists_deletion_vectors=any(file[_DELETION_VECTOR] is not None for file in files),
            row_tracking_columns=list(row_tracking_columns),
            tasks=list(tasks),
            files=files,
            file_column=None if position is None else position[0],
            row_column=None if position is None else position[1],
            skips_none=skips_none,
            settings=dict(settings or {}),
        )
        return self._context.addRelation(_json(wanted))

    def add_staged(self, files: StagedFiles) -> int:
        """Make a relation over files that a write job has staged available as ``hw_plan.`n` ``; returns n."""
        return self._context.addStaged(_json(files))

    def place(self, text: str) -> int:
        """Make an expression a user wrote available as ``hw_expr.`n` ``; returns n. Spark parses it by itself, so that
        it can change nothing around it. Spark's own error, about the text alone, if it is not one.
        """
        if text not in self._placed:
            self._placed[text] = self._context.addText(text)
        return self._placed[text]

    def place_stored(self, text: str) -> int:
        """The same as :meth:`place` for an expression in a table's log, which anybody who writes the log may have put
        there. It means the same under all settings. ``HEADWATER_STORED_EXPRESSION_REFUSED`` if it has a subquery, calls
        a method of Java or names something by ``IDENTIFIER``.
        """
        if text not in self._placed_stored:
            self._placed_stored[text] = self._context.addStored(text)
        return self._placed_stored[text]

    def place_qualified(self, text: str, qualifier: str) -> int:
        """The same as :meth:`place`, with each column in it qualified: those of one side of a join."""
        return self._context.addQualified(text, qualifier)

    def qualified(self, path: str) -> str:
        """The path that a user wrote: plain if it is local, else a URI."""
        return self._context.qualified(path)

    @property
    def session_hadoop(self) -> HadoopFileSystem:
        """Stores that are not local paths, as the session reaches them: not with what a table is reached with."""
        return HadoopFileSystem(self._context.sessionFiles)

    def add_source(self, files: SourceFiles) -> int:
        """Make the rows of files available as ``hw_plan.`n` ``; returns n. Spark's own error if it cannot read them,
        ``HEADWATER_COPY_FILE_NOT_READ`` if its reader would leave one out.
        """
        return self._context.addSource(_json(files), self._purpose)

    def add_sources(self, plans: Sequence[int]) -> int:
        """Make the rows of several plans of files available as ``hw_plan.`n` ``; returns n. A column that one of them
        does not have is null.
        """
        return self._context.addSources(json.dumps([str(plan) for plan in plans]))

    def add_selection(self, text: str, plan: int, names: Sequence[str] = ()) -> int:
        """Make a SELECT without FROM that a user wrote, over a plan's rows, available as ``hw_plan.`n` ``; returns n.
        Spark's own error if it is not one.

        :param names: of the columns, in order; none to leave them as they are.
        """
        return self._context.addSelection(text, plan, json.dumps(list(names)))

    def add_placement(self, placement: Placement) -> int:
        """Make a plan's rows, with a table's columns, available as ``hw_plan.`n` ``; returns n."""
        return self._context.addPlacement(_json(placement))

    def plan_schema(self, plan: int) -> str:
        """The schema (JSON) of a plan's rows."""
        return self._context.planSchema(plan)

    def damaged_file(self, error: Exception) -> str | None:
        """The path of the file for which a job failed, because it is damaged; None for any other error."""
        return self._context.damagedFile(error.java_exception) if isinstance(error, Py4JJavaError) else None

    def names_condition(self, error: Exception, condition: str) -> bool:
        """Whether an error is one of Spark's with a condition, or that of a job in which a task had such an error."""
        return isinstance(error, Py4JJavaError) and f"[{condition}]" in str(error.java_exception.getMessage())

    def add_target(self, table: str) -> int:
        """Make a table available as ``hw_plan.`n` `` for the target of a MERGE, at its newest version; returns n."""
        return self._context.addTarget(table)

    def resolve_merge(self, sql: str) -> ChangeRequest:
        """A MERGE over the statement's pieces, resolved as one that a user wrote; Spark's own error where that cannot
        be."""
        return _CHANGE_REQUEST.decode(self._context.resolveMerge(sql))

    def place_query(self, text: str) -> tuple[int, str]:
        """Make a query a user wrote available as ``hw_plan.`n` ``; n, and the schema (JSON) of its rows. Spark parses
        it by itself; Spark's own error if it is not one.
        """
        plan = self._context.addQuery(text)
        return plan, self._context.planSchema(plan)

    def expression_type(self, text: str, schema: str) -> str:
        """The type (JSON) of a Spark SQL expression over columns of a schema; Spark's own error where it has none."""
        return self._context.checkExpression(text, schema)

    def resolves(self, text: str, schema: str) -> bool:
        """Whether a Spark SQL expression is one over columns of a schema (JSON)."""
        try:
            self._context.checkExpression(text, schema)
        except Py4JJavaError:
            return False
        return True

    def check_storable(self, text: str, schema: str) -> None:
        """Check that a table's log may keep a Spark SQL expression over a schema (JSON).

        ``HEADWATER_EXPRESSION_NOT_STORABLE`` for one with a session's variable or that :meth:`place_stored` would
        refuse; ``HEADWATER_EXPRESSION_OF_SETTINGS`` for one that means something else under other settings.
        """
        self._context.checkStorable(text, schema)

    def beyond_row(self, text: str, schema: str) -> list[str]:
        """The parts of a Spark SQL expression over columns of a schema (JSON) that do not follow from a row: the time,
        the session, chance, functions of users. Spark's own error where it does not resolve.
        """
        parts: list[str] = json.loads(self._context.checkOverRow(text, schema))
        return parts

    def set_conf(self, name: str, value: str) -> None:
        """Set a setting of the session, for the statements that follow."""
        self._context.set(name, value)

    def unset_conf(self, name: str) -> None:
        """Take a setting of the session back to its default, for the statements that follow."""
        self._context.unset(name)

    def end_transaction(self, setting: str) -> None:
        """Have the session leave its transaction over several statements, which a setting names: what Spark has
        cached has nothing of it afterwards.
        """
        try:
            self._context.endTransaction()
        finally:
            self.unset_conf(setting)

    def check_cancelled(self) -> None:
        """End the statement here if it was cancelled; for waits of this process, which Spark does not see."""
        self._context.checkCancelled()

    def condition(self, text: str, schema: str) -> Condition:
        """A condition a user wrote over columns of a schema (JSON), as Spark resolves it; Spark's own error, about the
        text alone, if it is not one.
        """
        answer = _CHECKED_CONDITION.decode(self._context.checkCondition(text, schema))
        return Condition(decode(answer.predicate), None if answer.columns is None else frozenset(answer.columns))

    def begin_commit(self, commit: BegunCommit) -> None:
        """Tell Spark's side what is about to be committed, so that it can ask about it should this process die before
        it answers. A statement that was cancelled ends here, with nothing committed."""
        self._context.beginCommit(_json(commit))

    def begin_inner_commit(self) -> None:
        """Tell Spark's side that a commit comes that is not the statement's last: no error may delete what was written
        for it. A statement that was cancelled ends here."""
        self._context.beginInnerCommit()

    def end_inner_commit(self) -> None:
        """Tell Spark's side that the commit is in the log."""
        self._context.endInnerCommit()

    def definition_changed(self) -> None:
        """Tell Spark's side that the commit in the log has another definition of the table: its entry is to follow."""
        self._context.definitionChanged()

    def table_changed(self, table: str) -> None:
        """Tell Spark's side that a table has another version that this statement, which is not about it alone, made."""
        self._context.tableChanged(table)

    def is_name_taken(self, created: CreatedTable) -> bool:
        """Whether the session catalog has a table or view by the name of one that a transaction creates."""
        return self._context.isNameTaken(_json(created))

    def register_table(self, created: CreatedTable) -> str | None:
        """Have the session catalog make the entry of a table that is there now; the reason where it does not."""
        return self._context.registerTable(_json(created))

    def table_named(self, name: Sequence[str]) -> NamedTable:
        """The table of a name, as the session reads it: with its current catalog and namespace in front if they are
        missing.
        """
        return _NAMED_TABLE.decode(self._context.tableNamed(json.dumps(list(name))))

    def tables_beside(self, name: Sequence[str]) -> list[NamedTable]:
        """The Delta tables of the namespace that a full name is in, those without keys left out."""
        return _NAMED_TABLES.decode(self._context.tablesBeside(json.dumps(list(name))))

    def compact_later(self, table: str) -> None:
        """Have a table compacted in the background, by a call of its own; the statement does not wait for it."""
        self._context.compactLater(table)
