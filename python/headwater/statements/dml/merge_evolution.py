"""Schema evolution of MERGE: the columns the target will have, which analysis needs to know.

Owns which columns of the source are added to the table, where the statement or the session allows that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import replace

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.change import MergeTargetAnswer, MergeTargetRequest
from headwater.bridge.statement import Statement
from headwater.protocol.columns import Path, format_name
from headwater.protocol.types import StructType, parse_schema
from headwater.schema.generated import generated_columns
from headwater.schema.identity import identity_columns
from headwater.statements.calls import reads
from headwater.statements.running.opening import open_same
from headwater.statements.settings import AUTO_MERGE
from headwater.statements.writes.evolving import grown_schema
from headwater.statements.writes.insert import described_with


@reads
def merge_target(request: MergeTargetRequest, statement: Statement) -> MergeTargetAnswer:
    """The columns the target will have.

    :raises HeadwaterError: ``AMBIGUOUS_REFERENCE``, and those of merging schemas.
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
    evolves = request.with_schema_evolution or AUTO_MERGE.of(statement)
    answer = MergeTargetAnswer(target=None, computed=computed, evolves=evolves)
    if not evolves:
        return answer
    brought = _brought(source, {_folded(path) for path in request.assigned}, star=request.star)
    schema = grown_schema(snapshot, brought, statement, table_name=snapshot.metadata.name or snapshot.table_path)
    return MergeTargetAnswer(target=described_with(snapshot, schema), computed=computed, evolves=True)


def _check_distinct(source: StructType) -> None:
    counted = Counter(column.name.lower() for column in source)
    for name, count in counted.items():
        if count > 1:
            raise HeadwaterError("AMBIGUOUS_REFERENCE", {"name": format_name((name,))})


def _brought(source: StructType, assigned: Set[Path], *, star: bool, above: Path = ()) -> StructType:
    """The part of the source's schema that goes into the target's: what an assignment names, whatever its value is, and
    all else where a clause has ``*``.

    :param assigned: the paths of the columns and fields that are assigned, folded.
    """
    fields = []
    for field in source:
        path = (*above, field.name.lower())
        if path in assigned:
            fields.append(field)
        elif isinstance(field.type, StructType):
            inner = _brought(field.type, assigned, star=star, above=path)
            if star or inner.fields:
                fields.append(replace(field, type=inner))
        elif star:
            fields.append(field)
    return StructType(tuple(fields))


def _folded(path: Sequence[str]) -> Path:
    return tuple(name.lower() for name in path)
