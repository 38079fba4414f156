"""The options of an upsert: which columns are the keys, which event of a key is the newest, which events delete.

Owns the options' names, what they exclude, and finding the columns that they name. What an expression means, Spark says
(:mod:`headwater.statements.upserts.events`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.basics.errors import HeadwaterError, illegal_option
from headwater.basics.suggestions import did_you_mean
from headwater.protocol.columns import parse_name_list
from headwater.protocol.properties import parse_interval
from headwater.protocol.types import StructField, StructType
from headwater.statements.known_options import check_options
from headwater.statements.running.opening import Options

KEYS = "idCols"
_SEQUENCE, _DELETES, _IGNORES_NULLS = "sequenceBy", "deleteWhen", "ignoreNullUpdates"
_LEFT_OUT, _STORED_AS, _RETENTION = "exceptColumns", "storedAs", "tombstoneRetention"
#: The options that mean something only beside :data:`KEYS`.
_BESIDE_KEYS = (_SEQUENCE, _DELETES, _IGNORES_NULLS, _LEFT_OUT, _STORED_AS, _RETENTION)
#: Ways of storing: the newest row of each key, or a row for each event, with the sequences between which it was that.
_NEWEST, _HISTORY = "scd1", "scd2"
#: For so long the sequence of a deleted key is remembered, unless the option says otherwise: as Databricks has it.
_DEFAULT_RETENTION = "2 days"
#: Options that say what else a write replaces.
_REPLACING = ("replaceWhere", "replaceUsing", "replaceOn", "targetAlias", "partitionOverwriteMode", "overwriteSchema")


@dataclass(frozen=True)
class Upsert:
    """What the options ask.

    :param keys: names of columns, as the user wrote them.
    :param sequence: an expression, Spark SQL: of two events of a key, the one with the greater value is the newer.
    :param deletes: a condition: an event for which it is true deletes its key.
    :param ignores_nulls: whether a null of an event leaves the stored value.
    :param left_out: columns of the events that are not stored.
    :param retention: for how long, in milliseconds, the sequence of a deleted key is remembered.
    :param keeps_history: whether a row is stored for each event, not for the newest of each key alone.
    """

    keys: Sequence[str]
    sequence: str | None
    deletes: str | None
    ignores_nulls: bool
    left_out: Sequence[str]
    retention: int
    keeps_history: bool = False

    @property
    def remembers_deletes(self) -> bool:
        """Whether the sequences of deleted keys are kept, so that an older event does not bring the key back."""
        return self.sequence is not None and self.deletes is not None

    def parameters(self) -> dict[str, object]:
        """What the table's history shows."""
        shown: dict[str, object] = {KEYS: list(self.keys)}
        if self.sequence is not None:
            shown[_SEQUENCE] = self.sequence
        if self.deletes is not None:
            shown[_DELETES] = self.deletes
        if self.ignores_nulls:
            shown[_IGNORES_NULLS] = True
        if self.left_out:
            shown[_LEFT_OUT] = list(self.left_out)
        if self.keeps_history:
            shown[_STORED_AS] = _HISTORY
        return shown


def asked(options: Options) -> bool:
    """Whether the options ask for an upsert.

    :raises HeadwaterError: ``HEADWATER_UPSERT_WITHOUT_KEYS`` if they have an option that needs the keys.
    """
    if KEYS.lower() in options:
        return True
    lone = next((name for name in _BESIDE_KEYS if name.lower() in options), None)
    if lone is not None:
        raise HeadwaterError("HEADWATER_UPSERT_WITHOUT_KEYS", {"option": lone})
    return False


def upsert_of(options: Options) -> Upsert:
    """What options with :data:`KEYS` ask.

    :raises HeadwaterError: ``DELTA_ILLEGAL_OPTION``, ``DELTA_INVALID_INTERVAL``,
        ``DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS``, ``HEADWATER_UPSERT_NESTED_COLUMN``.
    """
    for name in _REPLACING:
        if name.lower() in options:
            raise HeadwaterError("DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS", {"option1": KEYS, "option2": name})
    if options.flag("dataChange") is False:
        raise HeadwaterError("DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS", {"option1": KEYS, "option2": "dataChange"})
    stored_as = options.get(_STORED_AS.lower(), _NEWEST).strip().lower()
    if stored_as not in (_NEWEST, _HISTORY):
        explain = f"must be {_NEWEST}, which keeps the newest row of each key, or {_HISTORY}, which keeps all of them"
        raise illegal_option(_STORED_AS, options[_STORED_AS.lower()], explain)
    if stored_as == _HISTORY and _SEQUENCE.lower() not in options:
        explain = f"needs {_SEQUENCE}, which says from when to when each row was the newest of its key"
        raise illegal_option(_STORED_AS, options[_STORED_AS.lower()], explain)
    keys = _names(options, KEYS)
    left_out = _names(options, _LEFT_OUT) if _LEFT_OUT.lower() in options else []
    for name in left_out:
        if name.lower() in {key.lower() for key in keys}:
            raise illegal_option(_LEFT_OUT, name, f"is one of the key columns that {KEYS} names, which are stored")
    upsert = Upsert(
        keys=keys,
        sequence=_expression(options, _SEQUENCE),
        deletes=_expression(options, _DELETES),
        ignores_nulls=bool(options.flag(_IGNORES_NULLS)),
        left_out=left_out,
        retention=parse_interval(options.get(_RETENTION.lower(), _DEFAULT_RETENTION)),
        keeps_history=stored_as == _HISTORY,
    )
    if upsert.retention < 0:
        raise illegal_option(_RETENTION, options[_RETENTION.lower()], "must not be negative")
    if _RETENTION.lower() in options and not upsert.remembers_deletes:
        explain = f"needs {_SEQUENCE} and {_DELETES}: only then are deleted keys remembered"
        raise illegal_option(_RETENTION, options[_RETENTION.lower()], explain)
    return upsert


def check(given: Mapping[str, str | None], mode: str) -> Upsert:
    """What the options of a batch write ask; an option that there is not is refused, as one misspelt would change what
    is written.

    :param mode: how the write treats the rows that are there.
    :raises HeadwaterError: those of :func:`upsert_of`; ``HEADWATER_UPSERT_NEEDS_APPEND``;
        ``HEADWATER_UNKNOWN_OPTION`` with the nearest name.
    """
    if mode != "append":
        raise HeadwaterError("HEADWATER_UPSERT_NEEDS_APPEND", {"mode": mode})
    check_options(given, f"A write with {KEYS}")
    return upsert_of(Options(given))


def find_column(name: str, schema: StructType, option: str) -> StructField:
    """The column of a schema that an option names.

    :raises HeadwaterError: ``HEADWATER_UPSERT_COLUMN_NOT_FOUND`` with the nearest name.
    """
    found = schema.find(name)
    if found is None:
        suggestion = did_you_mean(name, schema.names) or f" There are: {', '.join(schema.names)}."
        raise HeadwaterError(
            "HEADWATER_UPSERT_COLUMN_NOT_FOUND", {"option": option, "column": name, "suggestion": suggestion}
        )
    return found


def find_keys(upsert: Upsert, schema: StructType) -> list[StructField]:
    """The key columns in a schema."""
    return [find_column(name, schema, KEYS) for name in upsert.keys]


def find_left_out(upsert: Upsert, schema: StructType) -> frozenset[str]:
    """The names of the columns that are not stored, as the schema has them."""
    return frozenset(find_column(name, schema, _LEFT_OUT).name for name in upsert.left_out)


def _names(options: Options, option: str) -> list[str]:
    text = options[option.lower()]
    try:
        paths = parse_name_list(text)
    except HeadwaterError as error:
        raise illegal_option(option, text, "must name columns, separated by commas") from error
    if not paths:
        raise illegal_option(option, text, "must name at least one column")
    for path in paths:
        if len(path) > 1:
            raise HeadwaterError("HEADWATER_UPSERT_NESTED_COLUMN", {"option": option, "column": ".".join(path)})
    names = [path[0] for path in paths]
    folded = [name.lower() for name in names]
    twice = next((name for name in names if folded.count(name.lower()) > 1), None)
    if twice is not None:
        raise illegal_option(option, text, f"names {twice} more than once")
    return names


def _expression(options: Options, option: str) -> str | None:
    text = options.get(option.lower())
    if text is not None and not text.strip():
        raise illegal_option(option, text, "must be a column or an expression")
    return text
