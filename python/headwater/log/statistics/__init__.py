"""Per-file statistics: read into typed Arrow columns, and written from Parquet footers.

Which columns have statistics: :mod:`headwater.protocol.indexed_columns`. Data skipping: :mod:`headwater.pruning`.
"""
