"""Commits to a table that a catalog manages: staged, ratified, published.

Owns :class:`CatalogCommitter`, which keeps the promises of every committer (:mod:`headwater.transaction.committers`).
Follows the protocol's chapters "Commit Protocol" and "Publishing Commits".

**Steps.**

1. *Stage.* The commit is put as ``_delta_log/_staged_commits/<version>.<uuid>.json``, durable, under a name that no
   other attempt has. A crash leaves a file that nobody reads. Version 0 of a new table is put under its own name, as
   nobody knows the table before the catalog gives it a name. Credentials of the catalog that have expired since the
   statement began are replaced first, and once more where the store fails.
2. *Ratify.* The catalog is asked to make this file the version. This step decides.
3. *Find out.* Where the answer is lost, or says that the version is taken, the catalog is asked for what it has
   ratified: the name of the file shows whose commit it is. The error code does not, as an earlier request of this
   writer's may have been carried out. Where the catalog has the commit no more on record, it was published, and the
   identifier in it shows whose it is. A version that is not there yet is proposed again, with the same file.
4. *Publish.* The ratified commits that the catalog has on record are copied to ``<version>.json``, in order, by
   put-if-absent; those of other writers too, who may have died. If a staged file is gone, the published one has to be
   its copy. A failure stops here, and does not undo the commit: whoever commits next publishes.
5. *Report.* The next request tells the catalog how far all commits are published, so that it may forget them. A version
   is reported only after the store has acknowledged its copy and those of all versions before.

**Outcomes.** A request that got no answer may be carried out late. So, once there was one, the commit counts as failed
only where another took the version; otherwise the outcome is unknown. Where no request was left open, a refusal is
one: the staged file is deleted, and the table is as it was.

``tests/transaction/test_catalog_commits.py`` makes each step fail, before and after it is carried out, for many writers
at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from headwater.basics import backoff, clock
from headwater.basics.errors import HeadwaterError
from headwater.catalogs.interface import (
    Away,
    CatalogFailure,
    NotProposed,
    Ratified,
    Redefinition,
    StagedCommit,
    TooManyUnpublished,
    Unanswered,
    VersionTaken,
)
from headwater.catalogs.log_view import RatifiedLog
from headwater.log.commits import commit_info_of, parse_actions
from headwater.protocol.file_names import commit_name, staged_commit_name
from headwater.protocol.table_definition import TableDefinition
from headwater.transaction.committers import CommitFile, Lost, Made, StoreCommitter, Unknown

_LOG = logging.getLogger(__name__)

#: How often a commit is proposed, or looked for, while the catalog gives no definite answer: some 10 seconds.
_TRIES = 12
#: After these, the same request may be made again.
_MAY_BE_REPEATED = (VersionTaken, TooManyUnpublished, Away)


class CatalogCommitter:
    """A catalog that ratifies staged commits; see the steps above.

    :param log: the table's log, as the catalog has ratified it.
    :param before: the table's definition before the commit; None if the commit creates the table.
    """

    rows_version = None

    def __init__(self, log: RatifiedLog, before: Callable[[], TableDefinition | None] = lambda: None) -> None:
        self._log = log
        self._store = log.inner
        self._before = before

    def commit(self, version: int, data: bytes, transaction_id: str) -> Made | Lost | Unknown:
        self._log.renew(False)
        staged = self._stage(version, data)
        path = staged.path(self._log.table_path)
        change = self._redefinition(data, path)
        doubt: CatalogFailure | None = None
        failure: Exception | None = None
        for _ in backoff.OF_CATALOGS.tries(_TRIES):
            answer: Ratified | Lost | Exception = self._propose(staged, change)
            if isinstance(answer, Unanswered | VersionTaken):
                doubt = answer
            elif isinstance(answer, TooManyUnpublished):
                self._make_room()
            if isinstance(answer, CatalogFailure) and doubt is not None:
                answer = self._look_for(staged, transaction_id) or answer
            if isinstance(answer, Ratified):
                return self._made(answer, version, data)
            if isinstance(answer, Lost):
                self._discard(path)
                return answer
            failure = answer
            if isinstance(failure, NotProposed) and not isinstance(failure, _MAY_BE_REPEATED):
                break
        assert failure is not None
        if doubt is not None:
            return Unknown(path, doubt, failure)
        self._discard(path)
        raise HeadwaterError(
            "HEADWATER_CATALOG_FAILED", {"tableName": self._log.table.name, "reason": str(failure)}
        ) from failure

    def commits_from(self, version: int) -> list[CommitFile]:
        return StoreCommitter(self._log.table_path, self._log).commits_from(version)

    # 1. Stage

    def _stage(self, version: int, data: bytes) -> StagedCommit:
        """Put the commit where the catalog may ratify it.

        :raises OSError: the store failed. Nothing was proposed.
        """
        stamp = (commit_info_of(data) or {}).get("inCommitTimestamp")
        if not isinstance(stamp, int):
            raise HeadwaterError("DELTA_MISSING_COMMIT_TIMESTAMP", {"version": version})
        # The catalog gives a table its name once its version 0 is there.
        name = commit_name(0) if version == 0 else staged_commit_name(version)
        staged = StagedCommit(version, name, stamp, len(data), clock.milliseconds())
        try:
            self._put(staged, data)
        except FileExistsError:
            raise
        except OSError:
            # Stores have many words for credentials that have expired, and none in answers without a body.
            if not self._log.renew(True):
                raise
            self._put(staged, data)
        return staged

    def _put(self, staged: StagedCommit, data: bytes) -> None:
        path = staged.path(self._log.table_path)
        self._store.make_directory(path.rpartition("/")[0])
        self._store.put_once(path, data)

    def _discard(self, path: str) -> None:
        """Delete a staged commit that never was and never will be a version."""
        try:
            self._store.delete(path)
        except OSError:
            _LOG.debug("%s is left: no version names it", path, exc_info=True)

    def _redefinition(self, data: bytes, path: str) -> Redefinition:
        """What the commit changes of the definition: its lines before those of files, which may be many."""
        lines = []
        for line in data.splitlines():
            if not line.startswith((b'{"add"', b'{"remove"', b'{"cdc"')):
                lines.append(line)
        actions = parse_actions(b"\n".join(lines), path)
        before = self._before()
        return Redefinition(
            actions.protocol,
            actions.metadata,
            tuple(actions.domains.values()),
            dict(before.metadata.configuration) if before else {},
            tuple(before.metadata.partition_columns) if before else (),
            before.metadata.description if before else None,
        )

    # 2. Ratify, 3. Find out

    def _propose(self, staged: StagedCommit, change: Redefinition) -> Ratified | CatalogFailure:
        try:
            answer = self._log.table.propose(staged, change, self._log.published)
        except CatalogFailure as failure:
            return failure
        self._log.learn(answer)
        return answer

    def _look_for(self, staged: StagedCommit, transaction_id: str) -> Ratified | Lost | Exception | None:
        """What has become of a commit: the catalog's answer where it is the version; what prevented to find out; None
        where there is no such version yet.
        """
        try:
            answer = self._log.table.ratified()
            self._log.learn(answer)
            if answer.latest < staged.version:
                return None
            found = answer.commits.get(staged.version)
            if found is not None:
                return answer if found.file_name == staged.file_name else Lost(staged.version)
            data = self._store.read(self._log.published_path(staged.version))
            is_ours = (commit_info_of(data) or {}).get("txnId") == transaction_id
            return answer if is_ours else Lost(staged.version)
        except (CatalogFailure, OSError, HeadwaterError) as failure:
            return failure

    # 4. Publish, 5. Report

    def _made(self, answer: Ratified, version: int, data: bytes) -> Made:
        """The commit stands: nothing from here on may raise."""
        try:
            self._publish(answer, {version: data})
            if len(answer.commits) > 1:  # nobody reports what is published: do not wait for the next commit
                self._report()
        except Exception:
            _LOG.warning("%s: version %d stands, and is published later", self._log.table.name, version, exc_info=True)
        return Made()

    def _publish(self, answer: Ratified, known: Mapping[int, bytes]) -> None:
        """Copy what the catalog has on record into the log, in order.

        :param known: contents that need not be read.
        :raises OSError: the store failed, or has another commit in that place; the versions before are published.
        """
        for version in sorted(answer.commits):
            if self._log.published is not None and version <= self._log.published:
                continue
            path = self._log.published_path(version)
            try:
                data = known.get(version)
                if data is None:
                    data = self._store.read(answer.commits[version].path(self._log.table_path))
                self._store.put_once(path, data)  # another writer may have done so
                is_copy = True
            except FileExistsError:
                is_copy = False
            except FileNotFoundError:  # published, and the staged file cleaned up
                is_copy = _fits(self._store.read(path), answer.commits[version])
            if not is_copy:
                # The catalog must not forget a commit that has no copy.
                raise OSError(f"{path} is not the commit that the catalog has ratified")
            self._log.published = version
        if not answer.commits:
            self._log.published = answer.latest

    def _report(self) -> None:
        if self._log.published is not None:
            self._log.table.report_published(self._log.published)

    def _make_room(self) -> bool:
        """Publish all that the catalog has on record, and report it; whether that worked."""
        try:
            answer = self._log.table.ratified()
            self._log.learn(answer)
            self._publish(answer, {})
            self._report()
        except (CatalogFailure, OSError):
            _LOG.warning("%s: ratified commits could not be published", self._log.table.name, exc_info=True)
            return False
        return True


def _fits(data: bytes, commit: StagedCommit) -> bool:
    """Whether a published file may be the copy of a staged one that is gone: the catalog knows its size and time."""
    return len(data) == commit.size and (commit_info_of(data) or {}).get("inCommitTimestamp") == commit.timestamp
