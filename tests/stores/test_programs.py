"""The contracts of a store and of commits, kept by real server programs of Azure's and Google's protocols.

Azurite has Azure's endpoint of blobs, that of accounts without a hierarchical namespace; fake-gcs-server has Google's
JSON interface, asked by Google's own connector. ``pytest -m soak tests/stores/test_programs.py`` installs them once.
"""

from __future__ import annotations

import json
import uuid

import pytest

from support.stores import hadoop_jvm, programs
from support.stores.commit_contract import CommitContract, create, race
from support.stores.store_contract import StoreContract
from support.stores.table_story import live_there

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1200)]

#: Azurite's own, which everybody knows.
_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@pytest.fixture(scope="module")
def blobs(served, tmp_path_factory):
    """Azurite, with what Hadoop needs to reach it: it knows accounts by the names of hosts."""
    directory = tmp_path_factory.mktemp("azurite")
    (directory / "hosts").write_text(f"127.0.0.1 {_ACCOUNT}.blob.core.windows.net localhost\n", encoding="utf-8")
    with served("support.stores.programs", "azurite", programs.azurite(), str(directory)) as server:
        server.host = f"{_ACCOUNT}.blob.core.windows.net:{server.port}"
        server.reached = (
            {
                f"fs.azure.account.key.{server.host}": _KEY,
                "fs.azure.account.auth.type": "SharedKey",
                "fs.azure.account.hns.enabled": "false",
                "fs.azure.createRemoteFileSystemDuringInitialization": "true",
                "fs.azure.always.use.https": "false",
                "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",
                "fs.azure.io.retry.max.retries": "1",
                "fs.azure.io.retry.min.backoff.interval": "10",
                "fs.azure.io.retry.max.backoff.interval": "20",
            },
            [],
            [f"-Djdk.net.hosts.file={directory / 'hosts'}"],
        )
        with hadoop_jvm.stores(*server.reached) as server.open:
            yield server


@pytest.fixture(scope="module", params=["3.0.13", "4.0.4"])
def google(request, served, tmp_path_factory):
    """fake-gcs-server, with two lines of Google's connector."""
    directory = tmp_path_factory.mktemp("google")
    with served("support.stores.programs", "google", programs.fake_gcs_server(), str(directory)) as server:
        server.connector = request.param
        server.reached = (
            programs.google_settings(server.port),
            programs.google_jars(request.param),
            [],
        )
        with hadoop_jvm.stores(*server.reached) as server.open:
            yield server


class Programs:
    """Subclasses have the fixture ``server``, whose ``open`` gives stores and whose ``root`` is a test's own."""

    @pytest.fixture
    def open_store(self, server):
        return server.open

    @pytest.fixture
    def root(self, server, open_store):
        open_store(server.root).make_directory(server.root)
        return server.root

    @pytest.fixture
    def store(self, root, open_store):
        return open_store(root)

    @pytest.fixture
    def other(self, root, open_store):
        """With a file system of its own, as another process has one."""
        return open_store(root, {f"fs.{root.partition(':')[0]}.impl.disable.cache": "true"})


class TestAzurite(Programs, StoreContract):
    missing_while_replaced = True

    @pytest.fixture
    def server(self, blobs):
        blobs.root = f"abfs://box-{uuid.uuid4().hex[:12]}@{blobs.host}/root"
        blobs.table = f"{blobs.root}/t"
        return blobs


class TestGoogle(Programs, StoreContract, CommitContract):
    missing_while_replaced = True  # the connector asks for what it saw, which may be another by then

    def test_a_server_that_cannot_be_asked_is_an_error_of_access(self, server, open_store):
        """Google's connector does not tell why, where it asked for several objects at once; nor that it did."""
        server.rules({"do": "deny"})
        with pytest.raises(OSError, match="Error getting"):
            create(server.table, open_store(server.table))
        server.rules()
        assert create(server.table, open_store(server.table)).version == 0

    def test_two_processes_lose_no_commit(self, server, open_store):
        race(open_store, [server.table], *server.reached)

    def test_a_table_lives_there(self, server, spark_with, tmp_path):
        """In Spark, with the connector as a user gives it, and tasks in a process of their own."""
        settings, jars, _ = server.reached
        # The older line calls a method that Hadoop 3.5.0 no longer has, where it reads several ranges at once.
        settings = {**settings, "parquet.hadoop.vectored.io.enabled": str(server.connector >= "4").lower()}
        with spark_with(tmp_path, jars, settings) as spark:
            live_there(spark.sql, server.root)

    @pytest.fixture
    def server(self, google):
        google.rules()
        bucket = f"bucket-{uuid.uuid4().hex[:12]}"
        body = json.dumps({"name": bucket}).encode()
        made = google.request("POST", "/storage/v1/b?project=x", body, **{"Content-Type": "application/json"})
        assert made[0] == 200, made
        google.root = f"gs://{bucket}/root"
        google.table = f"{google.root}/t"
        return google
