"""EXPLAIN of the statements that change rows: each describes itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headwater.bridge.messages.change import ChangeRequest, ExplainRequest
from headwater.bridge.statement import Statement
from headwater.statements.calls import reads
from headwater.statements.dml import delete, merge, update

_BY_STATEMENT: Mapping[str, Callable[[ChangeRequest, Statement, str], str]] = {
    "delete": delete.explain,
    "update": update.explain,
    "merge": merge.explain,
}


@reads
def explain(request: ExplainRequest, statement: Statement) -> str:
    """What a statement would do; nothing is run."""
    return _BY_STATEMENT[request.statement](request.change, statement, request.mode)
