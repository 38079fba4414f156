"""Run by an environment with Flink: a table of Debezium's events, read as a stream and materialized row by row.

The job comes as JSON on standard input, the answer goes as JSON to the last line of standard output.
"""

from __future__ import annotations

import json
import sys
from collections import Counter

from pyflink.table import EnvironmentSettings, TableEnvironment


def main() -> None:
    job = json.load(sys.stdin)
    flink = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    settings = flink.get_config()
    settings.set("parallelism.default", "2")
    settings.set("table.local-time-zone", "UTC")
    if job["jars"]:
        settings.set("pipeline.jars", ";".join(job["jars"]))
    options = ", ".join(f"'{key}' = '{value}'" for key, value in job["options"].items())
    flink.execute_sql(f"CREATE TABLE events ({job['columns']}) WITH ({options})").wait()
    table: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    with flink.execute_sql(f"SELECT {job['select']} FROM events").collect() as changes:
        for change in changes:
            kind, row = str(change.get_row_kind()), json.dumps(list(change))
            kinds[kind] += 1
            if kind in ("-U", "-D"):
                assert table[row] > 0, f"{kind} of a row that is not there: {row}"
                table[row] -= 1
            else:
                table[row] += 1
    rows = [json.loads(row) for row in table.elements()]
    print(json.dumps({"rows": rows, "kinds": kinds}))


main()
