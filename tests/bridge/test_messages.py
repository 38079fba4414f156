"""The messages of the bridge: what Python declares is what Scala declares.

Each struct of ``headwater.bridge.messages`` and the case class of the same name must have the same fields, of types
that the one side can send and the other can read; each call must have the same request and answer on both sides.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headwater.bridge import messages
from headwater.bridge.messages import (
    Answer,
    Request,
    callbacks,
    catalogs,
    change,
    define,
    follow,
    maintain,
    read,
    trouble,
    write,
)
from headwater.bridge.statement import StatementContext
from headwater.statements.registry import HANDLERS

SCALA = Path(__file__).resolve().parents[2] / "jvm/src/main/scala/headwater/spark/bridge/messages"
_CLASS = re.compile(r"final case class (\w+)\(")
#: Bytes cross as base64.
_SCALARS = {str: {"String"}, int: {"Long", "Int"}, bool: {"Boolean"}, bytes: {"String"}}
#: Keys of maps; those that are numbers cross as text.
_KEYS = {str: "String", int: "Int"}
#: What the JVM passes on or takes apart itself: rows of files, and JSON of the handler's own.
_NODE = "JsonNode"
#: Python's calls of the parser's statements differ in their arguments only, which the JVM passes on.
_PASSED_ON = {
    "DescribeHistoryRequest": "ParsedStatementRequest",
    "DescribeDetailRequest": "ParsedStatementRequest",
    "DescribeHealthRequest": "ParsedStatementRequest",
    "SyncIdentityRequest": "ParsedChangeRequest",
    "AnalyzeTableRequest": "ParsedChangeRequest",
    "AddConstraintRequest": "ParsedChangeRequest",
    "DropConstraintRequest": "ParsedChangeRequest",
    "DropFeatureRequest": "ParsedChangeRequest",
    "GenerateRequest": "ParsedStatementRequest",
    "RestoreRequest": "ParsedChangeRequest",
    "ReorgRequest": "ParsedChangeRequest",
    "UpgradeUniformRequest": "ParsedChangeRequest",
    "OptimizeRequest": "ParsedChangeRequest",
    "OptimizeDryRunRequest": "ParsedStatementRequest",
    "VacuumRequest": "ParsedChangeRequest",
    "TransactionRequest": "ParsedStatementRequest",
}
#: Structs that a node stands for, and bases.
_NOT_IN_SCALA = {
    "HistoryArguments",
    "DetailArguments",
    "HealthArguments",
    "SyncIdentityArguments",
    "AnalyzeTableArguments",
    "AddConstraintArguments",
    "DropConstraintArguments",
    "DropFeatureArguments",
    "GenerateArguments",
    "OptimizeArguments",
    "ReorgArguments",
    "UpgradeUniformArguments",
    "CloneArguments",
    "RestoreArguments",
    "VacuumArguments",
    "TransactionArguments",
    "ConvertArguments",
    "TableChange",
    "StreamedTable",
}
#: The calls of one case class whose name is a parameter.
_NAMED_WHEN_MADE = {
    "describe_history": ("ParsedStatementRequest", "RowsAnswer"),
    "describe_detail": ("ParsedStatementRequest", "RowsAnswer"),
    "describe_health": ("ParsedStatementRequest", "RowsAnswer"),
    "sync_identity": ("ParsedChangeRequest", "CommitAnswer"),
    "analyze_table": ("ParsedChangeRequest", "CommitAnswer"),
    "add_constraint": ("ParsedChangeRequest", "CommitAnswer"),
    "drop_constraint": ("ParsedChangeRequest", "CommitAnswer"),
    "drop_feature": ("ParsedChangeRequest", "CommitAnswer"),
    "generate": ("ParsedStatementRequest", "RowsAnswer"),
    "restore": ("ParsedChangeRequest", "CommitAnswer"),
    "reorg": ("ParsedChangeRequest", "CommitAnswer"),
    "upgrade_uniform": ("ParsedChangeRequest", "CommitAnswer"),
    "optimize": ("ParsedChangeRequest", "CommitAnswer"),
    "optimize_dry_run": ("ParsedStatementRequest", "RowsAnswer"),
    "vacuum": ("ParsedChangeRequest", "CommitAnswer"),
    **dict.fromkeys(
        ("begin_transaction", "commit_transaction", "rollback_transaction"), ("ParsedStatementRequest", "RowsAnswer")
    ),
    **dict.fromkeys(("delete", "update", "merge"), ("ChangeRequest", "CommitAnswer")),
}


def structs() -> dict[str, type[msgspec.Struct]]:
    found = {}
    for module in (messages, catalogs, read, define, write, change, follow, maintain, callbacks, trouble):
        for name, value in vars(module).items():
            if inspect.isclass(value) and issubclass(value, (Request, Answer)) and value.__module__ == module.__name__:
                found[name] = value
    return {name: value for name, value in found.items() if name not in ("Request", "Answer", *_NOT_IN_SCALA)}


def _split(text: str) -> Iterator[str]:
    """The parts of a list, which may have brackets, parentheses and commas within."""
    depth, part = 0, ""
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            yield part
            part = ""
        else:
            part += letter
    if part.strip():
        yield part


def _within(text: str, start: int) -> str:
    depth, end = 1, start
    while depth:
        depth += (text[end] == "(") - (text[end] == ")")
        end += 1
    return text[start : end - 1]


def case_classes() -> dict[str, dict[str, str]]:
    """The fields of each case class, with their types."""
    found = {}
    for file in SCALA.glob("*.scala"):
        text = file.read_text()
        for match in _CLASS.finditer(text):
            fields = (part.split(":", 1) for part in _split(_within(text, match.end())))
            found[match[1]] = {name.strip().strip("`"): kind.split("=")[0].strip() for name, kind in fields}
    return found


def calls() -> dict[str, tuple[str, str]]:
    """The request and the type of the answer of each call, as Scala declares them."""
    found = {}
    for file in SCALA.glob("*.scala"):
        for declared in file.read_text().split("final case class ")[1:]:
            if call := re.search(r'extends Call\[([^"]*)\]\("(\w+)"\)', declared):
                found[call[2]] = (declared.partition("(")[0], call[1])
    return {**found, **_NAMED_WHEN_MADE}


def _problem(kind: Any, scala: str, *, sent_by_python: bool, omitted: bool) -> str | None:
    """Why a field of Scala cannot hold, or be, what Python's type says; None where it can."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        members = [member for member in typing.get_args(kind) if member is not type(None)]
        if len(members) > 1 and set(members) <= {str, int, float}:
            # Values of several types, which Spark's side may send and only passes on when it gets them.
            return None if scala in (_NODE, *(() if sent_by_python else ("Any",))) else f"a union, not {scala}"
        if len(members) > 1:
            names = {member.__name__ for member in members}
            return None if scala == "AnyTableChange" and names <= set(case_classes()) else f"a union, not {scala}"
        if scala.startswith("Option["):
            return _problem(members[0], scala[7:-1], sent_by_python=sent_by_python, omitted=False)
        # What Spark's side sends may always be there.
        return "None" if sent_by_python else _problem(members[0], scala, sent_by_python=False, omitted=False)
    if scala == _NODE:
        return None
    if scala.startswith("Option["):
        return None if sent_by_python and omitted else f"{scala} of what is never None"
    if kind in _SCALARS:
        return None if scala in _SCALARS[kind] else f"{kind.__name__}, not {scala}"
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is list and scala.startswith("Seq["):
        return _problem(arguments[0], scala[4:-1], sent_by_python=sent_by_python, omitted=False)
    if origin is dict and arguments[0] in _KEYS and scala.startswith(f"Map[{_KEYS[arguments[0]]}, "):
        value = scala.partition(", ")[2][:-1]
        if value.startswith("Option[") and not sent_by_python:
            return _problem(arguments[1], value, sent_by_python=False, omitted=False)
        return _problem(arguments[1], value, sent_by_python=sent_by_python, omitted=False)
    if inspect.isclass(kind) and issubclass(kind, msgspec.Struct):
        return None if kind.__name__ == scala else f"{kind.__name__}, not {scala}"
    return f"{kind}, not {scala}"


@pytest.mark.parametrize("name", sorted(structs()))
def test_fields_and_types(name: str) -> None:
    struct, fields = structs()[name], case_classes()[_PASSED_ON.get(name, name)]
    declared = {field.encode_name: field for field in msgspec.structs.fields(struct)}
    assert declared.keys() == fields.keys()
    sent = issubclass(struct, Answer)
    for field, scala in fields.items():
        omitted = sent and not declared[field].required
        assert _problem(declared[field].type, scala, sent_by_python=sent, omitted=omitted) is None, f"{name}.{field}"


def test_every_case_class_has_a_struct() -> None:
    assert case_classes().keys() - structs().keys() == {"Envelope", "ParsedStatementRequest", "ParsedChangeRequest"}
    assert case_classes()["Envelope"].keys() == {
        field.encode_name for field in msgspec.structs.fields(messages.Envelope)
    }


def test_variants_have_the_same_tags() -> None:
    text = (SCALA / "Define.scala").read_text()
    tags = dict(re.findall(r'final case class (\w+)\((?:(?!final case class).)*?kind: String = "(\w+)"', text, re.S))
    changes = typing.get_args(define.AnyTableChange)
    assert tags == {kind.__name__: kind.__struct_config__.tag for kind in changes}


def test_calls_have_the_same_requests_and_answers() -> None:
    assert calls().keys() == HANDLERS.keys()
    for name, (request, answer) in calls().items():
        handler = HANDLERS[name]
        assert _PASSED_ON.get(handler.request.__name__, handler.request.__name__) == request, name
        hints = typing.get_type_hints(handler.run)
        assert hints["request"] is handler.request, name
        assert _scala(hints["return"]) == answer, name


def _scala(kind: Any) -> str:
    """The type of an answer, in Scala."""
    if kind in (None, type(None), typing.NoReturn):
        return "Unit"
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        (member,) = (member for member in typing.get_args(kind) if member is not type(None))
        return f"Option[{_scala(member)}]"
    if typing.get_origin(kind) is list:
        return f"Seq[{_scala(typing.get_args(kind)[0])}]"
    return {bool: "Boolean", str: "String"}.get(kind, kind.__name__)


def _called_back() -> dict[str, tuple[list[str], str]]:
    """The types of the parameters and of the result of what Python calls, as Scala declares them."""
    text = (SCALA.parent / "StatementContext.scala").read_text()
    found = {}
    for match in re.finditer(r"^  def (\w+)(\(.*?\))?: ([\w.\[\]]+)", text, re.M):
        parameters = [part.partition(":")[2].strip() for part in _split((match[2] or "()")[1:-1])]
        found[match[1]] = (parameters, match[3])
    return found


def test_calls_back_have_the_same_parameters_and_results() -> None:
    """``Any`` stands for an object of the JVM; a text may be null where Python has None."""
    declared = _called_back()
    methods = {name: m for name, m in vars(StatementContext).items() if inspect.isfunction(m) and name[0] != "_"}
    assert methods
    for name, method in methods.items():
        parameters, result = declared[name]
        hints = typing.get_type_hints(method)
        returned = hints.pop("return")
        assert len(hints) == len(parameters), name
        for hint, scala in zip(hints.values(), parameters, strict=True):
            assert hint is Any or scala in _SCALARS[hint], name
        if returned == Iterable[str]:
            assert result == "java.util.List[String]", name
        elif returned in (str, str | None):
            assert result == "String", name
        elif returned is not Any:
            assert result in _SCALARS.get(returned, {"Unit"}), name


def test_what_is_not_declared_is_an_error() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"table": "t", "tabel": "t"}, read.TableExistsRequest)
