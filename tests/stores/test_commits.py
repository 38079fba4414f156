"""Commits on real stores: none lost between processes, nor with an answer, and none made where it is not safe."""

from __future__ import annotations

import json
import subprocess

import pytest

from headwater.errors import HeadwaterError
from headwater.log.checkpoint_writing import write_checkpoint
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import AddFile, Metadata, Protocol, serialize
from headwater.transaction import Transaction, wait_for_maintenance
from support.processes import environment, python

COMMITS = 8
TAIL = 300
COMMIT = r"_delta_log/\d{20}\.json$"


def create(table, store):
    store.check_writable(table)
    txn = Transaction(table, store, None)
    txn.update_protocol(Protocol(1, 2))
    txn.update_metadata(Metadata("the-id", '{"type":"struct","fields":[]}', created_time=1))
    return txn.commit("CREATE TABLE", {}).snapshot


def append(table, store, snapshot, path="new"):
    txn = Transaction(table, store, snapshot)
    txn.add([AddFile(path, {}, 1, 1)])
    return txn.commit("WRITE", {})


def paths(snapshot):
    return sorted(snapshot.files["path"].to_pylist())


@pytest.mark.slow
def test_two_processes_lose_no_commit(s3, hdfs, open_store):
    tables = [f"s3a://{s3.bucket}/t", f"{hdfs}/t"]
    for table in tables:
        create(table, open_store(table))
    assert wait_for_maintenance(60)
    writers = [
        subprocess.Popen(
            python("support.stores.racing", json.dumps(s3.settings()), name, str(COMMITS), *tables),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(),
        )
        for name in ("one", "two")
    ]  # fmt: skip
    acknowledged = []
    try:
        for writer in writers:
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:
            writer.stdin.write("go\n")
            writer.stdin.flush()
        for writer in writers:
            acknowledged += json.loads(writer.communicate(timeout=200)[0])
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    for table in tables:
        versions = {version: path for where, version, path in acknowledged if where == table}
        assert sorted(versions) == list(range(1, 2 * COMMITS + 1))
        store = open_store(table)
        assert paths(load_snapshot(table, store)) == sorted(versions.values())
        written = [versions[version].partition("-")[0] for version in sorted(versions)]
        assert len([1 for a, b in zip(written, written[1:], strict=False) if a != b]) > 1, "they did not race"
        for version, path in versions.items():
            assert path in store.read(f"{table}/_delta_log/{version:020d}.json").decode()


@pytest.mark.parametrize(
    ("rule", "stands"),
    [
        ({"do": "lose", "times": 1}, True),  # Hadoop asks again, and finds its own file
        ({"do": "lose"}, True),  # it gives up
        ({"do": "hang up", "times": 1}, True),
        ({"do": "hang up"}, True),
        ({"do": "conflict", "times": 2}, True),
        ({"do": "conflict"}, False),
        ({"do": "fail"}, False),
        ({"do": "deny"}, False),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else None,
)
def test_a_commit_whose_answer_is_lost_is_looked_for(s3, open_store, rule, stands):
    table = f"s3a://{s3.bucket}/t"
    store = open_store(table)
    snapshot = create(table, store)
    assert wait_for_maintenance(60)
    s3.rules({"method": "PUT", "path": COMMIT, **rule})
    if stands:
        assert append(table, store, snapshot).version == 1
    else:
        with pytest.raises((OSError, HeadwaterError)) as raised:
            append(table, store, snapshot)
        assert isinstance(raised.value, OSError)
        assert raised.value.filename.endswith("00000000000000000001.json")
    assert wait_for_maintenance(60)
    s3.rules()
    assert paths(load_snapshot(table, store)) == (["new"] if stands else [])
    assert append(table, store, snapshot, "next").version == (2 if stands else 1)


def test_a_commit_that_may_be_there_says_so(s3, open_store):
    table = f"s3a://{s3.bucket}/t"
    store = open_store(table)
    snapshot = create(table, store)
    assert wait_for_maintenance(60)
    s3.rules({"path": COMMIT, "do": "fail"})
    with pytest.raises(HeadwaterError, match="HEADWATER_COMMIT_OUTCOME_UNKNOWN"):
        append(table, store, snapshot)


@pytest.mark.parametrize("do", ["ignore", "unknown"])
def test_a_server_that_does_not_keep_conditions_is_refused(s3, open_store, do):
    table = f"s3a://{s3.bucket}/t"
    s3.rules({"method": "PUT", "do": do})
    for _ in range(2):  # a refusal is not kept: the server may be another one by then
        with pytest.raises(HeadwaterError) as raised:
            create(table, open_store(table))
        assert raised.value.condition == "HEADWATER_CONDITIONAL_CREATE_IGNORED"
        for word in (table, "If-None-Match", "spark.headwater.store.s3a"):
            assert word in str(raised.value)
    written = [
        path for method, path, _ in s3.seen()["requests"] if method == "PUT" and path.startswith(f"/{s3.bucket}")
    ]
    assert all(path.endswith((".tmp", "/")) for path in written)
    assert open_store(table).list_from(f"{table}/_delta_log") == [] if do == "ignore" else True
    s3.rules()
    assert create(table, open_store(table)).version == 0


def test_a_server_is_tried_once(s3, open_store):
    table, other = f"s3a://{s3.bucket}/t", f"s3a://{s3.bucket}/other"
    open_store(table).check_writable(table)
    tried = s3.seen()["requests"]
    assert [condition for method, path, condition in tried if method == "PUT" and path.endswith(".tmp")] == [True, True]
    assert open_store(table).list_from(f"{table}/_delta_log") == []
    s3.rules()
    for path in (table, other):
        open_store(path).check_writable(path)
    assert s3.seen()["requests"] == []


def test_a_server_that_cannot_be_asked_is_an_error_of_access(s3, open_store):
    table = f"s3a://{s3.bucket}/t"
    s3.rules({"do": "deny"})
    with pytest.raises(PermissionError) as raised:
        create(table, open_store(table))
    assert "403" in str(raised.value.strerror)
    s3.rules()
    assert create(table, open_store(table)).version == 0


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
