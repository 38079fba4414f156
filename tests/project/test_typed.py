"""The SQL of README and of the pages, typed line by line into ``headwater spark-sql`` in a terminal, all in one shell.

After the last line of each statement, the shell runs it and asks for the next: no comment, quote or missing semicolon
leaves it waiting. Results are those that the comments above the statements promise; :mod:`support.documents` has what a
promise is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from support import sessions
from support.documents import Block, Sql, blocks, pages, statements, variants
from support.paths import ROOT
from support.processes import environment, python
from support.terminal import Terminal

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

#: What the usual run types: what beginners type, a guide with tabs, and a page of a statement with long ones.
_USUAL = {"README.md", "docs/first-steps.md", "docs/guides/change.md", "docs/statements/merge.md"}
#: A line after that which was typed: the shell asks for a statement, or for more of one.
_PROMPT = re.compile(r"\n(?:(?P<whole>spark-sql \([^)\n]*\))| +)> (?P<beside>.*)$")
_TAKEN = re.compile(r"^Time taken: [\d.]+ seconds(?:, Fetched (\d+) row)?", re.MULTILINE)
_DID = re.compile(r"[A-Z_]+ \S+: version \d+")
_SECONDS = 120.0
_SLEPT = "reflect('java.lang.Thread', 'sleep', CAST(400 AS BIGINT))"


class Answer(NamedTuple):
    """What the shell printed: what the statement did, the line of column names, the rows below it, and how many rows it
    says there are.
    """

    did: str
    header: str
    rows: list[list[str]]
    fetched: int


def started(folder: Path, shell: str) -> Terminal:
    """One of Spark's shells, started by Headwater; all it writes lies in the folder."""
    settings = sessions.settings(folder, f"-Duser.home={folder}")
    del settings["spark.ui.showConsoleProgress"]  # a user's own setting: Headwater would leave progress to it
    # Rows of running tasks are counted at each heartbeat.
    given = {**settings, "spark.log.level": "ERROR", "spark.executor.heartbeatInterval": "1s"}
    (folder / "conf").mkdir()
    (folder / "conf" / "spark-defaults.conf").write_text("".join(f"{key} {given[key]}\n" for key in given))
    return Terminal(python("headwater", shell), folder, environment(SPARK_CONF_DIR=str(folder / "conf")))


class Shell:
    """``headwater spark-sql`` in a terminal."""

    def __init__(self, folder: Path) -> None:
        self.terminal = started(folder, "spark-sql")
        self.terminal.until(re.compile(r"\nspark-sql \(default\)> $"), _SECONDS)

    def run(self, statement: str) -> Answer:
        """A statement in one line."""
        return self.typed((f"{statement};",))

    def typed(self, lines: tuple[str, ...]) -> Answer:
        """A statement; after its last line, the shell has run it and asks for the next one, and it has not failed."""
        for line in lines:
            self.terminal.type(line)
            found = self.terminal.until(_PROMPT, _SECONDS)
        text = "\n".join(lines)
        if found["whole"] is None:
            self.terminal.type(";")  # the next page's statements begin at a prompt of their own
            self.terminal.until(_PROMPT, _SECONDS)
            raise AssertionError(f"the shell waits for more after the last line of:\n{text}")
        assert not found["beside"].strip(), f"this stands beside the prompt after {text!r}: {found['beside']!r}"
        printed = found.string[: found.start()].partition("\n")[2]
        taken = _TAKEN.search(printed)
        assert taken is not None, f"{text}\nfailed:\n{printed}"
        shown = printed[: taken.start()].splitlines()
        did = shown.pop(0) if shown and _DID.match(shown[0]) else ""
        header, *rows = shown or [""]
        return Answer(did, header, [row.split("\t") for row in rows], int(taken[1] or 0))


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    shell = Shell(tmp_path_factory.mktemp("typed"))
    yield shell
    shell.terminal.close()


def typed_blocks(page: Path, home: Path) -> list[Block]:
    """The SQL that a reader of a page can type into a shell: all before the page's first block of another language."""
    found = variants(blocks(page, home)).get("sql", [])
    other = (
        number for number, block in enumerate(found) if block.language != "sql" and "getOrCreate" not in block.text
    )
    return [block for block in found[: next(other, len(found))] if block.language == "sql"]


_PAGES = [page for page in pages() if typed_blocks(page, Path("/tmp"))]


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def test_the_pages_are_found() -> None:
    assert len(_PAGES) > 20
    assert {_name(page) for page in _PAGES} >= _USUAL


def test_a_shell_that_waits_is_noticed(shell: Shell) -> None:
    with pytest.raises(AssertionError, match="the shell waits for more after the last line of:\nSELECT 1; -- one"):
        shell.typed(("SELECT 1; -- one",))
    assert shell.run("SELECT 2 AS two").rows == [["2"]]


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=_name(page), marks=[] if _name(page) in _USUAL else pytest.mark.soak) for page in _PAGES],
)
def test_a_page(page: Path, shell: Shell, tmp_path: Path) -> None:
    database = re.sub(r"\W", "_", _name(page)).lower()
    shell.run(f"CREATE DATABASE {database}")
    shell.run(f"USE {database}")
    for number, block in enumerate(typed_blocks(page, tmp_path), 1):
        for each in statements(block.text):
            try:
                compare(each, shell.typed(each.typed))
            except AssertionError as error:
                raise AssertionError(f"{_name(page)}, block {number} of SQL: {error}") from None


def test_progress_is_a_line_that_goes_before_the_rows(shell: Shell) -> None:
    """In place of Spark's bar; nothing of it stays on the lines of the rows and of the prompt, and nothing follows."""
    shell.run("CREATE TABLE default.asleep USING delta AS SELECT id FROM range(0, 20, 1, 2)")
    before = len(shell.terminal.written)
    answer = shell.run(f"SELECT count(*) AS slept FROM default.asleep WHERE {_SLEPT} IS NOT NULL")
    assert (answer.header, answer.rows) == ("slept", [["20"]])
    written = shell.terminal.written[before:]
    shown = re.findall(r"\r(SELECT count\(\*\).*?)  [█░]{20} \d of \d+ tasks, 20 rows read, \d+ s", written)
    assert shown, written
    assert "[Stage" not in shell.terminal.written
    assert shell.terminal.stays_quiet(1.5)
    shell.run("DROP TABLE default.asleep")


@pytest.mark.soak  # the usual run has the line in the SQL shell, and show_progress without a Spark
def test_progress_in_the_python_shell(tmp_path: Path) -> None:
    """One line with and without ``show_progress``, and no bar of Spark's."""
    terminal = started(tmp_path, "pyspark")
    prompt = re.compile(r"\n>>> $")
    try:
        terminal.until(prompt, _SECONDS)
        terminal.type("import headwater")
        terminal.until(prompt, _SECONDS)
        query = f'spark.range(0, 20, 1, 2).where("{_SLEPT} IS NOT NULL").count()'
        for call in ("", "shown = headwater.show_progress(spark); "):
            began = len(terminal.written)
            terminal.type(call + query)
            found = terminal.until(prompt, _SECONDS).string
            assert found.endswith(").count()\n20\n>>> ")
            seconds = re.findall(
                r"\rquery  [█░]{20} \d of \d+ tasks, (?:\d+ rows read, )?(\d) s", terminal.written[began:]
            )
            assert seconds
            assert seconds == sorted(seconds)
            assert all(seconds.count(each) <= 3 for each in seconds), "two lines, one over the other"
            assert terminal.stays_quiet(1.5)
        assert "[Stage" not in terminal.written
    finally:
        terminal.close()


def test_what_a_statement_did_is_a_sentence(shell: Shell) -> None:
    shell.run("CREATE TABLE default.rivers (name STRING, km INT) USING delta")
    written = shell.run("INSERT INTO default.rivers VALUES ('Rhine', 1233), ('Elbe', 1094)")
    assert re.match(r"WRITE default.rivers: version 1, 2 rows written, \d files? added", written.did), written
    updated = shell.run("UPDATE default.rivers SET km = km + 1 WHERE name = 'Elbe'")
    assert re.match(r"UPDATE default.rivers: version 2, 1 row updated, 1 file added", updated.did), updated
    assert (updated.header, updated.rows) == ("num_affected_rows", [["1"]])
    assert shell.run("DELETE FROM default.rivers WHERE km < 0").did == ""
    shell.run("DROP TABLE default.rivers")


def compare(statement: Sql, answer: Answer) -> None:
    if statement.rows and not statement.counts_changes:
        statement.check([[]] * answer.fetched)
    else:
        statement.check(answer.rows)
