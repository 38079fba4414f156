"""The contracts of a store and of commits with the Hadoop of older Sparks and its connector for Azure.

``pytest -m soak tests/stores/test_older_hadoop.py`` fetches both with Maven. They come before those of the installed
Spark on the class path.
"""

from __future__ import annotations

import pytest

from support.jvms import fetched
from support.paths import TESTS
from support.stores import hadoop_jvm
from support.stores.commit_contract import CommitContract, race
from support.stores.store_contract import StoreContract

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module", params=["3.4.1", "3.4.2"], ids=["that of Spark 4.0", "that of Spark 4.1"])
def older(request, azure_server):
    """Stores of Azure's server, and how another process reaches it."""
    jars = [str(jar) for jar in fetched(TESTS / "support" / "stores" / "azure.xml", hadoop_version=request.param)]
    with hadoop_jvm.stores(azure_server.settings(), jars) as open_store:
        assert open_store.hadoop_version() == request.param
        yield open_store, jars


@pytest.fixture
def open_store(older):
    return older[0]


class TestAzure(StoreContract, CommitContract):
    missing_while_replaced = True  # there is no rename that replaces

    @pytest.fixture
    def server(self, azure):
        return azure

    @pytest.fixture
    def root(self, azure, open_store):
        open_store(azure.root).make_directory(azure.root)
        return azure.root

    @pytest.fixture
    def store(self, root, open_store):
        return open_store(root)

    @pytest.fixture
    def other(self, root, open_store):
        """With a file system of its own, as another process has one."""
        return open_store(root, {"fs.abfs.impl.disable.cache": "true"})

    def test_two_processes_lose_no_commit(self, azure, older):
        open_store, jars = older
        race(open_store, [azure.table], azure.settings(), jars)
