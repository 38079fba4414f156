"""The transaction log: segments, replay, snapshots, history, commits, checksums, cleanup."""
