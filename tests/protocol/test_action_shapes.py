"""The declared fields of actions and the typed actions are the same."""

from __future__ import annotations

from dataclasses import fields

import pytest

from headwater.protocol import action_shapes as shapes
from headwater.protocol.actions import (
    AddCDCFile,
    AddFile,
    DeletionVector,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
)

TYPED = [
    (shapes.ADD, AddFile),
    (shapes.REMOVE, RemoveFile),
    (shapes.CDC, AddCDCFile),
    (shapes.METADATA, Metadata),
    (shapes.PROTOCOL, Protocol),
    (shapes.TRANSACTION, SetTransaction),
    (shapes.DOMAIN_METADATA, DomainMetadata),
    (shapes.DELETION_VECTOR, DeletionVector),
]


@pytest.mark.parametrize(("shape", "typed"), TYPED, ids=lambda value: getattr(value, "kind", ""))
def test_every_field_has_its_attribute(shape: shapes.Shape, typed: type) -> None:
    attributes = {field.name for field in fields(typed)}
    if typed is Metadata:  # the format is nested in JSON; what is unknown has no declared field
        attributes = attributes - {"format_provider", "format_options", "extra"} | {"format"}
    assert attributes == set(shape.json_names)


@pytest.mark.parametrize(
    "line",
    [
        {
            "add": {
                "path": "a",
                "partitionValues": {"p": None, "q": "1"},
                "size": 1,
                "modificationTime": 2,
                "dataChange": False,
                "stats": "{}",
                "tags": {"t": "x"},
                "deletionVector": {
                    "storageType": "u",
                    "pathOrInlineDv": "ab",
                    "offset": 1,
                    "sizeInBytes": 36,
                    "cardinality": 2,
                },
                "baseRowId": 3,
                "defaultRowCommitVersion": 4,
                "clusteringProvider": "liquid",
            }
        },
        {"remove": {"path": "a", "deletionTimestamp": 5, "dataChange": True, "partitionValues": {}, "size": 0}},
        {"cdc": {"path": "a", "partitionValues": {"p": None}, "size": 1, "dataChange": False, "tags": {}}},
        {"txn": {"appId": "a", "version": 7, "lastUpdated": 8}},
        {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": True}},
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": ["b"]}},
        {
            "metaData": {
                "id": "i",
                "name": "n",
                "description": "d",
                "format": {"provider": "parquet", "options": {"o": "1"}},
                "schemaString": "{}",
                "partitionColumns": ["z", "a"],
                "configuration": {"k": "v"},
                "createdTime": 9,
                "unknown": [1],
            }
        },
    ],
    ids=lambda line: next(iter(line)),
)
def test_an_action_is_read_and_written_unchanged(line: dict[str, object]) -> None:
    ((kind, content),) = line.items()
    (typed,) = [typed for shape, typed in TYPED if shape.kind == kind]
    assert typed.from_json(content).to_json() == line


def test_tags_of_change_files_are_kept_as_they_are() -> None:
    line = {"path": "c", "partitionValues": {}, "size": 1, "tags": {"a": None, "b": 1}, "dataChange": False}
    assert AddCDCFile.from_json(line).to_json() == {"cdc": line}
