"""A table with a key index, without Spark: random keys, the entries of some files, and the truth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np

from headwater.key_index import segments
from headwater.key_index.definition import KeyIndex, indexes
from headwater.key_index.hashing import hash_of
from headwater.key_index.lookup import look_up
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.stores import LocalStore
from support.commits import write_commit

STORE = LocalStore()


class Indexed:
    """A table of files with random keys, of which some have entries; and the truth.

    :param keys: by file, the key of each row; None for a null.
    """

    def __init__(self, path: Path, random: Random, files: int) -> None:
        self.path, self.random = str(path), random
        self.keys = [[random.choice([None, *range(200)]) for _ in range(random.randrange(20))] for _ in range(files)]
        adds = [
            {
                "add": {
                    "path": f"{n}.parquet",
                    "size": 100 + n,
                    "modificationTime": 1,
                    "partitionValues": {},
                    "dataChange": True,
                }
            }
            for n in range(files)
        ]
        write_commit(self.path, 0, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, metadata(), *adds)

    def snapshot(self) -> Snapshot:
        return load_snapshot(self.path, STORE)

    def index(self) -> KeyIndex:
        (found,) = indexes(self.snapshot().definition)
        return found

    @property
    def folder(self) -> str:
        return segments.folder_of(self.path, "by_k")

    def put(
        self, files: Sequence[int], parts: int = 1, table: str = "of-this-table", index: KeyIndex | None = None
    ) -> None:
        """A segment of some files, in so many parts."""
        written = [self.part(files, number, parts) for number in range(parts)]
        covering = [(f"{file}.parquet", 100 + file) for file in files]
        segments.put_segment(STORE, self.folder, table, index or self.index(), covering, written)

    def part(self, files: Sequence[int], number: int = 0, parts: int = 1) -> segments.Part:
        """One of the parts of the entries of some files."""
        entries = [
            (found, file, row)
            for file, of_table in enumerate(files)
            for row, key in enumerate(self.keys[of_table])
            if (found := hash_of(["integer"], [key])) is not None
        ]
        some = sorted(entries[number::parts])
        h, f, r = (np.array([entry[i] for entry in some], np.int64) for i in range(3))
        return segments.write_part(STORE, self.folder, h, f.astype(np.int32), r)

    def check(self, keys: Sequence[int]) -> set[int]:
        """That a lookup leaves out no row; the files that it knows."""
        snapshot = self.snapshot()
        names = snapshot.select(("path",))["path"].to_pylist()
        found = look_up(snapshot, self.index(), [h for key in keys if (h := hash_of(["integer"], [key])) is not None])
        if found is None:
            return set()
        known = set()
        for at, name in enumerate(names):
            file = int(name.partition(".")[0])
            true = {row for row, key in enumerate(self.keys[file]) if key in keys}
            if found.covered[at]:
                known.add(file)
                assert set(found.rows.get(at, ())) == true
                assert bool(found.may_match[at]) == bool(true)
            else:
                assert found.may_match[at]
        return known


def added(path: str, size: int) -> dict[str, object]:
    return {"add": {"path": path, "size": size, "modificationTime": 1, "partitionValues": {}, "dataChange": True}}


def metadata(**changed: object) -> dict[str, object]:
    schema = '{"type":"struct","fields":[{"name":"k","type":"integer","nullable":true,"metadata":{}}]}'
    configuration = {"headwater.index.by_k.columns": "k"}
    given = {"id": "of-this-table", "format": {"provider": "parquet", "options": {}}, "schemaString": schema}
    return {"metaData": {**given, "partitionColumns": [], "configuration": configuration, **changed}}


def forget() -> None:
    """As a process does that has read none of the files."""
    segments._MANIFESTS.clear()
    segments._FOOTERS.clear()
    segments._DAMAGED.clear()
