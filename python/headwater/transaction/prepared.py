"""A prepared commit: the content of a transaction, ready to become any version.

Owns :class:`PreparedCommit`, the second of a transaction's three phases. An open
:class:`~headwater.transaction.transaction.Transaction` takes reads and actions; prepared, it was validated, has its
provenance, and only winners change it; :class:`~headwater.transaction.transaction.Committed`, it is a version. So
nothing that was not validated can be put, and the commit loop takes nothing else. Follows the protocol's chapter "Delta
Log Entries". Promise: a commit that readers could not read is refused before it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headwater.basics.errors import HeadwaterError
from headwater.iceberg.standing import behind_before
from headwater.log import groups
from headwater.log.commits import ParsedActions, parse_actions
from headwater.log.groups import Group
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.protocol.actions import Action, AddFile, serialize
from headwater.protocol.features import check_writable
from headwater.protocol.file_names import commit_name, log_directory
from headwater.protocol.row_tracking import PRESERVED
from headwater.protocol.table_definition import TableDefinition
from headwater.schema import iceberg, manifests
from headwater.stores import Store
from headwater.transaction.commit_info import Provenance, stamped
from headwater.transaction.conflicts import (
    Intent,
    Isolation,
    WinningCommit,
    Writes,
    check,
    check_added,
    counts_appends,
)
from headwater.transaction.content import Content
from headwater.transaction.definition_conflicts import Change
from headwater.transaction.keyed import KeyReads
from headwater.transaction.read_set import ReadSet
from headwater.transaction.reads import PredicateReads
from headwater.transaction.redefinition import Redefinition
from headwater.transaction.row_ids import RowIds
from headwater.transaction.row_level import VectorFiles
from headwater.transaction.validation import (
    check_append_only,
    check_domains,
    check_managed,
    check_partitions,
    check_unique,
)

if TYPE_CHECKING:
    from headwater.pruning.predicates import Predicate

#: Winners that have so many actions of files in all are kept until the commit is made; more are read again after it.
_MOST_KEPT = 10_000
#: Makes a predicate of a CHECK constraint that a winner added: (Spark SQL, schema string). None: it cannot.
ParseCondition = Callable[[str, str], "Predicate | None"]


@dataclass(frozen=True)
class Work:
    """What a transaction has come to.

    :param snapshot: the version that was read; None to create the table.
    :param serializable: whether it is checked by the level ``Serializable``, whatever the table's is.
    :param loses_row_ids: whether it copies rows without their ids, where the table has row tracking.
    :param mirrors: whether it brings the table to what another one is, whose own rules say which rows may go.
    :param claims: keys of which another writer may have added no row.
    """

    table_path: str
    store: Store
    transaction_id: str
    snapshot: Snapshot | None
    reads: ReadSet
    definition: Redefinition
    content: Content
    row_ids: RowIds
    parse_condition: ParseCondition | None = field(default=None, repr=False)
    loses_row_ids: bool = False
    serializable: bool = False
    mirrors: bool = False
    claims: Sequence[KeyReads] = ()


class PreparedCommit:
    """A commit as the loop asks for it, version by version. One thread puts it, once.

    :raises HeadwaterError: for what may never be committed ``DELTA_CANNOT_MODIFY_APPEND_ONLY``,
        ``DELTA_DUPLICATE_ACTIONS_FOUND``, ``DELTA_DOMAIN_METADATA_NOT_SUPPORTED``, ``DELTA_TABLE_WITHOUT_METADATA`` and
        what :func:`~headwater.protocol.features.check_writable` raises.
    """

    def __init__(self, work: Work, provenance: Provenance) -> None:
        self._work = work
        self._provenance = provenance
        self._vectors = VectorFiles(work.table_path, work.store)
        #: The lines of the last attempt but for those of files in bulk.
        self._others = b""
        #: What reading them comes to.
        self._parsed: ParsedActions | None = None
        #: The lines of files that were read last.
        self._read_body: bytes | None = None
        #: What the winners have; None if they are too many to be kept.
        self._winners: list[ParsedActions] | None = []
        self._num_kept = 0
        self._validate()
        self._prepare()

    @property
    def work(self) -> Work:
        """What it was prepared of."""
        return self._work

    @property
    def provenance(self) -> Provenance:
        """What its ``commitInfo`` says of the statement."""
        return self._provenance

    @property
    def table_path(self) -> str:
        """The table's path, as the store spells it."""
        return self._work.table_path

    @property
    def store(self) -> Store:
        """The table's store."""
        return self._work.store

    @property
    def snapshot(self) -> Snapshot | None:
        """The version that was read; None to create the table."""
        return self._work.snapshot

    @property
    def before(self) -> TableDefinition | None:
        """The table's definition that the commit follows; None if it creates the table."""
        return self._work.definition.before

    @property
    def transaction_id(self) -> str:
        """The identifier in the ``commitInfo``."""
        return self._work.transaction_id

    @property
    def is_append(self) -> bool:
        """Whether it takes nothing from the table and changes none of its files."""
        return self._work.content.is_append

    @property
    def num_actions(self) -> int:
        """The number of file actions, for messages."""
        return self._work.content.num_files

    def action_lines(self) -> Iterator[bytes]:
        """Its actions as lines of JSON, but for what only an attempt can know: ``commitInfo`` and row ids."""
        content, definition = self._work.content, self._work.definition
        state = [action for action in (definition.new_protocol, definition.new_metadata) if action is not None]
        yield serialize([*state, *content.state_actions])
        yield self._body or serialize(content.file_actions)
        if content.bulk is not None:
            yield from content.bulk.lines()

    def encode(
        self,
        version: int,
        now: int,
        previous: int | None,
        *,
        group: Group | None = None,
        rows_version: int | None = None,
    ) -> tuple[bytes, int]:
        """The commit file for a version and the version's timestamp, right before it is put.

        Times in milliseconds since the epoch: ``now`` by this machine's clock, ``previous`` of the version before.

        :param group: what a commit of several tables says in its ``commitInfo``; None for one that stands alone.
        :param rows_version: the version that new rows are of; None is ``version``.
        :raises HeadwaterError: ``HEADWATER_COMMIT_NOT_READABLE``.
        """
        content, definition = self._work.content, self._work.definition
        before = definition.before.metadata if definition.before else None
        metadata, stamp = stamped(definition.new_metadata, definition.metadata, before, version, now, previous)
        of_group = {} if group is None else {groups.FIELD: group.to_json(self.table_path)}
        info = self._provenance.commit_info(
            self.transaction_id,
            None if self.snapshot is None else self.snapshot.version,
            timestamp=now,
            isolation=self._intent.isolation,
            blind_append=self._intent.reads.nothing and content.is_append and not self._work.reads.follows_directly,
            in_commit_timestamp=stamp,
            tags=self._tags(group),
            metrics=self._own_metrics(version),
            more={**(content.copies.record(len(content.removed), len(content.added)) or {}), **of_group},
        )
        domains, body = self._files(version if rows_version is None else rows_version)
        state = [action for action in (definition.new_protocol, metadata) if action is not None]
        head = serialize([info, *state, *content.state_actions, *domains])
        self._others = self._read_back(version, head, body)
        data = self._others if content.bulk is None else b"".join([self._others, *content.bulk.lines()])
        return data, stamp or now

    def _own_metrics(self, version: int) -> dict[str, int]:
        """What the history says of Iceberg metadata that does not follow the table's commits."""
        if not iceberg.is_converted(self._work.definition.after):
            return {}
        behind = behind_before(self.table_path, version)
        return {} if behind is None else {"icebergVersionsBehind": behind}

    def follow(self, winner: WinningCommit) -> None:
        """Check a winner for conflicts, go on under its definition of the table, and carry deletion marks over to the
        files as it left them.

        :raises HeadwaterError: a conflict, or that the commit is none under the winner's definition.
        """
        self._keep(winner)
        content = self._work.content
        staying = content.follow_moves(winner, self._vectors, may_mark=self._may_mark())
        appends = counts_appends(self._intent, winner)
        concerning, disputed = self._work.reads.concerning(
            staying, content.removed_paths, content.marks.paths, appends=appends
        )
        left = content.marks.after(concerning, self._vectors.read, self._vectors.write, disputed)
        check(self._intent, left)
        for claim in self._work.claims:
            check_added(winner, claim.added_by(winner))
        self._work.reads.follow(winner)
        self._work.row_ids.follow(winner)
        redefined = self._work.definition.follow(winner)
        if redefined:
            self._validate()
        if redefined or left is not concerning or staying is not winner:
            self._prepare()

    def since(self, version: int) -> Sequence[ParsedActions]:
        """What the commits after the version that was read have, up to this one as that version: they are not read
        again. Nothing where that is not known.
        """
        bulk = self._work.content.bulk
        if bulk is not None:
            return [bulk.parsed_with(self._others, self._path(version))]
        return [] if self._winners is None or self._parsed is None else [*self._winners, self._parsed]

    def _keep(self, winner: WinningCommit) -> None:
        self._num_kept += len(winner.adds) + len(winner.removes)
        if self._winners is not None and winner.actions is not None and self._num_kept <= _MOST_KEPT:
            self._winners.append(winner.actions)
        else:
            self._winners = None

    def _validate(self) -> None:
        """Step 3 of the commit protocol."""
        content, definition = self._work.content, self._work.definition
        before, after = definition.before, definition.after
        adds, removes = content.adds, content.removes
        if before is not None:
            check_writable(before.protocol, self.table_path, by_catalog=self.store.of_catalog)
        check_writable(after.protocol, self.table_path, by_catalog=self.store.of_catalog)
        check_managed(before, after, after.metadata.name or self._work.table_path)
        removes_rows = content.bulk is not None and bool(content.bulk.removed.num_rows)
        check_append_only(
            before.metadata if before else after.metadata,
            not self._work.mirrors and (removes_rows or any(file.data_change for file in removes)),
            after.metadata.name or self._work.table_path,
        )
        check_domains(content.domains, after.protocol)
        check_unique(removes, adds)
        if content.bulk is not None:
            content.bulk.check(after)
        check_partitions(adds, after)
        iceberg.check_definition(before, after)
        iceberg.check_files(after, adds)
        manifests.check_definition(before, after)

    def _prepare(self) -> None:
        """The intent, and the file actions as bytes: the bulk of a commit, which a lost race seldom changes. Row ids
        are another matter: each attempt gives them again.
        """
        self._intent = self._new_intent()
        self._body = b"" if self._assigns_row_ids else serialize(self._work.content.file_actions)

    def _new_intent(self) -> Intent:
        """The reads and writes that winners are checked against."""
        reads, content, definition = self._work.reads, self._work.content, self._work.definition
        numbers = definition.numbers
        return Intent(
            definition.before,
            reads.for_check(),
            Writes(
                removed=content.taken,
                definition_changed=definition.changes_something and not numbers,
                numbers=numbers,
                new_files=content.added,
                removes_rows=content.removes_rows,
                marks_rows=content.marks_rows,
                domains=frozenset(content.domains),
                proves=self._proves,
            ),
            self._isolation(),
            frozenset(reads.app_ids | content.versions.keys()),
            reads.follows_directly,
        )

    def _isolation(self) -> Isolation:
        """Snapshot isolation for a commit that only rearranges rows, such as compaction; else the table's level."""
        if not self._work.definition.changes_something and self._work.content.rearranges_only:
            return Isolation.SNAPSHOT
        if self._work.serializable:
            return Isolation.SERIALIZABLE
        level = self._work.definition.after.get(properties.ISOLATION_LEVEL) or ""
        return Isolation.SERIALIZABLE if level.lower() == "serializable" else Isolation.WRITE_SERIALIZABLE

    def _proves(self, change: Change, files: Sequence[AddFile]) -> bool:
        """Whether the statistics of the files prove the condition that a winner added."""
        assert self._work.snapshot is not None
        condition = self._condition(change)
        return condition is not None and PredicateReads(self._work.snapshot, []).all_rows_match(files, condition)

    def _condition(self, change: Change) -> Predicate | None:
        """A condition that a winner added; None if it cannot be evaluated."""
        from headwater.pruning.predicates import Column, IsNull, Not  # not loaded by plain appends

        if change.not_null is not None:
            return Not(IsNull(Column(change.not_null)))
        if change.check is None or self._work.parse_condition is None:
            return None
        return self._work.parse_condition(change.check, self._work.definition.metadata.schema_string)

    def _may_mark(self) -> bool:
        """Whether the table may have new deletion vectors."""
        return self._work.definition.after.get(properties.DELETION_VECTORS)

    @property
    def _assigns_row_ids(self) -> bool:
        return self._work.definition.after.assigns_row_ids

    def _files(self, rows_version: int) -> tuple[list[Action], bytes]:
        """What the commit has for its files: the domain of row ids where it changes, and the file actions as bytes."""
        if not self._assigns_row_ids:
            return [], self._body
        content = self._work.content
        adds, domain = self._work.row_ids.assign(content.adds, rows_version)
        body = serialize([*content.removes, *adds, *content.changes])
        return [] if domain is None else [domain], body

    def _read_back(self, version: int, head: bytes, body: bytes) -> bytes:
        """Read a commit before it is written, as any reader will: what cannot be read must not become part of a log.
        Of a large commit that lost a race, only what changed is read again. Returns its bytes.

        :raises HeadwaterError: ``HEADWATER_COMMIT_NOT_READABLE``.
        """
        is_whole, data = body is not self._read_body, head + body
        try:
            parsed = parse_actions(data if is_whole else head, self._path(version))
        except HeadwaterError as error:
            reason = error.parameters.get("reason", str(error))
            table = self._work.definition.metadata.name or self._work.table_path
            raise HeadwaterError("HEADWATER_COMMIT_NOT_READABLE", {"tableName": table, "reason": reason}) from None
        if not is_whole and self._parsed is not None:
            parsed = replace(parsed, files=self._parsed.files, change_files=self._parsed.change_files)
        self._parsed, self._read_body = parsed, body
        return data

    def _tags(self, group: Group | None) -> dict[str, str]:
        of_group = {} if group is None else {groups.TAG: group.id}
        return {**self._row_tags(), **of_group}

    def _row_tags(self) -> dict[str, str]:
        if not self._work.definition.after.tracks_rows:
            return {}
        return {PRESERVED: "true" if self._preserves_row_ids() else "false"}

    def _preserves_row_ids(self) -> bool:
        """Whether rows that the commit updates or copies keep their ids; each statement sees to it where row tracking
        was enabled when it began.
        """
        if self._work.loses_row_ids:
            return False
        if self._work.snapshot is not None and self._work.snapshot.definition.tracks_rows:
            return True
        return not self._work.content.added or not self._work.content.removes_rows

    def _path(self, version: int) -> str:
        return f"{log_directory(self._work.table_path)}/{commit_name(version)}"
