"""Committers: they make a commit the next version of a table.

Owns :class:`Committer`, the interface at which a prepared commit becomes a version or does not, and its implementation
by the table's own store. Follows the protocol's chapter "Creation of New Log Entries". Whoever else decides on the
versions of a table, such as a catalog that ratifies staged commits, is another implementation; the loop over versions
and conflicts (:mod:`headwater.transaction.commit_loop`) stays the same.

**What every committer promises.** Of all commits that are tried as one version, at most one becomes it, whole, and
stays. The answer is exact: :class:`Made` only where the version is this commit and durable; :class:`Lost` only where it
is another's; an exception only where this commit is not there and will not be; :class:`Unknown` for all the rest. A
committer retries inside; the loop never asks twice with the same bytes. What it has made can be read from
:meth:`Committer.commits_from` by everybody.
"""

from __future__ import annotations

import itertools
import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from headwater.basics import backoff
from headwater.basics.errors import HeadwaterError
from headwater.log.commits import commit_info_of
from headwater.protocol.file_names import CommitName, commit_name, log_directory, parse_name, version_prefix
from headwater.stores import Store
from headwater.stores.interface import StoreOver
from headwater.transaction.prepared import PreparedCommit

_LOG = logging.getLogger(__name__)

#: How often a commit is looked for if the store leaves its outcome open.
LOOKS = 4
#: How often a commit is put as one version: once more after a put whose request may be carried out late.
_PUTS = 2


@dataclass(frozen=True)
class Made:
    """The version is this commit."""


@dataclass(frozen=True)
class Lost:
    """Another commit is the version. ``version``: the first one that this commit lost to."""

    version: int


@dataclass(frozen=True)
class Unknown:
    """The commit may be there or not.

    :param path: the file that would show it.
    :param reported: what went wrong first.
    :param failure: why it cannot be found out.
    """

    path: str
    reported: Exception
    failure: Exception


class CommitFile(NamedTuple):
    """Where a commit can be read; the time of its file in milliseconds since the epoch, None if it is not known."""

    path: str
    modification_time: int | None


class Committer(Protocol):
    """Makes commits of one table; see the promises above."""

    @property
    def rows_version(self) -> int | None:
        """The version that new rows are of, if that is not the version of their commit."""

    def commit(self, version: int, data: bytes, transaction_id: str) -> Made | Lost | Unknown:
        """Make ``data`` the version, or change nothing.

        :param transaction_id: the identifier in its ``commitInfo``, by which the commit is known again.
        :raises Exception: what failed; the commit is not there.
        """

    def commits_from(self, version: int) -> list[CommitFile]:
        """The commits of ``version``, which exists, and after, in order and without gaps."""


class CommittingStore(StoreOver, ABC):
    """A store that makes commits versions itself, such as one that holds what a transaction has done."""

    @abstractmethod
    def committer(self, prepared: PreparedCommit) -> Committer:
        """What makes one commit the next version."""


class StoreCommitter(Committer):
    """The table's store: a commit is a file of the log that is put if absent.

    A store may report a failure although it did what it was asked, or find the file of its own first request when it
    retries. So the file is read: each commit has an identifier of its own. A store may also carry out a request after
    it has reported it as failed, and after that look. So a commit that is not there is put again: then the name is
    taken, and the late request fails. Only if the second put fails as well is the outcome unknown.
    """

    rows_version = None

    def __init__(self, table_path: str, store: Store) -> None:
        self._directory = log_directory(table_path)
        self._store = store

    def commit(self, version: int, data: bytes, transaction_id: str) -> Made | Lost | Unknown:
        path = self._path(version)
        failures: list[Exception] = []
        for _ in backoff.OF_COMMITS.tries(_PUTS):
            try:
                self._store.put_if_absent(path, data)
                return Made()
            except Exception as error:
                failures.append(error)
                outcome = self._look_for(transaction_id, version, failures)
                if isinstance(outcome, Made) and not isinstance(error, FileExistsError):
                    _LOG.warning("%s: the store reported a failure, but the commit is there", path, exc_info=True)
                if outcome is not None:
                    return outcome
                is_first = len(failures) == 1
                if is_first and not isinstance(error, FileExistsError) and not self._store.may_come_late(error):
                    raise
        if all(isinstance(failure, FileExistsError) for failure in failures):
            return Lost(version)
        return Unknown(path, failures[0], failures[-1])

    def _look_for(self, transaction_id: str, version: int, failures: list[Exception]) -> Made | Lost | Unknown | None:
        """What has become of a commit after the store reported failures; None if the version is not there."""
        path = self._path(version)
        for _ in backoff.OF_COMMITS.tries(LOOKS):
            try:
                info = commit_info_of(self._store.read(path)) or {}
                return Made() if info.get("txnId") == transaction_id else Lost(version)
            except FileNotFoundError:
                return None
            except Exception as error:
                failure = error
        if len(failures) == 1 and isinstance(failures[0], HeadwaterError):
            raise failures[0]  # the store refused, and did nothing; of a second put, that is no word about the first
        return Unknown(path, failures[0], failure)

    def commits_from(self, version: int) -> list[CommitFile]:
        files = self._store.following(map(self._path, itertools.count(version)))
        if files is None:
            listed = self._store.list_from(self._directory, version_prefix(version))
            commits = {name.version: file for file in listed if isinstance(name := parse_name(file.name), CommitName)}
            files = []
            while (file := commits.get(version + len(files))) is not None:
                files.append(file)
        if not files:  # the store's listing lags behind its acknowledgements: the one known commit is enough
            return [CommitFile(self._path(version), None)]
        return [CommitFile(file.path, file.modification_time) for file in files]

    def _path(self, version: int) -> str:
        return f"{self._directory}/{commit_name(version)}"
