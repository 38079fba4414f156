"""What the JVM's parser asks: whether a text is one of our statements, or a statement of another system.

Owns the two answers: the command with the columns that it returns, and the error for a statement that exists elsewhere,
with what to use instead. The grammar is in :mod:`headwater.sql`.
"""

from __future__ import annotations

import msgspec

from headwater.bridge.messages.define import ParsedStatement, ParseRequest
from headwater.bridge.messages.trouble import NotParsedRequest
from headwater.bridge.statement import Statement
from headwater.protocol.types import schema_string
from headwater.sql import elsewhere, statements
from headwater.statements.read.describe import DETAIL_SCHEMA, HISTORY_SCHEMA

_OUTPUT = {"describe_history": HISTORY_SCHEMA, "describe_detail": DETAIL_SCHEMA}


def parse(request: ParseRequest, statement: Statement) -> ParsedStatement | None:
    """The command of a text, None where the text is Spark's.

    :raises HeadwaterError: ``DELTA_STATEMENT_NOT_PARSED``.
    """
    parsed = statements.parse(request.text)
    if parsed is None:
        return None
    arguments = msgspec.Raw(msgspec.json.encode(parsed["arguments"]))
    return ParsedStatement(
        command=parsed["command"],
        table=parsed["table"],
        arguments=arguments,
        output=schema_string(_OUTPUT[parsed["command"]]),
    )


def not_parsed(request: NotParsedRequest, statement: Statement) -> None:
    """Refuse a text that Spark's parser refused, where it is a statement of another system.

    :raises HeadwaterError: ``HEADWATER_STATEMENT_NOT_SUPPORTED``, ``DELTA_OPERATION_NOT_ALLOWED``.
    """
    elsewhere.refuse(request.text)
