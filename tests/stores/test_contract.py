"""The contract of a store, kept by an S3-compatible server, a server of Azure's REST API, and a real HDFS."""

from __future__ import annotations

import pytest

from support.stores.store_contract import StoreContract

pytestmark = pytest.mark.covering("file")


class TestS3(StoreContract):
    @pytest.fixture
    def root(self, s3, open_store):
        root = f"s3a://{s3.bucket}/root"
        open_store(root).make_directory(root)
        return root

    @pytest.fixture
    def store(self, root, open_store):
        return open_store(root)

    @pytest.fixture
    def other(self, root, open_store):
        """With a file system of its own, as another process has one."""
        return open_store(root, {"fs.s3a.impl.disable.cache": "true"})


@pytest.mark.soak
class TestWholeBucket(StoreContract):
    """The root is the bucket, whose path is empty."""

    @pytest.fixture
    def root(self, s3, open_store):
        root = f"s3a://{s3.bucket}"
        open_store(root).make_directory(root)
        return root

    @pytest.fixture
    def store(self, root, open_store):
        return open_store(root)


class TestAzure(StoreContract):
    missing_while_replaced = True  # there is no rename that replaces

    @pytest.fixture
    def root(self, azure, open_store):
        open_store(azure.root).make_directory(azure.root)
        return azure.root

    @pytest.fixture
    def store(self, root, open_store):
        return open_store(root)

    @pytest.fixture
    def other(self, root, open_store):
        return open_store(root, {"fs.abfs.impl.disable.cache": "true"})


class TestHdfs(StoreContract):
    @pytest.fixture
    def root(self, hdfs, open_store):
        open_store(hdfs).make_directory(hdfs)
        return hdfs

    @pytest.fixture
    def store(self, root, open_store):
        return open_store(root)

    @pytest.fixture
    def other(self, root, open_store):
        return open_store(root, {"fs.hdfs.impl.disable.cache": "true"})
