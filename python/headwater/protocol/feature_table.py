"""The table of all table features, as Markdown: ``docs/features.md``.

``python -m headwater.protocol.feature_table`` prints it. Promise: every cell comes from
:data:`~headwater.protocol.features.FEATURES`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from headwater.protocol.features import (
    FEATURES,
    READER_VERSION_WITH_FEATURES,
    WRITER_VERSION_WITH_FEATURES,
    Feature,
)

_OPENING = """# Table features

What each feature of the Delta protocol needs, and what Headwater does with a table that has it. Features of writers
never prevent reading. A feature that is not in this table is refused by its name.

*Versions* are the lowest reader and writer versions of a table with the feature. *May be dropped* says whether
Headwater's `ALTER TABLE … DROP FEATURE` can remove the feature.

| feature | of | versions | requires | switched on by | read | written | may be dropped | what Headwater does |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""
_CLOSING = """
This file is generated: `python -m headwater.protocol.feature_table > docs/features.md`.
"""


def feature_table() -> str:
    """The whole file."""
    rows = (_row(FEATURES[name]) for name in sorted(FEATURES, key=str.lower))
    return _OPENING + "".join(f"| {' | '.join(cells)} |\n" for cells in rows) + _CLOSING


def _row(feature: Feature) -> list[str]:
    native = (READER_VERSION_WITH_FEATURES if feature.reader else 1, WRITER_VERSION_WITH_FEATURES)
    reader, writer = feature.legacy or native
    return [
        f"`{feature.name}`",
        "readers and writers" if feature.reader else "writers",
        f"{reader}, {writer}",
        _names(feature.requires),
        _names(switch.name for switch in feature.switches),
        _yes_or_no(feature.reads or not feature.reader),
        _yes_or_no(feature.writes),
        _yes_or_no(feature.droppable),
        feature.note,
    ]


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _yes_or_no(value: bool) -> str:
    return "yes" if value else "no"


if __name__ == "__main__":
    sys.stdout.write(feature_table())
