"""The strategies of a MERGE, and the facts that decide between them.

Owns the choice, as a pure function: facts in, a strategy out, or the name of the fact that is needed next. Some facts
cost time or a job, so they are asked for only where they decide: the size of the source once Spark has optimised it,
and the source's keys. A run and EXPLAIN make the same choice; EXPLAIN has no answer where it takes a job.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from headwater.statements.files.rows import SMALL_JOB_BYTES
from headwater.statements.settings import SMALL_TARGET

#: Targets up to this size are joined at once: to read the source's keys first would cost more than it saves (bench case
#: ``merge-small``). For the strategies that no setting changes.
SMALL_TARGET_BYTES = SMALL_TARGET.value
#: Sources up to this size are broadcast, and cached where they are read twice (bench cases ``merge-vectors`` and
#: ``merge-copy``, whose source is smaller).
SMALL_SOURCE_BYTES = 64 << 20
#: Up to this many bytes of files that are all read anyway are rewritten by the join's job: to find out which files have
#: replaced rows, and to read those again, takes longer. No bench case measures the limit.
SMALL_REWRITE_BYTES = 32 << 20


class Inserts(Enum):
    """How a MERGE finds the rows it inserts."""

    IN_JOIN = "the join also has the unmatched rows of the source"
    FROM_CACHE = "a job reads the cached source without the rows for which the join noted a match"
    ANTI_JOIN = "a job of their own joins the source with the target again"


@dataclass(frozen=True)
class Strategy:
    """How a MERGE runs.

    :param name: for people, as is ``reason``.
    :param inserts: how the rows to insert are found, where the statement inserts rows.
    :param in_one_task: whether one task reads both sides and joins them.
    :param broadcasts: whether a hint makes Spark broadcast the source to the readers of the target.
    :param is_planned_ahead: whether the join's job runs without adaptive execution, as the source is known to be small.
    :param caches_source: whether the source is cached for the statement before it is joined.
    :param otherwise: for a strategy whose join also writes the unchanged rows, the one that copies them in a job after
        it. It follows where the join turns out not to have each unchanged row once. None for the other strategies.
    """

    name: str
    reason: str
    inserts: Inserts = Inserts.IN_JOIN
    in_one_task: bool = False
    broadcasts: bool = False
    is_planned_ahead: bool = False
    caches_source: bool = False
    otherwise: Strategy | None = None

    @property
    def writes_unchanged_rows(self) -> bool:
        """Whether the join's job also writes the unchanged rows of the files it reads."""
        return self.otherwise is not None

    @property
    def inserts_apart(self) -> bool:
        """Whether inserts are a job of their own, after the join's."""
        return self.inserts is not Inserts.IN_JOIN


ONE_TASK = Strategy("one task", "target and source are so small that one task joins them", in_one_task=True)
ONE_TASK_REWRITE = Strategy(
    "one task, unchanged rows included",
    "target and source are so small that one task joins them and rewrites the file",
    in_one_task=True,
    otherwise=ONE_TASK,
)
JOIN = Strategy("join", "one join applies all clauses")
JOIN_REWRITE = Strategy(
    "join, unchanged rows included",
    "WHEN NOT MATCHED BY SOURCE reads files that are small enough to be rewritten at once",
    otherwise=JOIN,
)
BROADCAST_ANTI_JOIN = Strategy(
    "broadcast join, then anti join",
    "the source is small enough to be broadcast",
    inserts=Inserts.ANTI_JOIN,
    broadcasts=True,
    is_planned_ahead=True,
)
BROADCAST_REWRITE = Strategy(
    "broadcast join, unchanged rows included, then anti join",
    "the source is small enough to be broadcast, and its keys leave so few files that these are rewritten at once",
    inserts=Inserts.ANTI_JOIN,
    broadcasts=True,
    is_planned_ahead=True,
    otherwise=BROADCAST_ANTI_JOIN,
)
CACHED_BROADCAST_INSERT = Strategy(
    "broadcast join, then insert",
    "the source is small enough to be cached and broadcast; a separate job inserts its rows without a match",
    inserts=Inserts.FROM_CACHE,
    broadcasts=True,
    is_planned_ahead=True,
    caches_source=True,
)
CACHED_JOIN_INSERT = Strategy(
    "join, then insert",
    "the source is cached; a separate job inserts its rows without a match and numbers them for identity columns",
    inserts=Inserts.FROM_CACHE,
    caches_source=True,
)
CACHED_JOIN = Strategy(
    "join with a cached source",
    "the source is cached, because it is large and may have other rows when it is read again",
    caches_source=True,
)
CACHED_SMALL_JOIN = Strategy(
    "join with a small cached source",
    "the source is cached, because it is small or may have other rows when it is read again",
    is_planned_ahead=True,
    caches_source=True,
)
STRATEGIES = (
    ONE_TASK,
    ONE_TASK_REWRITE,
    JOIN,
    JOIN_REWRITE,
    BROADCAST_ANTI_JOIN,
    BROADCAST_REWRITE,
    CACHED_BROADCAST_INSERT,
    CACHED_JOIN_INSERT,
    CACHED_JOIN,
    CACHED_SMALL_JOIN,
)


class Needed(Enum):
    """A fact that decides and is not known yet."""

    SOURCE_SIZE = "whether the source is small, once Spark has optimised it"
    SOURCE_KEYS = "how many bytes of files the source's keys leave to be read"


@dataclass(frozen=True)
class Facts:
    """What is known of a MERGE. Sizes are in bytes.

    :param target_files: files that may have matches by the condition's own predicates, or rows that a clause WHEN NOT
        MATCHED BY SOURCE selects; ``target_bytes``: their size.
    :param source_bytes: an estimate before Spark optimises, at least what the source may multiply to; None without a
        source.
    :param source_is_scan: whether the source only reads files, so that it may be read again.
    :param changes_rows: whether there are clauses that update or delete rows.
    :param not_matched_by_source: whether there are clauses of that kind; ``by_source_files``: files with rows that they
        may select, which are read whatever the source's keys are.
    :param fills_identities: whether inserts leave identity columns to be filled in.
    :param has_keys: whether the condition has keys of the source by which files are pruned.
    :param may_rewrite: whether the join's job may write unchanged rows: without deletion vectors and Python functions.
    :param rewrites_whole: whether the files are a single small file that may be rewritten.
    :param condition_deterministic: whether the condition has the same result whenever it is evaluated.
    :param deletes_each_once: whether change data has a row once that several rows of the source delete.
    :param small_target_bytes: the largest target that is joined at once.
    :param source_is_small: whether the source may be broadcast; None if that is not known yet.
    :param bytes_left: size of the files that are left to be read by the source's keys; None where these were not read.
    """

    target_files: int
    target_bytes: int
    source_bytes: int | None = None
    source_is_scan: bool = False
    source_deterministic: bool = True
    changes_rows: bool = True
    inserts: bool = True
    not_matched_by_source: bool = False
    by_source_files: int = 0
    fills_identities: bool = False
    has_keys: bool = True
    may_rewrite: bool = True
    rewrites_whole: bool = False
    condition_deterministic: bool = True
    deletes_each_once: bool = False
    small_target_bytes: int = SMALL_TARGET_BYTES
    source_is_small: bool | None = None
    bytes_left: int | None = None

    @property
    def keys_prune(self) -> bool:
        """Whether the source's keys can leave fewer files to be read."""
        return self.has_keys and self.by_source_files < self.target_files and self.target_files > 1

    @property
    def rewrites_files_left(self) -> bool:
        """Whether the files are few enough bytes to be rewritten by the join's job, though not all may change."""
        return (
            self.not_matched_by_source
            and self.may_rewrite
            and (self.bytes_left is not None or not self.keys_prune)
            and (self.target_bytes if self.bytes_left is None else self.bytes_left) <= SMALL_REWRITE_BYTES
        )


def choose(facts: Facts) -> Strategy | Needed:
    """The strategy, or the fact it takes to choose one."""
    if not facts.fills_identities and facts.target_bytes <= facts.small_target_bytes:
        return _of_small_target(facts)
    if facts.keys_prune and facts.source_is_scan:
        if facts.bytes_left is None:
            return Needed.SOURCE_KEYS
        if not facts.fills_identities and facts.bytes_left <= facts.small_target_bytes:
            return _of_few_files(facts)
    if not facts.fills_identities and facts.rewrites_files_left:
        return JOIN_REWRITE
    return _of_large_target(facts)


def _of_small_target(facts: Facts) -> Strategy:
    if facts.target_bytes + (facts.source_bytes or 0) > SMALL_JOB_BYTES:
        return JOIN
    return ONE_TASK_REWRITE if facts.changes_rows and facts.rewrites_whole else ONE_TASK


def _of_few_files(facts: Facts) -> Strategy | Needed:
    """For a large target, of which the source's keys leave few files to be read."""
    # A row that several rows of the source delete would come once as deleted, and once more as an unchanged row.
    if not facts.may_rewrite or not facts.condition_deterministic or facts.deletes_each_once:
        return JOIN
    if facts.source_is_small is None:
        return Needed.SOURCE_SIZE
    return BROADCAST_REWRITE if facts.source_is_small else JOIN


def _of_large_target(facts: Facts) -> Strategy | Needed:
    if facts.source_is_small is None:
        return Needed.SOURCE_SIZE
    if facts.inserts and facts.source_is_small:
        return CACHED_BROADCAST_INSERT
    if facts.inserts and facts.fills_identities and facts.changes_rows:
        return CACHED_JOIN_INSERT
    # Spark calls a source deterministic that has other rows each time it is read: a LIMIT without an order, say.
    is_read_twice = not facts.source_is_scan and (facts.keys_prune or facts.source_is_small)
    if is_read_twice or not facts.source_deterministic:
        return CACHED_SMALL_JOIN if facts.source_is_small else CACHED_JOIN
    return JOIN
