"""Maintenance among DML and ALTER TABLE, by several engines: OPTIMIZE, ZORDER, clustering, REORG, VACUUM, RESTORE,
GENERATE, DROP FEATURE.

:class:`Maintained` is the story of :mod:`support.dml.reshaping` with these statements. Its model is kept for each
version, so RESTORE brings back rows, columns, constraints and row ids. What must hold: maintenance changes no row, no
row id and brings no change rows; every version that VACUUM had to leave is what it was, in every engine; the changes
between two versions lead from one to the other; the history has each operation.
"""

from __future__ import annotations

import copy
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from headwater.log.snapshot import load_snapshot
from headwater.stores import LocalStore
from support.dml.checking import Engine, Refused, multiset, version_of
from support.dml.expressions import quoted
from support.dml.reshaping import Model, Story, literal
from support.plain import plain

#: Settings of every session: versions are read as long as their files are there, and RETAIN may be short.
SETTINGS = {
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
}
#: A file is needed by a version up to the time when the next was written, which is a little before it was committed.
_WRITING_SECONDS = 5
#: How many old versions are read after a VACUUM.
_SOME = 3
#: The first words of statements that another engine may run.
_OF_ALL = (
    "INSERT INTO {t} ",
    "INSERT INTO {t} (",
    "UPDATE",
    "DELETE",
    "MERGE",
    "OPTIMIZE",
    "REORG",
    "RESTORE",
    "VACUUM",
)
_DROPPED = ("deletionVectors", "v2Checkpoint", "inCommitTimestamp", "rowTracking")


class Maintained(Story):
    """Statements about one table.

    :param others: other engines that write; all read.
    :param by_arrow: reads a path's rows, for tables that only have what every client knows; None where nothing does.
    """

    def __init__(
        self,
        engine: Any,
        path: Path,
        seed: int,
        others: Sequence[Engine] = (),
        by_arrow: Callable[[Path, list[str]], Counter[str]] | None = None,
    ) -> None:
        self.others, self.by_arrow = others, by_arrow
        #: Whether the table only has what every client knows.
        self.is_simple = seed % 3 == 0
        self.kept: dict[int, Model] = {}
        #: The versions whose files no VACUUM may have deleted.
        self.retained: set[int] = set()
        #: The last version of each statement.
        self.whole: list[int] = []
        self.operations: dict[int, str] = {}
        self.retention = 0
        super().__init__(engine, path, seed)
        self.whole.append(0)

    def properties(self) -> dict[str, str]:
        self.retention = self.random.choice((0, 10, 60))
        on = super().properties() | {"delta.deletedFileRetentionDuration": f"interval {self.retention} seconds"}
        if self.is_simple:
            self.model.tracked = False
            for name in list(on):
                if name not in ("delta.enableChangeDataFeed", "delta.deletedFileRetentionDuration"):
                    del on[name]
        return on

    def step(self) -> None:
        """A statement, and what must be so after it."""
        changes = [
            self.insert, self.insert, self.insert, self.update, self.delete, self.merge, self.replace,
            self.upsert, self.overwrite, self.replace_where, self.truncate,
        ]  # fmt: skip
        alters = [self.cluster, self.property, self.track, self.drop_feature]
        alters += [self.add, self.rename, self.drop, self.retype, self.constrain, self.free, self.default]
        if self.is_simple:
            alters = [self.cluster, self.property, self.constrain, self.free, self.generate]
        maintains = [self.optimize, self.optimize, self.purge, self.vacuum, self.restore]
        draw = self.random.random()
        if len(self.model.rows) < 6:
            self.insert()
        elif draw < 0.4:
            self.random.choice(changes)()
        elif draw < 0.55:
            self.random.choice(alters)()
        else:
            self.random.choice(maintains)()
        self.check()
        if version_of(self.path) != self.whole[-1]:
            self.whole.append(version_of(self.path))

    # DML that the other story does not have

    def upsert(self) -> None:
        """Rows of keys that are there, and new ones."""
        known = self.random.sample(list(self.model.rows), min(3, len(self.model.rows)))
        new = [self.row(self.model.columns) for _ in range(2)]
        new += [{**self.row(self.model.columns), self.model.key: key} for key in known]
        sql = f"INSERT INTO {{t}} WITH (idCols = {literal_text(quoted(self.model.key.name))}) "
        if self._try(sql + self._values(self.model.columns, new), self._broken(new)):
            self._put(new)
            for key in known:  # whether its row is another one is the statement's to say
                self.model.ids.pop(key, None)
                self.model.changed.pop(key, None)

    def overwrite(self) -> None:
        new = [self.row(self.model.columns) for _ in range(8)]
        if self._try(f"INSERT OVERWRITE {{t}} {self._values(self.model.columns, new)}", self._broken(new)):
            for key in list(self.model.rows):
                self._forget(key)
            self._put(new)

    def replace_where(self) -> None:
        """The rows of some keys make place for new ones of higher keys."""
        bound = self.random.choice(sorted(self.model.rows))
        new = [self.row(self.model.columns) for _ in range(3)]
        name = quoted(self.model.key.name)
        gone = [key for key in self.model.rows if key >= bound]
        changes = [("delete", self.model.rows[key]) for key in gone] + [("insert", row) for row in new]
        sql = f"INSERT INTO {{t}} REPLACE WHERE {name} >= {bound} {self._values(self.model.columns, new)}"
        if self._try(sql, self._broken(new), changes):
            for key in gone:
                self._forget(key)
            self._put(new)

    def truncate(self) -> None:
        changes = [("delete", row) for row in self.model.rows.values()]
        if self._try("TRUNCATE TABLE {t}", set(), changes):
            for key in list(self.model.rows):
                self._forget(key)

    def drop_feature(self) -> None:
        ((features,),) = self._named(f"DESCRIBE DETAIL {self.name}", "tableFeatures")
        there = [name for name in _DROPPED if name in features]
        if there:
            name = self.random.choice(there)
            if name == "rowTracking":
                self._run("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableRowTracking' = 'false')")
                self.model.tracked = False
                self.model.ids, self.model.changed = {}, {}
            self._try(f"ALTER TABLE {{t}} DROP FEATURE {name}", commits=9)

    def generate(self) -> None:
        """Manifests, which list the live files; of tables whose files say all there is."""
        newest = load_snapshot(str(self.path), LocalStore())
        refused = {"DELTA_UNSUPPORTED_GENERATE_WITH_DELETION_VECTORS"} if newest.has_deletion_vectors else None
        if self._try("GENERATE symlink_format_manifest FOR TABLE {t}", refused, commits=0):
            manifests = (self.path / "_symlink_format_manifest").rglob("manifest")
            listed = sorted(Path(line).name for file in manifests for line in file.read_text().splitlines())
            live = sorted(Path(file).name for file in newest.select(["path"])["path"].to_pylist())
            assert listed == live, self.said(f"the manifests list {listed}, live are {live}")

    # Maintenance

    def optimize(self) -> None:
        columns = [column for column in self.model.columns if not column.fields and column is not self.model.partition]
        draw = self.random.random()
        if self.model.clustered:
            how = " FULL" if draw < 0.4 else ""
        elif draw < 0.5:
            chosen = self.random.sample(columns, min(len(columns), self.random.randint(1, 2)))
            how = f" ZORDER BY ({', '.join(quoted(column.name) for column in chosen)})"
        else:
            how = ""
        self._maintain(f"OPTIMIZE {{t}}{self._where()}{how}", "OPTIMIZE")

    def purge(self) -> None:
        self._maintain(f"REORG TABLE {{t}}{self._where()} APPLY (PURGE)", "REORG")

    def _where(self) -> str:
        if self.model.partition is None or self.model.clustered or self.random.random() < 0.5:
            return ""
        value = self.value(self.model.partition)
        return f" WHERE {quoted(self.model.partition.name)} " + (
            "IS NULL" if value is None else f"= {literal(self.model.partition, value)}"
        )

    def vacuum(self) -> None:
        seconds = self.retention
        how = self.random.choice(("", " FULL", " LITE", " RETAIN", " DRY RUN"))
        if how == " RETAIN":
            seconds = self.random.choice((0, 36))
            how = f" RETAIN {seconds / 3600} HOURS"
        # LITE and RETAIN with a time of its own are ours: the other engine ignores the one, and may not know the other.
        self._maintain(f"VACUUM {{t}}{how}", "VACUUM", ours=how not in ("", " FULL", " DRY RUN"))
        if how != " DRY RUN":
            until = time.time() - seconds + _WRITING_SECONDS
            self.retained = {v for v in self.retained if v >= self.whole[-1] or self._committed(v + 1) > until}
        some = self.random.sample(sorted(self.retained), min(_SOME, len(self.retained)))
        for version in some:
            self._same_version(version)

    def _committed(self, version: int) -> float:
        return (self.path / "_delta_log" / f"{version:020}.json").stat().st_mtime

    def restore(self) -> None:
        there = [version for version in self.whole[:-1] if version in self.retained]
        if not there:
            return
        version = self.random.choice(there)
        text = f"VERSION AS OF {version}"
        if self.random.random() < 0.4:
            history = dict(self._named(f"DESCRIBE HISTORY {self.name}", "version", "timestamp"))
            text = f"TIMESTAMP AS OF '{history[version]}'"
        now = self.model
        self._maintain(f"RESTORE TABLE {{t}} TO {text}", "RESTORE")
        self.model = copy.deepcopy(self.kept[version])
        if now.fed and self.model.fed:
            self._lead(self.whole[-1], version_of(self.path), now, self.model)

    def _maintain(self, sql: str, operation: str, ours: bool = False) -> None:
        """Run a statement that changes no row, or one that goes back."""
        before = version_of(self.path)
        self._try(sql, commits=9, ours=ours)
        self._maintained(before, operation)

    def _maintained(self, before: int, operation: str = "") -> None:
        after = version_of(self.path)
        for version in range(before + 1, after + 1):
            self.operations[version] = operation
        if after > before and operation in ("OPTIMIZE", "REORG", "VACUUM") and self.model.fed:
            text = f"SELECT * FROM table_changes_by_path('{self.path}', {before + 1}, {after})"
            found = self.engine.sql(text)
            assert not found, self.said(f"change rows of {operation}: {found}")

    # Running and judging

    def _try(
        self,
        sql: str,
        refused: set[str] | None = None,
        changes: list[tuple[str, Any]] | None = None,
        commits: int = 1,
        ours: bool = False,
    ) -> bool:
        engine = self.engine
        may = self.others and not ours and not refused and sql.startswith(_OF_ALL) and "REPLACE" not in sql
        if may and " WITH " not in sql and self.random.random() < 0.4:
            self.engine = self.random.choice(self.others)
            self.done.append("-- by another engine:")
        try:
            return super()._try(sql, refused, changes, commits)
        finally:
            self.engine = engine

    def _keep(self, version: int) -> None:
        super()._keep(version)
        self.kept[version] = copy.deepcopy(self.model)
        self.retained.add(version)

    def check(self) -> None:
        super().check()
        for other in self.others:
            self._same(multiset(other.sql(self._query())), self._rows(), "the other engine's rows")
        if self.by_arrow and self.is_simple:
            names = [column.name for column in self.model.columns]
            self._same(self.by_arrow(self.path, names), self.model.seen()[1], "the rows without Spark")

    def _named(self, statement: str, *columns: str) -> list[tuple[Any, ...]]:
        """Some columns of the answer of a statement."""
        names = self.engine.columns(statement)
        places = [names.index(column) for column in columns]
        return [tuple(row[place] for place in places) for row in self.engine.sql(statement)]

    def _query(self) -> str:
        hidden = ", _metadata.row_id, _metadata.row_commit_version" if self.model.tracked else ""
        return f"SELECT *{hidden} FROM {self.name}"

    def _rows(self) -> Counter[str]:
        return multiset(self.engine.sql(self._query()))

    def _same_version(self, version: int) -> None:
        names, rows = self.versions[version]
        text = f"SELECT * FROM {self.name} VERSION AS OF {version}"
        for engine in (self.engine, *self.others):
            self._same(multiset(engine.sql(text)), rows, f"version {version}")
        assert self.engine.columns(text) == names, self.said(f"columns of version {version}")

    def _lead(self, old: int, new: int, before: Model, after: Model) -> None:
        """The changes of the versions after ``old``, up to ``new``, lead from one to the other."""
        if old >= new or shape(before) != shape(after):
            return
        names = ", ".join(quoted(column.name) for column in after.columns)
        text = f"SELECT _change_type, {names} FROM table_changes_by_path('{self.path}', {old + 1}, {new})"
        for engine in (self.engine, *self.others):
            rows = Counter(before.seen()[1])
            for kind, *row in engine.sql(text):
                rows[repr(plain(row))] += 1 if kind in ("insert", "update_postimage") else -1
            self._same(+rows, after.seen()[1], f"changes of {old + 1} to {new} from version {old}")
            assert not -rows, self.said(f"changes of {old + 1} to {new} delete what is not there: {-rows}")

    def end(self) -> None:
        """Every version that is retained is still what it was; the changes and the history are complete."""
        for version in sorted(self.retained):
            self._same_version(version)
        for _ in range(3):
            old, new = sorted(self.random.choice(self.whole) for _ in range(2))
            between = [self.kept[version] for version in range(old, new + 1)]
            # What the changes are of may be gone with the files of any version among them.
            all_there = self.retained.issuperset(range(old, new + 1))
            if all_there and all(each.fed and shape(each) == shape(between[0]) for each in between):
                self._lead(old, new, between[0], between[-1])
        for version, operation in self._named(f"DESCRIBE HISTORY {self.name}", "version", "operation"):
            wanted = self.operations.get(version) or operation
            assert operation.startswith(wanted), self.said(f"version {version} is {operation}, not {wanted}")


def shape(model: Model) -> list[tuple[str, str]]:
    """Names and types of the columns, which changes of several versions have in common."""
    return [(column.name, column.type) for column in model.columns]


def literal_text(text: str) -> str:
    return "'" + text.replace("'", "\\'") + "'"


class Other:
    """Another engine as these stories run it: ``sql`` gives rows in plain form."""

    def __init__(self, sql: Callable[[str], list[Any]]) -> None:
        self._sql = sql

    def sql(self, text: str) -> list[Any]:
        try:
            return self._sql(text)
        except Exception as error:
            raise Refused(type(error).__name__, str(error)) from error
