"""Reads a few values out of many JSON texts: the statistics of files.

Of each document, only the requested values are kept. ``msgspec`` decodes into objects with just these fields, which
takes a third of the time of building dictionaries. A text that it refuses is decoded to dictionaries; only its damaged
values are lost. Few texts are decoded at a time, so that the discarded parts stay in the processor's cache: 128 at a
time take a third of the time of 8,192. Bench case ``plan-cold`` measures both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import msgspec
import orjson

#: Where a value is in a document: the names of objects, and of the value in the innermost.
JsonPath = tuple[str, ...]

#: How many JSON documents are parsed as one (bench cases ``statistics-batch`` and ``plan-cold``).
_AT_ONCE = 128
_EMPTY: dict[str, Any] = {}

Reader = Callable[[list[str]], list[list[Any]]]


def values_of(texts: Sequence[str | None], wanted: Mapping[JsonPath, Any]) -> dict[JsonPath, list[Any]]:
    """For each path the value in every text, None if it has no value there, or is missing or damaged.

    :param wanted: the paths, with the Python type their values mostly have (``int | None``); a value may be of
        another type nevertheless. ``Decimal`` in a type asks for numbers with all their digits.
    """
    paths = list(wanted)
    collected: list[list[Any]] = [[] for _ in paths]
    exact = any("Decimal" in str(kind) for kind in wanted.values())
    slow = _dictionary_reader(paths, exact)
    try:
        quick = _struct_reader(wanted)
    except ValueError:  # msgspec has no fields of names with quotes, backslashes or control characters
        quick = slow
    for start in range(0, len(texts), _AT_ONCE):
        piece = [text or "{}" for text in texts[start : start + _AT_ONCE]]
        try:
            columns = quick(piece)
        except (ValueError, RecursionError):  # msgspec's errors are of the first; some text is not as expected
            columns = slow(piece)
        for column, values in zip(collected, columns, strict=True):
            column += values
    return dict(zip(paths, collected, strict=True))


def _dictionary_reader(paths: Sequence[JsonPath], exact: bool) -> Reader:
    loads: Callable[[str], Any] = _loads_exactly if exact else orjson.loads

    def read(texts: list[str]) -> list[list[Any]]:
        try:
            documents = [loads(text) for text in texts]
        except (ValueError, RecursionError):
            documents = [_lenient(text) for text in texts]
        objects: dict[JsonPath, list[Any]] = {
            (): [document if type(document) is dict else _EMPTY for document in documents]
        }
        return [[inner.get(path[-1]) for inner in _objects(objects, path[:-1])] for path in paths]

    return read


def _objects(known: dict[JsonPath, list[Any]], path: JsonPath) -> list[Any]:
    """The objects at a path in each document, empty ones if it has no object there; each path is walked once."""
    if path not in known:
        outer = _objects(known, path[:-1])
        known[path] = [v if type(v := each.get(path[-1])) is dict else _EMPTY for each in outer]
    return known[path]


def _struct_reader(wanted: Mapping[JsonPath, Any]) -> Reader:
    """A reader that decodes into structs made for these paths; raises ``ValueError`` if a text does not fit them."""
    decode = msgspec.json.Decoder(_struct_type(wanted)).decode
    # Attributes named in code are read five times as fast as through getattr.
    getters = [
        eval(f"lambda documents: [d.{'.'.join(_positions(wanted, path))} for d in documents]") for path in wanted
    ]

    def read(texts: list[str]) -> list[list[Any]]:
        documents = [decode(text) for text in texts]
        return [getter(documents) for getter in getters]

    return read


def _children(wanted: Mapping[JsonPath, Any]) -> dict[str, dict[JsonPath, Any]]:
    children: dict[str, dict[JsonPath, Any]] = {}
    for path, kind in wanted.items():
        children.setdefault(path[0], {})[path[1:]] = kind
    return children


def _struct_type(wanted: Mapping[JsonPath, Any]) -> Any:
    """The struct with a field ``f0``, ``f1``, ... for each name, since a column's name need not be a Python one. An
    object that a text does not have is one without values.
    """
    fields: list[tuple[str, Any, Any]] = []
    names: dict[str, str] = {}
    for position, (name, inner) in enumerate(_children(wanted).items()):
        kind = inner[()] if () in inner else _struct_type(inner)
        fields.append((f"f{position}", kind, None if () in inner else kind()))
        names[f"f{position}"] = name
    return msgspec.defstruct("Statistics", fields, rename=names, gc=False, frozen=True)


def _positions(wanted: Mapping[JsonPath, Any], path: JsonPath) -> JsonPath:
    """The path in field names of the structs."""
    if not path:
        return ()
    children = _children(wanted)
    return (f"f{list(children).index(path[0])}", *_positions(children[path[0]], path[1:]))


def _loads_exactly(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)


def _lenient(text: str) -> Any:
    """One text at a time: JSON with NaN or lone surrogates is read, what is no JSON is nothing known."""
    try:
        return _loads_exactly(text)
    except (ValueError, RecursionError, ArithmeticError):
        return _EMPTY


def read_ahead(pieces: Iterator[Any]) -> Iterator[Any]:
    """The same pieces, with the next one being read in another thread while one is worked on."""
    end = object()
    with ThreadPoolExecutor(1, "headwater-ahead") as pool:
        try:
            coming = pool.submit(next, pieces, end)
        except RuntimeError:  # the interpreter is shutting down, and starts no thread any more
            yield from pieces
            return
        while (piece := coming.result()) is not end:
            coming = pool.submit(next, pieces, end)
            yield piece
