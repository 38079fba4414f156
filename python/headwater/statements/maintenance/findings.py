"""Findings of a table's health: sentences, the worst first, each with the statement to run.

Owns the rules by which figures of :mod:`headwater.statements.maintenance.health` become findings, and their words.
Promise: a finding follows from the figures alone, so the statement, the command and the inspector say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from headwater.basics.amounts import plural, size_text
from headwater.protocol.columns import sql_name

#: How bad a finding is, the worst first. ``warning``: it costs readers or writers something each time.
LEVELS = ("warning", "note")

# Chosen, not measured. Shares are of the table's files, rows or bytes.
_MANY_SMALL_FILES, _MANY_DELETED_ROWS, _SOME_DELETED_ROWS, _MUCH_GARBAGE = 10, 0.2, 0.05, 0.5
_MANY_PARTITIONS, _TINY_PARTITION_BYTES = 1000, 16 << 20
_MANY_COMMITS_WITHOUT_CHECKPOINT = 100


#: The statement to run, by what a finding is about. A finding with none has no statement that is whole as it stands.
_STATEMENTS = {
    "smallFiles": "OPTIMIZE {}",
    "deletedRows": "REORG TABLE {} APPLY (PURGE)",
    "statistics": "ANALYZE TABLE {} COMPUTE DELTA STATISTICS",
    "vacuum": "VACUUM {}",
    "checkpoint": "MAINTAIN TABLE {} ONLY (CHECKPOINT)",
    "missingFiles": "FSCK REPAIR TABLE {} DRY RUN",
    "indexes": "REFRESH INDEX ON {}",
}


class Finding(NamedTuple):
    """:param name: what it is about, for programs; ``text``: a sentence or two, with the statement to run in it."""

    level: str
    name: str
    text: str


_Sections = Mapping[str, Mapping[str, Any]]


def findings(sections: _Sections, table: str) -> list[Finding]:
    """What the figures say that somebody should do, the worst first; nothing if all is well.

    :param sections: the figures by section and name; those of ``skipping`` by the predicate first.
    :param table: what statements call the table.
    """
    found = [each for rule in _RULES for each in rule(sections, table)]
    return sorted(found, key=lambda each: LEVELS.index(each.level))


def statement(name: str, table: str) -> str | None:
    """The statement of the findings of a name, as their text has it; None if there is no statement to copy."""
    known = _STATEMENTS.get(name)
    return None if known is None else known.format(table)


def by_path(path: str) -> str:
    """How a statement names the table at a path."""
    return f"delta.`{path.replace('`', '``')}`"


def in_statements(name: str) -> str:
    """How a statement names a table that Spark's side names: it does not double the backticks of a path."""
    is_of_path = name.startswith("delta.`") and name.endswith("`") and "/" in name
    return by_path(name[len("delta.`") : -1]) if is_of_path else name


def _level(is_warning: bool) -> str:
    return LEVELS[0] if is_warning else LEVELS[1]


def _of_all(count: int, sections: _Sections) -> str:
    return f"{count:,} of {plural(sections['files']['files'], 'file')}"


def _files(sections: _Sections, table: str) -> Iterator[Finding]:
    files, would = sections["files"], sections["optimize"]
    removed, added = would["filesRemoved"], would["filesAdded"]
    if removed == 0:
        return
    text = f"{_of_all(files['smallFiles'], sections)} are smaller than {size_text(files['smallerThan'])}"
    if files["smallFiles"] == 0:
        text = f"{_of_all(removed, sections)} could be laid out better"
    rewritten = f"{plural(removed, 'file')} ({size_text(would['bytesRead'])})"
    text += f": {statement('smallFiles', table)} rewrites {rewritten} as {added:,}."
    yield Finding(_level(removed - added >= _MANY_SMALL_FILES), "smallFiles", text)


def _missing(sections: _Sections, table: str) -> Iterator[Finding]:
    count = sections["files"].get("missingFiles")
    if count:
        are = "is" if count == 1 else "are"
        text = f"{plural(count, 'file')} that the table names {are} missing, so reads fail. Restore what has a backup; "
        text += f"{statement('missingFiles', table)} lists the entries, and without DRY RUN it removes them."
        yield Finding("warning", "missingFiles", text)


def _partitions(sections: _Sections, table: str) -> Iterator[Finding]:
    files = sections["files"]
    count = files["partitions"]
    if count >= _MANY_PARTITIONS and files["bytes"] < count * _TINY_PARTITION_BYTES:
        average = size_text(files["bytes"] // count)
        text = f"{count:,} partitions have {average} each on average, so their files stay small. "
        text += f"Clustering has no such limit: CREATE TABLE … CLUSTER BY (column, …) AS SELECT * FROM {table}."
        yield Finding("warning", "partitions", text)


def _deleted_rows(sections: _Sections, table: str) -> Iterator[Finding]:
    rows = sections["rows"]
    deleted, alive = rows["deletedRows"], rows["rows"]
    if deleted == 0 or alive is None:
        return
    share = deleted / (deleted + alive)
    if share >= _SOME_DELETED_ROWS:
        text = f"{share:.0%} of the rows in the files are deleted, and every reader skips them one by one"
        purge = f"{statement('deletedRows', table)} rewrites {plural(rows['filesWithDeletedRows'], 'file')}"
        yield Finding(_level(share >= _MANY_DELETED_ROWS), "deletedRows", f"{text}: {purge}.")


def _statistics(sections: _Sections, table: str) -> Iterator[Finding]:
    without = sections["rows"]["filesWithoutStatistics"]
    if without:
        text = f"{_of_all(without, sections)} have no statistics, so no filter skips them"
        yield Finding("warning", "statistics", f"{text}: {statement('statistics', table)}.")


def _elsewhere(sections: _Sections, table: str) -> Iterator[Finding]:
    files = sections["files"]
    if files["filesElsewhere"]:
        text = (
            f"{_of_all(files['filesElsewhere'], sections)} ({size_text(files['bytesElsewhere'])}) are in other tables'"
        )
        yield Finding(
            "note", "filesElsewhere", f"{text} folders, as in a shallow clone: VACUUM of those may delete them."
        )


def _garbage(sections: _Sections, table: str) -> Iterator[Finding]:
    would = sections["vacuum"]
    if would["filesDeleted"]:
        gone = f"{plural(would['filesDeleted'], 'file')} ({size_text(would['bytesDeleted'])})"
        hours = f"{would['retentionHours']:,.0f} hours"
        text = f"{statement('vacuum', table)} deletes {gone} that no version of the last {hours} needs."
        yield Finding(_level(would["bytesDeleted"] > _MUCH_GARBAGE * sections["files"]["bytes"]), "vacuum", text)


def _checkpoints(sections: _Sections, table: str) -> Iterator[Finding]:
    since = sections["log"]["commitsSinceLastCheckpoint"]
    if since >= _MANY_COMMITS_WITHOUT_CHECKPOINT:
        text = f"{since:,} commits have no checkpoint after them, and every reader that opens the table reads them all."
        yield Finding("warning", "checkpoint", f"{text} {statement('checkpoint', table)} writes one.")


def _indexes(sections: _Sections, table: str) -> Iterator[Finding]:
    indexes = sections.get("indexes", {})
    behind = {name: each for name, each in indexes.items() if each.get("filesMissing")}
    if behind:
        parts = [f"the index {name} lacks {_of_all(each['filesMissing'], sections)}" for name, each in behind.items()]
        text = f"{', '.join(parts)}, which statements read as without it"
        text = f"{text[0].upper()}{text[1:]}: {statement('indexes', table)} builds the entries."
        yield Finding("note", "indexes", text)
    for name, each in indexes.items():
        if each.get("duplicateKeys"):
            text = (
                f"{each['duplicateKeys']:,} keys ({each['columns']}) of the enforced primary key are in several rows."
            )
            yield Finding(
                "warning", "duplicateKeys", f"{text} Another writer wrote them. DELETE all rows but one of each."
            )
        if each.get("problem"):
            text = f"The index {name} ({each['columns']}) is not used: {each['problem']}."
            yield Finding("warning", "indexProblem", f"{text} DROP INDEX {sql_name(name)} ON {table} removes it.")


def _iceberg(sections: _Sections, table: str) -> Iterator[Finding]:
    iceberg = sections.get("iceberg") or {}
    behind, failure = iceberg.get("versionsBehind"), iceberg.get("failure")
    if behind or failure:
        text = f"Iceberg's metadata is {plural(behind or 0, 'version')} behind the table"
        yield Finding("warning", "iceberg", f"{text}{f': {failure}' if failure else '.'}")


def _expectations(sections: _Sections, table: str) -> Iterator[Finding]:
    names = sections.get("table", {}).get("expectations")
    if names:
        text = (
            f"Other engines do not know the table's {plural(len(names), 'expectation')} ({', '.join(names)}), so rows "
        )
        text += f"that they write may violate them. Write to {table} by Headwater alone, or use CHECK constraints."
        yield Finding("note", "expectations", text)


def _skipping(sections: _Sections, table: str) -> Iterator[Finding]:
    for predicate, figures in sections["skipping"].items():
        for part in figures["notUnderstood"]:
            yield Finding("note", "skipping", f"{part} skips no file: only comparisons of a column with a literal do.")
        if figures["filesSkipped"] == 0 and figures["filesRead"] > 1 and not figures["notUnderstood"]:
            text = f"{predicate} reads all {plural(figures['filesRead'], 'file')}. If many queries filter like this, "
            text += f"cluster the table: ALTER TABLE {table} CLUSTER BY (column, …), then OPTIMIZE {table} FULL."
            yield Finding("note", "skipping", text)


_RULES: Iterable[Callable[[_Sections, str], Iterator[Finding]]] = (
    _missing,
    _iceberg,
    _statistics,
    _files,
    _partitions,
    _deleted_rows,
    _checkpoints,
    _indexes,
    _garbage,
    _elsewhere,
    _expectations,
    _skipping,
)
