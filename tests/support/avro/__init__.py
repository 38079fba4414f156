"""Spark's package for Avro, which is no part of PySpark."""

from __future__ import annotations

from pathlib import Path

from support.jvms import fetched


def avro_jar() -> Path:
    """Its JAR, fetched once."""
    (jar,) = fetched(Path(__file__).parent / "avro.xml")
    return jar
