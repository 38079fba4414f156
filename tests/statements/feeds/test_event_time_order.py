"""The option ``withEventTimeOrder`` of a stream: with what it is refused, and that it stays as it was."""

from __future__ import annotations

import json

import pytest

from headwater.basics.errors import HeadwaterError
from support.requests import called, create_request, create_table, schema_json

open_stream, stream_end, stream_condition = map(called, ("open_stream", "stream_end", "stream_condition"))


class TestOptions:
    open_stream, stream_end, stream_condition = map(
        staticmethod, map(called, ("open_stream", "stream_end", "stream_condition"))
    )

    def asked(self, path, **options):
        return {"table": path, "options": {"withEventTimeOrder": "true", **options}, "bounds": [], "checkpoint": "/c"}

    @pytest.fixture
    def table(self, tmp_path, statement):
        path = str(tmp_path / "table")
        create_table(create_request(path, schema_json(ts="timestamp", other="string")), statement)
        return path

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"headwater.eventTimeColumn": "other"}, "type STRING"),
            ({"headwater.eventTimeColumn": ""}, "one column of the table"),
            ({"headwater.eventTimeColumn": "ts", "readChangeFeed": "true"}, "stream of changes"),
        ],
    )
    def test_refused(self, table, statement, options, words):
        with pytest.raises(HeadwaterError) as caught:
            open_stream(self.asked(table, **options), statement)
        assert caught.value.condition == "DELTA_ILLEGAL_OPTION"
        assert words in caught.value.parameters["explain"]

    def test_the_order_does_not_change_while_the_snapshot_is_read(self, table, statement):
        opened = open_stream(self.asked(table, **{"headwater.eventTimeColumn": "ts"}), statement)
        begun = json.loads(stream_end({"stream": opened["stream"]}, statement)["offset"])
        begun.update(reservoirVersion=0, isStartingVersion=True, index=-1)
        by_time = json.dumps({**begun, "sourceVersion": 1000, "eventTimeMicros": 5, "eventTimeColumn": "ts"})
        by_file = json.dumps({**begun, "index": 3})
        condition = {
            "stream": opened["stream"],
            "start": by_time,
            "end": json.dumps({**begun, "reservoirVersion": 1, "isStartingVersion": False}),
        }
        assert stream_condition(condition, statement)["condition"] == "`ts` >= timestamp_micros(5)"
        plain = open_stream({**self.asked(table), "options": {}}, statement)
        for stream, offset in ((opened, by_file), (plain, by_time)):
            with pytest.raises(HeadwaterError) as caught:
                stream_end({"stream": stream["stream"], "start": offset}, statement)
            assert caught.value.condition == "DELTA_ILLEGAL_OPTION"
            assert "new checkpoint" in caught.value.parameters["explain"]
