"""Reading: scans, the change feed, DESCRIBE."""
