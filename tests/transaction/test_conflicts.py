"""The matrix of what a transaction read and wrote against what a winner wrote."""

from dataclasses import replace

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.log.commits import parse_actions
from headwater.protocol.actions import AddFile, DeletionVector, Metadata, Protocol, RemoveFile
from headwater.protocol.table_definition import TableDefinition
from headwater.transaction.conflicts import Intent, Isolation, Reads, WinningCommit, Writes, check, file_key

METADATA = Metadata("id", '{"type":"struct","fields":[]}')
DEFINITION = TableDefinition(Protocol(1, 2), METADATA)
NEW = AddFile("new", {"day": "1"}, 1, 1)
OTHER = AddFile("other", {"day": "2"}, 1, 1)
OLD = RemoveFile("old", 1, partition_values={"day": "1"})
FAR = RemoveFile("far", 1, partition_values={"day": "2"})
COMPACTED = [replace(NEW, data_change=False)]
COMPACTED_AWAY = [replace(OLD, data_change=False)]

NOTHING = Reads()
WHOLE = Reads(True)
#: Reads by predicate: the file ``old`` was read, and ``new`` would have been.
SOME = Reads(
    False,
    ("day = 1",),
    lambda files: [file for file in files if file.path == "new"],
    lambda files: [file for file in files if file.path == "old"],
)
REMOVED = Writes(frozenset({file_key("old", None)}))

WRITE = Isolation.WRITE_SERIALIZABLE
APPEND = {"adds": [NEW], "blind_append": True}
INSERT_SELECT = {"adds": [NEW]}

C_APPEND, C_READ, C_DELETE = (f"DELTA_CONCURRENT_{x}" for x in ("APPEND", "DELETE_READ", "DELETE_DELETE"))

#: What a winner did: to the rows that were read, here, or to others, elsewhere.
WINNERS = {
    "append": APPEND,
    "insert": INSERT_SELECT,
    "update": {"adds": [NEW], "removes": [OLD]},
    "delete": {"removes": [OLD]},
    "append elsewhere": {"adds": [OTHER], "blind_append": True},
    "update elsewhere": {"adds": [OTHER], "removes": [FAR]},
    "optimize": {"adds": COMPACTED, "removes": COMPACTED_AWAY},
    "optimize elsewhere": {"adds": [replace(OTHER, data_change=False)], "removes": [replace(FAR, data_change=False)]},
}
CELLS = {".": None, "A": C_APPEND, "R": C_READ, "D": C_DELETE}
#: One row for what this transaction read, removed and at which isolation; one letter for each winner, in order:
#: append, insert, update and delete here; append and update elsewhere; optimize here and elsewhere.
MATRIX = """
    nothing nothing WriteSerializable    . . . .   . .   . .
    nothing nothing Serializable         . . . .   . .   . .
    nothing nothing SnapshotIsolation    . . . .   . .   . .
    nothing old     WriteSerializable    . . D D   . .   D .
    nothing old     Serializable         . . D D   . .   D .
    nothing old     SnapshotIsolation    . . D D   . .   D .
    some    nothing WriteSerializable    . A A R   . .   . .
    some    nothing Serializable         A A A R   . .   . .
    some    nothing SnapshotIsolation    . . . .   . .   . .
    some    old     WriteSerializable    . A A R   . .   D .
    some    old     Serializable         A A A R   . .   D .
    some    old     SnapshotIsolation    . . D D   . .   D .
    whole   nothing WriteSerializable    . A A R   . A   . .
    whole   nothing Serializable         A A A R   A A   . .
    whole   nothing SnapshotIsolation    . . . .   . .   . .
    whole   old     WriteSerializable    . A A R   . A   D .
    whole   old     Serializable         A A A R   A A   D .
    whole   old     SnapshotIsolation    . . D D   . .   D .
"""
ROWS = [line.split() for line in MATRIX.strip().splitlines()]
WRITES = {"nothing": Writes(), "old": REMOVED}
READS = {"nothing": NOTHING, "some": SOME, "whole": WHOLE}


def test_the_matrix_has_every_cell():
    combinations = {tuple(row[:3]) for row in ROWS}
    assert len(combinations) == len(ROWS) == len(READS) * 2 * len(Isolation)
    assert all(len(row) == 3 + len(WINNERS) for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=" ".join)
def test_matrix(row):
    reads, removed, isolation, *cells = row
    mine = Intent(DEFINITION, READS[reads], WRITES[removed], Isolation(isolation))
    found = {name: outcome(mine, WinningCommit(5, **winner)) for name, winner in WINNERS.items()}
    assert found == {name: CELLS[cell] for name, cell in zip(WINNERS, cells, strict=True)}


def test_appends_count_when_i_change_metadata_after_reading():
    """A new constraint was checked against rows that did not include the appended ones."""
    mine = Intent(DEFINITION, WHOLE, Writes(definition_changed=True), WRITE)
    assert outcome(mine, WinningCommit(5, **APPEND)) == C_APPEND


def test_the_same_application_conflicts_and_others_do_not():
    mine = Intent(DEFINITION, app_ids=frozenset({"a", "b"}))
    assert outcome(mine, WinningCommit(5, app_ids=frozenset({"b"}))) == "DELTA_CONCURRENT_TRANSACTION"
    assert outcome(mine, WinningCommit(5, app_ids=frozenset({"c"}))) is None


def test_the_same_domain_conflicts_and_others_do_not():
    mine = Intent(DEFINITION, writes=Writes(domains=frozenset({"delta.clustering"})))
    assert outcome(mine, WinningCommit(5, domains=frozenset({"delta.clustering"}))) == "DELTA_CONCURRENT_WRITE"
    assert outcome(mine, WinningCommit(5, domains=frozenset({"mine"}))) is None


def test_two_creations_conflict_whatever_they_hold():
    assert outcome(Intent(None), WinningCommit(0)) == "DELTA_CONCURRENT_WRITE"


def test_direct_succession():
    assert outcome(Intent(DEFINITION, follows_directly=True), WinningCommit(5)) == "DELTA_METADATA_CHANGED"
    assert outcome(Intent(DEFINITION), WinningCommit(5)) is None


def test_a_new_deletion_vector_conflicts_with_one_on_the_same_file():
    vector = DeletionVector("u", "x", 1, 1)
    mine = Intent(DEFINITION, NOTHING, Writes(frozenset({file_key("old", vector)})))
    assert outcome(mine, WinningCommit(5, removes=[OLD])) == C_DELETE


def test_paths_compare_decoded():
    mine = Intent(DEFINITION, NOTHING, Writes(frozenset({file_key("a b", None)})))
    assert outcome(mine, WinningCommit(5, removes=[replace(OLD, path="a%20b")])) == C_DELETE


def test_the_message_names_the_winner_and_the_partition():
    winner = WinningCommit(7, 1_600_000_000_123, "MERGE", adds=[NEW, OTHER])
    with pytest.raises(HeadwaterError) as raised:
        check(Intent(DEFINITION, WHOLE), winner)
    assert raised.value.sql_state == "2D521"
    for text in ("version 7", "MERGE", "2020-09-13 12:26:40.123 UTC", "[day=1]", "[day=2]"):
        assert text in str(raised.value)
    assert "<" not in str(raised.value)


@pytest.mark.parametrize("removes", [[OLD], [replace(OLD, partition_values=None)]])
def test_no_message_has_an_open_placeholder(removes):
    mine = Intent(DEFINITION, WHOLE, replace(REMOVED, domains=frozenset("d")), app_ids=frozenset("a"))
    winners = [
        WinningCommit(1, protocol=Protocol(1, 1)),
        WinningCommit(1, metadata=replace(METADATA, id="another")),
        WinningCommit(1, adds=[NEW]),
        WinningCommit(1, removes=removes),
        WinningCommit(1, removes=[replace(removes[0], data_change=False)]),
        WinningCommit(1, app_ids=frozenset("a")),
        WinningCommit(1, domains=frozenset("d")),
    ]
    conditions = set()
    for winner in winners:
        with pytest.raises(HeadwaterError) as raised:
            check(mine, winner)
        assert "<" not in str(raised.value)
        conditions.add(raised.value.condition)
    assert len(conditions) == len(winners)


@pytest.mark.parametrize(("told", "blind"), [("true", True), ("false", False), ('"true"', False), ("null", False)])
def test_only_a_commit_that_says_so_is_a_blind_append(told, blind):
    text = f'{{"commitInfo":{{"operation":"WRITE","timestamp":5,"isBlindAppend":{told}}}}}\n'
    winner = WinningCommit.of_actions(3, parse_actions(text.encode(), "f"), 9)
    assert (winner.blind_append, winner.operation, winner.timestamp) == (blind, "WRITE", 5)


def test_a_commit_without_provenance_is_no_blind_append():
    line = b'{"add":{"path":"x","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}\n'
    winner = WinningCommit.of_actions(3, parse_actions(line, "f"), 9)
    assert not winner.blind_append
    assert winner.timestamp == 9
    assert outcome(Intent(DEFINITION, WHOLE), winner) == C_APPEND


def outcome(mine, winner):
    try:
        check(mine, winner)
    except HeadwaterError as error:
        return error.condition
    return None
