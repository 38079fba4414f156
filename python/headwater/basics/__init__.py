"""Small helpers that every floor needs and that have no subject of their own: times, errors, caches, redaction."""
