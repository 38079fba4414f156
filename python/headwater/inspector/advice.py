"""What to do about a table: the findings of ``headwater health``, with the statements to copy.

Owns where the page takes the figures from: those that it shows anyway are worked out once. Promise: the findings are
those that the command and DESCRIBE HEALTH have of the same version, without those about predicates, and about files
that are missing: the page looks for no file.
"""

from __future__ import annotations

from typing import Any

from headwater.inspector import files, log_files
from headwater.inspector.overview import counts
from headwater.inspector.plain import short
from headwater.inspector.table import View
from headwater.schema.iceberg import is_converted
from headwater.statements.maintenance.findings import by_path, findings, statement
from headwater.statements.maintenance.health import expected, file_figures, iceberg_figures, index_figures
from headwater.statements.maintenance.layouts import Settings


def advice(view: View) -> dict[str, Any]:
    """The findings of a version, the worst first, each with its statement, if there is one.

    :raises HeadwaterError: ``DELTA_MISSING_COMMIT_TIMESTAMP``, ``HEADWATER_CLUSTERING_UNREADABLE``.
    """
    snapshot = view.snapshot
    Settings.of_table(snapshot.definition)
    rows = view.once(counts, counts)
    sections: dict[str, Any] = {
        "table": expected(snapshot),
        "files": {
            **view.once(
                "files",
                lambda _: file_figures(
                    snapshot, snapshot.select(["path", "size"]), Settings.of_table(snapshot.definition)
                ),
            ),
            "partitions": view.once(files.partitions, files.partitions)["count"],
        },
        "rows": {**rows, "filesWithDeletedRows": rows["filesWithVectors"]},
        "optimize": view.once(files.optimize, files.optimize),
        "vacuum": log_files.vacuum(view),
        "log": log_files.figures(view),
        "iceberg": iceberg_figures(snapshot) if is_converted(snapshot.definition) else {},
        "indexes": index_figures(snapshot),
        "skipping": {},
    }
    name = by_path(snapshot.table_path)
    return {
        "findings": [
            {"level": each.level, "name": each.name, "text": short(each.text, 2000), "sql": statement(each.name, name)}
            for each in findings(sections, name)
        ]
    }
