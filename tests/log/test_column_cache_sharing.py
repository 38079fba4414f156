"""The cache on disk of checkpoints' columns, used and deleted by several threads and processes at once."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time

import pytest

from headwater.log import column_cache
from support.cached_checkpoints import without, write
from support.kept_columns import LEAVES, counted, shown
from support.processes import environment, python


def test_the_directory_may_go_at_any_time(log, directory, caplog):
    write(log, "classic", "text", 1)
    expected = shown(log.load())
    mapped = log.load()
    mapped.statistics(LEAVES)
    shutil.rmtree(directory)
    assert shown(mapped) == expected
    assert shown(log.load()) == expected
    done = threading.Event()

    def delete():
        while not done.is_set():
            shutil.rmtree(directory, ignore_errors=True)
            time.sleep(0.001)

    thread = threading.Thread(target=delete)
    thread.start()
    try:
        for _ in range(8):
            assert shown(log.load()) == expected
    finally:
        done.set()
        thread.join()
    assert caplog.records == []
    assert column_cache._cache is not None
    assert column_cache._cache._rests_until == 0  # what somebody deletes is no failure


def start(log, directory, most_bytes="1g", until=0.0):
    return subprocess.Popen(
        python("support.kept_columns", log.path, str(directory), most_bytes, str(until)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )


def answer(process):
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err.decode()
    assert b"not used" not in err
    assert b"can be kept" not in err
    hits, misses, found = json.loads(out)
    return hits, misses, set(found)


def test_another_process_finds_it(log, directory):
    write(log, "v2 parquet", "both", 2)
    expected = without(log, directory)
    _, misses, found = answer(start(log, directory))
    assert (misses > 0, found) == (True, {expected})
    hits, misses, found = answer(start(log, directory))
    assert (hits > 0, misses, found) == (True, 0, {expected})
    counted()
    assert shown(log.load()) == expected
    assert counted()[1] == 0


@pytest.mark.parametrize("most_bytes", ["1g", "20000"])
def test_processes_at_once(log, directory, most_bytes):
    """With room for all, and with so little that each deletes what others use."""
    write(log, "multi-part", "both", 3)
    expected = without(log, directory)
    until = time.time() + 3
    for hits, misses, found in map(answer, [start(log, directory, most_bytes, until) for _ in range(3)]):
        assert found == {expected}
        assert (hits if most_bytes == "1g" else misses) > 0
    if most_bytes != "1g":
        assert sum(path.stat().st_size for path in directory.iterdir()) <= 20_000


def test_threads_at_once(log, directory):
    write(log, "classic", "text", 4)
    expected = without(log, directory)
    found = []
    threads = [threading.Thread(target=lambda: found.append(shown(log.load()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 8
