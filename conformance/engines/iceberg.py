"""pyiceberg reads the Iceberg metadata of a table, without a catalog."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from conformance.cases import Case
from conformance.steps import Step


def newest_metadata(path: Path) -> Path:
    """The newest metadata file of a table in a folder.

    :raises FileNotFoundError: the table has no such file.
    """
    files = sorted((path / "metadata").glob("*.metadata.json"), key=lambda file: file.stat().st_mtime_ns)
    if not files:
        raise FileNotFoundError(f"{path} has no Iceberg metadata")
    return files[-1]


class PyIceberg:
    """pyiceberg."""

    def __init__(self) -> None:
        import pyiceberg

        self.version = f"pyiceberg {pyiceberg.__version__}"

    def read(self, case: Case, path: Path) -> pa.Table:
        from pyiceberg.table import StaticTable

        return StaticTable.from_metadata(str(newest_metadata(path))).scan().to_arrow()

    def create(self, case: Case, path: Path) -> None:
        raise NotImplementedError("not supported: it writes no Delta tables")

    def step(self, case: Case, step: Step, path: Path, file: Path) -> None:
        raise NotImplementedError("not supported: it writes no Delta tables")

    def done(self, case: Case) -> None:
        pass
