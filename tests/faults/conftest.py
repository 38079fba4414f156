"""The stores and helpers beside the tests are imported by name, whichever way pytest imports the tests themselves."""

import sys
from pathlib import Path

import pytest

from headwater.transaction import wait_for_maintenance

_HERE = Path(__file__).parent
sys.path[:0] = [str(_HERE), *(str(_HERE.parent / name) for name in ("log", "concurrency"))]


@pytest.fixture(autouse=True)
def quiet():
    """No maintenance of another test goes on while a store is made to fail."""
    assert wait_for_maintenance(60)
    yield
    assert wait_for_maintenance(60)
