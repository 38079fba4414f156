"""Files of any file system that pyarrow has, for readers without Spark and without a JVM: S3, Google Cloud Storage,
Azure and others.

Owns how the paths of a table become pyarrow's. It only reads: pyarrow has no put-if-absent.
"""

from __future__ import annotations

from typing import NoReturn

import pyarrow as pa
import pyarrow.fs as pafs

from headwater.stores.interface import SCHEME, FileInfo, Store


class ArrowStore(Store):
    """A file system of pyarrow, read only.

    Its paths are a scheme, which means nothing, and the file system's own path, in which every character stands for
    itself: a percent sign encodes nothing, as :func:`~headwater.stores.absolute_path` has it.
    """

    puts_if_absent = False

    def __init__(self, filesystem: pafs.FileSystem) -> None:
        self._files = filesystem

    def uri(self, path: str) -> str:
        """The store's path of a path as the file system has it, or of one with a scheme before it (``s3://bucket/table``)."""
        scheme = SCHEME.match(path)
        inner = path if scheme is None else path[scheme.end() :].removeprefix("//")
        name = self._files.type_name if scheme is None else scheme.group(1)
        return f"{name.replace('::', '+').replace('_', '-')}://{inner.rstrip('/')}"

    def list_from(self, directory: str, start_name: str = "") -> list[FileInfo]:
        selector = pafs.FileSelector(self._path(directory))
        found = [
            FileInfo(f"{directory}/{info.base_name}", info.size, (info.mtime_ns or 0) // 1_000_000)
            for info in self._files.get_file_info(selector)
            if info.is_file and info.base_name >= start_name
        ]
        return sorted(found, key=lambda file: file.name)

    def folders(self, directory: str) -> list[str]:
        """The names of the directories in a directory."""
        found = self._files.get_file_info(pafs.FileSelector(self._path(directory)))
        return sorted(info.base_name for info in found if info.type == pafs.FileType.Directory)

    def read(self, path: str) -> bytes:
        with self._files.open_input_stream(self._path(path)) as stream:
            content: bytes = stream.read()
        return content

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        with self.open_input(path) as file:
            content: bytes = file.read_at(length, offset)
        return content

    def open_input(self, path: str) -> pa.NativeFile:
        return self._files.open_input_file(self._path(path))

    def exists(self, path: str) -> bool:
        return bool(self._files.get_file_info(self._path(path)).type != pafs.FileType.NotFound)

    def put_if_absent(self, path: str, data: bytes) -> None:
        self._refuse(path)

    def put(self, path: str, data: bytes) -> None:
        self._refuse(path)

    def make_directory(self, path: str) -> None:
        self._refuse(path)

    def delete(self, path: str) -> None:
        self._refuse(path)

    def _refuse(self, path: str) -> NoReturn:
        raise OSError(f"{path} is read through pyarrow, which only reads")

    def _path(self, uri: str) -> str:
        """The path of a URI as the file system has it. A path of this machine is none of its files."""
        scheme = SCHEME.match(uri)
        if scheme is None:
            raise FileNotFoundError(uri)
        return uri[scheme.end() :].removeprefix("//")
