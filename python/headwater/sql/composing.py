"""Queries as trees, and the one place where they become text.

Owns quoting, escaping, parentheses and placeholders of the queries this package writes for Spark. A resolved expression
or relation of the statement stands in a query as a node, :class:`Resolved` or :class:`Relation`; Spark gets it as
``hw_expr.`n` `` or ``hw_plan.`n` ``, EXPLAIN shows what it stands for.

Promises: a name is always in backticks; a text of any characters is one literal; an operator's operand that is an
operator itself is in parentheses, so a query means what its tree says. There is no node for SQL that a user wrote:
Spark parses that alone, and it comes as a placeholder.

These are few node types of our own and not sqlglot's expressions, which take too long: to build and print a query of
two levels and 100 columns takes sqlglot 30 over 50 ms. The whole rewrite of a MERGE of 100 columns with change data
takes 3 ms here, the same as gluing strings did. Tests parse with sqlglot what is printed here, and compare the trees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from headwater.protocol.columns import quote
from headwater.protocol.types import ArrayType, DataType, MapType, StructType


class Placeholders(NamedTuple):
    """How placeholders are printed, by their numbers."""

    expression: Callable[[int], str]
    relation: Callable[[int], str]


#: As the query compiler on Spark's side reads them.
FOR_SPARK = Placeholders(lambda number: f"hw_expr.`{number}`", lambda number: f"hw_plan.`{number}`")


class Expression:
    """A value, or a condition."""

    __slots__ = ()

    def text(self, show: Placeholders) -> str:
        """The expression as SQL."""
        raise NotImplementedError

    def operand(self, show: Placeholders) -> str:
        """The expression as SQL, where it is an operand."""
        return self.text(show)


class Rows:
    """What a FROM clause takes."""

    __slots__ = ()

    def source(self, show: Placeholders) -> str:
        """The rows as they stand after FROM or JOIN."""
        raise NotImplementedError


class Query(Rows):
    """A query, which Spark takes by itself and which a FROM clause takes in parentheses."""

    __slots__ = ()

    def text(self, show: Placeholders = FOR_SPARK) -> str:
        """The query as SQL."""
        raise NotImplementedError

    def source(self, show: Placeholders) -> str:
        return f"({self.text(show)})"


# -- Expressions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Resolved(Expression):
    """An expression of the statement, by its number."""

    number: int

    def text(self, show: Placeholders) -> str:
        return show.expression(self.number)


@dataclass(frozen=True, slots=True)
class Column(Expression):
    """A column by its name."""

    name: str

    def text(self, show: Placeholders) -> str:
        return quote((self.name,))


@dataclass(frozen=True, slots=True)
class Field(Expression):
    """A field of a struct, by the names that lead to it; of one name, a column."""

    path: tuple[str, ...]

    def text(self, show: Placeholders) -> str:
        return quote(self.path)


@dataclass(frozen=True, slots=True)
class Star(Expression):
    """All columns."""

    def text(self, show: Placeholders) -> str:
        return "*"


@dataclass(frozen=True, slots=True)
class Constant(Expression):
    """A keyword that is a value: :data:`NULL`, :data:`TRUE`, :data:`FALSE`."""

    word: str

    def text(self, show: Placeholders) -> str:
        return self.word


@dataclass(frozen=True, slots=True)
class Number(Expression):
    """A whole number, an INT or a BIGINT."""

    value: int
    is_long: bool = False

    def text(self, show: Placeholders) -> str:
        return f"{self.value}L" if self.is_long else str(self.value)


@dataclass(frozen=True, slots=True)
class Text(Expression):
    """A string literal of any characters."""

    value: str

    def text(self, show: Placeholders) -> str:
        return "'" + self.value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


@dataclass(frozen=True, slots=True)
class Alias(Expression):
    """A value with a name, in a select list."""

    value: Expression
    name: str

    def text(self, show: Placeholders) -> str:
        return f"{self.value.text(show)} AS {quote((self.name,))}"


@dataclass(frozen=True, slots=True)
class Call(Expression):
    """A function: Spark's, or one of the query compiler's own."""

    function: str
    arguments: tuple[Expression, ...]

    def text(self, show: Placeholders) -> str:
        return f"{self.function}({', '.join([argument.text(show) for argument in self.arguments])})"


@dataclass(frozen=True, slots=True)
class Lambda(Expression):
    """A function that is an argument of another one; its parameters are columns in its body."""

    parameters: tuple[str, ...]
    body: Expression

    def text(self, show: Placeholders) -> str:
        names = ", ".join([quote((name,)) for name in self.parameters])
        # Spark's grammar has no parentheses around one.
        given = f"({names})" if len(self.parameters) > 1 else names
        return f"{given} -> {self.body.text(show)}"


@dataclass(frozen=True, slots=True)
class Cast(Expression):
    """A value as another type."""

    value: Expression
    type: DataType
    or_null: bool = False  #: null for a value that is none of the type, rather than an error

    def text(self, show: Placeholders) -> str:
        return f"{'TRY_' if self.or_null else ''}CAST({self.value.text(show)} AS {type_text(self.type)})"


class _Operator(Expression):
    __slots__ = ()

    def operand(self, show: Placeholders) -> str:
        return f"({self.text(show)})"


@dataclass(frozen=True, slots=True)
class Infix(_Operator):
    """Operands with one operator between them: ``AND``, ``+``, ``=``."""

    operator: str
    operands: tuple[Expression, ...]

    def text(self, show: Placeholders) -> str:
        return f" {self.operator} ".join([operand.operand(show) for operand in self.operands])


@dataclass(frozen=True, slots=True)
class Not(_Operator):
    """A condition turned round."""

    condition: Expression

    def text(self, show: Placeholders) -> str:
        return f"NOT {self.condition.operand(show)}"


@dataclass(frozen=True, slots=True)
class IsNull(_Operator):
    """Whether a value is null."""

    value: Expression
    is_negated: bool = False

    def text(self, show: Placeholders) -> str:
        return f"{self.value.operand(show)} IS {'NOT ' if self.is_negated else ''}NULL"


@dataclass(frozen=True, slots=True)
class In(_Operator):
    """Whether a value is one of several."""

    value: Expression
    values: tuple[Expression, ...]

    def text(self, show: Placeholders) -> str:
        return f"{self.value.operand(show)} IN ({', '.join([value.text(show) for value in self.values])})"


@dataclass(frozen=True, slots=True)
class Case(Expression):
    """The value of the first condition that is true; null, or ``otherwise``, where none is."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None = None

    def text(self, show: Placeholders) -> str:
        parts = [f"WHEN {condition.text(show)} THEN {value.text(show)}" for condition, value in self.branches]
        if self.otherwise is not None:
            parts.append(f"ELSE {self.otherwise.text(show)}")
        return f"CASE {' '.join(parts)} END"


@dataclass(frozen=True, slots=True)
class Over(Expression):
    """A window function among the rows with the same values of some columns, in the order of another, or of several.

    :param descends: whether the greatest value comes first.
    """

    function: Call
    partition_by: tuple[Expression, ...]
    order_by: Expression | tuple[Expression, ...]
    descends: bool = False

    def text(self, show: Placeholders) -> str:
        columns = ", ".join([column.text(show) for column in self.partition_by])
        orders = self.order_by if isinstance(self.order_by, tuple) else (self.order_by,)
        order = ", ".join([f"{column.text(show)}{' DESC' if self.descends else ''}" for column in orders])
        return f"{self.function.text(show)} OVER (PARTITION BY {columns} ORDER BY {order})"


@dataclass(frozen=True, slots=True)
class Least(Expression):
    """The least of a value in the rows that have the same values of some columns."""

    value: Expression
    partition_by: tuple[Expression, ...]

    def text(self, show: Placeholders) -> str:
        columns = ", ".join([column.text(show) for column in self.partition_by])
        return f"min({self.value.text(show)}) OVER (PARTITION BY {columns})"


NULL, TRUE, FALSE = Constant("NULL"), Constant("true"), Constant("false")
STAR = Star()


def call(function: str, *arguments: Expression) -> Call:
    """A function of arguments."""
    return Call(function, arguments)


def infix(operator: str, *operands: Expression) -> Infix:
    """Operands with an operator between them."""
    return Infix(operator, operands)


def equal(left: Expression, right: Expression) -> Infix:
    """Whether two values are equal."""
    return Infix("=", (left, right))


def every(*conditions: Expression | None) -> Expression | None:
    """Whether all of the conditions are true that are given; None if none is."""
    given = tuple([condition for condition in conditions if condition is not None])
    if len(given) > 1:
        return Infix("AND", given)
    return given[0] if given else None


def when(condition: Expression, value: Expression, otherwise: Expression | None = None) -> Case:
    """A value under a condition."""
    return Case(((condition, value),), otherwise)


def is_not_null(value: Expression) -> IsNull:
    """Whether a value is not null."""
    return IsNull(value, True)


def type_text(kind: DataType) -> str:
    """A type as SQL has it, the names of fields in backticks."""
    if isinstance(kind, StructType):
        fields = [f"{quote((field.name,))}: {type_text(field.type)}" for field in kind]
        return f"struct<{', '.join(fields)}>"
    if isinstance(kind, ArrayType):
        return f"array<{type_text(kind.element)}>"
    if isinstance(kind, MapType):
        return f"map<{type_text(kind.key)}, {type_text(kind.value)}>"
    return kind.sql()


# -- Rows --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Relation(Query):
    """A relation of the statement, by its number."""

    number: int

    def text(self, show: Placeholders = FOR_SPARK) -> str:
        return f"TABLE {show.relation(self.number)}"

    def source(self, show: Placeholders) -> str:
        return show.relation(self.number)


@dataclass(frozen=True, slots=True)
class Named(Rows):
    """Rows under a name, which a hint may use."""

    rows: Rows
    name: str

    def source(self, show: Placeholders) -> str:
        return f"{self.rows.source(show)} AS {quote((self.name,))}"


@dataclass(frozen=True, slots=True)
class Join(Rows):
    """A join; ``kind`` is ``INNER``, ``LEFT OUTER``, ``LEFT ANTI`` and the like."""

    left: Rows
    kind: str
    right: Rows
    on: Expression

    def source(self, show: Placeholders) -> str:
        return f"{self.left.source(show)}\n{self.kind} JOIN {self.right.source(show)} ON {self.on.text(show)}"


@dataclass(frozen=True, slots=True)
class TableFunction(Rows):
    """The rows of a function that returns some, such as ``inline``."""

    call: Call

    def source(self, show: Placeholders) -> str:
        return self.call.text(show)


@dataclass(frozen=True, slots=True)
class Select(Query):
    """A SELECT.

    :param rows: None for one row without columns.
    :param hint: a hint without its comment signs, such as ``COALESCE(1)``.
    :param order_by: what all rows are sorted by; and ``sort_by`` the rows of each task.
    """

    columns: tuple[Expression, ...]
    rows: Rows | None
    where: Expression | None = None
    hint: str | None = None
    is_distinct: bool = False
    limit: int | None = None
    group_by: tuple[Expression, ...] = ()
    order_by: tuple[Expression, ...] = ()
    sort_by: tuple[Expression, ...] = ()

    def text(self, show: Placeholders = FOR_SPARK) -> str:
        hint = f"/*+ {self.hint} */ " if self.hint else ""
        distinct = "DISTINCT " if self.is_distinct else ""
        columns = ", ".join([column.text(show) for column in self.columns])
        parts = [f"SELECT {hint}{distinct}{columns}"]
        if self.rows is not None:
            parts.append(f"FROM {self.rows.source(show)}")
        if self.where is not None:
            parts.append(f"WHERE {self.where.text(show)}")
        if self.group_by:
            parts.append(f"GROUP BY {', '.join([key.text(show) for key in self.group_by])}")
        if self.order_by:
            parts.append(f"ORDER BY {', '.join([key.text(show) for key in self.order_by])}")
        if self.sort_by:
            parts.append(f"SORT BY {', '.join([key.text(show) for key in self.sort_by])}")
        if self.limit is not None:
            parts.append(f"LIMIT {self.limit}")
        return "\n".join(parts)


@dataclass(frozen=True, slots=True)
class MergeClause:
    """A clause of a MERGE: what happens to a row, matched or not, for which a condition is true.

    :param assigned: columns of the target and their values; None to delete the row.
    """

    is_matched: bool
    condition: Expression | None = None
    assigned: tuple[tuple[str, Expression], ...] | None = None

    def text(self, show: Placeholders) -> str:
        """The clause as SQL."""
        condition = "" if self.condition is None else f" AND {self.condition.operand(show)}"
        head = f"WHEN {'' if self.is_matched else 'NOT '}MATCHED{condition} THEN"
        if self.assigned is None:
            return f"{head} DELETE"
        names = [quote((name,)) for name, _ in self.assigned]
        values = [value.text(show) for _, value in self.assigned]
        if self.is_matched:
            return f"{head} UPDATE SET {', '.join([f'{n} = {v}' for n, v in zip(names, values, strict=True)])}"
        return f"{head} INSERT ({', '.join(names)}) VALUES ({', '.join(values)})"


@dataclass(frozen=True, slots=True)
class Merge:
    """A MERGE, which Spark resolves as one that a user wrote."""

    target: Named
    source: Named
    on: Expression
    clauses: tuple[MergeClause, ...]
    evolves: bool = False

    def text(self, show: Placeholders = FOR_SPARK) -> str:
        """The statement as SQL."""
        evolution = "WITH SCHEMA EVOLUTION " if self.evolves else ""
        head = f"MERGE {evolution}INTO {self.target.source(show)}\nUSING {self.source.source(show)}"
        return "\n".join([f"{head} ON {self.on.text(show)}", *[clause.text(show) for clause in self.clauses]])


@dataclass(frozen=True, slots=True)
class UnionAll(Query):
    """The rows of queries, whose columns are the same."""

    queries: tuple[Query, ...]

    def text(self, show: Placeholders = FOR_SPARK) -> str:
        return "\nUNION ALL\n".join([query.text(show) for query in self.queries])


def select(
    *columns: Expression,
    rows: Rows | None = None,
    where: Expression | None = None,
    hint: str | None = None,
    is_distinct: bool = False,
    limit: int | None = None,
    group_by: Sequence[Expression] = (),
    sort_by: Sequence[Expression] = (),
) -> Select:
    """A SELECT of columns."""
    return Select(columns, rows, where, hint, is_distinct, limit, group_by=tuple(group_by), sort_by=tuple(sort_by))


def where(rows: Rows, condition: Expression | None) -> Rows:
    """The rows for which a condition is true; all of them if no condition is given."""
    return rows if condition is None else Select((STAR,), rows, condition)
