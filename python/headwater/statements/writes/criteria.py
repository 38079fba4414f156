"""The writer options ``replaceUsing``, ``replaceOn`` and ``targetAlias``: their meaning, and what they exclude.

Owns which options and which ways of writing go together with them. What they do is in
:mod:`headwater.statements.dml.replace`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from headwater.basics.errors import HeadwaterError, illegal_option
from headwater.statements.running.opening import Options

_USING, _ON, _ALIAS = "replaceUsing", "replaceOn", "targetAlias"
#: Parts of a list of names: names in backticks, which may hold commas and doubled backticks, and others.
_NAME = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^,`]*?))\s*(?:,|$)")


@dataclass(frozen=True)
class Criteria:
    """Which rows are replaced: those that have the same values in the columns ``using`` as a new row, or for which a
    condition is true with a new row.

    :param condition: SQL; None where ``using`` has the columns.
    :param alias: the table's name in the condition; None if it has none of its own.
    """

    using: list[str]
    condition: str | None = None
    alias: str | None = None


def asks_to_replace(options: Options) -> bool:
    """Whether the options ask for REPLACE USING or REPLACE ON."""
    return _USING.lower() in options or _ON.lower() in options


def replace_criteria(options: Options) -> Criteria | None:
    """What the options ask; None if they ask for neither.

    :raises HeadwaterError: ``DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS``, ``DELTA_ILLEGAL_OPTION``.
    """
    if not asks_to_replace(options):
        return None
    name = _ON if _ON.lower() in options else _USING
    check_options_beside(options, name)
    if name == _USING:
        if _ALIAS.lower() in options:
            raise _incompatible(_ALIAS, name)
        return Criteria(_names(options[_USING.lower()]))
    if _USING.lower() in options:
        raise _incompatible(_ON, _USING)
    condition = options[_ON.lower()]
    if not condition.strip():
        raise illegal_option(_ON, condition, "must be a condition")
    return Criteria([], condition, options.get(_ALIAS.lower()))


def check_options_beside(options: Options, name: str) -> None:
    """Refuse other options that say what a write replaces.

    :param name: what the write replaces by, for people.
    :raises HeadwaterError: ``DELTA_OVERWRITE_BY_FILTER_INCOMPATIBLE_REPLACE_ON_OR_USING``,
        ``DELTA_DYNAMIC_PARTITION_OVERWRITE_INCOMPATIBLE_REPLACE_ON_OR_USING``,
        ``DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS``.
    """
    if "replacewhere" in options:
        raise HeadwaterError("DELTA_OVERWRITE_BY_FILTER_INCOMPATIBLE_REPLACE_ON_OR_USING", {})
    if options.get("partitionoverwritemode", "").lower() == "dynamic":
        raise HeadwaterError("DELTA_DYNAMIC_PARTITION_OVERWRITE_INCOMPATIBLE_REPLACE_ON_OR_USING", {})
    if options.flag("overwriteSchema"):
        raise _incompatible("overwriteSchema", name)
    if options.flag("dataChange") is False:
        raise _incompatible("dataChange", name)


def refuse_criteria(options: Options, mode: str) -> None:
    """Refuse the options in a write that replaces nothing, or other rows.

    :param mode: ``append``; ``dynamic``, by partition; ``filter``; ``overwrite``, which may have them.
    :raises HeadwaterError: ``DELTA_REPLACE_ON_OR_USING_IN_APPEND`` and those of :func:`check_options_beside`.
    """
    if not asks_to_replace(options):
        return
    if mode == "append":
        raise HeadwaterError("DELTA_REPLACE_ON_OR_USING_IN_APPEND", {})
    if mode == "dynamic":
        raise HeadwaterError("DELTA_DYNAMIC_PARTITION_OVERWRITE_INCOMPATIBLE_REPLACE_ON_OR_USING", {})
    if mode == "filter":
        raise HeadwaterError("DELTA_OVERWRITE_BY_FILTER_INCOMPATIBLE_REPLACE_ON_OR_USING", {})


def _incompatible(one: str, other: str) -> HeadwaterError:
    return HeadwaterError("DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS", {"option1": one, "option2": other})


def _names(text: str) -> list[str]:
    """The names of a list that is separated by commas; names may stand in backticks."""
    names: list[str] = []
    position = 0
    while True:
        found = _NAME.match(text, position)
        name = "" if found is None else (found[1] or "").replace("``", "`") or found[2] or ""
        if found is None or not name:
            explain = "must name the columns, separated by commas"
            raise illegal_option(_USING, text, explain)
        names.append(name)
        position = found.end()
        if not found[0].endswith(","):
            return names
