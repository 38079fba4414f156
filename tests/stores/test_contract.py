"""The contract of a store, kept by a real S3-compatible server and a real HDFS."""

from __future__ import annotations

import pytest

from support.stores.store_contract import StoreContract


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
