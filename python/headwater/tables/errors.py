"""Errors that the API itself raises, for arguments that cannot become a statement. Statements raise all others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.errors import AnalysisException

from headwater.basics.errors import HeadwaterError


class DeltaTableError(AnalysisException):
    """An error found before the statement runs, with the condition and text that the server would give it."""

    def __init__(self, condition: str, parameters: dict[str, str]) -> None:
        error = HeadwaterError(condition, parameters)
        super().__init__(
            message=f"{error.text} SQLSTATE: {error.sql_state}", errorClass=condition, messageParameters=parameters
        )
        self._sql_state = error.sql_state

    def getSqlState(self) -> str:
        return self._sql_state


def check_type(name: str, value: Any, kinds: type | tuple[type, ...], what: str) -> None:
    """Raise a TypeError unless a value has a type; ``what`` names the type for the user.

    A bool is not accepted as an int, although Python makes it one.
    """
    if not isinstance(value, kinds) or (isinstance(value, bool) and kinds in (int, (int, float))):
        raise TypeError(f"'{name}' must be {what}, not {value!r} of type {type(value).__name__}.")


def check_secrets(name: str, values: Any) -> None:
    """Raise a TypeError, which shows no value, unless values are a dict of strings."""
    if not isinstance(values, Mapping):
        raise TypeError(f"'{name}' must be a dict of strings, not of type {type(values).__name__}.")
    for key, value in values.items():
        if not (isinstance(key, str) and isinstance(value, str)):
            raise TypeError(f"'{name}' must be a dict of strings; {key!r} has a value of type {type(value).__name__}.")


def check_session(value: Any) -> None:
    """Raise a TypeError unless a value is a session, classic or Spark Connect; the two share no class."""
    if not all(hasattr(value, name) for name in ("sql", "table", "catalog")):
        raise TypeError(f"'sparkSession' must be a SparkSession, not {value!r} of type {type(value).__name__}.")
