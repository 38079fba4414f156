"""Writing rows: INSERT, overwrites, DataFrame writes."""
