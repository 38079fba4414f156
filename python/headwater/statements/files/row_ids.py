"""Row ids in data files: the hidden columns by which rewritten rows keep their identity.

Owns the two columns that follow the table's own in a job that writes rows of the table again. Whether a job has them is
decided by what writes it: :mod:`headwater.statements.dml.rewrite` for DML, and
:mod:`headwater.statements.files.copied_rows` for rows that are only copied. Follows the protocol's chapter "Row
Tracking": a null means that the row's id, or its commit version, is the one that its file gives it.
"""

from __future__ import annotations

import dataclasses

from msgspec.structs import replace

from headwater.bridge.messages.callbacks import WriteSpecification
from headwater.protocol.row_tracking import HiddenColumns
from headwater.protocol.types import PrimitiveType, StructField, StructType, parse_schema, schema_string
from headwater.schema.iceberg import ROW_TRACKING_FIELD_IDS
from headwater.statements.files.rows import PARQUET_FIELD_ID, Target


def with_row_ids(specification: WriteSpecification, hidden: HiddenColumns | None, target: Target) -> WriteSpecification:
    """A write job whose query has row ids and row commit versions after the table's columns.

    :param hidden: the columns' names in data files; None if the query has none.
    """
    if hidden is None:
        return specification
    added = [StructField(name, PrimitiveType("long")) for name in hidden]
    if target.definition.iceberg_compat:
        added = [
            dataclasses.replace(column, metadata={PARQUET_FIELD_ID: field_id})
            for column, field_id in zip(added, ROW_TRACKING_FIELD_IDS, strict=True)
        ]
    columns = parse_schema(specification.schema)
    return replace(specification, schema=schema_string(StructType((*columns, *added))))
