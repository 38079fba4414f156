"""Every message between Spark's side and this process, declared once.

Owns what all messages share. A request is what Spark's side sends with a call, an answer what it gets back; a call
back to Spark (:mod:`headwater.bridge.messages.callbacks`) goes the other way. Each message is a struct here;
``jvm/messages.py`` writes the case class of the same name in the package ``headwater.spark.bridge.messages``.

On the wire a message is a JSON object whose members are the fields' names in camel case. A request with a member that
is not declared is an error, as is one that lacks a member without a default. Sizes are in bytes and times in
milliseconds since the epoch, UTC, unless a field says otherwise. A schema is the JSON text that Spark and the log use.
"""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar

import msgspec

#: A number that is an ``Int`` in the JVM: of a plan, an expression or a column, or a count that cannot be large.
Int = Annotated[int, msgspec.Meta(extra={"scala": "Int"})]
#: The options of a reader or writer, as Spark has them: those set to None mean nothing.
Options = Annotated[dict[str, str | None], msgspec.Meta(extra={"scala": "Map[String, String]"})]
#: Of a part of a message that the JVM has as JSON when it writes the message.
WRITTEN_ALREADY = msgspec.Meta(extra={"scala": "JsonNode"})


class Request(msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """What Spark's side sends, or a part of it."""


class Answer(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True):
    """What this process sends, or a part of it. A member that is None or False by default is left out where it is."""


class PassedOn(Request, kw_only=True):
    """What this process has sent, and Spark's side sends back without a look into it."""


class StoreIdentity(Request, kw_only=True):
    """Of the options that a table is reached with, no more than whether they are the same.

    :param identity: equal for equal options; empty without any.
    :param managed: what the handler has called a table that a catalog manages.
    """

    root: str
    identity: str
    managed: str | None = None


class SessionSettings(Request, kw_only=True):
    """What a statement may know of its session.

    :param time_zone: the session's time zone, as Spark names it.
    :param user: who runs Spark.
    :param confs: the session's settings that handlers read, by name.
    :param stores: the statement's tables, its own first; empty if none is reached with options of its own.
    """

    time_zone: str = "UTC"
    user: str | None = None
    application_id: str | None = None
    spark_version: str | None = None
    confs: dict[str, str] = {}
    stores: list[StoreIdentity] = []


RequestT = TypeVar("RequestT")


class Envelope(msgspec.Struct, Generic[RequestT], rename="camel", forbid_unknown_fields=True):
    """What crosses with each call: the session's settings and the call's own request."""

    session: SessionSettings
    request: RequestT


class ErrorDescription(Answer, kw_only=True):
    """An error as a user will see it.

    :param text: the message, final: it has no placeholders.
    :param parameters: what filled the message's placeholders.
    """

    condition: str
    sql_state: str
    text: str
    parameters: dict[str, str]
