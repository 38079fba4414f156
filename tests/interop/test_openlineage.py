"""OpenLineage's listener names the tables that statements read and write, with their columns and rows.

Its own JAR runs in Spark and writes its events to a file: no code here stands in for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.openlineage import Dataset, Lineage, Seen, lineage
from support.paths import ROOT

# Beside it, tests/spark/test_written_tables.py has Spark's own listener see the same commits.
pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(1200)]

_COLUMNS = (("id", "integer"), ("s", "string"))
_BY_PATH = "spark.table('src').write.format('delta').mode('append').save(home + '/by_path')"
_STREAM = (
    "(spark.readStream.table('src').writeStream.format('delta').option('checkpointLocation', home + '/checkpoint')"
    ".trigger(availableNow=True).toTable('streamed').awaitTermination())"
)
_MERGE = (
    "MERGE INTO t USING src ON t.id = src.id WHEN MATCHED AND src.id = 1 THEN DELETE "
    "WHEN MATCHED THEN UPDATE SET s = src.s WHEN NOT MATCHED THEN INSERT *"
)


def _sql(text: str) -> str:
    return f"spark.sql({text!r}).collect()"


#: Each kind of write in turn: what runs, what it reads, what it writes, how many rows, and the operation.
_KINDS: dict[str, tuple[str, set[str], str, int, str]] = {
    "insert": (_sql("INSERT INTO t SELECT id, s FROM src"), {"src"}, "t", 3, "WRITE"),
    "ctas": (_sql("CREATE TABLE c USING delta AS SELECT * FROM src"), {"src"}, "c", 3, "CREATE TABLE AS SELECT"),
    "overwrite": (_sql("INSERT OVERWRITE t SELECT id, s FROM src WHERE id < 3"), {"src"}, "t", 2, "WRITE"),
    "create_by_path": (_BY_PATH, {"src"}, "by_path", 3, "WRITE"),
    "append_by_path": (_BY_PATH, {"src"}, "by_path", 3, "WRITE"),
    "append": ("spark.table('src').write.format('delta').mode('append').saveAsTable('t')", {"src"}, "t", 3, "WRITE"),
    "delete": (_sql("DELETE FROM t WHERE id = 2 AND s IN (SELECT s FROM c)"), {"t", "c"}, "t", 2, "DELETE"),
    "update": (_sql("UPDATE t SET s = 'z' WHERE id = 3"), {"t"}, "t", 1, "UPDATE"),
    "merge": (_sql(_MERGE), {"t", "src"}, "t", 2, "MERGE"),
    "stream": (_STREAM, {"src"}, "streamed", 3, "STREAMING UPDATE"),
    "optimize": (_sql("OPTIMIZE src"), {"src"}, "src", 3, "OPTIMIZE"),
    "nothing_to_optimize": (_sql("OPTIMIZE src"), set(), "src", 0, ""),
    "nothing_to_delete": (_sql("DELETE FROM t WHERE id = 99"), {"t"}, "t", 0, ""),
    "replace_using": (_sql("INSERT INTO t REPLACE USING (id) TABLE src"), {"t", "src"}, "t", 3, "WRITE"),
    "truncate": (_sql("TRUNCATE TABLE c"), set(), "c", 0, "TRUNCATE"),
    "clone": (_sql("CREATE TABLE d SHALLOW CLONE t"), {"t"}, "d", 0, "CLONE"),
}


@pytest.fixture(scope="module")
def spark_with_lineage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lineage]:
    with lineage(tmp_path_factory.mktemp("lineage")) as running:
        yield running


@pytest.fixture(scope="module")
def events(spark_with_lineage: Lineage) -> dict[str, list[Seen]]:
    """The events of each kind; the kinds run one after the other, on the tables that those before them left."""
    for text in (
        "CREATE TABLE src (id INT, s STRING) USING delta",
        "INSERT INTO src VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "CREATE TABLE t (id INT, s STRING) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    ):
        spark_with_lineage.sql(text)
    return {kind: spark_with_lineage.run(code) for kind, (code, *_) in _KINDS.items()}


def _ended(events: list[Seen]) -> Seen:
    """The last event with an output: a stream and CTAS have others for what runs within them."""
    return [event for event in events if event.kind == "COMPLETE" and event.outputs][-1]


@pytest.mark.parametrize("kind", _KINDS)
def test_each_kind_of_write_is_seen(events: dict[str, list[Seen]], kind: str) -> None:
    _, reads, writes, rows, operation = _KINDS[kind]
    event = _ended(events[kind])
    assert {dataset.name for dataset in event.inputs} == reads
    assert all(dataset.columns == _COLUMNS for dataset in event.inputs)
    (written,) = event.outputs
    assert (written.name, written.columns) == (writes, _COLUMNS)
    assert written.table == (() if writes == "by_path" else (f"default.{writes}",))
    assert written.facets["storage"]["storageLayer"] == "delta"
    if rows:
        assert written.facets["outputStatistics"]["rowCount"] == rows
    if operation:
        commit = written.facets["headwater_commit"]
        assert commit["operation"] == operation
        assert written.facets["version"]["datasetVersion"] == str(commit["version"])
    else:
        assert "version" not in written.facets


@pytest.mark.parametrize("kind", _KINDS)
def test_no_event_names_a_table_twice(events: dict[str, list[Seen]], kind: str) -> None:
    for event in events[kind]:
        for datasets in (event.inputs, event.outputs):
            names = [dataset.name for dataset in datasets]
            assert len(names) == len(set(names)), (event.kind, event.job)


def test_a_table_has_one_name_whether_it_is_read_or_written(events: dict[str, list[Seen]]) -> None:
    merge = _ended(events["merge"])

    def links(datasets: tuple[Dataset, ...]) -> Any:
        return [each.facets["symlinks"]["identifiers"] for each in datasets if each.name == "t"]

    assert links(merge.inputs) == links(merge.outputs)


def test_a_write_of_a_query_has_its_columns_lineage(events: dict[str, list[Seen]]) -> None:
    for kind in ("insert", "ctas", "overwrite", "append_by_path"):
        (written,) = _ended(events[kind]).outputs
        fields = written.facets["columnLineage"]["fields"]
        assert {name: Path(field["inputFields"][0]["name"]).name for name, field in fields.items()} == {
            "id": "src",
            "s": "src",
        }


def test_what_became_of_the_table_is_said(events: dict[str, list[Seen]]) -> None:
    def became(kind: str) -> str | None:
        (written,) = _ended(events[kind]).outputs
        found: str | None = written.facets.get("lifecycleStateChange", {}).get("lifecycleStateChange")
        return found

    kinds = ("insert", "ctas", "overwrite", "truncate", "replace_using")
    assert list(map(became, kinds)) == [None, "CREATE", "OVERWRITE", "TRUNCATE", None]


def test_jobs_are_named_after_statement_and_table(events: dict[str, list[Seen]]) -> None:
    tables = {"delete": "t", "update": "t", "merge": "t", "optimize": "src"}
    jobs = {kind: _ended(events[kind]).job for kind in tables}
    assert jobs == {kind: f"loads.execute_{kind}_spark_catalog_default_{table}" for kind, table in tables.items()}


def test_a_statement_that_fails_names_its_table(events: dict[str, list[Seen]], spark_with_lineage: Lineage) -> None:
    assert events
    failing = "try:\n    spark.sql('UPDATE t SET s = raise_error(\"no\")').collect()\nexcept Exception:\n    pass"
    seen = spark_with_lineage.run(failing)
    assert {dataset.name for event in seen for dataset in event.outputs} == {"t"}
    assert not any("version" in dataset.facets for event in seen for dataset in event.outputs)


def test_nested_columns_are_described_as_the_listener_describes_them(
    events: dict[str, list[Seen]], spark_with_lineage: Lineage
) -> None:
    assert events
    nested = "id INT COMMENT 'the key', s STRUCT<a: INT, m: MAP<STRING, ARRAY<DECIMAL(4, 2)>>>"
    spark_with_lineage.sql(f"CREATE TABLE nested ({nested}) USING delta")
    row = "1 AS id, named_struct('a', 1, 'm', map('x', array(CAST(1.5 AS DECIMAL(4, 2))))) AS s"
    written = _ended(spark_with_lineage.sql(f"INSERT INTO nested SELECT {row}")).outputs[0]
    read = _ended(spark_with_lineage.sql("CREATE TABLE other USING delta AS SELECT * FROM nested")).inputs[0]

    def fields(dataset: Dataset) -> Any:
        found = dataset.facets["schema"]
        return found["fields"]

    assert fields(written) == fields(read)


def test_the_example_of_the_page(events: dict[str, list[Seen]], spark_with_lineage: Lineage) -> None:
    assert events
    page = (ROOT / "docs" / "lineage.md").read_text(encoding="utf-8")
    statement, promised = (
        "\n".join(line[4:] for line in block.splitlines())
        for block in re.findall(r"^    (?:MERGE|\{\n).*?(?=\n\n\S)", page, re.M | re.S)
    )
    spark_with_lineage.sql("CREATE TABLE rivers (id INT, level DOUBLE) USING delta")
    spark_with_lineage.sql("INSERT INTO rivers VALUES (1, 0.5), (2, 1.5)")
    spark_with_lineage.sql(
        "CREATE TABLE gauges USING delta AS SELECT * FROM VALUES (1, 0.7D), (2, 1.7D), (3, 2.7D) AS v(id, level)"
    )
    event = _ended(spark_with_lineage.sql(statement))
    assert {dataset.name for dataset in event.inputs} == {"rivers", "gauges"}
    expected = json.loads(
        promised.replace('"/warehouse', f'"{spark_with_lineage.home}/warehouse').replace(
            '"file:/warehouse', f'"file:{spark_with_lineage.home}/warehouse'
        )
    )
    # The size of a file follows from the version of the writer.
    assert expected["outputFacets"]["outputStatistics"].pop("size") > 0
    assert _part(event.outputs[0].described, expected) == expected


def _part(found: Any, wanted: Any) -> Any:
    """What a value has of another: the members of maps that it names."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return {key: _part(found.get(key), value) for key, value in wanted.items()}
    if isinstance(wanted, list) and isinstance(found, list) and len(found) == len(wanted):
        return [_part(*pair) for pair in zip(found, wanted, strict=True)]
    return found


def test_spark_and_the_listener_have_nothing_to_complain_of(
    events: dict[str, list[Seen]], spark_with_lineage: Lineage
) -> None:
    assert events
    assert "Can't invoke" not in spark_with_lineage.log
    assert "headwater.spark.lineage" not in spark_with_lineage.log
