"""Row tracking, as a table's protocol, properties and domain have it.

Owns the three states of a table (supported, enabled, suspended), the names of the two hidden columns that data files
have row ids and row commit versions in, and the high-water mark of row ids. Follows the protocol's chapter "Row
Tracking".
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import NamedTuple

from headwater.basics.errors import HeadwaterError
from headwater.protocol import properties
from headwater.protocol.actions import DomainMetadata

FEATURE = "rowTracking"
DOMAIN = "delta.rowTracking"
#: The key of the tag of a commit that says whether rows kept their ids and commit versions.
PRESERVED = "delta.rowTracking.preserved"
#: The high-water mark of a table that has given no row id yet.
NO_MARK = -1

_MARK = "rowIdHighWaterMark"
#: The highest row id there can be.
LAST_ROW_ID = 2**63 - 1


class HiddenColumns(NamedTuple):
    """The names, in data files, of the columns for row ids and for row commit versions."""

    row_id: str
    row_commit_version: str


def reserved_names(configuration: Mapping[str, str]) -> tuple[str | None, str | None]:
    """The names of the hidden columns, None where not given; kept when row tracking is off again."""
    return configuration.get(properties.ROW_ID_COLUMN.name), configuration.get(
        properties.ROW_COMMIT_VERSION_COLUMN.name
    )


def with_column_names(configuration: Mapping[str, str]) -> dict[str, str]:
    """The configuration with names for the hidden columns, where row tracking is enabled and they have none.

    :raises HeadwaterError: ``DELTA_ROW_TRACKING_ILLEGAL_PROPERTY_COMBINATION``.
    """
    if not properties.ROW_TRACKING.of(configuration):
        return dict(configuration)
    if properties.ROW_TRACKING_SUSPENDED.of(configuration):
        raise HeadwaterError(
            "DELTA_ROW_TRACKING_ILLEGAL_PROPERTY_COMBINATION",
            {"property1": properties.ROW_TRACKING.name, "property2": properties.ROW_TRACKING_SUSPENDED.name},
        )
    names = {
        properties.ROW_ID_COLUMN.name: f"_row-id-col-{uuid.uuid4()}",
        properties.ROW_COMMIT_VERSION_COLUMN.name: f"_row-commit-version-col-{uuid.uuid4()}",
    }
    return {**names, **configuration}


def high_water_mark(domain: DomainMetadata | None) -> int:
    """The highest row id given so far, :data:`NO_MARK` where none is.

    :raises HeadwaterError: ``HEADWATER_ROW_ID_MARK_UNREADABLE``.
    """
    if domain is None or domain.removed:
        return NO_MARK
    try:
        mark = json.loads(domain.configuration)[_MARK]
    except (ValueError, KeyError, TypeError):
        mark = None
    if type(mark) is not int or not NO_MARK <= mark <= LAST_ROW_ID:
        raise HeadwaterError(
            "HEADWATER_ROW_ID_MARK_UNREADABLE", {"domain": DOMAIN, "configuration": domain.configuration}
        )
    return mark


def mark_action(mark: int) -> DomainMetadata:
    """The action that records a high-water mark."""
    return DomainMetadata(DOMAIN, json.dumps({_MARK: mark}, separators=(",", ":")))
