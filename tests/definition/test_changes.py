"""Definitions as statements make them: whose id, name and times they have, and what a transaction commits of them."""

from __future__ import annotations

import pytest

from headwater.definition.changes import (
    Declared,
    begun,
    changed,
    cloned,
    evolved,
    returned,
    unmapped,
    with_own_ids,
)
from headwater.protocol import properties
from headwater.protocol.column_metadata import COLUMN_ID, TYPE_CHANGES
from headwater.protocol.features import CATALOG_MANAGED
from headwater.protocol.types import PrimitiveType, StructField, StructType
from headwater.stores import LocalStore
from headwater.transaction import Provenance, Transaction

A = StructType.of(a=PrimitiveType("long"))
BY_NAME = {properties.COLUMN_MAPPING_MODE.name: "name"}


def table(schema=A, configuration=None, **more):
    declared = Declared(schema, (), configuration or {}, **more)
    return changed(begun(declared), name="n", description="d", created_time=5)


@pytest.mark.parametrize(
    ("more", "kept"),
    [
        ({}, ("id",)),
        ({"keeps_time": True}, ("id", "created_time")),
        ({"is_saved": True, "keeps_time": True}, ("id", "created_time", "name", "description")),
    ],
)
def test_what_a_replaced_table_keeps(more, kept):
    before = table()
    after = begun(Declared(A, (), {}), before, **more)
    parts = ("id", "created_time", "name", "description")
    assert tuple(p for p in parts if getattr(after.metadata, p) == getattr(before.metadata, p)) == kept


def test_a_new_table_has_an_id_of_its_own():
    assert begun(Declared(A, (), {})).metadata.id != begun(Declared(A, (), {})).metadata.id
    assert begun(Declared(A, (), {}, id="mine")).metadata.id == "mine"


def test_no_way_gives_the_id_of_a_column_again():
    before = table(StructType.of(a=PrimitiveType("long"), b=PrimitiveType("long")), BY_NAME)
    fewer = evolved(before, StructType(before.schema.fields[:1]))
    again = evolved(fewer, StructType((*fewer.schema, StructField("b", PrimitiveType("long")))))
    assert [field.metadata[COLUMN_ID] for field in again.schema] == [1, 3]
    assert returned(again, before).get(properties.MAX_COLUMN_ID) == 3
    assert begun(Declared(A, (), BY_NAME), again).schema.fields[0].metadata[COLUMN_ID] == 4


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("of_catalog", [True, False])
def test_a_clone_is_a_table_of_its_own(is_there, of_catalog):
    source, target = begun(Declared(A, (), {}), of_catalog=not of_catalog), table()
    made = cloned(source, target if is_there else None, of_catalog=of_catalog)
    assert made.supports(CATALOG_MANAGED) == of_catalog
    assert made.metadata.id != source.metadata.id
    assert (made.metadata.id == target.metadata.id) == is_there
    assert made.metadata.name == ("n" if is_there else None)


def test_files_with_ids_of_their_own():
    widened = {COLUMN_ID: 3, TYPE_CHANGES: [{"fromType": "integer", "toType": "long"}]}
    made = with_own_ids(table(A, BY_NAME), StructType((StructField("a", PrimitiveType("long"), metadata=widened),)), 7)
    assert (made.get(properties.MAX_COLUMN_ID), made.supports("typeWidening")) == (7, True)


def test_a_table_that_maps_no_columns_any_more_has_their_own_names():
    mapped = table(A, BY_NAME, clustered_by=[("a",)])
    made = unmapped(mapped)
    assert mapped.schema.find("a").physical_name != "a"
    assert (made.schema.find("a").physical_name, made.mapping_mode) == ("a", "none")
    assert made.clustering_columns == (("a",),)
    assert not made.sets(properties.MAX_COLUMN_ID)


def test_a_transaction_commits_what_is_new(tmp_path):
    store, path = LocalStore(), str(tmp_path)

    def actions_of(definition, snapshot):
        txn = Transaction(path, store, snapshot)
        txn.redefine(definition)
        return txn

    clustered = table(clustered_by=[("a",)])
    snapshot = actions_of(clustered, None).commit(Provenance("CREATE TABLE")).snapshot
    assert (snapshot.protocol, snapshot.metadata) == (clustered.protocol, clustered.metadata)
    assert snapshot.clustering_columns == (("a",),)
    assert not actions_of(snapshot.definition, snapshot).has_changes
    assert not actions_of(changed(snapshot.definition, description="d"), snapshot).has_changes
    again = begun(Declared(A, (), {}, clustered_by=[("a",)]), snapshot.definition)
    assert "delta.clustering" in actions_of(again, snapshot)._content.domains
    plain = actions_of(begun(Declared(A, (), {}), snapshot.definition), snapshot).commit(Provenance("REPLACE")).snapshot
    assert plain.clustering_columns is None
