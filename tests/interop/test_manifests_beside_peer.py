"""Symlink manifests in both engines: equal for equal tables, whichever engine writes or generates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

KEPT = "'delta.compatibility.symlinkFormatManifest.enabled' = 'true'"
VALUES = ["a b", "50%:/", "ü", "x=1", "q?\"'*{}[]^#", ""]


def manifests(path: Path) -> dict[str, list[str]]:
    root = path / "_symlink_format_manifest"
    return {
        str(file.relative_to(root)): sorted(file.read_bytes().splitlines(keepends=True))
        for file in root.rglob("manifest")
    }


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.parametrize("partitioned", [True, False])
def test_both_generate_the_same(spark: Any, peer: Any, tmp_path: Path, partitioned: bool) -> None:
    engines = {"ours": spark.sql, "theirs": peer.sql}
    by = "PARTITIONED BY (p, n)" if partitioned else ""
    literals = ", ".join("'" + value.replace("'", "\\'") + "'" for value in VALUES)
    for writer, write in engines.items():
        path = tmp_path / f"a {writer}"
        table = f"delta.`{path}`"
        write(f"CREATE TABLE {table} (id BIGINT, p STRING, n INT) USING delta {by}")
        write(
            f"INSERT INTO {table} SELECT id, array({literals})[id % {len(VALUES)}], if(id % 2 = 0, NULL, 1) "
            "FROM range(0, 24, 1, 2)"
        )
        found = []
        for run in (*engines.values(), *engines.values()):
            run(f"GENERATE symlink_format_manifest FOR TABLE {table}")
            found.append(manifests(path))
        assert found[0], writer
        assert all(each == found[0] for each in found), writer
        # What the other engine writes with the property, it keeps up, and GENERATE agrees.
        write(f"ALTER TABLE {table} SET TBLPROPERTIES ({KEPT})")
        for statement in (
            f"INSERT INTO {table} VALUES (30, 'new', 1), (31, 'ü', 1)",
            f"DELETE FROM {table} WHERE p = 'a b' OR id = 5",
            f"INSERT INTO {table} VALUES (32, 'a b', 7)",
        ):
            for run, other in ((spark.sql, peer.sql), (peer.sql, spark.sql)):
                run(statement)
                kept = manifests(path)
                other(f"GENERATE symlink_format_manifest FOR TABLE {table}")
                assert manifests(path) == kept, (writer, statement, run)
        rows = {"ours": [list(row) for row in spark.sql(f"SELECT * FROM {table} ORDER BY ALL").collect()]}
        assert peer.sql(f"SELECT * FROM {table} ORDER BY ALL") == rows["ours"]
