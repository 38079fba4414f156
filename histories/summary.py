"""What a history shows, in figures and verdicts.

Owns :func:`judge`, which asks both checkers, and the text that is printed of it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

import msgspec

from histories import anomalies, linearizability
from histories.anomalies import Anomaly
from histories.history import History, changes
from histories.linearizability import NoCheckerError, Verdict

#: Errors by which a client is told that it lost to another, or that its transaction was given up.
_OF_CONFLICTS = (
    "DELTA_CONCURRENT_",
    "DELTA_METADATA_CHANGED",
    "HEADWATER_TRANSACTION_ABORTED",
    "HEADWATER_TRANSACTION_VERSIONS_APART",
    "HEADWATER_TRANSACTION_OPEN",
    "HEADWATER_TRANSACTION_LOST",  # a clock jumped by more than a transaction may be idle
    "CommitFailedError",
)
#: Errors of a store's client behind a proxy that loses requests and answers.
_OF_STORES = ("OSError", "FileNotFoundError")
_MOST_SHOWN = 8


class Judged(msgspec.Struct):
    """What was found in a history.

    :param verdicts: Porcupine's, by object; None if it was not asked, for the reason in ``unasked``.
    :param unexpected: errors that are neither conflicts nor unknown outcomes, nor of a store behind a proxy, with how
        often they came.
    """

    history: History
    found: Sequence[Anomaly]
    verdicts: Sequence[Verdict] | None
    unasked: str | None
    unexpected: dict[str, int]
    seconds: float

    @property
    def is_good(self) -> bool:
        """Whether both checkers accept the history; what was not checked is not accepted."""
        accepted = self.verdicts is not None and all(each.verdict == "ok" for each in self.verdicts)
        return accepted and not self.found and not self.unexpected and self.has_changes and not self.unread

    @property
    def has_changes(self) -> bool:
        """Whether any change was made: in a history of failures alone, there is nothing to find."""
        return any(op.outcome == "ok" and changes(op) for op in self.history.ops)

    @property
    def unread(self) -> list[str]:
        """The tables that were to be read at the end, and were not: what is lost shows there alone."""
        asked = {each[1]: False for op in self.history.ops if op.is_last for each in op.does}
        asked |= {each[1]: True for op in self.history.ops if op.is_last and op.outcome == "ok" for each in op.does}
        return [table for table, was_read in asked.items() if not was_read]

    @property
    def shown_after(self) -> int | None:
        """How many ops had ended when the first anomaly could be seen; None without an anomaly."""
        lasts = [max((op.end or 0 for op in each.ops), default=0) for each in self.found]
        return sum(op.end is not None and op.end <= min(lasts) for op in self.history.ops) if lasts else None


def judge(history: History, seconds: float = 30.0) -> Judged:
    """Ask both checkers.

    :param seconds: the most that Porcupine may take for one object.
    """
    began = time.monotonic()
    verdicts, unasked = None, None
    try:
        verdicts = linearizability.check(history, seconds)
    except NoCheckerError as error:
        unasked = str(error)
    found = anomalies.find(history)
    errors = Counter(op.error for op in history.ops if op.error is not None and op.outcome == "failed")
    expected = (*_OF_CONFLICTS, *(_OF_STORES if "proxy" in history.header.nemesis else ()))
    unexpected = {error: count for error, count in errors.items() if not any(each in error for each in expected)}
    return Judged(history, found, verdicts, unasked, unexpected, time.monotonic() - began)


def lines(judged: Judged) -> list[str]:
    """The summary of a round."""
    ops = [op for op in judged.history.ops if op.kind != "optimize"]
    outcomes = Counter(op.outcome for op in ops)
    conflicts = Counter(
        op.error for op in ops if op.outcome == "failed" and op.error is not None and op.error not in judged.unexpected
    )
    kinds = Counter(op.kind if op.kind != "transaction" else f"{op.isolation} transaction" for op in ops)
    told = [
        f"{len(ops)} ops: {outcomes['ok']} ok, {outcomes['failed']} failed, {outcomes['unknown']} unknown",
        "  " + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()),
        "  failed: " + (", ".join(f"{count} {error}" for error, count in conflicts.most_common(6)) or "none"),
    ]
    told += [f"  unexpected: {count} x {error}" for error, count in judged.unexpected.items()]
    told += ["  nothing was changed"] * (not judged.has_changes)
    told += [f"  not read at the end: {table}" for table in judged.unread]
    if judged.verdicts is None:
        told.append(f"  linearizable: not checked: {judged.unasked}")
    else:
        found = Counter(each.verdict for each in judged.verdicts)
        bad = [each.name for each in judged.verdicts if each.verdict != "ok"]
        more = f": {', '.join(bad[:_MOST_SHOWN])}" if bad else ""
        text = ", ".join(f"{count} {verdict}" for verdict, count in found.most_common())
        told.append(f"  linearizable ({len(judged.verdicts)} objects): {text}{more}")
    names = Counter(each.name for each in judged.found)
    after = "" if judged.shown_after is None else f"; the first after {judged.shown_after} ops"
    told.append(
        "  anomalies: " + (", ".join(f"{count} {name}" for name, count in names.most_common()) or "none") + after
    )
    for each in judged.found[:_MOST_SHOWN]:
        told.append(f"    {each.name}: {each.text}")
        told += [f"      {op}" for op in each.ops[:6]]
    told.append(f"  checked in {judged.seconds:.1f} s: {'accepted' if judged.is_good else 'REFUSED'}")
    return told
