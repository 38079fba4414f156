"""Every error raised in these rooms exists, and gives each of its message's placeholders a value."""

import ast
import re
from pathlib import Path

import pytest

import headwater.protocol
import headwater.schema
from headwater.errors import conditions

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
