"""Streams: tables as their sources and sinks."""
