"""Per-file statistics: read into typed Arrow columns, and written from Parquet footers."""
