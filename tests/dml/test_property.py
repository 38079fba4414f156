"""Random tables, random statements: the rows, the results and the change data are those of the model.

The same scripts every time; ``HEADWATER_TEST_EXAMPLES`` asks for another number of them, drawn anew if that is more
than usual, and a failure prints how to draw them again. A failing script is shown as SQL.
"""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as drawing

from support.dml.checking import Multiset, Run
from support.dml.engines import Headwater, changes_by_delta_rs, rows_by_delta_rs
from support.dml.scripts import Script
from support.dml.strategies import scripts
from support.drawing import STEADY

#: Of each of the two tests.
USUAL = 5
EXAMPLES = int(os.environ.get("HEADWATER_TEST_EXAMPLES", USUAL))
drawn = drawing(STEADY, max_examples=EXAMPLES, derandomize=EXAMPLES <= USUAL, print_blob=True)
_numbers = itertools.count()


def check(spark: Any, folder: Path, script: Script) -> None:
    run = Run(Headwater(spark), script, folder / f"t{next(_numbers)}")
    run.run()
    expected = run.rows()
    # It finds no files in folders named for columns whose names are encoded.
    if all(name.isascii() and name.isidentifier() for name in script.table.partitioned_by):
        run.same_rows(rows_by_delta_rs(run.path, run.expected), expected, "the rows that delta-rs reads")
    if script.has_change_data:
        run.compare_changes()
        if not script.is_mapped and "string" not in (script.table.columns[n] for n in script.table.partitioned_by):
            compare_changes_read_by_delta_rs(run)


def compare_changes_read_by_delta_rs(run: Run) -> None:
    found = changes_by_delta_rs(run.path, run.expected)
    for version, wanted in run.changes.items():
        if _removes_a_file_with_a_vector(run.path, version):
            continue  # of such a file it reads the rows that were deleted before, and not those that are deleted now
        run.same_rows(found.get(version, Multiset()), wanted, f"the changes of version {version} that delta-rs reads")


def _removes_a_file_with_a_vector(table: Path, version: int) -> bool:
    """Whether nothing but a ``remove`` says that the rows left in a file with a deletion vector are gone."""
    text = (table / "_delta_log" / f"{version:020}.json").read_text(encoding="utf-8")
    actions = [json.loads(line) for line in text.splitlines()]
    removed = {a["remove"]["path"] for a in actions if a.get("remove", {}).get("deletionVector")}
    added = {a["add"]["path"] for a in actions if "add" in a}
    return bool(removed - added) and not any("cdc" in a for a in actions)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("deletion_vectors", [False, True], ids=["copy_on_write", "deletion_vectors"])
def test_statements_mean_what_the_model_says(spark: Any, tmp_path: Path, deletion_vectors: bool, settings: Any) -> None:
    @drawn
    @given(scripts(deletion_vectors=deletion_vectors))
    def holds(script: Script) -> None:
        check(spark, tmp_path, script)

    # With deletion vectors, columns are read late however small the files; without, as is usual for small ones.
    with settings({"spark.headwater.dml.lateFileBytes": "0"} if deletion_vectors else {}):
        holds()


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.timeout(36_000)
@pytest.mark.parametrize("deletion_vectors", [False, True], ids=["copy_on_write", "deletion_vectors"])
def test_statements_about_every_type(spark: Any, tmp_path: Path, deletion_vectors: bool) -> None:
    @drawn
    @given(scripts(deletion_vectors=deletion_vectors, every_type=True))
    def holds(script: Script) -> None:
        check(spark, tmp_path, script)

    holds()
