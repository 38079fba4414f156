"""What the handler sends, as the JVM reads it: each message comes out of its case class as it went in.

Requests need no such test: the handler refuses one with a member that is missing, not declared or of another type.
"""

from __future__ import annotations

import typing
from typing import Any

import msgspec
import pytest

from headwater.bridge.messages import ErrorDescription, Int
from headwater.bridge.messages.callbacks import (
    FilesOfVersion,
    ParquetFilesQuestion,
    PartitionsQuestion,
    PinnedVersion,
    Restriction,
    WriteSpecification,
)
from headwater.bridge.messages.change import MergeTargetAnswer
from headwater.bridge.messages.define import CommitAnswer, ParsedStatement, RowsAnswer
from headwater.bridge.messages.failures import BegunCommit
from headwater.bridge.messages.read import (
    AggregateAnswer,
    CallBounds,
    ChangesAnswer,
    FileListAnswer,
    TableDescription,
)
from headwater.bridge.messages.write import ResolvedWrite, SavePlan

_SCALARS: dict[Any, Any] = {
    str: "a 'text' – é",
    int: 1 << 40,
    Int: 7,
    bool: True,
    Any: "any",
    msgspec.Raw: msgspec.Raw(b'{"limit":3}'),
}


def _sample(kind: Any, *, full: bool) -> Any:
    """A value of a type; ``full``: with all that may be left out."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in _SCALARS:
        return _SCALARS[kind]
    if origin is list:
        return [_sample(arguments[0], full=full)] if full else []
    if origin is dict:
        return {"key.of": _sample(arguments[1], full=full)} if full else {}
    if arguments:  # a union
        return _sample(arguments[0], full=full) if full else None if type(None) in arguments else ""
    fields = msgspec.structs.fields(kind)
    return kind(**{field.name: _sample(field.type, full=full) for field in fields if full or field.required})


@pytest.mark.parametrize("full", [True, False], ids=["full", "bare"])
@pytest.mark.parametrize(
    "kind",
    [
        AggregateAnswer,
        BegunCommit,
        CallBounds,
        ChangesAnswer,
        CommitAnswer,
        ErrorDescription,
        FileListAnswer,
        FilesOfVersion,
        MergeTargetAnswer,
        ParquetFilesQuestion,
        ParsedStatement,
        PartitionsQuestion,
        PinnedVersion,
        ResolvedWrite,
        Restriction,
        RowsAnswer,
        SavePlan,
        TableDescription,
        WriteSpecification,
    ],
)
def test_an_answer_comes_out_as_it_went_in(spark, kind, full):
    sample = _sample(kind, full=full)
    bridge = spark._jvm.headwater.spark.bridge
    read = (
        getattr(bridge.messages, kind.__name__).fromJson().read(bridge.Json.parse(msgspec.json.encode(sample).decode()))
    )
    assert msgspec.json.decode(bridge.Json.write(read), type=kind) == sample
