"""The checkers of histories accept what is right and refuse each anomaly that has a name, without any client."""

from __future__ import annotations

import itertools
import shutil
from typing import Any

import pytest
from histories import anomalies, linearizability, summary
from histories.history import Header, History, Op, TableFacts, read, write
from histories.mutations import MUTATIONS

_TABLES = {
    "t": TableFacts(holds="lists"),
    "u": TableFacts(holds="lists"),
    "log": TableFacts(holds="rows", appends_only=True),
    "rows": TableFacts(holds="rows", level="Serializable"),
    "loose": TableFacts(holds="rows"),
}


@pytest.fixture(autouse=True)
def _checker() -> None:
    if shutil.which("go") is None:
        pytest.skip("Go is not installed, which builds Porcupine's checker")


def op(*does: list[Any], at: tuple[int, int | None] | None = None, **more: Any) -> dict[str, Any]:
    return {"kind": "op", "does": list(does), "at": at, "outcome": "ok", **more}


def history(*ops: dict[str, Any]) -> History:
    """Ops one after the other, each of a process of its own, unless ``at`` says from when until when one ran."""
    made = []
    for number, given in enumerate(ops):
        each = dict(given)
        begin, end = each.pop("at") or (number * 10, number * 10 + 5)
        made.append(Op(process=number, number=1, call=begin, end=end, **each))
    return History(Header(tables=_TABLES), made)


def append(table: str, key: int, element: int) -> list[Any]:
    return ["append", table, key, element]


def seen(table: str, key: int, *items: Any) -> list[Any]:
    return ["scan" if _TABLES[table].holds == "rows" else "read", table, key, list(items)]


def names(given: History) -> set[str]:
    """What is found: anomalies by name, and ``not linearizable``."""
    found = {each.name for each in anomalies.find(given)}
    verdicts = {each.verdict for each in linearizability.check(given)}
    assert verdicts <= {"ok", "illegal"}
    return found | ({"not linearizable"} if "illegal" in verdicts else set())


def test_a_history_that_is_right_is_accepted(tmp_path):
    """With ops side by side, one without an answer that took effect, one that did not, and one that failed."""
    given = history(
        op(append("t", 1, 1), append("u", 1, 2), isolation="serializable"),
        op(seen("t", 1, 1), seen("u", 1, 2), isolation="transaction"),
        op(append("t", 1, 3), at=(20, None), outcome="unknown"),
        op(append("t", 1, 4), at=(21, 40)),
        op(seen("t", 1, 1, 3), at=(22, 35)),
        op(append("t", 2, 5), at=(30, None), outcome="unknown"),
        op(append("t", 1, 6), outcome="failed"),
        op(["insert", "rows", 1, [7, 8]]),
        op(["touch", "rows", 1, 2]),
        op(["merge", "rows", 1, 1]),
        op(seen("rows", 1, [1, 0], [7, 1], [8, 1])),
        op(["replace", "rows", 1, 7]),
        op(["replace", "rows", 1, 2]),
        op(seen("rows", 1, [1, 0], [2, 0], [7, 0], [8, 1])),
        op(["delete", "rows", 1, 4]),
        op(["insert", "log", 1, [9]], batch=("stream", 0), at=(200, None), outcome="unknown"),
        op(["insert", "log", 1, [9]], batch=("stream", 0), at=(210, 215)),
        op(seen("log", 1, [9, 0]), at=(220, 225)),
        op(seen("t", 1, 1, 3, 4), seen("t", 2), at=(230, 235), is_last=True),
    )
    write(tmp_path / "kept.jsonl", given)
    again = read(tmp_path / "kept.jsonl")
    assert names(again) == set()
    judged = summary.judge(again)
    assert judged.is_good
    assert "accepted" in summary.lines(judged)[-1]


_A, _B = append("t", 1, 1), append("t", 1, 2)
_WRONG = {
    "lost update": (
        [op(_A), op(_B), op(seen("t", 1, 2), is_last=True)],
        {"lost", "not linearizable"},
    ),
    "lost update, of two reads": (
        [op(_A), op(seen("t", 1, 1)), op(_B, append("t", 1, 3)), op(seen("t", 1, 2, 3))],
        {"incompatible order", "not linearizable"},
    ),
    "an upsert that changed nothing": (
        [
            op(["merge", "rows", 1, 1]),
            op(["touch", "rows", 1, 1]),
            op(["replace", "rows", 1, 1]),
            op(seen("rows", 1, [1, 1])),
        ],
        {"not linearizable"},
    ),
    "fractured read": (
        [
            op(_A, append("u", 1, 2), isolation="transaction"),
            op(seen("t", 1, 1), seen("u", 1), isolation="transaction"),
        ],
        # The element that is missing of u was written by a transaction that had ended before.
        {"fractured read", "not linearizable"},
    ),
    "fractured read, at the same time": (
        [
            op(_A, append("u", 1, 2), isolation="transaction", at=(0, 100)),
            op(seen("t", 1, 1), seen("u", 1), isolation="transaction", at=(10, 20)),
            op(seen("u", 1, 2), at=(200, 210)),
        ],
        {"fractured read"},
    ),
    "write skew": (
        [
            op(seen("t", 1), append("u", 1, 1), isolation="serializable", at=(0, 100)),
            op(seen("u", 1), append("t", 1, 2), isolation="serializable", at=(1, 99)),
            op(seen("t", 1, 2), at=(200, 210)),
            op(seen("u", 1, 1), at=(220, 230)),
        ],
        {"G2"},
    ),
    "stale read": ([op(_A), op(seen("t", 1))], {"not linearizable"}),
    "G1a": ([op(_A, outcome="failed"), op(seen("t", 1, 1))], {"G1a", "not linearizable"}),
    "G1b": (
        [op(_A, _B, isolation="transaction", at=(0, 100)), op(seen("t", 1, 1), at=(1, 50))],
        {"G1b", "not linearizable"},
    ),
    "G0": (
        [
            op(_A, append("u", 1, 3), isolation="transaction", at=(0, 100)),
            op(_B, append("u", 1, 4), isolation="transaction", at=(0, 100)),
            op(seen("t", 1, 1, 2), at=(110, 120)),
            op(seen("u", 1, 4, 3), at=(130, 140)),
        ],
        {"G0"},
    ),
    "G1c": (
        [
            op(_A, seen("u", 1, 2), isolation="serializable", at=(0, 100)),
            op(append("u", 1, 2), seen("t", 1, 1), isolation="serializable", at=(0, 100)),
        ],
        {"G1c"},
    ),
    "G-single": (
        [
            op(_A, append("u", 1, 2), at=(0, 100)),
            op(append("u", 1, 3), seen("t", 1), isolation="serializable", at=(0, 100)),
            op(seen("t", 1, 1), seen("u", 1, 2, 3), at=(110, 120)),
        ],
        {"G-single"},
    ),
    "what nobody wrote": ([op(_A), op(seen("t", 1, 1, 7))], {"garbage", "not linearizable"}),
    "twice": ([op(_A), op(seen("t", 1, 1, 1))], {"duplicate", "not linearizable"}),
    "a row twice": (
        [op(["insert", "rows", 1, [1]]), op(seen("rows", 1, [1, 0], [1, 1]))],
        {"duplicate", "not linearizable"},
    ),
    "own write": ([op(_A, seen("t", 1), isolation="transaction")], {"internal"}),
    "deleted rows come back": (
        [op(["insert", "rows", 1, [1]]), op(["delete", "rows", 1, 1]), op(seen("rows", 1, [1, 0]))],
        {"not linearizable"},
    ),
    "a count that no order explains": (
        [op(["insert", "loose", 1, [1, 2]]), op(["delete", "loose", 1, 1])],
        {"not linearizable"},
    ),
    "a row that was appended is not seen": (
        [op(["insert", "log", 1, [1]]), op(seen("log", 1), is_last=True)],
        {"lost", "not linearizable"},
    ),
}


@pytest.mark.parametrize("name", _WRONG)
def test_what_is_wrong_is_refused_by_its_name(name):
    ops, expected = _WRONG[name]
    assert names(history(*ops)) == expected


def test_a_blind_append_may_come_after_a_delete_that_did_not_see_it():
    """At ``WriteSerializable``: what a query saw in between has no place in the order of the writers."""
    ops = [
        op(["insert", "loose", 1, [1]]),
        op(["delete", "loose", 1, 1], at=(20, 100)),
        op(["insert", "loose", 1, [2]], at=(30, 40)),
        op(seen("loose", 1, [1, 0], [2, 0]), at=(50, 60)),
        op(seen("loose", 1, [2, 0]), at=(110, 120), is_last=True),
    ]
    strict = [{**each, "does": [[do[0], "rows", *do[2:]] for do in each["does"]]} for each in ops]
    assert names(history(*ops)) == set()
    assert names(history(*strict)) == {"not linearizable"}


def test_two_queries_of_a_transaction_need_not_be_of_one_moment():
    """Unless it is serializable: what queries read is checked then."""
    ops = [
        op(append("t", 1, 1), at=(20, 30)),
        op(seen("t", 1, 1), append("u", 1, 2), isolation="serializable", at=(40, 50)),
        op(seen("t", 1), seen("u", 1, 2), at=(0, 100)),
    ]
    assert names(history(*ops[:2], {**ops[2], "isolation": "transaction"})) == set()
    assert names(history(*ops[:2], {**ops[2], "isolation": "serializable"})) == {"G-single"}


def test_components_of_a_graph_are_found():
    graph = {1: [2], 2: [3], 3: [1, 4], 4: [5], 5: [4], 6: [6]}
    assert {frozenset(each) for each in anomalies.components(graph)} == {
        frozenset({1, 2, 3}), frozenset({4, 5}), frozenset({6})
    }  # fmt: skip


def test_without_go_a_history_is_not_accepted(monkeypatch, tmp_path):
    monkeypatch.setattr(linearizability, "_PROGRAM", tmp_path / "none")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    judged = summary.judge(history(op(append("t", 1, 1))))
    assert not judged.is_good
    assert "Go is not installed" in "\n".join(summary.lines(judged))


def test_a_history_whose_end_was_not_read_is_not_accepted():
    """What is lost shows at the end alone: a store that answers nothing then must not hide it."""
    ops = [op(append("t", 1, 1)), op(append("u", 1, 2)), op(seen("t", 1, 1), is_last=True)]
    lost = op(["read", "u", 1, None], is_last=True, outcome="failed", error="OSError: no answer")
    read_then = op(seen("u", 1, 2), is_last=True)
    for last, is_good in (([lost], False), ([lost, read_then], True), ([lost, lost], False)):
        given = history(*ops, *last)
        given.header.nemesis.append("proxy")
        judged = summary.judge(given)
        assert names(given) == set()
        assert judged.is_good == is_good
        assert ("  not read at the end: u" in summary.lines(judged)) == (not is_good)


def test_a_history_in_which_nothing_was_changed_is_not_accepted():
    refused = [op(append("t", 1, n), outcome="failed", error="DELTA_CONCURRENT_APPEND") for n in range(3)]
    judged = summary.judge(history(*refused, op(seen("t", 1), is_last=True)))
    assert not judged.is_good
    assert "  nothing was changed" in summary.lines(judged)


def test_mutations_have_names():
    named = ["skip-conflict-check", "skip-read-check", "repeat-batches", "lose-vector", "decide-twice"]
    assert list(itertools.chain(MUTATIONS)) == named
