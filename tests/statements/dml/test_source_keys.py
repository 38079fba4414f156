"""What the footers of a MERGE's source tell of its keys, and when a query has to."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.bridge.messages.callbacks import ParquetFile, ParquetFiles
from headwater.key_index.definition import KeyIndex
from headwater.protocol.types import StructField, parse_type
from headwater.pruning.predicates import And, Column, Comparison, Constant, In, Literal
from headwater.statements.dml.request import Key
from headwater.statements.dml.source_keys import MOST_KEYS, AskedIndex, SourceKeys, read_source_keys


def between(least, greatest, kind="long", name="id"):
    column = Column((name,))
    return And((Comparison("<=", Literal(kind, least), column), Comparison("<=", column, Literal(kind, greatest))))


LONG = Key("id", 5, '"long"')
QUERIED = SourceKeys(2000, [between(1, 9)])


class Source:
    """A statement whose source reads some files; a query over it gives what is told here."""

    hadoop = None
    confs: dict[Any, Any] = {}

    def __init__(self, files, columns):
        self.told = None if files is None else ParquetFiles(files=files, columns=columns)
        self.queries = []

    def parquet_files(self, plan, expressions, most):
        assert (plan, expressions) == (3, [5])
        return self.told

    def query(self, sql):
        self.queries.append(sql)
        return [{"k": "1"}, {"k": "9"}] if "DISTINCT" in sql else [{"n": 2000, "min0": "1", "max0": "9"}]


@pytest.fixture
def source(tmp_path):
    def make(*columns, name="id", wanted="id", **options):
        files = []
        for i, values in enumerate(columns):
            path = tmp_path / f"{i}.parquet"
            pq.write_table(values if isinstance(values, pa.Table) else pa.table({name: values}), path, **options)
            files.append(ParquetFile(path=str(path), size=path.stat().st_size))
        return Source(files, [wanted])

    return make


def many(first, last, kind=None):
    return pa.array(range(first, last + 1), kind or pa.int64())


def test_bounds_over_all_files_and_row_groups(source):
    told = source(many(500, 2999), many(-7, 600), row_group_size=100)
    assert read_source_keys(told, 3, [LONG]) == SourceKeys(3108, [between(-7, 2999)])
    assert not told.queries


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32()])
def test_narrower_whole_numbers(source, kind):
    assert read_source_keys(source(pa.array([-5, None, 9] * 1000, kind)), 3, [LONG]) == SourceKeys(
        3000, [between(-5, 9)]
    )


def test_nulls_alone_match_nothing(source):
    told = source(pa.array([None] * 3, pa.int64()), pa.array([], pa.int64()))
    assert read_source_keys(told, 3, [LONG]) == SourceKeys(3, [Constant(False)])
    assert not told.queries


def test_no_files_at_all():
    assert read_source_keys(Source([], ["id"]), 3, [LONG]) == SourceKeys(0, [Constant(False)])


def test_a_group_of_nulls_beside_others(source):
    told = source(pa.array([None] * 1000 + list(range(1000)), pa.int64()), row_group_size=1000)
    assert read_source_keys(told, 3, [LONG]) == SourceKeys(2000, [between(0, 999)])


def test_few_keys_are_asked_for_one_by_one(source):
    told = source(many(1, 9))
    assert read_source_keys(told, 3, [LONG]) == SourceKeys(9, [In(Column(("id",)), "long", (1, 9))])
    (query,) = told.queries
    assert "DISTINCT" in query


def test_the_name_may_be_of_another_case(source):
    assert read_source_keys(source(many(1, 2000), name="ID"), 3, [LONG]) == SourceKeys(2000, [between(1, 2000)])


@pytest.mark.parametrize(
    ("values", "options"),
    [
        (many(1, 2000, pa.uint32()), {}),
        (pa.array(["1", "2"]), {}),
        (pa.array([1, 2], pa.timestamp("us")), {}),
        (many(1, 2000), {"write_statistics": False}),
        (pa.table({"id": many(1, 2), "ID": many(1, 2)}), {}),
        (pa.table({"other": many(1, 2)}), {}),
    ],
    ids=["unsigned", "text", "timestamp", "no statistics", "two of the name", "none of the name"],
)
def test_what_footers_do_not_tell_is_queried(source, values, options):
    told = source(values, **options)
    assert read_source_keys(told, 3, [LONG]) == QUERIED
    assert len(told.queries) == 1


def test_one_file_that_does_not_tell(source):
    assert read_source_keys(source(many(1, 2000), many(1, 20, pa.uint8())), 3, [LONG]) == QUERIED


@pytest.mark.parametrize(("files", "columns"), [(None, None), ([], [None])])
def test_other_sources_are_queried(files, columns):
    assert read_source_keys(Source(files, columns), 3, [LONG]) == QUERIED


def test_keys_that_are_no_whole_numbers_are_queried(source):
    assert read_source_keys(source(many(1, 2000)), 3, [Key("id", 5, '"string"')]) == SourceKeys(
        2000, [between("1", "9", "string")]
    )


def test_a_file_that_cannot_be_read_is_the_jobs_to_tell(source, tmp_path):
    told = source(many(1, 2000))
    (tmp_path / "0.parquet").write_bytes(b"PAR1 and no more")
    assert read_source_keys(told, 3, [LONG]) == QUERIED
    (tmp_path / "0.parquet").unlink()
    assert read_source_keys(told, 3, [LONG]) == QUERIED


@pytest.mark.parametrize(
    ("kind", "texts", "values"),
    [
        ("date", ("-719162", "2932897"), (-719162, 2932897)),
        ("timestamp", ("-1", "253402300800000000"), (-1, 253402300800000000)),
        ("decimal(5,2)", ("-1.50", "999.99"), ("-1.50", "999.99")),
        ("string", ("it's", "back\\slash"), ("it's", "back\\slash")),
    ],
)
def test_values_of_other_types(kind, texts, values):
    class Told(Source):
        def query(self, sql):
            return [{"n": 2000, "min0": texts[0], "max0": texts[1]}]

    assert read_source_keys(Told(None, None), 3, [Key("id", 5, f'"{kind}"')]) == SourceKeys(
        2000, [between(values[0], values[1], kind)]
    )


@pytest.mark.parametrize("found", ["A\N{REPLACEMENT CHARACTER}", "\N{REPLACEMENT CHARACTER}"])
def test_what_is_no_text_bounds_nothing(found):
    """Its bytes have another order than what stands for them: the byte FF comes after all text."""

    class Told(Source):
        def query(self, sql):
            return [{"n": 2000, "min0": "A", "max0": found}]

    assert read_source_keys(Told(None, None), 3, [Key("id", 5, '"string"')]) == SourceKeys(2000, [])


# -- For an index ------------------------------------------------------------------------------------------------------


class Small(Source):
    """A source that Spark estimates to be small; its one query gives the hashes of each key, then the totals."""

    size = 1000

    def __init__(self, *rows):
        super().__init__(None, None)
        self.rows = rows

    def plan_size(self, plan):
        assert plan == 3
        return self.size

    def query(self, sql):
        self.queries.append(sql)
        return list(self.rows) if "UNION ALL" in sql else [{"n": 2000, "min0": "1", "max0": "9"}]


def asked(name, *keys):
    columns = [StructField(key.column, parse_type(json.loads(key.type))) for key in keys]
    return AskedIndex(KeyIndex(name, tuple(columns)), keys)


TEXT, PRICE = Key("k", 7, '"string"'), Key("price", 8, '"decimal(5,2)"')


def test_one_query_tells_all_that_an_index_asks():
    totals = {"n": 7, "min0": "a", "max0": "b", "keys0": 3, "hashed0": 3}
    told = Small({"h0": 11}, {}, {"h0": 12}, totals)
    found = read_source_keys(told, 3, [TEXT], [asked("i", TEXT)])
    assert found.rows == 7
    assert found.predicates == [between("a", "b", "string", "k")]
    assert {name: sorted(hashes) for name, hashes in found.hashes.items()} == {"i": [11, 12]}
    assert len(told.queries) == 1


def test_indexes_over_some_of_the_keys():
    totals = {"n": 9, "min0": "b", "max0": "c", "min1": "-1.00", "max1": "10.00"}
    counts = {"keys0": 8, "hashed0": 8, "keys1": 7, "hashed1": 7}
    told = Small({"h0": 11, "h1": 21}, {"h0": 11, "h1": 22}, {"h0": 13}, {}, totals | counts)
    found = read_source_keys(told, 3, [TEXT, PRICE], [asked("i", TEXT), asked("both", PRICE, TEXT)])
    assert found.predicates == [
        between("b", "c", "string", "k"),
        between("-1.00", "10.00", "decimal(5,2)", "price"),
    ]
    assert {name: sorted(hashes) for name, hashes in found.hashes.items()} == {"i": [11, 13], "both": [21, 22]}


def test_a_key_that_cannot_be_looked_up_is_told():
    told = Small({"h0": 1}, {}, {"n": 2, "min0": "a", "max0": "b", "keys0": 2, "hashed0": 1})
    assert read_source_keys(told, 3, [TEXT], [asked("i", TEXT)]).hashes == {"i": None}


def test_a_source_of_nulls_for_an_index():
    told = Small({}, {"n": 5, "keys0": 0, "hashed0": 0})
    assert read_source_keys(told, 3, [TEXT], [asked("i", TEXT)]) == SourceKeys(5, [Constant(False)], {"i": []})


def test_many_keys_have_bounds_and_no_hashes():
    totals = {"n": MOST_KEYS + 1, "min0": "a", "max0": "b", "keys0": MOST_KEYS + 1, "hashed0": MOST_KEYS + 1}
    told = Small(*({"h0": n} for n in range(MOST_KEYS + 1)), totals)
    found = read_source_keys(told, 3, [TEXT], [asked("i", TEXT)])
    assert (found.rows, found.hashes) == (MOST_KEYS + 1, {"i": None})


def test_a_large_source_is_not_read_twice():
    told = Small()
    told.size = 1 << 30
    found = read_source_keys(told, 3, [TEXT], [asked("i", TEXT)])
    assert (found.rows, found.hashes) == (2000, {})
    assert not any("UNION ALL" in query for query in told.queries)
