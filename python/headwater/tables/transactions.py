"""A transaction over several statements as a context manager.

Owns what :func:`headwater.in_transaction` returns. It runs ``BEGIN TRANSACTION``, ``COMMIT`` and ``ROLLBACK`` in the
session, classic or of Spark Connect, and knows nothing of tables.
"""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Any

_LOG = logging.getLogger(__name__)


class InTransaction:
    """The block is a transaction of the session: committed at its end, rolled back if it raises an exception.

    ``versions`` has, after the block, the version of each table that was changed, by its path.
    """

    def __init__(self, spark: Any, *, serializable: bool = False) -> None:
        self._spark = spark
        self._level = " ISOLATION LEVEL SERIALIZABLE" if serializable else ""
        self._is_open = False
        self.versions: dict[str, int] = {}

    def __enter__(self) -> InTransaction:
        self._spark.sql("BEGIN TRANSACTION" + self._level)
        self._is_open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._is_open:
            return
        if error is None:
            self._is_open = False
            self.versions = {row["path"]: row["version"] for row in self._spark.sql("COMMIT").collect()}
        else:
            try:
                self.rollback()
            except Exception as other:  # the block ended the transaction itself, or the session is gone
                _LOG.warning("the transaction of a block that raised was not rolled back: %s", other)

    def rollback(self) -> None:
        """Undo what the block has done so far, and end the transaction; later statements are not part of it."""
        self._is_open = False
        self._spark.sql("ROLLBACK")
