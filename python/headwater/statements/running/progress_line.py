"""The line of progress in Spark's shells, which the JVM draws in the place of Spark's own bar.

Owns what the line says, from the jobs that Spark's side sees each half second (:mod:`headwater.basics.running_work`).
The JVM takes the line away at the end of each job, before the shell prints.
"""

from __future__ import annotations

import os
import time

from headwater.basics.running_work import Job, Watch, terminal_line
from headwater.bridge.messages.progress import ShowJobsRequest
from headwater.bridge.statement import Statement
from headwater.statements.calls import reads
from headwater.statements.running.answers import TERMINAL

#: One JVM has one shell, and one process of these.
_WATCH = Watch()
_USUAL_WIDTH = 80


@reads
def show_jobs(request: ShowJobsRequest, statement: Statement) -> str | None:
    """The line for the jobs that run; empty for none, None for the line that is there."""
    jobs = [
        Job(
            job.description or "",
            job.group or "",
            job.done,
            job.tasks,
            job.rows_read,
            job.bytes_read,
            job.rows_written,
        )
        for job in request.jobs
    ]
    works = _WATCH.look(jobs, request.streams, time.monotonic())
    return None if works is None else terminal_line(works, _width())


def _width() -> int:
    """The columns of the terminal that started Spark but the last one, in which a terminal would begin another line."""
    try:
        with open(TERMINAL, encoding="utf-8") as terminal:
            columns = os.get_terminal_size(terminal.fileno()).columns
    except OSError:
        columns = 0
    return (columns or _USUAL_WIDTH) - 1
