"""Keys as table properties: which count, and how they follow their columns."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.definition.changes import Declared, altered, begun, evolved, unmapped
from headwater.protocol.properties import KEY_PREFIX
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import PrimitiveType, StructField, StructType, schema_string
from headwater.schema import keys
from headwater.schema.keys import FOREIGN, PRIMARY, Key
from headwater.schema.reshaping import rename_column

_INT = PrimitiveType("integer")
PK = Key("Pk", PRIMARY, ("a", "b"), rely=True)
FK = Key("fk", FOREIGN, ("c",), references=("x", "y", "p"), referenced=("id",))


def _schema(*names: str, nullable: bool = False) -> StructType:
    return StructType(tuple(StructField(name, _INT, nullable) for name in names))


def _made(mode: str = "none", asked: tuple[Key, ...] = (PK, FK)) -> TableDefinition:
    schema = _schema("a", "b", "c")
    configuration = keys.declared(schema, {"delta.columnMapping.mode": mode}, asked)
    return begun(Declared(schema, (), configuration))


def _with(definition: TableDefinition, **parts: Any) -> TableDefinition:
    return definition.after(None, replace(definition.metadata, **parts))


@pytest.mark.parametrize("mode", ["none", "name"])
def test_a_new_table_has_its_keys(mode: str) -> None:
    definition = _made(mode)
    assert keys.keys(definition) == [PK, FK]
    assert [key.sql for key in keys.keys(definition)] == [
        "PRIMARY KEY (a, b) NOT ENFORCED RELY",
        "FOREIGN KEY (c) REFERENCES x.y.p (id) NOT ENFORCED",
    ]
    assert keys.find_key(definition, "PK") == PK
    physical = [field.physical_name for field in definition.schema]
    assert json.loads(definition.metadata.configuration[f"{KEY_PREFIX}pk"])["physical"] == physical[:2]


def test_a_key_follows_a_rename_by_any_writer() -> None:
    before = _made("name")
    renamed = rename_column(before.schema, ("a",), "a2")
    elsewhere = _with(before, schema_string=schema_string(renamed))
    assert keys.keys(elsewhere)[0].columns == ("a2", "b")
    # Ours writes the new name down, so the key is right after column mapping is gone.
    here = altered(before, before, schema=renamed)
    assert json.loads(here.metadata.configuration[f"{KEY_PREFIX}pk"])["columns"] == ["a2", "b"]
    for definition in (elsewhere, here):
        assert keys.keys(unmapped(definition)) == [PK._replace(columns=("a2", "b")), FK]


def test_a_name_that_another_column_takes_is_not_the_key() -> None:
    before = _made("name")
    schema = rename_column(rename_column(before.schema, ("a",), "old"), ("c",), "a")
    found = keys.keys(_with(before, schema_string=schema_string(schema)))
    assert [key.columns for key in found] == [("old", "b"), ("a",)]


def test_a_key_without_its_columns_or_not_null_does_not_count() -> None:
    before = _made()
    assert keys.keys(_with(before, schema_string=schema_string(_schema("a", "c")))) == [FK]
    assert keys.keys(_with(before, schema_string=schema_string(_schema("a", "b", nullable=True)))) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nothing",
        "[]",
        "{}",
        '{"name": "k", "kind": "unique", "columns": ["a"]}',
        '{"name": "k", "kind": "primary_key", "columns": []}',
        '{"name": "k", "kind": "primary_key", "columns": [1]}',
        '{"name": "k", "kind": "primary_key", "columns": "a"}',
        '{"name": 1, "kind": "primary_key", "columns": ["a"]}',
        '{"name": "k", "kind": "primary_key", "columns": ["a"], "physical": ["a", "b"]}',
        '{"name": "k", "kind": "primary_key", "columns": ["a", "A"]}',
        '{"name": "k", "kind": "primary_key", "columns": ["a", "b"], "physical": ["a", "a"]}',
        '{"name": "other", "kind": "primary_key", "columns": ["a"]}',
        "[" * 100_000,
        '{"name": "k", "kind": "foreign_key", "columns": ["a"], "references": [], "referenced": ["b"]}',
        '{"name": "k", "kind": "foreign_key", "columns": ["a"], "references": ["p"], "referenced": []}',
    ],
)
def test_a_property_that_is_no_key_does_not_count(text: str) -> None:
    definition = _made(asked=())
    configuration = {**definition.metadata.configuration, f"{KEY_PREFIX}k": text}
    damaged = _with(definition, configuration=configuration)
    assert keys.keys(damaged) == []
    # It is kept, is in nobody's way, and a key may take its place.
    assert evolved(damaged, _schema("a"), overwrites=True).schema.names == ["a"]
    assert evolved(damaged, _schema("a", "b", "c", "d")).metadata.configuration[f"{KEY_PREFIX}k"] == text
    replaced = _with(damaged, configuration=keys.with_key(damaged, PK._replace(name="k")))
    assert keys.keys(replaced) == [PK._replace(name="k")]


def test_a_second_primary_key_does_not_count() -> None:
    before = _made()
    text = '{"name": "z", "kind": "primary_key", "columns": ["c"]}'
    twice = _with(before, configuration={**before.metadata.configuration, f"{KEY_PREFIX}z": text})
    assert keys.keys(twice) == [PK, FK]
    assert keys.keys(evolved(twice, before.schema, overwrites=True)) == [PK, FK]


def test_an_overwrite_of_the_columns_keeps_keys_and_not_null() -> None:
    before = _made("name")
    after = evolved(before, StructType.of(c=PrimitiveType("long"), b=_INT, a=_INT), overwrites=True)
    assert keys.keys(after) == [PK, FK]
    assert [field.nullable for field in after.schema] == [True, False, False]
    assert keys.keys(evolved(before, StructType.of(a=_INT, c=_INT), overwrites=True)) == [FK]


@pytest.mark.parametrize(
    ("key", "condition"),
    [
        (Key("pk", FOREIGN, ("a",), references=("p",), referenced=("a",)), "DELTA_CONSTRAINT_ALREADY_EXISTS"),
        (Key("POSITIVE", FOREIGN, ("c",), references=("p",), referenced=("x",)), "DELTA_CONSTRAINT_ALREADY_EXISTS"),
        (Key("k", PRIMARY, ("c",)), "HEADWATER_INVALID_KEY"),
        (Key("k", FOREIGN, ("a", "A"), references=("p",), referenced=("x", "y")), "HEADWATER_INVALID_KEY"),
        (Key("k", FOREIGN, ("d",), references=("p",), referenced=("a",)), "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA"),
    ],
)
def test_keys_that_are_refused(key: Key, condition: str) -> None:
    definition = _made()
    configuration = {**definition.metadata.configuration, "delta.constraints.positive": "a > 0"}
    with pytest.raises(HeadwaterError) as raised:
        keys.with_key(_with(definition, configuration=configuration), key)
    assert raised.value.condition == condition


def test_a_primary_key_needs_not_null() -> None:
    definition = begun(Declared(_schema("a", "b", "c", nullable=True), (), {}))
    with pytest.raises(HeadwaterError, match="may be null: a, b"):
        keys.with_key(definition, PK)
