"""What the JVM's parser asks: whether a text is one of Headwater's statements, or a statement of another system.

Owns the two answers: the command with the columns that it returns, and the error for a statement that exists elsewhere,
with what to use instead. The grammar is in :mod:`headwater.sql`.
"""

from __future__ import annotations

import msgspec

from headwater.bridge.messages.define import ParameterMarkersRequest, ParsedStatement, ParseRequest
from headwater.bridge.messages.failures import NotParsedRequest
from headwater.bridge.statement import Statement
from headwater.protocol.types import schema_string
from headwater.sql import (
    described,
    elsewhere,
    expectation_clauses,
    grammar,
    key_clauses,
    marked_schemas,
    older_sparks,
    scripts,
    tokens,
)
from headwater.sql.grammar.transactions import ATOMIC
from headwater.statements.calls import CALLS, reads


@reads
def parse(request: ParseRequest, statement: Statement) -> ParsedStatement | None:
    """The command of a text, None if the text is Spark's.

    :raises HeadwaterError: ``PARSE_SYNTAX_ERROR``.
    """
    parsed = grammar.parse(request.text, statement.spark_version)
    if parsed is None:
        return None
    record = None if parsed.command == ATOMIC else CALLS[parsed.command]
    return ParsedStatement(
        command=parsed.command,
        table=parsed.table,
        arguments=msgspec.Raw(msgspec.json.encode(parsed.arguments)),
        output=None if record is None or record.output is None else schema_string(record.output),
        may_commit=record is not None and record.commits,
        creates=parsed.creates,
    )


@reads
def parameter_markers(request: ParameterMarkersRequest, statement: Statement) -> list[str]:
    """A text in pieces, of which each second is a parameter marker."""
    return tokens.at_markers(request.text)


@reads
def not_parsed(request: NotParsedRequest, statement: Statement) -> str | None:
    """What Spark's parser takes in place of a text that it refused: a query of DESCRIBE, a script with statements of
    ours, or a form that newer Sparks parse. None for any other. A statement of another system is refused.

    :raises HeadwaterError: ``HEADWATER_STATEMENT_NOT_SUPPORTED``, ``DELTA_OPERATION_NOT_ALLOWED``,
        ``HEADWATER_NEEDS_NEWER_SPARK``, ``HEADWATER_KEY_ENFORCED``, ``PARSE_SYNTAX_ERROR``.
    """
    text = described.for_spark(request.text) or request.text
    is_delta = statement.confs.get("spark.sql.sources.default", "").lower() == "delta"
    if (script := scripts.for_spark(text, statement.spark_version, default_is_delta=is_delta)) is not None:
        return script
    text = expectation_clauses.for_spark(text, default_is_delta=is_delta) or text
    if (older := older_sparks.for_spark(text, statement.spark_version)) is not None:
        return older
    if (marked := marked_schemas.for_spark(text)) is not None:
        return marked
    key_clauses.refuse_enforced(text)
    if (with_columns := key_clauses.for_spark(text)) is not None:
        return with_columns
    if text != request.text:
        return text
    elsewhere.refuse(text)
    return None
