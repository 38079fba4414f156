"""Cubes: files that were laid out together along a curve, as recorded in the log.

Owns the tags by which a file says so, the grouping of a table's files into cubes, and the choice of the cubes that are
laid out again with new files. Follows the tags of Delta Lake's own connector, which reads them and goes on with them.
Those have the names that columns had; a tag of ours has the physical names beside them, so a cube stays one when a
column is renamed, and no column is taken for another that had its name.

The choice is that of a log-structured merge. New files become a cube of their own, and cubes are merged by their
summed bytes: into the largest, once the others together are larger; and among the others, once there are some of about
a size. So a table of n loads has one large cube and few small ones, and a row is written about log n times at most.
Promise: what is in a cube and is not merged stays as it is.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from headwater.protocol.actions import AddFile
from headwater.protocol.columns import Path, find_path, format_name
from headwater.protocol.types import StructType
from headwater.schema import mapping

_ID, _COLUMNS = "ZCUBE_ID", "ZCUBE_ZORDER_BY"
#: Ours: the physical paths of the columns, as in the metadata domain of clustered tables.
_PHYSICAL = "headwater.layoutColumns"
#: The clustering provider that files of clustered tables name; theirs alone are merged.
PROVIDER = "liquid"
#: The largest cube is merged once the others and the new files have so many times its bytes. This and the next two were
#: searched for by simulation (``tests/statements/maintenance/test_layouts.py``): 40 loads of any sizes, an OPTIMIZE
#: after each, are written less than three times, and a scan along one of two columns reads the fewest files that this
#: allows.
_OTHERS_BY_LARGEST = 1.4
#: So many cubes, the new files counted as one, are merged into one.
_CUBES_OF_A_SIZE = 5
#: A cube goes with smaller ones that together have this part of its bytes: loads are seldom exactly equal.
_ABOUT_A_SIZE = 0.7


class Cube(NamedTuple):
    """Files that were laid out together: their positions in a table of files, and their size in bytes."""

    positions: list[int]
    size: int


class LaidOutBy(NamedTuple):
    """The columns of a cube: the names that users see, and the physical paths."""

    names: list[str]
    physical: list[list[str]]

    @staticmethod
    def of(schema: StructType, columns: Sequence[Path]) -> LaidOutBy:
        """Columns given by their logical paths."""
        known = [path if find_path(schema, path) is None else mapping.physical_path(schema, path) for path in columns]
        physical = [list(path) for path in known]
        return LaidOutBy([format_name(path) for path in columns], physical)


class Files(NamedTuple):
    """Files of a partition, by their positions in a table of files.

    :param cubes: those laid out by the columns that are asked for.
    :param new: those that are in no cube.
    :param others: those laid out by other columns, or by a provider that is unknown here.
    """

    cubes: list[Cube]
    new: list[int]
    others: list[int]


def new_tags(columns: LaidOutBy) -> dict[str, str]:
    """The tags of the files of a new cube, laid out by columns."""
    return {_ID: str(uuid.uuid4()), _COLUMNS: _json(columns.names), _PHYSICAL: _json(columns.physical)}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def in_cube_of(sources: pa.Table, outputs: list[AddFile], before: StructType, after: StructType) -> list[AddFile]:
    """Copies of files in the order of their rows: those of files of one cube are of that cube. In a clustered
    table, they would be clustered again.

    :param before: the columns that the sources have, and ``after`` those of the copies: physical names may differ.
    """
    of_cubes = (_ID, _COLUMNS, _PHYSICAL)
    cubes = {
        (row["clustering_provider"], tuple((key, value) for key, value in row["tags"] or () if key in of_cubes))
        for row in sources.select(["clustering_provider", "tags"]).to_pylist()
    }
    (provider, found), *others = cubes
    if others or provider is None or not found:
        return outputs
    tags = dict(found)
    if _PHYSICAL in tags and before != after:
        physical = _list(tags.pop(_PHYSICAL)) or []
        logical = [mapping.logical_path(before, path) for path in physical]
        if all(path is not None and find_path(after, path) is not None for path in logical):
            tags[_PHYSICAL] = _json([mapping.physical_path(after, path) for path in logical if path is not None])
    return [replace(each, clustering_provider=provider, tags={**(each.tags or {}), **tags}) for each in outputs]


def grouped(files: pa.Table, positions: Sequence[int], columns: LaidOutBy, worn: Sequence[bool]) -> Files:
    """Files of a partition by what the log says of their layout. Where another writer laid them out, that is the names
    which the columns had then.

    :param files: rows with ``size``, ``tags`` and ``clustering_provider`` of ``snapshot.files``.
    :param worn: by position, whether a file is to be written again in any case, so that it counts as new.
    """
    taken = files.select(["size", "tags", "clustering_provider"]).take(pa.array(positions, pa.int64()))
    rows = zip(
        positions,
        taken["size"].to_pylist(),
        pc.map_lookup(taken["tags"], pa.scalar(_ID), "first").to_pylist(),
        pc.map_lookup(taken["tags"], pa.scalar(_COLUMNS), "first").to_pylist(),
        pc.map_lookup(taken["tags"], pa.scalar(_PHYSICAL), "first").to_pylist(),
        taken["clustering_provider"].to_pylist(),
        strict=True,
    )
    cubes: dict[str, Cube] = {}
    found = Files([], [], [])
    known: Mapping[str | None, bool] = {None: True, PROVIDER: True}
    for position, size, cube, by, physical, provider in rows:
        if not known.get(provider, False):
            found.others.append(position)
        elif cube is None or by is None or worn[position]:
            found.new.append(position)
        elif _list(by) != columns.names if physical is None else _list(physical) != columns.physical:
            found.others.append(position)
        else:
            before = cubes.get(cube, Cube([], 0))
            cubes[cube] = Cube([*before.positions, position], before.size + size)
    found.cubes.extend(cubes.values())
    return found


def _list(text: str) -> list[Any] | None:
    try:
        return list(json.loads(text))
    except (ValueError, TypeError):
        return None


def merged(cubes: Sequence[Cube], new: int, largest: int) -> list[Cube]:
    """The cubes that are laid out again, together with new files.

    :param new: the size of the new files in bytes; 0 without new files.
    :param largest: a cube of so many bytes is never merged.
    """
    left = sorted((cube for cube in cubes if cube.size < largest), key=lambda cube: cube.size)
    if not left or not new and len(left) == 1:
        return []
    biggest, small = left[-1], left[:-1]
    if new + sum(cube.size for cube in small) >= _OTHERS_BY_LARGEST * biggest.size:
        return left
    found: list[Cube] = []
    size = new
    for cube in small:
        if size and _ABOUT_A_SIZE * cube.size > size:
            break
        found.append(cube)
        size += cube.size
    return found if len(found) + bool(new) >= _CUBES_OF_A_SIZE else []
