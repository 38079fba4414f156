"""ClickHouse, as a library (chDB): its table function ``deltaLakeLocal``, which reads with delta-kernel-rs."""

from __future__ import annotations

import io
from pathlib import Path

import chdb
import pyarrow as pa

from conformance.cases import Case
from conformance.steps import Step


class ClickHouse:
    """ClickHouse in this process."""

    version = f"ClickHouse {chdb.query('SELECT version()').data().strip().strip(chr(34))}"

    def read(self, case: Case, path: Path) -> pa.Table:
        """Its strings are bytes: if some columns are binary, the others are cast to what the case has."""
        as_text = "BINARY" not in case.ddl
        settings = f"SETTINGS output_format_arrow_string_as_string = {int(as_text)}"
        found = chdb.query(f"SELECT * FROM deltaLakeLocal('{path}') {settings}", "Arrow")
        table = pa.ipc.open_file(io.BytesIO(found.bytes())).read_all()
        if as_text:
            return table
        return table.cast(pa.schema([(name, case.shown[name].arrow) for name in table.column_names]))

    def create(self, case: Case, path: Path) -> None:
        raise NotImplementedError("not supported: it creates no Delta tables")

    def step(self, case: Case, step: Step, path: Path, file: Path) -> None:
        raise NotImplementedError("not supported: it writes no Delta tables")

    def done(self, case: Case) -> None:
        pass
