"""Nobody who can only set a setting of a session, or write a table's log, has the driver import anything."""

from __future__ import annotations

import ast
import sys
from itertools import product
from types import SimpleNamespace

import pytest

from headwater.basics import start_settings
from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages import SessionSettings
from headwater.bridge.statement import Statement
from headwater.iceberg import registration
from headwater.protocol.actions import Metadata
from headwater.statements.running.hooks import Hooks
from headwater.statements.settings import SETTINGS
from headwater.stores import HadoopStore, store_for
from support.paths import ROOT
from support.stores.fake_hadoop import FakeHadoop

PACKAGE = ROOT / "python" / "headwater"
#: What makes Python of a text.
LOADERS = {
    "import_module",
    "__import__",
    "spec_from_file_location",
    "run_path",
    "run_module",
    "load_catalog",
    "eval",
    "exec",
}
#: Who does, and whose text it is.
KNOWN = {
    "cli/doctor.py": "names of its own",
    "exceptions.py": "names of its own",
    "hooks.py": "settings of Spark's start",
    "iceberg/registration.py": "settings of Spark's start",
    "cli/launch.py": "a file of its own",
    "log/statistics/json_values.py": "numbers of its own",
    "protocol/action_shapes.py": "declarations of its own",
    "statements/calls.py": "annotations of its own",
    "statements/registry.py": "modules of its own",
    "stores/by_path.py": "settings of Spark's start",
    "tables/statement_inputs.py": "names of its own",
}


@pytest.fixture
def trap(tmp_path, monkeypatch):
    """What a module is called that leaves a mark when it is imported; and whether it has."""
    (tmp_path / "a_trap.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(start_settings, "_given", {})
    yield [f"{module}{mark}Trap" for module in ("a_trap", str(tmp_path / "a_trap.py")) for mark in (":", ".")]
    assert not (tmp_path / "ran").exists()
    assert "a_trap" not in sys.modules


def named(setting):
    return setting.name.replace("<scheme>", "trap").replace("<name>", "trap").replace("*", "x")


def test_no_setting_of_a_session_names_code(trap, tmp_path):
    for setting, value in product(SETTINGS, trap):
        statement = Statement(None, SessionSettings(confs={named(setting): value}))
        assert (named(setting) in statement.confs) == (not setting.at_start)
        assert isinstance(store_for("trap://bucket/t", FakeHadoop(tmp_path), statement.confs)[0], HadoopStore)
        begun = SimpleNamespace(metadata=Metadata("the-id", '{"type":"struct","fields":[]}'), table_path="t")
        if setting.name == "spark.headwater.hooks":  # names names, which nothing has here
            with pytest.raises(HeadwaterError, match="when Spark started"):
                Hooks(begun, statement)
        else:
            assert not Hooks(begun, statement)
        assert registration._configured is None


def test_the_settings_of_the_start_are_those_of_the_list():
    assert {s.name for s in SETTINGS if s.at_start} == {
        s.name for s in SETTINGS if s.prefix.startswith(start_settings.PREFIXES)
    }
    assert {s.name for s in SETTINGS if "module:" in s.meaning.lower()} <= {s.name for s in SETTINGS if s.at_start}


def test_all_that_makes_python_of_a_text_is_known():
    """Whoever adds to this says whose text it is: never a session's, a table's or a log's."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            function = node.func if isinstance(node, ast.Call) else None
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
            if name in LOADERS:
                found.add(path.relative_to(PACKAGE).as_posix())
    assert found == KNOWN.keys()
