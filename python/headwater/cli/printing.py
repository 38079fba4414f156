"""What the commands print: tables for people, JSON for programs.

Owns how text that others wrote reaches a terminal or a pipe. Promises: no control character of a name, path or value
is printed as it is, so no table can move a cursor, colour a screen or turn a line around; JSON is UTF-8, and valid
whatever a log holds; a table that goes to a pipe has one line per row.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from headwater.basics.printable import printable

#: Columns of a pipe: more than any row has.
_WIDE = 100_000
#: A time as JSON has it, which nobody can read or copy if it is broken over two lines.
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")


def console() -> Console:
    """Standard output: as wide as the terminal, or as any row if it is not one."""
    return Console(width=_WIDE, soft_wrap=True) if is_pipe() else Console()


def is_pipe() -> bool:
    """Whether nobody reads the output at a width of their own, so that it need not be short."""
    return not sys.stdout.isatty() and "COLUMNS" not in os.environ


def cell(value: Any) -> Text:
    """A value of a table; none is dim."""
    if value is None:
        return Text("none", style="dim")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, int):
        return Text(f"{value:,}")
    if isinstance(value, Text):
        return value
    if isinstance(value, float):
        return Text(f"{value:.2f}")
    return Text(printable(str(value)))


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None) -> Table:
    """A table; columns of numbers are to the right."""
    all_rows = [list(row) for row in rows]
    made = Table(title=None if title is None else Text(printable(title)), title_justify="left")
    for position, name in enumerate(columns):
        values = [row[position] for row in all_rows if row[position] is not None]
        number = bool(values) and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values)
        is_time = bool(values) and all(isinstance(v, str) and _TIME.fullmatch(v) for v in values)
        made.add_column(name, justify="right" if number else "left", overflow="fold", no_wrap=is_time)
    for row in all_rows:
        made.add_row(*map(cell, row))
    return made


def pairs(values: Mapping[str, Any], title: str | None = None) -> Table:
    """A table of names and values, a line each."""
    made = Table(title=None if title is None else Text(printable(title)), title_justify="left", show_header=False)
    made.add_column(overflow="fold")
    made.add_column(overflow="fold")
    for name, value in values.items():
        made.add_row(cell(name), cell(", ".join(map(str, value)) if isinstance(value, (list, tuple)) else value))
    return made


def print_json(value: Any, *, on_one_line: bool = False) -> None:
    """A value as JSON on standard output."""
    text = json.dumps(_plain(value), indent=None if on_one_line else 2, ensure_ascii=False, allow_nan=False)
    # Lone surrogates, as of a file name that is no UTF-8, become the escapes that JSON has for them.
    data = f"{text}\n".encode("utf-8", "backslashreplace")
    sys.stdout.flush()
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:
        sys.stdout.write(data.decode())
    else:
        buffer.write(data)
        buffer.flush()


def _plain(value: Any) -> Any:
    """The value with what JSON has: no number that is none, no bytes."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
