"""EXPLAIN of a DELETE, UPDATE or MERGE: what it would do, in words, SQL and Spark's plan.

Owns the text. No job is run. A fact that only a job shows, such as which files have matching rows, is named as such.
"""

from __future__ import annotations

import pyarrow as pa

from headwater.basics.amounts import plural, size_text
from headwater.sql.composing import Placeholders, Query
from headwater.statements.dml.attempt import Attempt
from headwater.statements.dml.rewrite import Rewrite
from headwater.statements.files.indexed_rows import IndexedRows


class Explanation:
    """Collects the parts of an explanation, in order."""

    def __init__(self, attempt: Attempt, statement: str, mode: str) -> None:
        self._attempt = attempt
        self._mode = mode
        snapshot = attempt.snapshot
        self._parts = [f"== {statement} {attempt.request.message.name}, version {snapshot.version} =="]

    @staticmethod
    def count(files: pa.Table) -> str:
        """``3 files``."""
        return plural(files.num_rows, "file")

    def files(self, number: int, size: int) -> None:
        """The files the statement would read or remove; ``size`` in bytes."""
        snapshot = self._attempt.snapshot
        total = f"{plural(snapshot.num_files, 'file')} ({size_text(snapshot.size_in_bytes)})"
        self._parts.append(f"Files: {number} ({size_text(size)}) of {total}")

    def strategy(self, name: str, reason: str) -> None:
        """How the statement would run, and why."""
        self._parts.append(f"Strategy: {name}: {reason}")

    def rewriting(self, reason: str) -> None:
        """The strategy where rows are replaced."""
        if self._attempt.writes_vectors:
            self.strategy("deletion vectors", f"delta.enableDeletionVectors is true; {reason}")
        else:
            self.strategy("copy-on-write", f"delta.enableDeletionVectors is not true; {reason}")

    def index(self, found: IndexedRows | None) -> None:
        """What an index leaves of the files."""
        if found is not None:
            self.note(f"Index: {found.text()}")

    def note(self, text: str) -> None:
        """A line of its own."""
        self._parts.append(text)

    def query(self, rewrite: Rewrite, title: str = "Rewrite") -> None:
        """The rewrite and how Spark would run it."""
        self._parts.append(f"\n== {title} ==\n{self._readable(rewrite.query)}")
        if rewrite.is_gathered:
            self._parts.append(
                "\nOptimized write: the rows of a partition are gathered, so that it gets a few large files."
            )
        self._parts.append(f"\n{self._attempt.statement.explain(rewrite.query.text(), self._mode).strip()}")

    def _readable(self, query: Query) -> str:
        """The query with what its placeholders stand for."""
        request = self._attempt.request
        texts = self._attempt.statement.expression_texts()
        relation = {request.message.source: "<source>"}
        return query.text(Placeholders(texts.__getitem__, lambda number: relation.get(number, request.message.name)))

    def copying(self) -> None:
        """The job that follows a rewrite where there are no deletion vectors."""
        if not self._attempt.writes_vectors:
            self.note("\nThen the unchanged rows of files with replaced rows are copied into new files.")

    def text(self) -> str:
        return "\n".join(self._parts)
