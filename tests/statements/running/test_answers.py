"""What a statement did is a sentence on the terminal, if Spark was started for a person, and nothing elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from headwater.basics import start_settings
from headwater.statements.running import answers
from headwater.transaction.commit_info import Provenance
from support.recording_statement import RecordingStatement

_UPDATE = Provenance("UPDATE", metrics={"numUpdatedRows": "2", "numAddedFiles": 1, "numRemovedFiles": 1})


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(answers, "TERMINAL", str(tmp_path / "terminal"))
    before = dict(start_settings._given)
    start_settings.take({start_settings.PROGRESS: "true"})
    yield tmp_path / "terminal"
    start_settings.take(before)


def _say(provenance: Provenance) -> None:
    statement: Any = RecordingStatement()
    statement.title = "UPDATE riv\x1bers"
    answers.say_what_it_did(cast("Any", statement), provenance, 7)


def test_the_sentence(terminal: Path) -> None:
    _say(_UPDATE)
    assert terminal.read_text() == ("UPDATE riv\\x1bers: version 7, 2 rows updated, 1 file added, 1 file removed\n")


def test_streams_and_maintenance_say_nothing(terminal: Path) -> None:
    for operation in ("STREAMING UPDATE", "OPTIMIZE"):
        _say(Provenance(operation, metrics={"numAddedFiles": 1}))
    assert not terminal.exists()


def test_elsewhere_nothing_is_said(terminal: Path) -> None:
    start_settings.take({})
    _say(_UPDATE)
    assert not terminal.exists()


def test_without_a_terminal_the_statement_succeeds(terminal: Path) -> None:
    terminal.mkdir()
    _say(_UPDATE)
