"""Post-commit maintenance of one test is over before the next one."""

import pytest

from headwater.transaction import wait_for_maintenance


@pytest.fixture(autouse=True)
def quiet():
    """No maintenance of another test goes on while a store is made to fail."""
    assert wait_for_maintenance(60)
    yield
    assert wait_for_maintenance(60)
