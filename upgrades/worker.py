"""The process of one version, which tells chapters, has jobs held and writes together with another.

It has the package of that version, Spark's session, and this folder's modules, which name nothing that an earlier
version lacks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench import worker

from upgrades import jobs, story, together
from upgrades.story import At


def _at(name: str, folder: str) -> At:
    """A session of its own, so that what a failed chapter leaves open concerns no other."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    return At(worker.session().newSession(), name, folder)


def tell(chapter: str, part: str, steps: int, name: str, folder: str) -> dict[str, Any]:
    """A part of a chapter: ``begin``, ``step`` or ``check``, after so many steps."""
    told, at = story.BY_NAME[chapter], _at(name, folder)
    if part == "begin":
        told.begin(at)
    else:
        {"step": told.step, "check": told.check}[part](at, steps)
    return {}


def hold(job: str, folder: str) -> dict[str, Any]:
    """Have a job held at each of its steps: this process must be killed then."""
    return {"held": jobs.kill(jobs.BY_NAME[job], _at("", folder))}


def resume(job: str, folder: str) -> dict[str, Any]:
    """Continue a job that was killed."""
    jobs.resume(jobs.BY_NAME[job], _at("", folder))
    return {}


def look(job: str, folder: str) -> dict[str, Any]:
    """Compare the end of a job that another version has finished with the truth."""
    jobs.look(jobs.BY_NAME[job], _at("", folder))
    return {}


def pair(name: str, part: str, side: int, folder: str) -> dict[str, Any]:
    """A part of what two versions do together: ``prepare``, ``write`` or ``check``."""
    work, at = together.BY_NAME[name], _at("", folder)
    if part == "write":
        work.write(at, side)
    else:
        {"prepare": work.prepare, "check": work.check}[part](at)
    return {}


if __name__ == "__main__":
    worker.serve({"start": worker.start, "tell": tell, "hold": hold, "resume": resume, "look": look, "pair": pair})
