"""Schema evolution of MERGE: the columns the target will have, which analysis needs to know.

Owns which columns of the source are added to the table, where the statement or the session allows that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from headwater.bridge.messages.change import CopiedColumn, MergeTargetAnswer, MergeTargetRequest
from headwater.bridge.statement import Statement
from headwater.errors import HeadwaterError
from headwater.protocol.types import StructField, StructType, parse_schema
from headwater.schema.evolution import merge_schemas
from headwater.schema.generated import generated_columns
from headwater.schema.identity import identity_columns
from headwater.statements.opening import open_same
from headwater.statements.write.insert import AUTO_MERGE, evolved, widens


def merge_target(request: MergeTargetRequest, statement: Statement) -> MergeTargetAnswer:
    """The columns the target will have.

    :raises HeadwaterError: ``DELTA_MERGE_SOURCE_DUPLICATE_COLUMNS``, and those of merging schemas.
    """
    snapshot = open_same(request, statement, request.version)
    source = parse_schema(request.source)
    table = snapshot.schema
    if request.star:
        _check_distinct(source)
    computed = [
        *(column.name.lower() for column in generated_columns(table)),
        *(column.name.lower() for column in identity_columns(table)),
    ]
    evolves = request.with_schema_evolution or statement.flag(AUTO_MERGE)
    answer = MergeTargetAnswer(target=None, computed=computed, by_source=evolves)
    if not evolves:
        return answer
    brought = source if request.star else _copied(source, request.assigned)
    schema = merge_schemas(table, brought, allow_widening=widens(snapshot), keep_existing_type=True)
    return MergeTargetAnswer(target=evolved(snapshot, schema), computed=computed, by_source=evolves)


def _check_distinct(source: StructType) -> None:
    counted = Counter(column.name.lower() for column in source)
    twice = [name for name, count in counted.items() if count > 1]
    if twice:
        raise HeadwaterError("DELTA_MERGE_SOURCE_DUPLICATE_COLUMNS", {"columns": ", ".join(twice)})


def _copied(source: StructType, assigned: Sequence[CopiedColumn]) -> StructType:
    """The part of the source's schema that is assigned to columns of the same names."""
    brought: dict[str, StructField] = {}
    for assignment in assigned:
        key, value = assignment.key, assignment.value
        path = value if source.find(value[0]) is not None else value[1:]
        folded = [name.lower() for name in path]
        if not path or [name.lower() for name in key[-len(path) :]] != folded or len(key) > len(path) + 1:
            continue
        field = _only(source, path)
        if field is not None:
            known = brought.get(field.name.lower())
            brought[field.name.lower()] = field if known is None else _both(known, field)
    return StructType(tuple(brought.values()))


def _only(struct: StructType, path: Sequence[str]) -> StructField | None:
    """The field at a path, in structs that have nothing else; None where there is no such field."""
    field = struct.find(path[0])
    if field is None or len(path) == 1:
        return field
    if not isinstance(field.type, StructType):
        return None
    inner = _only(field.type, path[1:])
    return None if inner is None else replace(field, type=StructType((inner,)))


def _both(one: StructField, other: StructField) -> StructField:
    if isinstance(one.type, StructType) and isinstance(other.type, StructType):
        return replace(one, type=merge_schemas(one.type, other.type, allow_widening=False, keep_existing_type=True))
    return other
