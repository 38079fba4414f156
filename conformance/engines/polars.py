"""polars: ``read_delta`` and ``write_delta``."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pyarrow as pa

from conformance.cases import Case
from conformance.steps import Append, Step


class Polars:
    """polars, which leaves the log of a table that it writes to delta-rs."""

    version = f"polars {pl.__version__}"

    def read(self, case: Case, path: Path) -> pa.Table:
        return pl.read_delta(str(path)).to_arrow()

    def create(self, case: Case, path: Path) -> None:
        options = {"partition_by": list(case.partitioned), "configuration": dict(case.properties)}
        empty = pl.from_arrow(case.table(Step()))
        assert isinstance(empty, pl.DataFrame)
        empty.write_delta(str(path), delta_write_options={key: value for key, value in options.items() if value})

    def step(self, case: Case, step: Step, path: Path, file: Path) -> None:
        pl.read_parquet(file).write_delta(str(path), mode="append" if isinstance(step, Append) else "overwrite")

    def done(self, case: Case) -> None:
        pass
