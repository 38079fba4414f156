"""Per-file statistics as typed Arrow columns.

Owns the way from the JSON text or the ``stats_parsed`` columns of statistics to minimum, maximum and null count of a
leaf column. Follows the protocol's chapter "Per-file Statistics". Promise: a bound is either right or null. What is
absent, damaged, of the wrong type, not a number or of a day that the Julian calendar skips gives null for that file.
Bounds that their writer may have rounded are widened, so that they bound but need not be values of the file:

- maxima of timestamps, which the protocol truncates to milliseconds, by 999 microseconds;
- timestamps before 1972, when some zones had offsets with seconds, by a minute: old writers left these seconds out;
- decimals with more digits than a double holds, by the error of a double: some writers convert them to doubles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timezone
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.basics.errors import HeadwaterError
from headwater.basics.julian import FIRST_DAY
from headwater.basics.times import MICROSECONDS_OF_DAY
from headwater.log.files import FileBlock
from headwater.log.statistics.json_values import JsonPath, read_ahead, values_of
from headwater.protocol.partition_values import parse_date, parse_timestamp
from headwater.protocol.types import INTEGERS, DataType, DecimalType, PrimitiveType, StructType

#: Below the precision at which a double cannot tell two decimals apart, the quick parser's doubles are exact.
_EXACT_DOUBLE_DIGITS = 15
#: The most significant digits that a double is printed with.
_DOUBLE_DIGITS = 17
#: Making a double of a decimal rounds up to four times: its digits, the power of ten, their quotient, the text.
_ROUNDINGS = 4
_TRUNCATED_MICROSECONDS = 999
#: 1972-02-01. The last zone whose offset had seconds gave them up the month before.
_OFFSETS_HAVE_NO_SECONDS = 65_750_400_000_000
_MINUTE = 60_000_000
_UTC = timezone.utc
_EMPTY: dict[str, Any] = {}
_INFINITIES = {"Infinity": float("inf"), "-Infinity": float("-inf")}
_BOUNDED = {*INTEGERS, "float", "double", "string", "boolean", "date", "timestamp", "timestamp_ntz"}


@dataclass(frozen=True)
class Leaf:
    """A column that statistics are asked of: its path of physical names and its type, None if the schema has no
    such column.

    ``was_float``: the type was widened from float to double, so that the text of a file written before is that of a
    float.
    """

    path: tuple[str, ...]
    type: DataType | None
    was_float: bool = False

    @property
    def arrow_type(self) -> pa.DataType:
        try:
            return pa.null() if self.type is None else self.type.to_arrow()
        except HeadwaterError:  # a type this version does not know: there are no bounds, but null counts may be of use
            return pa.null()

    @property
    def bounded(self) -> bool:
        """Whether files can have a usable minimum and maximum of the column."""
        return isinstance(self.type, DecimalType) or (
            isinstance(self.type, PrimitiveType) and self.type.name in _BOUNDED
        )


def leaf_of(schema: StructType, path: Sequence[str]) -> Leaf:
    """The leaf of a path of physical names."""
    found: DataType = schema
    metadata: Any = _EMPTY
    for name in path:
        column = next((f for f in found if f.physical_name == name), None) if isinstance(found, StructType) else None
        if column is None:
            return Leaf(tuple(path), None)
        found, metadata = column.type, column.metadata
    changes = metadata.get("delta.typeChanges") or ()
    return Leaf(tuple(path), found, any(change.get("fromType") == "float" for change in changes))


def block_statistics(block: FileBlock, leaves: Sequence[Leaf], keeps: bool = True) -> dict[str, pa.ChunkedArray]:
    """The columns ``num_records``, ``tight_bounds`` and for each leaf ``min.i``, ``max.i``, ``nulls.i``, a row a file
    of the block.

    :param keeps: whether columns that had to be read are worth keeping beyond this process.
    """
    with block.lock:
        wanted = [leaf for leaf in dict.fromkeys((_GLOBAL, *leaves)) if leaf not in block.cache]
        if wanted:
            _find(block, wanted, keeps)
        num_records, tight_bounds, _ = block.cache[_GLOBAL]
        result = {"num_records": num_records, "tight_bounds": tight_bounds}
        for i, leaf in enumerate(leaves):
            result[f"min.{i}"], result[f"max.{i}"], result[f"nulls.{i}"] = block.cache[leaf]
        return result


#: The entry of a block's cache for the statistics that are of no column; its third column is unused.
_GLOBAL = Leaf((), None)
Columns = tuple[Any, Any, Any]


def _find(block: FileBlock, wanted: Sequence[Leaf], keeps: bool) -> None:
    """Put the columns of these into the block's cache: those that are kept on disk, and the others as they are read."""
    kept = block.statistics.kept
    if kept is not None:
        found = ((leaf, kept.read(_name(leaf), _schema(leaf), len(block))) for leaf in wanted)
        _take_mapped(block, {leaf: table for leaf, table in found if table is not None})
        wanted = [leaf for leaf in wanted if leaf not in block.cache]
    if not wanted:
        return
    read = _read(block, [leaf for leaf in wanted if leaf != _GLOBAL])
    for leaf in wanted:
        table = None
        if kept is not None and keeps:
            table = kept.write(_name(leaf), pa.table(list(read[leaf]), schema=_schema(leaf)))
        if table is None:
            block.cache[leaf] = read[leaf]
        else:
            _take_mapped(block, {leaf: table})


def _take_mapped(block: FileBlock, tables: Mapping[Leaf, pa.Table]) -> None:
    for leaf, table in tables.items():
        block.mapped.add(leaf)
        block.cache[leaf] = tuple(table.columns)


def _name(leaf: Leaf) -> str:
    """What a leaf's columns are kept under: all that they depend on beside the file."""
    return f"bounds {leaf.path!r} {leaf.type!r} {leaf.was_float}"


def _schema(leaf: Leaf) -> pa.Schema:
    return pa.schema([(str(number), kind) for number, kind in enumerate(_types(leaf))])


def _types(leaf: Leaf) -> tuple[pa.DataType, pa.DataType, pa.DataType]:
    """The types of a leaf's columns."""
    if leaf == _GLOBAL:
        return pa.int64(), pa.bool_(), pa.null()
    return leaf.arrow_type, leaf.arrow_type, pa.int64()


def _read(block: FileBlock, leaves: Sequence[Leaf]) -> dict[Leaf, Columns]:
    """The columns of the asked leaves and of :data:`_GLOBAL`: from ``stats_parsed``, and from text for files it says
    nothing of.
    """
    parsed = _read_parsed(block, leaves)
    if parsed is None:
        return _read_texts(block, leaves, None)
    known = parsed[_GLOBAL][0].is_valid()
    if pc.all(known).as_py() in (True, None):
        return parsed
    unknown = ~known.to_numpy()
    texts = _read_texts(block, leaves, unknown)
    result: dict[Leaf, Columns] = {}
    for leaf, columns in parsed.items():
        low, high, nulls = (pc.coalesce(a, b) for a, b in zip(columns, texts[leaf], strict=True))
        result[leaf] = (low, high, nulls)
    return result


def _read_parsed(block: FileBlock, leaves: Sequence[Leaf]) -> dict[Leaf, Columns] | None:
    paths: list[tuple[str, ...]] = [("numRecords",), ("tightBounds",)]
    for leaf in leaves:
        paths += [(kind, *leaf.path) for kind in ("minValues", "maxValues", "nullCount")]
    found = block.statistics.parsed(paths)
    if found is None:
        return None
    count = len(block)

    def column(path: tuple[str, ...], wanted: pa.DataType) -> pa.ChunkedArray:
        values = found.get(path)
        usable = values is not None and values.type == wanted
        return values if usable else _nulls(count, wanted)

    result: dict[Leaf, Columns] = {
        _GLOBAL: (column(("numRecords",), pa.int64()), column(("tightBounds",), pa.bool_()), _nulls(count, pa.null()))
    }
    for leaf in leaves:
        bounds = []
        for kind in ("minValues", "maxValues"):
            values = found.get((kind, *leaf.path))
            usable = values is not None and leaf.bounded
            bounds.append(_bounds_of_parsed(values, leaf, kind) if usable else _nulls(count, leaf.arrow_type))
        result[leaf] = (*bounds, column(("nullCount", *leaf.path), pa.int64()))
    return result


def _bounds_of_parsed(values: pa.ChunkedArray, leaf: Leaf, kind: str) -> pa.ChunkedArray:
    """Bounds from a checkpoint's typed column, in the type the leaf has now; nulls where the two types do not fit."""
    wanted = leaf.arrow_type
    try:
        if pa.types.is_timestamp(wanted):
            if not (pa.types.is_timestamp(values.type) or (pa.types.is_date(values.type) and wanted.tz is None)):
                return _nulls(len(values), wanted)
            # A checkpoint's times are instants in UTC whether its schema says so or not (INT96 cannot).
            values = values.cast(pa.timestamp("us", values.type.tz) if pa.types.is_timestamp(values.type) else wanted)
            values = values.cast(pa.int64())
        elif not _widens(values.type, wanted):
            return _nulls(len(values), wanted)
        elif values.type != wanted:
            values = values.cast(wanted)
    except pa.ArrowException:
        return _nulls(len(values), wanted)
    return pa.chunked_array([_finish(chunk, leaf, kind) for chunk in values.chunks], wanted)


def _widens(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether every value of one type is one of the other, as type widening has it."""
    types = pa.types
    if given == wanted or (types.is_large_string(given) and types.is_string(wanted)):
        return True
    if types.is_signed_integer(given):
        fits = types.is_signed_integer(wanted) and wanted.bit_width > given.bit_width
        return bool(fits or types.is_decimal(wanted) or (types.is_float64(wanted) and given.bit_width <= 32))
    if types.is_decimal(given) and types.is_decimal(wanted):
        return bool(wanted.scale >= given.scale and wanted.precision - wanted.scale >= given.precision - given.scale)
    return bool(types.is_float32(given) and types.is_float64(wanted))


def _read_texts(block: FileBlock, leaves: Sequence[Leaf], only: np.ndarray | None) -> dict[Leaf, Columns]:
    """The columns from JSON; with ``only``, files where it is false are left null."""
    wanted: dict[JsonPath, Any] = {("numRecords",): int | None, ("tightBounds",): bool | None}
    for leaf in leaves:
        if leaf.bounded:
            kind = _json_type(leaf.type) | None
            wanted |= {("minValues", *leaf.path): kind, ("maxValues", *leaf.path): kind}
        wanted |= {("nullCount", *leaf.path): int | None}
    pieces: dict[Leaf, tuple[list[pa.Array], ...]] = {leaf: ([], [], []) for leaf in (_GLOBAL, *leaves)}
    start = 0
    texts = block.statistics.texts()
    for piece in texts if block.in_memory else read_ahead(texts):
        if only is not None:
            piece = pc.if_else(pa.array(only[start : start + len(piece)]), piece, pa.scalar(None, pa.string()))
        start += len(piece)
        values = values_of(piece.to_pylist(), wanted)
        records, tight, _ = pieces[_GLOBAL]
        records.append(_counts(values["numRecords",]))
        tight.append(pa.array([v if type(v) is bool else None for v in values["tightBounds",]], pa.bool_()))
        for leaf in leaves:
            for slot, section in enumerate(("minValues", "maxValues")):
                path = (section, *leaf.path)
                if leaf.bounded:
                    bounds = _finish(_typed(values[path], leaf), leaf, section)
                else:
                    bounds = pa.nulls(len(piece), leaf.arrow_type)
                pieces[leaf][slot].append(bounds)
            path = ("nullCount", *leaf.path)
            pieces[leaf][2].append(_counts(values[path]))
    result: dict[Leaf, Columns] = {}
    for leaf, (low, high, nulls) in pieces.items():
        types = _types(leaf)
        result[leaf] = (
            pa.chunked_array(low, types[0]),
            pa.chunked_array(high, types[1]),
            _nulls(len(block), types[2]) if leaf == _GLOBAL else pa.chunked_array(nulls, types[2]),
        )
    return result


def _json_type(data_type: DataType | None) -> Any:
    """The Python type that JSON has for a bound of the type."""
    if isinstance(data_type, DecimalType):
        return float if data_type.precision <= _EXACT_DOUBLE_DIGITS else Decimal
    name = data_type.name if isinstance(data_type, PrimitiveType) else ""
    if name in INTEGERS:
        return int
    if name in ("float", "double"):
        return float | str  # infinities and NaN are text
    return bool if name == "boolean" else str


def _counts(values: list[Any]) -> pa.Array:
    if _only(int, values):
        try:
            counts = pa.array(values, pa.int64())
        except (OverflowError, pa.ArrowInvalid):
            pass
        else:
            if not (pc.min(counts).as_py() or 0) < 0:
                return counts
    return pa.array([v if type(v) is int and 0 <= v < 2**63 else None for v in values], pa.int64())


def _only(kind: type, values: list[Any]) -> bool:
    """Whether the values are all of exactly that type, or None."""
    return set(map(type, values)) <= {kind, type(None)}


def _typed(values: list[Any], leaf: Leaf) -> pa.Array:
    """JSON values as an array of the leaf's type (times as int64 microseconds); null where one is none of the type."""
    data_type, wanted = leaf.type, leaf.arrow_type
    if isinstance(data_type, DecimalType):
        return _decimals(values, data_type)
    name = data_type.name if isinstance(data_type, PrimitiveType) else ""
    if name in INTEGERS:
        integers = values if _only(int, values) else [v if type(v) is int else None for v in values]
        try:
            return pa.array(integers, wanted)
        except (OverflowError, pa.ArrowInvalid):
            limit = 1 << (wanted.bit_width - 1)
            return pa.array([v if v is not None and -limit <= v < limit else None for v in integers], wanted)
    if name in ("float", "double"):
        doubles = values if _only(float, values) else [v if type(v) is float else _double(v) for v in values]
        return pa.array(doubles, pa.float64()).cast(wanted, safe=False)
    if name == "boolean":
        return pa.array([v if type(v) is bool else None for v in values], wanted)
    texts = values if _only(str, values) else [v if type(v) is str else None for v in values]
    if name == "string":
        try:
            return pa.array(texts, wanted)
        except UnicodeEncodeError:  # half of a surrogate pair, where a writer truncated between the two
            return pa.array([t if t is not None and _is_unicode(t) else None for t in texts], wanted)
    return _times(texts, name)


def _double(value: Any) -> float | None:
    if type(value) is str:
        return _INFINITIES.get(value)
    if isinstance(value, (int, Decimal)) and type(value) is not bool:
        try:
            return float(value)
        except OverflowError:
            return None
    return None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _times(texts: list[str | None], name: str) -> pa.Array:
    """Dates as date32, times as int64 microseconds since the epoch."""
    quick = {"date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us")}[name]
    try:
        array = pa.array(texts, pa.string()).cast(quick)
    except (pa.ArrowInvalid, UnicodeEncodeError):
        times = [None if text is None else _time(text, name) for text in texts]
        return pa.array(times, pa.int32()).cast(pa.date32()) if name == "date" else pa.array(times, pa.int64())
    return array if name == "date" else array.cast(pa.int64())


def _time(text: str, name: str) -> int | None:
    try:
        if name == "date":
            return parse_date(text)
        # An instant needs a zone in its text, and a wall clock time must not have one: else it could mean two things.
        if name == "timestamp" and not (text.endswith("Z") or "+" in text[10:] or "-" in text[10:]):
            return None
        return parse_timestamp(text, None if name != "timestamp" else _UTC)
    except (ValueError, OverflowError):
        return None


def _decimals(values: list[Any], data_type: DecimalType) -> pa.Array:
    wanted = data_type.to_arrow()
    if data_type.precision <= _EXACT_DOUBLE_DIGITS and not any(type(v) is Decimal for v in values):
        doubles = pa.array([float(v) if type(v) in (int, float) else None for v in values], pa.float64())
        try:
            decimals = doubles.cast(wanted)
            # A text with more digits than the type has would be rounded, perhaps to inside of the bound.
            return pc.if_else(pc.equal(decimals.cast(pa.float64()), doubles), decimals, pa.scalar(None, wanted))
        except pa.ArrowInvalid:
            pass
    quantum = Decimal(1).scaleb(-data_type.scale)
    context = Context(prec=data_type.precision, traps=[Inexact, InvalidOperation])

    def exact(value: Any) -> Decimal | None:
        if type(value) not in (int, float, Decimal):
            return None
        try:
            number = Decimal(repr(value) if type(value) is float else value)
            return number.quantize(quantum, context=context) if number.is_finite() else None
        except ArithmeticError:
            return None

    return pa.array([exact(value) for value in values], wanted)


def _finish(values: pa.Array, leaf: Leaf, kind: str) -> pa.Array:
    """What makes a value a bound: widened where writers round, null where it compares with nothing."""
    wanted = leaf.arrow_type
    if pa.types.is_date(wanted) or pa.types.is_timestamp(wanted):
        values = _without_skipped_days(values)
    if pa.types.is_timestamp(wanted):
        if wanted.tz is not None:
            old = pc.less(values, pa.scalar(_OFFSETS_HAVE_NO_SECONDS))
            values = _moved(values, old, -_MINUTE if kind == "minValues" else _MINUTE)
        if kind == "maxValues":
            values = _moved(values, True, _TRUNCATED_MICROSECONDS)
        return values.cast(pa.timestamp("us")).cast(wanted) if wanted.tz is None else values.cast(wanted)
    if pa.types.is_decimal(wanted):
        return _decimals_beside_doubles(values, wanted, kind)
    if pa.types.is_floating(wanted):
        if pc.any(pc.is_nan(values)).as_py():
            values = pc.if_else(pc.is_nan(values), pa.scalar(None, wanted), values)
        if leaf.was_float and pa.types.is_float64(wanted):
            as_float = values.cast(pa.float32(), safe=False).cast(pa.float64())
            choose = pc.min_element_wise if kind == "minValues" else pc.max_element_wise
            values = choose(values, as_float)
    return values


def _without_skipped_days(values: pa.Array) -> pa.Array:
    """Dates or microseconds, without those of the ten days that Spark 2's calendar skips. A writer in Spark's legacy
    mode records such a day and writes a later one, so they are no bounds.
    """
    is_date = pa.types.is_date(values.type)
    counts = values.cast(pa.int32()) if is_date else values
    # Times are of these days in some time zone.
    end = FIRST_DAY if is_date else (FIRST_DAY + 1) * MICROSECONDS_OF_DAY
    least = pc.min(counts).as_py()
    if least is None or least >= end:
        return values
    start = FIRST_DAY - 10 if is_date else (FIRST_DAY - 11) * MICROSECONDS_OF_DAY
    skipped = pc.and_(pc.greater_equal(counts, start), pc.less(counts, end))
    return pc.if_else(skipped, pa.scalar(None, values.type), values)


def _moved(values: pa.Array, which: Any, by: int) -> pa.Array:
    """Whole numbers with an amount added to some of them; null if the sum does not fit into 64 bits."""
    if which is not True:
        if not pc.any(which).as_py():
            return values
        amounts = pc.if_else(which, pa.scalar(by), pa.scalar(0))
    else:
        amounts = pa.scalar(by)
    limit = pa.scalar(2**63 - 1 - by if by > 0 else -(2**63) - by)
    fits = (pc.less if by > 0 else pc.greater)(values, limit)
    return pc.if_else(fits, pc.add(values, amounts), pa.scalar(None, pa.int64()))


def _decimals_beside_doubles(values: pa.Array, wanted: pa.DataType, kind: str) -> pa.Array:
    """Bounds that also hold if a bound is the text of a double, and not the decimal itself."""
    if wanted.precision <= _EXACT_DOUBLE_DIGITS:
        return values
    # Below this, doubles lie closer together than the decimals of the type.
    least = Decimal(2**52 // _ROUNDINGS).scaleb(-wanted.scale)
    far = pc.or_(pc.greater_equal(values, pa.scalar(least, wanted)), pc.less_equal(values, pa.scalar(-least, wanted)))
    if not pc.any(far).as_py():
        return values
    wide = pa.decimal256(62, wanted.scale + 2)
    doubles, decimals = values.cast(pa.float64()), values.cast(wide)
    unit = Decimal(1).scaleb(-wanted.scale)
    rounded = pc.abs(pc.subtract(doubles.cast(wide, safe=False), decimals))
    is_double = pc.less_equal(rounded, pa.scalar(unit * 51 / 100, wide))
    inexact = pc.and_(far, pc.or_(is_double, pc.less_equal(_significant_digits(values), _DOUBLE_DIGITS)))
    distances = pa.array(_ROUNDINGS * np.spacing(np.abs(pc.fill_null(doubles, 0).to_numpy(zero_copy_only=False))))
    move = pc.subtract if kind == "minValues" else pc.add
    # The casts of both cut digits off.
    moved = move(decimals, pc.add(distances.cast(wide, safe=False), pa.scalar(unit, wide)))
    limit = pa.scalar(Decimal(1).scaleb(wanted.precision - wanted.scale), pa.decimal256(40, 0))
    moved = pc.if_else(pc.less(pc.abs(moved), limit), moved, pa.scalar(None, moved.type)).cast(wanted, safe=False)
    return pc.if_else(inexact, moved, values)


def _significant_digits(decimals: pa.Array) -> pa.Array:
    texts = decimals.cast(pa.string())
    if pc.any(pc.match_substring(texts, "E")).as_py():
        texts = pc.replace_substring_regex(texts, "E.*", "")
    digits = pc.utf8_trim(texts, "-0.")
    return pc.subtract(pc.utf8_length(digits), pc.count_substring(digits, "."))


def _nulls(count: int, data_type: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([pa.nulls(count, data_type)], data_type)
