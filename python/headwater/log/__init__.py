"""The transaction log: actions, file names, segment listing, replay, snapshots, checkpoints, checksums, stores."""
