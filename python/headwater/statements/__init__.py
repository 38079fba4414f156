"""SQL statements and DataFrame operations: a folder for each kind, the plumbing they share beside them."""
