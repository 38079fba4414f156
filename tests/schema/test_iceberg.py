"""Iceberg compatibility: which definitions and files each version forbids, and the ids within arrays and maps."""

import re
from dataclasses import replace

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.protocol.actions import AddFile, Metadata, Protocol
from headwater.protocol.column_metadata import COLUMN_ID, CURRENT_DEFAULT, NESTED_IDS
from headwater.protocol.columns import all_fields
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import (
    ArrayType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    parse_type,
    schema_string,
)
from headwater.schema import iceberg, mapping
from headwater.schema.reshaping import rename_column
from headwater.schema.widening import with_change

INT, LONG, STRING, DATE = (PrimitiveType(name) for name in ("integer", "long", "string", "date"))
SCHEMA = StructType((StructField("a", INT), StructField("p", STRING)))
COLLECTIONS = StructType(
    (
        StructField("col1", ArrayType(ArrayType(INT))),
        StructField("col2", MapType(INT, ArrayType(INT))),
        StructField("col3", MapType(INT, StructType((StructField("sub", ArrayType(INT)), StructField("n", INT))))),
    )
)


def table(version, *columns, features=(), partitions=(), **configuration):
    """A protocol and a metadata with a version enabled; no version for 0."""
    given = {key.replace("__", "."): value for key, value in configuration.items()}
    given = {"delta.columnMapping.mode": "name", **given}
    if version:
        given[iceberg.switch(version)] = "true"
    if version == 3:
        given.setdefault("delta.enableRowTracking", "true")
    compat = {f"icebergCompatV{version}"} if version else set()
    protocol = Protocol(2, 7, None, frozenset({"columnMapping", "rowTracking", *compat, *features}))
    schema = StructType((*SCHEMA, *columns))
    return protocol, Metadata(
        id="t", schema_string=schema_string(schema), partition_columns=tuple(partitions), configuration=given
    )


def rule_of(call, *arguments, **named):
    """The rule that a call breaks, and the error's text; None and the empty text for none."""
    try:
        call(*arguments, **named)
    except HeadwaterError as error:
        return error.condition.removeprefix("DELTA_ICEBERG_COMPAT_VIOLATION."), error.text
    return None, ""


def broken(protocol, metadata, before=None):
    had = None if before is None else TableDefinition(protocol, before)
    return rule_of(iceberg.check_definition, had, TableDefinition(protocol, metadata))


VECTORS = {"delta__enableDeletionVectors": "true"}
#: Definitions, and the rule each breaks.
DEFINITIONS = {
    "V1": (table(1), None),
    "V2": (table(2), None),
    "V3": (table(3), None),
    "enabled without the feature": (
        (Protocol(2, 7, None, frozenset({"columnMapping"})), table(2, **VECTORS)[1]),
        None,
    ),
    "the feature, not enabled": (table(0, features=["icebergCompatV2", "deletionVectors"], **VECTORS), None),
    "two": (
        table(2, features=["icebergCompatV1"], delta__enableIcebergCompatV1="true"),
        "VERSION_MUTUAL_EXCLUSIVE",
    ),
    "no mapping": (table(2, delta__columnMapping__mode="none"), "WRONG_REQUIRED_TABLE_PROPERTY"),
    "mapping by id": (table(1, delta__columnMapping__mode="id"), None),
    "V1, vectors supported": (table(1, features=["deletionVectors"]), "INCOMPATIBLE_TABLE_FEATURE"),
    "V2, vectors supported": (table(2, features=["deletionVectors"]), None),
    "V2, vectors": (table(2, features=["deletionVectors"], **VECTORS), "DELETION_VECTORS_SHOULD_BE_DISABLED"),
    "V3, vectors": (table(3, features=["deletionVectors"], **VECTORS), None),
    "V3, no row ids": (table(3, delta__enableRowTracking="false"), "WRONG_REQUIRED_TABLE_PROPERTY"),
    "V3, computed default": (
        table(3, StructField("d", DATE, True, {CURRENT_DEFAULT: "current_date()"})),
        "UNSUPPORTED_DEFAULT",
    ),
    "V2, computed default": (table(2, StructField("d", DATE, True, {CURRENT_DEFAULT: "current_date()"})), None),
}
for _kind, _allowed in {
    "void": (),
    "variant": (1, 3),
    "timestamp_ntz": (1, 2, 3),
    "ofTheFuture": (1,),
}.items():
    for _version in (1, 2, 3):
        _rule = None if _version in _allowed else "UNSUPPORTED_DATA_TYPE"
        DEFINITIONS[f"V{_version}, {_kind}"] = (table(_version, StructField("x", PrimitiveType(_kind))), _rule)
for _version in (1, 2, 3):
    _rule = None if _version == 3 else "UNSUPPORTED_DATA_TYPE"
    DEFINITIONS[f"V{_version}, geometry"] = (table(_version, StructField("x", parse_type("geometry"))), _rule)
for _nested in (ArrayType(INT), MapType(INT, INT), StructType((StructField("x", ArrayType(INT)),))):
    DEFINITIONS[f"V1, {_nested.sql()}"] = (table(1, StructField("x", _nested)), "UNSUPPORTED_DATA_TYPE")
    DEFINITIONS[f"V2, {_nested.sql()}"] = (table(2, StructField("x", _nested)), None)
DEFINITIONS["V2, within a map"] = (
    table(2, StructField("x", MapType(INT, ArrayType(PrimitiveType("variant"))))),
    "UNSUPPORTED_DATA_TYPE",
)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_definitions(name):
    definition, rule = DEFINITIONS[name]
    found, text = broken(*definition)
    assert found == rule
    assert not re.search("<[a-z]", text), "every parameter is given"


def test_errors_name_the_column_its_type_and_both_properties():
    _, text = broken(*table(2, StructField("s", StructType((StructField("v x", PrimitiveType("variant")),)))))
    assert "IcebergCompatV2 does not support the type VARIANT of the column s.`v x`" in text
    _, text = broken(*table(3, features=["icebergCompatV1"], delta__enableIcebergCompatV1="true"))
    assert "delta.enableIcebergCompatV1, delta.enableIcebergCompatV3" in text


@pytest.mark.parametrize(
    ("old", "new", "fits"),
    [
        (INT, LONG, True),
        (PrimitiveType("byte"), INT, True),
        (PrimitiveType("float"), PrimitiveType("double"), True),
        (DecimalType(5, 2), DecimalType(9, 2), True),
        (DecimalType(5, 2), DecimalType(9, 3), False),
        (INT, PrimitiveType("double"), False),
        (INT, DecimalType(12, 0), False),
        (DATE, PrimitiveType("timestamp_ntz"), False),
    ],
)
def test_changes_of_types_that_iceberg_lacks(old, new, fits):
    plain = StructField("x", ArrayType(new))
    column = replace(plain, metadata=with_change({}, old, new, ["element"]))
    for version in (1, 2, 3):
        kind = replace(column, type=new) if version == 1 else column
        assert broken(*table(version, kind))[0] == (None if fits else "UNSUPPORTED_TYPE_WIDENING")
    # Supported but not enabled: what was changed before stays, but no such change is added.
    protocol, after = table(0, column, features=["icebergCompatV2"])
    _, before = table(0, plain)
    assert broken(protocol, after, before)[0] == (None if fits else "UNSUPPORTED_TYPE_WIDENING")
    assert broken(protocol, after, after)[0] is None
    assert broken(table(0)[0], after, before)[0] is None
    if not fits:
        assert f"x.element from {old.sql().upper()} to {new.sql().upper()}" in broken(protocol, after, before)[1]


def test_partition_columns_stay():
    protocol, metadata = table(2, partitions=["p"])
    _, unpartitioned = table(2)
    assert broken(protocol, metadata, unpartitioned)[0] is None
    assert broken(protocol, metadata, metadata)[0] is None
    rule, text = broken(protocol, unpartitioned, metadata)
    assert rule == "REPLACE_TABLE_CHANGE_PARTITION_NAMES"
    assert "it has p, the new one none" in text


def test_partition_columns_may_be_renamed_or_replaced_by_ones_of_their_names():
    protocol, before = table(2, partitions=["p"])
    mapped = mapping.assign(before.schema, 0)[0]
    before = replace(before, schema_string=schema_string(mapped))
    renamed = rename_column(mapped, ("p",), "q")
    assert (
        broken(protocol, replace(before, schema_string=schema_string(renamed), partition_columns=("q",)), before)[0]
        is None
    )
    others, _ = mapping.assign(SCHEMA, 2)
    assert broken(protocol, replace(before, schema_string=schema_string(others)), before)[0] is None
    other = replace(before, schema_string=schema_string(rename_column(others, ("p",), "q")), partition_columns=("q",))
    assert broken(protocol, other, before)[0] == "REPLACE_TABLE_CHANGE_PARTITION_NAMES"


def test_enabling_on_tables_with_files():
    def rule(before, after, has_files=True):
        definitions = (TableDefinition(*before), TableDefinition(*after))
        return rule_of(iceberg.check_enabling, *definitions, has_files=has_files, is_unfit=lambda: False)[0]

    lacks = "FILES_NOT_ICEBERG_COMPAT"
    for version, expected in ((1, lacks), (2, None), (3, None)):
        assert rule(table(0, partitions=["p"]), table(version, partitions=["p"])) == expected
        assert rule(table(0, partitions=["p"]), table(version, partitions=["p"]), has_files=False) is None
    assert rule(table(0), table(1)) is None
    assert rule(table(2, partitions=["p"]), table(1, partitions=["p"])) is None
    tracked = table(0, delta__rowTracking__materializedRowIdColumnName="_row-id")
    assert rule(tracked, table(3)) == lacks
    assert rule(table(3, delta__rowTracking__materializedRowIdColumnName="_row-id"), table(3)) is None


def test_files_have_their_number_of_rows():
    for version in (0, 1, 2, 3):
        definition = TableDefinition(*table(version))
        assert definition.has_partition_columns_in_files == (version > 0)
        for stats in (None, "{}", '{"numRecords":null}'):
            file = AddFile("f.parquet", {}, 1, 1, stats=stats)
            rule, text = rule_of(iceberg.check_files, definition, [file])
            assert rule == ("MISSING_NUM_RECORDS" if version else None)
            assert ("f.parquet" in text) == bool(version)
        iceberg.check_files(definition, [AddFile("f", {}, 1, 1, stats='{"numRecords":0}')])


def test_what_properties_entail():
    on = {f"delta.enableIcebergCompatV{version}": "true" for version in (2,)}
    assert iceberg.entailed(on, new=True) == {"delta.columnMapping.mode": "name", **on}
    assert iceberg.entailed(on, new=False) == on
    assert iceberg.entailed({}, new=True) == {}
    on = {"delta.enableIcebergCompatV3": "true", "delta.columnMapping.mode": "id"}
    assert iceberg.entailed(on, new=True) == {**on, "delta.enableRowTracking": "true"}
    assert [iceberg.needs_nested_ids({iceberg.switch(v): "true"}) for v in (1, 2, 3)] == [False, True, True]


@pytest.mark.parametrize(
    "literal",
    ["1", "-1.5", " + 2", "1e-3", ".5", "3L", "1.5BD", "'a'", "'it''s'", r"'\''", '"b"', "NULL", "true", "X'00'"]
    + ["DATE'2024-01-01'", "timestamp '2024-01-01 00:00:00'"],
)
def test_literals(literal):
    assert broken(*table(3, StructField("x", STRING, True, {CURRENT_DEFAULT: literal})))[0] is None


@pytest.mark.parametrize("text", ["1 + 1", "rand()", "'a' || 'b'", "x", "'a' 'b' || c", "current_user", "'a", "1.5.x"])
def test_expressions_are_no_literals(text):
    assert broken(*table(3, StructField("x", STRING, True, {CURRENT_DEFAULT: text})))[0] == "UNSUPPORTED_DEFAULT"


def nested_ids(schema):
    """Nested ids by the logical path of the field and the steps below it."""
    return {
        ".".join((*path, *key.removeprefix(field.physical_name).split(".")[1:])): value
        for path, field in all_fields(schema)
        for key, value in field.metadata.get(NESTED_IDS, {}).items()
    }


def test_elements_keys_and_values_have_ids_of_their_own():
    mapped, highest = mapping.assign(COLLECTIONS, 0, nested=True)
    ids = nested_ids(mapped)
    assert set(ids) == {
        *("col1.element", "col1.element.element", "col2.key", "col2.value", "col2.value.element"),
        *("col3.key", "col3.value", "col3.value.sub.element"),
    }
    own = [field.metadata[COLUMN_ID] for _, field in all_fields(mapped)]
    assert sorted([*ids.values(), *own]) == list(range(1, highest + 1))
    assert mapping.max_column_id({}, mapped) == highest
    assert mapping.assign(mapped, highest, nested=True) == (mapped, highest)
    assert mapping.strip(mapped) == COLLECTIONS


def test_new_columns_and_collections_get_new_ids_and_the_others_keep_theirs():
    plain, highest = mapping.assign(StructType(COLLECTIONS.fields[:1]), 0)
    assert not nested_ids(plain)
    numbered, highest = mapping.assign(plain, highest, keep_names=True, nested=True)
    assert nested_ids(numbered) == {"col1.element": 2, "col1.element.element": 3}
    grown, highest = mapping.assign(StructType((*numbered, *COLLECTIONS.fields[1:])), highest, nested=True)
    assert grown.find("col1") == numbered.find("col1")
    assert min(value for key, value in nested_ids(grown).items() if not key.startswith("col1")) > 3
    # A dropped column's ids do not come back.
    _, more = mapping.assign(StructType((*numbered, StructField("x", INT))), highest, nested=True)
    assert more == highest + 1
