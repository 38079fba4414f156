"""``python -m bench.longevity``: a table under loads, changes and queries for hours, through Thrift servers.

The pattern of LST-Bench's longevity workload. Each variant is a Thrift server of its own with one client: Headwater
and the peer, each with and without auto-compaction. Variants take turns, phase by phase. The measure is LST-Bench's
degradation rate: the mean of ``(M[i] - M[i-1]) / M[i-1]`` over the seconds ``M`` of a phase in successive cycles. A
table that stays as fast as it was has 0. After each cycle, the resident memory of the driver and of the handler process
is read. After the last one, all variants must have the same rows: the exit code is 1 if they do not. ``--record`` keeps
the result in ``bench/longevity.json``, for the page on benchmarks.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from statistics import mean, median
from typing import Annotated, Any

import pyspark
import typer

from bench.lakehouse.page import LONGEVITY
from bench.sparks import OURS, PEER, SparkFailed, settings
from headwater.cli.launch import SERVERS

#: The variants: their names for people, the kind of Spark, and whether small files are compacted after writes.
VARIANTS = {
    "Headwater": (OURS, False),
    "Headwater, auto-compaction": (OURS, True),
    "Delta Lake": (PEER, False),
    "Delta Lake, auto-compaction": (PEER, True),
}
PHASES = ("load", "change", "query")
_COLUMNS = (
    "id, date_add(DATE'2026-01-01', CAST(id DIV 5000 AS INT)) AS day, CAST(pmod(hash(id), 500) AS INT) AS store, "
)
_COLUMNS += "CAST(pmod(hash(id, 1), 10000) AS INT) AS item, CAST(pmod(hash(id, 2), 100000) AS DOUBLE) / 100 AS amount"
_SUMS = "count(*), sum(id), sum(store), sum(item), sum(CAST(round(amount * 100) AS BIGINT))"
#: Seconds that a server may take to answer its first client.
_PATIENCE = 180


def main(
    minutes: Annotated[float, typer.Option(help="How long; a cycle that has begun is finished.")] = 240,
    rows: Annotated[int, typer.Option(help="Rows that each cycle loads.")] = 50_000,
    loads: Annotated[int, typer.Option(help="INSERTs, and so small files, of each cycle.")] = 5,
    variant: Annotated[list[str] | None, typer.Option(help=f"Of {'; '.join(VARIANTS)}; may be repeated.")] = None,
    memory: Annotated[str, typer.Option(help="The heap of each driver.")] = "2g",
    directory: Annotated[Path | None, typer.Option(help="Where to work; a temporary directory if not given.")] = None,
    record: Annotated[bool, typer.Option(help="Keep the result, for the page on benchmarks.")] = False,
) -> None:
    """Run cycles until the time is over; print each, and the degradation rates."""
    chosen = variant or list(VARIANTS)
    if unknown := set(chosen) - set(VARIANTS):
        raise typer.BadParameter(f"no {', '.join(sorted(unknown))}; there are {'; '.join(VARIANTS)}")
    began, load = time.monotonic(), round(os.getloadavg()[0], 1)
    with tempfile.TemporaryDirectory(prefix="headwater-longevity-", dir=directory) as work, ExitStack() as stack:
        tables = [stack.enter_context(_served(name, Path(work), memory)) for name in chosen]
        cycles = 0
        while time.monotonic() - began < minutes * 60 or cycles < 2:
            for phase in PHASES:
                for table in tables if cycles % 2 == 0 else reversed(tables):
                    table.time(phase, _statements(phase, cycles, rows, loads))
            for table in tables:
                table.read_memory()
                print(f"cycle {cycles}  {table.shown()}", flush=True)
            cycles += 1
        sums = {table.name: table.rows(f"SELECT {_SUMS} FROM sales") for table in tables}
        found = {table.name: table.found() for table in tables}
    for name, result in found.items():
        print(f"{name}: {json.dumps(result['degradation'])}, {result['memory']}")
    same = len({str(each) for each in sums.values()}) == 1
    print("all have the same rows" if same else f"the rows differ: {sums}")
    if record and same:
        context = {
            "when": datetime.now(timezone.utc).date().isoformat(),
            "processors": os.cpu_count(),
            "load": load,
            "minutes": round((time.monotonic() - began) / 60),
            "cycles": cycles,
            "rows": rows,
            "loads": loads,
            "spark": pyspark.__version__,
        }
        LONGEVITY.write_text(json.dumps({**context, "variants": found}, indent=1) + "\n", "utf-8")
    raise typer.Exit(0 if same else 1)


def _statements(phase: str, cycle: int, rows: int, loads: int) -> list[str]:
    """What a phase of a cycle runs."""
    first, size = cycle * rows, rows // loads
    oldest = max(0, first - 4 * rows)
    match phase:
        case "load":
            starts = range(first, first + loads * size, size)
            return [f"INSERT INTO sales SELECT {_COLUMNS} FROM range({at}, {at + size}, 1, 1)" for at in starts]
        case "change":
            return [
                f"DELETE FROM sales WHERE pmod(hash(id, {cycle}), 100) = 0",
                f"UPDATE sales SET amount = amount + 1 WHERE store = {cycle % 500}",
                f"MERGE INTO sales USING (SELECT {_COLUMNS} FROM range({oldest}, {first + rows}, 97, 1)) AS s "
                "ON sales.id = s.id WHEN MATCHED THEN UPDATE SET amount = s.amount + 2 WHEN NOT MATCHED THEN INSERT *",
            ]
        case _:
            return [
                "SELECT day, sum(amount) FROM sales GROUP BY day",
                "SELECT store, count(*), avg(amount) FROM sales GROUP BY store ORDER BY 2 DESC LIMIT 10",
                f"SELECT * FROM sales WHERE id BETWEEN {first} AND {first + 10}",
                "SELECT a.item, max(a.amount) FROM sales a JOIN (SELECT item FROM sales GROUP BY item ORDER BY "
                "count(*) DESC, item LIMIT 20) b ON a.item = b.item GROUP BY a.item",
            ]


@dataclass
class _Table:
    """A variant's table, with its client."""

    name: str
    server: subprocess.Popen[bytes]
    client: Any
    seconds: dict[str, list[float]] = field(default_factory=lambda: {phase: [] for phase in PHASES})
    #: MiB of the driver and of the handler process, after each cycle.
    driver: list[int] = field(default_factory=list)
    handler: list[int] = field(default_factory=list)

    def rows(self, sql: str) -> list[Any]:
        cursor = self.client.cursor()
        cursor.execute(sql)
        return list(cursor.fetchall()) if cursor.description else []

    def time(self, phase: str, statements: list[str]) -> None:
        began = time.perf_counter()
        for sql in statements:
            self.rows(sql)
        self.seconds[phase].append(time.perf_counter() - began)

    def read_memory(self) -> None:
        self.driver.append(_resident(self.server.pid))
        self.handler.append(sum(_resident(pid) for pid in _children(self.server.pid)))

    def shown(self) -> str:
        newest = "  ".join(f"{phase} {self.seconds[phase][-1]:6.2f} s" for phase in PHASES)
        return f"{self.name:28} {newest}  driver {self.driver[-1]} MiB, handler {self.handler[-1]} MiB"

    def found(self) -> dict[str, Any]:
        """Medians of the first and of the last quarter of the cycles, degradation rates, and memory in MiB."""
        quarter = max(len(self.driver) // 4, 1)
        return {
            "first": {phase: round(median(taken[:quarter]), 3) for phase, taken in self.seconds.items()},
            "last": {phase: round(median(taken[-quarter:]), 3) for phase, taken in self.seconds.items()},
            "degradation": {phase: round(degradation(taken), 4) for phase, taken in self.seconds.items()},
            "memory": {
                "driver": [round(median(self.driver[:quarter])), round(median(self.driver[-quarter:]))],
                "handler": [round(median(self.handler[:quarter])), round(median(self.handler[-quarter:]))],
            },
        }


def degradation(seconds: list[float]) -> float:
    """LST-Bench's rate: the mean relative change from a cycle to the next."""
    return mean((now - before) / before for before, now in zip(seconds, seconds[1:], strict=False))


@contextmanager
def _served(name: str, work: Path, memory: str) -> Iterator[_Table]:
    """A variant's server, with a client and an empty table; all end with the block."""
    from pyhive import hive  # of the extra bench

    kind, compacts = VARIANTS[name]
    home = work / "".join(filter(str.isalpha, name))
    home.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    confs = [part for key, value in settings(kind, home, memory).items() for part in ("--conf", f"{key}={value}")]
    hive_confs = [
        part
        for each in (f"hive.server2.thrift.port={port}", "hive.server2.thrift.bind.host=127.0.0.1")
        for part in ("--hiveconf", each)
    ]
    if kind == OURS:
        command = [shutil.which("headwater", path=str(Path(sys.executable).parent)) or "headwater", "thrift-server"]
    else:
        submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        command = [str(submit), "--class", SERVERS["thrift-server"].main_class]
        confs.append("spark-internal")
    log = home / "server.log"
    with log.open("wb") as output:
        server = subprocess.Popen([*command, *confs, *hive_confs], stdout=output, stderr=output, cwd=home)
    try:
        table = _Table(name, server, _connected(lambda: hive.connect("127.0.0.1", port), server, log))
        vectors = "'delta.enableDeletionVectors' = 'true'"
        compaction = f", 'delta.autoOptimize.autoCompact' = '{str(compacts).lower()}'"
        columns = "id BIGINT, day DATE, store INT, item INT, amount DOUBLE"
        table.rows(f"CREATE TABLE sales ({columns}) USING delta TBLPROPERTIES ({vectors}{compaction})")
        yield table
    finally:
        server.terminate()
        server.wait(60)


def _connected(connect: Any, server: subprocess.Popen[bytes], log: Path) -> Any:
    logging.getLogger("thrift").setLevel(logging.CRITICAL)  # it reports each try
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return connect()
        except Exception as error:
            if server.poll() is not None or time.monotonic() > deadline:
                raise SparkFailed(f"no server: {error}\n{log.read_text(errors='replace')[-4000:]}") from None
            time.sleep(1)


def _children(pid: int) -> list[int]:
    """The processes that a process has started, and theirs."""
    text = "".join(each.read_text() for each in Path(f"/proc/{pid}/task").glob("*/children"))
    own = [int(child) for child in text.split()]
    return own + [grandchild for child in own for grandchild in _children(child)]


def _resident(pid: int) -> int:
    """MiB of a process's resident memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


if __name__ == "__main__":
    typer.run(main)
