"""delta-rs by its Python API: all that its query engine reads, or only what ``to_pyarrow_table`` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from conformance.cases import FEED, Case
from conformance.steps import (
    AddColumn,
    AddConstraint,
    Append,
    Checkpoint,
    Delete,
    Optimize,
    Overwrite,
    Restore,
    Step,
    Update,
    Upsert,
)
from conformance.types import arrow


class DeltaRs:
    """delta-rs."""

    version = f"deltalake {deltalake.__version__}"

    def __init__(self, *, with_queries: bool) -> None:
        self._with_queries = with_queries

    def read(self, case: Case, path: Path) -> pa.Table:
        table = DeltaTable(str(path))
        if case.reads == FEED:
            return pa.table(table.load_cdf(starting_version=0))
        if not self._with_queries:
            return table.to_pyarrow_table()
        return pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t"))

    def create(self, case: Case, path: Path) -> None:
        DeltaTable.create(
            str(path),
            case.table(Step()).schema,
            partition_by=list(case.partitioned),
            configuration=dict(case.properties) or None,
        )

    def step(self, case: Case, step: Step, path: Path, file: Path) -> None:
        if isinstance(step, (Append, Overwrite)):
            mode: Any = "append" if isinstance(step, Append) else "overwrite"
            write_deltalake(str(path), pq.read_table(file), mode=mode)
            return
        table = DeltaTable(str(path))
        match step:
            case Delete(where):
                table.delete(where)
            case Update(column, value, where):
                table.update(updates={column: value}, predicate=where)
            case Upsert(key, _):
                merger = table.merge(pq.read_table(file), f"t.{key} = s.{key}", source_alias="s", target_alias="t")
                merger.when_matched_update_all().when_not_matched_insert_all().execute()
            case Optimize(zorder):
                table.optimize.z_order(list(zorder)) if zorder else table.optimize.compact()
            case Restore(version):
                table.restore(version)
            case AddConstraint(name, condition):
                table.alter.add_constraint({name: condition})
            case AddColumn(name, kind):
                table.alter.add_columns(deltalake.Field.from_arrow(pa.field(name, arrow(kind))))
            case Checkpoint():
                table.create_checkpoint()

    def done(self, case: Case) -> None:
        pass
