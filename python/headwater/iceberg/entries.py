"""The entry of a table in a catalog that pyiceberg supports.

Owns the steps that bring an entry to a metadata file of this package: the first time the file is registered; later the
catalog is given what is new since the state that it has, as one commit on condition that nobody changed it meanwhile.
So each kind of catalog keeps its own way: it writes a metadata file of its own, and readers see one state or the next.
Promises: an entry of another table, or one that another writer has committed to, is left as it is. Nothing in a table
or an entry makes pyiceberg import code: only the operator's properties of the catalog name code.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from functools import cache, wraps
from typing import Any

import pyiceberg.io
import pyiceberg.io.pyarrow
import pyiceberg.table.locations
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePropertiesUpdate,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSpecUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
)

from headwater.iceberg import metadata

#: Races with other writers of the same entry.
_ATTEMPTS = 5
#: What the catalog is asked to do with the metadata files that it writes beside ours, unless the table says otherwise.
_DEFAULTS = {"write.metadata.delete-after-commit.enabled": "true"}


#: pyiceberg's functions that import a class by its name, which a property of a table or an entry may give.
_IMPORTERS = (
    (pyiceberg.io, "_import_file_io"),
    (pyiceberg.io.pyarrow, "_import_retry_strategy"),
    (pyiceberg.table.locations, "_import_location_provider"),
)
_OWN_CLASSES = frozenset(name for names in pyiceberg.io.SCHEMA_TO_FILE_IO.values() for name in names)
#: Classes that the operator's properties of the catalog name.
_allowed: frozenset[str] = frozenset()


def import_only(names: Iterable[str]) -> None:
    """From now on, pyiceberg imports no classes but its own and those that the operator's properties name.

    :raises AttributeError: this release of pyiceberg imports them in another way.
    """
    global _allowed
    _guard()
    _allowed = frozenset(names)


@cache
def _guard() -> None:
    """pyiceberg also takes names of classes from properties of tables, which anybody who changes a table can set."""
    for module, name in _IMPORTERS:
        setattr(module, name, _guarded(getattr(module, name)))


def _guarded(load: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(load)
    def guarded(named: str, *arguments: Any) -> Any:
        if named in _OWN_CLASSES or named in _allowed:
            return load(named, *arguments)
        raise NotOurs(
            f"a property of it names code, {named}. Remove the property, or name the class in a property of the "
            "catalog when Spark starts"
        )

    return guarded


class NotOurs(Exception):
    """An entry that is not brought up to date; the text says why, and what to do."""


def bring_up(catalog: Catalog, name: tuple[str, ...], content: Mapping[str, Any], location: str) -> None:
    """Have an entry show a state of a table, or a newer one.

    :param name: the namespace's levels, then the table's name.
    :param content: the JSON object of the metadata file at ``location``.
    :raises NotOurs: the entry is another table's, or has commits of another writer.
    :raises Exception: what the catalog raises.
    """
    wanted = TableMetadataUtil.parse_obj(dict(content))
    for _ in range(_ATTEMPTS):
        try:
            entry = catalog.load_table(name)
        except NoSuchTableError:
            if _register(catalog, name, location):
                return
            continue
        except FileNotFoundError as error:
            raise NotOurs(
                f"the metadata file of the entry does not exist ({error}). Drop the entry; the next commit creates it"
            ) from None
        if _is_superseded(entry, wanted):
            catalog.drop_table(name)
            continue
        updates = _updates(entry, wanted)
        if not updates:
            return
        found = entry.metadata
        conditions = (
            AssertTableUUID(uuid=found.table_uuid),
            AssertRefSnapshotId(ref=MAIN_BRANCH, **{"snapshot-id": found.current_snapshot_id}),
        )
        try:
            catalog.commit_table(entry, conditions, tuple(updates))
        except CommitFailedException:
            continue
        return
    raise NotOurs("other writers change the entry again and again")


def _register(catalog: Catalog, name: tuple[str, ...], location: str) -> bool:
    """Make the entry; False if another writer did."""
    try:
        catalog.load_namespace_properties(name[:-1])
    except NoSuchNamespaceError:
        for levels in range(1, len(name)):
            with contextlib.suppress(NamespaceAlreadyExistsError):
                catalog.create_namespace(name[:levels])
    try:
        catalog.register_table(name, location)
    except TableAlreadyExistsError:
        return False
    return True


def _is_superseded(entry: Table, wanted: TableMetadata) -> bool:
    """Whether an entry is that of a table which was at the same place before, or shows a history of this one that has
    ended: a catalog cannot be given specs and ids of columns that contradict those it has.

    :raises NotOurs: it is of another place.
    """
    found = entry.metadata
    if found.location.rstrip("/") != wanted.location.rstrip("/"):
        raise NotOurs(
            f"the entry is a table at {found.location}. Drop it there, or give this table another name by the property "
            "headwater.iceberg.table"
        )
    if found.table_uuid != wanted.table_uuid:
        return True
    began, begins = (each.properties.get(metadata.HISTORY) for each in (found, wanted))
    return began != begins and _version(found) <= _version(wanted) and all(map(_is_own, found.snapshots))


def _updates(entry: Table, wanted: TableMetadata) -> list[TableUpdate]:
    """What leads from the state that a catalog has to a wanted one; nothing if it has that, or a newer one.

    :raises NotOurs: another writer has committed to the entry.
    """
    found = entry.metadata
    if _version(found) > _version(wanted):
        return []
    schemas = {each.schema_id: each for each in found.schemas}
    specs = {each.spec_id: each for each in found.partition_specs}
    snapshots = {each.snapshot_id: each for each in found.snapshots}
    kept = {each.snapshot_id for each in wanted.snapshots}
    gone = [number for number in snapshots if number not in kept]
    if (
        any(not _is_own(snapshots[number]) for number in gone)
        or any(schemas.get(each.schema_id, each) != each for each in wanted.schemas)
        or any(specs.get(each.spec_id, each) != each for each in wanted.partition_specs)
    ):
        raise NotOurs(
            "another writer has committed to the entry. The Delta table does not contain that commit: drop the entry, "
            "and the next commit creates it"
        )
    updates: list[TableUpdate] = [AddSchemaUpdate(schema=s) for s in wanted.schemas if s.schema_id not in schemas]
    if found.current_schema_id != wanted.current_schema_id:
        updates.append(SetCurrentSchemaUpdate(**{"schema-id": wanted.current_schema_id}))
    updates += [AddPartitionSpecUpdate(spec=s) for s in wanted.partition_specs if s.spec_id not in specs]
    if found.default_spec_id != wanted.default_spec_id:
        updates.append(SetDefaultSpecUpdate(**{"spec-id": wanted.default_spec_id}))
    updates += [AddSnapshotUpdate(snapshot=s) for s in wanted.snapshots if s.snapshot_id not in snapshots]
    current = wanted.current_snapshot_id
    if current is not None and current != found.current_snapshot_id:
        ref = {"ref-name": MAIN_BRANCH, "type": SnapshotRefType.BRANCH, "snapshot-id": current}
        updates.append(SetSnapshotRefUpdate(**ref))
    if gone:
        updates.append(RemoveSnapshotsUpdate(**{"snapshot-ids": gone}))
    return updates + _of_properties(found.properties, {**_DEFAULTS, **wanted.properties})


def _of_properties(found: Mapping[str, str], wanted: Mapping[str, str]) -> list[TableUpdate]:
    updates: list[TableUpdate] = []
    changed = {key: value for key, value in wanted.items() if found.get(key) != value}
    # Others are the catalog's own.
    gone = [key for key in (metadata.BASE_DELTA_VERSION,) if key in found and key not in wanted]
    if changed:
        updates.append(SetPropertiesUpdate(updates=changed))
    if gone:
        updates.append(RemovePropertiesUpdate(removals=gone))
    return updates


def _version(found: TableMetadata) -> int:
    text = found.properties.get(metadata.DELTA_VERSION, "")
    return int(text) if text.isdecimal() else -1


def _is_own(snapshot: Any) -> bool:
    summary = snapshot.summary
    return summary is not None and all(summary.get(key) == value for key, value in metadata.ENGINE.items())
