"""``python -m support.duckdb_reader.reading FUNCTION PATH EXTENSION ...``: prints a table's rows as JSON."""

from __future__ import annotations

import json
import sys

import duckdb

from support.plain import sorted_rows


def main(function: str, path: str, *extensions: str) -> None:
    con = duckdb.connect()
    con.sql("SET TimeZone = 'UTC'")
    for extension in extensions:
        con.sql(f"LOAD '{extension}'")
    print(json.dumps(sorted_rows(con.execute(f"SELECT * FROM {function}(?)", [path]).to_arrow_table())))


if __name__ == "__main__":
    main(*sys.argv[1:])
