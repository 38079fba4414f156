"""``delta.connect.tables``: see :mod:`headwater.tables`."""

from delta.tables import *  # noqa: F403
from delta.tables import __all__ as __all__  # noqa: PLC0414
