"""Damaged tables: whatever bytes a log has, the answer is one of the table's or an error that names the file.

Each file of a small table with everything in its log (commits, a compacted log, checkpoints with and without
sidecars, ``_last_checkpoint``, checksums, deletion vectors) is spoiled in random ways, and single fields of the log in
named ways (:mod:`support.damages`); then every statement that acts on a table is asked for. What must not come is an
error nobody foresaw, which is what a Python exception becomes. ``HEADWATER_TEST_EXAMPLES`` asks for another number of
random ones, drawn again; a soak run asks for every statement with every damage.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headwater.basics.errors import HeadwaterError
from headwater.cli import main as cli
from headwater.statements.running.opening import CACHE
from support.damaged_table import INTERNAL, small_table, spoiled
from support.damages import DAMAGES
from support.every_statement import READERS, STATEMENTS, ask

EXAMPLES = int(os.environ.get("HEADWATER_TEST_EXAMPLES", "120"))
SEED = None if "HEADWATER_TEST_EXAMPLES" in os.environ else 11

#: Errors of what was asked, or of a table that is another one than it was: they name versions, times and features.
_ABOUT_THE_READ = {
    "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE",
    "DELTA_INVALID_PROTOCOL_VERSION",
    "DELTA_INVALID_SCHEMA",
    "DELTA_MISSING_CHANGE_DATA",
    "DELTA_SHOW_PARTITION_IN_NON_PARTITIONED_TABLE",  # whatever was damaged, it reads as a table without partitions
    "DELTA_MISSING_COMMIT_TIMESTAMP",
    "DELTA_PATH_BASED_ACCESS_TO_CATALOG_MANAGED_TABLE_BLOCKED",
    "DELTA_REMOVE_FILE_CDC_MISSING_EXTENDED_METADATA",
    "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION",
    "DELTA_UNSUPPORTED_FEATURES_FOR_READ",
    "DELTA_VERSION_NOT_FOUND",
}
#: Odd domains by which a table can be clustered.
_USABLE = {
    f"clustering {text!r}"
    for text in (
        '{"clusteringColumns":[["id"],["id"]]}',
        '{"clusteringColumns":[["id"],["at"],["s","x"],["id"],["id"]]}',
        "{}",
    )
}


def _ask(path: Path, names: Iterable[str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Ask for statements: the name of each, of a call it takes, and the answer."""
    CACHE.forget(str(path))
    for name in names:
        for call, answer in ask(str(path), name).items():
            yield name, call, answer


def _check(path: Path, said: str, answer: dict[str, Any]) -> None:
    """An answer is a result, or an error that is foreseen, without names of Python's, of a rewrite or of a library."""
    error = answer.get("error")
    if error is None:
        return
    said = f"{said} gave {error}"
    assert error["condition"] != "DELTA_INTERNAL_ERROR", said
    assert not INTERNAL.search(error["text"]), said


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    home = tmp_path_factory.mktemp("damaged")
    return [small_table(home / str(kind), kind) for kind in (None, "classic", "v2")]


#: What a whole table refuses: what it has no use for, or what is asked for is not of this table.
_REFUSED = {
    "a time": "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION",
    "restore a time": "DELTA_CANNOT_RESTORE_TIMESTAMP_GREATER",
    "optimize full": "DELTA_OPTIMIZE_FULL_NOT_SUPPORTED",
    "generate": "DELTA_UNSUPPORTED_GENERATE_WITH_DELETION_VECTORS",
    "drop feature for good": "DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD",
}


def test_a_whole_table_answers(tables: list[Path], tmp_path: Path) -> None:
    for table in tables:
        for number, name in enumerate(STATEMENTS):
            copy = tmp_path / f"{table.name}{number}"
            shutil.copytree(table, copy)
            for asked, call, answer in _ask(copy, [name]):
                error = answer.get("error", {}).get("condition")
                assert error in (None, _REFUSED.get(asked)), (table, asked, answer)
                if call == "scans" and asked == "scan":
                    assert len(answer["result"][0]["files"]) == 2
                elif call == "describe_history":
                    assert len(answer["result"]["rows"]) == 5


@pytest.mark.parametrize("part", range(4))
def test_whatever_a_file_holds(tables: list[Path], tmp_path: Path, part: int) -> None:
    for example in range(part, EXAMPLES, 4):
        draw = random.Random(None if SEED is None else SEED * 100_000 + example)
        copy = tmp_path / f"t{example}"
        shutil.copytree(draw.choice(tables), copy)
        done = spoiled(copy, draw)
        readers = [name for name in READERS if name not in ("table_changelog", "stream", "stream of changes")]
        for asked, call, answer in _ask(copy, [*readers, *draw.sample(STATEMENTS, 6)]):
            said = f"example {example}: {asked} ({call}) of {done}"
            _check(copy, said, answer)
            error = answer.get("error")
            if error is not None and asked in readers:
                assert (
                    str(copy) in error["text"]
                    or "inline in the log" in error["text"]
                    or error["condition"] in _ABOUT_THE_READ
                ), f"{said} gave {error}"


def _damaged(tables: list[Path], home: Path, number: int, names: Sequence[str]) -> None:
    name = list(DAMAGES)[number]
    copy = home / f"d{number}"
    shutil.copytree(tables[0], copy)
    DAMAGES[name](copy)
    for asked, call, answer in _ask(copy, names):
        _check(copy, f"{asked} ({call}) of a table with {name}", answer)


def test_what_a_foreign_log_says(tables: list[Path], tmp_path: Path) -> None:
    """Each damage with some of the statements, each statement with some of the damages."""
    for number in range(len(DAMAGES)):
        order = random.Random(number).sample(STATEMENTS, len(STATEMENTS))
        _damaged(tables, tmp_path, number, order[:3])


@pytest.mark.soak
@pytest.mark.parametrize("part", range(20))
def test_what_a_foreign_log_says_to_every_statement(tables: list[Path], tmp_path: Path, part: int) -> None:
    for number in range(part, len(DAMAGES), 20):
        _damaged(tables, tmp_path, number, random.Random(number).sample(STATEMENTS, len(STATEMENTS)))


def test_a_curve_is_of_columns_with_bounds(tables: list[Path], tmp_path: Path) -> None:
    """What the domain of clustering names reaches no query, unless it is a column that a query can have."""
    for number, name in enumerate(DAMAGES):
        if name.startswith("clustering"):
            copy = tmp_path / f"c{number}"
            shutil.copytree(tables[0], copy)
            DAMAGES[name](copy)
            (answer,) = (answer for _, _, answer in _ask(copy, ["optimize"]))
            condition = answer.get("error", {}).get("condition")
            usable = name in _USABLE
            refused = {"HEADWATER_CLUSTERING_UNREADABLE", "DELTA_INVALID_COMMIT"}
            assert condition is None if usable else condition in refused, (name, answer)


def test_clustering_that_cannot_be_read_is_named_and_mended(tables: list[Path], tmp_path: Path) -> None:
    """What describes such a table says what to do, and that helps."""
    mended = 0
    for number, (name, damage) in enumerate(DAMAGES.items()):
        if not name.startswith("clustering") or name in _USABLE:
            continue
        for mend in ("cluster by", "cluster by none"):
            copy = tmp_path / f"{mend}{number}"
            shutil.copytree(tables[0], copy)
            damage(copy)
            for _, call, answer in _ask(copy, ["describe detail", "show create table", "optimize"]):
                text = answer["error"]["text"]
                assert "ALTER TABLE … CLUSTER BY" in text or "Restore the file" in text, (name, call, text)
            answers = [answer for _, _, answer in _ask(copy, [mend])]
            if any("error" in answer for answer in answers):  # the log itself cannot be read
                assert "Restore the file" in answers[0]["error"]["text"]
                continue
            mended += 1
            for asked, call, answer in _ask(copy, ["describe detail", "show create table"]):
                assert "error" not in answer, (name, asked, call, answer)
    assert mended > 20


def test_commands_of_damaged_tables(tables: list[Path], tmp_path: Path) -> None:
    """The commands that need no Spark print something, or fail with what the damage is: each damage with one of them,
    and in a long run with all."""
    commands = ("health", "files", "diff", "log", "describe", "history", "detail")
    for number, (name, damage) in enumerate(DAMAGES.items()):
        copy = tmp_path / f"t{number}"
        shutil.copytree(tables[0], copy)
        damage(copy)
        for command in commands if SEED is None else (commands[number % len(commands)],):
            more = ["--version", "4"] if command == "log" else []
            asked = CliRunner().invoke(cli.app, [command, str(copy), "--json", *more])
            said = f"{command} of a table with {name}"
            if asked.exit_code == 0:
                assert json.loads(asked.stdout) is not None, said
            else:
                assert isinstance(asked.exception, HeadwaterError), f"{said} gave {asked.exception!r}"
                assert not INTERNAL.search(asked.exception.text), f"{said} gave {asked.exception}"
