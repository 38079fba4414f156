"""Files that are removed and added by the ten thousand, as Arrow tables from one version to the next.

Owns their way into a commit and into the snapshot after it without an object for each file. To build these, and to
parse the commit again, took most of a RESTORE of 100,000 files (bench case ``restore``). Promise: the log's lines and
the snapshot are those that single :class:`AddFile` and :class:`RemoveFile` actions come to. Follows the protocol's
chapter "Add File and Remove File".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.basics.errors import HeadwaterError
from headwater.log.commits import ParsedActions, parse_actions
from headwater.log.files import TOMBSTONE_SCHEMA, json_lines, keys_of
from headwater.protocol.action_shapes import ADD, REMOVE
from headwater.protocol.table_definition import TableDefinition
from headwater.transaction.validation import check_partition_values


class Bulk:
    """Files that are removed and files that are added, both with new rows for readers.

    :param removed: rows of ``snapshot.files``.
    :param added: the same.
    :param time: of the removal, in milliseconds since the epoch.
    """

    def __init__(self, removed: pa.Table, added: pa.Table, time: int) -> None:
        self.removed, self.added = removed, added
        self._time = time

    def __len__(self) -> int:
        return int(self.removed.num_rows + self.added.num_rows)

    def lines(self) -> Iterator[bytes]:
        """The actions as a commit has them, removals first, in pieces."""
        more = {"deletion_timestamp": self._time, "data_change": True, "extended_file_metadata": True}
        yield from json_lines("remove", self.removed, REMOVE, more)
        yield from json_lines("add", self.added, ADD, {"data_change": True})

    def parsed_with(self, others: bytes, path: str) -> ParsedActions:
        """What parsing the commit comes to, once it was checked; ``others`` are its other lines."""
        actions = parse_actions(others, path)
        count = self.removed.num_rows
        constants = {
            "deletion_timestamp": pa.repeat(pa.scalar(self._time, pa.int64()), count),
            "data_change": pa.repeat(pa.scalar(True), count),
            "extended_file_metadata": pa.repeat(pa.scalar(True), count),
        }
        columns = [constants[f.name] if f.name in constants else self.removed[f.name] for f in TOMBSTONE_SCHEMA]
        actions.files.are_distinct = not actions.files.kinds
        actions.files.extend(False, pa.table(columns, schema=TOMBSTONE_SCHEMA))
        actions.files.extend(True, self.added)
        return actions

    def check(self, definition: TableDefinition) -> None:
        """Refuse what no commit may contain.

        :raises HeadwaterError: ``DELTA_DUPLICATE_ACTIONS_FOUND`` for a file that is named twice,
            ``HEADWATER_PARTITION_VALUES_MISMATCH`` for one whose partition values are not those of the table's
            partition columns.
        """
        keys = pa.chunked_array([*keys_of(self.removed).chunks, *keys_of(self.added).chunks], pa.string())
        if pc.count_distinct(keys).as_py() != len(keys):
            seen: set[str] = set()
            paths = [*self.removed["path"].to_pylist(), *self.added["path"].to_pylist()]
            for number, (key, path) in enumerate(zip(keys.to_pylist(), paths, strict=True)):
                if key in seen:
                    kind = "remove" if number < len(self.removed) else "add"
                    raise HeadwaterError("DELTA_DUPLICATE_ACTIONS_FOUND", {"actionType": kind, "path": path})
                seen.add(key)
        wanted = [column.physical_name for column in definition.partition_fields]
        values = self.added["partition_values"].combine_chunks()
        starts = values.offsets.to_numpy()
        known = pc.is_in(values.keys, value_set=pa.array(wanted, pa.string()))
        if not (bool((np.diff(starts) == len(wanted)).all()) and pc.all(known, min_count=0).as_py()):
            for path, found in zip(self.added["path"].to_pylist(), values.to_pylist(), strict=True):
                check_partition_values(path, {name for name, _ in found}, set(wanted))


def partitions_of(files: pa.Table) -> list[Mapping[str, str | None]]:
    """The partition values of rows of ``snapshot.files``, a mapping for each partition."""
    values = files["partition_values"].combine_chunks()
    names = pc.unique(values.keys).to_pylist()
    if not names:
        return [{}] if len(values) else []
    columns = {name: pc.map_lookup(values, pa.scalar(name), "first") for name in names}
    found: list[Mapping[str, str | None]] = pa.table(columns).group_by(names).aggregate([]).to_pylist()
    return found
