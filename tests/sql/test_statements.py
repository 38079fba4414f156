import json

import msgspec
import pytest

from headwater.bridge.messages.define import ParseRequest
from headwater.errors import HeadwaterError
from headwater.statements.parsing import parse


def parsed(text):
    return json.loads(msgspec.json.encode(parse(ParseRequest(text=text), None)))


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("DESCRIBE HISTORY t", "t"),
        ("desc history `a b`.`c``d` ;", "`a b`.`c``d`"),
        ("  -- a comment\n DESCRIBE /* another */ HISTORY db.t", "db.t"),
        ("DESCRIBE HISTORY TABLE", "TABLE"),
        ("DESCRIBE HISTORY table.t", "table.t"),
        ("DESCRIBE HISTORY table . t LIMIT 1", "table . t"),
        ("DESCRIBE HISTORY TABLE LIMIT 5", "TABLE"),
        ("DESCRIBE HISTORY limit", "limit"),
        ("DESCRIBE HISTORY db.limit", "db.limit"),
        ("DESCRIBE HISTORY `limit` LIMIT 1", "`limit`"),
        ("DESCRIBE HISTORY IDENTIFIER('a' || \"-- ;\") LIMIT 1", "IDENTIFIER('a' || \"-- ;\")"),
        ("DESCRIBE HISTORY '/it\\'s';;", "/it's"),
        ("/* first */ describe history delta.`/a path/x`", "delta.`/a path/x`"),
        ("DESCRIBE HISTORY '/a path/x'", "/a path/x"),
        ('DESCRIBE HISTORY "/a"', "/a"),
        ("DESCRIBE HISTORY TABLE t", "t"),
    ],
)
def test_the_table_of_a_history(text, table):
    assert parsed(text)["table"] == table
    assert parsed(text)["command"] == "describe_history"


def test_a_history_may_be_limited():
    assert parsed("DESCRIBE HISTORY t LIMIT 5")["arguments"] == {"limit": 5}
    assert parsed("DESCRIBE HISTORY t")["arguments"] == {"limit": None}
    for path in ("delta.`/no limit 5`", "'/no limit 5'"):
        assert parsed(f"DESCRIBE HISTORY {path}")["arguments"] == {"limit": None}
        assert parsed(f"DESCRIBE HISTORY {path} LIMIT 3")["arguments"] == {"limit": 3}


def test_detail_has_its_own_columns():
    answer = parsed("DESCRIBE DETAIL t")
    assert answer["command"] == "describe_detail"
    names = [f["name"] for f in json.loads(answer["output"])["fields"]]
    assert names[:4] == ["format", "id", "name", "description"]


@pytest.mark.parametrize(
    "text", ["SELECT 1", "DESCRIBE t", "DESCRIBE TABLE EXTENDED history", "DESCRIBE HISTORY", "DESCRIBE HISTORY 't"]
)
def test_what_is_sparks_is_left_to_spark(text):
    assert parsed(text) is None


@pytest.mark.parametrize("text", ["DESCRIBE HISTORY t LIMIT many", "DESCRIBE HISTORY t WHERE x", "DESCRIBE DETAIL a b"])
def test_what_cannot_be_understood_is_said(text):
    with pytest.raises(HeadwaterError) as refused:
        parsed(text)
    assert refused.value.condition == "DELTA_STATEMENT_NOT_PARSED"
