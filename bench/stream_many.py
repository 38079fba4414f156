"""The cases of streams that go on for long, and of many streams at once.

A stream must not become slower with its micro-batches: the last ten of a thousand are compared with the first ten, of
the same stream, after another one has warmed up the processes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from bench.cases import Against, Bench, Case, Timed
from bench.sparks import OURS, PEER

_FIRST = "first ten"
_BATCHES = 1000
_COMPARED = 10
_WARM_UP_BATCHES = 60
_STREAMS = 20
_FILES = 10


def _written(bench: Bench, side: str) -> Path:
    """What the stream of many micro-batches writes, and the other one then reads."""
    return bench.directory / f"stream-many-{bench.spark(side).kind}-table"


def _batches_out(bench: Bench, side: str, name: str, batches: int) -> list[float]:
    table, checkpoint = (bench.directory / f"{name}-{bench.spark(side).kind}-{kind}" for kind in ("table", "out"))
    for folder in (table, checkpoint):
        shutil.rmtree(folder, ignore_errors=True)
    return _seconds(bench, side, "batches_out", table=str(table), checkpoint=str(checkpoint), batches=batches)


def _batches_in(bench: Bench, side: str, name: str, batches: int) -> list[float]:
    checkpoint = bench.directory / f"{name}-{bench.spark(side).kind}-in"
    shutil.rmtree(checkpoint, ignore_errors=True)
    source = str(_written(bench, side))
    return _seconds(bench, side, "batches_in", source=source, checkpoint=str(checkpoint), batches=batches)


def _seconds(bench: Bench, side: str, call: str, **request: str | int) -> list[float]:
    return [float(seconds) for seconds in bench.spark(side).call(call, **request)["seconds"]]


def _first_and_last(name: str) -> Timed:
    """Seconds of a micro-batch of one stream: the median of the last, or for the other side of the first."""
    run = {"stream-many-out": _batches_out, "stream-many-in": _batches_in}[name]
    known: dict[tuple[str, int], list[float]] = {}

    def timed(bench: Bench, side: str, number: int) -> float:
        of = bench.spark(side).kind, number
        if of not in known:
            known[of] = run(bench, side, "stream-many", _BATCHES)
        return median(known[of][:_COMPARED] if side == _FIRST else known[of][-_COMPARED:])

    return timed


def _prepare_out(bench: Bench, side: str) -> None:
    if side != _FIRST:
        _batches_out(bench, side, "stream-many-warm-up", _WARM_UP_BATCHES)


def _prepare_in(bench: Bench, side: str) -> None:
    if side != _FIRST:
        if not _written(bench, side).exists():
            _batches_out(bench, side, "stream-many", _BATCHES)
        _batches_in(bench, side, "stream-many-warm-up", _WARM_UP_BATCHES)


def _source(bench: Bench) -> Path:
    return bench.directory / "streams-source"


def _prepare_streams(bench: Bench, side: str) -> None:
    if not _source(bench).exists():
        bench.spark(OURS).run(
            f"CREATE TABLE delta.`{_source(bench)}` USING delta AS SELECT id, concat('name ', id) AS name "
            f"FROM range(0, {1000 * _FILES}, 1, {_FILES})"
        )


def _streams(bench: Bench, side: str, number: int) -> float:
    """Seconds a micro-batch, of all streams at once."""
    table, checkpoint = (bench.path(f"streams-{kind}{number}", side) for kind in ("tables", "checkpoints"))
    try:
        answer = bench.spark(side).call(
            "streams", source=str(_source(bench)), table=str(table), checkpoint=str(checkpoint), count=_STREAMS
        )
        if (answer["batches"], answer["rows"]) != (_STREAMS * _FILES, _STREAMS * _FILES * 1000):
            raise AssertionError(f"{side}: {answer}")
        return float(answer["seconds"] / answer["batches"])
    finally:
        shutil.rmtree(table, ignore_errors=True)
        shutil.rmtree(checkpoint, ignore_errors=True)


def cases() -> Iterator[Case]:
    """The cases."""
    for name, prepare, what in (
        ("stream-many-out", _prepare_out, "written"),
        ("stream-many-in", _prepare_in, "read"),
    ):
        yield Case(
            name,
            f"a micro-batch {what} by a stream, the last of {_BATCHES:,}",
            (Against(_FIRST, ratio=1.0),),
            _first_and_last(name),
            1,
            prepare,
            warm_up=0,
        )
    yield Case(
        "streams",
        f"a micro-batch of {_STREAMS} streams at once, from a table to tables",
        (Against(PEER, ratio=0.5),),
        _streams,
        1,
        _prepare_streams,
        warm_up=1,
    )
