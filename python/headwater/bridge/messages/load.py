"""Messages of COPY INTO, and of its calls back to Spark's side."""

from __future__ import annotations

from headwater.bridge.messages import Answer, Int, PassedOn, Request
from headwater.bridge.messages.define import ParsedChangeRequest, ParsedStatementRequest


class CopyArguments(PassedOn, kw_only=True):
    """What COPY INTO is asked. Texts of expressions, as the user wrote them: ``source``, ``files``, ``pattern``, those
    of options, and a number of rows.

    :param source: the path of the files.
    :param select: ``SELECT`` with what is selected of their rows, without FROM; None for all columns by name.
    :param by_position: whether columns are matched by position; ``columns``: the columns of the table that they are.
    :param validate: ``ALL`` or a number of rows, if they are only checked.
    :param files: the names of files; ``pattern``: what their names match.
    """

    source: str
    select: str | None = None
    by_position: bool = False
    columns: list[str] | None = None
    format: str
    validate: str | None = None
    files: list[str] | None = None
    pattern: str | None = None
    format_options: list[list[str]] = []
    copy_options: list[list[str]] = []


class CopyIntoRequest(ParsedChangeRequest, kw_only=True):
    """COPY INTO."""

    arguments: CopyArguments


class CopyIntoValidateRequest(ParsedStatementRequest, kw_only=True):
    """COPY INTO … VALIDATE."""

    arguments: CopyArguments


class ExplainCopyIntoRequest(ParsedStatementRequest, kw_only=True):
    """EXPLAIN COPY INTO."""

    arguments: CopyArguments


class CopyColumnsRequest(Request, kw_only=True):
    """Asks for the columns of the rows of COPY INTO … VALIDATE."""

    table: str
    name: str
    arguments: CopyArguments


class CopyColumns(Answer, kw_only=True):
    """The columns that the table's rows will have."""

    schema: str


class SourceFiles(Answer, kw_only=True):
    """Adds a relation that reads files as Spark's reader does. The answer is a plan.

    :param paths: of the files, whatever characters their names have.
    :param schema: the columns to read them with; None if they are inferred.
    """

    format: str
    paths: list[str]
    schema: str | None
    options: dict[str, str]


class Placement(Answer, kw_only=True):
    """Adds a plan's rows as rows of a version of a table: cast and completed as those of a write that appends. The
    answer is a plan.

    :param schema: the columns that the rows count as having, which are cast or null where the plan has others.
    :param by_name: whether columns are matched by name, not by position.
    :param options: of the write.
    """

    plan: Int
    table: str
    version: int
    schema: str
    by_name: bool
    options: dict[str, str]
