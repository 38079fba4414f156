"""What a failure of one of Hadoop's file systems is told as."""

from __future__ import annotations

import pytest

from headwater.bridge.hadoop_files import failure_of
from headwater.bridge.messages.failures import StoreCause
from headwater.stores.hadoop import ReplacedMeanwhile, RequestNotKnown, RequestPutOff

S3 = "software.amazon.awssdk.services.s3.model.S3Exception"


def cause(name, message="words", status=None):
    return StoreCause(class_name=name, message=message, status=status)


@pytest.mark.parametrize(
    ("causes", "kind"),
    [
        ([cause("java.io.IOException")], OSError),
        ([cause("java.io.FileNotFoundException"), cause(S3, status=404)], FileNotFoundError),
        ([cause("java.nio.file.AccessDeniedException"), cause(S3, status=403)], PermissionError),
        ([cause("org.apache.hadoop.security.AccessControlException")], PermissionError),
        ([cause("org.apache.hadoop.fs.s3a.AWSBadRequestException"), cause(S3, status=409)], RequestPutOff),
        ([cause("org.apache.hadoop.fs.s3a.AWSUnsupportedFeatureException"), cause(S3, status=501)], RequestNotKnown),
        ([cause("org.apache.hadoop.fs.s3a.RemoteFileChangedException")], ReplacedMeanwhile),
        ([cause("java.io.IOException"), cause(S3, status=412)], ReplacedMeanwhile),
        ([cause("org.apache.hadoop.fs.s3a.AWSStatus500Exception"), cause(S3, status=500)], OSError),
        ([cause("java.lang.NoClassDefFoundError", "a/b/C")], OSError),
    ],
)
def test_kinds_of_failures(causes, kind):
    error = failure_of("s3a://b/x", causes)
    assert type(error) is kind
    assert error.filename == "s3a://b/x"
    assert error.strerror.startswith(causes[0].class_name.rpartition(".")[2])


def test_a_reason_is_one_line_of_some_length():
    assert failure_of("x", [cause("java.io.IOException", "one\n\tat two   three")]).strerror == (
        "IOException: one at two three"
    )
    assert failure_of("x", [cause("java.io.IOException", None)]).strerror == "IOException"
    assert len(failure_of("x", [cause("java.io.IOException", "long " * 1000)]).strerror) < 500
