"""The change data feed: which rows each version of a table inserted, deleted and updated.

Owns the way from a range of versions to the files that hold its changes; follows the protocol's chapters "Change Data
Files" and "Add CDC File". Knows nothing of Spark.
"""
