"""A client that is a Spark: statements in SQL, by several sessions of one JVM.

Owns the SQL of each statement of :class:`histories.tables.Client`, and starting the Spark. Its handler process is as a
user has it: without mutations, and with the package's own patience.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from histories.tables import Row
from support.sessions import settings

if TYPE_CHECKING:
    from histories.client import Plan

_SESSIONS = 2
_SETTINGS = {
    **settings(),
    "spark.log.level": "OFF",
    "spark.driver.memory": "700m",
    "spark.headwater.dml.retrySeconds": "5",
}
_CONDITION = re.compile(r"\[([A-Z0-9_.]+)\]")


class ToldError(Exception):
    """What Spark said of a statement; ``condition`` is the error's."""

    def __init__(self, condition: str, text: str) -> None:
        super().__init__(text)
        self.condition = condition


@contextlib.contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        text = str(error)
        found = _CONDITION.search(text)
        raise ToldError(found[1] if found else type(error).__name__, text[:500]) from error


class SqlClient:
    """A session of a Spark.

    :param paths: of the tables, by name.
    """

    def __init__(self, session: Any, paths: Mapping[str, str]) -> None:
        self._session, self._paths = session, paths

    def begin(self, isolation: str | None = None) -> None:
        """BEGIN TRANSACTION."""
        self._run(f"BEGIN TRANSACTION{' ISOLATION LEVEL SERIALIZABLE' if isolation else ''}")

    def commit(self) -> None:
        """COMMIT."""
        self._run("COMMIT")

    def rollback(self) -> None:
        """ROLLBACK, of a transaction that may have ended."""
        with contextlib.suppress(ToldError):
            self._run("ROLLBACK")

    def query(self, table: str, keys: Sequence[int] | None) -> list[Row]:
        """As :meth:`histories.tables.Client.query`."""
        where = "" if keys is None else f" WHERE k IN ({', '.join(map(str, keys))})"
        return [Row(*row) for row in self._run(f"SELECT k, id, text FROM {self._name(table)}{where}")]

    def insert(self, table: str, rows: Sequence[Row], batch: tuple[str, int] | None = None) -> bool:
        """As :meth:`histories.tables.Client.insert`; a batch is a write with its application's next version."""
        if batch is None:
            values = ", ".join(f"({row.k}L, {row.id}L, '{row.text}')" for row in rows)
            self._run(f"INSERT INTO {self._name(table)} VALUES {values}")
            return True
        with _told():
            frame = self._session.createDataFrame([tuple(row) for row in rows], "k BIGINT, id BIGINT, text STRING")
            options = {"txnAppId": batch[0], "txnVersion": batch[1]}
            frame.write.format("delta").mode("append").options(**options).save(self._paths[table])
        return True

    def append(self, table: str, elements: Mapping[int, int]) -> None:
        """As :meth:`histories.tables.Client.append`."""
        values = ", ".join(f"({key}L, '{element}')" for key, element in elements.items())
        self._run(
            f"MERGE INTO {self._name(table)} AS t USING (SELECT * FROM VALUES {values} AS s(k, e)) AS s ON t.k = s.k "
            "WHEN MATCHED THEN UPDATE SET text = concat(t.text, ',', s.e) "
            "WHEN NOT MATCHED THEN INSERT (k, id, text) VALUES (s.k, 0L, s.e)"
        )

    def delete(self, table: str, key: int) -> int:
        """As :meth:`histories.tables.Client.delete`."""
        return int(self._run(f"DELETE FROM {self._name(table)} WHERE k = {key}")[0][0])

    def touch(self, table: str, key: int) -> int:
        """As :meth:`histories.tables.Client.touch`."""
        one_more = "CAST(CAST(text AS BIGINT) + 1 AS STRING)"
        return int(self._run(f"UPDATE {self._name(table)} SET text = {one_more} WHERE k = {key}")[0][0])

    def merge(self, table: str, key: int, id: int) -> None:
        """As :meth:`histories.tables.Client.merge`."""
        self._run(
            f"MERGE INTO {self._name(table)} AS t USING (SELECT {key}L AS k, {id}L AS id) AS s "
            "ON t.k = s.k AND t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET text = CAST(CAST(t.text AS BIGINT) + 1 AS STRING) "
            "WHEN NOT MATCHED THEN INSERT (k, id, text) VALUES (s.k, s.id, '0')"
        )

    def replace(self, table: str, key: int, id: int) -> None:
        """As :meth:`histories.tables.Client.replace`."""
        self._run(f"INSERT INTO {self._name(table)} WITH (idCols = 'k, id') VALUES ({key}L, {id}L, '0')")

    def compact(self, table: str, choose: Callable[[int], Sequence[int]]) -> None:
        """OPTIMIZE of all small files."""
        self._run(f"OPTIMIZE {self._name(table)}")

    def _name(self, table: str) -> str:
        return f"delta.`{self._paths[table]}`"

    def _run(self, text: str) -> list[Any]:
        with _told():
            found: list[Any] = self._session.sql(text).collect()
            return found


def peer(plan: Plan, process: int) -> Any:
    """A Spark with Delta Lake's own connector; its session."""
    from bench.sparks import PEER
    from bench.sparks import settings as settings_of

    return _session({**settings_of(PEER, Path(plan.folder), "700m"), **_SETTINGS}, plan, process)


def _session(given: Mapping[str, str], plan: Plan, process: int, more: Callable[[Any], Any] = lambda b: b) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for key, value in {**given, "spark.sql.warehouse.dir": f"{plan.folder}/warehouse-{process}"}.items():
        builder = builder.config(key, value)
    return more(builder).getOrCreate()


def run(plan: Plan, process: int, work: Callable[[int, SqlClient], None]) -> None:
    """Start a Spark, and have sessions of it work in threads of their own.

    :param work: called with the number of each session, which is less than the processes that a client may be.
    """
    import headwater

    spark = _session(_SETTINGS, plan, process, headwater.configure)
    SqlClient(spark, plan.paths).query(next(iter(plan.tables)), None)
    with ThreadPoolExecutor(_SESSIONS) as pool:
        clients = [SqlClient(spark.newSession(), plan.paths) for _ in range(_SESSIONS)]
        list(pool.map(work, range(_SESSIONS), clients))
    spark.stop()
