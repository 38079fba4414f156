"""Which of a catalog's credentials are for a table, and what Hadoop's connectors call them."""

from __future__ import annotations

import pytest

from headwater.catalogs.unity.tables import Credential
from headwater.catalogs.unity.vended import chosen, is_vended_for, settings, tells_of_expiry

KEYS = {"s3.access-key-id": "AK", "s3.secret-access-key": "SK"}
BUCKET = "fs.s3a.bucket.b"


@pytest.mark.parametrize(
    ("prefixes", "location", "expected"),
    [
        (["s3://b/a"], "s3://b/a/t", 0),
        (["s3://b/a", "s3://b/a/t", "s3://b"], "s3://b/a/t", 1),
        (["s3://b", "s3://b/"], "s3://b/t", 0),
        (["s3://b/a/t/"], "s3a://b/a/t", 0),
        (["s3://b/a/t"], "s3://b/a/t2", None),
        (["s3://b/a/t/x", "s3://c/a", "gs://b/a", "b"], "s3://b/a/t", None),
        (["abfss://c@acc.dfs.core.windows.net/x"], "abfss://c@acc.dfs.core.windows.net/x/y", 0),
        (["abfss://c@acc.dfs.core.windows.net/x"], "abfss://d@acc.dfs.core.windows.net/x/y", None),
        ([], "s3://b/a", None),
        (["file:///a"], "/a/t", None),
    ],
)
def test_the_longest_prefix_that_the_table_lies_below(prefixes, location, expected):
    credentials = [Credential(prefix, 1, KEYS) for prefix in prefixes]
    assert chosen(credentials, location) is (None if expected is None else credentials[expected])


def test_settings_of_s3():
    keys = {
        f"{BUCKET}.access.key": "AK",
        f"{BUCKET}.secret.key": "SK",
        f"{BUCKET}.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    }
    assert settings(Credential("s3a://b", 1, KEYS), "s3a://b/t") == keys
    temporary = settings(Credential("s3://b", 1, KEYS | {"s3.session-token": "T"}), "s3://b/t")
    assert temporary == keys | {
        f"{BUCKET}.session.token": "T",
        f"{BUCKET}.aws.credentials.provider": "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
        "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    }
    assert settings(Credential("s3://b", 1, {"s3.access-key-id": "AK"}), "s3://b/t") == {}


def test_settings_of_azure():
    location = "abfss://c@acc.dfs.core.windows.net/t"
    found = settings(Credential(location, 1, {"azure.sas-token": "?sv=1&sig=x"}), location)
    assert found["fs.azure.account.auth.type.acc.dfs.core.windows.net"] == "SAS"
    assert found["fs.azure.sas.fixed.token.acc.dfs.core.windows.net"] == "sv=1&sig=x"
    assert settings(Credential(location, 1, KEYS), location) == {}


@pytest.mark.parametrize("location", ["/w/t", "file:///w/t", "file:/w/t", "hdfs://n/t", "s3:/b/t", "s3://", ""])
def test_places_that_no_credentials_are_vended_for(location):
    assert not is_vended_for(location)
    assert settings(Credential(location, 1, KEYS), location) == {}


def test_words_of_stores_for_credentials_that_have_expired():
    assert tells_of_expiry("S3Exception: The provided token has expired. (… ExpiredToken)")
    assert tells_of_expiry("AuthenticationFailed: Signature not valid in the specified time frame")
    assert not tells_of_expiry("AccessDenied: no such right")
