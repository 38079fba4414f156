"""COPY INTO of Avro files, for which Spark needs a package; and two sessions that load the same files at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.avro import avro_jar
from support.sparks.running import Sparks

pytestmark = pytest.mark.spark


@pytest.mark.soak  # it needs Maven; the usual run has the other formats in spark/test_copy_into.py
def test_avro(tmp_path: Path) -> None:
    sparks = Sparks(tmp_path)
    try:
        jars = str(avro_jar())
        driver = sparks.driver(settings={"spark.jars": jars})
        driver.rows(f"INSERT OVERWRITE DIRECTORY '{tmp_path}/landing' USING avro SELECT id, id AS extra FROM range(3)")
        driver.rows(f"CREATE TABLE delta.`{tmp_path}/t` (id INT) USING delta")
        copy = f"COPY INTO delta.`{tmp_path}/t` FROM (SELECT id FROM '{tmp_path}/landing') FILEFORMAT = AVRO"
        assert driver.rows(copy) == [[3, 3, 0]]
        assert driver.rows(copy) == [[0, 0, 0]]
        # Each file has its own columns; one has none at all.
        (tmp_path / "differing").mkdir()
        for number, columns in enumerate(("1 AS id, 'a' AS s", "2L AS id, 5 AS extra", "3 AS id, 'c' AS s")):
            driver.rows(f"INSERT OVERWRITE DIRECTORY '{tmp_path}/made' USING avro SELECT {columns}")
            (made,) = (tmp_path / "made").glob("part-*")
            made.rename(tmp_path / "differing" / f"{number}.avro")
        (tmp_path / "differing" / "3.avro").write_bytes(b"")
        driver.rows(f"CREATE TABLE delta.`{tmp_path}/d` (id BIGINT, s STRING, extra INT) USING delta")
        copy = f"COPY INTO delta.`{tmp_path}/d` FROM '{tmp_path}/differing' FILEFORMAT = AVRO"
        assert driver.rows(copy) == [[3, 3, 0]]
        found = driver.rows(f"SELECT * FROM delta.`{tmp_path}/d` ORDER BY id")
        assert found == [[1, "a", None], [2, None, 5], [3, "c", None]]
        # A damaged one may be skipped; one with another name is read, whatever the options say.
        (tmp_path / "differing" / "4.avro").write_bytes(b"nothing")
        (tmp_path / "differing" / "2.avro").rename(tmp_path / "differing" / "2.dat")
        driver.rows(f"DELETE FROM delta.`{tmp_path}/d`")
        options = "FORMAT_OPTIONS ('ignoreCorruptFiles' = 'true', 'ignoreExtension' = 'false')"
        assert driver.rows(f"{copy} {options} COPY_OPTIONS ('force' = 'true')") == [[3, 3, 1]]
    finally:
        sparks.stop()


def test_without_the_package_the_error_says_so(classic: Any, tmp_path: Path) -> None:
    (tmp_path / "a.avro").write_bytes(b"Obj\x01")
    classic.rows(f"CREATE TABLE delta.`{tmp_path}/t` (id INT) USING delta")
    text = f"COPY INTO delta.`{tmp_path}/t` FROM '{tmp_path}' FILEFORMAT = AVRO FILES = ('a.avro')"
    refused = classic.run("sql", text=text)
    assert "spark-avro" in refused["text"] or "Avro" in refused["text"]
