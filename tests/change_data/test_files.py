"""Which files, and which of their rows, hold the changes of a commit."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from headwater.basics.errors import HeadwaterError
from headwater.change_data.files import changed_files
from headwater.log import deletion_vectors
from headwater.log.commits import parse_actions
from headwater.protocol.actions import DeletionVector
from headwater.stores import LocalStore
from support.hand_made import add, cdc, remove
from support.inline_vectors import inline


def files(*actions, table="/nowhere"):
    content = "".join(json.dumps(action) + "\n" for action in actions).encode()
    return list(changed_files(7, parse_actions(content, "a commit"), table, LocalStore()))


def kinds(found):
    return [(file.path, file.change_type) for file in found]


def vector(*rows):
    return inline(BitMap64(rows)).to_json()


def rows_of(file, length=20):
    """The rows of a file of ``length`` rows that a changed file names."""

    def positions(descriptor):
        return set() if descriptor is None else set(deletion_vectors.read(descriptor, "/nowhere", LocalStore()))

    named = set(range(length)) if file.only is None else positions(file.only)
    return named - positions(file.without)


def test_adds_are_inserts_and_removes_are_deletes():
    found = files(add("one"), remove("two", partitionValues={"p": "x"}, size=3), add("three"))
    assert kinds(found) == [("one", "insert"), ("three", "insert"), ("two", "delete")]
    assert found[2].partition_values == {"p": "x"}
    assert [(file.version, file.size, file.modification_time) for file in found] == [
        (7, 10, 5),
        (7, 10, 5),
        (7, 3, None),
    ]


def test_change_files_are_all_that_is_read():
    found = files(add("one"), cdc("_change_data/c", partitionValues={"p": None}), remove("two"))
    assert kinds(found) == [("_change_data/c", None)]
    assert found[0].partition_values == {"p": None}


def test_actions_that_change_no_data_are_passed_over():
    assert files(add("one", dataChange=False), remove("two", dataChange=False)) == []
    assert kinds(files(add("one", dataChange=False), remove("two"))) == [("two", "delete")]


@pytest.mark.parametrize(
    ("engine", "believed"),
    [
        ("Apache-Spark/4.2.0 Headwater/0.1.0", True),
        ("Headwater/0.1.0", True),
        ("Apache-Spark/4.1.2 Delta-Lake/4.3.1", True),
        ("Databricks-Runtime/17.0.x-photon-scala2.13", True),
        ("delta-rs:py-1.6.0", False),
        ("My-Delta-Lake/1", False),
        (None, False),
        (5, False),
    ],
)
def test_a_merge_that_says_it_changed_no_row(engine, believed):
    """Engines that count the rows may have written the files again; one that leaves the numbers at zero has changed
    them."""
    metrics = {f"numTargetRows{what}": "0" for what in ("Inserted", "Updated", "Deleted")}
    info = {"commitInfo": {"operation": "MERGE", "operationMetrics": metrics, "engineInfo": engine}}
    changes = [] if believed else [("new", "insert"), ("old", "delete")]
    assert kinds(files(info, add("new"), remove("old"))) == changes
    info["commitInfo"]["operationMetrics"] = {**metrics, "numTargetRowsUpdated": "1"}
    assert kinds(files(info, add("new"), remove("old"))) == [("new", "insert"), ("old", "delete")]


def test_only_live_rows_were_inserted_or_deleted():
    inserted, deleted = files(add("one", deletionVector=vector(1, 2)), remove("two", deletionVector=vector(0)))
    assert rows_of(inserted, 4) == {0, 3}
    assert rows_of(deleted, 4) == {1, 2, 3}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ((), (3, 4), [("delete", {3, 4})]),
        ((3,), (3, 4), [("delete", {4})]),
        ((3, 4), (3,), [("insert", {4})]),
        ((3, 4), (), [("insert", {3, 4})]),
        ((1, 2), (2, 5), [("delete", {5}), ("insert", {1})]),
        ((1, 2), (1, 2), []),
        ((), (), []),
    ],
)
def test_the_difference_of_two_vectors(old, new, expected):
    actions = [
        remove("a%20b", **({"deletionVector": vector(*old)} if old else {})),
        add("a b", **({"deletionVector": vector(*new)} if new else {})),
    ]
    for order in (actions, actions[::-1]):
        found = files(*order)
        assert [(file.change_type, rows_of(file)) for file in found] == expected


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
def test_any_two_vectors(old, new):
    def action(kind, rows):
        value = {"path": "f", "partitionValues": {}, "size": 1, "dataChange": True}
        return {kind: {**value, **({"deletionVector": vector(*rows)} if rows else {})}}

    found = {file.change_type: rows_of(file, 31) for file in files(action("remove", old), action("add", new))}
    assert found == {kind: rows for kind, rows in (("delete", new - old), ("insert", old - new)) if rows}


def test_a_vector_that_is_gone_is_named(tmp_path):
    gone, kept = (
        deletion_vectors.write_file([BitMap64(rows)], str(tmp_path), LocalStore())[0] for rows in ([1], [1, 2])
    )
    location = deletion_vectors.absolute_location(gone, str(tmp_path))
    os.unlink(location)
    actions = [remove("f", deletionVector=gone.to_json()), add("f", deletionVector=kept.to_json())]
    with pytest.raises(HeadwaterError, match="version 7") as caught:
        files(*actions, table=str(tmp_path))
    assert caught.value.condition == "DELTA_CHANGE_DATA_FILE_NOT_FOUND"
    assert location in caught.value.text


@pytest.mark.parametrize("missing", ["size", "partitionValues"])
def test_a_removed_file_of_which_too_little_is_known(missing):
    action = remove("f")
    del action["remove"][missing]
    with pytest.raises(HeadwaterError) as caught:
        files(action)
    assert caught.value.condition == "DELTA_REMOVE_FILE_CDC_MISSING_EXTENDED_METADATA"


def test_the_same_vector_is_not_read():
    same = DeletionVector("p", "/gone", 10, 1, 1).to_json()
    action = {"path": "f", "partitionValues": {}, "size": 1, "dataChange": True, "deletionVector": same}
    assert files({"remove": action}, {"add": action}) == []
