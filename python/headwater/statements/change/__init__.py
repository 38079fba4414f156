"""Changing rows: DELETE, UPDATE, MERGE, TRUNCATE."""
