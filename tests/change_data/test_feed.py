"""The feed of a range: what was recorded, by which schema it is read, and which schemas do not go together."""

from __future__ import annotations

import pytest

from headwater.basics.errors import HeadwaterError
from support.hand_made import add, cdc, remove

OFF = {"delta.enableChangeDataFeed": "false"}
BY_NAME = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "9"}


def mapped(number, kind="integer", **more):
    metadata = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"}
    return {"type": kind, "metadata": metadata, **more}


def refusal(table, *versions):
    with pytest.raises(HeadwaterError) as caught:
        table.feed(*versions)
    return caught.value


def columns(feed):
    return feed.definition.schema.names


def test_files_and_times_of_the_range(table):
    table.create(add("zero"))
    table.commit(add("one"))
    table.commit(table.metadata(configuration={"delta.appendOnly": "false"}))
    table.commit(cdc("three"), remove("one"))
    feed = table.feed(1)
    assert [(file.version, file.path) for file in feed.files] == [(1, "one"), (3, "three")]
    assert feed.timestamps == {1: 10_000, 3: 30_000}
    assert table.feed(2, 2).files == []


def test_times_out_of_the_commits(table):
    since = {"delta.inCommitTimestampEnablementVersion": "1", "delta.inCommitTimestampEnablementTimestamp": "77"}
    table.create(add("zero"))
    table.commit(
        {"commitInfo": {"inCommitTimestamp": 77}},
        table.metadata(configuration={"delta.enableInCommitTimestamps": "true", **since}),
    )
    table.commit({"commitInfo": {"inCommitTimestamp": 99}}, add("two"))
    assert table.feed(0).timestamps == {0: 0, 2: 99}


def test_a_version_that_did_not_record_its_changes_is_named(table):
    table.create(configuration=OFF)
    table.commit(table.metadata())
    table.commit(add("two"))
    table.commit(table.metadata(configuration=OFF))
    table.commit(add("four"))
    assert [file.path for file in table.feed(1, 2).files] == ["two"]
    for versions, named in (((0, 2), "version 0 did"), ((2, 4), "version 3 did"), ((4, 4), "version 4 did")):
        error = refusal(table, *versions)
        assert error.condition == "DELTA_MISSING_CHANGE_DATA"
        assert named in error.text


def test_older_snapshots_are_read_only_where_needed(table):
    table.create()
    table.commit(add("one"))
    table.commit(add("two"))
    table.feed(1)
    table.feed(0, 1)
    assert table.opened == []
    table.feed(1, 1)
    assert table.opened == [1]


def test_columns_that_were_added_are_null_before(table):
    table.create(add("zero"))
    table.commit(table.metadata({"a": "integer", "b": "string"}), add("one"))
    assert columns(table.feed(0)) == ["a", "b"]
    assert columns(table.feed(0, 0)) == ["a", "b"]  # the newest schema, without column mapping


def test_with_column_mapping_the_last_versions_schema_is_used(table):
    table.create(add("zero"), columns={"a": mapped(1)}, configuration=BY_NAME)
    table.commit(table.metadata({"a": mapped(1), "b": mapped(2)}, BY_NAME), add("one"))
    assert columns(table.feed(0)) == ["a", "b"]
    assert columns(table.feed(0, 0)) == ["a"]
    assert columns(table.feed(0, 0, mode="latest")) == ["a", "b"]
    assert table.feed(0, 0).definition.mapping_mode == "name"


def test_the_newest_schema_where_it_can_read_the_range_else_the_last(table):
    table.create(add("zero"))
    table.commit(table.metadata({"z": "string"}), remove("zero"), add("one"))
    table.commit(add("two"))
    assert columns(table.feed(0, 0)) == ["a"]
    assert columns(table.feed(2, 2)) == ["z"]


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ({"a": "integer"}, {"a": "string"}, "a was int and is string"),
        ({"a": "long"}, {"a": "integer"}, "a was bigint and is int"),
        ({"a": "integer", "b": "string"}, {"a": "integer"}, "b was dropped"),
        ({"a": "integer"}, {"a": {"type": "integer", "nullable": False}}, "a became NOT NULL"),
        ({"a": "integer"}, {"a": "integer", "b": {"type": "string", "nullable": False}}, "b is new and NOT NULL"),
        (
            {"a": {"type": {"type": "array", "elementType": "integer", "containsNull": True}}},
            {"a": {"type": {"type": "array", "elementType": "string", "containsNull": True}}},
            "a.element was int and is string",
        ),
        ({"a": mapped(1), "b": mapped(2)}, {"a": mapped(1), "c": mapped(2)}, "b was renamed to c"),
        ({"a": mapped(1), "b": mapped(2)}, {"a": mapped(1), "b": mapped(3)}, "b was dropped"),
    ],
)
def test_schemas_that_do_not_go_together(table, before, after, reason):
    mode = BY_NAME if any("metadata" in c for c in before.values() if isinstance(c, dict)) else {}
    table.create(add("zero"), columns=before, configuration=mode)
    table.commit(add("one"))
    table.commit(table.metadata(after, mode))
    table.commit(add("three"))
    assert len(table.feed(0, 1).files) == 2
    assert len(table.feed(2, 3).files) == 1
    error = refusal(table, 0, 3)
    assert error.condition == "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE"
    assert reason in error.text.replace("`", "")
    assert "0 to 1, and 2 to 3" in error.text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"a": "integer"}, {"A": "long"}),
        ({"a": {"type": "integer", "nullable": False}}, {"a": "integer"}),
        ({"a": "integer", "b": "string"}, {"b": "string", "a": "integer"}),
        ({"a": mapped(1, "short")}, {"a": mapped(1, "integer"), "b": mapped(2)}),
    ],
)
def test_schemas_that_go_together(table, before, after):
    mode = BY_NAME if any("metadata" in c for c in before.values() if isinstance(c, dict)) else {}
    table.create(add("zero"), columns=before, configuration=mode)
    table.commit(table.metadata(after, mode), add("one"), remove("zero"))
    assert len(table.feed(0).files) == 3
    assert columns(table.feed(0)) == list(after)


def test_rows_of_another_schema_removed_by_the_first_version(table):
    table.create(add("zero"))
    table.commit(table.metadata({"a": "string"}), remove("zero"), add("one"))
    error = refusal(table, 1, 1)
    assert error.condition == "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_DATA_SCHEMA"
    assert "was int and is string" in error.text


def test_files_that_the_first_version_rearranged_are_no_rows_of_another_schema(table):
    table.create(add("zero"))
    table.commit(table.metadata({"a": "string"}), remove("zero", dataChange=False), add("one", dataChange=False))
    assert table.feed(1).files == []


def test_other_partition_columns(table):
    table.create(add("zero"), columns={"a": "integer", "p": "string"}, partitions=("p",))
    table.commit(table.metadata({"a": "integer", "p": "string"}), add("one"))
    error = refusal(table, 0, 1)
    assert error.condition == "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE"
    assert "partitioned by (p)" in error.text
