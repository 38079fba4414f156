"""A statement's inputs that are not SQL text: the source DataFrame and the Columns that a user passed.

Neither can be written as SQL, so they travel in temporary views. This works the same on classic PySpark and on Spark
Connect, without a setting. A view is ``nothing x target x source WHERE named_struct('0', column, ...) IS NOT NULL``; it
is never run. The statement's text names the view where the source belongs, and ``headwater_column('<view>', <n>)``
where a Column belongs; the extension in the server takes both from the view's resolved plan
(``InlineApiViews.scala``). Where a clause may not use one side, as the conditions of an INSERT may not use the target,
that side is missing from the view: a name then means what it means in the same clause of the SQL statement.

Promises: the views have unique names and are dropped when the statement ends, also when it fails. SQL text from the
user stays text; a statement whose conditions and values are all text needs a view for its source only.
"""

from __future__ import annotations

import enum
import importlib
import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from pyspark.errors import ParseException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession

from headwater.tables.errors import DeltaTableError, check_type
from headwater.tables.names import quote, split_name

#: A condition or a value: SQL text or a Column.
Expression: TypeAlias = "str | Column"

#: Spark's conditions for functions that take or return many rows.
_NOT_OF_ONE_ROW = (
    "INVALID_WHERE_CONDITION",
    "WINDOW_FUNCTION_NOT_ALLOWED_IN_CLAUSE",
    "UNSUPPORTED_GENERATOR.OUTSIDE_SELECT",
)
_PREFIX = "__headwater_"  # InlineApiViews.scala has the same


class Sees(enum.Enum):
    """The rows whose columns an expression may use."""

    BOTH = "both"
    TARGET = "target"
    SOURCE = "source"


class StatementInputs:
    """The DataFrame and the Columns of one statement, and ``run``, which runs its text."""

    def __init__(
        self,
        spark: SparkSession,
        target: Callable[[], DataFrame],
        source: DataFrame | None,
        run: Callable[[str], DataFrame],
    ) -> None:
        self._spark = spark
        self._run = run
        self._target = target
        self._source = source
        self._id = uuid.uuid4().hex
        self._columns: dict[Sees, list[Column]] = {}

    def source(self) -> str:
        """The source's name in the statement."""
        self._columns.setdefault(Sees.BOTH, [])
        return quote(self._view(Sees.BOTH))

    def condition(self, condition: Expression, sees: Sees) -> str:
        """A condition at the end of the statement.

        It gets no parentheses: Spark reads ``t WHERE (a)`` as table ``t`` with the alias ``WHERE``.
        """
        if not isinstance(condition, str):
            return self.expression(condition, sees)
        check_parses(self._spark, condition)
        return condition

    def expression(self, expression: Expression, sees: Sees) -> str:
        """An expression in the statement."""
        if isinstance(expression, str):
            check_parses(self._spark, expression)
            return alone(expression)
        columns = self._columns.setdefault(sees, [])
        columns.append(expression)
        return f"headwater_column('{self._view(sees)}', {len(columns) - 1})"

    def run(self, text: str) -> DataFrame:
        """Run the statement and return its result."""
        made: list[str] = []
        try:
            for sees, columns in self._columns.items():
                made.append(self._view(sees))
                self._make(made[-1], sees, columns)
            return self._run(text)
        finally:
            for view in made:
                self._spark.catalog.dropTempView(view)

    def _view(self, sees: Sees) -> str:
        return f"{_PREFIX}{sees.value}_{self._id}"

    def _make(self, view: str, sees: Sees, columns: list[Column]) -> None:
        try:
            self._frame(sees, columns).createOrReplaceTempView(view)
        except PySparkException as error:
            if error.getCondition() not in _NOT_OF_ONE_ROW:
                raise
            # Spark's text names a WHERE that the user did not write.
            found = (error.getMessageParameters() or {}).get("expressionList") or ", ".join(map(str, columns))
            raise DeltaTableError("DELTA_AGGREGATION_NOT_SUPPORTED", {"expression": found}) from None

    def _frame(self, sees: Sees, columns: list[Column]) -> DataFrame:
        nothing = self._spark.range(1).select()
        target = self._target() if columns and sees is not Sees.SOURCE else nothing
        source = self._source if self._source is not None and sees is not Sees.TARGET else nothing
        # The session's own frame comes first: the source may belong to another session, as a stream's batches do.
        frame = nothing.crossJoin(target).crossJoin(source)
        if columns:
            functions = _functions(self._spark)
            fields = [part for n, column in enumerate(columns) for part in (functions.lit(str(n)), column)]
            frame = frame.where(functions.isnotnull(functions.named_struct(*fields)))
        return frame


def alone(text: str) -> str:
    """An expression that Spark has parsed by itself, ready to stand in a statement."""
    # A comment at the end of the expression must not swallow the parenthesis, even if a backslash joins two lines.
    return f"({text}\n\n)"


def check_parses(spark: SparkSession, text: str) -> None:
    """Raise Spark's own error for text that is not one expression: it could change the rest of the statement."""
    if not is_connect(spark):
        spark._jsparkSession.sessionState().sqlParser().parseExpression(text)
        return
    try:
        # The server parses the text before it resolves names. Unresolved names are left for the statement to report.
        _ = spark.range(0).select(_functions(spark).expr(text)).schema
    except ParseException:
        raise
    except PySparkException:
        pass


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is a Spark Connect session; a process may have both kinds."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _functions(spark: SparkSession) -> Any:
    """The module of functions whose Columns fit the session."""
    if is_connect(spark):
        return importlib.import_module("pyspark.sql.connect.functions.builtin")
    return importlib.import_module("pyspark.sql.functions")


def check_expression(name: str, value: Any) -> None:
    """Raise a TypeError unless a value is an expression: text or a Column."""
    check_type(name, value, (str, Column), "a Column or a string of SQL")


def check_assignments(name: str, values: Any) -> None:
    """Raise a TypeError or ValueError unless a value is a dict of column names and expressions."""
    if values is None:
        raise ValueError(f"'{name}' is missing: a dict of column names and the expressions assigned to them.")
    check_type(name, values, Mapping, "a dict of column names and expressions")
    if not values:
        raise ValueError(f"'{name}' is empty: name at least one column.")
    for column, value in values.items():
        check_type(f"keys of {name}", column, str, "strings, the names of columns")
        split_name(column)
        check_expression(f"{name}[{column!r}]", value)


def assignments(values: Mapping[str, Expression], inputs: StatementInputs, sees: Sees) -> str:
    """``column = expression, ...``."""
    return ",\n  ".join(
        f"{quote(*split_name(column))} = {inputs.expression(value, sees)}" for column, value in values.items()
    )
