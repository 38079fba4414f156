"""``HeadwaterError``, the one type of error that users see, and the lookup of its text.

An error condition is a documented name (``DELTA_TABLE_NOT_FOUND``), a SQLSTATE and a message template with
``<parameter>`` placeholders; ``conf/error-conditions.json`` has them all. The JVM side makes a Spark error of the
three, so SQL, PySpark and Spark Connect show the same condition, state and text. Promise: no message contains a Python
traceback.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from headwater.basics.redaction import without_credentials

_PLACEHOLDER = re.compile(r"<([A-Za-z][A-Za-z0-9]*)>")
_EXCEPTION = re.compile(r"\b[A-Z]\w*(?:Error|Exception): ")


@cache
def conf_directory() -> Path:
    """The ``conf`` directory: inside the installed package, or at the top of a source checkout."""
    packaged = Path(__file__).resolve().parents[1] / "conf"
    return packaged if packaged.is_dir() else Path(__file__).resolve().parents[3] / "conf"


@cache
def conditions() -> dict[str, dict[str, object]]:
    """Every error condition by name: ``{"message": [lines], "sqlState": "XXXXX"}``."""
    known: dict[str, dict[str, object]] = json.loads(
        (conf_directory() / "error-conditions.json").read_text(encoding="utf-8")
    )
    return known


#: What to do about a failure of the operating system.
_ADVICE: Mapping[int, str] = {
    errno.ENOSPC: "Free space there and run the statement again",
    errno.EDQUOT: "Free space there, or have the quota of the user running Spark raised, and run the statement again",
    errno.EROFS: "Mount the file system for writing, or write to another place",
    errno.EMFILE: "Raise the limit of open files (ulimit -n) of the user running Spark",
    errno.ENFILE: "Raise the limit of open files of the machine",
    errno.EACCES: "Give the user running Spark the right to read and write there",
    errno.EPERM: "Give the user running Spark the right to read and write there",
    errno.ENAMETOOLONG: "Use a shorter path",
}


class HeadwaterError(Exception):
    """An error with a documented condition, to be shown to a user.

    :param condition: a key of ``conf/error-conditions.json``.
    :param parameters: one value for each placeholder of the condition's message; values are converted to text.
    """

    def __init__(self, condition: str, parameters: Mapping[str, object] | None = None) -> None:
        entry = conditions()[condition]
        self.condition = condition
        self.sql_state = str(entry["sqlState"])
        self.parameters = {name: without_credentials(str(value)) for name, value in (parameters or {}).items()}
        lines = entry["message"]
        template = "\n".join(lines) if isinstance(lines, list) else str(lines)
        self.text = _PLACEHOLDER.sub(lambda m: self.parameters.get(m.group(1), m.group(0)), template)
        super().__init__(f"[{condition}] {self.text} SQLSTATE: {self.sql_state}")


def access_failed(error: OSError, path: str | None = None) -> HeadwaterError:
    """The ``DELTA_FILE_ACCESS_FAILED`` of a failure of the operating system; ``path`` is used if that names no file."""
    advice = _ADVICE.get(
        error.errno or 0, "Check that the file exists and that the user running Spark may read and write there"
    )
    reason = error.strerror or type(error).__name__
    where = error.filename if error.filename is not None else path or "a file"
    return HeadwaterError("DELTA_FILE_ACCESS_FAILED", {"path": where, "reason": reason, "advice": advice})


def illegal_option(name: str, value: str, explain: str) -> HeadwaterError:
    """The ``DELTA_ILLEGAL_OPTION`` of an option or setting; ``explain`` goes on after its name: ``must be …``."""
    return HeadwaterError("DELTA_ILLEGAL_OPTION", {"name": name, "input": value, "explain": explain})


def plain_reason(error: BaseException) -> str:
    """What a library says is wrong, on one line and without the names of its exceptions."""
    return _EXCEPTION.sub("", " ".join(str(error).split()))
