import json

import pytest

from headwater.log.checksums import read_checksum, write_checksum
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import AddFile, DomainMetadata, Metadata, Protocol, SetTransaction
from headwater.stores import LocalStore
from headwater.transaction import Provenance, Transaction, wait_for_maintenance

PROTOCOL = Protocol(1, 7, None, frozenset({"domainMetadata", "inCommitTimestamp"}))


@pytest.fixture
def snapshot(tmp_path):
    txn = Transaction(str(tmp_path / "t"), LocalStore(), None)
    txn.update_protocol(PROTOCOL)
    txn.update_metadata(
        Metadata("id", '{"type":"struct","fields":[]}', configuration={"delta.enableInCommitTimestamps": "true"})
    )
    txn.set_transaction("app", 4)
    txn.add_action(DomainMetadata("mine", "{}"))
    txn.add([AddFile("a", {}, 10, 1), AddFile("b", {}, 20, 1)])
    committed = txn.commit(Provenance("CREATE TABLE AS SELECT"))
    assert wait_for_maintenance(60)
    yield committed.snapshot
    wait_for_maintenance()


def checksum_path(snapshot):
    return f"{snapshot.table_path}/_delta_log/{snapshot.version:020d}.crc"


def test_a_commit_is_followed_by_its_checksum(snapshot):
    with open(checksum_path(snapshot), encoding="utf-8") as file:
        content = json.load(file)
    assert content.pop("txnId") == snapshot.commit_info["txnId"]
    last_updated = content["setTransactions"][0].pop("lastUpdated")
    assert last_updated > 0
    assert content == {
        "tableSizeBytes": 30,
        "numFiles": 2,
        "numMetadata": 1,
        "numProtocol": 1,
        "inCommitTimestampOpt": snapshot.timestamp,
        "setTransactions": [{"appId": "app", "version": 4}],
        "domainMetadata": [{"domain": "mine", "configuration": "{}", "removed": False}],
        "metadata": snapshot.metadata.to_json()["metaData"],
        "protocol": snapshot.protocol.to_json()["protocol"],
    }


def test_what_is_written_is_read(snapshot):
    found = read_checksum(snapshot.table_path, snapshot.store, snapshot.version)
    assert found == snapshot.checksum(snapshot.commit_info["txnId"])
    assert found.set_transactions is not None
    assert found.set_transactions == (SetTransaction("app", 4, found.set_transactions[0].last_updated),)


def test_an_existing_checksum_stays(snapshot):
    with open(checksum_path(snapshot), "w", encoding="utf-8") as file:
        file.write("theirs")
    write_checksum(snapshot.table_path, snapshot.store, snapshot.version, snapshot.checksum())
    with open(checksum_path(snapshot), encoding="utf-8") as file:
        assert file.read() == "theirs"


@pytest.mark.parametrize("damage", [b"", b"[]", b'{"numFiles":1}', b"\xff"])
def test_a_damaged_checksum_counts_as_none(snapshot, damage):
    with open(checksum_path(snapshot), "wb") as file:
        file.write(damage)
    assert read_checksum(snapshot.table_path, snapshot.store, snapshot.version) is None
    assert read_checksum(snapshot.table_path, snapshot.store, 99) is None
    assert load_snapshot(snapshot.table_path, snapshot.store).num_files == 2
