"""Which files may contain a row that a predicate accepts.

Owns data skipping: the evaluation of a predicate over bounds, and the pruning of a snapshot by it. Follows the
protocol's chapter "Per-file Statistics". Promises:

1. No file is dropped that holds a row for which the predicate is true, as Spark evaluates it: three-valued logic, NaN
   above everything, strings in the order of their UTF-8 bytes.
2. If anything is unknown (a predicate, a type, a statistic or a value), the file is kept.

Each question is "may the predicate come out as true (or false, or null) for some row of the file?". Negation swaps
true and false, so a bound is never wrong under a NOT, at any depth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.basics.errors import HeadwaterError
from headwater.protocol.types import DataType, DecimalType, PrimitiveType
from headwater.pruning.bounds import CUT_OFF, Bounds, BoundsReader, Files, literal_bounds, values_of
from headwater.pruning.masks import MAYBE, Mask, conjunction, disjunction, inverse, settle
from headwater.pruning.predicates import (
    INTEGRAL_RANGES,
    And,
    Comparison,
    Constant,
    In,
    IsNull,
    Leaf,
    Like,
    Not,
    Operand,
    Or,
    Predicate,
    StartsWith,
    Unknown,
    Value,
    columns,
    type_of,
)

STRING = PrimitiveType("string")
_FLOATING = ("float", "double")
#: Lists longer than this are looked at by their range first, then as a set, which is faster from here on (bench case
#: ``in-list``).
_SHORT_LIST = 8
#: What Arrow, or a value that no Arrow type holds, may raise; a file is kept then.
_FAILURES = (pa.ArrowException, HeadwaterError, KeyError, TypeError, ValueError, ArithmeticError)


class Outcome(Enum):
    TRUE = "true"
    FALSE = "false"
    NULL = "null"


_NEGATED = {Outcome.TRUE: Outcome.FALSE, Outcome.FALSE: Outcome.TRUE, Outcome.NULL: Outcome.NULL}


def prune(snapshot: Files, predicate: Predicate) -> pa.BooleanArray:
    """Which files may hold a row that the predicate accepts: a boolean a file, in their order, no nulls."""
    return prune_all(snapshot, [predicate])


def prune_all(snapshot: Files, predicates: Sequence[Predicate]) -> pa.BooleanArray:
    """``prune`` with several predicates, all of which a row must meet."""
    return settle(possible(snapshot, predicates, Outcome.TRUE), snapshot.num_files)


def select(snapshot: Files, predicates: Sequence[Predicate]) -> pa.Table:
    """The rows of ``snapshot.files`` that may hold a row which all the predicates accept."""
    mask = prune_all(snapshot, predicates)
    return snapshot.files if mask.true_count == len(mask) else snapshot.files.filter(mask)


def leaves_rows(snapshot: Files, predicates: Sequence[Predicate]) -> pa.BooleanArray:
    """Which files may hold a row that not all the predicates accept: where one is false there, or null."""
    outcomes = (possible(snapshot, predicates, outcome) for outcome in (Outcome.FALSE, Outcome.NULL))
    return settle(reduce(disjunction, outcomes), snapshot.num_files)


def possible(snapshot: Files, predicates: Sequence[Predicate], outcome: Outcome) -> Mask:
    """Whether the conjunction of the predicates may come out so for some row of each file."""
    if not predicates:
        return outcome is Outcome.TRUE
    tree = predicates[0] if len(predicates) == 1 else And(tuple(predicates))
    try:
        return Evaluator(BoundsReader(snapshot, sorted(columns(tree)))).possible(tree, outcome)
    except (RecursionError, *_FAILURES):
        return MAYBE


class Evaluator:
    """Evaluates predicates over bounds."""

    def __init__(self, reader: BoundsReader) -> None:
        self._reader = reader
        # An AND or OR asks for its operands' outcomes several times; without these, each level would double the work.
        self._found: dict[tuple[int, Outcome], tuple[Predicate, Mask]] = {}

    def possible(self, predicate: Predicate, outcome: Outcome) -> Mask:
        """Whether the predicate may come out so for some row of each file."""
        key = id(predicate), outcome
        if key not in self._found:
            # The predicate is held, so that no other object gets its identity.
            self._found[key] = predicate, self._possible(predicate, outcome)
        return self._found[key][1]

    def _possible(self, predicate: Predicate, outcome: Outcome) -> Mask:
        match predicate:
            case Not(child):
                return self.possible(child, _NEGATED[outcome])
            case And(children) | Or(children):
                decisive = Outcome.FALSE if isinstance(predicate, And) else Outcome.TRUE
                combine = conjunction if outcome is _NEGATED[decisive] else disjunction
                combined = reduce(combine, (self.possible(child, outcome) for child in children))
                if outcome is Outcome.NULL:
                    # An operand that decides, as an AND's false does, makes the whole so whatever is null beside it.
                    combined = reduce(conjunction, (self._undecided(child, decisive) for child in children), combined)
                return combined
            case Constant(value):
                return outcome is {True: Outcome.TRUE, False: Outcome.FALSE, None: Outcome.NULL}[value]
            case Unknown():
                return MAYBE
        try:
            return self._leaf(predicate, outcome)
        except _FAILURES:
            return MAYBE

    def _undecided(self, child: Predicate, decisive: Outcome) -> Mask:
        """Whether the operand may come out in another way than the decisive one."""
        return disjunction(self.possible(child, _NEGATED[decisive]), self.possible(child, Outcome.NULL))

    def _leaf(self, predicate: Leaf, outcome: Outcome) -> Mask:
        match predicate:
            case IsNull(child):
                return self._with_bounds(child, lambda b: _is_null(b, outcome))
            case StartsWith(child, prefix):
                return self._with_bounds(child, lambda b: _starts_with(b, prefix, True, outcome))
            case Like(child, pattern, escape):
                return self._with_bounds(child, lambda b: _like(b, pattern, escape, outcome))
            case In(child, kind, values):
                return self._with_bounds(child, lambda b: _in(b, type_of(kind), values, outcome))
            case Comparison(operator, left, right):
                return self._with_bounds(
                    left, lambda x: self._with_bounds(right, lambda y: compare(operator, x, y, outcome))
                )
        return MAYBE

    def _with_bounds(self, operand: Operand, then: Callable[[Bounds], Mask]) -> Mask:
        bounds = self._reader.read(operand)
        return MAYBE if bounds is None else then(bounds)


def _in(x: Bounds, kind: DataType, values: Sequence[Value], outcome: Outcome) -> Mask:
    with_null = None in values
    if outcome is Outcome.NULL:
        return True if with_null else x.some_null()
    if outcome is Outcome.FALSE and with_null:
        return False
    listed = values_of(kind, [value for value in values if value is not None])
    if len(listed) == 0:
        return False if with_null else MAYBE  # what an empty list means is a setting of Spark's
    if x.low is MAYBE or x.is_literal or _family(x.type) is None or _family(x.type) != _family(kind):
        return MAYBE
    if pa.types.is_floating(listed.type) and pc.any(pc.is_nan(listed)).as_py():
        return MAYBE
    if len(listed) <= _SHORT_LIST:
        combine = disjunction if outcome is Outcome.TRUE else conjunction
        return reduce(combine, (compare("=", x, literal_bounds(kind, y), outcome) for y in listed))
    distinct = pc.unique(listed.cast(x.low.type))
    ordered = distinct.take(pc.sort_indices(distinct))
    if outcome is Outcome.FALSE:
        single: Mask = False if x.nan or x.cut_off else pc.equal(x.low, x.high)
        return conjunction(_some_value(x), inverse(conjunction(single, _listed(x.low, ordered))))
    if x.high is x.low:
        return conjunction(_some_value(x), _listed(x.low, ordered))
    first, last = literal_bounds(x.type, ordered[0]), literal_bounds(x.type, ordered[-1])
    between = conjunction(compare("<=", first, x, outcome, nan=False), compare("<=", x, last, outcome))
    return conjunction(between, _lists_one_between(x.low, x.high, ordered))


def compare(operator: str, x: Bounds, y: Bounds, outcome: Outcome, nan: bool = True) -> Mask:
    """Whether ``x operator y`` may come out so.

    :param nan: whether a NaN in ``y`` counts as a value above its bounds.
    """
    if operator == "<=>":
        if outcome is Outcome.NULL:
            return False
        equal = compare("=", x, y, outcome)
        if outcome is Outcome.TRUE:
            return disjunction(equal, conjunction(x.some_null(), y.some_null()))
        one_null = disjunction(conjunction(x.some_null(), _some_value(y)), conjunction(_some_value(x), y.some_null()))
        return disjunction(equal, one_null)
    if outcome is Outcome.NULL:
        return disjunction(x.some_null(), y.some_null())
    both = conjunction(_some_value(x), _some_value(y))
    if both is False:
        return False  # one side is the literal NULL
    if not comparable(x, y) or _is_nan(x) or _is_nan(y) or (x.is_literal and y.is_literal):
        return MAYBE
    if operator == "=" and outcome is Outcome.TRUE:
        met = MAYBE if x.nan and y.nan else conjunction(_reaches(x, y, False), _reaches(y, x, False))
    elif operator == "=":
        met = inverse(_always_equal(x, y))
    else:
        strict = operator == "<"
        lower, upper = x, y
        if outcome is Outcome.FALSE:
            lower, upper, strict = y, x, not strict
        met = MAYBE if upper.nan and nan else _reaches(lower, upper, strict)
    return conjunction(met, both)


def comparable(x: Bounds, y: Bounds) -> bool:
    """Whether bounds are known on both sides, in types that Arrow compares as Spark does."""
    if x.low is MAYBE or y.low is MAYBE:
        return False
    return _family(x.type) is not None and _family(x.type) == _family(y.type)


def _family(kind: DataType) -> str | None:
    if isinstance(kind, DecimalType):
        return "decimal"
    if not isinstance(kind, PrimitiveType):
        return None
    return "integral" if kind.name in INTEGRAL_RANGES else "floating" if kind.name in _FLOATING else kind.name


def _is_nan(x: Bounds) -> bool:
    return x.is_literal and _family(x.type) == "floating" and x.low.as_py() != x.low.as_py()


def _some_value(x: Bounds) -> Mask:
    """Whether a row of the file may be other than null."""
    return inverse(x.all_null())


def _is_null(x: Bounds, outcome: Outcome) -> Mask:
    if outcome is Outcome.NULL:
        return False
    return x.some_null() if outcome is Outcome.TRUE else _some_value(x)


def _reaches(lower: Bounds, upper: Bounds, strict: bool) -> Mask:
    """Whether a value of ``lower`` may be less than (or equal to, unless ``strict``) one of ``upper``, NaN aside."""
    if _family(lower.type) == "floating":
        # The other way round, so that a bound that is itself NaN keeps the file.
        over = pc.greater_equal if strict else pc.greater
        return inverse(over(lower.low, upper.high))
    met = (pc.less if strict else pc.less_equal)(lower.low, upper.high)
    if not upper.cut_off:
        return met
    return disjunction(met, _is_cut_off(upper.high, lower.low.as_py(), strict)) if lower.is_literal else MAYBE


def _is_cut_off(high: Any, text: str, strict: bool) -> Mask:
    """:func:`may_be_cut_off_from` for the maxima of all files at once; ``strict``: a value after ``text`` itself."""
    if len(text) < CUT_OFF:
        return False
    # Lengths are cheap to compare, and rule out all maxima among keys that are equally long.
    near = (pc.less_equal if strict else pc.less)(pc.binary_length(high), len(text.encode()))
    if not pc.any(near).as_py():
        return False
    near = pc.and_(near, pc.greater_equal(high, pa.scalar(text[:CUT_OFF])))
    rows = pc.indices_nonzero(near).to_numpy()
    if len(rows) == 0:
        return False
    prefixes = pa.array([text[:length] for length in range(CUT_OFF, len(text) + 1)], high.type)
    found = np.zeros(len(high), dtype=bool)
    found[rows] = pc.is_in(high.take(pa.array(rows)), value_set=prefixes).to_numpy(zero_copy_only=False)
    return pa.array(found)


def _always_equal(x: Bounds, y: Bounds) -> Mask:
    """Whether all values of both are certainly one and the same."""
    for one, other in ((x, y), (y, x)):
        if one.nan or (one.cut_off and not (other.is_literal and len(other.low.as_py()) < CUT_OFF)):
            return False
    met = pc.equal(x.low, y.low)
    for one in (x, y):
        if one.low is not one.high:
            met = pc.and_kleene(met, pc.equal(one.low, one.high))
    return met


def _starts_with(x: Bounds, prefix: str, exact: bool, outcome: Outcome) -> Mask:
    """Where not ``exact``, more is asked of a value than the prefix."""
    if outcome is Outcome.NULL:
        return x.some_null()
    if x.type != STRING or x.low is MAYBE or x.is_literal:
        return MAYBE
    if outcome is Outcome.FALSE:
        within = pc.and_kleene(pc.starts_with(x.low, prefix), pc.starts_with(x.high, prefix)) if exact else False
        return conjunction(_some_value(x), inverse(within) if exact else MAYBE)
    met = _reaches(literal_bounds(STRING, pa.scalar(prefix)), x, strict=False)
    after = _successor(prefix)
    if after is not None:
        met = conjunction(met, pc.less(x.low, pa.scalar(after)))
    return conjunction(_some_value(x), met)


def _like(x: Bounds, pattern: str, escape: str, outcome: Outcome) -> Mask:
    """A pattern is a text, or a prefix with more behind it."""
    prefix: list[str] = []
    i = 0
    while i < len(pattern):
        if pattern[i] == escape:
            if pattern[i + 1 : i + 2] not in ("%", "_", escape):
                return MAYBE  # an error in Spark
            i += 1
        elif pattern[i] in "%_":
            return _starts_with(x, "".join(prefix), pattern[i:] == "%", outcome)
        prefix.append(pattern[i])
        i += 1
    return compare("=", x, literal_bounds(STRING, pa.scalar("".join(prefix))), outcome)


def _successor(prefix: str) -> str | None:
    """The smallest string after all that start with ``prefix``; ``None`` if no string is greater."""
    for i in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[i])
        if code < 0x10FFFF:
            return prefix[:i] + chr(0xE000 if code == 0xD7FF else code + 1)  # no text holds a surrogate
    return None


def _lists_one_between(low: Any, high: Any, ordered: pa.Array) -> Mask:
    """Whether one of the listed values lies between the bounds; ``MAYBE`` for types without a whole-number form."""
    if not (pa.types.is_integer(low.type) or pa.types.is_date32(low.type)):
        return MAYBE
    lows, highs, listed = (_numbers(v) for v in (low, high, ordered))
    following = np.searchsorted(listed, lows)
    hit = (following < len(listed)) & (listed[np.minimum(following, len(listed) - 1)] <= highs)
    return pc.or_kleene(pc.or_kleene(pc.is_null(low), pc.is_null(high)), pa.array(hit))


def _numbers(values: Any) -> np.ndarray:
    whole = values.cast(pa.int32()) if pa.types.is_date32(values.type) else values
    numbers: np.ndarray = whole.cast(pa.int64()).fill_null(0).to_numpy()
    return numbers


def _listed(values: Any, ordered: pa.Array) -> Mask:
    """Whether each value is one of the listed ones; null where the value is."""
    if pa.types.is_floating(values.type):
        values, ordered = pc.add(values, 0.0), pc.add(ordered, 0.0)  # a set may tell -0.0 from 0.0
    return pc.if_else(pc.is_null(values), pa.scalar(None, pa.bool_()), pc.is_in(values, value_set=ordered))
