"""Output for notebooks: a card of a table, its history, and what a statement did.

Owns the HTML of ``_repr_html_``. Promises: everything that comes from a table is escaped, and there is no script, no
style sheet and nothing that is loaded; colours are those of the page, so dark ones work; a statement's answer is the
DataFrame that it was, and nothing more runs unless a notebook shows it; where nothing can be shown, as of a table that
was dropped, the answer is None, and notebooks show the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row

from headwater.basics.amounts import effects, plural, size_text
from headwater.basics.printable import printable
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
    return f"<div>{_text(head)}</div>{_table(list(frame.columns), (row.values() for row in shown))}{more}"


def _line(answer: Mapping[str, Any], table: NamedTable, operation: str) -> str:
    """What happened, in a line."""
    if answer.get("num_affected_rows") == 0:
        return f"{operation}: no row changed"
    own = answer["metrics"] if isinstance(answer.get("metrics"), dict) else answer
    commit = _commit(answer, table, operation)
    if commit is None:
        parts = effects(own)
        if not parts and isinstance(rows := answer.get("num_affected_rows"), int):
            parts = [f"{plural(rows, 'row')} changed"]
        return ": ".join([operation, ", ".join(parts)]) if parts else operation
    return _said(commit)


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


# --- history and card -------------------------------------------------------------------------------------------------


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
    return f"{_bars(commits)}{_table(('version', 'timestamp', 'operation', 'what it did', 'by'), rows)}{more}"


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
    return f'<div style="{_CARD}"><b>{_text(table.shown)}</b>{_table((), rows)}{_bars(commits)}</div>'


def _bars(commits: Sequence[Row]) -> str:
    """A bar for each version, the newest at the right: the bytes that it added."""
    if len(commits) < 2:
        return ""
    added = [_added(commit["operationMetrics"]) for commit in reversed(commits)]
    most = max(added) or 1
    step = _WIDTH / len(added)
    bars = []
    for position, (size, commit) in enumerate(zip(added, reversed(commits), strict=True)):
        height = max(1.0, _HEIGHT * size / most)
        bars.append(
            f'<rect x="{position * step:.1f}" y="{_HEIGHT - height:.1f}" width="{max(step - 1, 0.5):.1f}" '
            f'height="{height:.1f}" fill="currentColor" opacity="0.6"><title>{_text(_said(commit))}</title></rect>'
        )
    label = f"bytes added by versions {commits[-1]['version']} to {commits[0]['version']}, at most {size_text(most)}"
    return (
        f'<div><svg role="img" aria-label="{_text(label)}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}">{"".join(bars)}</svg><br><small>{_text(label)}</small></div>'
    )


def _added(metrics: Mapping[str, str] | None) -> int:
    for name in ("numTargetBytesAdded", "numAddedBytes", "numOutputBytes"):
        text = (metrics or {}).get(name) or ""
        if text.isascii() and text.isdecimal() and len(text) < 20:
            return int(text)
    return 0


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
