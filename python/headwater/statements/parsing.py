"""What the JVM's parser asks: whether a text is one of our statements, or a statement of another system.

Owns the two answers: the command with the columns that it returns, and the error for a statement that exists elsewhere,
with what to use instead. The grammar is in :mod:`headwater.sql`.
"""

from __future__ import annotations

import msgspec

from headwater.bridge.messages.define import ParameterMarkersRequest, ParsedStatement, ParseRequest
from headwater.bridge.messages.trouble import NotParsedRequest
from headwater.bridge.statement import Statement
from headwater.protocol.types import schema_string
from headwater.sql import elsewhere, grammar, older_sparks, scripts, tokens
from headwater.statements.commit.transactions import COMMIT_SCHEMA
from headwater.statements.define.clone import CLONE_SCHEMA
from headwater.statements.maintain.health import HEALTH_SCHEMA
from headwater.statements.maintain.optimize import DRY_RUN_SCHEMA, OPTIMIZE_SCHEMA
from headwater.statements.maintain.restore import RESTORE_SCHEMA
from headwater.statements.maintain.vacuum import VACUUM_SCHEMA
from headwater.statements.read.describe import DETAIL_SCHEMA, HISTORY_SCHEMA

#: The rows of statements that have some.
OUTPUT = {
    "commit_transaction": COMMIT_SCHEMA,
    "clone": CLONE_SCHEMA,
    "describe_history": HISTORY_SCHEMA,
    "describe_detail": DETAIL_SCHEMA,
    "describe_health": HEALTH_SCHEMA,
    "optimize": OPTIMIZE_SCHEMA,
    "optimize_dry_run": DRY_RUN_SCHEMA,
    "reorg": OPTIMIZE_SCHEMA,
    "restore": RESTORE_SCHEMA,
    "upgrade_uniform": OPTIMIZE_SCHEMA,
    "vacuum": VACUUM_SCHEMA,
}
#: The statements that make no version of the table.
_WITHOUT_COMMIT = frozenset(
    {
        "atomic",
        "begin_transaction",
        "commit_transaction",
        "rollback_transaction",
        "describe_history",
        "describe_detail",
        "describe_health",
        "generate",
        "optimize_dry_run",
    }
)


def parse(request: ParseRequest, statement: Statement) -> ParsedStatement | None:
    """The command of a text, None where the text is Spark's.

    :raises HeadwaterError: ``PARSE_SYNTAX_ERROR``.
    """
    parsed = grammar.parse(request.text, statement.spark_version)
    if parsed is None:
        return None
    output = OUTPUT.get(parsed.command)
    arguments = msgspec.Raw(msgspec.json.encode(parsed.arguments))
    return ParsedStatement(
        command=parsed.command,
        table=parsed.table,
        arguments=arguments,
        output=None if output is None else schema_string(output),
        may_commit=parsed.command not in _WITHOUT_COMMIT,
        creates=parsed.creates,
    )


def parameter_markers(request: ParameterMarkersRequest, statement: Statement) -> list[str]:
    """A text in pieces, of which each second is a parameter marker."""
    return tokens.at_markers(request.text)


def not_parsed(request: NotParsedRequest, statement: Statement) -> str | None:
    """What Spark's parser takes in place of a text that it refused: a script with statements of ours, or a form that
    newer Sparks parse. None for any other. A statement of another system is refused.

    :raises HeadwaterError: ``HEADWATER_STATEMENT_NOT_SUPPORTED``, ``DELTA_OPERATION_NOT_ALLOWED``,
        ``HEADWATER_NEEDS_NEWER_SPARK``, ``PARSE_SYNTAX_ERROR``.
    """
    if (script := scripts.for_spark(request.text, statement.spark_version)) is not None:
        return script
    if (older := older_sparks.for_spark(request.text, statement.spark_version)) is not None:
        return older
    elsewhere.refuse(request.text)
    return None
