"""DuckDB: its extension ``delta`` reads with delta-kernel-rs and appends; its extension ``iceberg`` reads metadata."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from conformance.cases import METADATA, Case
from conformance.engines.iceberg import newest_metadata
from conformance.steps import Step

_EXTENSIONS = ("avro", "iceberg", "delta")


class DuckDb:
    """DuckDB, with the extensions that lie beside it."""

    version = f"DuckDB {duckdb.__version__}"

    def __init__(self) -> None:
        packages = Path(duckdb.__file__).parents[1]
        self._con: Any = duckdb.connect()
        self._con.execute("SET TimeZone = 'UTC'")
        for name in _EXTENSIONS:
            (file,) = (packages / f"duckdb_extension_{name}").rglob(f"{name}.duckdb_extension")
            self._con.execute(f"LOAD '{file}'")

    def read(self, case: Case, path: Path) -> pa.Table:
        if case.reads == METADATA:
            query, given = "SELECT * FROM iceberg_scan(?)", newest_metadata(path)
        else:
            query, given = "SELECT * FROM delta_scan(?)", path
        return self._con.execute(query, [str(given)]).to_arrow_table()

    def create(self, case: Case, path: Path) -> None:
        raise NotImplementedError("not supported: it creates no Delta tables")

    def step(self, case: Case, step: Step, path: Path, file: Path) -> None:
        self._con.execute(f"ATTACH '{path}' AS target (TYPE delta)")
        try:
            columns = ", ".join(f'"{name}"' for name in case.given)
            self._con.execute(f"INSERT INTO target ({columns}) SELECT {columns} FROM read_parquet(?)", [str(file)])
        finally:
            self._con.execute("DETACH target")

    def done(self, case: Case) -> None:
        pass
