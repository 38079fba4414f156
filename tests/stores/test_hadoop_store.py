"""What is decided about Hadoop's file systems: which are written and how, and what is asked of them how often."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.basics.backoff import Backoff
from headwater.basics.errors import HeadwaterError
from headwater.stores import HadoopStore, store_for
from headwater.stores.hadoop import ReplacedMeanwhile, RequestNotKnown, RequestPutOff
from headwater.stores.schemes import SCHEMES, Promise
from support.stores.fake_hadoop import FakeHadoop


@pytest.fixture
def hadoop(tmp_path):
    return FakeHadoop(tmp_path)


@pytest.fixture(autouse=True)
def no_waits(monkeypatch):
    monkeypatch.setattr("headwater.basics.backoff.OF_REQUESTS", Backoff(0, 0))


@pytest.mark.parametrize(
    ("scheme", "ways"),
    [
        ("hdfs", ["create by rename"] * 2 + ["replace by rename"]),
        ("webhdfs", ["create by rename"] * 2 + ["replace by rename"]),
        ("viewfs", ["create by rename"] * 2 + ["replace by rename"]),
        ("s3a", ["create conditionally"] * 2 + ["replace"]),
        ("s3", ["create conditionally"] * 2 + ["replace"]),
        ("gs", ["create exclusively"] * 2 + ["replace"]),
        ("abfss", ["create by rename"] * 2 + ["replace by rename"]),
        ("abfs", ["create by rename"] * 2 + ["replace by rename"]),
        ("oci", ["create by rename"] * 2 + ["replace by rename"]),
    ],
)
def test_each_is_read_and_written_in_its_own_way(hadoop, scheme, ways):
    store, path = store_for(f"{scheme}://t/", hadoop)
    assert isinstance(store, HadoopStore)
    assert path == f"{scheme}://t"
    store.make_directory(path)
    store.put_if_absent(f"{path}/x", b"abc")
    with pytest.raises(FileExistsError):
        store.put_if_absent(f"{path}/x", b"abc")
    store.put(f"{path}/y", b"def")
    assert hadoop.calls == ways
    assert [info.name for info in store.list_from(path, "y")] == ["y"]
    assert store.read_many([f"{path}/x", f"{path}/y"]) == [b"abc", b"def"]
    assert store.read_range(f"{path}/x", 1, 1) == b"b"
    store.delete(f"{path}/x")
    assert not store.exists(f"{path}/x")


@pytest.mark.parametrize(
    ("scheme", "advice"),
    [
        ("wasbs", "Name the path with abfss"),
        ("adl", "abfss"),
        ("oss", "name the path with s3a"),
        ("COSN", "name the path with s3a"),
        ("cos", "name the path with s3a"),
        ("s3n", "name the path with s3a"),
        ("o3fs", "Write to a store that does"),
        ("ftp", "Write to a store that does"),
        ("VIEWFS", "Write to a store that does"),
    ],
)
@pytest.mark.parametrize("mounted", ["s3a", "abfss"])
def test_all_others_are_read_and_never_written(tmp_path, scheme, advice, mounted):
    hadoop = FakeHadoop(tmp_path, mounted=mounted)
    store, path = store_for(f"{scheme}://t", hadoop)
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "x").write_bytes(b"abc")
    assert store.read(f"{path}/x") == b"abc"
    for write in (store.check_writable, lambda p: store.put(p, b""), lambda p: store.put_if_absent(p, b"")):
        with pytest.raises(HeadwaterError) as raised:
            write(f"{path}/y")
        assert raised.value.condition == "DELTA_UNSUPPORTED_STORE_FOR_WRITE"
        assert f"spark.headwater.store.{scheme}" in str(raised.value)
        assert advice in str(raised.value)
    assert os.listdir(tmp_path / "t") == ["x"]


def test_each_scheme_says_what_it_needs_and_what_to_do():
    for scheme, known in SCHEMES.items():
        assert (known.promise is Promise.NONE) == bool(known.advice), scheme
        assert known.connector or known.promise is Promise.NONE, scheme


def test_the_table_of_the_docs_has_each_scheme_and_its_connector():
    text = (Path(__file__).parents[2] / "docs" / "stores.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[a-z0-9]+:`[^|]*) \|([^|]*)\|([^|]*)\|([^|]*)\|$", text, re.MULTILINE)
    told = {scheme: row for row in rows for scheme in re.findall(r"`([a-z0-9]+):`", row[0])}
    assert set(told) == set(SCHEMES)
    for scheme, (_, promise, connector, ran) in told.items():
        assert (SCHEMES[scheme].promise is Promise.NONE) == promise.strip().startswith("read only: "), scheme
        assert ran.strip(), scheme
        for artifact in re.findall(r"[a-z.]+:([a-z-]+)", SCHEMES[scheme].connector):
            assert f"`{artifact}`" in connector, scheme


def test_files_open_for_arrow(tmp_path):
    (tmp_path / "x").mkdir()
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "x" / "a.parquet")
    store, _ = store_for("hdfs://x", FakeHadoop(tmp_path))
    assert pq.ParquetFile(store.open_input("hdfs://x/a.parquet")).metadata.num_rows == 2


TRIES = {"s3a": ["create conditionally"] * 2, "gs": ["2 at once"], "abfss": ["4 at once"], "oci": ["4 at once"]}


@pytest.mark.parametrize("scheme", TRIES)
def test_a_server_is_tried_before_it_is_written_to_and_then_never_again(hadoop, tmp_path, scheme):
    for _ in range(3):
        store, path = store_for(f"{scheme}://b/t", hadoop)
        store.check_writable(path)
    assert hadoop.calls == TRIES[scheme]
    assert os.listdir(tmp_path / "b/t/_delta_log") == []


class Overwriting(FakeHadoop):
    def create_conditionally(self, path, data):
        os.makedirs(os.path.dirname(self._local(path)), exist_ok=True)
        self.local.put(self._local(path), data)

    def _win(self, path, count):
        return count


class Ignorant(FakeHadoop):
    def create_conditionally(self, path, data):
        raise RequestNotKnown(errno.EOPNOTSUPP, "501", path)

    def _win(self, path, count):
        raise RequestNotKnown(errno.EOPNOTSUPP, "501", path)


class Unable(Overwriting):
    def _win(self, path, count):
        return 0


@pytest.mark.parametrize("scheme", TRIES)
@pytest.mark.parametrize("kind", [Overwriting, Ignorant, Unable])
def test_a_server_that_does_not_keep_the_condition_is_refused(kind, tmp_path, scheme):
    for _ in range(2):
        store, path = store_for(f"{scheme}://b/t", kind(tmp_path))
        with pytest.raises(HeadwaterError) as raised:
            store.check_writable(path)
        assert raised.value.condition == "HEADWATER_CONDITIONAL_CREATE_IGNORED"
        assert f"the server of {tmp_path} ignores {SCHEMES[scheme].promise.value}" in str(raised.value)
    assert not [file for _, _, files in os.walk(tmp_path) for file in files]


@pytest.mark.parametrize("scheme", [each for each in TRIES if each != "s3a"])
def test_a_server_whose_answers_are_lost_is_tried_again(tmp_path, scheme):
    class Losing(FakeHadoop):
        lost = 2

        def _win(self, path, count):
            won = super()._win(path, count)
            self.lost -= 1
            return won if self.lost < 0 else 0

    store, path = store_for(f"{scheme}://b/t", Losing(tmp_path))
    store.check_writable(path)
    assert os.listdir(tmp_path / "b/t/_delta_log") == []


def test_a_client_without_conditions_is_refused(tmp_path):
    store, path = store_for("s3a://b/t", FakeHadoop(tmp_path, conditional=False))
    with pytest.raises(HeadwaterError, match="Hadoop 3.3.0") as raised:
        store.check_writable(path)
    assert raised.value.condition == "HEADWATER_CONDITIONAL_CREATE_NOT_AVAILABLE"


def test_a_probe_that_stays_refuses_nothing(tmp_path, caplog):
    class Undeleting(FakeHadoop):
        def delete(self, path):
            raise PermissionError(errno.EACCES, "not yours", path)

    store, path = store_for("s3a://b/t", Undeleting(tmp_path))
    store.check_writable(path)
    assert "not yours" in caplog.text


@pytest.mark.parametrize("times", [1, 100])
def test_a_create_that_is_put_off_is_asked_for_again(tmp_path, times):
    class Busy(FakeHadoop):
        left = times

        def create_conditionally(self, path, data):
            self.left -= 1
            if self.left >= 0:
                self.calls.append("put off")
                raise RequestPutOff(errno.EAGAIN, "409", path)
            super().create_conditionally(path, data)

    hadoop = Busy(tmp_path)
    store, path = store_for("s3a://b/t", hadoop)
    if times == 1:
        store.put_if_absent(f"{path}/x", b"1")
        assert store.read(f"{path}/x") == b"1"
    else:
        with pytest.raises(RequestPutOff):
            store.put_if_absent(f"{path}/x", b"1")
        assert 2 < len(hadoop.calls) < 20


@pytest.mark.parametrize("times", [2, 100])
def test_a_file_replaced_while_it_is_read_is_read_again(tmp_path, times):
    class Moving(FakeHadoop):
        left = times

        def read(self, path):
            self.left -= 1
            if self.left >= 0:
                raise ReplacedMeanwhile(errno.EIO, "412", path)
            return super().read(path)

    (tmp_path / "x").write_bytes(b"abc")
    for read in (
        lambda store: store.read("s3a://x"),
        lambda store: store.read_many(["s3a://x", "s3a://x"])[1],
        lambda store: store.open_input("s3a://x").read(),
        lambda store: store.read_range("s3a://x", 0, 3),
    ):
        store, _ = store_for("s3a://x", Moving(tmp_path))
        if times == 2:
            assert read(store) == b"abc"
        else:
            with pytest.raises(ReplacedMeanwhile):
                read(store)


def test_a_time_of_s3_is_in_whole_seconds_wherever_it_was_seen(hadoop, tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x").write_bytes(b"1")
    os.utime(tmp_path / "b" / "x", ns=(0, 1_234_000_000))
    for scheme, expected in (("s3a", 1000), ("hdfs", 1234)):
        store, path = store_for(f"{scheme}://b", hadoop)
        (listed,) = store.list_from(path)
        assert listed.modification_time == expected
        assert store.following([f"{path}/x"]) == [listed]


@pytest.mark.parametrize(
    ("there", "asked"), [(1, [2]), (2, [2, 4]), (6, [2, 4, 8]), (200, [2, 4, 8, 16, 32, 64, 64, 64])]
)
def test_what_follows_is_asked_for_in_growing_numbers(hadoop, tmp_path, there, asked):
    for number in range(there):
        (tmp_path / str(number)).touch()
    store, _ = store_for("hdfs://x", hadoop)
    found = store.following(f"hdfs://{number}" for number in range(1000))
    assert [info.path for info in found] == [f"hdfs://{number}" for number in range(there)]
    assert hadoop.calls == [f"statuses of {count}" for count in asked]
    assert len(store.following([f"hdfs://{number}" for number in range(3)])) == min(there, 3)
