"""``delta.connect``: the same classes work with classic sessions and with Spark Connect's."""
