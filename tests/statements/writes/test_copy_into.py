"""COPY INTO without Spark: random sequences with a model, kills at each step, statements that run at once, and what
the state of a table costs and forgets.
"""

from __future__ import annotations

import os
import random
import re
import threading
import time
import uuid
from collections import Counter
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pytest

from headwater.basics import clock
from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.callbacks import WrittenFile
from headwater.bridge.messages.load import CopyIntoRequest
from headwater.statements.writes import copy_into as handler
from headwater.statements.writes import copy_state, source_files
from headwater.stores import LocalStore
from headwater.transaction import Transaction
from support.commits import later, newest, one_row, redefined
from support.recording_statement import RecordingStatement
from support.requests import create_request, create_table, schema_json, truncate

_SCHEMA = schema_json(a="integer")
_DAY = 24 * 3_600_000


class Killed(BaseException):
    """The process ends here."""


class Copying(RecordingStatement):
    """Reads no file: it notes which files each data file has the rows of, one row for each."""

    #: The source files whose rows a data file has, by its name.
    content: dict[str, list[str]] = {}

    def __init__(self, confs=None):
        super().__init__(confs)
        self.sources: list[list[str]] = []
        self.options: dict[str, str] = {}

    @property
    def session_hadoop(self):
        return None

    def qualified(self, path):
        return path

    def add_source(self, files):
        self.sources.append(list(files.paths))
        self.options = files.options
        return len(self.sources) - 1

    def add_selection(self, text, plan, names=()):
        return plan

    def add_placement(self, placement):
        return placement.plan

    def plan_schema(self, plan):
        return _SCHEMA

    def damaged_file(self, error):
        return None

    def query(self, sql):
        raise AssertionError(sql)

    def write(self, specification):
        (plan,) = re.findall(r"hw_plan\.`(\d+)`", specification.query)
        name, paths = f"{uuid.uuid4()}.parquet", self.sources[int(plan)]
        self.content[name] = paths
        return [
            WrittenFile(
                path=name,
                size=10,
                modification_time=clock.milliseconds(),
                partition={},
                rows=len(paths),
                statistics=[[None, None, None]],
            )
        ]


def copy(table: Path, folder: str, statement: Copying | None = None, **arguments: object) -> int:
    """Run COPY INTO; how many files it loaded."""
    given = {"source": f"'{folder}'", "format": "parquet", **arguments}
    request = {"table": str(table), "name": "t", "arguments": given}
    answer = handler.copy_into(msgspec.convert(request, CopyIntoRequest), statement or Copying())
    (row,) = answer.rows or []
    inserted: int = row["num_inserted_rows"]
    return inserted


def rows_of(table: Path) -> Counter[str]:
    """How often the rows of each source file are in the table."""
    names = newest(table).select(["path"])["path"].to_pylist()
    return Counter(path for name in names for path in Copying.content[unquote(name)])


@pytest.fixture
def table(tmp_path) -> Path:
    path = tmp_path / "t"
    create_table(create_request(path, _SCHEMA), RecordingStatement())
    return path


@pytest.fixture
def source(tmp_path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    return folder


def arrive(source: Path, *names: str) -> list[str]:
    for name in names:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(name)
    return [str(source / name) for name in names]


def state_files(table: Path) -> list[Path]:
    return sorted(table.glob("_headwater/copy/*/*.parquet"))


FORCE = {"copyOptions": [["'force'", "'true'"]]}


class KillingStore(LocalStore):
    """Ends the process before or after a call that changes something, counted from one."""

    def __init__(self, at: int, before: bool) -> None:
        self.left, self.before = at, before
        self.thread = threading.get_ident()

    def _step(self, do):
        if threading.get_ident() != self.thread:  # maintenance, which no statement waits for
            return do()
        self.left -= 1
        if self.left == 0 and self.before:
            raise Killed
        done = do()
        if self.left == 0:
            raise Killed
        return done

    def put_if_absent(self, path, data):
        return self._step(lambda: LocalStore.put_if_absent(self, path, data))

    def put(self, path, data):
        return self._step(lambda: LocalStore.put(self, path, data))

    def make_directory(self, path):
        return self._step(lambda: LocalStore.make_directory(self, path))


@pytest.fixture
def killing(monkeypatch):
    """Has the next statements die at a call of the store; how many calls were left when they ended."""
    from headwater.statements.running import opening

    usual = opening.store_for

    def kill(at: int, *, before: bool) -> KillingStore:
        store = KillingStore(at, before)
        monkeypatch.setattr(opening, "store_for", lambda path, *more: (store, usual(path, *more)[1]))
        return store

    yield kill
    monkeypatch.setattr(opening, "store_for", usual)


def alive(monkeypatch):
    from headwater.statements.running import opening
    from headwater.stores import store_for

    monkeypatch.setattr(opening, "store_for", store_for)


@pytest.mark.parametrize("before", [True, False])
def test_a_statement_that_dies_at_any_step_loads_all_or_nothing(table, source, killing, monkeypatch, before):
    outcomes = Counter[bool]()
    for at in range(1, 20):
        names = arrive(source, f"{at}-a", f"{at}-b")
        store = killing(at, before=before)
        try:
            assert copy(table, str(source)) == 2
        except Killed:
            alive(monkeypatch)
            found = rows_of(table)
            is_there = names[0] in found
            assert [found[name] for name in names] == [int(is_there)] * 2
            outcomes[is_there] += 1
            assert copy(table, str(source)) == (0 if is_there else 2)
        else:
            assert store.left > 0
            break
    assert outcomes[False] > 0
    assert before or outcomes[True] > 0
    alive(monkeypatch)
    assert set(rows_of(table).values()) == {1}
    assert copy(table, str(source)) == 0


def test_of_two_that_run_at_once_each_loads_what_the_other_has_not(table, source):
    arrive(source, "a", "b")

    def other():
        arrive(source, "c")
        assert copy(table, str(source), files=["'b'", "'c'"]) == 2

    statement = Copying()
    statement.before_commits = [other]
    assert copy(table, str(source), statement) == 1
    assert rows_of(table) == Counter({str(source / name): 1 for name in "abc"})
    assert statement.discarded == 1


def test_other_writers_are_no_conflict(table, source):
    arrive(source, "a")
    statement = Copying()
    statement.before_commits = [later(table)]
    with pytest.raises(HeadwaterError, match="HEADWATER_COPY_NO_FILES"):
        copy(table, "/nowhere")
    assert copy(table, str(source), statement) == 1
    assert len(statement.sources) == 1


def test_a_table_that_replaces_another_loads_the_files_again(table, source):
    arrive(source, "a")
    assert copy(table, str(source)) == 1
    truncate({"table": str(table)}, RecordingStatement())
    assert copy(table, str(source)) == 0
    create_table(create_request(table, _SCHEMA, mode="create_or_replace"), RecordingStatement())
    assert copy(table, str(source)) == 1
    assert sum(rows_of(table).values()) == 1


@pytest.fixture
def passing(monkeypatch):
    """Lets days pass."""
    usual, passed = clock.milliseconds, [0.0]
    monkeypatch.setattr(clock, "milliseconds", lambda: usual() + int(passed[0] * _DAY))

    def wait(days: float) -> None:
        passed[0] += days

    return wait


def with_property(table: Path, name: str, value: str) -> None:
    later(table, redefined(lambda m: replace(m, configuration={**m.configuration, name: value})))()


@pytest.mark.parametrize("name", ["headwater.copyInto.retentionDuration", "delta.setTransactionRetentionDuration"])
def test_a_file_that_no_statement_sees_for_long_enough_is_forgotten(table, source, passing, name):
    with_property(table, name, "interval 10 days")
    arrive(source, "x/a", "y/b")
    assert copy(table, str(source)) == 2
    for _ in range(6):
        passing(4)
        assert copy(table, str(source / "x")) == 0
    arrive(source, "x/c")
    assert copy(table, str(source)) == 2
    assert rows_of(table) == Counter({str(source / "x/a"): 1, str(source / "y/b"): 2, str(source / "x/c"): 1})
    before = newest(table).version
    passing(4)
    assert copy(table, str(source)) == 0
    assert newest(table).version == before


def test_what_is_old_and_still_there_is_not_forgotten(table, source, passing):
    arrive(source, "a", "b")
    assert copy(table, str(source)) == 2
    passing(1000)
    arrive(source, "c")
    assert copy(table, str(source)) == 1
    passing(1000)
    assert copy(table, str(source)) == 0


def test_a_state_that_is_lost_is_an_error_until_force(table, source):
    arrive(source, "a")
    assert copy(table, str(source)) == 1
    for file in state_files(table):
        file.unlink()
    arrive(source, "b")
    with pytest.raises(HeadwaterError, match="HEADWATER_COPY_STATE_LOST") as lost:
        copy(table, str(source))
    assert "'force' = 'true'" in str(lost.value)
    assert copy(table, str(source), **FORCE) == 2
    assert copy(table, str(source)) == 0
    state_files(table)[-1].write_bytes(b"no Parquet")
    with pytest.raises(HeadwaterError, match="HEADWATER_COPY_STATE_LOST"):
        copy(table, str(source))


def test_the_state_costs_what_is_loaded_and_old_files_of_it_go(table, source, monkeypatch):
    written = []
    usual = copy_state.write

    def write(state, store, entries, older, after):
        written.append(entries.num_rows)
        return usual(state, store, entries, older, after)

    monkeypatch.setattr(copy_state, "write", write)
    count = 40
    for number in range(count):
        arrive(source, f"{number:03}")
        assert copy(table, str(source)) == 1
        for file in state_files(table)[:-1]:
            os.utime(file, (0, 0))
    assert sum(written) <= count * 6
    state = copy_state.state_of(newest(table))
    assert len(state.parts) <= 6
    assert sorted(state.paths.to_pylist()) == [str(source / f"{number:03}") for number in range(count)]
    assert len(state_files(table)) <= 7
    assert copy(table, str(source), **FORCE) == count
    state = copy_state.state_of(newest(table))
    assert len(set(state.paths.to_pylist())) == len(state.paths) == count


@pytest.mark.parametrize(
    ("pattern", "matches", "others"),
    [
        ("*.csv", ["a.csv", ".csv"], ["x/a.csv", "a.csvx"]),
        ("x/*", ["x/a", "x/b/c"], ["y/a", "x"]),
        ("x", ["x/a", "x/b/c", "x"], ["xy", "y/x"]),
        ("{a,b{1,2}}?", ["ax", "b1x", "b2y"], ["a", "b3x", "a/"]),
        ("[a-c][!0-9][^x]", ["aby", "c_z"], ["a1y", "dby", "abx"]),
        (r"a\*[]]", ["a*]"], ["ab]"]),
        ("a.b(c)+|^$", ["a.b(c)+|^$"], ["axb(c)"]),
    ],
)
def test_patterns(pattern, matches, others):
    found = source_files.matching(pattern)
    assert [name for name in (*matches, *others) if found.match(name)] == matches


@pytest.mark.parametrize("pattern", ["[a", "{a", "{a,[b}"])
def test_patterns_that_are_none(pattern):
    with pytest.raises(HeadwaterError, match="DELTA_ILLEGAL_OPTION"):
        source_files.matching(pattern)


def test_links_and_names_that_lead_elsewhere(table, source, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (source / "link").symlink_to(secret)
    (source / "folder").symlink_to(tmp_path)
    assert copy(table, str(source)) == 0
    for name in ("link", "folder/secret"):
        with pytest.raises(HeadwaterError, match="is a link, or lies behind one"):
            copy(table, str(source), files=[f"'{name}'"])
    for name in ("../secret", "folder/../../secret", str(secret), "./a", "a//b", "file:/x"):
        with pytest.raises(HeadwaterError, match="HEADWATER_COPY_NO_FILES"):
            copy(table, str(source), files=[f"'{name}'"])
    with pytest.raises(HeadwaterError, match="1000 is the most"):
        copy(table, str(source), files=[f"'{number}'" for number in range(1001)])


def test_options_of_databricks_that_would_be_ignored_are_refused(table, source):
    for options in ([["'badRecordsPath'", "'/x'"]], [["'rescuedDataColumn'", "'r'"]]):
        with pytest.raises(HeadwaterError, match="columnNameOfCorruptRecord"):
            copy(table, str(source), formatOptions=options)
    with pytest.raises(HeadwaterError, match="none of COPY_OPTIONS"):
        copy(table, str(source), copyOptions=[["'forced'", "'true'"]])
    with pytest.raises(HeadwaterError, match="COPY_INTO_SOURCE_FILE_FORMAT_NOT_SUPPORTED"):
        copy(table, str(source), format="delta")
    with pytest.raises(HeadwaterError, match="must be CSV"):
        copy(table, str(source), byPosition=True)


class Model:
    """What a random life of a table must have loaded."""

    def __init__(self, table: Path, source: Path, chance: random.Random, monkeypatch, killing) -> None:
        self.table, self.source, self.chance = table, source, chance
        self.monkeypatch, self.killing = monkeypatch, killing
        self.there: list[str] = []
        self.known: set[str] = set()
        self.expected: Counter[str] = Counter()
        self.number = 0

    def arrive(self) -> None:
        names = [f"{self.chance.choice('xyz')}/{self.number + i}" for i in range(self.chance.randint(1, 4))]
        self.number += len(names)
        self.there += arrive(self.source, *names)

    def leave(self) -> None:
        if self.there:
            path = self.there.pop(self.chance.randrange(len(self.there)))
            Path(path).unlink()

    def change(self) -> None:
        if self.there:
            Path(self.chance.choice(self.there)).write_text("changed")

    def replace(self) -> None:
        create_table(create_request(self.table, _SCHEMA, mode="create_or_replace"), RecordingStatement())
        self.known, self.expected = set(), Counter()

    def truncate(self) -> None:
        truncate({"table": str(self.table)}, RecordingStatement())
        self.expected = Counter()

    def _draw(self) -> tuple[dict[str, object], list[str], bool]:
        """Arguments of a statement, and the files that they name."""
        force = self.chance.random() < 0.15
        more: dict[str, object] = dict(FORCE) if force else {}
        folder = self.chance.choice(["", "x", "y", "z"])
        named = [path for path in self.there if path.startswith(f"{self.source}/{folder}")]
        if named and self.chance.random() < 0.3:
            named = self.chance.sample(named, self.chance.randint(1, len(named)))
            more["files"] = [f"'{os.path.relpath(path, self.source)}'" for path in named]
        elif folder and self.chance.random() < 0.5:
            more["pattern"] = f"'{folder}'"
        elif folder:
            return {**more, "source": f"'{self.source}/{folder}'"}, named, force
        return more, named, force

    def _takes(self, named: list[str], force: bool) -> list[str]:
        return [path for path in named if force or path not in self.known]

    def _note(self, paths: list[str]) -> None:
        self.known |= set(paths)
        self.expected.update(paths)

    def copy(self) -> None:
        arguments, named, force = self._draw()
        statement = Copying()
        if self.chance.random() < 0.3:
            others, other_named, other_force = self._draw()

            def rival() -> None:
                taken = self._takes(other_named, other_force)
                assert self._run(others) == len(taken)
                self._note(taken)

            statement.before_commits = [rival]
        loaded = self._run(arguments, statement)
        taken = self._takes(named, force)
        assert loaded == len(taken)
        self._note(taken)

    def _run(self, arguments: dict[str, object], statement: Copying | None = None) -> int:
        try:
            return copy(self.table, str(self.source), statement, **arguments)
        except HeadwaterError as error:
            if error.condition != "HEADWATER_COPY_NO_FILES":
                raise
            return 0

    def die(self) -> None:
        arguments, named, force = self._draw()
        self.killing(self.chance.randint(1, 6), before=self.chance.random() < 0.5)
        taken = self._takes(named, force)
        try:
            assert self._run(arguments) == len(taken)
        except Killed:
            alive(self.monkeypatch)
            found = rows_of(self.table)
            if found == self.expected:
                return
        finally:
            alive(self.monkeypatch)
        self._note(taken)

    def check(self) -> None:
        assert rows_of(self.table) == self.expected


@pytest.mark.random
def test_random_sequences_with_a_model(table, source, monkeypatch, killing):
    seed = int(os.environ.get("HEADWATER_TEST_SEED", "7"))
    lives = max(4, int(os.environ.get("HEADWATER_TEST_EXAMPLES", "4")) // 20)
    for life in range(lives):
        chance = random.Random(seed * 1000 + life)
        own_source, own_table = source / str(life), table.parent / f"t{life}"
        own_source.mkdir()
        create_table(create_request(own_table, _SCHEMA), RecordingStatement())
        model = Model(own_table, own_source, chance, monkeypatch, killing)
        steps = [model.arrive] * 4 + [model.copy] * 6 + [model.die] * 2
        steps += [model.leave, model.change, model.truncate, model.replace]
        for _ in range(40):
            chance.choice(steps)()
            model.check()


def test_entries_say_when(table, source):
    arrive(source, "a")
    before = clock.milliseconds()
    assert copy(table, str(source)) == 1
    (part,) = copy_state.state_of(newest(table)).parts
    assert part.entries.schema.equals(copy_state.ENTRIES)
    (row,) = pa.Table.to_pylist(part.entries)
    assert row["path"] == str(source / "a")
    assert row["size"] == 1
    assert before <= row["loaded"] == row["seen"]


def test_a_file_that_vanishes_is_an_error(table, source):
    """Spark's reader would leave it out, if it was told to, and the file would count as loaded."""
    arrive(source, "a")
    statement = Copying()
    given = [["'ignoreMissingFiles'", "'true'"], ["'ignoreCorruptFiles'", "'true'"], ["'x'", "'y'"]]
    assert copy(table, str(source), statement, formatOptions=given) == 1
    assert statement.options == {
        "x": "y", "ignoreMissingFiles": "false", "ignoreCorruptFiles": "false", "mergeSchema": "true"
    }  # fmt: skip


@pytest.mark.parametrize(("select", "runs"), [("SELECT a", 1), ("SELECT (SELECT max(a) FROM t) AS a", 2)])
def test_a_subquery_may_read_the_table(table, source, select, runs):
    arrive(source, "a")
    statement = Copying()
    statement.before_commits = [later(table, one_row("other.parquet"), is_blind=False)]
    assert copy(table, str(source), statement, select=select) == 1
    assert len(statement.sources) == runs


def test_a_clone_of_a_table_that_has_lost_its_state(table, source, tmp_path, caplog):
    """The files that it takes over are those of the version that is cloned."""
    arrive(source, "a")
    assert copy(table, str(source)) == 1
    for file in state_files(table):
        file.unlink()
    snapshot = newest(table)
    copy_state.hand_over(snapshot, Transaction(str(tmp_path / "c"), snapshot.store, None))
    assert "knows no file" in caplog.text


def test_a_change_of_another_engine_with_a_time_of_its_own_forgets_nothing(table, source):
    arrive(source, "a")
    assert copy(table, str(source)) == 1
    later(table, redefined(lambda m: replace(m, created_time=(m.created_time or 0) + 5000, description="new")))()
    assert copy(table, str(source)) == 0


def test_state_files_of_versions_that_the_log_keeps_stay(table, source):
    with_property(table, "delta.logRetentionDuration", "interval 20 days")
    for number, age in enumerate((25, 15)):
        arrive(source, str(number))
        assert copy(table, str(source)) == 1
        then = time.time() - age * 86_400
        os.utime(state_files(table)[-1], (then, then))
    arrive(source, "more")
    assert copy(table, str(source), **FORCE) == 3
    assert [int(file.stem) for file in state_files(table)] == [1, 2]


def test_a_path_that_is_a_hidden_file_is_an_error(table, source):
    arrive(source, "_a", ".b", "x/c")
    for name in ("_a", ".b"):
        with pytest.raises(HeadwaterError, match="is hidden"):
            copy(table, str(source / name))
        with pytest.raises(HeadwaterError, match="is hidden"):
            copy(table, str(source), files=[f"'{name}'"])
    assert copy(table, str(source / "x/c")) == 1


@pytest.mark.parametrize("log", ["_delta_log", "_spark_metadata"])
def test_files_that_a_log_lists_are_refused_however_they_are_named(table, source, log):
    arrive(source, "t/day=1/a", "t/b", "beside/c")
    (source / "t" / log).mkdir()
    for folder, more in (
        ("", {}), ("", {"files": ["'t/day=1/a'"]}), ("t", {"files": ["'b'"]}), ("t/b", {}), ("t/day=1/a", {}),
        ("t/day=1", {}), ("t/day=*", {}), ("*", {}), ("t", {"pattern": "'day=1'"}), ("", {"pattern": "'t/*'"}),
    ):  # fmt: skip
        with pytest.raises(HeadwaterError, match=f"has a log .{log}"):
            copy(table, str(source / folder), **more)
    for folder, more in (("b*", {}), ("", {"pattern": "'b*/c'"}), ("", {"files": ["'beside/c'"]}), ("beside/c", {})):
        assert copy(table, str(source / folder), **more, **FORCE) == 1


def test_a_path_with_wildcards_lists_only_folders_that_match(table, source, monkeypatch):
    arrive(source, "landing-1/day/a", "landing-2/b", "other/c", "x/q")
    listed = []
    usual = LocalStore._entries

    def entries(path: str, is_top: bool) -> object:
        listed.append(path)
        return usual(path, is_top)

    monkeypatch.setattr(LocalStore, "_entries", staticmethod(entries))
    assert copy(table, f"{source}/landing-*") == 2
    assert sorted(listed) == [
        str(source),
        *(str(source / name) for name in ("landing-1", "landing-1/day", "landing-2")),
    ]
    assert copy(table, str(source), pattern="'{x/*,y/q}'") == 1


def test_of_two_names_that_differ_in_their_codes_the_damaged_one_is_skipped(table, source):
    arrive(source, "a%20b", "a b")

    class Damaged(Copying):
        def damaged_file(self, error):
            return f"file://{source}/a%20b"

        def write(self, specification):
            if any("%" in path for path in self.sources[-1]):
                raise RuntimeError
            return super().write(specification)

    statement = Damaged()
    assert copy(table, str(source), statement, formatOptions=[["'ignoreCorruptFiles'", "'true'"]]) == 1
    assert rows_of(table) == Counter({str(source / "a b"): 1})
