"""The changelog over the groups of a change feed: the columns of a row's kind and ordinal, and pairs by keys.

Owns the query by which Spark computes them; what an ordinal means is :mod:`headwater.change_data.changelog`. Promise:
without keys each row's columns follow from the row alone, so nothing is shuffled or sorted. With keys, this holds for
all rows but the images of updates in files whose pairs are not known.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.change_data.changelog import (
    CHANGE_TYPE,
    CLASS_SHIFT,
    ORDINAL,
    PAIRED_BY_KEYS,
    ROW_KIND,
    ROW_KIND_CODE,
    RowKind,
)
from headwater.protocol.types import PrimitiveType, StructField, StructType
from headwater.sql.composing import (
    STAR,
    Alias,
    Case,
    Cast,
    Column,
    Least,
    Number,
    Over,
    Query,
    Relation,
    Select,
    Text,
    UnionAll,
    call,
    equal,
    infix,
    is_not_null,
    select,
    when,
)
from headwater.statements.internal_names import InternalNames

#: The columns after those of the feed.
COLUMNS = (
    StructField(ROW_KIND, PrimitiveType("string")),
    StructField(ROW_KIND_CODE, PrimitiveType("byte")),
    StructField(ORDINAL, PrimitiveType("long")),
)

#: The kinds in the order in which they are looked for: most rows of change data files are images.
_MOST_LIKELY_FIRST = (RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.INSERT, RowKind.DELETE)


class ChangelogNames:
    """Names of the columns that the query needs beside a feed's: ``position``, of a row in its file; ``order``, a
    file's part of the ordinal; ``code``, of a row's kind; ``number``, of an image among those of its kind and key;
    ``before`` and ``after``, the ordinals of a pair's two.
    """

    def __init__(self, feed: StructType) -> None:
        names = InternalNames.beside([*feed.names, *(field.name for field in COLUMNS)])
        self.position, self.order = names.of("row_position"), names.of("file_order")
        self.code = names.of("kind")
        self.number = names.of("image_number")
        self.before, self.after = names.of("preimage_order"), names.of("postimage_order")

    @property
    def in_files(self) -> tuple[StructField, StructField]:
        """Those that the groups' relations have."""
        long = PrimitiveType("long")
        return StructField(self.position, long), StructField(self.order, long)


def compose(
    feed: StructType,
    names: ChangelogNames,
    version: str,
    paired: Sequence[bool | None],
    keys: Sequence[str],
    *,
    in_order: bool,
) -> Query:
    """The changelog's rows.

    :param feed: the columns of the change feed.
    :param version: the one of them that is the commit's version.
    :param paired: for each group whether its images are paired; None if it has none.
    :param keys: columns by which those that are not are paired; none where no keys were given.
    :param in_order: whether the rows are sorted.
    """
    parts = []
    for number, is_paired in enumerate(paired):
        rows: Query = _rows(feed, names, Relation(number), is_paired=bool(is_paired))
        if is_paired is False and keys:
            rows = _paired_by_keys(feed, names, version, keys, rows)
        parts.append(rows)
    query: Query = parts[0] if len(parts) == 1 else UnionAll(tuple(parts))
    if not in_order:
        return query
    return Select((STAR,), query, order_by=(Column(version), Column(ORDINAL)))


def _rows(feed: StructType, names: ChangelogNames, rows: Relation, *, is_paired: bool) -> Select:
    """A group's rows, ordered by their files and positions alone."""
    # The word of the feed is compared once for each row; the number that stands for it is quicker to compare.
    known = Case(
        tuple((equal(Column(CHANGE_TYPE), Text(kind.change_type)), Number(kind.code)) for kind in _MOST_LIKELY_FIRST)
    )
    numbered = select(STAR, Alias(known, names.code), rows=rows)
    kinds = [(equal(Column(names.code), Number(kind.code)), kind) for kind in _MOST_LIKELY_FIRST]
    text = Case(tuple((condition, Text(kind.text)) for condition, kind in kinds))
    of_class = Case(
        tuple((condition, Number(kind.row_class(is_paired=is_paired), is_long=True)) for condition, kind in kinds)
    )
    return select(
        *(Column(field.name) for field in feed),
        Alias(text, ROW_KIND),
        Alias(Cast(Column(names.code), PrimitiveType("byte")), ROW_KIND_CODE),
        Alias(infix("+", of_class, Column(names.order), Column(names.position)), ORDINAL),
        rows=numbered,
    )


def _paired_by_keys(feed: StructType, names: ChangelogNames, version: str, keys: Sequence[str], rows: Query) -> Query:
    """The same with images of one commit and key side by side: the n-th preimage and the n-th postimage are a pair."""
    ordinal, kind = Column(ORDINAL), Column(ROW_KIND)
    before, after = (equal(kind, Text(image.text)) for image in (RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER))
    of_key = (Column(version), *map(Column, keys))
    numbered = select(STAR, Alias(Over(call("row_number"), (*of_key, kind), ordinal), names.number), rows=rows)
    # Of rows with the same number, one is a preimage and one a postimage, or one of them is missing.
    of_pair = (*of_key, infix("OR", before, after), Column(names.number))
    paired = select(
        STAR,
        Alias(Least(when(before, ordinal), of_pair), names.before),
        Alias(Least(when(after, ordinal), of_pair), names.after),
        rows=numbered,
    )
    rest = infix("-", Column(names.before), Number(RowKind.UPDATE_BEFORE.row_class(is_paired=False), is_long=True))
    order = infix(
        "+",
        Number(PAIRED_BY_KEYS << CLASS_SHIFT, is_long=True),
        infix("*", Number(2), rest),
        when(after, Number(1), Number(0)),
    )
    is_pair = infix(
        "AND", infix("OR", before, after), is_not_null(Column(names.before)), is_not_null(Column(names.after))
    )
    columns = [*feed.names, ROW_KIND, ROW_KIND_CODE]
    return select(*map(Column, columns), Alias(when(is_pair, order, ordinal), ORDINAL), rows=paired)
