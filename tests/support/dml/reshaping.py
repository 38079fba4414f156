"""A table that changes shape while its rows change, in plain Python: the judge of ALTER TABLE among DML.

:class:`Model` holds columns (which keep their identity through renames), rows by key, and constraints. :class:`Story`
draws statements at random, runs each, and holds the table to the model: rows, row ids and their versions, errors,
change data, and at the end every version by time travel.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from support.dml.checking import Refused, multiset, version_of
from support.dml.expressions import quoted
from support.dml.scripts import name_of
from support.plain import plain

#: What each type may become without its files being written again.
WIDER = {
    "tinyint": ("smallint", "int", "bigint", "double"),
    "smallint": ("int", "bigint", "decimal(14,2)"),
    "int": ("bigint", "double", "decimal(14,2)"),
    "float": ("double",),
    "decimal(6,2)": ("decimal(12,2)", "decimal(12,4)"),
    "date": ("timestamp_ntz",),
}
KINDS = (*WIDER, "bigint", "string")
NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal(6,2)", "decimal(12,2)", "decimal(12,4)")
NAMES = ("a", "b", "c", "d", "new name", "é", "x.y")
VIOLATIONS = {"DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"}


@dataclass(eq=False)
class Column:
    """A column or a struct's field. ``default`` is a value, None where there is none."""

    name: str
    kind: str
    nullable: bool = True
    default: Any = None
    fields: list[Column] = field(default_factory=list)

    @property
    def type(self) -> str:
        if not self.fields:
            return self.kind
        return f"struct<{', '.join(f'{quoted(each.name)}: {each.kind}' for each in self.fields)}>"


@dataclass(frozen=True)
class Constraint:
    """``path < bound``, or with ``or_null`` also where it is NULL, which alone is a violation."""

    path: tuple[Column, ...]
    bound: int
    or_null: bool

    def sql(self) -> str:
        name = sql_name(self.path)
        return f"{name} IS NULL OR {name} < {self.bound}" if self.or_null else f"{name} < {self.bound}"

    def holds(self, row: dict[Column, Any]) -> bool:
        value = value_at(row, self.path)
        return self.or_null if value is None else bool(value < self.bound)


def sql_name(path: tuple[Column, ...]) -> str:
    return ".".join(quoted(column.name) for column in path)


def value_at(row: dict[Column, Any] | None, path: tuple[Column, ...]) -> Any:
    for column in path:
        row = None if row is None else row.get(column)
    return row


def widened(value: Any, kind: str) -> Any:
    """The value as the wider type has it."""
    if value is None:
        return None
    if kind.startswith("decimal"):
        return Decimal(value).quantize(Decimal(1).scaleb(-int(kind[:-1].rpartition(",")[2])))
    if kind == "double":
        return float(value)
    return datetime.datetime.combine(value, datetime.time()) if kind == "timestamp_ntz" else value


def literal(column: Column, value: Any) -> str:
    """The value, typed."""
    if value is None:
        return f"CAST(NULL AS {column.type})"
    if column.fields:
        given = (f"{name_text(each)}, {literal(each, value.get(each))}" for each in column.fields)
        return f"named_struct({', '.join(given)})"
    text = str(value).replace("'", "\\'")
    return f"'{text}'" if column.kind == "string" else f"CAST('{text}' AS {column.kind})"


def name_text(column: Column) -> str:
    return f"'{column.name}'"


def shown(column: Column, value: Any) -> Any:
    """The value as a row of the table has it, in plain form."""
    if column.fields and value is not None:
        return [shown(each, value.get(each)) for each in column.fields]
    return plain(value)


@dataclass
class Model:
    """``rows`` by key, ``ids`` and ``changed`` (row id and commit version) of those seen since row tracking is on."""

    key: Column
    columns: list[Column]
    partition: Column | None
    rows: dict[int, dict[Column, Any]] = field(default_factory=dict)
    constraints: dict[str, Constraint] = field(default_factory=dict)
    clustered: list[Column] = field(default_factory=list)
    tracked: bool = False
    fed: bool = False
    ids: dict[int, int] = field(default_factory=dict)
    changed: dict[int, int] = field(default_factory=dict)

    def paths(self) -> list[tuple[Column, ...]]:
        """All columns and fields but the key."""
        top = [(column,) for column in self.columns if column is not self.key]
        return [*top, *((column, each) for (column,) in top for each in column.fields)]

    def siblings(self, path: tuple[Column, ...]) -> list[Column]:
        return path[-2].fields if len(path) > 1 else self.columns

    def violates(self, row: dict[Column, Any]) -> bool:
        required = [path for path in [(self.key,), *self.paths()] if not path[-1].nullable]
        nothing = any(value_at(row, path) is None for path in required)
        return nothing or not all(each.holds(row) for each in self.constraints.values())

    def constrained(self, path: tuple[Column, ...]) -> bool:
        return any(path[-1] in each.path for each in self.constraints.values())

    def listed(self, row: dict[Column, Any]) -> list[Any]:
        return [shown(column, row.get(column)) for column in self.columns]

    def seen(self) -> tuple[list[str], Any]:
        """Names and rows, as a version keeps them."""
        return [column.name for column in self.columns], multiset(self.listed(row) for row in self.rows.values())


Test = Callable[[dict[Column, Any]], bool]


class Story:
    """Statements about one table, ``done`` so far; :meth:`step` adds one, :meth:`end` looks at every version."""

    def __init__(self, engine: Any, path: Path, seed: int) -> None:
        self.engine, self.path, self.name = engine, path, name_of(path)
        self.random = random.Random(seed)
        self.done: list[str] = [f"-- seed {seed}"]
        self.versions: dict[int, tuple[list[str], Any]] = {}
        key, part = Column("k", "int", nullable=False), Column("p", "string")
        nested = Column("s", "struct", fields=[Column("x", "int"), Column("y", "string")])
        columns = [key, Column("a", "smallint"), nested, part, Column("v", "int")]
        self.model = model = Model(key, columns, part if seed % 2 else None)
        self.next_key = 0
        self.gone: list[str] = []
        self.numbered = 0
        by = " PARTITIONED BY (p)" if model.partition else ""
        model.fed = self.random.random() < 0.5
        model.tracked = self.random.random() < 0.5
        on = self.properties()
        properties = ", ".join(f"'{name}' = '{value}'" for name, value in on.items())
        declared = ", ".join(f"{each.name} {each.type}{'' if each.nullable else ' NOT NULL'}" for each in columns)
        self._run(f"CREATE TABLE {{t}} ({declared}) USING delta{by} TBLPROPERTIES ({properties})")
        self._keep(0)

    def properties(self) -> dict[str, str]:
        """The table's properties at first."""
        return {
            "delta.columnMapping.mode": self.random.choice(("name", "id")),
            "delta.enableTypeWidening": "true",
            "delta.feature.allowColumnDefaults": "supported",
            "delta.feature.timestampNtz": "supported",
            "delta.enableChangeDataFeed": str(self.model.fed).lower(),
            "delta.enableRowTracking": str(self.model.tracked).lower(),
            "delta.enableDeletionVectors": self.random.choice(("true", "false")),
            "delta.checkpointInterval": self.random.choice(("3", "10")),
        }

    # What may happen

    def step(self) -> None:
        """A statement, and what must be so after it."""
        often = [self.add, self.rename, self.drop, self.retype]
        alters = [
            *often, *often, self.move, self.set_not_null, self.drop_not_null, self.default, self.constrain, self.free,
            self.property, self.track, self.cluster,
        ]  # fmt: skip
        changes = [self.insert, self.insert, self.update, self.delete, self.merge, self.replace]
        self.random.choice(changes if self.random.random() < 0.5 or len(self.model.rows) < 6 else alters)()
        self.check()

    def add(self) -> None:
        structs = [column for column in self.model.columns if column.fields]
        owner = self.random.choice([None, None, *structs])
        siblings = owner.fields if owner else self.model.columns
        # A name that another column had is where an old file could be mistaken for a new one.
        names = self.gone if self.gone and self.random.random() < 0.6 else NAMES
        new = Column(self.random.choice(names), self.random.choice(KINDS))
        place, index = self._place(siblings)
        name = sql_name((owner, new) if owner else (new,))
        there = any(each.name == new.name for each in siblings)
        done = self._try(
            f"ALTER TABLE {{t}} ADD COLUMN {name} {new.kind}{place}", {"FIELD_ALREADY_EXISTS"} if there else None
        )
        if done:
            siblings.insert(index, new)

    def _place(self, siblings: list[Column], moved: Column | None = None) -> tuple[str, int]:
        others = [each for each in siblings if each is not moved]
        chosen = self.random.choice([None, *others] if moved or others else [None])
        if chosen is None:
            return (" FIRST", 0) if moved or self.random.random() < 0.3 else ("", len(others))
        return f" AFTER {quoted(chosen.name)}", others.index(chosen) + 1

    def rename(self) -> None:
        path = self.random.choice([*self.model.paths(), (self.model.key,)])
        new = self.random.choice((*NAMES, "k", "p", "v", "s"))
        refused = set()
        if any(each is not path[-1] and each.name == new for each in self.model.siblings(path)):
            refused.add("FIELD_ALREADY_EXISTS")
        if self.model.constrained(path):
            refused.add("DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE")
        if path[-1].name == new:
            return
        if self._try(f"ALTER TABLE {{t}} RENAME COLUMN {sql_name(path)} TO {quoted(new)}", refused):
            self.gone.append(path[-1].name)
            path[-1].name = new

    def drop(self) -> None:
        path = self.random.choice(self.model.paths())
        refused = set()
        if path[-1] is self.model.partition:
            refused.add("DELTA_UNSUPPORTED_DROP_PARTITION_COLUMN")
        if path[-1] in self.model.clustered:
            refused.add("DELTA_UNSUPPORTED_DROP_CLUSTERING_COLUMN")
        if self.model.constrained(path):
            refused.add("DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE")
        if len(self.model.siblings(path)) == 1:
            refused.add("DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA")
        if self._try(f"ALTER TABLE {{t}} DROP COLUMN {sql_name(path)}", refused):
            self.model.siblings(path).remove(path[-1])
            self.gone.append(path[-1].name)

    def retype(self) -> None:
        path = self.random.choice([*self.model.paths(), (self.model.key,)])
        column = path[-1]
        if column.fields:
            return
        kind = self.random.choice([*WIDER.get(column.kind, ()), "tinyint", "boolean"])
        if kind == column.kind or column is self.model.key and kind != "bigint":
            return
        refused = set()
        if kind not in WIDER.get(column.kind, ()):
            refused |= {"NOT_SUPPORTED_CHANGE_COLUMN", "DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP"}
        if self.model.constrained(path):
            refused.add("DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE")
        if not self._try(f"ALTER TABLE {{t}} ALTER COLUMN {sql_name(path)} TYPE {kind}", refused):
            return
        column.kind = kind
        column.default = widened(column.default, kind)
        for row in self.model.rows.values():
            owner = row if len(path) == 1 else row.get(path[0])
            if owner is not None and column in owner:
                owner[column] = widened(owner[column], kind)

    def move(self) -> None:
        path = self.random.choice([*self.model.paths(), (self.model.key,)])
        siblings = self.model.siblings(path)
        if len(siblings) > 1:
            place, index = self._place(siblings, path[-1])
            self._try(f"ALTER TABLE {{t}} ALTER COLUMN {sql_name(path)}{place}")
            siblings.remove(path[-1])
            siblings.insert(index, path[-1])

    def set_not_null(self) -> None:
        path = self.random.choice(self.model.paths())
        broken = any(value_at(row, path) is None for row in self.model.rows.values())
        refused = {"DELTA_NEW_NOT_NULL_VIOLATION"} if broken and path[-1].nullable else set()
        if self._try(f"ALTER TABLE {{t}} ALTER COLUMN {sql_name(path)} SET NOT NULL", refused):
            path[-1].nullable = False

    def drop_not_null(self) -> None:
        path = self.random.choice(self.model.paths())
        self._try(f"ALTER TABLE {{t}} ALTER COLUMN {sql_name(path)} DROP NOT NULL")
        path[-1].nullable = True

    def default(self) -> None:
        column = self.random.choice([column for column in self.model.columns if not column.fields])
        if column is self.model.key:
            return
        value = self.value(column) if self.random.random() < 0.7 else None
        change = "DROP DEFAULT" if value is None else f"SET DEFAULT {literal(column, value)}"
        self._try(f"ALTER TABLE {{t}} ALTER COLUMN {sql_name((column,))} {change}")
        column.default = value

    def constrain(self) -> None:
        numbers = [path for path in [*self.model.paths(), (self.model.key,)] if path[-1].kind in NUMBERS]
        new = Constraint(self.random.choice(numbers), self.random.randrange(10, 100), self.random.random() < 0.8)
        self.numbered += 1
        refused = set()
        if not all(new.holds(row) for row in self.model.rows.values()):
            refused.add("DELTA_NEW_CHECK_CONSTRAINT_VIOLATION")
        if self._try(f"ALTER TABLE {{t}} ADD CONSTRAINT c{self.numbered} CHECK ({new.sql()})", refused):
            self.model.constraints[f"c{self.numbered}"] = new

    def free(self) -> None:
        if self.model.constraints:
            name = self.random.choice(list(self.model.constraints))
            self._try(f"ALTER TABLE {{t}} DROP CONSTRAINT {name}")
            del self.model.constraints[name]

    def property(self) -> None:
        name, value = self.random.choice(
            [
                ("mine", str(self.numbered)),
                ("delta.enableDeletionVectors", self.random.choice(("true", "false"))),
                ("delta.enableChangeDataFeed", self.random.choice(("true", "false"))),
                ("delta.enableInCommitTimestamps", "true"),
                ("delta.checkpointPolicy", self.random.choice(("v2", "classic"))),
                ("delta.checkpoint.writeStatsAsStruct", self.random.choice(("true", "false"))),
            ]
        )
        self._try(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('{name}' = '{value}')")
        if name == "delta.enableChangeDataFeed":
            self.model.fed = value == "true"

    def track(self) -> None:
        on = not self.model.tracked
        if on or self.random.random() < 0.3:
            self._try(
                f"ALTER TABLE {{t}} SET TBLPROPERTIES ('delta.enableRowTracking' = '{str(on).lower()}')", commits=9
            )
            self.model.tracked = on
            self.model.ids, self.model.changed = {}, {}

    def cluster(self) -> None:
        if self.model.partition:
            return
        eligible = [column for column in self.model.columns if not column.fields]
        chosen = self.random.sample(eligible, self.random.randrange(min(3, len(eligible) + 1)))
        names = f"({', '.join(quoted(column.name) for column in chosen)})" if chosen else "NONE"
        self._try(f"ALTER TABLE {{t}} CLUSTER BY {names}")
        self.model.clustered = chosen

    def insert(self) -> None:
        columns = list(self.model.columns)
        named = self.random.random() < 0.6
        if named:
            self.random.shuffle(columns)
            columns = [c for c in columns if c is self.model.key or self.random.random() < 0.7]
        new = [self.row(columns) for _ in range(self.random.randrange(1, 7))]
        values = self._values(columns, new)
        names = f" ({', '.join(quoted(column.name) for column in columns)})" if named else ""
        if self._try(f"INSERT INTO {{t}}{names} {values}", self._broken(new), [("insert", row) for row in new]):
            self._put(new)

    def replace(self) -> None:
        """Rows of keys that are there, and new ones: those of the same keys go."""
        known = self.random.sample(list(self.model.rows), min(3, len(self.model.rows)))
        new = [self.row(self.model.columns) for _ in range(2)]
        new += [{**self.row(self.model.columns), self.model.key: key} for key in known]
        gone = [("delete", self.model.rows[key]) for key in known]
        values = self._values(self.model.columns, new)
        names = ", ".join(quoted(column.name) for column in self.model.columns)
        query = f"SELECT * FROM {values} AS s({names})"
        sql = f"INSERT INTO {{t}} REPLACE USING ({quoted(self.model.key.name)}) {query}"
        if self._try(sql, self._broken(new), [*gone, *(("insert", row) for row in new)]):
            for key in known:
                self._forget(key)
            self._put(new)

    def update(self) -> None:
        path = self.random.choice(self.model.paths())
        condition, holds = self.condition()
        value = self.value(path[-1])
        hit = {key: row for key, row in self.model.rows.items() if holds(row)}
        new = {key: self.assigned(row, path, value) for key, row in hit.items()}
        sql = f"UPDATE {{t}} SET {sql_name(path)} = {literal(path[-1], value)} WHERE {condition}"
        changes = [change for key in hit for change in (("update_preimage", hit[key]), ("update_postimage", new[key]))]
        if self._try(sql, self._broken(new.values()), changes):
            self._put(new.values())

    def delete(self) -> None:
        condition, holds = self.condition()
        hit = [key for key, row in self.model.rows.items() if holds(row)]
        changes = [("delete", self.model.rows[key]) for key in hit]
        if self._try(f"DELETE FROM {{t}} WHERE {condition}", set(), changes):
            for key in hit:
                self._forget(key)

    def merge(self) -> None:
        path = self.random.choice([path for path in self.model.paths() if len(path) == 1])
        column, key = path[0], self.model.key
        known = self.random.sample(list(self.model.rows), min(4, len(self.model.rows)))
        source = [self.row([key, column]) for _ in range(2)] + [
            {key: each, column: self.value(column)} for each in known
        ]
        new = [self.assigned(self.model.rows[each[key]], path, each[column]) for each in source if each[key] in known]
        added = [each for each in source if each[key] not in known]
        names = [quoted(key.name), quoted(column.name)]
        sql = (
            f"MERGE INTO {{t}} AS t USING (SELECT * FROM {self._values([key, column], source)} AS s(kk, vv)) AS s "
            f"ON t.{names[0]} = s.kk WHEN MATCHED THEN UPDATE SET {names[1]} = s.vv "
            f"WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) VALUES (s.kk, s.vv)"
        )
        changes = [("insert", row) for row in added]
        for row in new:
            changes += [("update_preimage", self.model.rows[row[key]]), ("update_postimage", row)]
        if self._try(sql, self._broken([*new, *added]), changes):
            self._put([*new, *added])

    # Values and conditions

    def value(self, column: Column) -> Any:
        draw = self.random
        if draw.random() < 0.2:
            return None
        if column.fields:
            return {each: self.value(each) for each in column.fields}
        match column.kind:
            case "string":
                return draw.choice(("x", "y", "zz z", "q'é"))
            case "tinyint":
                return draw.randrange(-5, 100)
            case "smallint" | "int" | "bigint":
                most = {"smallint": 30_000, "int": 2**31 - 1, "bigint": 2**62}[column.kind]
                return draw.choice((draw.randrange(-5, 100), most - draw.randrange(100)))
            case "float" | "double":
                return draw.randrange(-20, 400) / 4
            case "date":
                return datetime.date(2024, 1, 1) + datetime.timedelta(draw.randrange(60))
            case "timestamp_ntz":
                return datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=draw.randrange(1440))
        scale = int(column.kind[:-1].rpartition(",")[2])
        return Decimal(draw.randrange(-500, 100_000)).scaleb(-2).quantize(Decimal(1).scaleb(-scale))

    def row(self, columns: list[Column]) -> dict[Column, Any]:
        """A new row: its columns given, or their defaults."""
        row = {column: column.default for column in self.model.columns}
        row |= {column: self.value(column) for column in columns}
        row[self.model.key] = self.next_key
        self.next_key += 1
        return row

    def assigned(self, row: dict[Column, Any], path: tuple[Column, ...], value: Any) -> dict[Column, Any]:
        if len(path) == 1:
            return {**row, path[0]: value}
        return {**row, path[0]: {**(row.get(path[0]) or {}), path[1]: value}}

    def condition(self) -> tuple[str, Test]:
        """A condition, and what it says of a row; unknown does not hold."""
        key = self.model.key
        first = self._atom(self.random.choice(self.model.paths()))
        if self.random.random() < 0.4:
            number, rest = self.random.randrange(2, 5), self.random.randrange(2)
            name = quoted(key.name)
            return f"{first[0]} AND {name} % {number} = {rest}", lambda r: first[1](r) and r[key] % number == rest
        if self.random.random() < 0.3:
            second = self._atom((key,))
            return f"({first[0]}) OR {second[0]}", lambda row: first[1](row) or second[1](row)
        return first

    def _atom(self, path: tuple[Column, ...]) -> tuple[str, Test]:
        name, value = sql_name(path), self.value(path[-1])
        if value is None or path[-1].fields:
            return f"{name} IS NULL", lambda row: value_at(row, path) is None
        if path[-1] is self.model.key:
            value = self.random.randrange(self.next_key + 1)
        known = [found for row in self.model.rows.values() if (found := value_at(row, path)) is not None]
        value = self.random.choice([value, *known])
        text = literal(path[-1], value)
        if self.random.random() < 0.5 or path[-1].kind == "string":
            return f"{name} = {text}", lambda row: value_at(row, path) == value
        if self.random.random() < 0.5:
            return f"{name} > {text}", lambda row: (found := value_at(row, path)) is not None and found > value
        return f"{name} <= {text}", lambda row: (found := value_at(row, path)) is not None and found <= value

    # Running and judging

    def _values(self, columns: list[Column], rows: list[dict[Column, Any]]) -> str:
        texts = (", ".join(literal(column, row.get(column)) for column in columns) for row in rows)
        return "VALUES " + ", ".join(f"({text})" for text in texts)

    def _broken(self, rows: Any) -> set[str]:
        return set(VIOLATIONS) if any(self.model.violates(row) for row in rows) else set()

    def _put(self, rows: Any) -> None:
        version = version_of(self.path)
        for row in rows:
            key = row[self.model.key]
            if self.model.rows.get(key) is not row:
                self.model.rows[key] = row
                self.model.changed[key] = version

    def _forget(self, key: int) -> None:
        for kept in (self.model.rows, self.model.ids, self.model.changed):
            kept.pop(key, None)

    def _run(self, sql: str) -> Any:
        self.done.append(sql.replace("{t}", self.name))
        return self.engine.sql(self.done[-1])

    def _try(
        self, sql: str, refused: set[str] | None = None, changes: list[tuple[str, Any]] | None = None, commits: int = 1
    ) -> bool:
        """Run it; whether it is done. With ``refused`` it must fail with one of these, and change nothing."""
        before = version_of(self.path)
        wanted = None if changes is None else multiset([kind, *self.model.listed(row)] for kind, row in changes)
        error: Refused | None = None
        try:
            self._run(sql)
        except Refused as raised:
            error = raised
        if error is not None:
            assert error.condition.partition(".")[0] in (refused or ()), self.said(f"refused: {error}")
            assert version_of(self.path) == before, self.said("a refused statement has committed")
            return False
        assert not refused, self.said(f"not refused, expected {refused}")
        after = version_of(self.path)
        assert after <= before + commits, self.said(f"{after - before} commits")
        if wanted is not None:
            assert after > before or not wanted, self.said("no commit")
            if self.model.fed and after > before:
                self._compare_changes(after, wanted)
        return True

    def _compare_changes(self, version: int, wanted: Any) -> None:
        names = ", ".join(quoted(column.name) for column in self.model.columns)
        found = self.engine.sql(
            f"SELECT _change_type, {names} FROM table_changes_by_path('{self.path}', {version}, {version})"
        )
        self._same(multiset(found), wanted, f"the changes of version {version}")

    def check(self) -> None:
        """Rows, ids and versions, and a condition's rows, are the model's."""
        model = self.model
        hidden = ", _metadata.row_id, _metadata.row_commit_version" if model.tracked else ""
        rows = self.engine.sql(f"SELECT *, {quoted(model.key.name)}{hidden} FROM {self.name}")
        width = len(model.columns)
        names, wanted = model.seen()
        self._same(multiset(row[:width] for row in rows), wanted, "the rows")
        if model.tracked:
            ids = {row[width]: row[width + 1] for row in rows}
            assert len(set(ids.values())) == len(ids), self.said(f"ids {ids}")
            assert None not in ids.values(), self.said(f"ids {ids}")
            moved = {key: (model.ids[key], ids[key]) for key in ids if model.ids.get(key, ids[key]) != ids[key]}
            assert not moved, self.said(f"row ids have changed: {moved}")
            found = {row[width]: row[width + 2] for row in rows}
            other = {
                key: (model.changed[key], found[key])
                for key in found
                if model.changed.get(key, found[key]) != found[key]
            }
            assert not other, self.said(f"row commit versions, expected and found: {other}")
            model.ids, model.changed = ids, found
        condition, holds = self.condition()
        keys = [
            row[0] for row in self.engine.sql(f"SELECT {quoted(model.key.name)} FROM {self.name} WHERE {condition}")
        ]
        held = sorted(key for key, row in model.rows.items() if holds(row))
        assert sorted(keys) == held, self.said(f"WHERE {condition}: {sorted(keys)}, expected {held}")
        for version in range(max(self.versions) + 1, version_of(self.path) + 1):
            self._keep(version)

    def _keep(self, version: int) -> None:
        self.versions[version] = self.model.seen()

    def end(self) -> None:
        """Every version is still what it was."""
        for version, (names, rows) in self.versions.items():
            text = f"SELECT * FROM {self.name} VERSION AS OF {version}"
            self._same(multiset(self.engine.sql(text)), rows, f"version {version}")
            assert self.engine.columns(text) == names, self.said(f"columns of version {version}")

    def _same(self, found: Any, wanted: Any, what: str) -> None:
        assert found == wanted, self.said(
            f"{what}:\n  not expected: {sorted((found - wanted).elements())}"
            f"\n  missing: {sorted((wanted - found).elements())}"
        )

    def said(self, what: str) -> str:
        return f"{what}\nafter:\n" + ";\n".join(self.done) + ";"
