"""Transactions: committing a version, conflicts with other writers, row-level concurrency, post-commit maintenance.

The commit protocol and its failure model: :mod:`headwater.transaction.commit_loop`.
"""

from headwater.transaction.commit_info import Provenance
from headwater.transaction.conflicts import Isolation
from headwater.transaction.maintenance import wait_for_maintenance
from headwater.transaction.transaction import Committed, Transaction

__all__ = ["Committed", "Isolation", "Provenance", "Transaction", "wait_for_maintenance"]
