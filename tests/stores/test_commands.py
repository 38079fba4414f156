"""The commands that need no Spark on tables in S3, with the credentials that pyarrow finds."""

from __future__ import annotations

import json

import pyarrow.fs as pafs
import pytest
from typer.testing import CliRunner

from headwater.basics.errors import HeadwaterError
from headwater.cli import main as cli
from headwater.log.checkpoint_writing import write_checkpoint
from support.commits import newest, write_commit

_COMMIT = [
    {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
    {
        "metaData": {
            "id": "i",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": '{"type":"struct","fields":[]}',
            "partitionColumns": [],
            "configuration": {},
        }
    },
    {"add": {"path": "f", "size": 7, "partitionValues": {}, "modificationTime": 1, "dataChange": True}},
]


def test_s3(s3, tmp_path, monkeypatch):
    table = tmp_path / "a table"
    write_commit(table, 0, *_COMMIT)
    write_checkpoint(newest(table))
    write_commit(table, 1, {"commitInfo": {"operation": "WRITE"}})
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOFNOBODY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3.secret)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    options = f"endpoint_override=127.0.0.1%3A{s3.port}&scheme=http&region=us-east-1"
    files, _ = pafs.FileSystem.from_uri(f"s3://{s3.bucket}?{options}")
    pafs.copy_files(str(tmp_path), s3.bucket, pafs.LocalFileSystem(), files)

    def run(command, path, *more):
        uri = f"{path}?{options}"
        return json.loads(CliRunner().invoke(cli.app, [command, uri, "--json", *more], catch_exceptions=False).stdout)

    for scheme in ("s3", "s3a"):
        path = f"{scheme}://{s3.bucket}/a%20table"
        assert run("detail", path)["location"] == path
        assert run("files", path)["files"][0]["path"] == "f"
    assert [row["operation"] for row in run("history", path)] == ["WRITE", None]
    assert len(run("log", path)) == 4
    assert run("diff", path)["sums"]["files"] == [1, 1]
    assert run("health", path)["files"]["files"] == 1
    s3.rules({"do": "deny"})
    with pytest.raises(HeadwaterError) as denied:
        run("history", path)
    assert denied.value.condition == "DELTA_FILE_ACCESS_FAILED"
    assert str(s3.port) not in str(denied.value).partition("ACCESS_DENIED")[0]
    assert "credentials" in str(denied.value)
