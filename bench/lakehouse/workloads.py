"""What runs: LHBench's four workloads in a small size, and TPC-H, which also runs with Comet."""

from __future__ import annotations

from collections.abc import Callable

from bench.lakehouse.data import BATCHES, REFRESHED, TPCDS, TPCH, Data, generated, without_limit
from bench.lakehouse.running import Run
from bench.lakehouse.sides import Side
from bench.sparks import SparkFailed

#: The queries before and after refreshes, which are LHBench's.
_REFRESH_QUERIES = ("q3", "q9", "q34", "q42", "q59")
#: Rows of the table that is merged into, at scale 1.
_MERGE_ROWS = 10_000_000
_MERGE_COLUMNS = "id, concat('name ', id % 1000) AS name, id % 97 AS kind, id / {} AS amount"
#: Percent of the table's rows in a source of MERGE, half of which are new.
_MERGE_PERCENT = (0.01, 0.1, 1.0, 10.0)
#: Files of the table with many.
_FILES = (10, 1000, 10_000, 200_000)
#: The most tasks that write a table with many files; beyond it, the limit of a file's rows makes the files.
_WRITING_TASKS = 1000
#: By how many files less a table still has that many: a range of keys may be empty.
_MISSING_FILES = 0.1
#: The tables of TPC-H with deletion vectors, and by what their files are ranges; rows below are deleted.
_MARKED = {"lineitem": "l_orderkey", "orders": "o_orderkey"}
_MARKED_BELOW = 100
_MARKED_FILES = 8
#: What fact tables are clustered by, where that is asked for.
_DATES = {
    "store_sales": "ss_sold_date_sk",
    "catalog_sales": "cs_sold_date_sk",
    "web_sales": "ws_sold_date_sk",
    "store_returns": "sr_returned_date_sk",
    "catalog_returns": "cr_returned_date_sk",
    "web_returns": "wr_returned_date_sk",
    "inventory": "inv_date_sk",
    "lineitem": "l_shipdate",
    "orders": "o_orderdate",
}


def tpcds(run: Run) -> None:
    """All tables of TPC-DS are loaded, then its 99 queries run."""
    _load_and_query(run, TPCDS)


def tpch(run: Run) -> None:
    """All tables of TPC-H are loaded, then its 22 queries run."""
    _load_and_query(run, TPCH)


def _load_and_query(run: Run, family: str) -> None:
    data = generated(family, run.scale, run.directory)
    for side in run.sides:
        side.use(family)
    for table in data.tables():
        query = f"SELECT * FROM {data.rows_of(table)}"
        clustered = _DATES.get(table) if run.clustered else None

        def load(side: Side, number: int, table: str = table, query: str = query, by: str | None = clustered) -> float:
            return side.create(table, query, clustered=by)

        run.time("load", table, load)
        if clustered:
            for side in run.sides:
                if side.clusters:
                    side.spark.run(f"OPTIMIZE {table}")
    _query(run, data)


def _query(run: Run, data: Data) -> None:
    for name, sql in data.queries.items():
        if not run.only_queries or name in run.only_queries:
            run.query("queries", name, sql, without_limit(sql))


def vectors(run: Run) -> None:
    """TPC-H; the first file of each of its two large tables has a deletion vector, where a side has these."""
    data = generated(TPCH, run.scale, run.directory)
    for side in run.sides:
        side.use("vectors")
        for table in data.tables():
            rows = f"SELECT * FROM {data.rows_of(table)}"
            if (key := _MARKED.get(table)) is None:
                side.create(table, rows)
                continue
            left_out = f"{key} < {_MARKED_BELOW}"
            files = f"SELECT /*+ REPARTITION_BY_RANGE({_MARKED_FILES}, {key}) */ * FROM ({rows}) AS r"
            if side.changes_rows:
                side.create(table, files, changeable=True)
                side.spark.run(f"DELETE FROM {table} WHERE {left_out}")
            else:
                side.create(table, f"{files} WHERE NOT {left_out}")
    _query(run, data)


def refresh(run: Run) -> None:
    """Queries of TPC-DS, then MERGEs of 3 % of the rows of fact tables, then the queries again."""
    data = generated(TPCDS, run.scale, run.directory)
    for side in run.sides:
        side.use("refresh")
        for table in data.tables():
            side.create(table, f"SELECT * FROM {data.rows_of(table)}", changeable=table in REFRESHED)
    for name in _REFRESH_QUERIES:
        run.query("before", f"{name} before", data.queries[name], without_limit(data.queries[name]))
    for table, keys in REFRESHED.items():

        def merge(side: Side, number: int, table: str = table, keys: tuple[str, ...] = keys) -> float:
            return side.spark.run(
                f"MERGE INTO {table} AS t USING {data.batch(table, number)} AS s "
                f"ON {' AND '.join(f't.{key} = s.{key}' for key in keys)} "
                "WHEN MATCHED AND s.action = 'delete' THEN DELETE "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )

        run.time("merge", table, merge, rounds=BATCHES - 1)
    for name in _REFRESH_QUERIES:
        run.query("after", f"{name} after", data.queries[name], without_limit(data.queries[name]))
    for table, (item, _) in REFRESHED.items():
        quantity = f"{item.partition('_')[0]}_quantity"
        run.compare(table, f"SELECT count(*), sum({item}), sum({quantity}) FROM {table}")


def merge(run: Run) -> None:
    """MERGEs of growing parts of a table of four columns, half of them new rows, each into the table as the one before
    left it; then the table is read.
    """
    rows = max(int(_MERGE_ROWS * run.scale), 10_000)
    for side in run.sides:
        side.use("merges")
    for percent in _MERGE_PERCENT:
        half = max(int(rows * percent / 200), 1)
        for side in run.sides:
            side.create("merged", f"SELECT {_MERGE_COLUMNS.format('7')} FROM range({rows})", changeable=True)

        def upsert(side: Side, number: int, half: int = half, percent: float = percent) -> float:
            source = run.directory / f"merge-{percent:g}-{number}"
            if not source.exists():
                # Keys all over the table, others in each round, and new ones behind its end.
                known = f"SELECT id * {rows // half} + {number} AS id FROM range({half})"
                new = f"SELECT id + {rows + number * half} AS id FROM range({half})"
                side.spark.run(
                    f"INSERT OVERWRITE DIRECTORY '{source}' USING parquet "
                    f"SELECT {_MERGE_COLUMNS.format(11 + number)} FROM ({known} UNION ALL {new})"
                )
            return side.spark.run(
                f"MERGE INTO merged AS t USING parquet.`{source}` AS s ON t.id = s.id "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )

        run.time("merge", f"{percent:g} % of {rows:,} rows", upsert)
        what = f"after merges of {percent:g} %"
        run.query("read", what, "SELECT kind, count(*), sum(id), sum(amount), max(name) FROM merged GROUP BY kind")


def files(run: Run) -> None:
    """The rows of store_sales in few files, and in many: planning, and simple queries."""
    data = generated(TPCDS, run.scale, run.directory)
    rows = data.rows_of("store_sales")
    for side in run.sides:
        side.use("files")
    found = run.sides[0].spark.call(
        "rows", sql=f"SELECT ss_sold_date_sk, ss_ticket_number FROM {rows} WHERE ss_sold_date_sk IS NOT NULL LIMIT 1"
    )
    ((day, ticket),) = found["rows"]
    ((all_rows,),) = run.sides[0].spark.call("rows", sql=f"SELECT count(*) FROM {rows}")["rows"]
    row = f"ss_sold_date_sk = {day} AND ss_ticket_number = {ticket}"
    for count in (each for each in _FILES if each <= run.most_files):
        table = f"sales_{count}"
        by = f"REPARTITION_BY_RANGE({min(count, _WRITING_TASKS)}, ss_sold_date_sk, ss_ticket_number)"
        query = f"SELECT /*+ {by} */ * FROM {rows}"
        name = f"{count:,} files"
        most_rows = int(all_rows) // count if count > _WRITING_TASKS else 0

        def load(side: Side, number: int, table: str = table, query: str = query, most_rows: int = most_rows) -> float:
            side.spark.run(f"SET spark.sql.files.maxRecordsPerFile = {most_rows}")
            return side.create(table, query)

        run.time("load", name, load, warm_up=0, rounds=1)
        for side in run.sides:
            _has_files(side, table, count)

        def plan(side: Side, number: int, table: str = table) -> float:
            return float(side.spark.call("plan", sql=f"SELECT * FROM {table} WHERE {row}")["seconds"])

        run.time(name, f"plan a query of a row, {name}", plan, rounds=2 * run.rounds)
        for what, text in (
            ("a row", f"SELECT * FROM {table} WHERE {row}"),
            ("a day", f"SELECT sum(ss_net_paid) FROM {table} WHERE ss_sold_date_sk = {day}"),
            ("count(*)", f"SELECT count(*) FROM {table}"),
            ("sum of a column", f"SELECT sum(ss_net_paid) FROM {table}"),
        ):
            run.query(name, f"{what}, {name}", text)


def _has_files(side: Side, table: str, count: int) -> None:
    names = f"SELECT input_file_name() AS name FROM {table}"
    sql = f"SELECT count(*) FROM (SELECT DISTINCT name FROM ({names}))"
    ((there,),) = side.spark.call("rows", sql=sql)["rows"]
    if int(there) < count * (1 - _MISSING_FILES):
        raise SparkFailed(f"{side.name}: {table} was to have {count} files and has {there}.")


#: Every workload by name, in the order of the page.
WORKLOADS: dict[str, Callable[[Run], None]] = {
    "tpcds": tpcds,
    "tpch": tpch,
    "refresh": refresh,
    "merge": merge,
    "files": files,
}
#: What runs with Comet.
ACCELERATED: dict[str, Callable[[Run], None]] = {"tpch": tpch, "vectors": vectors}
#: Those that need MERGE.
CHANGING = frozenset({"refresh", "merge"})
