"""Every error raised in these rooms, and by the JVM, exists, and gives each of its message's placeholders a value."""

import ast
import re
from pathlib import Path

import pytest

import headwater.protocol
import headwater.schema
from headwater.basics.errors import conditions

ROOT = Path(__file__).parents[2]
SOURCES = [
    source
    for room in (headwater.protocol, headwater.schema)
    for source in sorted(Path(str(room.__file__)).parent.glob("*.py"))
]


def raised(source):
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "HeadwaterError":
            name, *rest = node.args
            if isinstance(name, ast.Constant):
                keys = [key.value for argument in rest for key in argument.keys]
                yield name.value, set(keys), node.lineno


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_parameters_match_placeholders(source):
    for name, keys, line in raised(source):
        message = " ".join(conditions()[name]["message"])
        assert set(re.findall(r"<([A-Za-z][A-Za-z0-9]*)>", message)) == keys, f"{source.name}:{line} {name}"


def test_conditions_are_sorted():
    assert list(conditions()) == sorted(conditions())


JVM = [source for folder in ("src", "shims", "compat") for source in sorted((ROOT / "jvm" / folder).rglob("*.scala"))]
#: What has the form of a condition and is not one: a prefix of several.
_NO_CONDITIONS = {"HEADWATER_HANDLER"}
#: What has the form of a placeholder and is for the user to fill in.
_FOR_USERS = {"DELTA_CANNOT_SET_LOCATION_ON_PATH_IDENTIFIER": {"name"}}


def raised_by_jvm(text):
    """The condition of each error that a Scala source raises by its name, and its parameters."""
    for call in re.finditer(r'\bHeadwaterException\(\s*"(\w+)"', text):
        depth, end = 1, call.end()
        while depth:
            depth += (text[end] == "(") - (text[end] == ")")
            end += 1
        yield call[1], set(re.findall(r'"(\w+)" ->', text[call.end() : end]))


def test_the_jvm_raises_what_there_is():
    named = [
        (source.name, name)
        for source in JVM
        for name in re.findall(r'"((?:DELTA|HEADWATER)_\w+)"', source.read_text("utf-8"))
    ]
    assert len(named) > 50
    assert [(file, name) for file, name in named if name not in conditions() and name not in _NO_CONDITIONS] == []


def test_parameters_of_the_jvm_match_placeholders():
    raised = [(source.name, *each) for source in JVM for each in raised_by_jvm(source.read_text("utf-8"))]
    assert len(raised) > 20
    for file, name, parameters in raised:
        message = " ".join(conditions()[name]["message"])
        placeholders = set(re.findall(r"<([A-Za-z][A-Za-z0-9]*)>", message)) - _FOR_USERS.get(name, set())
        assert placeholders <= parameters, f"{file}: {name}"
