"""``headwater describe | history | detail | log | diff | files``: tables from their logs, as text or JSON.

Owns how the facts of :mod:`headwater.cli.facts` and the rows of DESCRIBE HISTORY and DESCRIBE DETAIL are laid out. The
JSON of a command is an object, or for ``history`` and ``log`` an array; its names are those of the statements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from headwater.basics.amounts import effects, plural, size_text
from headwater.basics.printable import printable
from headwater.cli import facts
from headwater.cli.locations import Place, reached, snapshot_of
from headwater.cli.printing import console, is_pipe, pairs, print_json, table
from headwater.log.history import history
from headwater.log.segment import list_log, version_not_found
from headwater.log.snapshot import load_snapshot
from headwater.statements.reads.describe import detail_row, history_rows

#: How many rows of a list a person gets, unless ``--limit`` says so.
_ROWS = 50
_STYLE = {"+": "green", "-": "red", "~": "yellow"}
#: What is said of an action on its line, in order; what else it has is in the JSON.
_SHOWN_OF_ACTION = (
    "operation", "path", "size", "dataChange", "appId", "version", "domain", "configuration", "removed", "id", "name",
    "partitionColumns", "minReaderVersion", "minWriterVersion", "readerFeatures", "writerFeatures", "engineInfo", "tag",
)  # fmt: skip


def show_description(path: str, version: int | None, timestamp: str | None, *, as_json: bool) -> None:
    """Print the columns of a table and what is declared beside them."""
    with reached(path) as place:
        snapshot = snapshot_of(place, version, timestamp)
        found = _at(facts.description(snapshot), place)
    if as_json:
        print_json(found | {"schema": snapshot.schema.to_json()})
        return
    columns = found.pop("columns")
    optional = ("default", "generated", "comment")
    marks = [name for name in ("partition", "identity") if any(column[name] for column in columns)]
    shown = ["name", "type", "nullable", *marks, *(name for name in optional if any(c[name] for c in columns))]
    out = console()
    constraints = found.pop("constraints")
    out.print(pairs({name: value for name, value in found.items() if value not in (None, [])}))
    out.print(table(shown, ([_blank(column[name]) for name in shown] for column in columns), "columns"))
    if constraints:
        out.print(pairs(constraints, "constraints"))


def show_history(path: str, limit: int | None, *, as_json: bool) -> None:
    """Print the commits that the log still has, the newest first."""
    with reached(path) as place:
        some = limit if as_json else (limit or _ROWS)
        rows = history_rows(history(place.path, place.store, some))
        if as_json:
            print_json(rows)
            return
        makers = {row["userName"] or row["engineInfo"] for row in rows}
        shown = table(
            ["version", "timestamp", "operation", "what it did", *(["by"] if len(makers) > 1 else [])],
            (
                [
                    row["version"],
                    row["timestamp"],
                    row["operation"],
                    ", ".join(effects(row["operationMetrics"], row["operationParameters"])),
                    *([row["userName"] or row["engineInfo"]] if len(makers) > 1 else []),
                ]
                for row in rows
            ),
        )
        left = rows[-1]["version"] if rows and len(rows) == some else 0
    out = console()
    out.print(shown)
    if len(makers) == 1 and None not in makers:
        out.print(Text(f"All by {printable(makers.pop())}.", style="dim"))
    if left:
        out.print(Text(f"Older versions may follow: headwater history {printable(place.shown)} --limit N", style="dim"))


def show_detail(path: str, version: int | None, timestamp: str | None, *, as_json: bool) -> None:
    """Print what DESCRIBE DETAIL says of a table, with its version."""
    with reached(path) as place:
        snapshot = snapshot_of(place, version, timestamp)
        row = {"version": snapshot.version, **detail_row(snapshot)}
        if place.shown != place.path:
            row["location"] = place.shown
    if as_json:
        print_json(row)
        return
    properties = row.pop("properties")
    out = console()
    row["sizeInBytes"] = f"{row['sizeInBytes']:,} ({size_text(row['sizeInBytes'])})"
    out.print(pairs(row))
    if properties:
        out.print(pairs(dict(sorted(properties.items())), "properties"))


def show_log(path: str, version: int | None, limit: int | None, *, as_json: bool) -> None:
    """Print the files of a table's log, or the actions of a version's commit."""
    with reached(path) as place:
        if version is None:
            found = facts.log_files(place.store, place.path)
        else:
            found = facts.actions(place.store, place.path, version)
    if as_json:
        print_json(found if limit is None else found[-limit:] if version is None else found[:limit])
        return
    some = limit or _ROWS
    out = console()
    if version is not None:
        for action in found[:some]:
            for kind, content in action.items():
                out.print(_action(kind, content))
        if len(found) > some:
            out.print(Text(f"and {plural(len(found) - some, 'action')} more: --limit {len(found)}", style="dim"))
        return
    kinds: dict[str, list[int]] = {}
    for file in found:
        kinds.setdefault(file["kind"].partition(" part ")[0], []).append(file["size"])
    out.print(table(["kind", "files", "size"], ([k, len(s), size_text(sum(s))] for k, s in kinds.items())))
    rows = ([f["kind"], f["version"], f["name"], f["size"], f["modified"]] for f in found[-some:])
    out.print(table(["kind", "version", "name", "size", "modified"], rows))
    if len(found) > some:
        out.print(Text(f"and {plural(len(found) - some, 'file')} before them: --limit {len(found)}", style="dim"))


def show_files(
    path: str,
    version: int | None,
    timestamp: str | None,
    *,
    where: str | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """Print the live files of a table, or those that a predicate reads."""
    with reached(path) as place:
        some = limit if as_json else (limit or _ROWS)
        found = _at(facts.files(snapshot_of(place, version, timestamp), where, some), place)
    if as_json:
        print_json(found)
        return
    rows = (
        [
            file["path"] if is_pipe() else file["path"].rpartition("/")[2],
            file["size"] if is_pipe() else size_text(file["size"]),
            file["rows"],
            file["deletedRows"] or None,
            "/".join(f"{name}={'null' if value is None else value}" for name, value in file["partition"].items()),
            file["modified"],
        ]
        for file in found["files"]
    )
    out = console()
    names, shown = ["path", "size", "rows", "deleted rows", "partition", "modified"], list(map(_blanks, rows))
    if not is_pipe():
        kept = [place for place in range(len(names)) if any(row[place] != "" for row in shown)] or range(len(names))
        names, shown = [names[place] for place in kept], [[row[place] for place in kept] for row in shown]
    out.print(table(names, shown))
    ending = f"{plural(found['numFiles'], 'file')}, {size_text(found['sizeInBytes'])}"
    if where is not None:
        ending += f"; {plural(found['skippedFiles'], 'file')} skipped"
    if len(found["files"]) < found["numFiles"]:
        ending += f"; the first {len(found['files'])} are shown: --limit {found['numFiles']}"
    out.print(Text(f"version {found['version']}: {ending}"))
    if found.get("notUnderstood"):
        parts = printable(", ".join(found["notUnderstood"]))
        out.print(Text(f"{parts} skips no file: only comparisons of a column with a literal do."))


def show_difference(path: str, older: int | None, newer: int | None, *, as_json: bool) -> None:
    """Print how two versions of a table differ: by default the newest and the one before it."""
    with reached(path) as place:
        after = load_snapshot(place.path, place.store, newer)
        before = max(after.version - 1, 0) if older is None else older
        if before > after.version:
            raise version_not_found(list_log(place.path, place.store), before)
        found = _at(facts.difference(load_snapshot(place.path, place.store, before), after), place)
    if as_json:
        print_json(found)
        return
    out = console()
    lines = list(_difference_lines(found))
    out.print(Text(f"{printable(found['path'])}: version {found['from']} to {found['to']}", style="bold"))
    for line in lines or [Text("  no difference")]:
        out.print(line)
    sums = found["sums"]
    for name, (old, new) in sums.items():
        text = size_text if name == "bytes" else "{:,}".format
        values = ["unknown" if value is None else text(value) for value in (old, new)]
        out.print(Text(f"{name}: {values[0]}" if old == new else f"{name}: {values[0]} -> {values[1]}"))


def _difference_lines(found: Mapping[str, Any]) -> list[Text]:
    lines: list[Text] = []
    columns = found["columns"]
    own = _lines_of({**columns, "changed": {}})
    own += [_line("~", f"{old} is now {new}") for old, new in columns["renamed"].items()]
    for name, changed in columns["changed"].items():
        own += [_line("~", f"{name}: {what} {_value(a)} -> {_value(b)}") for what, (a, b) in changed.items()]
    if columns["reordered"]:
        own.append(_line("~", "the order of the columns"))
    sections = {"columns": own}
    for name in ("properties", "protocol", "table", "domains", "transactions"):
        sections[name] = _lines_of(found[name])
    files, told = found["files"], []
    for mark, kind in (("+", "added"), ("-", "removed")):
        if files[kind]:
            told.append(_line(mark, f"{plural(files[kind], 'file')} ({size_text(files[f'{kind}Bytes'])})"))
    if files["withOtherDeletedRows"]:
        told.append(_line("~", f"{plural(files['withOtherDeletedRows'], 'file')} with other deleted rows"))
    sections["files"] = told
    for name, some in sections.items():
        if some:
            lines += [Text(name), *some]
    return lines


def _lines_of(changes: Mapping[str, Any]) -> list[Text]:
    lines = [_line("+", f"{name}: {_value(value)}") for name, value in changes["added"].items()]
    lines += [_line("-", f"{name}: {_value(value)}") for name, value in changes["removed"].items()]
    return lines + [
        _line("~", f"{name}: {_value(old)} -> {_value(new)}") for name, (old, new) in changes["changed"].items()
    ]


def _line(mark: str, text: str) -> Text:
    return Text(f"  {mark} {printable(text)}", style=_STYLE[mark])


def _value(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, Mapping):
        value = [f"{name} = {_value(each)}" for name, each in value.items()]
    return ", ".join(map(str, value)) or "none" if isinstance(value, (list, tuple)) else str(value)


def _action(kind: str, content: Any) -> Text:
    if not isinstance(content, Mapping):
        return Text(printable(kind))
    known = [f"{name}={_value(content[name])}" for name in _SHOWN_OF_ACTION if content.get(name) is not None]
    return Text.assemble((printable(kind), "bold"), " ", printable(" ".join(known)))


def _at(found: dict[str, Any], place: Place) -> dict[str, Any]:
    return {**found, "path": place.shown}


def _blank(value: Any) -> Any:
    """Nothing where there is nothing: a table of columns is mostly of it."""
    return "" if value is None or value is False else value


def _blanks(row: Sequence[Any]) -> list[Any]:
    return ["" if value is None else value for value in row]
