"""The matrix of statements in "Coming from Delta Lake" says what both do: each row's example runs in both.

A row that says *same* must leave the same rows, *better* what the other refuses or does without effect, *different*
another answer, *not there* an error here. Rows about programs and not statements have tests of their own.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from interop.conftest import Peer
from support.paths import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.soak]

_PAGE = ROOT / "docs" / "coming-from" / "delta-lake.md"
_ROWS = "INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (3, 'c')"
_PLAIN = ("CREATE TABLE {t} (id BIGINT, v STRING) USING delta", _ROWS)
_PARTITIONED = ("CREATE TABLE {t} (id BIGINT, v STRING) USING delta PARTITIONED BY (v)", _ROWS)
_FEED = ("CREATE TABLE {t} (id BIGINT, v STRING) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)", _ROWS)
_FILES = "CREATE TABLE files USING parquet LOCATION '{p}' AS SELECT id, id % 2 AS v FROM range(4)"
_MERGE = (
    "MERGE INTO {x} t USING (SELECT id + 1 AS id, 'm' AS v FROM range(4)) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
)
#: What a row says of both, as far as one example shows it.
_SAME, _REFUSED_THERE, _OTHERWISE, _REFUSED_HERE = "same", "refused there", "otherwise", "refused here"


class Example(NamedTuple):
    """Statements, of which the last is looked at; ``{t}`` and ``{u}`` are tables, ``{p}`` is the path of ``{t}``.

    :param says: what the last one does in both.
    :param answers: whether its answer is compared, or the rows of ``{t}`` after it.
    """

    statements: tuple[str, ...]
    says: str = _SAME
    answers: bool = False


#: By the first cell of the row.
_EXAMPLES: dict[str, list[Example]] = {
    "CREATE, REPLACE, CTAS, CREATE TABLE LIKE": [
        Example((*_PLAIN, "CREATE OR REPLACE TABLE {t} USING delta AS SELECT 7L AS id, 'x' AS v")),
        Example((*_PLAIN, "REPLACE TABLE {t} (id BIGINT, w STRING) USING delta")),
        Example(
            (
                "CREATE TABLE n (id BIGINT, v STRING) USING delta",
                "CREATE TABLE n2 LIKE n USING delta",
                "SELECT * FROM n2",
            ),
            answers=True,
        ),
    ],
    "SHALLOW CLONE": [
        Example((*_PLAIN, "CREATE TABLE {u} SHALLOW CLONE {t}", "SELECT * FROM {u} ORDER BY id"), answers=True)
    ],
    "DEEP CLONE": [Example((*_PLAIN, "CREATE TABLE {u} DEEP CLONE {t}"), _REFUSED_THERE)],
    "CONVERT TO DELTA of Parquet files": [
        Example(
            (
                _FILES,
                "CONVERT TO DELTA parquet.`{p}`",
            )
        ),
        Example(
            (
                _FILES.replace("parquet", "parquet PARTITIONED BY (v)"),
                "CONVERT TO DELTA parquet.`{p}` PARTITIONED BY (v BIGINT)",
            )
        ),
    ],
    "INSERT, INSERT OVERWRITE, REPLACE WHERE": [
        Example((*_PLAIN, "INSERT OVERWRITE {t} VALUES (9, 'i')")),
        Example((*_PLAIN, "INSERT INTO {t} REPLACE WHERE id > 1 SELECT 8L AS id, 'r' AS v")),
    ],
    "INSERT … REPLACE USING, REPLACE ON": [
        Example((*_PLAIN, "INSERT INTO {t} REPLACE USING (id) SELECT 3L AS id, 'r' AS v"), _REFUSED_THERE),
        Example(
            (*_PLAIN, "INSERT INTO {t} AS t REPLACE ON t.id = s.id (SELECT 3L AS id, 'r' AS v) AS s"), _REFUSED_THERE
        ),
    ],
    "INSERT … WITH (idCols = …), writes with `idCols`": [
        Example((*_PLAIN, "INSERT INTO {t} WITH (idCols = 'id') VALUES (3, 'r'), (4, 's')"), _OTHERWISE)
    ],
    "DELETE, UPDATE, MERGE": [
        Example((*_PLAIN, "DELETE FROM {t} WHERE id = 2")),
        Example((*_PLAIN, "UPDATE {t} SET v = concat(v, v) WHERE id > 1")),
        Example((*_PLAIN, _MERGE.replace("{x}", "{t}"))),
    ],
    "EXPLAIN of these": [Example((*_PLAIN, "EXPLAIN DELETE FROM {t} WHERE id = 2"), _OTHERWISE, answers=True)],
    "MERGE into a temporary view": [
        Example((*_PLAIN, "CREATE OR REPLACE TEMP VIEW w AS SELECT * FROM {t}", _MERGE.replace("{x}", "w")))
    ],
    "OPTIMIZE, ZORDER BY, CLUSTER BY": [
        Example((*_PLAIN, _ROWS, "OPTIMIZE {t} ZORDER BY (id)")),
        Example((*_PLAIN, _ROWS, "OPTIMIZE {t} DRY RUN"), _REFUSED_THERE),
    ],
    "ALTER TABLE … CLUSTER BY of a partitioned table": [
        Example((*_PARTITIONED, "ALTER TABLE {t} CLUSTER BY (id)"), _REFUSED_THERE)
    ],
    "REORG … APPLY (PURGE)": [Example((*_PLAIN, "REORG TABLE {t} APPLY (PURGE)"))],
    "RESTORE": [Example((*_PLAIN, "DELETE FROM {t}", "RESTORE TABLE {t} TO VERSION AS OF 1"))],
    "VACUUM FULL, LITE, USING INVENTORY, RETAIN, DRY RUN": [
        Example((*_PLAIN, "DELETE FROM {t}", "VACUUM {t} FULL RETAIN 200 HOURS DRY RUN")),
        Example((*_PLAIN, "DELETE FROM {t}", "VACUUM {t} LITE")),
    ],
    "DESCRIBE HISTORY, DETAIL": [
        Example((*_PLAIN, "SELECT 1 FROM (SELECT 1)")),
        Example((*_PLAIN, "DESCRIBE HISTORY {t}")),
        Example((*_PLAIN, "DESCRIBE DETAIL {t}")),
    ],
    "DESCRIBE HEALTH, `headwater health`": [Example((*_PLAIN, "DESCRIBE HEALTH {t}"), _REFUSED_THERE)],
    "SHOW PARTITIONS": [Example((*_PARTITIONED, "SHOW PARTITIONS {t}"), _OTHERWISE, answers=True)],
    "GENERATE symlink_format_manifest": [Example((*_PLAIN, "GENERATE symlink_format_manifest FOR TABLE {t}"))],
    "ALTER TABLE: columns, constraints, properties, DROP FEATURE, SYNC IDENTITY": [
        Example((*_PLAIN, "ALTER TABLE {t} ADD COLUMNS (w INT, x STRING)")),
        Example((*_PLAIN, "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (id > 0)")),
        Example((*_PLAIN, "ALTER TABLE {t} SET TBLPROPERTIES (team = 'me')")),
    ],
    "ANALYZE TABLE … COMPUTE DELTA STATISTICS": [
        Example((*_PLAIN, "ANALYZE TABLE {t} COMPUTE DELTA STATISTICS"), _REFUSED_THERE)
    ],
    "`table_changes`, `CHANGES FROM`": [
        Example((*_FEED, "SELECT id, v, _change_type FROM table_changes_by_path('{p}', 1) ORDER BY id"), answers=True)
    ],
    "`table_changelog`, `table_debezium`, `readChangelog`": [
        Example((*_FEED, "SELECT * FROM table_changelog_by_path('{p}', 1)"), _REFUSED_THERE)
    ],
}
#: Rows whose tests are elsewhere: they are about programs, or the other needs libraries of Iceberg for them.
_ELSEWHERE = (
    "Python `delta.tables`, Scala and Java `io.delta.tables`",
    "`delta.exceptions`, `io.delta.exceptions`",
    "CONVERT TO DELTA of Iceberg tables",
    "REORG … APPLY (UPGRADE UNIFORM …)",
)


def _rows() -> dict[str, str]:
    """The rows of the matrix of statements: what the second cell says, by the first."""
    part = _PAGE.read_text("utf-8").partition("## Statements\n")[2].partition("\n## ")[0]
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in part.splitlines() if line.startswith("| ")]
    return {row[0].strip(): row[1].strip() for row in cells[2:]}


def test_every_row_has_an_example() -> None:
    assert sorted(_rows()) == sorted([*_EXAMPLES, *_ELSEWHERE])
    # What a row says is more than one example shows: a better one may be the same in some.
    for name, said in _rows().items():
        shown = {example.says for example in _EXAMPLES.get(name, ())}
        if said == "same":
            assert shown <= {_SAME}, name
        elif said == "not there":
            assert shown == {_REFUSED_HERE}, name
        elif said == "different":
            assert shown == {_OTHERWISE}, name
        else:
            assert _REFUSED_HERE not in shown, name


def _outcome(run: Any, example: Example, folder: Path) -> list[Any] | str:
    """The rows that are looked at, or the error of the last statement, which begins with ``!``."""
    path = str(folder / "t")
    texts = [
        text.format(t=f"delta.`{path}`", u=f"delta.`{folder / 'u'}`", p=path) if "{" in text else text
        for text in example.statements
    ]
    for text in texts[:-1]:
        run(text)
    try:
        answer = run(texts[-1])
    except Exception as error:
        return f"! {str(error)[:500]}"
    return answer if example.answers else sorted(run(f"SELECT * FROM delta.`{path}`"), key=repr)


@pytest.mark.parametrize(
    ("name", "number"), [(name, number) for name, found in _EXAMPLES.items() for number in range(len(found))]
)
@pytest.mark.usefixtures("database")
def test_a_row(name: str, number: int, spark: Any, peer: Peer, to_plain: Any, tmp_path: Path) -> None:
    example = _EXAMPLES[name][number]
    peer.sql(f"CREATE DATABASE IF NOT EXISTS matrix LOCATION '{tmp_path / 'theirs' / 'names'}'")
    peer.sql("USE matrix")
    try:
        there = _outcome(peer.sql, example, tmp_path / "theirs")
        here = _outcome(lambda text: [to_plain(row) for row in spark.sql(text).collect()], example, tmp_path / "ours")
    finally:
        peer.sql("USE default")
        peer.sql("DROP DATABASE matrix CASCADE")
    seen = f"there: {there}\nhere: {here}"
    match example.says:
        case "same":
            assert isinstance(here, list), seen
            assert here == there, seen
        case "refused there":
            assert isinstance(here, list), seen
            assert isinstance(there, str), seen
        case "otherwise":
            assert isinstance(here, list), seen
            assert here != there, seen
        case "refused here":
            assert isinstance(here, str), seen
            assert "[" in here, seen
