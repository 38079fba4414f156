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
        self._extensions = [
            next((packages / f"duckdb_extension_{name}").rglob(f"{name}.duckdb_extension")) for name in _EXTENSIONS
        ]

    def _connected(self) -> Any:
        """A database of its own, as one that met a fatal error answers no more."""
        con = duckdb.connect()
        con.execute("SET TimeZone = 'UTC'")
        for file in self._extensions:
            con.execute(f"LOAD '{file}'")
        return con

    def read(self, case: Case, path: Path) -> pa.Table:
        function, given = ("iceberg_scan", newest_metadata(path)) if case.reads == METADATA else ("delta_scan", path)
        # Arrow has no VARIANT.
        texts = [f'"{name}"::JSON::VARCHAR AS "{name}"' for name, column in case.shown.items() if column.is_variant]
        replaced = f"REPLACE ({', '.join(texts)})" if texts else ""
        query = f"SELECT * {replaced} FROM {function}(?)"
        with self._connected() as con:
            table: pa.Table = con.execute(query, [str(given)]).to_arrow_table()
            return table

    def create(self, case: Case, path: Path) -> None:
        raise NotImplementedError("not supported: it creates no Delta tables")

    def step(self, case: Case, step: Step, path: Path, file: Path) -> None:
        columns = ", ".join(f'"{name}"' for name in case.columns_of(step))
        with self._connected() as con:
            con.execute(f"ATTACH '{path}' AS target (TYPE delta)")
            con.execute(f"INSERT INTO target ({columns}) SELECT {columns} FROM read_parquet(?)", [str(file)])

    def done(self, case: Case) -> None:
        pass
