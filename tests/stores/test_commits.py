"""Commits on real stores: none lost between processes, nor with an answer, and none made where it is not safe."""

from __future__ import annotations

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.log.checkpoint_writing import write_checkpoint
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import AddFile, serialize
from headwater.transaction import wait_for_maintenance
from support.stores.commit_contract import COMMIT, CommitContract, append, create, paths, race

TAIL = 300


@pytest.mark.slow
def test_two_processes_lose_no_commit(s3, azure, hdfs, open_store):
    race(open_store, [s3.table, azure.table, f"{hdfs}/t"], {**s3.settings(), **azure.settings()})


class TestS3(CommitContract):
    @pytest.fixture
    def server(self, s3):
        return s3

    @pytest.mark.parametrize("refusals", [1, 100])
    def test_a_refusal_of_a_request_that_the_client_repeats_denies_no_earlier_one(self, server, open_store, refusals):
        """The first request comes late; the client's next is refused, as with a right that was taken away."""
        store = open_store(server.table)
        snapshot = create(server.table, store)
        assert wait_for_maintenance(60)
        put = {"method": "PUT", "path": COMMIT}
        # The rule of refusals counts the first request as well, which is late before it is refused.
        server.rules({**put, "do": "late", "times": 1}, {**put, "do": "deny", "times": refusals + 1})
        if refusals == 1:
            assert append(server.table, store, snapshot).version == 1
        else:
            with pytest.raises(HeadwaterError, match="HEADWATER_COMMIT_OUTCOME_UNKNOWN"):
                append(server.table, store, snapshot)
        server.rules()
        assert paths(load_snapshot(server.table, store)) == ["new"]
        assert wait_for_maintenance(60)

    @pytest.mark.parametrize(("times", "stands"), [(2, True), (1000, False)])
    def test_a_create_that_is_put_off_is_asked_for_again(self, s3, open_store, times, stands):
        store = open_store(s3.table)
        snapshot = create(s3.table, store)
        assert wait_for_maintenance(60)
        s3.rules({"method": "PUT", "path": COMMIT, "do": "conflict", "times": times})
        if stands:
            assert append(s3.table, store, snapshot).version == 1
        else:
            # The other request for the name may be one of its own, to which there was no answer.
            with pytest.raises(HeadwaterError, match=r"OUTCOME_UNKNOWN.*409"):
                append(s3.table, store, snapshot)


@pytest.mark.soak  # the usual run has two processes that commit to each store, and a table on each
class TestAzure(CommitContract):
    @pytest.fixture
    def server(self, azure):
        return azure


@pytest.mark.parametrize("do", ["lose", "hang up"])
def test_a_temporary_file_is_not_taken_for_a_taken_name_on_azure(azure, open_store, do):
    """The answer to its create is lost, and the client, which asks again, finds its own file."""
    store = open_store(azure.table)
    for path in ("condition", r"_delta_log/\.0+\.json"):  # the server is tried, and the table is created
        azure.rules({"method": "PUT", "path": rf"{path}.*\.tmp$", "do": do, "times": 1})
        snapshot = create(azure.table, store) if path != "condition" else store.check_writable(azure.table)
    azure.rules({"method": "PUT", "path": r"_delta_log/\.0+1\.json.*\.tmp$", "do": do, "times": 1})
    assert append(azure.table, store, snapshot).version == 1
    assert wait_for_maintenance(60)
    azure.rules({"method": "PUT", "path": r"/\.x.*\.tmp$", "do": do, "times": 1})
    store.put(f"{azure.table}/x", b"new")
    assert store.read(f"{azure.table}/x") == b"new"
    azure.rules({"method": "PUT", "path": r"_delta_log/\.0+2\.json.*\.tmp$", "do": do})
    with pytest.raises(OSError, match=COMMIT.rstrip("$")) as raised:  # no name is free, and no race is lost
        append(azure.table, store, load_snapshot(azure.table, store))
    assert not isinstance(raised.value, FileNotFoundError)
    azure.rules()
    assert paths(load_snapshot(azure.table, store)) == ["new"]


def test_a_rename_that_may_still_find_its_file_is_done_again_on_azure(azure, open_store):
    store = open_store(azure.table)
    snapshot = create(azure.table, store)
    assert wait_for_maintenance(60)
    left = {"method": "DELETE", "path": r"\.tmp$", "do": "fail"}
    azure.rules({"method": "PUT", "path": COMMIT, "do": "late", "times": 2}, left)
    assert append(azure.table, store, snapshot).version == 1
    azure.rules()
    azure.rules({"method": "PUT", "path": COMMIT, "do": "late"}, left)
    with pytest.raises(HeadwaterError, match="HEADWATER_COMMIT_OUTCOME_UNKNOWN"):
        append(azure.table, store, load_snapshot(azure.table, store), "last")
    azure.rules()
    assert paths(load_snapshot(azure.table, store)) == ["last", "new"]
    assert wait_for_maintenance(60)


def test_a_client_that_cannot_ask_is_refused(s3, open_store):
    table = f"s3a://{s3.bucket}/t"
    with pytest.raises(HeadwaterError) as raised:
        create(table, open_store(table, {"fs.s3a.create.conditional.enabled": "false"}))
    assert raised.value.condition == "HEADWATER_CONDITIONAL_CREATE_NOT_AVAILABLE"
    assert "fs.s3a.create.conditional.enabled" in str(raised.value)


def test_s3_is_another_name_of_s3a(s3, open_store):
    table = f"s3://{s3.bucket}/t"
    store = open_store(table, {"fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem"})
    assert append(table, store, create(table, store)).version == 1
    assert wait_for_maintenance(60)


def test_a_mount_table_is_written_where_it_leads_to_hdfs(s3, hdfs, hdfs_uri, open_store):
    links = {
        "fs.viewfs.mounttable.here.link./hdfs": hdfs_uri,
        "fs.viewfs.mounttable.here.link./s3": f"s3a://{s3.bucket}/",
    }
    table = f"viewfs://here/hdfs/{hdfs.rpartition('/')[2]}/t"
    store = open_store(table, links)
    snapshot = append(table, store, create(table, store)).snapshot
    write_checkpoint(snapshot)
    assert paths(load_snapshot(table, open_store(f"{hdfs}/t"))) == ["new"]
    with pytest.raises(HeadwaterError, match="DELTA_UNSUPPORTED_STORE_FOR_WRITE"):
        create("viewfs://here/s3/t", open_store("viewfs://here/s3/t", links))


def test_a_long_tail_is_read_in_parallel(s3, open_store, capfd):
    """Overlapping requests are counted; the time, of a server that has the same cores, is only printed."""
    table = f"s3a://{s3.bucket}/t"
    store = open_store(table)
    create(table, store)
    assert wait_for_maintenance(60)
    for version in range(1, TAIL):
        body = serialize([AddFile(f"f{version}", {}, 1, 1)])
        assert s3.request("PUT", f"/{s3.bucket}/t/_delta_log/{version:020d}.json", body)[0] == 200
    s3.rules({"do": "wait"})
    assert load_snapshot(table, store).num_files == TAIL - 1
    seen = s3.seen()
    with capfd.disabled():
        print(f"\n{TAIL} commits on S3: {len(seen['requests'])} requests, up to {seen['most']} at once")
    assert len(seen["requests"]) < 2 * TAIL + 10  # its size, and then the file
    assert 16 <= seen["most"] <= 64


def test_what_is_new_costs_the_same_in_a_long_log(s3, open_store):
    table = f"s3a://{s3.bucket}/t"
    store = open_store(table)
    snapshot = create(table, store)
    append(table, open_store(table), snapshot)
    assert wait_for_maintenance(60)
    s3.rules()
    newest = load_snapshot(table, store, base=snapshot)
    assert newest.version == 1
    listed = [path for method, path, _ in s3.seen()["requests"] if method == "GET" and path == f"/{s3.bucket}"]
    assert len(listed) <= 4  # each a look whether one that is missing is a directory


def test_credentials_are_in_no_error(s3, open_store):
    table = f"s3a://AKIAOFNOBODY:{s3.secret.replace('/', '%2F')}@{s3.bucket}/t"
    s3.rules({"do": "ignore"})
    with pytest.raises(HeadwaterError) as raised:
        create(table, open_store(table))
    s3.rules({"do": "deny"})
    with pytest.raises(PermissionError) as denied:
        open_store(f"s3a://{s3.bucket}/t").read(f"s3a://{s3.bucket}/t/x")
    for text in (str(raised.value), str(denied.value)):
        assert "ecret" not in text
    assert f"s3a://***@{s3.bucket}/t" in str(raised.value)
