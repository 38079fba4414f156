"""Transactions."""

from headwater.transaction.conflicts import Isolation
from headwater.transaction.transaction import Committed, Transaction
from headwater.transaction.upkeep import wait_for_upkeep

__all__ = ["Committed", "Isolation", "Transaction", "wait_for_upkeep"]
