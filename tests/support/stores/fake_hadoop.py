"""Hadoop's side of a store without Hadoop: a local directory, behind URIs of any scheme."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from headwater.stores import LocalStore
from headwater.stores.hadoop import ConditionalCreate


class FakeHadoop:
    """``scheme://path`` is ``path`` in the directory; ``calls`` notes how what is written was."""

    def __init__(self, directory: Path, mounted: str = "hdfs", conditional: bool = True) -> None:
        self.directory = directory
        self.mounted = mounted
        self.conditional = conditional
        self.calls: list[str] = []
        self.reached_with = ""
        self.local = LocalStore()

    def _local(self, path: str) -> str:
        return str(self.directory / path.partition("://")[2])

    def identity(self, path: str) -> str:
        return self.reached_with

    def mounted_scheme(self, path: str) -> str:
        return self.mounted

    def conditional_create(self, path: str) -> ConditionalCreate:
        return ConditionalCreate(self.conditional, f"the server of {self.directory}", "3.3.0")

    def list_from(self, directory, start_name):
        names = sorted(os.listdir(self._local(directory)))
        return [(path, *self._status(path)) for name in names if name >= start_name for path in [f"{directory}/{name}"]]

    def statuses(self, paths):
        self.calls.append(f"statuses of {len(paths)}")
        return [self._status(path) if os.path.exists(self._local(path)) else None for path in paths]

    def _status(self, path):
        """Size, time and tag: as on S3, a digest of the content."""
        file = Path(self._local(path))
        status = file.stat()
        tag = "" if file.is_dir() else hashlib.md5(file.read_bytes()).hexdigest()
        return status.st_size, status.st_mtime_ns // 1_000_000, tag

    def exist(self, paths):
        return [os.path.exists(self._local(path)) for path in paths]

    def entries(self, directories, deep, local_path):
        with open(local_path, "w", encoding="utf-8") as out:
            for directory in directories:
                for path in sorted(Path(self._local(directory)).glob("**/*" if deep else "*")):
                    if deep and path.is_dir():
                        continue
                    status, inside = path.stat(), path.relative_to(self._local(directory))
                    entry = [path.is_dir(), f"{directory}/{inside}", status.st_size, status.st_mtime_ns // 1_000_000]
                    out.write(f"{json.dumps(entry)}\n")

    def read(self, path):
        return self.local.read(self._local(path))

    def read_range(self, path, offset, length):
        return self.read(path)[offset : offset + length]

    def read_many(self, paths, local_path):
        contents = [self.read(path) for path in paths]
        Path(local_path).write_bytes(b"".join(contents))
        return [len(content) for content in contents]

    def copy_to_local(self, path, local_path):
        self.local.put(local_path, self.read(path))

    def create_by_rename(self, path, data):
        self.calls.append("create by rename")
        self.local.put_if_absent(self._local(path), data)

    def replace_by_rename(self, path, data):
        self.calls.append("replace by rename")
        self.local.put(self._local(path), data)

    def create_conditionally(self, path, data):
        self.calls.append("create conditionally")
        os.makedirs(os.path.dirname(self._local(path)), exist_ok=True)
        self.local.put_if_absent(self._local(path), data)

    def create_exclusively(self, path, data):
        self.calls.append("create exclusively")
        self.local.put_if_absent(self._local(path), data)

    def creates_that_win(self, path):
        return self._win(path, 2)

    def renames_that_win(self, path, count):
        return self._win(path, count)

    def _win(self, path, count):
        """How many of so many creates succeed, by a server that keeps the condition."""
        self.calls.append(f"{count} at once")
        os.makedirs(os.path.dirname(self._local(path)), exist_ok=True)
        self.local.put_if_absent(self._local(path), b"")
        return 1

    def replace(self, path, data):
        self.calls.append("replace")
        self.local.put(self._local(path), data)

    def make_directory(self, path):
        os.makedirs(self._local(path), exist_ok=True)

    def delete(self, path):
        self.local.delete(self._local(path))

    def delete_many(self, directory, paths):
        for path in paths:
            self.delete(path)
        return []

    def delete_empty(self, path):
        return self.local.delete_empty(self._local(path))
