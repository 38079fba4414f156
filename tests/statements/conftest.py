"""Statements without Spark: each test has a stand-in for the JVM's side."""

import pytest

from support.recording_statement import RecordingStatement


@pytest.fixture
def statement():
    return RecordingStatement()


@pytest.fixture
def make_statement():
    return RecordingStatement
