"""Writes the case classes of the bridge's messages, in ``jvm/src/main/scala/headwater/spark/bridge/messages``.

``headwater/bridge/messages`` declares each message, and ``headwater/statements/registry.py`` each call's request and
answer. What this makes of them is checked in, so that an IDE and every build of the JAR find it there; a test compares.
Run it after a change of either: ``python jvm/messages.py``.

A message has the fields of its struct, by their names on the wire. A request may be left as incomplete as Python
declares it; an answer is read by a decoder. What the JVM only passes on is a ``JsonNode``.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from headwater.bridge import messages
from headwater.bridge.messages import Answer, PassedOn, Request
from headwater.statements.registry import HANDLERS

_Calls = dict[type[msgspec.Struct], tuple[str, list[str]]]

FOLDER = Path(__file__).resolve().parent / "src/main/scala/headwater/spark/bridge/messages"
_PACKAGE = "package headwater.spark.bridge.messages\n\n"
_HEADER = "// Written by jvm/messages.py, from headwater/bridge/messages/{}.\n"
_WIDTH = 140
_SCALARS = {str: "String", int: "Long", bool: "Boolean", bytes: "String", Any: "JsonNode", msgspec.Raw: "JsonNode"}
_EMPTY = {"Seq": "Nil", "Map": "Map.empty"}
#: Names of members that are words of Scala.
_WORDS = {"type", "then", "class"}


def sources() -> dict[str, str]:
    """The files of the folder: the text of each, by name."""
    calls = _calls()
    answers = _read_from_json()
    found = {}
    for module in _modules():
        own = [
            kind
            for kind in vars(module).values()
            if inspect.isclass(kind) and issubclass(kind, msgspec.Struct) and kind.__module__ == module.__name__
        ]
        classes = [_declaration(kind, calls, read=kind in answers) for kind in own if _has_class(kind)]
        name = module.__name__.rpartition(".")[2]
        found[f"{name.capitalize()}.scala"] = _file(f"{'__init__' if module is messages else name}.py", classes)
    return found


def _modules() -> list[types.ModuleType]:
    names = (each.name for each in pkgutil.iter_modules(messages.__path__, f"{messages.__name__}."))
    return [messages, *map(importlib.import_module, sorted(names))]


def _file(source: str, classes: list[str]) -> str:
    text = "\n".join(classes)
    used = [name for name in ("Call", "FromJson", "Message", "Variant") if f"{name}[" in text or f" {name}\n" in text]
    imports = ["import com.fasterxml.jackson.databind.JsonNode"] if "JsonNode" in text else []
    imports.append(f"import headwater.spark.bridge.wire.{', '.join(used) if len(used) == 1 else _braced(used)}")
    return "\n".join([_PACKAGE + _HEADER.format(source), *imports, "", text])


def _braced(names: list[str]) -> str:
    return f"{{{', '.join(names)}}}"


def _has_class(kind: type[msgspec.Struct]) -> bool:
    """Whether Scala has a class of this name: not for bases, for what is passed on, nor for a statement that the JVM
    passes on under its base's name."""
    return kind not in (Request, Answer) and not issubclass(kind, PassedOn) and _class_of(kind) is kind


def _class_of(kind: type[msgspec.Struct]) -> type[msgspec.Struct]:
    base = kind.__bases__[0]
    return kind if base in (Request, Answer, msgspec.Struct) or _is_variant(kind) else base


def _is_variant(kind: type[msgspec.Struct]) -> bool:
    return kind.__struct_config__.tag_field is not None


def _calls() -> _Calls:
    """For the class of each request, the type of the answer, and the calls that are made with it."""
    found: _Calls = {}
    for name, handler in HANDLERS.items():
        hints = typing.get_type_hints(handler.run)
        if hints["request"] is not handler.request:
            raise TypeError(f"the handler of '{name}' takes another request than it is declared with")
        request, answer = _class_of(handler.request), _answer(hints["return"])
        if found.setdefault(request, (answer, []))[0] != answer:
            raise TypeError(f"'{name}' answers {answer}, another call of {request.__name__} does not")
        found[request][1].append(name)
    return found


def _answer(kind: Any) -> str:
    if kind in (None, type(None), typing.NoReturn):
        return "Unit"
    return _scala(kind, sent=False)


def _read_from_json() -> set[type[msgspec.Struct]]:
    """The answers and calls back, and all messages within them."""
    found: set[type[msgspec.Struct]] = set()
    todo: list[Any] = [
        kind
        for module in _modules()
        for kind in vars(module).values()
        if inspect.isclass(kind) and issubclass(kind, Answer)
    ]
    while todo:
        kind = todo.pop()
        if inspect.isclass(kind) and issubclass(kind, msgspec.Struct):
            if kind not in found:
                found.add(kind)
                todo.extend(field.type for field in msgspec.structs.fields(kind))
        else:
            todo.extend(typing.get_args(kind))
    return found


def _declaration(kind: type[msgspec.Struct], calls: _Calls, *, read: bool) -> str:
    """The case class of a message, and its decoder if this side reads it."""
    config = kind.__struct_config__
    if _is_variant(kind) and kind.__bases__[0] in (Request, Answer):
        return f"sealed trait {kind.__name__} extends Variant\n"
    fields = [_Field(kind, field) for field in msgspec.structs.fields(kind)]
    extends, parameter = "Message", ""
    if kind in calls:
        answer, names = calls[kind]
        of = f'"{names[0]}"'
        if len(names) > 1:
            of, parameter = "statement", "(statement: String)"
        extends = f"Call[{answer}]({of})"
    tag = ""
    if _is_variant(kind):
        extends, tag = kind.__bases__[0].__name__, f' {{\n  override def kind: String = "{config.tag}"\n}}'
    text = _call(
        f"final case class {kind.__name__}", [each.declared for each in fields], f"{parameter} extends {extends}{tag}"
    )
    return f"{text}\n\n{_decoder(kind, fields)}" if read else f"{text}\n"


def _decoder(kind: type[msgspec.Struct], fields: list[_Field]) -> str:
    members = [f'in[{field.scala}]("{field.name}")' for field in fields]
    begin = f"  implicit val fromJson: FromJson[{kind.__name__}] = FromJson.message(in =>"
    text = f"{begin} {_call(kind.__name__, members, ')')}"
    if "\n" in text or len(text) > _WIDTH:
        text = f"{begin}\n    {_call(kind.__name__, members, ')', width=0, indent=' ' * 6)}"
    return f"object {kind.__name__} {{\n{text}\n}}\n"


def _call(name: str, arguments: list[str], end: str, *, width: int = _WIDTH, indent: str = " " * 4) -> str:
    """A list in parentheses: in one line where it fits there."""
    short = f"{name}({', '.join(arguments)}){end}"
    if len(short.partition("\n")[0]) <= width:
        return short
    return f"{name}(\n{indent}" + f",\n{indent}".join(arguments) + f"){end}"


class _Field:
    """A member of a message, as Scala has it."""

    def __init__(self, message: type[msgspec.Struct], field: msgspec.structs.FieldInfo) -> None:
        sent = not issubclass(message, Answer)
        self.name = field.encode_name
        self.scala = _scala(field.type, sent=sent)
        default = None if field.required else self._default(field)
        if not sent and default not in (None, "None", "false"):
            # It is left out where it has its default, which the decoder does not know.
            raise TypeError(f"{message.__name__}.{field.name}: an answer's default is None or False")
        name = f"`{self.name}`" if self.name in _WORDS else self.name
        self.declared = f"{name}: {self.scala}" + (f" = {default}" if default is not None and sent else "")

    def _default(self, field: msgspec.structs.FieldInfo) -> str:
        if field.default_factory is not msgspec.NODEFAULT:
            return _EMPTY[self.scala.partition("[")[0]]
        if field.default is None:
            return "None"
        if isinstance(field.default, str):
            return f'"{field.default}"'
        return str(field.default).lower()


def _scala(kind: Any, *, sent: bool) -> str:
    """The type of Scala for one of Python's.

    :param sent: whether it is in a message that the JVM writes, or in one that it reads.
    """
    if (said := _said(kind)) is not None:
        return said
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _scala(arguments[0], sent=sent)
    if origin in (typing.Union, types.UnionType):
        return _union([each for each in arguments if each is not type(None)], type(None) in arguments, sent=sent)
    if origin is typing.Literal:
        return "String"
    if origin is list:
        item = _scala(arguments[0], sent=sent)
        # A list whose items are not looked into is not taken apart either.
        return "JsonNode" if item == "JsonNode" and not sent else f"Seq[{item}]"
    if origin is dict:
        key, value = (_scala(each, sent=sent) for each in arguments)
        return "JsonNode" if value == "JsonNode" else f"Map[{key}, {value}]"
    if isinstance(kind, typing.TypeVar):
        return "Message"
    if inspect.isclass(kind) and issubclass(kind, msgspec.Struct):
        return "JsonNode" if issubclass(kind, PassedOn) else kind.__name__
    return _SCALARS[kind]


def _said(kind: Any) -> str | None:
    """What an annotation says that a type is in Scala."""
    metas = (each for each in getattr(kind, "__metadata__", ()) if isinstance(each, msgspec.Meta))
    return next((str(meta.extra["scala"]) for meta in metas if meta.extra), None)


def _union(members: list[Any], none: bool, *, sent: bool) -> str:
    if len(members) == 1:
        item = _scala(members[0], sent=sent)
        return f"Option[{item}]" if none else item
    if all(inspect.isclass(each) and issubclass(each, msgspec.Struct) for each in members):
        (base,) = {str(each.__bases__[0].__name__) for each in members}
        return base
    # Values of several types: what is read is not looked into.
    return "Any" if sent else "JsonNode"


def write() -> Iterator[Path]:
    """Bring the folder up to date; yield what has changed."""
    expected = sources()
    for file in FOLDER.iterdir():
        if file.name not in expected:
            file.unlink()
            yield file
    for name, text in expected.items():
        file = FOLDER / name
        if not file.exists() or file.read_text("utf-8") != text:
            file.write_text(text, "utf-8")
            yield file


if __name__ == "__main__":
    for changed in write():
        print(changed)
