"""Errors the API itself raises: arguments of the wrong type, and statements that do not exist yet.

Owns the list of the latter, :data:`NOT_YET`, the one place to switch them on. All else is raised by the statement.
"""

from __future__ import annotations

from typing import Any, NoReturn

from pyspark.errors import AnalysisException

from headwater.errors import HeadwaterError

#: Statements the API can write and Headwater cannot run yet, with what to do meanwhile.
NOT_YET = dict.fromkeys(
    ("OPTIMIZE", "VACUUM", "RESTORE", "GENERATE", "CONVERT TO DELTA", "CLONE", "DROP FEATURE"),
    "Another engine that writes Delta tables, such as Delta Lake for Spark or delta-rs, can do it meanwhile.",
)


class DeltaTableError(AnalysisException):
    """An error found before there is a statement to run, with the condition and text it would have on the server."""

    def __init__(self, condition: str, parameters: dict[str, str]) -> None:
        error = HeadwaterError(condition, parameters)
        super().__init__(
            message=f"{error.text} SQLSTATE: {error.sql_state}", errorClass=condition, messageParameters=parameters
        )
        self._sql_state = error.sql_state

    def getSqlState(self) -> str:
        return self._sql_state


def refuse_unless_there(statement: str, table: str) -> None:
    """Raise ``HEADWATER_STATEMENT_NOT_SUPPORTED`` if the statement does not exist yet."""
    if statement in NOT_YET:
        not_supported(statement, table, NOT_YET[statement])


def not_supported(statement: str, table: str, instead: str) -> NoReturn:
    """Refuse what cannot be done yet; ``instead`` says what can."""
    raise DeltaTableError(
        "HEADWATER_STATEMENT_NOT_SUPPORTED", {"statement": statement, "tableName": table, "instead": instead}
    )


def check_type(name: str, value: Any, kinds: type | tuple[type, ...], what: str) -> None:
    """A TypeError unless a value is of a type; ``what`` names the type for a user.

    A bool is no int here, though Python says so.
    """
    if not isinstance(value, kinds) or (isinstance(value, bool) and kinds in (int, (int, float))):
        raise TypeError(f"'{name}' must be {what}, not {value!r} of type {type(value).__name__}.")


def check_session(value: Any) -> None:
    """A TypeError unless a value is a session, a classic one or Spark Connect's, which share no class."""
    if not all(hasattr(value, name) for name in ("sql", "table", "catalog")):
        raise TypeError(f"'sparkSession' must be a SparkSession, not {value!r} of type {type(value).__name__}.")
