"""A store that loses the answer to each put-if-absent, so that its client asks again and finds its own file.

Nothing fails because of that.
``test_faults_of_definitions.py`` has statements over such a store, ``tests/stores`` servers that lose an answer.
"""

from __future__ import annotations

import logging

import pytest
from pyroaring import BitMap64

from headwater.groups.group_commit import commit_together
from headwater.log import deletion_vectors
from headwater.protocol.file_names import STAGED_DIRECTORY
from headwater.stores.hadoop import ConditionalStore
from support.faults.scenario import CHECKPOINTS, KINDS, Life, check
from support.stores.fake_hadoop import FakeHadoop
from support.stores.memory_store import RepeatingStore
from support.table_groups import append, files, hasten, tables


def test_a_life_of_a_table(caplog):
    caplog.set_level(logging.CRITICAL)
    for name, kind in {**KINDS, **CHECKPOINTS}.items():
        store = RepeatingStore()
        life = Life(f"/lost answers, {name}", kind, store, store)
        life.run()
        assert not life.failures
        assert None not in life.outcomes.values()
        check(life)


def test_deletion_vectors():
    store = RepeatingStore()
    store.make_directory("/t/x")
    marks = [BitMap64([1, 5]), BitMap64([7])]
    for prefix in ("", "x"):
        written = deletion_vectors.write_file(marks, "/t", store, prefix)
        assert [deletion_vectors.read(each, "/t", store) for each in written] == marks


def test_commits_of_several_tables(monkeypatch):
    hasten(monkeypatch)
    disk, store = tables("/a", "/b", "/c"), RepeatingStore()
    store.files, store.directories = dict(disk.files), set(disk.directories)
    commit_together([append(path, store) for path in ("/a", "/b", "/c")])
    assert [files(path, store) for path in ("/a", "/b", "/c")] == [{"0", "new"}] * 3
    assert any(STAGED_DIRECTORY in path for path in store.repeated)


def test_a_name_that_another_has_is_taken():
    store = RepeatingStore()
    store.make_directory("/t")
    store.put_once("/t/x", b"mine")
    store.put_once("/t/x", b"mine")
    with pytest.raises(FileExistsError):
        store.put_once("/t/x", b"of another")


def test_a_server_is_tried_over_such_a_connection(tmp_path):
    class Repeating(FakeHadoop):
        def create_conditionally(self, path, data):
            super().create_conditionally(path, data)
            raise FileExistsError(path)

    ConditionalStore(Repeating(tmp_path)).check_writable("s3a://b/t")
