"""Predicates from Spark SQL text, for tests that read better so.

No part of the product reads a predicate from text. This reads what Catalyst prints of an analysed predicate: attributes
by name without a qualifier, literals that carry their type, every cast written out.
"""

from __future__ import annotations

import json
from typing import Any

from headwater.pruning.predicates import encode
from support.predicate_text.parsing import parse_predicate

__all__ = ["parse_predicate", "tree"]


def tree(text: str) -> Any:
    """The JSON value of a predicate, as Spark's side sends it."""
    return json.loads(encode(parse_predicate(text)))
