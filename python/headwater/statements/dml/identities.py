"""Identity columns of the rows that a statement inserts beside others that it changes.

Owns which identity columns the inserts leave to the table, and the high-water marks after they got their values.
Follows the protocol's chapter "Identity Columns".
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.definition.changes import numbered
from headwater.schema.identity import IdentityColumn, identity_columns
from headwater.statements.dml.attempt import Attempt
from headwater.statements.dml.outcome import Job
from headwater.statements.files.identities import advanced_identities
from headwater.statements.files.rows import statistics_leaves


def generated_identities(attempt: Attempt) -> list[IdentityColumn]:
    """Identity columns that inserts leave out."""
    if not attempt.request.not_matched:
        return []
    given = {name for clause in attempt.request.not_matched for name in clause.assigned}
    return [c for c in identity_columns(attempt.target.schema) if c.name.lower() not in given]


def advance_identities(attempt: Attempt, identities: Sequence[IdentityColumn], job: Job) -> None:
    """Commit the high-water marks of the values that a job gave."""
    schema = advanced_identities(attempt.target.schema, identities, statistics_leaves(attempt.target), job.raw)
    if schema is not None:
        attempt.txn.redefine(numbered(attempt.txn.definition, schema))
