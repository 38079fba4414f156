"""Iceberg: its types and files, and the metadata by which Iceberg's readers can read a Delta table.

Owns what the specification of Iceberg's tables says of types, values, manifests and metadata files. Nothing here knows
Spark or commits.
"""
