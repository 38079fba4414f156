"""Credentials that a catalog vends for the files of one table, as settings of Hadoop's connectors.

Owns which of several credentials is for a place, and what each kind is called in Hadoop: S3A's keys, Azure's shared
access signature (SAS). Sources: ``api/delta.yaml`` of unitycatalog; the reference of Hadoop's modules ``hadoop-aws``
and ``hadoop-azure``. Promises: the settings name the table's bucket or account, so that those which a session has for
the same one do not prevail; what cannot be understood gives no settings, and the session's own stand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headwater.catalogs.unity.tables import Credential

#: Schemes of one connector each, by the name that it goes by here.
_STORES = {"s3": "s3", "s3a": "s3", "s3n": "s3", "abfs": "azure", "abfss": "azure"}
_S3A = "org.apache.hadoop.fs.s3a"
#: What S3, Azure and their connectors say of credentials that were good for a time.
_EXPIRED = re.compile(r"ExpiredToken|token (has|is) expired|not valid in the specified time frame", re.IGNORECASE)


class _Place(NamedTuple):
    """A location, so that two spellings of it compare equal."""

    store: str
    scheme: str
    authority: str
    path: str


def _place(location: str) -> _Place | None:
    scheme, found, rest = location.partition("://")
    store = _STORES.get(scheme.lower())
    authority, _, path = rest.partition("/")
    if not found or store is None or not authority:
        return None
    return _Place(store, scheme.lower(), authority, "/" + path.strip("/"))


def is_vended_for(location: str) -> bool:
    """Whether a place is one of a store that catalogs vend credentials for, and that these can be handed to."""
    return _place(location) is not None


def tells_of_expiry(text: str) -> bool:
    """Whether a store's words say that credentials have expired."""
    return _EXPIRED.search(text) is not None


def chosen(credentials: Sequence[Credential], location: str) -> Credential | None:
    """The credential for a place: the one whose prefix is the longest that the place lies below."""
    place = _place(location)
    around = [
        (len(prefix.path), -number, each)
        for number, each in enumerate(credentials)
        if place is not None and (prefix := _place(each.prefix)) is not None and _lies(place, prefix)
    ]
    return max(around, key=lambda found: found[:2])[2] if around else None


def _lies(place: _Place, prefix: _Place) -> bool:
    if (place.store, place.authority) != (prefix.store, prefix.authority):
        return False
    return f"{place.path}/".startswith(f"{prefix.path.rstrip('/')}/")


def settings(credential: Credential, location: str) -> dict[str, str]:
    """The settings of Hadoop by which a credential reaches a place; none where it is of another kind of store."""
    place = _place(location)
    if place is None:
        return {}
    return _of_s3(place, credential.config) if place.store == "s3" else _of_azure(place, credential.config)


def _of_s3(place: _Place, config: Mapping[str, str]) -> dict[str, str]:
    access, secret = config.get("s3.access-key-id"), config.get("s3.secret-access-key")
    token = config.get("s3.session-token")
    if not access or not secret:
        return {}
    provider = "TemporaryAWSCredentialsProvider" if token else "SimpleAWSCredentialsProvider"
    found = {"access.key": access, "secret.key": secret, "aws.credentials.provider": f"{_S3A}.{provider}"}
    if token:
        found["session.token"] = token
    # A bucket's settings come before those of all buckets, which the session may have.
    named = {f"fs.s3a.bucket.{place.authority}.{key}": value for key, value in found.items()}
    # S3A alone knows these settings, and Hadoop itself has nobody for the schemes that catalogs write.
    return named if place.scheme == "s3a" else named | {f"fs.{place.scheme}.impl": f"{_S3A}.S3AFileSystem"}


def _of_azure(place: _Place, config: Mapping[str, str]) -> dict[str, str]:
    signature = config.get("azure.sas-token")
    account = place.authority.rpartition("@")[2]
    if not signature:
        return {}
    return {
        f"fs.azure.account.auth.type.{account}": "SAS",
        f"fs.azure.sas.fixed.token.{account}": signature.removeprefix("?"),
        # A signature for a directory does not permit to look at the account, which the connector would do to find out.
        f"fs.azure.account.hns.enabled.{account}": "true",
        "fs.azure.account.hns.enabled": "true",
    }
