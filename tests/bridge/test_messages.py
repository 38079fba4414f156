"""The messages of the bridge: what Python declares is what Scala declares.

``jvm/messages.py`` writes the case classes of the structs and of the registry's calls. What lies in their folder must
be what it writes now; what Python calls back must be what Scala has.
"""

from __future__ import annotations

import inspect
import re
import runpy
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headwater.bridge.messages import Answer, Int, PassedOn, Request, read
from headwater.bridge.statement import StatementContext

JVM = Path(__file__).resolve().parents[2] / "jvm"
_GENERATOR = runpy.run_path(str(JVM / "messages.py"))
SCALA = _GENERATOR["FOLDER"]
#: Bytes cross as base64.
_SCALARS = {str: {"String"}, int: {"Long", "Int"}, bool: {"Boolean"}, bytes: {"String"}}


def test_scala_has_what_python_declares() -> None:
    expected = _GENERATOR["sources"]()
    assert {file.name for file in SCALA.iterdir()} == expected.keys()
    for name, text in expected.items():
        assert (SCALA / name).read_text("utf-8") == text, f"{name}: run python jvm/messages.py"


class _Opaque(PassedOn):
    """What the JVM does not look into."""


class _Sent(Request, kw_only=True):
    """What the JVM sends."""

    type: str
    plan_number: Int | None = None
    sizes: list[int] = []
    values: list[list[str | int | None]]
    filters: list[dict[str, Any]]
    partition: dict[str, str | None]
    arguments: _Opaque
    bytes_of: dict[Int, bytes]
    whole: bool = True
    kind: typing.Literal["a", "b"] = "a"


class _Read(Answer, kw_only=True):
    """What the JVM reads."""

    files: list[list[str | int | None]] | None = None
    rows: list[dict[str, Any]]
    names: list[str | None]
    skipped: bool = False


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        (
            _Sent,
            [
                "`type`: String",
                "planNumber: Option[Int] = None",
                "sizes: Seq[Long] = Nil",
                "values: Seq[Seq[Any]]",
                "filters: Seq[JsonNode]",
                "partition: Map[String, Option[String]]",
                "arguments: JsonNode",
                "bytesOf: Map[Int, String]",
                "whole: Boolean = true",
                'kind: String = "a"',
            ],
        ),
        (_Read, ["files: Option[JsonNode]", "rows: JsonNode", "names: Seq[Option[String]]", "skipped: Boolean"]),
    ],
)
def test_what_a_type_is_in_scala(message: type[msgspec.Struct], fields: list[str]) -> None:
    of = _GENERATOR["_Field"]
    assert [of(message, field).declared for field in msgspec.structs.fields(message)] == fields


def test_an_answer_leaves_out_nothing_that_the_jvm_does_not_know() -> None:
    class Defaulted(Answer, kw_only=True):
        names: list[str] = []

    with pytest.raises(TypeError, match=r"Defaulted\.names"):
        _GENERATOR["_Field"](Defaulted, *msgspec.structs.fields(Defaulted))


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
