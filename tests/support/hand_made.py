"""A table whose commits are given as the JSON of their actions, with times, and the changes that it has."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headwater.change_data.bounds import Bound, VersionRange, resolve
from headwater.change_data.feed import ChangeFeed, open_feed
from headwater.log.history import CommitTimes
from headwater.log.segment import list_log
from headwater.log.snapshot import load_snapshot
from headwater.protocol.file_names import commit_name
from headwater.stores import LocalStore
from support.commits import write_commit

FEED = {"delta.enableChangeDataFeed": "true"}


class HandMade:
    """A table whose commits are given as actions; version n was committed 10 n seconds after the epoch."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.store = LocalStore()
        self.version = -1
        self.opened: list[int] = []

    def commit(self, *actions: Mapping[str, Any]) -> int:
        self.version += 1
        write_commit(self.path, self.version, {"commitInfo": {}}, *actions)
        os.utime(f"{self.path}/_delta_log/{commit_name(self.version)}", (0, 10 * self.version))
        return self.version

    def forget(self, version: int) -> None:
        """Delete a commit, as log clean-up does."""
        (Path(self.path) / "_delta_log" / f"{version:020d}.json").unlink()

    def metadata(
        self,
        columns: Mapping[str, Any] | None = None,
        configuration: Mapping[str, str] | None = None,
        partitions: tuple[str, ...] = (),
    ) -> dict[str, Any]:
        fields = [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            if isinstance(kind, str)
            else {"name": name, "nullable": True, "metadata": {}, **kind}
            for name, kind in (columns or {"a": "integer"}).items()
        ]
        return {
            "metaData": {
                "id": "i",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": fields}),
                "partitionColumns": list(partitions),
                "configuration": {**FEED, **(configuration or {})},
            }
        }

    def create(self, *actions: Mapping[str, Any], **metadata: Any) -> None:
        features = {"readerFeatures": ["columnMapping", "deletionVectors"]}
        features["writerFeatures"] = [*features["readerFeatures"], "changeDataFeed"]
        protocol = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}
        self.commit(protocol, self.metadata(**metadata), *actions)

    def times(self) -> CommitTimes:
        snapshot = load_snapshot(self.path, self.store)
        return CommitTimes(list_log(self.path, self.store), snapshot.metadata, self.store, snapshot.version)

    def range(self, start: Bound, end: Bound | None = None, **options: Any) -> VersionRange | None:
        return resolve(start, end, self.times(), self.version, **options)

    def feed(self, first: int, last: int | None = None, mode: str = "endVersion") -> ChangeFeed:
        def open_version(version: int) -> Any:
            self.opened.append(version)
            return load_snapshot(self.path, self.store, version)

        latest = load_snapshot(self.path, self.store)
        versions = VersionRange(first, self.version if last is None else last)
        return open_feed(versions, latest, self.times(), open_version, mode)


def add(path: str, **values: Any) -> dict[str, Any]:
    return {
        "add": {"path": path, "partitionValues": {}, "size": 10, "modificationTime": 5, "dataChange": True, **values}
    }


def remove(path: str, **values: Any) -> dict[str, Any]:
    return {"remove": {"path": path, "partitionValues": {}, "size": 10, "dataChange": True, **values}}


def cdc(path: str, **values: Any) -> dict[str, Any]:
    return {"cdc": {"path": path, "partitionValues": {}, "size": 10, "dataChange": False, **values}}
