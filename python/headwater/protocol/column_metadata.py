"""Keys of a column's metadata in the table schema, each declared once.

Follows the protocol's chapters "Column Mapping", "Column Invariants", "Default Columns", "Generated Columns", "Identity
Columns", "Type Widening" and "Iceberg Compatibility V2". What the keys mean to writers is in :mod:`headwater.schema`.
"""

from __future__ import annotations

COLUMN_ID = "delta.columnMapping.id"
PHYSICAL_NAME = "delta.columnMapping.physicalName"
#: Ids of elements, keys and values within a column, by their path from its physical name: ``col-1.value.element``.
NESTED_IDS = "delta.columnMapping.nested.ids"

INVARIANTS = "delta.invariants"

#: The default expression of a column, Spark SQL.
CURRENT_DEFAULT = "CURRENT_DEFAULT"
#: Spark's value for rows of files that lack the column. Delta tables do not have it: such rows are null.
EXISTS_DEFAULT = "EXISTS_DEFAULT"

GENERATION_EXPRESSION = "delta.generationExpression"

IDENTITY_START = "delta.identity.start"
IDENTITY_STEP = "delta.identity.step"
IDENTITY_HIGH_WATER_MARK = "delta.identity.highWaterMark"
IDENTITY_ALLOW_EXPLICIT_INSERT = "delta.identity.allowExplicitInsert"

TYPE_CHANGES = "delta.typeChanges"

#: The declared type of a ``char`` or ``varchar`` column, which the schema stores as ``string``. Spark's key.
DECLARED_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
