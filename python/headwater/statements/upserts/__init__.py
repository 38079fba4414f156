"""Upserts by key columns: rows that replace those of a table with the same keys."""
