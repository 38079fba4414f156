"""Delta Lake's kernel, by its own client and committer for Unity Catalog, and Headwater write one table at once."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.cli import launch
from headwater.log.snapshot import load_snapshot
from headwater.stores import LocalStore
from headwater.transaction import Provenance, Transaction, wait_for_maintenance
from support.commits import add_file
from support.concurrency.bank_run import peer_jars
from support.managed_tables import TOKEN, catalog_of, create_managed, log_of
from support.unity_server import UnityModel, serving

VERSIONS = 12
SOURCE = Path(__file__).parent / "programs" / "KernelWriter.java"


@pytest.fixture
def program(tmp_path):
    """The command that runs the program, without its arguments."""
    jars = peer_jars()
    if jars is None or shutil.which("javac") is None:
        pytest.skip("needs the peer's JARs and a JDK")
    libraries = ":".join([*jars.split(","), str(launch.spark_home() / "jars" / "*")])
    classes = tmp_path / "classes"
    subprocess.run(["javac", "-cp", libraries, "-d", str(classes), str(SOURCE)], check=True)
    return ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{classes}:{libraries}", "KernelWriter"]


@pytest.mark.soak  # a JVM of its own; tests/catalogs has the server's interface as the specification says it
def test_both_write_at_once(program, tmp_path):
    store, model = LocalStore(), UnityModel(str(tmp_path / "tables"), TOKEN)
    create_managed(catalog_of(model), store)
    table = model.schemas["s"]["t"]
    with serving(model) as uri:
        command = [*program, uri, "main", "s", "t", str(VERSIONS)]
        kernel = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert kernel.stdin is not None
        assert kernel.stdout is not None
        try:
            print(TOKEN, file=kernel.stdin, flush=True)
            assert kernel.stdout.readline() == "opened\n"
            ours = threading.Thread(target=write, args=(catalog_of(model), store))
            print("begin", file=kernel.stdin, flush=True)
            ours.start()
            assert kernel.stdout.readline().startswith("conflicts: ")
            ours.join(120)
            print("read", file=kernel.stdin, flush=True)
            read = kernel.stdout.readline()
            assert kernel.wait(60) == 0
        finally:
            kernel.kill()
        assert wait_for_maintenance(60)
        log = log_of(catalog_of(model), store)
        snapshot = load_snapshot(log.table_path, log)
    assert table.latest == 2 * VERSIONS
    assert read == f"read: {table.latest} {VERSIONS} {VERSIONS} {VERSIONS}\n"
    assert snapshot.version == table.latest
    assert {app: txn.version for app, txn in snapshot.set_transactions.items()} == {
        "kernel": VERSIONS,
        "headwater": VERSIONS,
    }
    assert sorted(snapshot.files["path"].to_pylist()) == sorted(f"mine-{number}" for number in range(1, VERSIONS + 1))
    assert (snapshot.metadata.configuration["kernel"], table.properties["kernel"]) == (str(VERSIONS), str(VERSIONS))
    # Each wrote its versions in order, and no version was written over.
    published = Path(table.location) / "_delta_log"
    noted: dict[str, list[int]] = {"kernel": [], "headwater": []}
    for version in range(1, table.latest + 1):
        staged = published / "_staged_commits" / table.history[version]
        content = staged.read_text()
        plain = published / f"{version:020}.json"
        assert not plain.exists() or plain.read_text() == content
        for action in map(json.loads, content.splitlines()):
            if "txn" in action:
                noted[action["txn"]["appId"]].append(action["txn"]["version"])
    assert noted == {app: list(range(1, VERSIONS + 1)) for app in noted}


def write(catalog, store):
    number = 1
    while number <= VERSIONS:
        log = log_of(catalog, store)
        txn = Transaction(log.table_path, log, load_snapshot(log.table_path, log))
        txn.set_transaction("headwater", number)
        txn.add([add_file(f"mine-{number}")])
        try:
            txn.commit(Provenance("WRITE"))
        except HeadwaterError as error:
            if error.condition != "DELTA_METADATA_CHANGED":
                raise
        else:
            number += 1
