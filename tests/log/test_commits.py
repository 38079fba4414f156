from __future__ import annotations

import pytest

from headwater.errors import HeadwaterError
from headwater.log.commits import commit_info_of, parse_actions
from headwater.protocol.actions import DomainMetadata, Protocol, SetTransaction


def test_every_action_is_parsed():
    data = b"""{"commitInfo":{"operation":"WRITE"}}
{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}
{"metaData":{"id":"i","schemaString":"{}","format":{"provider":"parquet"}}}
{"txn":{"appId":"a","version":1}}
{"txn":{"appId":"a","version":2}}
{"domainMetadata":{"domain":"d","configuration":"c","removed":false}}
{"add":{"path":"x","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}
{"remove":{"path":"y","dataChange":true}}
{"cdc":{"path":"z","partitionValues":{},"size":1,"dataChange":false}}
{"fromTheFuture":{"a":1}}
"""
    parsed = parse_actions(data, "x.json")
    assert parsed.commit_info == {"operation": "WRITE"}
    assert parsed.protocol == Protocol(1, 2)
    assert parsed.metadata.id == "i"
    assert parsed.transactions == {"a": SetTransaction("a", 2)}
    assert parsed.domains == {"d": DomainMetadata("d", "c")}
    assert [(is_add, action["dataChange"]) for is_add, action in parsed.files] == [(True, True), (False, True)]
    assert parsed.files.keys == [("x", None), ("y", None)]
    assert parsed.files.adds()["path"].to_pylist() == ["x"]
    assert parsed.files.removes()["path"].to_pylist() == ["y"]
    assert parsed.change_files[0]["path"] == "z"


def test_a_last_line_without_newline_is_whole():
    assert parse_actions(b'{"txn":{"appId":"a","version":1}}', "x").transactions


@pytest.mark.parametrize("separator", [b"\n\n", b"\r\n", b"\n  \n"])
def test_empty_lines_are_no_actions(separator):
    line = b'{"txn":{"appId":"a","version":1}}'
    assert len(parse_actions(separator.join([line, line]), "x").transactions) == 1


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b'{"txn":{"appId":"a","version":1}}\n{"add":{"path":"x"', "line 2"),
        (b'{"txn"', "line 1"),
        (b"\n\nnonsense\n", "line 3"),
        (b"[1]\n", "line 1"),
        (b"", "line 1"),
        (b'{"add":{"size":1}}\n', "line 1"),
        (b'{"add":{"path":7}}\n', "line 1"),
        (b'{"add":"x"}\n', "line 1"),
        (b'{"add":{"path":"x","size":"big"}}\n{"add":{"path":"y"}}\n', "the action of x"),
        (b'{"add":{"path":"x","partitionValues":5}}\n', "line 1"),
        (b'{"remove":{"path":"x","deletionTimestamp":"now"}}\n', "the action of x"),
        (b'{"protocol":{}}\n', "line 1"),
        (b'{"commitInfo":"x"}\n', "line 1"),
        (b"\x00\x00\x00\x00", "line 1"),
        (b'{"txn":{"appId":"a","version":1}}\n' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "line 2"),
        (b"[" * 100_000 + b"]" * 100_000, "line 1"),
        (b"3\nnull\n", "line 1"),
        (b'{"txn":{"appId":"a","version":1}}\n"\xff"', "line 2"),
        (b'{"txn":{"appId":"a","version":"1"}}', "line 1"),
        (b'{"txn":{"appId":"a","version":18446744073709551616}}', "line 1"),
        (b'{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":"abc"}}', "line 1"),
        (b'{"metaData":{"id":"i","schemaString":"{}","configuration":{"a":NaN}}}', "line 1"),
        (b'{"metaData":{"id":"\\ud800","schemaString":"{}"}}', "line 1"),
        (b'{"add":{"path":"x","deletionVector":{"storageType":"u"}}}', "line 1"),
        (b'{"cdc":{"path":"x","size":"5"}}', "line 1"),
    ],
)
def test_damage_is_an_error_that_names_file_and_line(data, place):
    with pytest.raises(HeadwaterError) as error:
        parse_actions(data, "/t/_delta_log/7.json")
    assert error.value.condition == "DELTA_INVALID_COMMIT"
    assert error.value.parameters["path"] == "/t/_delta_log/7.json"
    assert error.value.parameters["place"] == place


def test_json_as_lenient_writers_have_it():
    line = b'{"commitInfo":{"x":NaN,"y":123456789012345678901234567890,"z":"\\ud83d"}}\n'
    info = parse_actions(line, "x").commit_info
    assert info is not None
    assert info["y"] == 123456789012345678901234567890


def test_commit_info_is_found_wherever_it_is():
    add = b'{"add":{"path":"\\"commitInfo\\"","stats":"{\\"commitInfo\\":1}"}}\n'
    assert commit_info_of(add + b'{"commitInfo":{"a":1}}') == {"a": 1}
    assert commit_info_of(b'{"commitInfo":{"a":1}}\n' + add) == {"a": 1}
    assert commit_info_of(add) is None
    assert commit_info_of(b'{"commitInfo":') is None
    assert commit_info_of(b"") is None
