"""Headwater: Delta tables for Apache Spark, run by Python.

The public names are few: :func:`configure` and :func:`jar_path` here, the builder API in :mod:`headwater.tables`, and the
``headwater`` command in :mod:`headwater.cli`. Importing this package is cheap; nothing heavy is loaded until used.
"""

__version__ = "0.1.0"
