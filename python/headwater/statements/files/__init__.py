"""Reading and writing a table's data files: what statements about rows share."""
