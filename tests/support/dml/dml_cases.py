"""Tables and statements that both engines are given: written by hand, one for each kind of statement and clause, and
the richest of many drawn ones.

In every statement the table is ``TABLE``. A statement both refuse is a case too.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass, replace

from hypothesis import Phase, given, seed, settings

from support.dml.model import Merge, Statement
from support.dml.scripts import Script, name_of
from support.dml.strategies import scripts
from support.drawing import STEADY

TABLE = name_of("TABLE")
VECTORS = "'delta.enableDeletionVectors' = 'true'"
NO_VECTORS = "'delta.enableDeletionVectors' = 'false'"
MAPPED = "'delta.columnMapping.mode' = 'name'"
SOURCE = "(SELECT * FROM VALUES (1, 100, 'x'), (3, 300, 'y'), (20, 2000, 'z'), (21, NULL, 'z') AS s(k, v, p))"


@dataclass(frozen=True)
class Case:
    """The statements that make the table, and those that are compared."""

    create: tuple[str, ...]
    statements: tuple[str, ...]


def by_hand(*statements: str, properties: str = NO_VECTORS, partitioned: bool = False) -> Case:
    """A case about twelve rows in two files (or three partitions), some with NULLs, with change data."""
    create = (
        f"CREATE TABLE {TABLE} (k INT, v INT, p STRING, o STRUCT<x: INT, y: STRING>) USING delta "
        f"{'PARTITIONED BY (p) ' if partitioned else ''}"
        f"TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', {properties})"
    )
    rows = (
        f"INSERT INTO {TABLE} SELECT /*+ REPARTITION(2) */ CAST(id AS INT), CAST(nullif(id % 5, 4) AS INT), "
        "element_at(array('x', 'y', NULL), CAST(id % 3 + 1 AS INT)), "
        "CASE WHEN id % 4 > 0 THEN named_struct('x', CAST(id AS INT), 'y', 'n') END FROM range(12)"
    )
    return Case((create, rows), tuple(statement.replace("TABLE", TABLE) for statement in statements))


DELETES = (
    "DELETE FROM TABLE WHERE p = 'x' AND v > 1",
    "DELETE FROM TABLE WHERE v IS NULL OR o.x = 7",
    "DELETE FROM TABLE WHERE p = 'y'",
    "DELETE FROM TABLE WHERE k = 999",
    "DELETE FROM TABLE WHERE p IS NULL",
    "DELETE FROM TABLE",
)
UPDATES = (
    "UPDATE TABLE SET v = v + 1, k = v WHERE k % 2 = 0",
    "UPDATE TABLE SET o.y = concat(o.y, '!'), o.x = k WHERE v < 3",
    "UPDATE TABLE SET p = 'new' WHERE p IS NULL",
    "UPDATE TABLE SET p = NULL, v = DEFAULT WHERE p = 'x' AND k > 6",
    "UPDATE TABLE SET v = 1 WHERE v = 999",
    "UPDATE TABLE SET v = v",
)
MERGES = (
    f"""MERGE INTO TABLE AS t USING {SOURCE} AS s ON t.k = s.k
        WHEN MATCHED AND s.p = 'y' THEN DELETE
        WHEN MATCHED THEN UPDATE SET v = s.v, p = s.p
        WHEN NOT MATCHED AND s.v IS NULL THEN INSERT (k, p) VALUES (s.k, 'no v')
        WHEN NOT MATCHED THEN INSERT (k, v, p) VALUES (s.k, s.v, s.p)
        WHEN NOT MATCHED BY SOURCE AND t.v = 2 THEN DELETE
        WHEN NOT MATCHED BY SOURCE AND t.p = 'x' THEN UPDATE SET v = -t.v""",
    f"""MERGE INTO TABLE AS t USING {SOURCE} AS s ON t.k = s.k AND t.p = s.p
        WHEN MATCHED AND t.v > 50 THEN UPDATE SET t.v = t.v + s.v, p = concat(t.p, s.p) WHEN MATCHED THEN DELETE""",
    """MERGE INTO TABLE AS t USING (SELECT k + 1 AS k, v, p, o FROM TABLE WHERE k < 5) AS s ON t.k <=> s.k
        WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *""",
    """MERGE INTO TABLE AS t USING (SELECT 1 AS k) AS s ON t.k = s.k
        WHEN NOT MATCHED BY SOURCE AND t.v = 0 THEN DELETE
        WHEN NOT MATCHED BY SOURCE AND k > 9 THEN UPDATE SET v = 0""",
)
INSERT_ONLY = (
    f"""MERGE INTO TABLE AS t USING {SOURCE} AS s ON t.k = s.k
        WHEN NOT MATCHED AND s.k = 20 THEN INSERT (k, v) VALUES (s.k, 1)""",
    f"MERGE INTO TABLE AS t USING {SOURCE} AS s ON t.k = s.k WHEN NOT MATCHED THEN INSERT (p, k) VALUES (s.p, s.k)",
    f"MERGE INTO TABLE AS t USING {SOURCE} AS s ON t.k = s.k WHEN NOT MATCHED THEN INSERT (p, k) VALUES (s.p, s.k)",
)
TWICE = "(SELECT * FROM VALUES (1, 1), (1, 2), (30, 3), (30, 4) AS s(k, v))"
SEVERAL = (
    f"MERGE INTO TABLE AS t USING {TWICE} AS s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v",
    f"MERGE INTO TABLE AS t USING {TWICE} AS s ON t.k = s.k WHEN MATCHED AND s.v > 0 THEN DELETE",
    f"""MERGE INTO TABLE AS t USING {TWICE} AS s ON t.k = s.k
        WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)""",
)
EVOLVING = (
    """MERGE WITH SCHEMA EVOLUTION INTO TABLE AS t USING
        (SELECT 1 AS k, 5 AS v, 'q' AS p, named_struct('y', 'b', 'x', 8, 'z', true) AS o, 2.5BD AS extra
         UNION ALL SELECT 40, 6, 'x', NULL, NULL) AS s ON t.k = s.k
        WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *""",
    "UPDATE TABLE SET extra = coalesce(extra, 0) + 1, o.z = false WHERE k > 3",
    "DELETE FROM TABLE WHERE extra > 2",
)

BY_HAND = {
    "delete": by_hand(*DELETES),
    "delete, partitions": by_hand(*DELETES, partitioned=True),
    "delete, vectors": by_hand(*DELETES, properties=VECTORS),
    "update": by_hand(*UPDATES, partitioned=True),
    "update, vectors, mapping": by_hand(*UPDATES, properties=f"{VECTORS}, {MAPPED}"),
    "merge": by_hand(*MERGES),
    "merge, in brief": by_hand(MERGES[0], MERGES[2]),
    "merge, vectors, partitions": by_hand(*MERGES, properties=VECTORS, partitioned=True),
    "merge, inserts only": by_hand(*INSERT_ONLY, partitioned=True),
    "merge, several matches": by_hand(*SEVERAL),
    "merge, several matches, vectors": by_hand(*SEVERAL, properties=VECTORS),
    "merge, evolution": by_hand(*EVOLVING, properties=MAPPED),
}


#: ``HEADWATER_TEST_EXAMPLES`` asks for others, one for so many of its examples as a case takes the time of.
_ASKED = os.environ.get("HEADWATER_TEST_EXAMPLES")
_SEED = int(os.environ.get("HEADWATER_TEST_SEED", "20260101"))
_EXAMPLES_OF_A_CASE = 5
DRAWN = tuple(f"drawn {i + 1}" for i in range(2 if _ASKED is None else -(-int(_ASKED) // _EXAMPLES_OF_A_CASE)))


@functools.cache
def drawn(among: int = 150) -> dict[str, Case]:
    """The scripts with most changes of ``among`` (or of ten times as many as are asked for), without what the peer
    refuses."""
    found: list[tuple[int, Case]] = []

    @seed(_SEED)
    @settings(STEADY, max_examples=max(among, 10 * len(DRAWN)), derandomize=False, phases=[Phase.generate])
    @given(scripts(subqueries=False, most=5, every_type=_ASKED is not None))
    def gather(script: Script) -> None:
        statements, changes = _comparable(script)
        shape = script.table
        create = (*script.session(), *script.create("TABLE"), *script.second("TABLE"))
        found.append((changes, Case(create, tuple(each.sql(TABLE, shape) for each in statements))))

    gather()
    found.sort(key=lambda each: each[0])
    return {name: case for name, (_, case) in zip(DRAWN, reversed(found), strict=False)}


def _comparable(script: Script) -> tuple[list[Statement], int]:
    """The statements on which both engines must agree: the peer refuses a target row with several source rows even
    where no more than one is acted on. And how many changes they make."""
    kept: list[Statement] = []
    changes = 0
    table = replace(script.table, rows=tuple(script.first_rows()))
    others = [script.others.row(row) for row in script.others.rows]
    for statement in script.statements:
        outcome = statement.apply(table, others)
        if isinstance(statement, Merge) and outcome.error is None and statement.matches_several(table):
            continue
        kept.append(statement)
        changes += len(outcome.changes)
        table = outcome.table
    return kept, changes
