"""Names are split as Spark splits them, and quoted so that they come back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.tables.names import literal, named_path, path_name, quote, split_name


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("a", ["a"]),
        ("t.a.b", ["t", "a", "b"]),
        ("`a.b`.c", ["a.b", "c"]),
        ("a.`b``c`", ["a", "b`c"]),
        ("first name", ["first name"]),
        ("delta.`/a/b.c`", ["delta", "/a/b.c"]),
    ],
)
def test_a_name_is_split_at_dots_outside_backticks(name, parts):
    assert split_name(name) == parts


@pytest.mark.parametrize("name", ["", "a.", ".a", "a..b", "`a", "`a`b", "a`b`", "``", " "])
def test_what_is_no_name(name):
    with pytest.raises(ValueError, match="no name"):
        split_name(name)


@given(st.lists(st.text(min_size=1).filter(str.strip), min_size=1))
def test_quoted_names_come_back(parts):
    assert split_name(quote(*parts)) == parts


def test_a_path_and_its_quoted_name_become_each_other():
    assert path_name("/a/b") == "delta.`/a/b`"
    assert path_name("s3a://b/`x") == "delta.`s3a://b/``x`"
    assert path_name("here") == "delta.`./here`"
    assert named_path(["Delta", "/a"]) == "/a"
    assert named_path(["delta", "a"]) is None
    assert named_path(["a", "/b"]) is None


def test_a_literal_is_escaped_as_sql_reads_it():
    assert literal("it's \\ so") == "'it\\'s \\\\ so'"
