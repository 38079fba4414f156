"""Facts about the schemes for which Hadoop has a file system.

Owns, for each, how a commit is created if there is none, in one step (:class:`Promise`), the connector that Spark
needs for it, and what to do where no such step is promised. What none of them says about a scheme is that it can be
read only. The table in docs/stores.md says the same, and which servers it was tried on; a test compares the two.

A promise is the connector's as much as the server's: Alibaba's and Tencent's stores know a header that forbids to
overwrite, but Hadoop's connectors for them do not send it. They look whether the name is free, and then write.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Promise(Enum):
    """How a file is created only if it does not exist; the value says what the server is asked to keep."""

    #: The name node renames a file where nothing has the new name, or refuses.
    NAME_NODE = "a rename that does not replace"
    #: A mount table: what the file system promises that a path of it leads to.
    MOUNTED = "the promise of the file system that the path leads to"
    #: An object is created on the condition that there is none.
    CONDITION = "the condition of a create (If-None-Match: *)"
    #: The same; the server decides at the end of the create, and the client also checks at its beginning.
    GENERATION = "the condition of a create (ifGenerationMatch=0)"
    #: A file is written under a name of its own, and renamed on the condition that nothing has the new name.
    RENAME = "the condition of a rename (If-None-Match: *)"
    #: Two writers may both believe that they created a file.
    NONE = "nothing"


class Scheme(NamedTuple):
    """What a scheme's commits rely on, the connector to start Spark with, and what to do where it promises nothing."""

    promise: Promise
    connector: str = ""
    advice: str = ""


_SAME_VERSION = "in the version of Spark's Hadoop"
_GENERAL = (
    "Write to a store that does (local, HDFS, S3 through s3a, Azure through abfss, Google Cloud through gs, Oracle "
    "Cloud through oci)"
)
_THROUGH_S3A = (
    "If the server speaks S3's protocol too, name the path with s3a and set spark.hadoop.fs.s3a.endpoint to it: a "
    "server is tried before anything is written to it"
)
_THROUGH_ABFSS = "Name the path with abfss, which goes to the same storage account"
_AZURE = f"org.apache.hadoop:hadoop-azure, {_SAME_VERSION}"
_HDFS = Scheme(Promise.NAME_NODE, "Spark's own settings for HDFS")

#: By scheme, in lower case.
SCHEMES = {
    "hdfs": _HDFS,
    "webhdfs": _HDFS,
    "swebhdfs": _HDFS,
    "viewfs": Scheme(Promise.MOUNTED, "Spark's own settings for mount tables"),
    "s3a": Scheme(Promise.CONDITION, f"org.apache.hadoop:hadoop-aws, {_SAME_VERSION}"),
    "s3": Scheme(
        Promise.CONDITION,
        f"org.apache.hadoop:hadoop-aws, {_SAME_VERSION}, and set spark.hadoop.fs.s3.impl to "
        "org.apache.hadoop.fs.s3a.S3AFileSystem, or name the path with s3a",
    ),
    "abfss": Scheme(Promise.RENAME, _AZURE),
    "abfs": Scheme(Promise.RENAME, _AZURE),
    "gs": Scheme(
        Promise.GENERATION,
        f"org.apache.hadoop:hadoop-gcp, {_SAME_VERSION} (from 3.5.0 on), or Google's connector for Hadoop "
        "(com.google.cloud.bigdataoss:gcs-connector, the shaded JAR)",
    ),
    "oci": Scheme(Promise.RENAME, "com.oracle.oci.sdk:oci-hdfs-connector"),
    "oss": Scheme(Promise.NONE, f"org.apache.hadoop:hadoop-aliyun, {_SAME_VERSION}", _THROUGH_S3A),
    "cosn": Scheme(Promise.NONE, f"org.apache.hadoop:hadoop-cos, {_SAME_VERSION}", _THROUGH_S3A),
    "cos": Scheme(Promise.NONE, "com.ibm.stocator:stocator", _THROUGH_S3A),
    "obs": Scheme(Promise.NONE, advice=_THROUGH_S3A),
    "s3n": Scheme(Promise.NONE, advice=_THROUGH_S3A),
    "wasb": Scheme(Promise.NONE, advice=_THROUGH_ABFSS),
    "wasbs": Scheme(Promise.NONE, advice=_THROUGH_ABFSS),
    "adl": Scheme(Promise.NONE, advice="Move the table to Azure Data Lake Storage Gen2, and name its path with abfss"),
}


def promise_of(scheme: str) -> Promise:
    """What the commits of a scheme, in lower case, rely on."""
    return SCHEMES[scheme].promise if scheme in SCHEMES else Promise.NONE


def connector_of(scheme: str) -> str:
    """What to start Spark with to reach paths of a scheme, in lower case."""
    known = SCHEMES[scheme].connector if scheme in SCHEMES else ""
    return known or f"the JARs of a file system for {scheme}"


def advice_for(scheme: str) -> str:
    """What to do about a scheme, in any case, that nothing can be written to safely."""
    known = SCHEMES.get(scheme.lower())
    return (known.advice if known else "") or _GENERAL
