"""A winner's change of the definition against what the loser wrote, cell by cell; and what the loser commits then."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.definition.changes import with_marks
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import AddFile, DeletionVector, Metadata, Protocol, RemoveFile
from headwater.protocol.column_metadata import DECLARED_TYPE, IDENTITY_HIGH_WATER_MARK
from headwater.protocol.concerns import Concern
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import (
    ArrayType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    parse_schema,
    schema_string,
)
from headwater.pruning.predicates import Predicate
from headwater.schema import mapping
from headwater.schema.identity import identity_metadata, with_high_water_marks
from headwater.stores import LocalStore
from headwater.transaction import Provenance, Transaction, wait_for_maintenance
from headwater.transaction.conflicts import Intent, Reads, WinningCommit, Writes, check
from headwater.transaction.definition_conflicts import Kind, changes_marks_only, definition_changes
from support import commits
from support.predicate_text import parse_predicate

LONG, INT, STRING = PrimitiveType("long"), PrimitiveType("integer"), PrimitiveType("string")


def column(name, kind=LONG, nullable=True, **metadata):
    return StructField(name, kind, nullable, {_dotted(key): value for key, value in metadata.items()})


def _dotted(key):
    return key.replace("__", ".") if key.startswith("delta") else key


ID, DAY, PLACE = column("id"), column("day", STRING), column("place", StructType((column("x"), column("y", INT))))
TAGS = column("tags", ArrayType(StructType((column("k"),))))
BASE = StructType((ID, DAY, PLACE, TAGS))
#: All features that the winners below use are there, but for those that one of them adds.
PROTOCOL = Protocol(1, 7, None, frozenset({"appendOnly", "invariants", "checkConstraints", "identityColumns"}))


def metadata(schema=BASE, partition_columns=("day",), **configuration):
    settings = {key.replace("__", "."): value for key, value in configuration.items()}
    return Metadata("the-id", schema_string(schema), partition_columns, settings)


def having(*fields):
    return metadata(StructType(fields))


OLD = metadata()
MAPPED_SCHEMA, HIGHEST = mapping.assign(BASE, 0, keep_names=True)
MAPPED = metadata(MAPPED_SCHEMA, delta__columnMapping__mode="name", delta__columnMapping__maxColumnId=str(HIGHEST))
NUMBERED = having(ID, DAY, column("n", LONG, **identity_metadata()))
NUMBERED_ON = replace(
    NUMBERED, schema_string=schema_string(with_high_water_marks(parse_schema(NUMBERED.schema_string), {"n": 3}))
)


def feature(*names):
    return replace(PROTOCOL, writer_features=(PROTOCOL.writer_features or frozenset()) | set(names))


def renamed(schema, old, new):
    return StructType(tuple(replace(f, name=new) if f.name == old else f for f in schema))


def without(schema, name):
    return StructType(tuple(f for f in schema if f.name != name))


BY_NAME = replace(feature("columnMapping"), min_reader_version=2)


def mapped(schema):
    return BY_NAME, replace(MAPPED, schema_string=schema_string(schema))


#: A definition; metadata alone has PROTOCOL.
Side = Metadata | tuple[Protocol, Metadata]
#: What a winner did, as definitions before and after, by whom it concerns.
WINNERS: dict[Concern, dict[str, tuple[Side, Side]]] = {
    Concern.NOBODY: {
        "a table's comment": (OLD, replace(OLD, description="text", name="n")),
        "a column's comment": (OLD, having(column("id", comment="text"), DAY, PLACE, TAGS)),
        "a user's property": (OLD, metadata(mine="1")),
        "an ordinary property": (OLD, metadata(delta__logRetentionDuration="interval 1 day")),
        "statistics of other columns": (OLD, metadata(delta__dataSkippingNumIndexedCols="3")),
        "a default": (OLD, having(column("id", CURRENT_DEFAULT="1"), DAY, PLACE, TAGS)),
        "a nullable column": (OLD, having(ID, DAY, column("new"), PLACE, TAGS)),
        "a nullable field": (OLD, having(ID, DAY, column("place", StructType((column("z"), *PLACE.type))), TAGS)),
        "a field in an array": (
            OLD,
            having(ID, DAY, PLACE, column("tags", ArrayType(StructType((column("k"), column("l")))))),
        ),
        "columns in another order": (OLD, having(TAGS, PLACE, DAY, ID)),
        "a CHECK dropped": (metadata(delta__constraints__c="id > 0"), OLD),
        "an expectation dropped": (metadata(headwater__expect__c="{}"), OLD),
        "NOT NULL dropped": (having(column("id", nullable=False), DAY, PLACE, TAGS), OLD),
        "a generation dropped": (having(column("id", delta__generationExpression="1"), DAY, PLACE, TAGS), OLD),
        "deletion vectors": (
            (PROTOCOL, OLD),
            (feature("deletionVectors"), metadata(delta__enableDeletionVectors="true")),
        ),
        "column mapping": ((PROTOCOL, OLD), (BY_NAME, MAPPED)),
        "in-commit timestamps": (
            (PROTOCOL, OLD),
            (feature("inCommitTimestamp"), metadata(delta__enableInCommitTimestamps="true")),
        ),
        "V2 checkpoints": ((PROTOCOL, OLD), (feature("v2Checkpoint"), metadata(delta__checkpointPolicy="v2"))),
        "row tracking": (
            (PROTOCOL, OLD),
            (
                feature("rowTracking", "domainMetadata"),
                metadata(
                    delta__enableRowTracking="true",
                    delta__rowTracking__materializedRowIdColumnName="_row-id",
                    delta__rowTracking__materializedRowCommitVersionColumnName="_row-commit",
                ),
            ),
        ),
        "type widening": ((PROTOCOL, OLD), (feature("typeWidening"), metadata(delta__enableTypeWidening="true"))),
        "no change data feed": (metadata(delta__enableChangeDataFeed="true"), OLD),
        "no append-only": (metadata(delta__appendOnly="true"), OLD),
        "WriteSerializable": (metadata(delta__isolationLevel="Serializable"), OLD),
        "versions that imply more": ((Protocol(1, 2), OLD), (Protocol(2, 5), OLD)),
        "features by name": (
            (Protocol(1, 2), OLD),
            (Protocol(1, 7, None, frozenset({"appendOnly", "invariants"})), OLD),
        ),
    },
    Concern.NUMBERING: {
        "identity values": (NUMBERED, NUMBERED_ON),
    },
    Concern.NEW_FILES: {
        "a NOT NULL column": (OLD, having(ID, DAY, PLACE, TAGS, column("new", nullable=False))),
        "a generated column": (OLD, having(*BASE, column("new", delta__generationExpression="id + 1"))),
        "an identity column": (OLD, having(*BASE, column("new", **identity_metadata()))),
        "a generation": (OLD, having(column("id", delta__generationExpression="1"), DAY, PLACE, TAGS)),
        "an invariant": (OLD, having(column("id", delta__invariants="{}"), DAY, PLACE, TAGS)),
        "another identity": (NUMBERED, having(ID, DAY, column("n", LONG, **identity_metadata(5)))),
        "no nulls in an array": (OLD, having(ID, DAY, PLACE, column("tags", replace(TAGS.type, contains_null=False)))),
        "an expectation": (OLD, metadata(headwater__expect__c="{}")),
        "an enforced key": (
            OLD,
            metadata(headwater__key__k='{"name": "k", "kind": "primary_key", "columns": ["id"], "enforced": true}'),
        ),
        "an enforced key of another column": (
            metadata(headwater__key__k='{"name": "k", "kind": "primary_key", "columns": ["id"], "enforced": true}'),
            metadata(headwater__key__k='{"name": "k", "kind": "primary_key", "columns": ["day"], "enforced": true}'),
        ),
        "Iceberg's files": (OLD, metadata(delta__enableIcebergCompatV2="true")),
    },
    Concern.UNPROVEN_FILES: {
        "a CHECK": (OLD, metadata(delta__constraints__c="id > 0")),
        "another CHECK": (metadata(delta__constraints__c="id > 0"), metadata(delta__constraints__c="id > 1")),
        "NOT NULL": (OLD, having(column("id", nullable=False), DAY, PLACE, TAGS)),
    },
    Concern.REMOVED_ROWS: {
        "a change data feed": (OLD, metadata(delta__enableChangeDataFeed="true")),
        "append-only": (OLD, metadata(delta__appendOnly="true")),
    },
    Concern.MARKED_ROWS: {
        "no deletion vectors": (metadata(delta__enableDeletionVectors="true"), OLD),
    },
    Concern.READERS: {
        "Serializable": (OLD, metadata(delta__isolationLevel="Serializable")),
    },
    Concern.EVERYBODY: {
        "a column dropped": ((BY_NAME, MAPPED), mapped(without(MAPPED_SCHEMA, "id"))),
        "a column renamed": ((BY_NAME, MAPPED), mapped(renamed(MAPPED_SCHEMA, "id", "key"))),
        "a column replaced": (
            (BY_NAME, MAPPED),
            mapped(mapping.assign(StructType((ID, *without(MAPPED_SCHEMA, "id"))), HIGHEST)[0]),
        ),
        "a column dropped, no mapping": (OLD, having(DAY, PLACE, TAGS)),
        "a column retyped": (having(column("id", INT), DAY, PLACE, TAGS), OLD),
        "a decimal retyped": (
            having(column("id", DecimalType(5, 1)), DAY),
            having(column("id", DecimalType(9, 1)), DAY),
        ),
        "a map's value retyped": (
            having(column("m", MapType(STRING, INT)), DAY),
            having(column("m", MapType(STRING, LONG)), DAY),
        ),
        "a field dropped": (OLD, having(ID, DAY, column("place", StructType((column("x"),))), TAGS)),
        "a shorter VARCHAR": (OLD, having(ID, column("day", STRING, **{DECLARED_TYPE: "varchar(3)"}), PLACE, TAGS)),
        "other partitions": (OLD, metadata(partition_columns=())),
        "another table": (OLD, replace(OLD, id="another")),
        "another format": (OLD, replace(OLD, format_provider="orc")),
        "mapping by id": (
            (PROTOCOL, OLD),
            (
                BY_NAME,
                replace(MAPPED, configuration={**MAPPED.configuration, "delta.columnMapping.mode": "id"}),
            ),
        ),
        "other names of files": (
            (PROTOCOL, OLD),
            (
                BY_NAME,
                replace(MAPPED, schema_string=schema_string(mapping.assign(BASE, 0)[0])),
            ),
        ),
        "other row id columns": (
            metadata(delta__rowTracking__materializedRowIdColumnName="a"),
            metadata(delta__rowTracking__materializedRowIdColumnName="b"),
        ),
        "a property of the future": (OLD, metadata(delta__ofTheFuture="1")),
        "a column's key of the future": (OLD, having(column("id", delta__ofTheFuture="1"), DAY, PLACE, TAGS)),
        "a feature of the future": ((PROTOCOL, OLD), (feature("ofTheFuture"), OLD)),
        "a feature that binds files": ((PROTOCOL, OLD), (feature("materializePartitionColumns"), OLD)),
        "a feature dropped": ((feature("v2Checkpoint"), OLD), (PROTOCOL, OLD)),
    },
}

NEW = AddFile("new", {"day": "1"}, 1, 1, True, '{"numRecords":2,"minValues":{"id":5},"nullCount":{"id":0}}')
MOVED = replace(NEW, data_change=False)
EVERYTHING = Reads(True)


class Loser(NamedTuple):
    """What a transaction wrote and read, and which changes stop it, beside those that concern everybody."""

    wrote: dict[str, Any]
    stopped_by: set[Concern]


LOSERS = {
    "append": Loser({"new_files": [NEW]}, {Concern.NEW_FILES, Concern.UNPROVEN_FILES}),
    "append that proves": Loser({"new_files": [NEW], "proves": lambda change, files: True}, {Concern.NEW_FILES}),
    "append with identity values": Loser(
        {"new_files": [NEW], "numbers": True}, {Concern.NEW_FILES, Concern.UNPROVEN_FILES, Concern.NUMBERING}
    ),
    "insert from itself": Loser(
        {"new_files": [NEW], "reads": EVERYTHING}, {Concern.NEW_FILES, Concern.UNPROVEN_FILES, Concern.READERS}
    ),
    "overwrite": Loser(
        {"new_files": [NEW], "removes_rows": True, "reads": EVERYTHING},
        {Concern.NEW_FILES, Concern.UNPROVEN_FILES, Concern.REMOVED_ROWS, Concern.READERS},
    ),
    "update that marks": Loser(
        {"new_files": [NEW], "removes_rows": True, "marks_rows": True, "reads": EVERYTHING},
        set(Concern) - {Concern.NOBODY, Concern.NUMBERING},
    ),
    "delete that marks": Loser(
        {"removes_rows": True, "marks_rows": True, "reads": EVERYTHING},
        {Concern.REMOVED_ROWS, Concern.MARKED_ROWS, Concern.READERS},
    ),
    "delete of files": Loser({"removes_rows": True, "reads": EVERYTHING}, {Concern.REMOVED_ROWS, Concern.READERS}),
    "compaction": Loser(
        {"new_files": [MOVED], "reads": EVERYTHING}, {Concern.NEW_FILES, Concern.UNPROVEN_FILES, Concern.READERS}
    ),
    "a stream's version": Loser({"app_ids": frozenset("a")}, set()),
    "alter": Loser({"definition_changed": True}, set(Concern)),
}


def intent(before, reads=None, app_ids=frozenset(), **writes):
    return Intent(before, reads or Reads(), Writes(**writes), app_ids=app_ids)


def definition(side: Side) -> TableDefinition:
    return TableDefinition(*side) if isinstance(side, tuple) else TableDefinition(PROTOCOL, side)


def sides(winner: str) -> Iterator[TableDefinition]:
    """The table before the winner, and after it."""
    (found,) = (winners[winner] for winners in WINNERS.values() if winner in winners)
    return map(definition, found)


@pytest.mark.parametrize(("concern", "winner"), [(concern, name) for concern in WINNERS for name in WINNERS[concern]])
def test_matrix(concern, winner):
    """Each loser against a winner: it goes on, or the condition that stops it names what changed."""
    before, after = sides(winner)
    commit = WinningCommit(
        7,
        protocol=after.protocol if after.protocol != before.protocol else None,
        metadata=after.metadata if after.metadata != before.metadata else None,
    )
    stopped = {}
    for loser, did in LOSERS.items():
        try:
            check(intent(before, **did.wrote), commit)
        except HeadwaterError as error:
            stopped[loser] = error
    expected = {loser for loser, did in LOSERS.items() if concern in did.stopped_by | {Concern.EVERYBODY}}
    assert set(stopped) == expected
    assert {error.condition for error in stopped.values()} <= {"DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED"}
    assert all(error.parameters["changes"] and "<" not in str(error) for error in stopped.values())


def test_every_kind_of_change_is_in_the_matrix():
    found = set()
    for winner in itertools.chain(*WINNERS.values()):
        found |= {(change.kind, change.concern) for change in definition_changes(*sides(winner))}
    assert {kind for kind, _ in found} == set(Kind)
    assert {concern for _, concern in found} == set(Concern)


@pytest.mark.parametrize(
    ("winner", "words"),
    [
        ("a column dropped", "the column id was dropped"),
        ("a column renamed", "the column id was renamed to key"),
        ("a column replaced", "the column id was dropped and added again"),
        ("a column retyped", "the type of id was changed from int to bigint"),
        ("a map's value retyped", "the type of m.value was changed from int to bigint"),
        ("a field dropped", "the column place.y was dropped"),
        ("a CHECK", "the CHECK constraint c (id > 0) was added"),
        ("an expectation", "the expectation c was added"),
        ("an enforced key", "the primary key k was enforced"),
        ("an enforced key of another column", "the primary key k was changed"),
        ("NOT NULL", "the column id was made NOT NULL"),
        ("a change data feed", "the property delta.enableChangeDataFeed was set to 'true'"),
        ("identity values", "values were generated for the identity column n"),
        ("a feature of the future", "the table feature ofTheFuture was added"),
    ],
)
def test_changes_are_named(winner, words):
    assert words in [change.text for change in definition_changes(*sides(winner))]


def test_marks_are_carried_into_the_winners_metadata():
    before, mine = definition(NUMBERED), definition(NUMBERED_ON)
    assert changes_marks_only(before, mine)
    assert not changes_marks_only(before, before)
    commented = replace(NUMBERED, description="text")
    assert not changes_marks_only(before, definition(replace(NUMBERED_ON, description="text")))
    commented, marked = (TableDefinition(PROTOCOL, each) for each in (commented, NUMBERED_ON))
    assert with_marks(commented, marked).metadata == replace(NUMBERED_ON, description="text")


# With a log


@pytest.fixture
def path(tmp_path):
    yield str(tmp_path / "t")
    wait_for_maintenance()


def create(path, table=OLD, protocol=PROTOCOL):
    return commits.create(path, table=table, protocol=protocol).snapshot


def alter(snapshot, table):
    commits.later(snapshot.table_path, commits.redefined(lambda _: table))()


def append(snapshot, *files, **settings):
    txn = Transaction(snapshot.table_path, snapshot.store, snapshot)
    for name, value in settings.items():
        setattr(txn, name, value)
    txn.add(files or [NEW])
    return txn


def lines(path, version):
    with open(f"{path}/_delta_log/{version:020d}.json", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_an_append_that_lost_to_in_commit_timestamps_is_stamped(path, monkeypatch):
    """The winner's clock is ahead: the stamp is after the winner's all the same."""
    snapshot = create(path)
    late = append(snapshot)
    with monkeypatch.context() as ahead:
        ahead.setattr("headwater.basics.clock.milliseconds", lambda: 9_999_999_999_000)
        alter(snapshot, metadata(delta__enableInCommitTimestamps="true"))
    committed = late.commit(Provenance("WRITE"))
    assert lines(path, 2)[0]["commitInfo"]["inCommitTimestamp"] == 9_999_999_999_001
    assert [kind for line in lines(path, 2) for kind in line] == ["commitInfo", "add"]
    assert (committed.version, committed.timestamp) == (2, 9_999_999_999_001)


def test_an_append_that_lost_to_no_more_timestamps_is_not_stamped(path):
    snapshot = create(path, metadata(delta__enableInCommitTimestamps="true"), feature("inCommitTimestamp"))
    late = append(snapshot)
    alter(snapshot, OLD)
    late.commit(Provenance("WRITE"))
    assert "inCommitTimestamp" not in lines(path, 2)[0]["commitInfo"]


def test_the_definition_of_the_newest_winner_counts(path):
    """Each winner is compared with the one before; the third is what stops the append."""
    snapshot = create(path)
    late = append(snapshot)
    alter(snapshot, replace(OLD, description="1"))
    alter(snapshot, metadata(StructType((*BASE, column("new"))), mine="1"))
    assert late.commit(Provenance("WRITE")).version == 3
    late = append(snapshot)
    alter(snapshot, metadata(StructType((*BASE, column("new", INT)))))
    with pytest.raises(HeadwaterError, match="the type of new was changed") as raised:
        late.commit(Provenance("WRITE"))
    assert raised.value.parameters["version"] == "4"


def test_what_the_winners_definition_forbids_is_refused(path, monkeypatch):
    """The table's features are checked again, as the winner left them."""
    snapshot = create(path)
    late = append(snapshot)
    alter(snapshot, metadata(delta__enableDeletionVectors="true"))

    def check_writable(protocol, *_, **__):
        if "deletionVectors" in (protocol.writer_features or ()):
            raise HeadwaterError("DELTA_UNSUPPORTED_FEATURES_FOR_WRITE", {"unsupported": "deletionVectors"})

    monkeypatch.setattr("headwater.transaction.prepared.check_writable", check_writable)
    with pytest.raises(HeadwaterError, match="DELTA_UNSUPPORTED_FEATURES_FOR_WRITE"):
        late.commit(Provenance("WRITE"))


def by_text(sql: str, schema: str) -> Predicate:
    return parse_predicate(sql)


@pytest.mark.parametrize(
    ("low", "nulls", "check", "goes_on"),
    [
        (5, 0, "id > 0", True),
        (0, 0, "id > 0", False),
        (5, 1, "id > 0", False),
        (None, 0, "id > 0", False),
        (5, 0, "day = '1'", True),
        (5, 0, "day = '2'", False),
        (5, 0, "id > 0 AND place IS NULL", False),
    ],
)
def test_statistics_prove_a_constraint(path, low, nulls, check, goes_on):
    snapshot = create(path)
    stats = {"numRecords": 2, "minValues": {"id": low}, "maxValues": {"id": 9}, "nullCount": {"id": nulls}}
    late = append(snapshot, replace(NEW, stats=json.dumps(stats)), parse_condition=by_text)
    alter(snapshot, metadata(delta__constraints__c=check))
    if goes_on:
        assert late.commit(Provenance("WRITE")).version == 2
    else:
        with pytest.raises(HeadwaterError, match="the CHECK constraint c"):
            late.commit(Provenance("WRITE"))


def test_a_constraint_that_cannot_be_evaluated_stops_an_append(path):
    snapshot = create(path)
    late = [append(snapshot), append(snapshot, parse_condition=lambda sql, schema: None)]
    alter(snapshot, metadata(delta__constraints__c="id > 0"))
    for txn in late:
        with pytest.raises(HeadwaterError, match="DELTA_METADATA_CHANGED"):
            txn.commit(Provenance("WRITE"))


@pytest.mark.parametrize(("stats", "goes_on"), [(NEW.stats, True), ('{"numRecords":2}', False), (None, False)])
def test_statistics_prove_not_null(path, stats, goes_on):
    snapshot = create(path)
    late = append(snapshot, replace(NEW, stats=stats))
    alter(snapshot, having(column("id", nullable=False), DAY, PLACE, TAGS))
    if goes_on:
        assert late.commit(Provenance("WRITE")).version == 2
    else:
        with pytest.raises(HeadwaterError, match="made NOT NULL"):
            late.commit(Provenance("WRITE"))


def test_identity_values_survive_a_comment_but_not_other_values(path):
    snapshot = create(path, NUMBERED)
    late, later = append(snapshot), append(snapshot)
    for txn in (late, later):
        txn.update_metadata(NUMBERED_ON)
    alter(snapshot, replace(NUMBERED, description="text"))
    committed = late.commit(Provenance("WRITE"))
    (n,) = [f for f in committed.snapshot.schema if f.name == "n"]
    assert (n.metadata[IDENTITY_HIGH_WATER_MARK], committed.snapshot.metadata.description) == (3, "text")
    with pytest.raises(HeadwaterError, match="values were generated for the identity column n"):
        later.commit(Provenance("WRITE"))
    assert append(snapshot).commit(Provenance("WRITE")).version == 3


def test_marks_go_on_over_a_comment(path):
    snapshot = create(path)
    append(snapshot).commit(Provenance("WRITE"))
    snapshot = load_snapshot(path, LocalStore())
    late = Transaction(path, snapshot.store, snapshot)
    late.read_whole_table()
    late.remove([RemoveFile("new", 1, True, True, {"day": "1"}, 1)])
    late.add([replace(NEW, deletion_vector=DeletionVector("i", "x", 1, 1))])
    alter(snapshot, replace(OLD, description="text"))
    assert late.commit(Provenance("DELETE")).version == 3
