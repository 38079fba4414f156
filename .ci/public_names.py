"""Writes the list of public names, ``tests/project/public_names.txt``: ``python .ci/public_names.py``.

A test compares the list with the code, so that no public name changes or vanishes unnoticed. ``docs/compatibility.md``
says what a version number promises about these names. Owns what belongs to the list: the Python names of
``docs/reference-python.md`` with their parameters, settings and table properties with their defaults, options, error
conditions with their SQLSTATEs, columns of statements' results, table functions, the command with its options and the
keys of its JSON, metrics, and the Scala and Java classes that programs and settings name. Needs no JVM.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "tests" / "project" / "public_names.txt"
_REFERENCE = ROOT / "docs" / "reference-python.md"
_JVM = ROOT / "jvm" / "src" / "main" / "scala"
_HEAD = """\
# The public names: docs/compatibility.md says what a version number promises about them.
# Written by .ci/public_names.py: run it after a change. Lines that vanish or change break programs.
"""


def text() -> str:
    """The list, a line for each name, under headings."""
    sections = {
        "Python": _python,
        "Settings": _settings,
        "Table properties": _properties,
        "Options": _options,
        "Error conditions": _conditions,
        "Columns of results": _answers,
        "Table functions": _functions,
        "Command": _commands,
        "Keys of the command's JSON": _json_keys,
        "Metrics": _metrics,
        "Scala and Java": _classes,
    }
    return _HEAD + "".join(
        f"\n[{title}]\n" + "".join(f"{line}\n" for line in sorted(set(names()))) for title, names in sections.items()
    )


# --- Python -----------------------------------------------------------------------------------------------------------


def _python() -> Iterator[str]:
    for name in re.findall(r"^::: (\S+)$", _REFERENCE.read_text("utf-8"), re.MULTILINE):
        yield from _named(name, _found(name))


def _found(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        owner, _, last = name.rpartition(".")
        return getattr(_found(owner), last)


def _named(name: str, found: Any) -> Iterator[str]:
    if inspect.ismodule(found):
        for member, value in vars(found).items():
            own = inspect.isclass(value) or inspect.isfunction(value)
            if own and value.__module__ == name and not member.startswith("_") and value.__doc__:
                yield from _named(f"{name}.{member}", value)
    elif inspect.isclass(found):
        bases = ", ".join(base.__name__ for base in found.__bases__ if base is not object)
        yield f"class {name}({bases})" if bases else f"class {name}"
        yield from (f"{name}.{field}" for field in _fields(found))
        for member in dir(found):
            line = None if member.startswith("_") else _member(inspect.getattr_static(found, member))
            if line is not None:
                yield f"{name}.{member}{line}"
    else:
        yield f"{name}{_parameters(found)}"


def _fields(found: type) -> Iterator[str]:
    """What instances of a class of values have."""
    yield from (name for name in vars(found).get("__annotations__", {}) if not name.startswith("_"))


def _member(value: Any) -> str | None:
    """What follows the name of a class's own member; None for what is not ours."""
    if isinstance(value, property):
        return "" if _is_ours(value.fget) else None
    function = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
    return _parameters(function) if inspect.isfunction(function) and _is_ours(function) else None


def _is_ours(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).partition(".")[0] == "headwater"


def _parameters(function: Callable[..., Any]) -> str:
    """Names, kinds and defaults: types are for readers, and are written differently by versions of Python."""
    signature = inspect.signature(function)
    bare = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))


# --- what users write into Spark --------------------------------------------------------------------------------------


def _settings() -> Iterator[str]:
    from headwater.statements.settings import SETTINGS, UNUSED_SETTINGS

    for setting in SETTINGS:
        yield f"{setting.name} = {setting.default}".rstrip()
    yield from (f"{name} (accepted, without effect)" for name in UNUSED_SETTINGS)


def _properties() -> Iterator[str]:
    from headwater.protocol.properties import PROPERTIES

    for known in PROPERTIES.values():
        yield f"{known.name} = {known.default or ''}".rstrip()


def _options() -> Iterator[str]:
    from headwater.statements.known_options import OPTIONS

    yield from (option.name for options in OPTIONS.values() for option in options)


def _conditions() -> Iterator[str]:
    for name, condition in json.loads((ROOT / "conf" / "error-conditions.json").read_text("utf-8")).items():
        yield f"{name} {condition['sqlState']}"


def _answers() -> Iterator[str]:
    from headwater.statements.registry import CALLS

    for name, call in CALLS.items():
        if call.output is not None and call.output.fields:
            yield f"{name}: {', '.join(field.name for field in call.output.fields)}"
    source = (_JVM / "headwater/spark/dml/HeadwaterDmlCommand.scala").read_text("utf-8")
    of_merge, of_others = re.findall(r'Seq\(((?:"\w+"(?:, )?)+)\)', source)
    for statement, counted in (("merge", of_merge), ("delete", of_others), ("update", of_others)):
        yield f"{statement}: {', '.join(f'num_{name}_rows' for name in json.loads(f'[{counted}]'))}"


def _functions() -> Iterator[str]:
    source = (_JVM / "headwater/spark/changes/TableChangesFunctions.scala").read_text("utf-8")
    (names,) = re.findall(r"private val names = Seq\((.*?)\)\.flatMap\(name => Seq\(name, name \+ ByPath\)\)", source)
    for name in re.findall(r'"(\w+)"', names):
        yield from (name, f"{name}_by_path")


# --- the command ------------------------------------------------------------------------------------------------------


def _commands() -> Iterator[str]:
    from typer.main import get_command

    from headwater.cli.main import app

    command: Any = get_command(app)
    yield from _command("headwater", command)
    for name, below in command.commands.items():
        yield from _command(f"headwater {name}", below)


def _command(name: str, command: Any) -> Iterator[str]:
    yield name
    at = 0
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            at += 1
            yield f"{name} <{at}: {parameter.name}{'' if parameter.required else ', optional'}>"
        elif not {"--help", "--install-completion", "--show-completion"} & set(parameter.opts):
            yield f"{name} {' '.join(parameter.opts)}{'' if parameter.is_flag else ' VALUE'}"


#: A table with all that keys depend on, and no property, partition or column of other names than these.
_LOG = (
    (
        {"commitInfo": {"timestamp": 1, "operation": "CREATE TABLE", "operationParameters": {}}},
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "i",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": '{"type":"struct","fields":[{"name":"c","type":"long","nullable":true,"metadata":{}}]}',
                "partitionColumns": [],
                "configuration": {},
                "createdTime": 1,
            }
        },
    ),
    (
        {"commitInfo": {"timestamp": 2, "operation": "WRITE", "operationParameters": {}}},
        {
            "add": {
                "path": "a.parquet",
                "partitionValues": {},
                "size": 1,
                "modificationTime": 1,
                "dataChange": True,
                "stats": '{"numRecords":1,"minValues":{"c":1},"maxValues":{"c":1},"nullCount":{"c":0}}',
            }
        },
    ),
)
_RUNS = ("describe", "history", "detail", "log", "diff", "files", "health")


def _json_keys() -> Iterator[str]:
    from headwater.cli.doctor import Finding
    from headwater.cli.main import app
    from headwater.statements.maintenance.findings import Finding as HealthFinding

    yield from (f"doctor: {key}" for key in ("version", "ok", *(f"findings[].{each}" for each in Finding._fields)))
    yield from (f"health: findings[].{each}" for each in HealthFinding._fields)
    for command, text in _json_of_maintenance():
        yield from (f"{command}: {key}" for key in _keys(json.loads(text)))
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "_delta_log"
        log.mkdir()
        for version, actions in enumerate(_LOG):
            lines = "".join(f"{json.dumps(action)}\n" for action in actions)
            (log / f"{version:020}.json").write_text(lines, "utf-8")
        for command in _RUNS:
            printed = StringIO()
            with redirect_stdout(printed):
                app([command, folder, "--json"], standalone_mode=False)
            yield from (f"{command}: {key}" for key in _keys(json.loads(printed.getvalue())))


def _json_of_maintenance() -> Iterator[tuple[str, str]]:
    """What ``headwater maintain --json`` prints of an action: in a report, and in the line of a round."""
    from headwater.cli.maintain import Stop, rounds, show
    from headwater.statements.maintenance.planning import MAINTAIN_SCHEMA

    row = {"table": None, **dict.fromkeys(field.name for field in MAINTAIN_SCHEMA.fields)}
    stop = Stop()

    def one_round() -> list[dict[str, Any]]:
        stop.event.set()
        return [row]

    with redirect_stdout(StringIO()) as printed:
        show([row], as_json=True)
    yield "maintain", printed.getvalue()
    with redirect_stdout(StringIO()) as printed:
        rounds(one_round, 1, stop, as_json=True)
    yield "maintain --every", printed.getvalue()


def _keys(value: Any, at: str = "") -> Iterator[str]:
    """The paths of all keys of a value; those of an array's elements together."""
    if isinstance(value, Mapping):
        for key, below in value.items():
            path = f"{at}.{key}" if at else str(key)
            yield path
            yield from _keys(below, path)
    elif isinstance(value, list):
        for below in value:
            yield from _keys(below, f"{at}[]")


# --- monitors, Scala and Java -----------------------------------------------------------------------------------------


def _metrics() -> Iterator[str]:
    from headwater.basics.counts import MEANINGS

    source = (_JVM / "org/apache/spark/sql/headwater/bridge/HandlerMetrics.scala").read_text("utf-8")
    yield from (*MEANINGS, *re.findall(r'metricRegistry\.(?:timer|counter)\("(\w+)"\)', source))


def _classes() -> Iterator[str]:
    from headwater.cli.launch import CATALOG, EXTENSION

    yield from (EXTENSION, CATALOG, "headwater.spark.HeadwaterUnityCatalog")
    for source in (ROOT / "jvm" / "compat").rglob("*.*"):
        package = re.search(r"^package ([\w.]+)", source.read_text("utf-8"), re.MULTILINE)
        yield from (f"{package[1] if package else ''}.{name}" for name in _declared(source.read_text("utf-8")))


def _declared(source: str) -> list[str]:
    """The classes and objects at the top of a source that programs can name."""
    modifiers = "public |final |abstract |sealed |case |package "
    return re.findall(rf"^(?:{modifiers})*(?:class|object|trait|interface) (\w+)", source, re.MULTILINE)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "python"))
    LIST.write_text(text(), "utf-8")
