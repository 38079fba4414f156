"""What a failed job means: which of Spark's failures are said to be a damaged file's."""

from __future__ import annotations

import pytest

from headwater.bridge.messages.failures import ExplainFailureRequest, JobCause, TableRead
from headwater.statements.failures import explain_failure

TABLE = "gs://bucket/t"


def causes(*innermost: JobCause) -> list[JobCause]:
    """A task that failed to read a file, and why."""
    job = JobCause(class_name="org.apache.spark.SparkException", message="Job aborted")
    read = JobCause(
        class_name="org.apache.spark.SparkException",
        condition="FAILED_READ_FILE.NO_HINT",
        parameters={"path": f"{TABLE}/part-1.parquet"},
    )
    return [job, read, *innermost]


def condition(statement, *innermost: JobCause) -> str | None:
    """The condition of the error in place of Spark's; None for Spark's own."""
    tables = [TableRead(path=TABLE, version=3)]
    found = explain_failure(ExplainFailureRequest(causes=causes(*innermost), tables=tables), statement)
    return None if found is None else found.condition


def test_credentials_that_expired_are_no_damage(statement) -> None:
    expired = JobCause(
        class_name="org.apache.hadoop.fs.s3a.AWSBadRequestException",
        message="The provided token has expired (Service: S3, Status Code: 400): ExpiredToken",
    )
    assert condition(statement, expired) == "HEADWATER_CREDENTIALS_EXPIRED"


def test_a_footer_that_is_none_is_damage(statement) -> None:
    told = JobCause(class_name="java.lang.RuntimeException", message="is not a Parquet file")
    assert condition(statement, told) == "HEADWATER_DATA_FILE_DAMAGED"


@pytest.mark.parametrize("name", ["NoSuchMethodError", "NoClassDefFoundError", "ClassNotFoundException"])
def test_a_class_path_that_does_not_fit_is_no_damage(statement, name: str) -> None:
    wrapped = JobCause(class_name="java.lang.RuntimeException", message="java.lang.reflect.InvocationTargetException")
    assert condition(statement, wrapped, JobCause(class_name=f"java.lang.{name}", message="FileRange")) is None
