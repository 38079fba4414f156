"""A table with Iceberg metadata that is defined again and again, told to the Spark that writes it: random statements,
after each of which a reader of Iceberg must see what the table has, whole and by the partition column.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.protocol.properties import UNIVERSAL_FORMATS
from headwater.schema.iceberg import is_converted
from headwater.stores import LocalStore
from headwater.transaction import wait_for_maintenance

CONVERTED = "'delta.enableIcebergCompatV2' = 'true', 'delta.universalFormat.enabledFormats' = 'iceberg'"
SETTINGS = {
    "spark.databricks.delta.uniform.iceberg.sync.convert.enabled": "true",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
}
WIDER = {"int": ["bigint"], "float": ["double"], "decimal(5,2)": ["decimal(18,2)", "decimal(38,2)"]}
KINDS = (*WIDER, "string", "date")
NAMES = ("p", "a", "b", "c", "x y")


class Where(NamedTuple):
    """A column, its type, and the number of the value that it is to have, None for no value."""

    name: str
    kind: str
    number: int | None

    @property
    def value(self) -> Any:
        n = self.number
        known = {"string": f"t{n}", "date": f"2024-01-1{n}", "int": n, "bigint": n}
        return None if n is None else known.get(self.kind, Decimal(f"{n}.50") if "decimal" in self.kind else n + 0.5)

    @property
    def sql(self) -> str:
        if self.number is None:
            return f"`{self.name}` IS NULL"
        return f"`{self.name}` = {literal(self.kind, self.number)}"


#: Rows of a table that meet a condition, None for all; each as its values.
Reader = Callable[[Path, Where | None], list[list[Any]]]


def literal(kind: str, number: int | None) -> str:
    """A value that all readers have alike."""
    texts = {"string": f"'t{number}'", "date": f"DATE'2024-01-1{number}'", "int": f"{number}", "bigint": f"{number}L"}
    return f"CAST({'NULL' if number is None else texts.get(kind, f'{number}.5')} AS {kind})"


class Story:
    """Statements about one table. ``read`` is the reader of Iceberg, ``ours`` the one of the log."""

    def __init__(self, sql: Callable[[str], Any], path: Path, seed: int, read: Reader, ours: Reader) -> None:
        self.sql, self.path, self.read, self.ours = sql, path, read, ours
        self.draw = random.Random(seed)
        self.done = [f"-- seed {seed}"]
        self.next_id = 0
        self.oldest = 0
        self.replace()

    def step(self) -> None:
        """A statement, and what must be so after it."""
        steps = [
            self.insert, self.insert, self.delete, self.delete, self.update, self.widen, self.widen, self.rename,
            self.rename, self.drop, self.add, self.replace, self.restore, self.track_rows, self.optimize, self.vectors,
            self.vacuum,
        ]  # fmt: skip
        self.draw.choice(steps)()
        if not is_converted(self.snapshot.definition) and self.draw.random() < 0.7:
            self.run("REORG TABLE {t} APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2))")
        self.check()

    def check(self) -> None:
        """Hold the reader of Iceberg to the table."""
        assert wait_for_maintenance(60)
        if not is_converted(self.snapshot.definition):
            return
        (key,) = self.snapshot.partition_columns
        for each in (None, Where(key, self.kinds[key], self.draw.choice([None, *range(6)]))):
            self.done.append(f"-- {each}")
            found, wanted = (self.told(lambda r=reader, e=each: r(self.path, e)) for reader in (self.read, self.ours))
            assert sorted(map(repr, found)) == sorted(map(repr, wanted)), "\n".join(self.done)
            self.done.pop()

    @property
    def snapshot(self) -> Snapshot:
        return load_snapshot(str(self.path), LocalStore())

    @property
    def kinds(self) -> dict[str, str]:
        """The type of each column."""
        return {field.name: field.type.sql().lower() for field in self.snapshot.schema}

    def run(self, text: str) -> None:
        self.done.append(text)
        self.told(lambda: self.sql(text.replace("{t}", f"delta.`{self.path}`")))

    def told(self, do: Callable[[], Any]) -> Any:
        """What comes of it; an error with the story that led to it."""
        try:
            return do()
        except Exception as error:
            raise AssertionError("\n".join([*self.done, str(error)])) from error

    def any(self, kind: str) -> str:
        return literal(kind, self.draw.choice([None, *range(6)]))

    def values(self, kinds: dict[str, str]) -> str:
        """Rows with new ids."""
        rows = []
        for _ in range(self.draw.randint(1, 4)):
            self.next_id += 1
            rows.append([str(self.next_id) if name == "id" else self.any(kind) for name, kind in kinds.items()])
        return ", ".join(f"({', '.join(row)})" for row in rows)

    # What may happen

    def insert(self) -> None:
        self.run(f"INSERT INTO {{t}} VALUES {self.values(self.kinds)}")

    def delete(self) -> None:
        self.run(f"DELETE FROM {{t}} WHERE id % 5 = {self.draw.randint(0, 4)}")

    def update(self) -> None:
        name = self.draw.choice([*self.kinds])
        if name != "id":
            self.run(f"UPDATE {{t}} SET `{name}` = {self.any(self.kinds[name])} WHERE id % 3 = 0")

    def optimize(self) -> None:
        self.run("OPTIMIZE {t}")

    def widen(self) -> None:
        able = [(name, kind) for name, old in self.kinds.items() for kind in WIDER.get(old, ())]
        # More often than not the partition column: its values are in the manifests.
        keys = [each for each in able if each[0] in self.snapshot.partition_columns]
        if able:
            name, kind = self.draw.choice(keys if keys and self.draw.random() < 0.6 else able)
            self.run(f"ALTER TABLE {{t}} ALTER COLUMN `{name}` TYPE {kind}")

    def rename(self) -> None:
        old = self.draw.choice([name for name in self.kinds if name != "id"])
        free = [name for name in NAMES if name not in self.kinds]
        if free:
            self.run(f"ALTER TABLE {{t}} RENAME COLUMN `{old}` TO `{self.draw.choice(free)}`")

    def drop(self) -> None:
        able = [name for name in self.kinds if name != "id" and name not in self.snapshot.partition_columns]
        if len(able) > 1:
            self.run(f"ALTER TABLE {{t}} DROP COLUMN `{self.draw.choice(able)}`")

    def add(self) -> None:
        free = [name for name in NAMES if name not in self.kinds]
        if free:
            place = self.draw.choice(["", " FIRST"])
            self.run(f"ALTER TABLE {{t}} ADD COLUMN `{self.draw.choice(free)}` {self.draw.choice(KINDS)}{place}")

    def replace(self) -> None:
        """Define it again: the partition column's name stays, its type and place may be others."""
        first = len(self.done) == 1
        key = "p" if first else self.snapshot.partition_columns[0]
        others = self.draw.sample([name for name in NAMES if name != key], 2)
        columns = [(key, self.draw.choice(KINDS)), *((name, self.draw.choice(KINDS)) for name in others)]
        self.draw.shuffle(columns)
        kinds = {"id": "int", **dict(columns)} if self.draw.random() < 0.7 else {**dict(columns), "id": "int"}
        declared = ", ".join(f"`{name}` {kind}" for name, kind in kinds.items())
        tracked = "" if self.draw.random() < 0.7 else ", 'delta.enableRowTracking' = 'true'"
        self.run(
            f"CREATE OR REPLACE TABLE {{t}} ({declared}) USING delta PARTITIONED BY (`{key}`) "
            f"TBLPROPERTIES ({CONVERTED}, 'delta.enableTypeWidening' = 'true'{tracked})"
        )
        self.run(f"INSERT INTO {{t}} VALUES {self.values(kinds)}")

    def restore(self) -> None:
        now = self.snapshot
        to = load_snapshot(str(self.path), LocalStore(), self.draw.randint(self.oldest, now.version))
        # A version whose partition column is another one of another name is refused.
        if to.partition_columns == now.partition_columns:
            self.run(f"RESTORE TABLE {{t}} TO VERSION AS OF {to.version}")

    def track_rows(self) -> None:
        self.run("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')")

    def off(self, more: str = "") -> None:
        self.run(f"ALTER TABLE {{t}} UNSET TBLPROPERTIES IF EXISTS ('{UNIVERSAL_FORMATS.name}')")
        self.run(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('delta.enableIcebergCompatV2' = 'false'{more})")

    def vectors(self) -> None:
        """A table that no reader of Iceberg sees for a while has files with deleted rows."""
        self.off(", 'delta.enableDeletionVectors' = 'true'")
        self.run("DELETE FROM {t} WHERE id % 7 = 3")

    def vacuum(self) -> None:
        """What nobody protects while the property is off may go."""
        if self.draw.random() < 0.7:
            self.off()
        self.insert()
        self.run("VACUUM {t} RETAIN 0 HOURS")
        self.oldest = self.snapshot.version


def tell(story: Story, steps: int) -> None:
    """A story of so many statements."""
    story.check()
    for _ in range(steps):
        story.step()


def listed(rows: Iterable[dict[str, Any]]) -> list[list[Any]]:
    """Rows as their values."""
    return [[*row.values()] for row in rows]
