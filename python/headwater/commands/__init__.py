"""Statements: one module each, and the registry of what Spark may call."""
