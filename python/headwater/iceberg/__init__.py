"""Iceberg: its types and files, and the metadata that makes a Delta table one that Iceberg's readers see.

Owns what the specification of Iceberg's tables says of types, values, manifests and metadata files. Nothing here knows
Spark or commits.
"""
