from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.basics.errors import HeadwaterError
from headwater.log.commits import commit_info_of, parse_actions
from headwater.protocol.actions import AddCDCFile, DomainMetadata, Protocol, SetTransaction


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


#: What a value may be that is to be text; and what it means.
VALUES = st.one_of(
    st.tuples(st.text(st.characters(codec="utf-8"))).map(lambda each: (each[0], each[0])),
    st.integers(-(2**63), 2**63 - 1).map(lambda number: (number, str(number))),
    st.booleans().map(lambda flag: (flag, str(flag).lower())),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda number: (number, repr(number))),
    st.none().map(lambda none: (None, None)),
)
MAPS = st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=3), VALUES, max_size=3)


@pytest.mark.random
@given(configuration=MAPS, options=MAPS, tags=MAPS, partition=MAPS)
def test_values_that_lack_their_quotes_are_text(configuration, options, tags, partition):
    written, meant = (
        [{key: value[at] for key, value in some.items()} for some in (configuration, options, tags, partition)]
        for at in (0, 1)
    )
    metadata = {
        "metaData": {
            "id": "i",
            "schemaString": "{}",
            "configuration": written[0],
            "format": {"provider": "parquet", "options": written[1]},
        }
    }
    file = {"path": "x", "partitionValues": written[3], "size": 1, "modificationTime": 1, "dataChange": True}
    lines = [metadata, {"add": {**file, "tags": written[2]}}, {"remove": {**file, "path": "y"}}, {"cdc": file}]
    parsed = parse_actions("\n".join(map(json.dumps, lines)).encode(), "x.json")
    has_value = [{key: value for key, value in some.items() if value is not None} for some in meant]
    assert parsed.metadata.configuration == has_value[0]
    assert parsed.metadata.format_options == has_value[1]
    (added,), (removed,) = parsed.files.adds().to_pylist(), parsed.files.removes().to_pylist()
    assert dict(added["tags"]) == meant[2]
    assert dict(added["partition_values"]) == dict(removed["partition_values"]) == meant[3]
    assert AddCDCFile.from_json(parsed.change_files[0]).partition_values == meant[3]


@pytest.mark.parametrize("value", ["{}", "[1]", '{"a":1}'])
@pytest.mark.parametrize(
    "action",
    [
        '{"metaData":{"id":"i","schemaString":"{}","configuration":{"a":VALUE}}}',
        '{"add":{"path":"x","size":1,"partitionValues":{"a":VALUE}}}',
        '{"add":{"path":"x","size":1,"partitionValues":{},"tags":{"a":VALUE}}}',
    ],
)
def test_objects_and_arrays_are_no_text(action, value):
    with pytest.raises(HeadwaterError) as error:
        parse_actions(action.replace("VALUE", value).encode(), "x.json")
    assert error.value.condition == "DELTA_INVALID_COMMIT"
