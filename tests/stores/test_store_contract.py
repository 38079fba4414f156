"""The stores there are keep the contract; stores that break it are found out; settings name stores."""

from __future__ import annotations

import sys
import time
import types

import pytest

from headwater.basics import start_settings
from headwater.basics.errors import HeadwaterError
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import AddFile, Metadata, Protocol
from headwater.stores import FileInfo, HadoopStore, LocalStore, Store, store_for
from headwater.stores.interface import StoreOver
from headwater.transaction import Provenance, Transaction, wait_for_maintenance
from support.stores.fake_hadoop import FakeHadoop
from support.stores.memory_store import MemoryStore
from support.stores.store_contract import StoreContract
from support.stores.vacuum_contract import VacuumContract


class TestLocal(StoreContract):
    @pytest.fixture
    def store(self):
        return LocalStore()

    @pytest.fixture
    def other(self):
        return LocalStore()

    @pytest.fixture
    def root(self, tmp_path):
        return str(tmp_path)


class TestOver(StoreContract):
    @pytest.fixture
    def store(self):
        return StoreOver(LocalStore())

    @pytest.fixture
    def root(self, tmp_path):
        return str(tmp_path)


def test_a_store_over_another_hands_everything_on() -> None:
    """But for what a store makes up of its other methods."""
    made_up = {"read_many", "missing", "put_once", "put_many"}
    asked = {name for name, value in vars(Store).items() if callable(value) and not name.startswith("_")}
    assert asked - made_up <= vars(StoreOver).keys()


class TestMemory(StoreContract):
    @pytest.fixture
    def store(self):
        return MemoryStore()

    @pytest.fixture
    def root(self, store):
        store.make_directory("/root")
        return "/root"


class TestVacuumThroughHadoop(VacuumContract):
    @pytest.fixture(params=["hdfs", "s3a", "gs", "abfss"])
    def root(self, request):
        return f"{request.param}://bucket/root"

    @pytest.fixture
    def store(self, root, tmp_path):
        return store_for(root, FakeHadoop(tmp_path))[0]


class Forgetful(MemoryStore):
    def list_from(self, directory, start_name=""):
        return super().list_from(directory, start_name)[:-1]


class Unsorted(MemoryStore):
    def list_from(self, directory, start_name=""):
        return super().list_from(directory, start_name)[::-1]


class Overwriting(MemoryStore):
    put_if_absent = MemoryStore.put


class Careless(MemoryStore):
    """Looks, and then writes; another may have done so in between."""

    def put_if_absent(self, path, data):
        if self.exists(path):
            raise FileExistsError(path)
        time.sleep(0.002)
        self.put(path, data)


class Torn(MemoryStore):
    def put(self, path, data):
        super().put(path, data[: len(data) // 2])
        time.sleep(0.002)
        super().put(path, data)


class Silent(MemoryStore):
    def read(self, path):
        return self.files.get(path, (b"", 0))[0]


class Coarse(MemoryStore):
    """Knows the time by the hour."""

    def __init__(self):
        super().__init__(lambda: 1_700_000_000_000)


BROKEN = {
    Coarse: "test_3_a_file_in_the_place_of_another_is_another_one",
    Forgetful: "test_3_what_is_acknowledged_is_read_and_listed",
    Unsorted: "test_4_a_listing_is_sorted_and_begins_where_asked",
    Overwriting: "test_1_a_file_that_exists_is_left_alone",
    Careless: "test_1_one_of_many_creates_a_file",
    Torn: "test_2_a_file_is_seen_whole",
    Silent: "test_5_what_is_missing_is_said_to_be",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_store_that_breaks_a_promise_is_found_out(kind):
    store = kind()
    store.make_directory("/root")
    test = getattr(StoreContract(), BROKEN[kind])
    wanted = {"store": store, "other": store, "root": "/root"}
    names = test.__code__.co_varnames[1 : test.__code__.co_argcount]
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        test(**{name: wanted[name] for name in names})


class Named(MemoryStore):
    """A store as a user would write one."""

    def __init__(self, options):
        super().__init__()
        self.options = options

    def list_from(self, directory, start_name=""):
        return [FileInfo(*file) for file in super().list_from(directory, start_name)]


@pytest.fixture
def named(monkeypatch):
    """Names the store of a scheme, as settings of Spark's start do."""
    module = types.ModuleType("stores_of_mine")
    module.Named, module.NoStore = Named, int
    monkeypatch.setitem(sys.modules, "stores_of_mine", module)
    monkeypatch.setattr(start_settings, "_given", {})

    def name(store="stores_of_mine:Named", scheme="mine"):
        setting = f"spark.headwater.store.{scheme}"
        start_settings.take({setting: store, f"{setting}.region": "here"})

    name()
    return name


def test_a_setting_names_the_store_of_a_scheme(named):
    store, path = store_for("mine://bucket/t/")
    assert isinstance(store, Named)
    assert store.options == {"region": "here"}
    assert path == "mine://bucket/t"
    assert store_for("MINE://bucket/other")[0] is store
    txn = Transaction(path, store, None)
    txn.update_protocol(Protocol(1, 2))
    txn.update_metadata(Metadata("the-id", '{"type":"struct","fields":[]}', created_time=1))
    txn.add([AddFile("a", {}, 1, 1)])
    txn.commit(Provenance("WRITE"))
    assert load_snapshot(path, store).num_files == 1
    assert wait_for_maintenance(60)


@pytest.mark.parametrize(
    ("store", "reason"),
    [
        ("stores_of_nobody:Named", "stores_of_nobody"),
        ("stores_of_mine:Missing", "Missing"),
        ("stores_of_mine:NoStore", "no subclass"),
        ("stores_of_mine", "AttributeError"),
        ("", "ValueError"),
    ],
)
def test_a_setting_that_names_no_store_is_an_error_that_says_why(named, store, reason):
    named(store)
    with pytest.raises(HeadwaterError) as raised:
        store_for("mine://bucket/t")
    assert raised.value.condition == "HEADWATER_STORE_NOT_USABLE"
    assert reason in str(raised.value)
    assert "spark.headwater.store.mine" in str(raised.value)


def test_a_setting_goes_before_hadoop_and_local_paths_stay_local(named, tmp_path):
    hadoop = FakeHadoop(tmp_path)
    assert isinstance(store_for("mine://b/t", hadoop)[0], Named)
    assert isinstance(store_for("other://b/t", hadoop)[0], HadoopStore)
    named("x:Y", "file")
    assert isinstance(store_for("/t", hadoop)[0], LocalStore)


def test_stores_without_the_promise_are_refused_before_any_work(tmp_path):
    store, path = store_for("other://b/t", FakeHadoop(tmp_path))
    with pytest.raises(HeadwaterError) as raised:
        store.check_writable(path)
    assert raised.value.condition == "DELTA_UNSUPPORTED_STORE_FOR_WRITE"
    assert "spark.headwater.store.other" in str(raised.value)
    LocalStore().check_writable(str(tmp_path))

    class ReadOnly(MemoryStore):
        puts_if_absent = False

    with pytest.raises(HeadwaterError, match="the store 'web'"):
        ReadOnly().check_writable("web://b/t")
