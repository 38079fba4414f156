"""Benchmarks, side by side with Delta Lake and plain Parquet: ``python -m bench`` prints a table of all cases."""
