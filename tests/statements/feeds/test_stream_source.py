"""A table as a stream's source, without Spark: what opening it refuses, and which offsets it takes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.log.checkpoint_writing import write_checkpoint
from headwater.log.snapshot import load_snapshot
from headwater.stores import LocalStore
from headwater.transaction import wait_for_maintenance
from support.commits import add_file, commit
from support.requests import called, create_request, create_table, schema_json

open_stream, stream_end, stream_committed, alter_table = map(
    called, ("open_stream", "stream_end", "stream_committed", "alter_table")
)
MAPPED = {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}


@pytest.fixture
def table(tmp_path, statement):
    path = str(tmp_path / "table")
    create_table(create_request(path, schema_json(a="integer", b="string"), properties=MAPPED), statement)
    return path


def asked(path, checkpoint=None, schema=None, **options):
    return {"table": path, "options": options, "bounds": [], "schema": schema, "checkpoint": checkpoint}


def refused(request, statement, call=open_stream):
    with pytest.raises(HeadwaterError) as caught:
        call(request, statement)
    return caught.value


def alter(table, statement, kind, **change):
    alter_table({"table": table, "name": "t", "changes": [{"kind": kind, **change}]}, statement)


def rename(path, statement, old, new):
    alter(path, statement, "rename_column", path=[old], newName=new)


def set_property(path, statement, key, value="1"):
    alter(path, statement, "set_property", key=key, value=value)


def read_to_the_end(path, statement, offset=None):
    """The offset at which a stream that starts now has read everything."""
    opened = open_stream(asked(path, checkpoint="/c/sources/0"), statement)
    return stream_end({"stream": opened["stream"], "start": offset}, statement)["offset"]


class TestColumnsOfTheAnalysis:
    @pytest.mark.parametrize(
        ("kind", "change"),
        [
            ("rename_column", {"path": ["b"], "newName": "c"}),
            ("drop_column", {"path": ["b"]}),
            ("add_column", {"path": ["c"], "type": '"integer"', "nullable": True}),
            ("column_type", {"path": ["a"], "type": '"long"'}),
            ("column_position", {"path": ["b"], "position": {"after": None}}),
        ],
    )
    @pytest.mark.parametrize("feed", ["false", "true"])
    def test_other_ones_are_refused(self, table, statement, kind, change, feed):
        set_property(table, statement, "delta.enableChangeDataFeed", "true")
        analysed = open_stream(asked(table, readChangeFeed=feed), statement)["schema"]
        starting = asked(table, "/c/sources/0", analysed, readChangeFeed=feed)
        assert open_stream(starting, statement)["schema"] == analysed
        alter(table, statement, kind, **change)
        error = refused(starting, statement)
        assert error.condition == "DELTA_STREAMING_SCHEMA_MISMATCH_ON_RESTART"
        assert "a:int" in error.parameters["querySchema"]

    def test_a_promise_of_no_nulls_that_is_gone(self, tmp_path, statement):
        path = str(tmp_path / "strict")
        create_table(create_request(path, schema_json(a="integer").replace("true", "false", 1)), statement)
        analysed = open_stream(asked(path), statement)["schema"]
        assert json.loads(analysed)["fields"][0]["nullable"] is False
        alter(path, statement, "column_nullability", path=["a"], nullable=True)
        error = refused(asked(path, "/c/sources/0", analysed), statement)
        assert error.condition == "DELTA_STREAMING_SCHEMA_MISMATCH_ON_RESTART"

    def test_what_does_not_matter_to_rows(self, table, statement):
        analysed = open_stream(asked(table), statement)["schema"]
        alter(table, statement, "column_comment", path=["a"], comment="words")
        set_property(table, statement, "of.ours")
        open_stream(asked(table, "/c/sources/0", analysed), statement)


class TestOptions:
    @pytest.mark.parametrize(
        ("name", "suggestion"),
        [
            ("maxFilePerTrigger", " Did you mean maxFilesPerTrigger?"),
            ("startingversions", " Did you mean startingVersion?"),
            ("wholeCommit", " Did you mean wholeCommits?"),
            ("zzzz", ""),
        ],
    )
    def test_unknown_ones(self, table, statement, name, suggestion):
        error = refused(asked(table, **{name: "1"}), statement)
        assert error.condition == "HEADWATER_UNKNOWN_OPTION"
        assert (error.parameters["option"], error.parameters["suggestion"]) == (name, suggestion)

    def test_those_that_pass(self, table, statement):
        known = {"path": table, "TXNAPPID": "a", "fs.s3a.endpoint": "e", "our.wrapper": "1", "checkpointLocation": "/c"}
        open_stream({**asked(table), "options": {**known, "unset": None}}, statement)

    def test_those_that_exclude_each_other(self, table, statement):
        error = refused(asked(table, startingVersion="1", startingTimestamp="2024-01-01"), statement)
        assert error.condition == "DELTA_STARTING_VERSION_AND_TIMESTAMP_BOTH_SET"
        error = refused(asked(table, versionAsOf="0", startingVersion="1"), statement)
        assert error.condition == "DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS"


class TestCheckpoints:
    @pytest.mark.parametrize(
        ("change", "condition"),
        [
            ({"sourceVersion": 4}, "DELTA_INVALID_FORMAT_FROM_SOURCE_VERSION"),
            ({"sourceVersion": 2}, "DELTA_INVALID_SOURCE_VERSION"),
            ({"reservoirId": "another"}, "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"),
            ({"reservoirVersion": "one"}, "DELTA_INVALID_SOURCE_OFFSET_FORMAT"),
            ({"reservoirVersion": -1}, "DELTA_INVALID_SOURCE_OFFSET_FORMAT"),
            ({"isStartingVersion": None}, "DELTA_INVALID_SOURCE_OFFSET_FORMAT"),
        ],
    )
    def test_offsets_that_are_refused(self, table, statement, change, condition):
        offset = json.loads(read_to_the_end(table, statement))
        opened = open_stream(asked(table, "/c/sources/0"), statement)
        request = {"stream": opened["stream"], "start": json.dumps({**offset, **change})}
        assert refused(request, statement, stream_end).condition == condition

    @pytest.mark.parametrize("text", ["", "{", "[]", "null", "1"])
    def test_offsets_that_are_spoiled(self, table, statement, text):
        opened = open_stream(asked(table, "/c/sources/0"), statement)
        error = refused({"stream": opened["stream"], "start": text}, statement, stream_end)
        assert error.condition == "DELTA_INVALID_SOURCE_OFFSET_FORMAT"

    def test_another_table_of_the_same_name(self, table, tmp_path, statement):
        offset = read_to_the_end(table, statement)
        assert wait_for_maintenance(60)
        os.rename(table, tmp_path / "before")
        create_table(create_request(table, schema_json(a="integer", b="string"), properties=MAPPED), statement)
        opened = open_stream(asked(table, "/c/sources/0"), statement)
        error = refused({"stream": opened["stream"], "start": offset}, statement, stream_end)
        assert error.condition == "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"

    def test_a_version_that_is_gone(self, tmp_path, statement):
        table = str(tmp_path / "plain")
        create_table(create_request(table, schema_json(a="integer")), statement)
        offset = read_to_the_end(table, statement)
        for i in range(3):
            set_property(table, statement, f"p{i}")
        assert wait_for_maintenance(60)
        write_checkpoint(load_snapshot(table, LocalStore()))
        for version in range(3):
            Path(table, f"_delta_log/{version:020}.json").unlink()
        opened = open_stream(asked(table, "/c/sources/0"), statement)
        error = refused({"stream": opened["stream"], "start": offset}, statement, stream_end)
        assert error.condition == "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE"


class TestChangesThatFollowEachOther:
    """A schema log's latest entry takes in the changes right after it, while a query is analysed."""

    @pytest.fixture
    def reader(self, table, tmp_path, statement):
        """A stream that has come to a change, which its schema log has noted; ``reader(…)`` opens it again."""
        checkpoint, log = str(tmp_path / "c/sources/0"), str(tmp_path / "c/log")
        (tmp_path / "c/sources/0").mkdir(parents=True)

        def options(**more):
            return {"schemaTrackingLocation": log, **more}

        opened = open_stream(asked(table, checkpoint, **options()), statement)
        offset = stream_end({"stream": opened["stream"]}, statement)["offset"]  # begins the log
        rename(table, statement, "a", "x")
        opened = open_stream(asked(table, checkpoint, **options()), statement)
        end = stream_end({"stream": opened["stream"], "start": offset}, statement)["offset"]
        assert json.loads(end)["index"] == -20
        committed = refused({"stream": opened["stream"], "end": end}, statement, stream_committed)
        assert committed.condition == "DELTA_STREAMING_METADATA_EVOLUTION"

        def names(statement, runs=False, **more):
            schema = open_stream(asked(table, checkpoint if runs else None, **options(**more)), statement)["schema"]
            return [field["name"] for field in json.loads(schema)["fields"]]

        names.offset = end
        return names

    def entries(self, tmp_path):
        files = sorted((tmp_path / "c/log").glob("_schema_log_*/[0-9]*"), key=lambda file: int(file.name))
        return [json.loads(file.read_text().splitlines()[1]) for file in files]

    def test_they_are_merged(self, table, tmp_path, statement, reader):
        rename(table, statement, "b", "y")
        set_property(table, statement, "delta.appendOnly", "true")
        assert reader(statement) == ["x", "y"]
        assert reader(statement) == ["x", "y"]
        assert [entry["deltaCommitVersion"] for entry in self.entries(tmp_path)] == [0, 1, 3]
        merged = self.entries(tmp_path)[-1]
        assert merged["previousMetadataSeqNum"] == 0
        assert merged["tableConfigurations"]["delta.appendOnly"] == "true"
        # All of them must be let through, under the last one's version.
        with pytest.raises(HeadwaterError) as caught:
            reader(statement, runs=True, allowSourceColumnRename="1")
        assert caught.value.condition == "DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION"
        assert "a was renamed to x; b was renamed to y" in caught.value.parameters["columnChangeDetails"]
        assert reader(statement, runs=True, allowSourceColumnRename="3") == ["x", "y"]

    def test_up_to_the_first_commit_with_files(self, table, tmp_path, statement, reader):
        rename(table, statement, "b", "y")
        commit(table, add_file("f"))
        rename(table, statement, "y", "z")
        assert reader(statement) == ["x", "y"]
        assert [entry["deltaCommitVersion"] for entry in self.entries(tmp_path)] == [0, 1, 2]

    def test_not_after_a_commit_with_files(self, table, tmp_path, statement, reader):
        commit(table, add_file("f"))
        rename(table, statement, "b", "y")
        assert reader(statement) == ["x", "b"]
        assert len(self.entries(tmp_path)) == 2

    def test_not_where_the_setting_says_so(self, table, tmp_path, make_statement, statement, reader):
        rename(table, statement, "b", "y")
        name = "spark.databricks.delta.streaming.schemaTracking.mergeConsecutiveSchemaChanges.enabled"
        assert reader(make_statement({name: "false"})) == ["x", "b"]
        assert len(self.entries(tmp_path)) == 2

    def test_the_stream_goes_on_from_where_it_was(self, table, tmp_path, statement, reader):
        rename(table, statement, "b", "y")
        commit(table, add_file("f"))
        reader(statement)
        opened = open_stream(
            asked(
                table,
                str(tmp_path / "c/sources/0"),
                schemaTrackingLocation=str(tmp_path / "c/log"),
                allowSourceColumnRename="always",
            ),
            statement,
        )
        offset, sizes = reader.offset, []
        for _ in range(4):
            answer = stream_end({"stream": opened["stream"], "start": offset}, statement)
            if answer["offset"] == offset:
                break
            offset = answer["offset"]
            sizes.append(answer["sizeInBytes"])
            stream_committed({"stream": opened["stream"], "end": offset}, statement)
        assert [size for size in sizes if size] == [100]
        assert (json.loads(offset)["reservoirVersion"], json.loads(offset)["index"]) == (4, -1)
