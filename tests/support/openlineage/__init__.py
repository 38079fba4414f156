"""Spark with OpenLineage's own listener, in a process of its own: what it tells a lineage server, read from a file.

Owns the process and :class:`Seen`, an event in the words of a test. The listener's JAR is fetched once and kept under
``target``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.jvms import fetched
from support.sparks.asking import START_SECONDS, SparkProcess

_HOME = Path(__file__).parent
_STATEMENT_SECONDS = 300
_LOG_CHARACTERS = 6000


@dataclass(frozen=True)
class Dataset:
    """A dataset of an event.

    :param name: the last part of its path.
    :param table: the names of the catalog's tables that it is called by.
    :param columns: the names and types of its schema.
    :param facets: everything else that is said of it, by the names of the facets.
    """

    name: str
    table: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    facets: dict[str, Any]
    #: All of it, as the event has it.
    described: dict[str, Any]

    @staticmethod
    def of(described: dict[str, Any]) -> Dataset:
        parts = [described.get(part, {}) for part in ("facets", "outputFacets", "inputFacets")]
        facets = {name: facet for part in parts for name, facet in part.items()}
        links = facets.get("symlinks", {}).get("identifiers", [])
        fields = facets.get("schema", {}).get("fields", [])
        return Dataset(
            Path(described["name"]).name,
            tuple(link["name"] for link in links),
            tuple((field["name"], field["type"]) for field in fields),
            facets,
            described,
        )


@dataclass(frozen=True)
class Seen:
    """An event of a statement: its kind, the name of its job, what it reads and writes."""

    kind: str
    job: str
    inputs: tuple[Dataset, ...]
    outputs: tuple[Dataset, ...]

    @staticmethod
    def of(event: dict[str, Any]) -> Seen:
        def datasets(part: str) -> tuple[Dataset, ...]:
            return tuple(map(Dataset.of, event.get(part, [])))

        return Seen(event["eventType"], event["job"]["name"], datasets("inputs"), datasets("outputs"))


class Lineage:
    """The process. All that it writes is below ``home``."""

    def __init__(self, process: SparkProcess) -> None:
        self._process = process
        self._events = process.home / "events.json"
        self._read = 0
        self.home = process.home

    @property
    def log(self) -> str:
        """What Spark and the listener have logged."""
        return self._process.log

    def run(self, code: str) -> list[Seen]:
        """Run Python in which ``spark`` and ``home`` are known; the events that it has caused."""
        drained = "spark._jsc.sc().listenerBus().waitUntilEmpty()"
        self._process.send({"python": f"home = {str(self.home)!r}\n{code}\n{drained}"})
        answer = self._process.receive(_STATEMENT_SECONDS)
        assert "error" not in answer, f"{answer['error']['text']}\n{self._process.log[-_LOG_CHARACTERS:]}"
        lines = self._events.read_text(encoding="utf-8").splitlines()
        new, self._read = lines[self._read :], len(lines)
        return [Seen.of(json.loads(line)) for line in new]

    def sql(self, text: str) -> list[Seen]:
        """The events of a statement."""
        return self.run(f"spark.sql({text!r}).collect()")


@contextmanager
def lineage(home: Path) -> Iterator[Lineage]:
    """Start it; it ends with the block."""
    jars = ",".join(map(str, fetched(_HOME / "listener.xml")))
    process = SparkProcess("lineage_process", [str(home), jars], home)
    try:
        process.receive(START_SECONDS)
        yield Lineage(process)
    finally:
        process.close()
