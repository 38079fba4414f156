"""Which strategy a MERGE has, by the facts known of it; no Spark, no table."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from headwater.statements.dml.strategy import (
    BROADCAST_ANTI_JOIN,
    BROADCAST_REWRITE,
    CACHED_BROADCAST_INSERT,
    CACHED_JOIN,
    CACHED_JOIN_INSERT,
    CACHED_SMALL_JOIN,
    JOIN,
    JOIN_REWRITE,
    ONE_TASK,
    ONE_TASK_REWRITE,
    SMALL_REWRITE_BYTES,
    SMALL_TARGET_BYTES,
    STRATEGIES,
    Facts,
    Inserts,
    Needed,
    Strategy,
    choose,
)

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
TINY = {"target_files": 1, "target_bytes": 10 * KIB, "source_bytes": 10 * KIB, "rewrites_whole": True}
SMALL = {"target_files": 4, "target_bytes": 4 * MIB}
LARGE = {"target_files": 50, "target_bytes": 2 * GIB}
#: A table that is large and not too large to be rewritten.
MIDDLE = {"target_files": 50, "target_bytes": 20 * MIB}
FILES = {"source_is_scan": True}
BY_SOURCE = {"not_matched_by_source": True, "by_source_files": 50}
#: Clauses of whose rows there can be none in most files.
BY_SOURCE_OF_FEW = {"not_matched_by_source": True, "by_source_files": 2}
IDENTITY = {"fills_identities": True}

TABLE: list[tuple[str, dict[str, Any], Strategy | Needed]] = [
    ("tiny", TINY, ONE_TASK_REWRITE),
    ("tiny, several files", {**TINY, "rewrites_whole": False}, ONE_TASK),
    ("tiny, insert-only", {**TINY, "changes_rows": False}, ONE_TASK),
    ("tiny, source of unknown size", {**TINY, "source_bytes": None}, ONE_TASK_REWRITE),
    ("tiny, source over 1 MiB", {**TINY, "source_bytes": MIB}, JOIN),
    ("empty", {"target_files": 0, "target_bytes": 0}, ONE_TASK),
    ("small", SMALL, JOIN),
    ("small, by source", {**SMALL, **BY_SOURCE}, JOIN),
    ("largest small", {**SMALL, "target_bytes": SMALL_TARGET_BYTES}, JOIN),
    ("just large", {**SMALL, "target_bytes": SMALL_TARGET_BYTES + 1}, Needed.SOURCE_SIZE),
    ("small by a setting", {**LARGE, "small_target_bytes": 3 * GIB}, JOIN),
    ("small, identity columns", {**SMALL, **IDENTITY}, Needed.SOURCE_SIZE),
    ("by source, rewritten", {**MIDDLE, **BY_SOURCE}, JOIN_REWRITE),
    ("by source, largest", {**MIDDLE, **BY_SOURCE, "target_bytes": SMALL_REWRITE_BYTES}, JOIN_REWRITE),
    ("by source, too large", {**LARGE, **BY_SOURCE}, Needed.SOURCE_SIZE),
    ("by source, vectors", {**MIDDLE, **BY_SOURCE, "may_rewrite": False}, Needed.SOURCE_SIZE),
    ("by source reads no keys", {**LARGE, **BY_SOURCE, **FILES}, Needed.SOURCE_SIZE),
    ("few by source, files", {**LARGE, **BY_SOURCE_OF_FEW, **FILES}, Needed.SOURCE_KEYS),
    ("few by source, query", {**LARGE, **BY_SOURCE_OF_FEW, "source_is_small": True}, CACHED_BROADCAST_INSERT),
    ("few by source, middle, files", {**MIDDLE, **BY_SOURCE_OF_FEW, **FILES}, Needed.SOURCE_KEYS),
    ("few by source, middle, query", {**MIDDLE, **BY_SOURCE_OF_FEW, "source_is_small": True}, CACHED_BROADCAST_INSERT),
    ("few by source, no keys", {**MIDDLE, **BY_SOURCE_OF_FEW, "has_keys": False}, JOIN_REWRITE),
    (
        "few by source, few left",
        {**LARGE, **BY_SOURCE_OF_FEW, **FILES, "bytes_left": MIB, "source_is_small": True},
        BROADCAST_REWRITE,
    ),
    ("few by source, rewritten", {**LARGE, **BY_SOURCE_OF_FEW, **FILES, "bytes_left": 20 * MIB}, JOIN_REWRITE),
    (
        "few by source, identity columns",
        {**LARGE, **BY_SOURCE_OF_FEW, **FILES, **IDENTITY, "bytes_left": MIB, "source_is_small": True},
        CACHED_BROADCAST_INSERT,
    ),
    ("files as source", {**LARGE, **FILES}, Needed.SOURCE_KEYS),
    ("files as source, identity columns", {**LARGE, **FILES, **IDENTITY}, Needed.SOURCE_KEYS),
    ("files as source, no keys", {**LARGE, **FILES, "has_keys": False}, Needed.SOURCE_SIZE),
    ("files as source, one file", {**LARGE, **FILES, "target_files": 1}, Needed.SOURCE_SIZE),
    ("few left", {**LARGE, **FILES, "bytes_left": MIB}, Needed.SOURCE_SIZE),
    ("few left, small source", {**LARGE, **FILES, "bytes_left": MIB, "source_is_small": True}, BROADCAST_REWRITE),
    ("few left, large source", {**LARGE, **FILES, "bytes_left": MIB, "source_is_small": False}, JOIN),
    ("few left, vectors", {**LARGE, **FILES, "bytes_left": MIB, "may_rewrite": False}, JOIN),
    ("few left, random condition", {**LARGE, **FILES, "bytes_left": 0, "condition_deterministic": False}, JOIN),
    ("few left, deletes once", {**LARGE, **FILES, "bytes_left": 0, "deletes_each_once": True}, JOIN),
    (
        "few left, identity columns",
        {**LARGE, **FILES, **IDENTITY, "bytes_left": 0, "source_is_small": True},
        CACHED_BROADCAST_INSERT,
    ),
    (
        "many left",
        {**LARGE, **FILES, "bytes_left": GIB, "source_is_small": True},
        CACHED_BROADCAST_INSERT,
    ),
    ("many left, large source", {**LARGE, **FILES, "bytes_left": GIB, "source_is_small": False}, JOIN),
    (
        "many left, no inserts",
        {**LARGE, **FILES, "bytes_left": GIB, "source_is_small": True, "inserts": False},
        JOIN,
    ),
    ("query as source", LARGE, Needed.SOURCE_SIZE),
    ("small query", {**LARGE, "source_is_small": True}, CACHED_BROADCAST_INSERT),
    ("small query, no inserts", {**LARGE, "source_is_small": True, "inserts": False}, CACHED_SMALL_JOIN),
    ("large query", {**LARGE, "source_is_small": False}, CACHED_JOIN),
    ("large query, no keys", {**LARGE, "source_is_small": False, "has_keys": False}, JOIN),
    (
        "large random query, no keys",
        {**LARGE, "source_is_small": False, "has_keys": False, "source_deterministic": False},
        CACHED_JOIN,
    ),
    ("large query, identity columns", {**LARGE, **IDENTITY, "source_is_small": False}, CACHED_JOIN_INSERT),
    (
        "large query, identity columns, insert-only",
        {**LARGE, **IDENTITY, "source_is_small": False, "changes_rows": False},
        CACHED_JOIN,
    ),
]


@pytest.mark.parametrize(("facts", "chosen"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_facts_choose(facts: dict[str, Any], chosen: Strategy | Needed) -> None:
    assert choose(Facts(**facts)) is chosen


def every_facts() -> list[Facts]:
    flags = [
        "source_is_scan",
        "source_deterministic",
        "changes_rows",
        "inserts",
        "not_matched_by_source",
        "fills_identities",
        "has_keys",
        "may_rewrite",
        "condition_deterministic",
    ]
    return [
        Facts(**size, **dict(zip(flags, values, strict=True)))
        for size in (TINY, SMALL, MIDDLE, LARGE)
        for values in product([False, True], repeat=len(flags))
    ]


def test_what_is_needed_leads_to_a_strategy() -> None:
    """Each fact is asked for once at most, the keys before the size; small targets need none."""
    reached = set()
    for facts in every_facts():
        for small, left in product([False, True], [0, 3 * GIB]):
            known, asked = facts, []
            while isinstance(choice := choose(known), Needed):
                asked.append(choice)
                if choice is Needed.SOURCE_KEYS:
                    known = replace(known, bytes_left=left)
                else:
                    known = replace(known, source_is_small=small)
            assert asked in ([], [Needed.SOURCE_SIZE], [Needed.SOURCE_KEYS], [Needed.SOURCE_KEYS, Needed.SOURCE_SIZE])
            if facts.target_bytes <= SMALL_TARGET_BYTES and not facts.fills_identities:
                assert asked == []
            reached.add(choice)
    # The last one is only ever the way out of another.
    assert reached == set(STRATEGIES) - {BROADCAST_ANTI_JOIN}


def test_what_a_strategy_promises() -> None:
    for strategy in STRATEGIES:
        if strategy.inserts is Inserts.FROM_CACHE:
            assert strategy.caches_source
        if strategy.broadcasts:
            assert strategy.is_planned_ahead
            assert strategy.inserts_apart
        if strategy.otherwise is not None:
            assert strategy.otherwise.otherwise is None
            assert not strategy.caches_source
            named = replace(strategy.otherwise, name=strategy.name, reason=strategy.reason)
            assert named == replace(strategy, otherwise=None)
    assert len({strategy.name for strategy in STRATEGIES}) == len(STRATEGIES)


def test_only_what_may_be_rewritten_is() -> None:
    for facts in every_facts():
        for small, left in product([False, True], [0, 3 * GIB]):
            chosen = choose(replace(facts, bytes_left=left, source_is_small=small))
            assert isinstance(chosen, Strategy)
            if chosen in (BROADCAST_REWRITE, JOIN_REWRITE):
                assert facts.may_rewrite
            if chosen.inserts_apart and chosen.caches_source:
                assert facts.inserts
            if facts.fills_identities and facts.changes_rows and facts.inserts:
                # Identity values need a job that has new rows alone.
                assert chosen.inserts_apart
