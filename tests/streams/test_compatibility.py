"""A stream that reads on after a change of the definition reads each column from where the files have it."""

from __future__ import annotations

import random

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.change_data.schemas import VersionedDefinition
from headwater.protocol.actions import Metadata, Protocol
from headwater.protocol.columns import Path, all_fields
from headwater.protocol.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType, schema_string
from headwater.schema import mapping
from headwater.streams.compatibility import Rules, check_change

_INT = PrimitiveType("integer")
_NAMES = ("a", "b", "c")
_FEATURES = frozenset({"columnMapping"})
_PROTOCOL = Protocol(3, 7, _FEATURES, _FEATURES)


def nested(inner: StructType) -> StructType:
    """A struct by itself, in an array and in a map."""
    kinds = {"s": inner, "l": ArrayType(inner, True), "m": MapType(_INT, inner, True)}
    return StructType((StructField("a", _INT), *(StructField(name, kind) for name, kind in kinds.items())))


class Story:
    """Definitions of a table, each from the one before by a statement."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        flat = StructType(tuple(StructField(name, _INT) for name in _NAMES))
        self.schema, self.mapped = self.chance.choice([flat, nested(flat)]), False
        if self.chance.random() < 0.3:
            self.map()

    @property
    def metadata(self) -> Metadata:
        mode = "name" if self.mapped else "none"
        return Metadata("t", schema_string(self.schema), (), {"delta.columnMapping.mode": mode}, created_time=1)

    def map(self) -> None:
        self.schema, self.mapped = mapping.assign(self.schema, 100, keep_names=True)[0], True

    def step(self) -> None:
        if not self.mapped:
            return self.map()
        if self.chance.random() < 0.1:  # as REPLACE does
            self.schema = mapping.assign(mapping.strip(self.schema), 0)[0]
            return None
        self.schema = mapping.assign(self._changed(self.schema), 0)[0]
        return None

    def _changed(self, struct: StructType) -> StructType:
        """A column dropped, renamed or added, here or in a struct."""
        fields = list(struct)
        at = self.chance.randrange(len(fields))
        changed: DataType
        match fields[at].type:
            case StructType() as inner:
                changed = self._changed(inner)
            case ArrayType(element=StructType() as inner):
                changed = ArrayType(self._changed(inner), True)
            case MapType(value=StructType() as inner):
                changed = MapType(_INT, self._changed(inner), True)
            case _:
                free = [name for name in _NAMES if struct.find(name) is None]
                if free and self.chance.random() < 0.6:
                    new = StructField(self.chance.choice(free), _INT)
                    named = StructField(new.name, _INT, metadata=fields[at].metadata)
                    fields[at:] = [named, *fields[at + 1 :]] if self.chance.random() < 0.3 else [*fields[at:], new]
                elif len(fields) > 1:
                    del fields[at]
                return StructType(tuple(fields))
        fields[at] = StructField(fields[at].name, changed, metadata=fields[at].metadata)
        return StructType(tuple(fields))


def names_in_files(metadata: Metadata) -> dict[Path, Path]:
    """What each column is called in the files, by its name."""
    mapped = metadata.configuration["delta.columnMapping.mode"] != "none"
    schema = metadata.schema if mapped else mapping.strip(metadata.schema)
    found: dict[Path, Path] = {}
    for path, field in all_fields(schema):
        above = next((path[:end] for end in range(len(path) - 1, 0, -1) if path[:end] in found), ())
        found[path] = (*found.get(above, ()), *path[len(above) : -1], field.physical_name)
    return found


@pytest.mark.parametrize("backfilling", [False, True])
def test_what_a_stream_reads_on_through_leaves_columns_where_they_were(backfilling):
    """Whether the stream meets a newer definition or begins with an older one than it reads with."""
    passed = refused = 0
    for seed in range(1000):
        story = Story(seed)
        versions = [story.metadata]
        for _ in range(story.chance.randint(1, 4)):
            story.step()
            versions.append(story.metadata)
        if backfilling:
            versions.reverse()
        reading = VersionedDefinition(_PROTOCOL, versions[0], 10)
        try:
            for number, changed in enumerate(versions[1:]):
                check_change(reading, changed, number if backfilling else 11 + number, Rules())
        except HeadwaterError:
            refused += 1
            continue
        passed += 1
        before, after = names_in_files(versions[0]), names_in_files(versions[-1])
        moved = {path for path in before.keys() & after.keys() if before[path] != after[path]}
        assert not moved, (seed, moved)
    assert passed > 100
    assert refused > 100


def test_mapping_by_itself_ends_no_stream():
    """It calls each column in the files what it was called before, whatever an earlier mapping has left behind."""
    schema = nested(StructType((StructField("x", _INT),)))
    left = mapping.assign(schema, 0)[0]
    for before in (schema, left):
        unmapped = Metadata("t", schema_string(before), ("a",), {}, created_time=1)
        mapped = Metadata(
            "t",
            schema_string(mapping.assign(schema, 0, keep_names=True)[0]),
            ("a",),
            {"delta.columnMapping.mode": "name"},
            created_time=1,
        )
        check_change(VersionedDefinition(_PROTOCOL, unmapped, 1), mapped, 2, Rules())
        with pytest.raises(HeadwaterError, match="USE_SCHEMA_LOG"):
            check_change(VersionedDefinition(_PROTOCOL, mapped, 1), unmapped, 2, Rules())
