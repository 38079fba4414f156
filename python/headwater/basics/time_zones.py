"""Time zones as Spark names them.

Owns the step from a session's ``spark.sql.session.timeZone``, or the offset at the end of a timestamp, to a zone of
Python's.
"""

from __future__ import annotations

import re
from datetime import timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")


def time_zone_of(name: str) -> tzinfo:
    """The zone of a name: a region, ``Z``, ``UTC``, or an offset like ``+01:00`` or ``GMT+8``.

    :raises ValueError: no such time zone.
    """
    if name.upper() in ("Z", "UTC", "GMT", "UT", "ETC/UTC"):
        return timezone.utc
    if match := _OFFSET.fullmatch(name):
        hours, minutes, seconds = (int(part or 0) for part in match.group(2, 3, 4))
        offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return timezone(offset if match.group(1) == "+" else -offset)
    try:
        return ZoneInfo(name)
    except (OSError, KeyError):
        raise ValueError(name) from None
