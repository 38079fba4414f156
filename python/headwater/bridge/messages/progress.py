"""What runs: the jobs of Spark that a shell's line of progress shows."""

from __future__ import annotations

from headwater.bridge.messages import Request


class RunningJob(Request, kw_only=True):
    """A running job: its name, its tasks, and what these have read and written so far.

    :param group: its job group.
    :param done: its tasks that are done; ``tasks``: those that are known.
    """

    description: str | None = None
    group: str | None = None
    done: int
    tasks: int
    rows_read: int
    bytes_read: int
    rows_written: int


class ShowJobsRequest(Request, kw_only=True):
    """Asks what the line of progress is to show. The answer is the line; empty if there is nothing to show, and None if
    what it shows may stay.

    :param streams: the runs of the streams that are active.
    """

    jobs: list[RunningJob]
    streams: list[str]
