"""A session that runs nothing: it keeps the statements it is given, and the views that are there while one runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame


class FakeFrame(DataFrame):
    """A DataFrame that says how it was made."""

    def __new__(cls, *args: Any) -> FakeFrame:
        return object.__new__(cls)

    def __init__(self, session: FakeSession, made: str) -> None:
        self.session = session
        self.made = made
        self._schema_then = session.schema

    @property
    def schema(self) -> str:
        return self._schema_then

    def alias(self, alias: str) -> FakeFrame:
        return FakeFrame(self.session, f"{self.made}.{alias}")

    def select(self, *columns: Any) -> FakeFrame:
        return FakeFrame(self.session, self.made if columns == ("*",) else "nothing")

    def crossJoin(self, other: Any) -> FakeFrame:
        return FakeFrame(self.session, f"{self.made} x {other.made}")

    def where(self, condition: Any) -> FakeFrame:
        return FakeFrame(self.session, f"{self.made} where {condition}")

    def createOrReplaceTempView(self, name: str) -> None:
        if self.session.refuses_views:
            raise AnalysisException("no such column", errorClass="UNRESOLVED_COLUMN", messageParameters={})
        self.session.views[name] = self.made

    def collect(self) -> list[Any]:
        return [("delta",)] if self.made.startswith("DESCRIBE DETAIL") else [("spark_catalog", "now")]


class FakeColumn(Column):
    """A Column that is its name."""

    def __new__(cls, *args: Any) -> FakeColumn:
        return object.__new__(cls)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


class FakeFunctions:
    """The functions the views are made with, as text."""

    def lit(self, value: str) -> str:
        return repr(value)

    def named_struct(self, *fields: Any) -> str:
        return f"({', '.join(map(str, fields))})"

    def isnotnull(self, value: str) -> str:
        return value


class FakeSession:
    """``statements``: what was run; ``seen``: the views there were as each began; ``fail``: raises instead."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.seen: list[dict[str, str]] = []
        self.views: dict[str, str] = {}
        self.schema = "one"
        self.fail: Callable[[str], None] = lambda text: None
        self.refuses_views = False
        self.catalog = self.read = self
        #: No setting is set.
        self.conf = MagicMock(**{"get.return_value": None})
        #: Of Spark's side: it takes every text for an expression.
        self._jsparkSession = MagicMock()

    def sql(self, text: str) -> FakeFrame:
        self.statements.append(text)
        self.seen.append(dict(self.views))
        self.fail(text)
        return FakeFrame(self, text)

    def table(self, name: str) -> FakeFrame:
        return FakeFrame(self, name)

    def range(self, end: int) -> FakeFrame:
        return FakeFrame(self, f"range {end}")

    def dropTempView(self, name: str) -> bool:
        return self.views.pop(name, None) is not None
