"""Output for notebooks: a card of a table, its history, and what a statement did.

Owns the HTML of ``_repr_html_``. Promises: everything that comes from a table is escaped, and there is no script, no
style sheet and nothing that is loaded; colours are those of the page, so dark ones work; a statement's result is
still its DataFrame, and nothing more runs unless a notebook shows it; if nothing can be shown, for example for a
dropped table, the result is None, and notebooks show the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row

from headwater.basics.amounts import effects, number_of, plural, size_text
from headwater.basics.printable import printable
from headwater.tables.names import split_name
from headwater.tables.opening import NamedTable

#: The most rows that an answer or a history shows.
_ROWS = 20
#: How many versions a line of bars shows.
_VERSIONS = 40
#: How many commits are looked at for that of a statement.
_COMMITS = 5
#: What a statement is called in the history, by its first word.
_OPERATIONS = {"VACUUM": "VACUUM END"}
#: The metric of the history that an answer of DML repeats.
_COUNTS = {"DELETE": ("numDeletedRows",), "UPDATE": ("numUpdatedRows",)}
#: The metrics of a commit that say how many bytes of files it added and removed; the first that is there counts.
_CHANGES = (
    ("numTargetBytesAdded", "numAddedBytes", "restoredFilesSize", "numOutputBytes"),
    ("numTargetBytesRemoved", "numRemovedBytes", "removedFilesSize"),
)
#: The metric that says how many bytes the table has after the commit.
_SIZE_AFTER = "tableSizeAfterRestore"
#: Operations that add and remove no file.
_KEEPS_FILES = frozenset({"CREATE TABLE", "RENAME COLUMN", "DROP COLUMNS", "REPLACE COLUMNS", "COMPUTE STATS"})
_KEEPS_FILES_BEGINS = ("VACUUM", "ADD ", "SET ", "UNSET ", "CHANGE ", "DROP CONSTRAINT", "CLUSTER BY")
_CARD = "display:inline-block;border:1px solid #8886;border-radius:6px;padding:0.6em 1em;line-height:1.5"
_CELL = "text-align:left;vertical-align:top;padding:0.1em 0.8em 0.1em 0"
_WIDTH, _HEIGHT = 240, 36


def run(table: NamedTable, text: str) -> DataFrame:
    """Run a statement; a notebook shows its answer with a line of what happened."""
    frame = table.sql(text)
    operation = text.split(None, 1)[0].upper()
    return _shown_as(frame, lambda: _answer(frame, table, operation))


def history(frame: DataFrame) -> DataFrame:
    """A history, which a notebook shows as what each version did."""
    return _shown_as(frame, lambda: _history(frame.take(_VERSIONS)))


def detail(frame: DataFrame) -> DataFrame:
    """What DESCRIBE DETAIL says, which a notebook shows as a table of names and values."""
    return _shown_as(frame, lambda: _detail(frame.take(1)))


def card(table: NamedTable) -> str | None:
    """The card of a table."""
    return _or_none(lambda: _card(table))


def _shown_as(frame: DataFrame, html: Callable[[], str]) -> DataFrame:
    frame._repr_html_ = lambda: _or_none(html)
    return frame


def _or_none(html: Callable[[], str]) -> str | None:
    try:
        return html()
    except PySparkException:
        return None


# --- a statement's answer ---------------------------------------------------------------------------------------------


def _answer(frame: DataFrame, table: NamedTable, operation: str) -> str:
    rows = [row.asDict(recursive=True) for row in frame.take(_ROWS + 1)]
    head = _line(rows[0] if rows else {}, table, operation)
    shown = [{name: _value(value) for name, value in row.items()} for row in rows[:_ROWS]]
    more = "<div>…</div>" if len(rows) > _ROWS else ""
    said = f"<div>{_text(head)}</div>"
    answer = f"{_table(list(frame.columns), (row.values() for row in shown))}{more}"
    if operation in _SENTENCES:  # the sentence says what people want to know, and the answer is wide
        return f"{said}<details><summary>answer</summary>{answer}</details>"
    return f"{said}{answer}"


def _line(answer: Mapping[str, Any], table: NamedTable, operation: str) -> str:
    """What happened, in a line."""
    if answer.get("num_affected_rows") == 0:
        return f"{operation}: no row changed"
    own = answer["metrics"] if isinstance(answer.get("metrics"), dict) else answer
    commit = _commit(answer, table, operation)
    if operation in _SENTENCES and (sentence := _SENTENCES[operation](answer, commit)) is not None:
        return sentence
    if commit is None:
        parts = effects(own)
        if not parts and isinstance(rows := answer.get("num_affected_rows"), int):
            parts = [f"{plural(rows, 'row')} changed"]
        return ": ".join([operation, ", ".join(parts)]) if parts else operation
    return _said(commit)


def _optimized(answer: Mapping[str, Any], commit: Row | None) -> str | None:
    """What an OPTIMIZE did, by its answer; its commit is another's if it wrote none."""
    metrics = answer.get("metrics")
    if not isinstance(metrics, dict) or not isinstance(metrics.get("numFilesRemoved"), int):
        return None
    removed, added = metrics["numFilesRemoved"], metrics.get("numFilesAdded") or 0
    if removed == 0:
        considered = metrics.get("totalConsideredFiles")
        of = f" in {plural(considered, 'file')}" if isinstance(considered, int) else ""
        return f"OPTIMIZE found nothing to rewrite{of}."
    sizes = [_size_of(metrics.get(name)) for name in ("filesRemoved", "filesAdded")]
    old, new = (f" ({size_text(size)})" if size is not None else "" for size in sizes)
    version = f" in version {commit['version']:,}" if commit is not None else ""
    return f"OPTIMIZE rewrote {plural(removed, 'file')}{old} as {plural(added, 'file')}{new}{version}."


def _size_of(sizes: Any) -> int | None:
    size = sizes.get("totalSize") if isinstance(sizes, dict) else None
    return size if isinstance(size, int) else None


def _vacuumed(answer: Mapping[str, Any], commit: Row | None) -> str | None:
    """What a VACUUM did, by its commit."""
    metrics = {} if commit is None else commit["operationMetrics"] or {}
    deleted = number_of(metrics.get("numDeletedFiles"))
    if commit is None or deleted is None:
        return None
    if deleted == 0:
        return "VACUUM found no file to delete: all are needed, or are not old enough."
    return f"VACUUM deleted {plural(deleted, 'file')} that no version within the retention time needs."


#: The statements whose answer is said in a sentence, by their first word.
_SENTENCES: Mapping[str, Callable[[Mapping[str, Any], Row | None], str | None]] = {
    "OPTIMIZE": _optimized,
    "VACUUM": _vacuumed,
}


def _commit(answer: Mapping[str, Any], table: NamedTable, operation: str) -> Row | None:
    """The newest commit of this kind; of DML, one that changed as many rows."""
    wanted = _OPERATIONS.get(operation, operation)
    for commit in table.sql(f"DESCRIBE HISTORY {table.name} LIMIT {_COMMITS}").collect():
        metrics = commit["operationMetrics"] or {}
        counts = [metrics.get(name) for name in _COUNTS.get(operation, ())]
        if commit["operation"] == wanted and all(
            count in (None, str(answer.get("num_affected_rows"))) for count in counts
        ):
            found: Row = commit
            return found
    return None


def _said(commit: Row) -> str:
    parts = effects(commit["operationMetrics"], commit["operationParameters"])
    return f"version {commit['version']}: {', '.join([commit['operation'] or 'unknown', *parts])}"


def _value(value: Any) -> Any:
    """A value of an answer; of a struct, what it has."""
    if not isinstance(value, dict):
        return value
    named = {name: each for name, each in value.items() if isinstance(each, (int, str)) and each not in (0, "")}
    return ", ".join(f"{name} {each}" for name, each in named.items())


# --- history, card and detail -----------------------------------------------------------------------------------------


def _history(commits: Sequence[Row]) -> str:
    rows = (
        (
            commit["version"],
            _time(commit["timestamp"]),
            commit["operation"],
            ", ".join(effects(commit["operationMetrics"], commit["operationParameters"])),
            commit["userName"] or commit["engineInfo"],
        )
        for commit in commits[:_ROWS]
    )
    more = "<div>…</div>" if len(commits) > _ROWS else ""
    bars = _bars(commits, [_added(commit["operationMetrics"]) for commit in commits], "bytes added by")
    return f"{bars}{_table(('version', 'timestamp', 'operation', 'what it did', 'by'), rows)}{more}"


def _card(table: NamedTable) -> str:
    detail = table.sql(f"DESCRIBE DETAIL {table.name}").collect()[0]
    commits = table.sql(f"DESCRIBE HISTORY {table.name} LIMIT {_VERSIONS}").collect()
    facts = {
        "location": detail["location"],
        "files": f"{detail['numFiles']:,}, {size_text(detail['sizeInBytes'])}",
        "partitioned by": ", ".join(detail["partitionColumns"] or ()),
        "clustered by": ", ".join(detail["clusteringColumns"] or ()),
        "description": detail["description"],
        "last change": f"{_time(detail['lastModified'])}, {_said(commits[0])}" if commits else None,
    }
    rows = ((name, value) for name, value in facts.items() if value)
    sizes = _sizes(commits, detail["sizeInBytes"])
    bars = _bars(commits[: len(sizes)], sizes, "size of the table at")
    return f'<div style="{_CARD}"><b>{_text(_plain(table.shown))}</b>{_table((), rows)}{bars}</div>'


def _plain(name: str) -> str:
    """A table's name as people say it: without backticks; of a path, the path alone."""
    try:
        parts = split_name(name)
    except ValueError:
        return name
    return parts[1] if len(parts) == 2 and parts[0].lower() == "delta" else ".".join(parts)


def _detail(rows: Sequence[Row]) -> str:
    if not rows:
        return _table(("name", "value"), ())
    found = rows[0].asDict(recursive=True)
    return _table(("name", "value"), ((name, _said_of(name, value)) for name, value in found.items() if _has(value)))


def _has(value: Any) -> bool:
    return value is not None and value not in ("", [], {})


def _said_of(name: str, value: Any) -> str:
    """A value of DESCRIBE DETAIL as text."""
    if name == "sizeInBytes" and isinstance(value, int):
        return f"{size_text(value)} ({value:,} bytes)"
    if isinstance(value, datetime):
        return _time(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {each}" for key, each in sorted(value.items()))
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _sizes(commits: Sequence[Row], newest: int) -> list[int]:
    """The table's size in bytes after each commit, the newest first, as far back as the metrics say what changed."""
    sizes = []
    size: int | None = newest
    for commit in commits:
        metrics = commit["operationMetrics"] or {}
        size = number_of(metrics.get(_SIZE_AFTER)) if _SIZE_AFTER in metrics else size
        if size is None or size < 0:
            break
        sizes.append(size)
        change = _change(commit, metrics)
        size = None if change is None else size - change
    return sizes


def _change(commit: Row, metrics: Mapping[str, str]) -> int | None:
    """By how many bytes a commit made the table larger; None if its metrics do not say."""
    operation, parameters = commit["operation"] or "", commit["operationParameters"] or {}
    if operation in _KEEPS_FILES or operation.startswith(_KEEPS_FILES_BEGINS):
        return 0
    added, removed = (
        next((n for name in names if (n := number_of(metrics.get(name))) is not None), None) for names in _CHANGES
    )
    is_own = "Headwater/" in (commit["engineInfo"] or "")
    if added is None or not (is_own or (operation == "WRITE" and parameters.get("mode") == "Append")):
        return None
    return added - (removed or 0)


def _bars(commits: Sequence[Row], amounts: Sequence[int], what: str) -> str:
    """A bar for each version, the newest at the right; ``amounts`` are in bytes."""
    if len(commits) < 2:
        return ""
    most = max(amounts) or 1
    step = _WIDTH / len(amounts)
    bars = []
    for position, (size, commit) in enumerate(zip(reversed(amounts), reversed(commits), strict=True)):
        height = max(1.0, _HEIGHT * size / most)
        told = f"{_said(commit)}; {what} this version: {size_text(size)}"
        bars.append(
            f'<rect x="{position * step:.1f}" y="{_HEIGHT - height:.1f}" width="{max(step - 1, 0.5):.1f}" '
            f'height="{height:.1f}" fill="currentColor" opacity="0.6"><title>{_text(told)}</title></rect>'
        )
    label = f"{what} versions {commits[-1]['version']} to {commits[0]['version']}, at most {size_text(max(amounts))}"
    return (
        f'<div><svg role="img" aria-label="{_text(label)}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}">{"".join(bars)}</svg><br><small>{_text(label)}</small></div>'
    )


def _added(metrics: Mapping[str, str] | None) -> int:
    return next((n for name in _CHANGES[0] if (n := number_of((metrics or {}).get(name))) is not None), 0)


def _time(value: Any) -> str:
    return value.isoformat(" ", "seconds") if isinstance(value, datetime) else ""


def _table(names: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    head = "".join(_cell("th", name) for name in names)
    body = "".join(f"<tr>{''.join(_cell('td', value) for value in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(kind: str, value: Any) -> str:
    return f'<{kind} style="{_CELL}">{_text(value)}</{kind}>'


def _text(value: Any) -> str:
    return "" if value is None else escape(printable(str(value)))
