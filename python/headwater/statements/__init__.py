"""SQL statements and DataFrame operations: a folder for each kind, with shared code beside them."""
