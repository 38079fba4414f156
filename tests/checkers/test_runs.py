"""Clients in several processes: their history is accepted, and that of a broken commit protocol is not."""

from __future__ import annotations

import shutil

import pytest
from histories import summary
from histories.mutations import MUTATIONS
from histories.running import Setting, run_round

#: Rounds until one is refused, at most: together as long as the run of CI is.
_ROUNDS, _SECONDS = 4, 30.0


@pytest.fixture(autouse=True)
def _checker() -> None:
    if shutil.which("go") is None:
        pytest.skip("Go is not installed, which builds Porcupine's checker")


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.soak  # the usual run has the checkers on histories made by hand
def test_clients_that_are_stopped_and_killed_see_what_is_promised(tmp_path):
    judged = summary.judge(run_round(Setting(seconds=_SECONDS, seed=1), tmp_path / "round"))
    assert judged.is_good, "\n".join(summary.lines(judged))
    assert sum(op.outcome == "ok" for op in judged.history.ops) > 100
    assert {op.isolation for op in judged.history.ops} == {"statement", "transaction", "serializable"}


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_commit_protocol_is_found(name, tmp_path):
    """By what the clients were told; errors that nobody expects do not count."""
    for seed in range(_ROUNDS):
        setting = Setting(seconds=_SECONDS, seed=seed, mutate=name)
        judged = summary.judge(run_round(setting, tmp_path / f"round{seed}"))
        if judged.found or any(each.verdict == "illegal" for each in judged.verdicts):
            return
    pytest.fail(f"{name} was not found in {_ROUNDS} rounds of {_SECONDS} s")
