"""The check of a query's options. Spark's side and other handlers interpret them."""

from __future__ import annotations

from headwater.bridge.messages.read import CheckReadOptionsRequest
from headwater.bridge.statement import Statement
from headwater.statements.calls import reads
from headwater.statements.known_options import check_options


@reads
def check_read_options(request: CheckReadOptionsRequest, statement: Statement) -> None:
    """Refuse misspelt options of a query.

    :raises HeadwaterError: ``HEADWATER_UNKNOWN_OPTION``.
    """
    check_options(request.options, in_sql=request.is_sql)
