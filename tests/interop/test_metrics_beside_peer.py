"""The operation metrics of statements that write, beside the peer's: the same names and numbers of rows and files."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

FRAME = "spark.sql('SELECT id, id * 2 AS v, id % 3 AS p FROM range(100, 106)').coalesce(1).write.format('delta')"
MERGE = (
    "MERGE INTO {t} AS t USING (SELECT id, -id AS v, 0L AS p FROM range(8, 14)) AS s ON t.id = s.id "
    "WHEN MATCHED AND s.id = 8 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT * "
    "WHEN NOT MATCHED BY SOURCE AND t.id = 1 THEN DELETE WHEN NOT MATCHED BY SOURCE AND t.id = 2 THEN UPDATE SET v = 0"
)
#: By what they do: SQL with ``{t}``, or Python with ``path``.
WRITES = {
    "append": "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, id, id % 3 FROM range(20, 26)",
    "overwrite": "INSERT OVERWRITE {t} SELECT /*+ COALESCE(1) */ id, id, id % 3 FROM range(20, 26)",
    "overwrite by none": "INSERT OVERWRITE {t} SELECT * FROM {t} WHERE false",
    "overwrite a partition": "INSERT OVERWRITE {t} PARTITION (p = 1) SELECT id, id FROM range(20, 26, 1, 1)",
    "replace where of a partition": "INSERT INTO {t} REPLACE WHERE p = 1 SELECT id, id, 1L FROM range(0, 5, 1, 1)",
    "replace where of rows": "INSERT INTO {t} REPLACE WHERE id < 4 SELECT /*+ COALESCE(1) */ id, id, 1L FROM range(3)",
    "frame appends": f"{FRAME}.mode('append').save(path)",
    "frame overwrites": f"{FRAME}.mode('overwrite').save(path)",
    "frame replaces where": f"{FRAME}.mode('overwrite').option('replaceWhere', 'id >= 6').option("
    "'spark.databricks.delta.replaceWhere.constraintCheck.enabled', 'false').save(path)",
    "frame overwrites partitions": f"{FRAME.replace('id % 3', '2L')}.mode('overwrite')"
    ".option('partitionOverwriteMode', 'dynamic').save(path)",
    "frame overwrites the schema": f"{FRAME}.mode('overwrite').option('overwriteSchema', 'true').save(path)",
    "delete all": "DELETE FROM {t}",
    "delete a partition": "DELETE FROM {t} WHERE p = 1",
    "delete rows": "DELETE FROM {t} WHERE id IN (1, 2, 7)",
    "delete whole files": "DELETE FROM {t} WHERE id < 6",
    "delete nothing": "DELETE FROM {t} WHERE id = 77",
    "update rows": "UPDATE {t} SET v = -1 WHERE id IN (1, 2, 7)",
    "update all": "UPDATE {t} SET v = -1",
    "update the partition": "UPDATE {t} SET p = 0 WHERE id = 4",
    "merge": MERGE,
    "merge that only inserts": MERGE.split(" WHEN ")[0] + " WHEN NOT MATCHED THEN INSERT *",
    "merge of nothing": MERGE.replace("range(8, 14)", "range(0)").split(" WHEN NOT MATCHED BY")[0],
    "truncate": "DELETE FROM {t} WHERE true",
    "optimize": "OPTIMIZE {t}",
    "zorder": "OPTIMIZE {t} ZORDER BY (id)",
    "purge": "REORG TABLE {t} APPLY (PURGE)",
    "restore": "RESTORE TABLE {t} TO VERSION AS OF 1",
    "create table as": "CREATE TABLE delta.`{path}/new` USING delta AS SELECT /*+ COALESCE(1) */ id FROM range(7)",
    "properties": "ALTER TABLE {t} SET TBLPROPERTIES ('x' = 'y')",
    "add columns": "ALTER TABLE {t} ADD COLUMNS (more INT)",
    "add a constraint": "ALTER TABLE {t} ADD CONSTRAINT c CHECK (id >= 0)",
}
#: What depends on the writer: bytes, times, and the files of one job.
VARIES = re.compile(r"(Bytes|Size|TimeMs|FileSize|maxFileSize|minFileSize|p\d\dFileSize)", re.IGNORECASE)

#: Which files are rewritten is each engine's own: the numbers of files, and of rows copied with those that change.
CHOSEN = {
    "replace where of rows": {"numRemovedFiles", "numCopiedRows"},
    "update rows": {"numAddedFiles", "numRemovedFiles"},
    "update the partition": {"numAddedFiles", "numRemovedFiles"},
    "merge": {"numOutputRows", "numTargetFilesAdded", "numTargetFilesRemoved", "numTargetRowsCopied"},
}
#: A metric of how the peer runs a MERGE.
THEIRS = {"materializeSourceTimeMs"}


def _table(spark: Any, path: Path, vectors: bool) -> None:
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, v BIGINT, p BIGINT) USING delta PARTITIONED BY (p) "
        f"TBLPROPERTIES ('delta.enableDeletionVectors' = '{str(vectors).lower()}')"
    )
    for start in (0, 6):
        rows = f"SELECT /*+ COALESCE(1) */ id, id * 10, id % 3 FROM range({start}, {start + 6})"
        spark.sql(f"INSERT INTO delta.`{path}` {rows}")


def _metrics(path: Path) -> dict[str, str | None]:
    """The newest commit's, without the values of what varies."""
    folder = path / "new" if (path / "new").exists() else path
    newest = sorted((folder / "_delta_log").glob("*.json"))[-1]
    for line in newest.read_text().splitlines():
        if info := json.loads(line).get("commitInfo"):
            found = info.get("operationMetrics", {})
            kept = {name: None if VARIES.search(name) else value for name, value in found.items()}
            return {"operation": info["operation"], "version": newest.name[:20], **kept}
    raise AssertionError(newest)


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.parametrize("vectors", [False, True], ids=["copied", "vectors"])
def test_metrics_have_the_same_names_and_numbers(spark: Any, peer: Any, tmp_path: Path, vectors: bool) -> None:
    template = tmp_path / "template"
    _table(spark, template, vectors)
    texts = {}
    for number, (name, write) in enumerate(WRITES.items()):
        for side in ("ours", "theirs"):
            path = tmp_path / f"{side}{number}"
            shutil.copytree(template, path)
            text = write.replace("{t}", f"delta.`{path}`").replace("{path}", str(path))
            texts[name, side] = path, (text if write.startswith("spark") else f"spark.sql({text!r}).collect()")
    theirs = "\n".join(f"path = {str(path)!r}\n{text}" for (_, side), (path, text) in texts.items() if side == "theirs")
    peer.run(f"{theirs}\nresult = None")
    for (_, side), (path, text) in texts.items():
        if side == "ours":
            exec(text, {"spark": spark, "path": str(path)})
    different = []
    for name in WRITES:
        own, other = (_metrics(texts[name, side][0]) for side in ("ours", "theirs"))
        for key in sorted((own.keys() | other.keys()) - THEIRS):
            ours, others = own.get(key, "none"), other.get(key, "none")
            if ours != others and ("none" in (ours, others) or key not in CHOSEN.get(name, ())):
                different.append(f"{name}: {key} is {ours}, the peer's {others}")
    assert not different, "\n".join(different)
