"""Clones of a table, and of clones, among DML, ALTER TABLE and maintenance of all of them.

:class:`Cloned` is several stories of :mod:`support.dml.maintaining` at once: a table, shallow and deep clones of any
version of any of them, and deep clones that are brought to another version. What must hold beside what each story
holds: no statement on one table changes a version of another; a shallow clone fails by a clear error once a file of
another table that it needs is gone, and not before; a deep clone needs no other table.
"""

from __future__ import annotations

import copy
import random
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from headwater.log import deletion_vectors
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import DeletionVector
from headwater.stores import LocalStore, absolute_path
from support.dml.checking import Engine, Refused, version_of
from support.dml.maintaining import Maintained
from support.dml.reshaping import Model
from support.dml.scripts import name_of

#: How many tables there are at most.
_MOST = 4
#: What a table says whose files another one has deleted.
_GONE = "DELTA_FILE_NOT_FOUND_DETAILED"
_OF_NOBODY = ("VACUUM START", "VACUUM END", "OPTIMIZE", "REORG", "COMPUTE STATS")


class Clone(Maintained):
    """A clone of a version of a table; what comes then, as of any table."""

    def __init__(self, of: Maintained, version: int, path: Path, is_deep: bool) -> None:
        self.of, self.is_deep, self.is_simple = of, is_deep, of.is_simple
        self.engine, self.others, self.random, self.done = of.engine, of.others, of.random, of.done
        # It does not follow absolute paths.
        self.by_arrow = of.by_arrow if is_deep else None
        self.path, self.name = path, name_of(path)
        self.retention, self.next_key, self.numbered, self.gone = of.retention, of.next_key, of.numbered, [*of.gone]
        self.versions, self.kept, self.operations = {}, {}, {0: "CLONE"}
        self.retained, self.whole = set(), [0]
        self.model = as_cloned(of, version)
        engine = self._writer()
        engine.sql(self._noted(f"CREATE TABLE {{t}} {self.kind} CLONE {of.name} VERSION AS OF {version}"))
        self._keep(0)
        self.check()

    @property
    def kind(self) -> str:
        return "DEEP" if self.is_deep else "SHALLOW"

    def again(self, version: int) -> None:
        """Bring a deep clone to another version of its source, if nothing else has changed it."""
        there = load_snapshot(str(self.path), LocalStore()).num_files
        operations = [name for (name,) in self._named(f"DESCRIBE HISTORY {self.name}", "operation")]
        last = next(name for name in operations if name not in _OF_NOBODY)
        refused = {"HEADWATER_DEEP_CLONE_TARGET_CHANGED"} if there and last != "CLONE" else None
        before = version_of(self.path)
        if self._try(f"CREATE OR REPLACE TABLE {{t}} DEEP CLONE {self.of.name} VERSION AS OF {version}", refused):
            self.model = as_cloned(self.of, version)
            self.next_key, self.gone = max(self.next_key, self.of.next_key), [*self.gone, *self.of.gone]
            self.numbered = max(self.numbered, self.of.numbered)
            self._maintained(before, "CLONE")
        self.check()
        if version_of(self.path) != self.whole[-1]:
            self.whole.append(version_of(self.path))

    def _writer(self) -> Any:
        """Who makes it: another engine has no deep clones."""
        return (
            self.random.choice(self.others)
            if self.others and not self.is_deep and self.random.random() < 0.4
            else self.engine
        )

    def _noted(self, sql: str) -> str:
        self.done.append(sql.replace("{t}", self.name))
        return self.done[-1]


def as_cloned(of: Maintained, version: int) -> Model:
    """What a clone of a version is; its rows have ids of its own."""
    model = copy.deepcopy(of.kept[version])
    model.ids, model.changed = {}, {}
    return model


class Cloned:
    """A table and its clones; ``tables`` are those that are whole."""

    def __init__(
        self,
        engine: Any,
        folder: Path,
        seed: int,
        others: Sequence[Engine] = (),
        by_arrow: Callable[[Path, list[str]], Counter[str]] | None = None,
    ) -> None:
        self.folder, self.random = folder, random.Random(seed)
        source = Maintained(engine, folder / "source", seed, others, by_arrow)
        self.tables: list[Maintained] = [source]
        self.number = 0
        for _ in range(2):
            source.insert()
            source.check()
            source.whole.append(version_of(source.path))

    def step(self) -> None:
        """A statement about one of the tables, and what must be so of all of them after it."""
        draw = self.random.random()
        clones = [table for table in self.tables if isinstance(table, Clone)]
        deep = [table for table in clones if table.is_deep and table.of in self.tables]
        if not clones or draw < 0.25 and len(self.tables) < _MOST:
            self.clone(is_deep=self.random.random() < 0.4)
        elif draw < 0.4 and deep:
            copied = self.random.choice(deep)
            self.tell(copied, lambda: copied.again(self._version(copied.of)))
        elif draw < 0.45 and len(self.tables) == _MOST:
            self.drop(self.random.choice(clones))
        else:
            chosen = self.random.choice(self.tables)
            self.tell(chosen, chosen.step)

    def clone(self, is_deep: bool) -> None:
        """A new clone of any version of any table."""
        of = self.random.choice(self.tables)
        self.number += 1
        self.tables.append(Clone(of, self._version(of), self.folder / f"clone {self.number}", is_deep))

    def drop(self, chosen: Maintained) -> None:
        """A table goes, with its files."""
        chosen.done.append(f"-- {chosen.name} is deleted")
        self.tables.remove(chosen)
        shutil.rmtree(chosen.path)
        self.look()

    def tell(self, chosen: Maintained, step: Callable[[], None]) -> None:
        """A step of one table, which is nothing to the others."""
        at = len(chosen.done)
        step()
        if any(" VACUUM" in f" {text}" and "DRY RUN" not in text for text in chosen.done[at:]):
            self.look(chosen)
        elif others := [table for table in self.tables if table is not chosen]:
            self.random.choice(others).check()

    def look(self, vacuumed: Maintained | None = None) -> None:
        """After files were deleted: what no other table needs, and what of shallow clones is gone with them."""
        for table in [table for table in self.tables if table is not vacuumed]:
            whole = {version for version in table.retained if not missing(table.path, version)}
            if not isinstance(table, Clone) or table.is_deep:
                assert whole == table.retained, table.said(f"{table.name} lacks {table.retained - whole}")
            table.retained = whole
            if table.whole[-1] in whole:
                table.check()
                continue
            self.tables.remove(table)
            with pytest.raises(Refused) as raised:
                table.engine.sql(f"SELECT * FROM {table.name}")
            assert raised.value.condition == _GONE, table.said(f"its files are gone: {raised.value}")

    def end(self) -> None:
        """Every version of each table that is whole is still what it was."""
        for table in self.tables:
            table.end()

    def _version(self, of: Maintained) -> int:
        """The newest version of a table, or an older one that is whole."""
        older = [version for version in of.whole if version in of.retained]
        return of.whole[-1] if self.random.random() < 0.6 else self.random.choice(older)


def missing(path: Path, version: int) -> list[str]:
    """The files of a version, of rows and of deletion vectors, that are not there."""
    wanted = set()
    for row in load_snapshot(str(path), LocalStore(), version).files.select(["path", "deletion_vector"]).to_pylist():
        wanted.add(absolute_path(str(path), row["path"]))
        if (vector := row["deletion_vector"]) and vector["storage_type"] != deletion_vectors.INLINE:
            described = DeletionVector(vector["storage_type"], vector["path_or_inline"], 0, 0)
            wanted.add(deletion_vectors.absolute_location(described, str(path)))
    return [file for file in wanted if not Path(file.removeprefix("file:")).exists()]
