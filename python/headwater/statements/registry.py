"""The registry of handlers: every call that Spark's side makes, by name.

Owns what surrounds all handlers. They are declared where they are (:mod:`headwater.statements.calls`), in any module of
this package: all of them are imported here, so that none is left out.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import wraps
from importlib import import_module
from typing import Any

from headwater import statements
from headwater.basics.errors import HeadwaterError
from headwater.bridge.calls import Handler
from headwater.bridge.statement import Statement
from headwater.sql.grammar import GRAMMARS
from headwater.statements.calls import CALLS as CALLS  # noqa: PLC0414 - complete once this module is imported
from headwater.statements.calls import Call
from headwater.statements.running import open_transactions
from headwater.statements.running.managed_tables import named as by_name


def guarded(call: Call) -> Handler[Any]:
    """The handler of a call, which refuses within a transaction over several statements what cannot be part of one, and
    says by which name a table may be reached that may not be by its path.
    """
    handler, words = call.handler, call.words

    @wraps(handler.run)
    def run(request: Any, statement: Statement) -> Any:
        if words is not None and open_transactions.current(statement) is not None:
            subject = getattr(request, "name", None) or getattr(request, "table", None) or "this session"
            raise open_transactions.not_in_transaction(words, str(subject))
        try:
            return handler.run(request, statement)
        except HeadwaterError as error:
            if (better := by_name(error, statement)) is not error:
                raise better from error
            raise

    return Handler(handler.request, run)


for module in pkgutil.walk_packages(statements.__path__, f"{statements.__name__}."):
    import_module(module.name)
if {call.grammar for call in CALLS.values()} != {None, *GRAMMARS}:
    raise TypeError("each grammar needs a call that names it, and each call's grammar has to exist")
HANDLERS: Mapping[str, Handler[Any]] = {name: guarded(call) for name, call in CALLS.items()}
