"""The ends of things: a commit whose handler died, did it happen? A JVM that ends, is all of its upkeep done?"""

from __future__ import annotations

from typing import Any

import orjson

from headwater.bridge.statement import Statement
from headwater.commands.tables import locate
from headwater.errors import HeadwaterError
from headwater.log.file_names import commit_name, log_directory
from headwater.transaction.upkeep import wait_for_upkeep

_LONGEST_UPKEEP_SECONDS = 30.0


def recover_commit(request: dict[str, Any], statement: Statement) -> dict[str, Any]:
    """The answer of the call that died, if the commit it was making is in the log.

    :raises HeadwaterError: ``DELTA_COMMIT_NOT_MADE`` where it is not: the statement did nothing and can be run again.
    """
    location = locate(request["table"], statement)
    version = request["version"]
    try:
        lines = location.store.read(f"{log_directory(location.path)}/{commit_name(version)}").splitlines()
    except FileNotFoundError:
        lines = []
    for line in lines:
        info = orjson.loads(line).get("commitInfo")
        if info is not None and info.get("txnId") == request["txnId"]:
            return {**(request.get("answer") or {}), "version": version}
    raise HeadwaterError("DELTA_COMMIT_NOT_MADE", {"tableLocation": location.path, "version": version})


def finish_upkeep(request: dict[str, Any], statement: Statement) -> bool:
    """Before the JVM ends: wait for checkpoints and checksums still being written; False where they take too long."""
    return wait_for_upkeep(_LONGEST_UPKEEP_SECONDS)
