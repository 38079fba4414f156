"""Statements Spark's parser does not know."""
