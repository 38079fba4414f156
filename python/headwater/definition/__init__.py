"""A table's definition: created, evolved, configured, cloned, and put into a transaction.

Owns every ``protocol`` and ``metaData`` action that Headwater writes. :mod:`headwater.definition.changes` has a
function for each way in which a definition comes about; :mod:`headwater.definition.rules` is the one table of what each
of them does, in which order; :mod:`headwater.definition.requirements` says which features follow. Follows the
protocol's chapters "Change Metadata", "Protocol Evolution", "Table Features" and "Column Mapping". Promise: whichever
statement defines a table, a feature, a column's id, a high-water mark and a demand of a catalog are handled by the same
rule.
"""
