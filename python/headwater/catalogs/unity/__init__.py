"""Unity Catalog: its interface for Delta tables, version 1.0, over HTTP."""
