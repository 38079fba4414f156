"""Which store a path is in, as the session's settings say."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.basics import start_settings
from headwater.basics.errors import HeadwaterError
from headwater.stores import HadoopStore
from headwater.stores.by_path import store_for
from support.stores.fake_hadoop import FakeHadoop
from support.stores.memory_store import MemoryStore

DYNAMO = "io.delta.storage.S3DynamoDBLogStore"


@pytest.mark.parametrize(
    ("settings", "refused"),
    [
        ({}, None),
        ({"spark.delta.logStore.s3a.impl": DYNAMO}, "spark.delta.logStore.s3a.impl"),
        ({"spark.delta.logStore.class": DYNAMO}, "spark.delta.logStore.class"),
        ({"spark.delta.logStore.class": "com.example.OurLogStore"}, "spark.delta.logStore.class"),
        ({"spark.delta.logStore.s3a.impl": "com.example.S3SingleDriverLogStore"}, "spark.delta.logStore.s3a.impl"),
        ({"spark.delta.logStore.s3.impl": DYNAMO}, None),
        ({"spark.delta.logStore.s3a.impl": "io.delta.storage.S3SingleDriverLogStore"}, None),
        ({"spark.delta.logStore.class": "org.apache.spark.sql.delta.storage.S3SingleDriverLogStore"}, None),
        (
            {
                "spark.delta.logStore.class": DYNAMO,
                "spark.delta.logStore.s3a.impl": "io.delta.storage.S3SingleDriverLogStore",
            },
            None,
        ),
    ],
)
def test_no_table_is_written_that_others_commit_to_elsewhere(
    settings: dict[str, str], refused: str | None, tmp_path: Path
) -> None:
    store, path = store_for("s3a://bucket/t/", FakeHadoop(tmp_path), settings)
    assert path == "s3a://bucket/t"
    if refused is None:
        store.check_writable(path)
        store.put_if_absent(f"{path}/_delta_log/0.json", b"{}")
        return
    for write in (store.check_writable, lambda p: store.put_if_absent(p, b"{}"), lambda p: store.put(p, b"{}")):
        with pytest.raises(HeadwaterError) as error:
            write(path)
        assert error.value.condition == "HEADWATER_LOG_STORE_NOT_SUPPORTED"
        assert refused in str(error.value)


def test_a_setting_of_headwater_is_a_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = {"spark.headwater.store.s3a": "support.stores.memory_store:MemoryStore"}
    monkeypatch.setattr(start_settings, "_given", named)
    store, path = store_for("s3a://bucket/t", FakeHadoop(tmp_path), {"spark.delta.logStore.class": DYNAMO})
    assert isinstance(store, MemoryStore)
    store.check_writable(path)


def test_a_setting_of_a_session_is_none(tmp_path: Path) -> None:
    named = {"spark.headwater.store.s3a": "a_module_that_nobody_may_name:Store"}
    assert isinstance(store_for("s3a://bucket/t", FakeHadoop(tmp_path), named)[0], HadoopStore)
