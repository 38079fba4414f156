"""Streams: which files of a table the next micro-batch reads, as pure functions of offsets and the log."""
