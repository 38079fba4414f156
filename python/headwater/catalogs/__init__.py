"""Catalogs that manage tables: what the log and transactions need of them, and the view of a log that they ratify."""
