"""The declaration of a call from Spark: everything that is known of it, beside its handler.

Owns the record of a call and the decorators that make one of its handler. The handler's name is the call's; its
annotations are the types of the request and the answer. Promise: a record that leaves a question open is an error when
its module is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from headwater.bridge.calls import Handler
from headwater.protocol.types import StructType

RunT = TypeVar("RunT", bound=Callable[..., Any])


class Call(NamedTuple):
    """The record of a call.

    :param grammar: which of :data:`headwater.sql.grammar.GRAMMARS` parses it; None if Spark does.
    :param output: the columns of a statement's rows; None if it has none.
    :param commits: whether it makes versions of the table that it names.
    :param in_transaction: whether it may be part of a transaction over several statements.
    :param words: what a user calls it, for its refusal in a transaction.
    """

    name: str
    handler: Handler[Any]
    grammar: str | None
    output: StructType | None
    commits: bool
    in_transaction: bool
    words: str | None


#: Every call by name, once :mod:`headwater.statements.registry` has imported the handlers.
CALLS: dict[str, Call] = {}


def own_statement(
    grammar: str, *, output: StructType | None, commits: bool, in_transaction: bool, words: str | None = None
) -> Callable[[RunT], RunT]:
    """Declare the handler of a statement of our own grammar."""
    return partial(_declare, grammar, output, commits, in_transaction, words)


def call(*, commits: bool, in_transaction: bool, words: str | None = None) -> Callable[[RunT], RunT]:
    """Declare the handler of what Spark's side asks for a statement that Spark parses."""
    return partial(_declare, None, None, commits, in_transaction, words)


def reads(run: RunT) -> RunT:
    """Declare the handler of a call that changes nothing."""
    return call(commits=False, in_transaction=True)(run)


def _declare(
    grammar: str | None, output: StructType | None, commits: bool, in_transaction: bool, words: str | None, run: RunT
) -> RunT:
    name, types = run.__name__, run.__annotations__
    if in_transaction is not (words is None):
        raise TypeError(f"'{name}' needs words for its refusal if, and only if, it cannot be part of a transaction")
    if name in CALLS or not types.keys() >= {"request", "return"}:
        raise TypeError(f"'{name}' needs a name of its own, and the types of its request and answer")
    # No more than this one, since each takes a compiler's run.
    request = eval(types["request"], run.__globals__)
    CALLS[name] = Call(name, Handler(request, run), grammar, output, commits, in_transaction, words)
    return run
