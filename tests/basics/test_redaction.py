"""Logins are blotted out of errors and of the log, and nothing else is."""

from __future__ import annotations

import logging
import sys

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.basics.redaction import RedactingFormatter, without_credentials


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3a://KEY:secret@bucket/t", "s3a://***@bucket/t"),
        (
            "read s3a://KEY:sec/ret+1@bucket/t and hdfs://me:pw@nn:8020/x",
            "read s3a://***@bucket/t and hdfs://***@nn:8020/x",
        ),
        ("abfss://container@account.host/t", "abfss://container@account.host/t"),
        ("hdfs://nn:8020/user/a@b", "hdfs://nn:8020/user/a@b"),
        ("s3a://bucket/p=a@b:c", "s3a://bucket/p=a@b:c"),
        ("file:/a:b@c", "file:/a:b@c"),
        ("nobody@example.org", "nobody@example.org"),
    ],
)
def test_logins_in_texts(text, expected):
    assert without_credentials(text) == expected


def test_errors_and_logs_have_none():
    path = "s3a://KEY:secret@bucket/t"
    error = HeadwaterError("DELTA_FILE_ACCESS_FAILED", {"path": path, "reason": f"no {path}"})
    assert "secret" not in f"{error} {error.text} {error.parameters}"
    try:
        raise OSError(5, "no", path)
    except OSError:
        record = logging.LogRecord("headwater", logging.WARNING, "x", 1, "of %s", (path,), sys.exc_info())
    line = RedactingFormatter("%(message)s").format(record)
    assert "secret" not in line
    assert "Traceback" in line
