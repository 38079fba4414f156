"""daft: ``read_deltalake`` and ``write_deltalake``."""

from __future__ import annotations

from pathlib import Path

import daft
import pyarrow as pa
import pyarrow.parquet as pq

from conformance.cases import Case
from conformance.steps import Append, Step


class Daft:
    """daft, which takes the list of files, and the log of a table that it writes, from delta-rs."""

    version = f"daft {daft.__version__}"

    def read(self, case: Case, path: Path) -> pa.Table:
        return daft.read_deltalake(str(path)).to_arrow()

    def create(self, case: Case, path: Path) -> None:
        frame = daft.from_arrow(case.table(Step()))
        options = {"partition_cols": list(case.partitioned) or None, "configuration": dict(case.properties) or None}
        frame.write_deltalake(str(path), **{key: value for key, value in options.items() if value})

    def step(self, case: Case, step: Step, path: Path, file: Path) -> None:
        mode = "append" if isinstance(step, Append) else "overwrite"
        daft.from_arrow(pq.read_table(file)).write_deltalake(str(path), mode=mode)

    def done(self, case: Case) -> None:
        pass
