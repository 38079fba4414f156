"""The cases of DELETE, UPDATE and MERGE.

Both sides begin each round with the same files. One side writes a table once; each round works on a copy of it, made of
hard links, and reads the copy's log before the clock starts.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.cases import COLUMNS, Against, Bench, Case
from bench.sparks import PEER

_SMALL_ROWS = 1000
_FILES = 50
_SOURCE_ROWS = 150_000
_WIDE_COLUMNS = 200
_WIDE_ROWS = 20_000
#: Rounds of warm-up: until then both sides get faster with every statement, as the JVM compiles their code.
_WARM_UP = 6

#: Makes SQL that depends on the bench's sizes.
Query = Callable[[Bench], str]


def _base(bench: Bench, name: str, create: str) -> Path:
    """The table that all rounds of both sides start from."""
    path = bench.directory / f"base-{name}"
    if not path.exists():
        bench.maker().run(f"CREATE TABLE delta.`{path}` USING delta {create}")
    return path


def source_of(bench: Bench, name: str, query: str) -> Path:
    """The Parquet files with the rows of a query."""
    path = bench.directory / f"source-{name}"
    if not path.exists():
        bench.maker().run(f"INSERT OVERWRITE DIRECTORY '{path}' USING parquet {query}")
    return path


def copied(bench: Bench, base: str, create: str, name: str, side: str, number: int) -> Path:
    """A copy, for one round of a side, of the table that all rounds of both sides start from."""
    copy = bench.directory / f"{name}-{side}-{number}"
    shutil.copytree(_base(bench, base, create), copy, copy_function=os.link)
    bench.spark(side).run(f"SELECT count(*) FROM delta.`{copy}` WHERE id < 0")
    return copy


def on_a_copy(
    name: str,
    create: Callable[[Bench], str],
    text: str,
    source: Query | None = None,
    peers: str | None = None,
) -> Callable[[Bench, str, int], float]:
    """One statement on a fresh copy, ``{path}`` and ``{source}`` filled in.

    :param peers: what the peer runs, if it does not know the statement.
    """

    def timed(bench: Bench, side: str, number: int) -> float:
        reading = source_of(bench, name.replace("/", "-"), source(bench)) if source else None
        copy = copied(bench, name.split("/")[0], create(bench), name.replace("/", "-"), side, number)
        try:
            statement = peers if peers and side == PEER else text
            return bench.spark(side).run(statement.format(path=copy, source=reading, n=number))
        finally:
            shutil.rmtree(copy, ignore_errors=True)

    return timed


def large(vectors: bool) -> Query:
    """What follows CREATE TABLE of the large table."""
    return lambda bench: (
        f"TBLPROPERTIES ('delta.enableDeletionVectors' = '{str(vectors).lower()}') "
        f"AS SELECT {COLUMNS} FROM range(0, {bench.rows}, 1, {_FILES})"
    )


def _small(bench: Bench) -> str:
    return f"AS SELECT {COLUMNS} FROM range(0, {_SMALL_ROWS}, 1, 1)"


def _partitioned(bench: Bench) -> str:
    return f"PARTITIONED BY (part) AS SELECT {COLUMNS}, id % 20 AS part FROM range(0, {_SMALL_ROWS}, 1, 1)"


def _spread(bench: Bench) -> str:
    """Rows of every file, and one new row for ten known ones."""
    step = bench.rows * 11 // 10 // _SOURCE_ROWS
    return f"SELECT {COLUMNS} FROM (SELECT id * {step} AS id FROM range(0, {_SOURCE_ROWS}, 1, 2))"


def _clustered(bench: Bench) -> str:
    """Rows of two files."""
    first = bench.rows // _FILES * 10
    return f"SELECT {COLUMNS} FROM range({first}, {first + min(_SOURCE_ROWS, 2 * bench.rows // _FILES)}, 1, 2)"


def _parts(bench: Bench) -> str:
    """One file for each of the partitions."""
    rows = f"range(0, {bench.rows}, 1, {_FILES})"
    return f"PARTITIONED BY (part) AS SELECT {COLUMNS}, id DIV {bench.rows // _FILES} AS part FROM {rows}"


def _one_part(bench: Bench) -> str:
    """Most rows of one partition, and as many new ones as are missing."""
    step = bench.rows // _FILES
    first, missing = 7 * step, step // 10
    ids = f"SELECT IF(id < {first + missing}, id + {bench.rows}, id) AS id FROM range({first}, {first + step}, 1, 2)"
    return f"SELECT {COLUMNS}, 7L AS part FROM ({ids})"


_UPSERT = """MERGE INTO delta.`{path}` AS t USING parquet.`{source}` AS s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""
_INSERT_ONLY = """MERGE INTO delta.`{path}` AS t USING parquet.`{source}` AS s ON t.id = s.id
WHEN NOT MATCHED THEN INSERT *"""
_REPLACE_PART = """MERGE INTO delta.`{path}` AS t USING parquet.`{source}` AS s ON t.part = s.part AND t.id = s.id
WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *
WHEN NOT MATCHED BY SOURCE AND t.part = 7 THEN DELETE"""


def _wide(bench: Bench) -> str:
    columns = ", ".join(f"id + {i} AS c{i}" for i in range(_WIDE_COLUMNS - 1))
    return f"AS SELECT id, {columns} FROM range(0, {_WIDE_ROWS}, 1, 4)"


def _wide_source(bench: Bench) -> str:
    columns = ", ".join(f"id * {i} AS c{i}" for i in range(_WIDE_COLUMNS - 1))
    return f"SELECT id, {columns} FROM range({_WIDE_ROWS // 2}, {_WIDE_ROWS * 3 // 2}, 1, 2)"


def _ten_clauses() -> str:
    matched = " ".join(
        f"WHEN MATCHED AND s.c1 % 10 = {i} THEN UPDATE SET c{i} = s.c{i}, c{i + 50} = s.c{i} + t.c{i}" for i in range(5)
    )
    inserts = " ".join(f"WHEN NOT MATCHED AND s.c1 % 10 = {i} THEN INSERT *" for i in range(3))
    return (
        "MERGE INTO delta.`{path}` AS t USING parquet.`{source}` AS s ON t.id = s.id "
        f"{matched} WHEN MATCHED AND s.c1 % 10 = 5 THEN DELETE {inserts} "
        "WHEN NOT MATCHED BY SOURCE AND t.id % 7 = 0 THEN DELETE"
    )


def cases() -> Iterator[Case]:
    """The cases, the quick ones first."""
    few = f"SELECT {COLUMNS} FROM range(990, 1010, 1, 1)"
    small: list[tuple[str, str, str, Query | None]] = [
        ("update-small", "UPDATE", "UPDATE delta.`{path}` SET amount = amount + 1 WHERE id = 17", None),
        ("delete-small", "DELETE", "DELETE FROM delta.`{path}` WHERE id = 17", None),
        (
            "merge-small",
            "MERGE",
            _UPSERT,
            lambda bench: few,
        ),
    ]
    for name, title, text, source in small:
        timed = on_a_copy(f"small/{name}", _small, text, source)
        yield Case(
            name, title.replace("{small:,}", f"{_SMALL_ROWS:,}"), (Against(PEER, ratio=0.4),), timed, 11, warm_up=8
        )
    yield Case(
        "delete-partition",
        "DELETE of a partition",
        (Against(PEER, ratio=0.3),),
        on_a_copy("partitioned/delete", _partitioned, "DELETE FROM delta.`{path}` WHERE part = 7"),
        11,
        warm_up=8,
    )
    one_in_a_hundred = "id % 100 = 7"
    update = f"UPDATE delta.`{{path}}` SET amount = amount + 1 WHERE {one_in_a_hundred}"
    delete = f"DELETE FROM delta.`{{path}}` WHERE {one_in_a_hundred}"
    update_few = "UPDATE delta.`{path}` SET amount = amount + 1 WHERE id % 1000000 = 7"
    on_large: list[tuple[str, str, bool, str, Query | None, float]] = [
        ("update-vectors", "UPDATE of 1 %, deletion vectors", True, update, None, 0.35),
        ("update-few", "UPDATE of 5 rows, deletion vectors", True, update_few, None, 0.35),
        ("delete-vectors", "DELETE of 1 %, deletion vectors", True, delete, None, 0.35),
        ("merge-vectors", "MERGE into every file, deletion vectors", True, _UPSERT, _spread, 0.5),
        ("update-copy", "UPDATE of 1 %, copy-on-write", False, update, None, 0.8),
        ("merge-copy", "MERGE into every file, copy-on-write", False, _UPSERT, _spread, 0.7),
        ("merge-clustered", "MERGE into 2 of 50 files", False, _UPSERT, _clustered, 0.3),
        ("merge-insert", "insert-only MERGE", False, _INSERT_ONLY, _spread, 0.7),
    ]
    for name, title, vectors, text, source, ratio in on_large:
        timed = on_a_copy(f"{'vectors' if vectors else 'copy'}/{name}", large(vectors), text, source)
        yield Case(name, title, (Against(PEER, ratio=ratio),), timed, 5, warm_up=_WARM_UP)
    yield Case(
        "merge-by-source",
        f"MERGE of 1 of {_FILES} partitions, WHEN NOT MATCHED BY SOURCE",
        (Against(PEER, ratio=0.1),),
        on_a_copy("parts/by-source", _parts, _REPLACE_PART, _one_part),
        5,
        warm_up=_WARM_UP,
    )
    in_two_files = "UPDATE delta.`{path}` SET amount = amount + 1 WHERE id IN (SELECT id FROM parquet.`{source}`)"
    as_merge = (
        "MERGE INTO delta.`{path}` AS t USING parquet.`{source}` AS s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET amount = t.amount + 1"
    )
    for kind, ratio in (("vectors", 0.3), ("copy", 0.6)):
        timed = on_a_copy(
            f"{kind}/update-subquery-{kind}", large(kind == "vectors"), in_two_files, _clustered, as_merge
        )
        title = f"UPDATE by a subquery, 2 of 50 files, {kind}; the peer by MERGE"
        yield Case(f"update-subquery-{kind}", title, (Against(PEER, ratio=ratio),), timed, 5, warm_up=_WARM_UP)
    yield Case(
        "merge-wide",
        f"MERGE of 10 clauses, {_WIDE_COLUMNS} columns",
        (Against(PEER, ratio=0.6),),
        on_a_copy("wide/merge", _wide, _ten_clauses(), _wide_source),
        5,
        warm_up=_WARM_UP,
    )
