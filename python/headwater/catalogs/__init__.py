"""Catalogs that manage tables: what the log and transactions need from them, and the log as they ratify it."""
