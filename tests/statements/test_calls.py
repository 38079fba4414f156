"""The records of calls: none leaves a question open, and what they say is true. And a statement that is added by the
steps of CONTRIBUTING.
"""

from __future__ import annotations

import json

import pytest

from headwater.bridge.calls import EntryPoint
from headwater.bridge.messages import Request
from headwater.bridge.messages.define import RowsAnswer
from headwater.bridge.statement import Statement
from headwater.protocol.types import PrimitiveType, StructField, StructType
from headwater.sql import grammar
from headwater.sql.grammar import GRAMMARS, Grammar
from headwater.sql.grammar.shared import Parsed, ends_of_table
from headwater.sql.tokens import text_of
from headwater.statements import calls
from headwater.statements.calls import call, own_statement, reads
from headwater.statements.registry import CALLS, HANDLERS, guarded
from headwater.statements.running import open_transactions
from support.recording_statement import RecordingStatement

_ANSWERS = {
    call: {"commits": True, "in_transaction": True},
    own_statement: {"grammar": "vacuum", "output": None, "commits": True, "in_transaction": True},
}


@pytest.fixture(autouse=True)
def declared(monkeypatch):
    """What a test declares is gone after it."""
    monkeypatch.setattr(calls, "CALLS", dict(CALLS))


def sketch(request: Request, statement: Statement) -> None:
    pass


@pytest.mark.parametrize(("kind", "question"), [(kind, each) for kind, given in _ANSWERS.items() for each in given])
def test_a_record_that_leaves_a_question_open_is_an_error(kind, question):
    given = {name: answer for name, answer in _ANSWERS[kind].items() if name != question}
    with pytest.raises(TypeError, match=question):
        kind(**given)(sketch)
    assert kind(**_ANSWERS[kind])(sketch) is sketch


@pytest.mark.parametrize("words", [{"in_transaction": False}, {"in_transaction": True, "words": "SKETCH"}])
def test_what_is_refused_in_a_transaction_has_words_and_nothing_else_has(words):
    with pytest.raises(TypeError, match="'sketch' needs words"):
        call(commits=True, **words)(sketch)


def test_a_handler_says_what_it_takes_and_answers_under_a_name_of_its_own():
    def without_answer(request: Request, statement: Statement):
        pass

    def without_request(request, statement: Statement) -> None:
        pass

    reads(sketch)
    for run in (without_answer, without_request, sketch):
        with pytest.raises(TypeError, match=f"'{run.__name__}' needs a name of its own, and the types"):
            reads(run)


def test_what_is_refused_is_in_words_of_users():
    """Only a statement of ours may be called by the name of its call."""
    of_spark = [each for each in CALLS.values() if each.grammar is None]
    assert not [each.words for each in of_spark if each.words == each.name.replace("_", " ").upper()]


def test_what_commits_says_what_it_committed():
    """But for what looks for a commit, and for a compaction that nobody waits for."""
    answers = {name for name, each in CALLS.items() if each.handler.run.__annotations__["return"] == "CommitAnswer"}
    assert answers - {"recover_commit"} == {name for name, each in CALLS.items() if each.commits} - {"auto_compact"}


_TEXTS = {
    "BEGIN TRANSACTION": "begin_transaction",
    "COMMIT": "commit_transaction",
    "ROLLBACK": "rollback_transaction",
    "ALTER TABLE t ALTER COLUMN a SYNC IDENTITY": "sync_identity",
    "ALTER TABLE t DROP FEATURE f": "drop_feature",
    "ALTER TABLE t ADD CONSTRAINT c CHECK (a > 1)": "add_constraint",
    "ALTER TABLE t DROP CONSTRAINT c": "drop_constraint",
    "ALTER TABLE t DROP PRIMARY KEY": "drop_key",
    "ANALYZE TABLE t COMPUTE DELTA STATISTICS": "analyze_table",
    "GENERATE m FOR TABLE t": "generate",
    "RESTORE t TO VERSION AS OF 1": "restore",
    "CONVERT TO DELTA t": "convert_to_delta",
    "COPY INTO t FROM '/x' FILEFORMAT = CSV": "copy_into",
    "COPY INTO t FROM '/x' FILEFORMAT = CSV VALIDATE": "copy_into_validate",
    "EXPLAIN COPY INTO t FROM '/x' FILEFORMAT = CSV": "explain_copy_into",
    "OPTIMIZE t": "optimize",
    "OPTIMIZE t DRY RUN": "optimize_dry_run",
    "REORG TABLE t APPLY (PURGE)": "reorg",
    "REORG TABLE t APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2))": "upgrade_uniform",
    "CREATE TABLE t SHALLOW CLONE s": "clone",
    "VACUUM t": "vacuum",
    "FSCK REPAIR TABLE t": "fsck",
    "CREATE INDEX i ON '/t' (a)": "create_index",
    "DROP INDEX i ON '/t'": "drop_index",
    "REFRESH INDEX i ON t": "refresh_index",
    "SHOW INDEXES ON t": "show_indexes",
    "MAINTAIN TABLE t": "maintain_table",
    "MAINTAIN TABLE t DRY RUN": "maintain_table_dry_run",
    "ALTER TABLE t ENABLE PREDICTIVE OPTIMIZATION": "alter_table_predictive_optimization",
    "DESCRIBE HISTORY t": "describe_history",
    "DESCRIBE DETAIL t": "describe_detail",
    "DESCRIBE HEALTH t": "describe_health",
}


def test_a_statement_of_our_grammar_says_which(monkeypatch):
    assert set(_TEXTS.values()) == {name for name, each in CALLS.items() if each.grammar}
    every = dict(GRAMMARS)
    for text, command in _TEXTS.items():
        monkeypatch.setattr(grammar, "GRAMMARS", {"": every[CALLS[command].grammar or ""]})
        parsed = grammar.parse(text, "4.0.0")
        assert parsed is not None
        assert parsed.command == command


# A statement, SKETCH t TIMES n, by the steps of CONTRIBUTING. 1: its messages.


class SketchArguments(Request, kw_only=True):
    times: int


class SketchRequest(Request, kw_only=True):
    table: str
    name: str
    arguments: SketchArguments


# 2: its grammar.


def parse_sketch(found, text):
    if not found[0].is_word_of("SKETCH") or not (ends := ends_of_table(found, 1)):
        return None
    end = max(ends)
    return Parsed("draw", text_of(text, found, 1, end), {"times": int(found[end + 1].value)})


# 3: its handler.

_SCHEMA = StructType((StructField("line", PrimitiveType("string")),))


def draw(request: SketchRequest, statement: Statement) -> RowsAnswer:
    return RowsAnswer(rows=[{"line": f"{request.name} {number}"} for number in range(request.arguments.times)])


def test_a_statement_is_its_messages_its_grammar_and_its_handler(monkeypatch):
    """What the JVM asks, and what it gets: the statement's command and columns, then its rows."""
    monkeypatch.setitem(GRAMMARS, "sketch", Grammar(parse_sketch))
    monkeypatch.setattr("headwater.statements.parsing.CALLS", calls.CALLS)
    own_statement("sketch", output=_SCHEMA, commits=False, in_transaction=False, words="SKETCH")(draw)
    handlers = {**HANDLERS, "draw": guarded(calls.CALLS["draw"])}
    statement = RecordingStatement({})
    monkeypatch.setattr("headwater.bridge.calls.Statement", lambda *_: statement)

    def asked(command, /, **request):
        return json.loads(
            EntryPoint(lambda: handlers).call(command, json.dumps({"session": {}, "request": request}), None)
        )

    parsed = asked("parse", text="sketch a.b times 2;")["result"]
    assert parsed.keys() == {"command", "table", "arguments", "output", "mayCommit"}
    assert (parsed["table"], parsed["mayCommit"]) == ("a.b", False)
    assert [field["name"] for field in json.loads(parsed["output"])["fields"]] == ["line"]
    request = {"table": "/t", "name": parsed["table"], "arguments": parsed["arguments"]}
    assert asked(parsed["command"], **request) == {"result": {"rows": [{"line": "a.b 0"}, {"line": "a.b 1"}]}}
    monkeypatch.setattr(open_transactions, "current", lambda _: object())
    refused = asked(parsed["command"], **request)["error"]
    assert (refused["condition"], refused["parameters"]["statement"]) == ("HEADWATER_NOT_IN_TRANSACTION", "SKETCH")
