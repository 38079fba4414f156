"""Small helpers that every floor needs, without a subject of their own: times, errors, bounded caches, redaction."""
