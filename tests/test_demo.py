"""The demo's script is cut into statements as written, and fits a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater import demo

_SCRIPT = Path(demo.__file__).with_suffix(".sql")


def test_parse_keeps_statements_captions_and_chapters() -> None:
    script = ["-- about the file", "", "-- # One", "", "-- First", "-- thing", "SELECT", "  1;", ""]
    script += ["SELECT ';' AS a;", "-- show: a, b", "SELECT 2;"]
    first, second, third = demo.parse("\n".join(script))
    assert (first.chapter, first.caption, first.sql) == ("One", "First thing", "SELECT\n  1")
    assert (second.chapter, second.caption, second.sql) == ("", "", "SELECT ';' AS a")
    assert (third.caption, third.shown, third.sql) == ("", ["a", "b"], "SELECT 2")


def test_script_fits_80_columns() -> None:
    statements = list(demo.parse(_SCRIPT.read_text(encoding="utf-8")))
    assert len(statements) > 15
    assert [line for statement in statements for line in f"{statement.sql};".splitlines() if len(line) > 80] == []


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(RuntimeError, match="not empty"):
        demo.run_demo(tmp_path, None)
