"""Every expression of ours becomes compiled code that has the same values as the interpreted expression.

Spark interprets what it cannot compile, and only logs that it does. So each is compiled here with that fallback off.
The classes of the JAR say which there are: one without a case fails.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from headwater import jar_path
from support.paths import ROOT

_COMPILED_ONLY = {"spark.sql.codegen.factoryMode": "CODEGEN_ONLY", "spark.sql.codegen.fallback": "false"}
_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"


class Catalyst:
    """What expressions are made of, through py4j."""

    def __init__(self, spark: Any) -> None:
        self.spark, self.jvm = spark, spark._jvm
        self.catalyst = spark._jvm.org.apache.spark.sql.catalyst
        self.expressions = self.catalyst.expressions

    def column(self, position: int, kind: str, nullable: bool = True) -> Any:
        data_type = self.jvm.org.apache.spark.sql.types.DataType.fromDDL(kind)
        return self.expressions.BoundReference(position, data_type, nullable)

    def constant(self, sql: str) -> Any:
        return self.spark.sql(f"SELECT {sql} AS x")._jdf.queryExecution().analyzed().expressions().head().child()

    def seq(self, *items: Any) -> Any:
        items_of_java = self.jvm.java.util.ArrayList()
        for item in items:
            items_of_java.add(item)
        return self.jvm.scala.jdk.javaapi.CollectionConverters.asScala(items_of_java).toSeq()

    def call(self, projection: Any, name: str, argument: Any) -> Any:
        """A method of compiled code: py4j knows classes by their names, and all of these have the same."""
        kind = self.jvm.java.lang.Class.forName(f"{_EXPRESSIONS}.UnsafeProjection")
        method = next(m for m in kind.getMethods() if m.getName() == name and m.getParameterCount() == 1)
        arguments = self.spark.sparkContext._gateway.new_array(self.jvm.Object, 1)
        arguments[0] = argument
        return method.invoke(projection, arguments)

    def module(self, name: str) -> Any:
        return self.jvm.java.lang.Class.forName(f"{name}$").getField("MODULE$").get(None)

    def row(self, *values: Any) -> Any:
        row = self.catalyst.expressions.GenericInternalRow(len(values))
        for position, value in enumerate(values):
            match value:
                case None:
                    row.setNullAt(position)
                case str():
                    row.update(position, self.jvm.org.apache.spark.unsafe.types.UTF8String.fromString(value))
                case _:
                    row.update(position, value)
        return row


def cases(catalyst: Catalyst) -> Iterator[tuple[str, Any, Sequence[Sequence[Any]]]]:
    """Class, expression and the rows that it is evaluated for."""
    ours, session = catalyst.jvm.headwater.spark, catalyst.spark._jsparkSession
    big = 1 << 40  # py4j takes smaller numbers for those of 32 bits
    number, position = catalyst.column(0, "bigint"), catalyst.column(0, "bigint", nullable=False)
    ids = [catalyst.column(place, "int", nullable=False) for place in range(2)]
    matched = ours.write.PositionSet()
    matched.add(big)
    for child in (number, position):
        yield "dml.IsMatched", ours.dml.IsMatched(child, matched), [(big,), (big + 1,)]
    keys = ours.dml.KeySetAccumulator.apply(session, 10)
    yield (
        "dml.CollectKeys",
        ours.dml.CollectKeys(catalyst.seq(number, catalyst.column(1, "string")), keys),
        [
            (big, "a"),
            (None, None),
        ],
    )
    yield "dml.CountRow", ours.dml.CountRow(ours.dml.RowCounter.apply(session)), [(), ()]
    yield "write.SameForAllRows", ours.write.SameForAllRows(), [()]
    words = [catalyst.constant(f"'{word}'") for word in ("CONDITION", "XX000", "text")]
    yield "write.RaiseRowError", ours.write.RaiseRowError(*words), []
    bounds = catalyst.constant(f"array(null, {big}L, {big + 5}L)")
    for child in (number, position):
        yield "layout.RangeId", ours.layout.RangeId(child, bounds), [(big - 1,), (big,), (big + 9,)]
    yield "layout.RangeId", ours.layout.RangeId(number, bounds), [(None,)]
    texts = ours.layout.RangeId(catalyst.column(0, "string"), catalyst.constant("array('b', 'd')"))
    yield "layout.RangeId", texts, [("a",), ("c",), (None,)]
    for is_hilbert in (False, True):
        curve = ours.layout.CurveKey(catalyst.constant("4"), catalyst.seq(*ids), is_hilbert)
        yield "layout.CurveKey", curve, [(3, 5), (0, 15)]
    checks = catalyst.module("org.apache.spark.sql.catalyst.util.CharVarcharUtils")
    naming = ours.write.DeclaredLengthCheck
    for name in ("char(3)", "varchar(3)"):
        kind = catalyst.jvm.org.apache.spark.sql.types.DataType.fromDDL(name)
        check = checks.stringLengthCheck(catalyst.column(0, "string"), kind)
        yield "write.DeclaredLengthCheck", naming.named(check, "c"), [("ab",), ("abc  ",), (None,)]


def classes(catalyst: Catalyst) -> set[str]:
    """The expressions in the JAR that rows are evaluated by."""
    loader = catalyst.jvm.java.lang.Thread.currentThread().getContextClassLoader()
    find = catalyst.jvm.java.lang.Class.forName
    wanted, unevaluable = (find(f"{_EXPRESSIONS}.{name}", False, loader) for name in ("Expression", "Unevaluable"))
    abstract = catalyst.jvm.java.lang.reflect.Modifier.isAbstract
    found = set()
    with zipfile.ZipFile(jar_path()) as jar:
        names = [name.removesuffix(".class").replace("/", ".") for name in jar.namelist() if name.endswith(".class")]
    for name in names:
        try:
            kind = find(name, False, loader)
        except Py4JJavaError:  # it is for another version of Spark, or for what is not on the class path
            continue
        if (
            wanted.isAssignableFrom(kind)
            and not unevaluable.isAssignableFrom(kind)
            and not abstract(kind.getModifiers())
        ):
            found.add(name.removeprefix("headwater.spark."))
    return found


def values(catalyst: Catalyst, expression: Any, rows: Sequence[Sequence[Any]]) -> list[Any]:
    """The values of an expression by compiled code."""
    projection = catalyst.expressions.UnsafeProjection.create(expression)
    assert "Interpreted" not in projection.getClass().getSimpleName()
    catalyst.call(projection, "initialize", 0)
    kind = expression.dataType()
    # One row is returned for all.
    return [str(catalyst.call(projection, "apply", catalyst.row(*row)).get(0, kind)) for row in rows]


def test_every_expression_is_compiled(spark, settings):
    catalyst = Catalyst(spark)
    tried = set()
    with settings(_COMPILED_ONLY):
        for name, expression, rows in cases(catalyst):
            tried.add(name)
            found = values(catalyst, expression, rows)
            if name in ("dml.CollectKeys", "dml.CountRow"):
                expression.initialize(0)
            assert found == [str(expression.eval(catalyst.row(*row))) for row in rows], name
    assert tried - {"write.DeclaredLengthCheck"} == classes(catalyst)


def test_methods_that_generated_code_calls_by_name_are_among_them():
    sources = [path for path in (ROOT / "jvm").rglob("*.scala") if "Invoke(" in path.read_text(encoding="utf-8")]
    assert [path.name for path in sources] == ["DeclaredLengthCheck.scala"]


@pytest.mark.parametrize("kind", ["CHAR(4)", "VARCHAR(4)"])
def test_a_large_write_of_declared_lengths_is_compiled(spark, rows, fails, tmp_path, settings, kind):
    table, source = f"delta.`{tmp_path}/t`", "range(0, 2000000, 1, 2) WHERE id < 30"
    with settings({"spark.sql.codegen.fallback": "false"}):
        spark.sql(f"CREATE TABLE {table} (id BIGINT, c {kind}) USING delta")
        spark.sql(f"INSERT INTO {table} SELECT id, 'v' || id FROM {source}")
        spark.sql(f"UPDATE {table} SET c = trim(c) || 'x' WHERE id = 1")
        assert rows(f"SELECT count(*), max(trim(c)) FILTER (WHERE id = 1) FROM {table}") == [(30, "v1x")]
        with fails("DELTA_EXCEED_CHAR_VARCHAR_LIMIT", "c"):
            spark.sql(f"INSERT INTO {table} SELECT id, 'long ' || id FROM {source}")
