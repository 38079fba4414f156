"""What the operating system refuses is told with the file and what to do, wherever it is met."""

import errno
import json
import os
import tempfile

import pytest

from headwater.bridge.calls import EntryPoint
from headwater.statements.registry import HANDLERS
from headwater.statements.running.opening import CACHE
from headwater.stores import LocalStore
from support.requests import create_request, create_table, schema_json

_ADVICE = {
    errno.ENOSPC: "Free space",
    errno.EDQUOT: "quota",
    errno.EROFS: "for writing",
    errno.EMFILE: "ulimit -n",
    errno.EACCES: "right to read and write",
    errno.EIO: "Check that",
}


class Context:
    """The JVM's side of a statement, as far as it is asked here."""

    def files(self):
        raise AssertionError("a local table needs no Spark")

    def beginCommit(self, description):
        pass


def ask(name, request):
    return json.loads(
        EntryPoint(lambda: HANDLERS).call(name, json.dumps({"session": {}, "request": request}), Context())
    )


def failing(number):
    def fail(*arguments, **options):
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize(("call", "number"), [(c, n) for c in ("fsync", "mkstemp") for n in _ADVICE])
def test_a_log_that_cannot_be_written(tmp_path, monkeypatch, call, number):
    path = tmp_path / "t"
    request = create_request(path, schema_json(a="integer"))
    with monkeypatch.context() as patch:
        patch.setattr(tempfile if call == "mkstemp" else os, call, failing(number))
        error = ask("create_table", request)["error"]
    assert error["condition"] == "DELTA_FILE_ACCESS_FAILED", error
    assert str(path) in error["text"]
    assert os.strerror(number) in error["text"]
    assert _ADVICE[number] in error["text"]
    assert ask("create_table", request)["result"]["version"] == 0


@pytest.mark.parametrize("number", _ADVICE)
def test_a_log_that_cannot_be_read(tmp_path, monkeypatch, statement, number):
    create_table(create_request(tmp_path, schema_json(a="integer")), statement)
    CACHE.forget(str(tmp_path))
    monkeypatch.setattr(LocalStore, "list_from", failing(number))
    error = ask("load_table", {"table": str(tmp_path)})["error"]
    assert error["condition"] == "DELTA_FILE_ACCESS_FAILED", error
    assert str(tmp_path) in error["text"]
    assert _ADVICE[number] in error["text"]


@pytest.mark.parametrize(("raised", "said"), [(RecursionError("deep"), "nested too deeply"), (MemoryError(), "memory")])
def test_limits_of_the_process(tmp_path, monkeypatch, raised, said):
    def fail(*arguments):
        raise raised

    monkeypatch.setattr(LocalStore, "list_from", fail)
    error = ask("load_table", {"table": str(tmp_path)})["error"]
    assert error["condition"] == "DELTA_INTERNAL_ERROR"
    assert said in error["text"]
    assert "RecursionError" not in error["text"]
