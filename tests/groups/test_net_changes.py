"""The change data of several statements: which of their files count, and what is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyroaring import BitMap64

from headwater.basics.errors import HeadwaterError
from headwater.groups.net_changes import are_plain, check, missing
from headwater.protocol.actions import AddCDCFile, DeletionVector, RemoveFile
from headwater.protocol.types import PrimitiveType, StructField, StructType
from headwater.transaction.content import Content
from headwater.transaction.row_level import Mark
from support.commits import add_file

SCHEMA = StructType((StructField("id", PrimitiveType("long")),))
ROWS = 10
#: The deletion vectors of tests, by their texts.
VECTORS = {"a": BitMap64([1]), "ab": BitMap64([1, 2]), "abc": BitMap64([1, 2, 3])}


def vector(text: str | None) -> DeletionVector | None:
    return None if text is None else DeletionVector("u", text, 1, 1, len(VECTORS[text]))


def read(found: DeletionVector) -> BitMap64:
    return VECTORS[found.path_or_inline]


def remove(name: str, marked: str | None = None) -> RemoveFile:
    return RemoveFile(name, 1, partition_values={}, size=1, deletion_vector=vector(marked))


def statement(*, adds=(), removes=(), marks=(), changes=False) -> Content:
    """``marks``: files with the vector before and the one after."""
    content = Content()
    content.added += [add_file(each) if isinstance(each, str) else each for each in adds]
    content.removed += [remove(each) if isinstance(each, str) else each for each in removes]
    for name, before, after in marks:
        old = VECTORS.get(before, BitMap64())
        add = replace(add_file(name), deletion_vector=vector(after))
        content.marks.put(Mark(remove(name, before), add, VECTORS[after] - old, ROWS))
    content.changes += [AddCDCFile("c", {}, 1)] if changes else []
    return content


def lacking(*contents: Content) -> tuple[list[str], dict[str, list[int]]] | None:
    """The files whose rows are to be recorded as inserted, and the positions of those deleted, by file."""
    found = missing(contents, read)
    if found is None:
        return None
    everything = BitMap64(range(ROWS))
    return (
        [file.path for file in found.inserted],
        {rows.path: list(everything - rows.others(ROWS)) for rows in found.deleted},
    )


UPDATE = statement(adds=["u"], marks=[("0", None, "a")], changes=True)


def test_one_statement_and_plain_ones_need_nothing():
    inserted, deleted = statement(adds=["1"]), statement(removes=["0"])
    assert are_plain([inserted, deleted]) == [True, True]
    assert lacking(UPDATE) is lacking(inserted, deleted) is lacking(UPDATE, UPDATE) is None


def test_no_vector_is_read_where_all_statements_are_plain():
    def unread(found: DeletionVector) -> BitMap64:
        raise AssertionError(found)

    marked = replace(add_file("0"), deletion_vector=vector("ab"))
    contents = [statement(adds=["1"]), statement(removes=[remove("0", "a")], adds=[marked])]
    assert missing(contents, unread) is None
    with pytest.raises(AssertionError):
        missing([UPDATE, *contents], unread)


@pytest.mark.parametrize("first", [True, False])
def test_what_plain_statements_changed_is_missing_beside_another(first):
    def beside(*plain: Content) -> tuple[list[str], dict[str, list[int]]] | None:
        return lacking(UPDATE, *plain) if first else lacking(*plain, UPDATE)

    assert beside(statement(adds=["1"])) == (["1"], {})
    assert beside(statement(removes=["5"])) == ([], {"5": list(range(ROWS))})
    assert beside(statement(removes=[remove("5", "ab")])) == ([], {"5": [0, *range(3, ROWS)]})
    assert beside(statement(marks=[("5", "a", "abc")])) == ([], {"5": [2, 3]})
    again = replace(add_file("5"), deletion_vector=vector("abc"))
    assert beside(statement(removes=[remove("5", "a")], adds=[again])) == ([], {"5": [2, 3]})
    taken_back = statement(adds=["1", "2"]), statement(removes=["1"]), statement(marks=[("2", None, "a")])
    assert beside(*taken_back) == (["2"], {})


def test_rows_of_a_file_that_several_statements_delete_are_each_recorded_once():
    marked = statement(marks=[("0", "a", "ab")])
    assert lacking(UPDATE, marked) == ([], {"0": [2]})
    assert lacking(UPDATE, marked, statement(removes=[remove("0", "ab")])) == ([], {"0": [0, *range(2, ROWS)]})
    assert lacking(UPDATE, statement(removes=[remove("0", "a")])) == ([], {"0": [0, *range(2, ROWS)]})


def test_rows_that_were_new_before_are_new_whatever_changed_them():
    inserted = statement(adds=["1"])
    rewritten = statement(removes=["1"], adds=["2"], changes=True)
    assert are_plain([inserted, rewritten]) == [True, True]
    assert lacking(inserted, rewritten) is None
    assert lacking(inserted, rewritten, UPDATE) == (["2"], {})


def test_files_that_only_move_rows_are_no_changes():
    moved = statement(
        adds=[replace(add_file("m"), data_change=False)], removes=[replace(remove("5"), data_change=False)]
    )
    assert lacking(moved, UPDATE) is None


@pytest.mark.parametrize(
    "last",
    [
        statement(removes=["u"], adds=["v"], changes=True),
        statement(removes=["u"]),
        statement(marks=[("u", None, "a")]),
        statement(removes=["1"], marks=[("0", "a", "ab")], changes=True),
    ],
)
def test_rows_that_are_changed_twice_are_refused(last):
    before = statement(adds=["1"]), UPDATE
    check(before, SCHEMA, SCHEMA, "t")
    check([*before, statement(removes=["1"])], SCHEMA, SCHEMA, "t")
    check([*before, statement(marks=[("0", "a", "ab")], changes=True)], SCHEMA, SCHEMA, "t")
    with pytest.raises(HeadwaterError, match="HEADWATER_NOT_IN_TRANSACTION"):
        check([*before, last], SCHEMA, SCHEMA, "t")


def test_a_column_of_another_type_cannot_be_recorded():
    wider = StructType((StructField("id", PrimitiveType("string")), StructField("n", PrimitiveType("long"))))
    more = StructType((*SCHEMA.fields, StructField("n", PrimitiveType("long"))))
    both = [UPDATE, statement(adds=["1"])]
    check(both, SCHEMA, more, "t")
    check([both[1], both[1]], SCHEMA, wider, "t")
    with pytest.raises(HeadwaterError, match="HEADWATER_NOT_IN_TRANSACTION"):
        check(both, SCHEMA, wider, "t")
