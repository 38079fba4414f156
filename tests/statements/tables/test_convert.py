"""CONVERT TO DELTA over real Parquet files, without Spark: which files become the table, with what values and
statistics, and that nothing is written where one does not fit.
"""

from __future__ import annotations

import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.callbacks import FileFooter, Footers
from headwater.log.snapshot import load_snapshot
from headwater.log.statistics.from_footers import statistics_of
from headwater.protocol.columns import leaves
from headwater.protocol.partition_paths import partition_directory, values_of_directory
from headwater.protocol.types import parse_schema, schema_string
from headwater.stores import LocalStore
from support.recording_statement import RecordingStatement
from support.requests import actions, called, create_request, create_table, schema_json

_CONVERT = "spark.databricks.delta.convert"
_DEFAULTS = "spark.databricks.delta.properties.defaults"
_TYPES = {pa.int8(): "byte", pa.int16(): "short", pa.int32(): "integer", pa.int64(): "long", pa.string(): "string"}


class Reading(RecordingStatement):
    """Reads footers as tasks do; knows partition columns, and casts their values, as it is told."""

    def __init__(self, confs=None, partitions=None, casts=None):
        super().__init__(confs)
        self.partitions, self.casts = partitions or {}, casts or {}
        self.footer_jobs = []
        #: Called before footers are read.
        self.meanwhile = lambda: None

    def footers(self, table, files, columns, most=-1):
        self.meanwhile()
        self.footer_jobs.append((len(files), columns))
        found, schemas = [], []
        for path, _ in files:
            try:
                footer = pq.read_metadata(path)
            except (OSError, pa.ArrowInvalid) as error:
                found.append(FileFooter(schema=0, rows=0, statistics=[], problem=str(error)))
                continue
            schema = _spark_schema(footer.schema.to_arrow_schema())
            if schema not in schemas:
                schemas.append(schema)
            known = list(leaves(parse_schema(schema)))
            if columns is not None:
                by_path = {tuple(n.lower() for n in leaf.path): leaf for leaf in known}
                known = [by_path.get(tuple(n.lower() for n in path)) for path in columns]
            elif most >= 0:
                known = known[:most]
            values = [
                [None] * 3 if leaf is None else list(statistics_of(footer, [leaf], by_id=False).values[0])
                for leaf in known
            ]
            found.append(FileFooter(schema=schemas.index(schema), rows=footer.num_rows, statistics=values))
        return Footers(schemas=schemas, files=found)

    def query(self, sql):
        return [{"text": text} | ({"value": value} if value else {}) for text, value in self.casts.items()]

    def expression_type(self, text, schema):
        fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in self.partitions.items()]
        return json.dumps({"type": "struct", "fields": fields})


def _spark_schema(schema):
    return json.dumps({"type": "struct", "fields": [_field(field) for field in schema]})


def _field(field):
    kind = field.type
    spelled = {"type": "struct", "fields": list(map(_field, kind))} if pa.types.is_struct(kind) else _TYPES[kind]
    return {"name": field.name, "type": spelled, "nullable": True, "metadata": {"x": 1}}


def put(path, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def convert(path, statement=None, entry=None, partitioned_by=None, statistics=True, format="parquet"):
    request = {"table": str(path), "arguments": {"statistics": statistics, "partitionedBy": partitioned_by}}
    request |= {"format": format, **({"entry": entry} if entry else {})}
    return called("convert_to_delta")(request, statement or Reading())


def catalog(schema, partitioned_by=(), partitions=None, **more):
    partitions = partitions and [{"location": str(at), "values": values} for at, values in partitions.items()]
    return {
        "name": "db.t",
        "schema": schema,
        "partitionColumns": list(partitioned_by),
        "partitions": partitions,
        **more,
    }


def added(path):
    return {add["path"]: add for add in actions(path, 0, "add")}


def values(path):
    return {name: add["partitionValues"] for name, add in added(path).items()}


def statistics(add):
    found = json.loads(add["stats"])
    return found["numRecords"], found["minValues"], found["maxValues"], found["nullCount"]


def refused(condition, path, *call, words=(), **more):
    """Nothing is written where it is refused."""
    with pytest.raises(HeadwaterError) as raised:
        convert(path, *call, **more)
    assert raised.value.condition == condition, raised.value.text
    for word in words:
        assert word in raised.value.text, raised.value.text
    assert not (path / "_delta_log").exists()


def test_files_become_a_table_where_they_are(tmp_path):
    path = tmp_path / "a t%"
    put(path / "x y%.parquet", id=pa.array([1, None], pa.int32()), s=pa.array([{"A": 5}, None]))
    put(path / "nested" / "z", ID=pa.array([7], pa.int16()), more=["m"])
    for hidden in ("_SUCCESS", ".x.crc", "_tmp/f.parquet", "part._COPYING_", "empty.parquet"):
        (path / hidden).parent.mkdir(exist_ok=True)
        (path / hidden).write_bytes(b"" if hidden.startswith("empty") else b"?")
    statement = Reading({f"{_DEFAULTS}.appendOnly": "true"})
    assert convert(path, statement)["version"] == 0
    assert statement.footer_jobs == [(2, None)]
    found = added(path)
    assert sorted(found) == ["nested/z", "x%20y%25.parquet"]
    status = (path / "x y%.parquet").stat()
    first = found["x%20y%25.parquet"]
    assert (first["size"], first["modificationTime"]) == (status.st_size, status.st_mtime_ns // 1_000_000)
    assert (first["dataChange"], first["partitionValues"]) == (True, {})
    # The table's columns have the names of the file that comes first.
    assert statistics(first) == (
        2,
        {"ID": 1, "s": {"A": 5}},
        {"ID": 1, "s": {"A": 5}},
        {"ID": 1, "more": 2, "s": {"A": 1}},
    )
    assert statistics(found["nested/z"])[3] == {"ID": 0, "more": 0, "s": {"A": 1}}
    snapshot = load_snapshot(str(path), LocalStore())
    assert [(f.name, f.type.sql(), f.metadata) for f in snapshot.schema] == [
        ("ID", "int", {}), ("more", "string", {}), ("s", "struct<A:bigint>", {}),
    ]  # fmt: skip
    assert snapshot.metadata.configuration == {"delta.appendOnly": "true"}
    (info,) = actions(path, 0, "commitInfo")
    assert (info["operation"], info["isBlindAppend"]) == ("CONVERT", False)
    assert info["operationParameters"] == {
        "numFiles": "2", "partitionedBy": "[]", "collectStats": "true", "sourceFormat": "parquet",
    }  # fmt: skip
    assert info["operationMetrics"] == {"numConvertedFiles": "2"}
    # Again it does nothing, whatever lies in the folder by now.
    (path / "new").write_bytes(b"?")
    assert convert(path, partitioned_by="p INT")["version"] == 0
    assert [name for name in os.listdir(path / "_delta_log") if name.endswith(".json")] == [f"{0:020}.json"]


def test_partition_columns_are_those_of_folders_with_the_types_of_the_statement(tmp_path):
    for folder in ("k=01/_p=a%2Fb%25", "k=2/_p=__HIVE_DEFAULT_PARTITION__", "K=2/_p=", "k=2/_p=c/below"):
        put(tmp_path / folder / "f=1.parquet", k=["in the file"], id=[1])
    statement = Reading(partitions={"k": "integer", "_p": "string"}, casts={"01": "1", "2": "2"})
    convert(tmp_path, statement, partitioned_by="k INT, _p STRING")
    assert values(tmp_path) == {
        "K=2/_p=/f=1.parquet": {"k": "2", "_p": None},
        "k=01/_p=a%252Fb%2525/f=1.parquet": {"k": "1", "_p": "a/b%"},
        "k=2/_p=__HIVE_DEFAULT_PARTITION__/f=1.parquet": {"k": "2", "_p": None},
        "k=2/_p=c/below/f=1.parquet": {"k": "2", "_p": "c"},
    }
    snapshot = load_snapshot(str(tmp_path), LocalStore())
    # A partition column that the files have stands where it is in them.
    assert [(f.name, f.type.sql()) for f in snapshot.schema] == [("k", "int"), ("id", "bigint"), ("_p", "string")]
    assert snapshot.partition_columns == ["k", "_p"]
    assert all("k" not in statistics(add)[1] for add in added(tmp_path).values())


def test_paths_of_our_own_say_their_values_again():
    for text in ("a", "a/b=c", "%41", "ä€😀", "a:b\t\x7f{}", None):
        name = "k =/%"
        assert values_of_directory(partition_directory({name: text, "z": "1"})) == [(name, text), ("z", "1")]
    assert values_of_directory("x/a=1/b=2/y") == [("a", "1"), ("b", "2")]
    assert values_of_directory("a=1/x/b=2") == [("b", "2")]
    assert values_of_directory("") == []


def test_values_that_are_none_of_the_type(tmp_path):
    put(tmp_path / "k=x" / "f", id=[1])
    put(tmp_path / "k=1" / "f", id=[1])
    more = {"partitions": {"k": "integer"}, "casts": {"1": "1", "x": None}}
    words = (str(tmp_path / "k=x" / "f"), "'x'", "column k", "int")
    refused("DELTA_PARTITION_COLUMN_CAST_FAILED", tmp_path, Reading(**more), partitioned_by="k INT", words=words)
    convert(
        tmp_path, Reading({f"{_CONVERT}.partitionValues.ignoreCastFailure": "true"}, **more), partitioned_by="k INT"
    )
    assert values(tmp_path) == {"k=1/f": {"k": "1"}, "k=x/f": {"k": None}}


def _folder_of_another_table(path):
    put(path / "x" / "f", id=[1])
    (path / "x" / "_delta_log").mkdir()


def _link(path):
    put(path.parent / "elsewhere", id=[1])
    (path / "link").symlink_to(path.parent / "elsewhere")


#: What a folder with a fitting file has beside it, the condition, and words of the error.
MISFITS = {
    "another type": (lambda p: put(p / "m", id=["1"]), "DELTA_FAILED_MERGE_SCHEMA_FILE", ["/m", "column id is string"]),
    "a wider type": (
        lambda p: put(p / "m", id=pa.array([1], pa.int32())),
        "DELTA_FAILED_MERGE_SCHEMA_FILE",
        ["/m", "int"],
    ),
    "a struct": (lambda p: put(p / "m", id=[{"x": 1}]), "DELTA_FAILED_MERGE_SCHEMA_FILE", ["/m", "struct"]),
    "no Parquet": (
        lambda p: (p / "m.csv").write_text("a,b"),
        "HEADWATER_CONVERT_FILE_NOT_USABLE",
        ["/m.csv", "footer"],
    ),
    "a partition": (
        lambda p: put(p / "k=1" / "m", id=[1]),
        "DELTA_UNEXPECTED_NUM_PARTITION_COLUMNS_FROM_FILE_NAME",
        ["/k=1/m", "k STRING"],
    ),
    "another table": (_folder_of_another_table, "HEADWATER_CONVERT_FILE_NOT_USABLE", ["/x ", "another Delta table"]),
    "a link": (_link, "HEADWATER_CONVERT_FILE_NOT_USABLE", ["/link", "is a link"]),
    "a name with a space": (
        lambda p: put(p / "m", **{"a b": [1]}),
        "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES",
        ["a b"],
    ),
}


@pytest.mark.parametrize("misfit", MISFITS)
def test_a_file_that_does_not_fit_is_named_and_nothing_is_written(tmp_path, misfit):
    path = tmp_path / "t"
    put(path / "a", id=[1])
    make, condition, words = MISFITS[misfit]
    make(path)
    refused(condition, path, words=[word.replace("/", f"{path}/", 1) for word in words])


def test_a_file_that_goes_meanwhile_is_named_and_nothing_is_written(tmp_path):
    put(tmp_path / "a", id=[1])
    put(tmp_path / "b", id=[1])
    statement = Reading()
    statement.meanwhile = (tmp_path / "b").unlink
    refused("HEADWATER_CONVERT_FILE_NOT_USABLE", tmp_path, statement, words=(str(tmp_path / "b"),))


def test_another_table_that_comes_meanwhile_stays(tmp_path):
    put(tmp_path / "t" / "a", id=[1])
    statement = Reading()

    def create():
        create_table(create_request(tmp_path / "u", schema_json(other="long")), RecordingStatement())
        os.rename(tmp_path / "u" / "_delta_log", tmp_path / "t" / "_delta_log")

    statement.before_commits = [create]
    with pytest.raises(HeadwaterError):
        convert(tmp_path / "t", statement)
    assert not added(tmp_path / "t")


def test_damaged_files_are_left_out_where_the_session_ignores_them(tmp_path):
    put(tmp_path / "a", id=[1])
    (tmp_path / "b").write_text("no Parquet")
    convert(tmp_path, Reading({"spark.sql.files.ignoreCorruptFiles": "true"}))
    assert list(added(tmp_path)) == ["a"]


@pytest.mark.parametrize("what", ["nothing", "a folder", "a file"])
def test_no_files(tmp_path, what):
    path = tmp_path / "t"
    if what == "a folder":
        (path / "x=1").mkdir(parents=True)
    elif what == "a file":
        path.write_text("x")
    refused("HEADWATER_CONVERT_NO_FILES", path, words=(str(path),))


def test_formats(tmp_path):
    put(tmp_path / "a", id=[1])
    refused("DELTA_CONVERT_NON_PARQUET_TABLE", tmp_path, format="orc", words=("orc",))
    refused("DELTA_MISSING_PROVIDER_FOR_CONVERT", tmp_path, format=None)


def test_what_a_new_table_must_not_have(tmp_path):
    put(tmp_path / "a", id=[1])
    mapped = Reading({f"{_DEFAULTS}.columnMapping.mode": "name"})
    refused("DELTA_CONVERSION_UNSUPPORTED_COLUMN_MAPPING", tmp_path, mapped)
    tracked = {f"{_DEFAULTS}.enableRowTracking": "true"}
    refused("DELTA_CONVERT_TO_DELTA_ROW_TRACKING_WITHOUT_STATS", tmp_path, Reading(tracked), statistics=False)
    convert(tmp_path, Reading(tracked))
    assert added(tmp_path)["a"]["baseRowId"] == 0


def test_no_statistics(tmp_path):
    put(tmp_path / "a", id=[1])
    convert(tmp_path, statistics=False)
    assert "stats" not in added(tmp_path)["a"]
    assert actions(tmp_path, 0, "commitInfo")[0]["operationParameters"]["collectStats"] == "false"


def test_footers_are_read_again_only_for_columns_beyond_the_first(tmp_path):
    put(tmp_path / "a", a=[1], b=[2], c=[3])
    put(tmp_path / "b", c=[4], b=[5], a=[6])
    statement = Reading({f"{_DEFAULTS}.dataSkippingNumIndexedCols": "2"})
    convert(tmp_path, statement)
    assert statement.footer_jobs == [(2, None), (1, [("a",), ("b",)])]
    assert statistics(added(tmp_path)["b"])[1] == {"a": 6, "b": 5}
    named = tmp_path / "n"
    put(named / "a", a=[1], b=[2], c=[3])
    convert(named, Reading({f"{_DEFAULTS}.dataSkippingStatsColumns": "c"}))
    assert statistics(added(named)["a"])[1] == {"c": 3}


def test_the_log_of_a_stream_says_which_files_there_are(tmp_path):
    path = tmp_path / "t %41"
    names = ["old", "b", "c d", "gone", "stray"]
    for name in names:
        put(path / name, id=[1])
    log = path / "_spark_metadata"
    log.mkdir()

    def entry(name, action="add"):
        return json.dumps({"path": (path / name).as_uri(), "size": 1, "isDir": False, "action": action})

    (log / "0").write_text("v1\n" + entry("stray"))
    (log / "1.compact").write_text("\n".join(["v1", entry("b"), entry("gone")]))
    (log / "1").write_text("v1\n" + entry("stray"))
    (log / "2").write_text("\n".join(["v1", entry("c d"), entry("gone", "delete")]))
    convert(path)
    assert sorted(added(path)) == ["b", "c%20d"]
    os.rename(path / "_delta_log", tmp_path / "log")
    (path / "b").unlink()
    refused("HEADWATER_CONVERT_FILE_NOT_USABLE", path, words=(str(path / "b"), "does not exist"))
    put(path / "b", id=[1])
    (log / "2").write_text("v1\n" + json.dumps({"path": "file:/elsewhere/f", "isDir": False, "action": "add"}))
    refused("HEADWATER_CONVERT_FILE_NOT_USABLE", path, words=("elsewhere",))
    (log / "2").write_text("v1\n{")
    refused("HEADWATER_CONVERT_FILE_NOT_USABLE", path, words=("_spark_metadata/2", "damaged"))
    convert(path, Reading({f"{_CONVERT}.useMetadataLog": "false"}))
    assert sorted(added(path)) == ["b", "c%20d", "gone", "old", "stray"]


class TestOfACatalog:
    SCHEMA = schema_json(Id="long", p="string")

    def table(self, path):
        put(path / "p=a" / "f", id=pa.array([1], pa.int32()), other=["x"])
        put(path / "somewhere" / "f", id=pa.array([2], pa.int64()))
        put(path / "p=unknown" / "f", id=["no number"])
        partitions = {path / "p=a": {"p": "a"}, path / "somewhere": {"p": "__HIVE_DEFAULT_PARTITION__"}}
        return catalog(self.SCHEMA, ["p"], partitions, properties={"mine": "1", "delta.appendOnly": "true"})

    def test_partitions_columns_and_properties_are_the_catalogs(self, tmp_path):
        convert(tmp_path, entry=self.table(tmp_path))
        assert values(tmp_path) == {"p=a/f": {"p": "a"}, "somewhere/f": {"p": None}}
        assert {statistics(add)[1]["Id"] for add in added(tmp_path).values()} == {1, 2}
        metadata = load_snapshot(str(tmp_path), LocalStore()).metadata
        assert metadata.schema_string == schema_string(parse_schema(self.SCHEMA))
        assert metadata.configuration == {"mine": "1", "delta.appendOnly": "true"}
        parameters = actions(tmp_path, 0, "commitInfo")[0]["operationParameters"]
        assert (parameters["catalogTable"], parameters["partitionedBy"]) == ("db.t", "[]")

    def test_or_the_folders(self, tmp_path):
        entry = self.table(tmp_path)
        confs = {f"{_CONVERT}.useCatalogPartitions": "false"}
        refused("DELTA_UNEXPECTED_NUM_PARTITION_COLUMNS_FROM_FILE_NAME", tmp_path, Reading(confs), entry)
        os.rename(tmp_path / "somewhere", tmp_path / "p=b")
        refused(
            "DELTA_FAILED_MERGE_SCHEMA_FILE", tmp_path, Reading(confs), entry, words=("p=unknown/f", "in the table")
        )
        (tmp_path / "p=unknown" / "f").unlink()
        put(tmp_path / "p=unknown" / "f", id=[3])
        convert(tmp_path, Reading(confs), entry)
        assert sorted(added(tmp_path)) == ["p=a/f", "p=b/f", "p=unknown/f"]

    def test_the_columns_may_be_those_of_the_files(self, tmp_path):
        entry = self.table(tmp_path)
        confs = {f"{_CONVERT}.useCatalogSchema": "false"}
        refused("DELTA_FAILED_MERGE_SCHEMA_FILE", tmp_path, Reading(confs), entry, words=("somewhere/f",))
        put(tmp_path / "somewhere" / "f", id=pa.array([2], pa.int16()))
        convert(tmp_path, Reading(confs), entry)
        schema = load_snapshot(str(tmp_path), LocalStore()).schema
        assert [(f.name, f.type.sql()) for f in schema] == [("id", "int"), ("other", "string"), ("p", "string")]

    def test_a_partition_elsewhere(self, tmp_path):
        entry = catalog(self.SCHEMA, ["p"], {tmp_path / "x": {"p": "a"}})
        put(tmp_path / "t" / "p=a" / "f", id=[1])
        words = (str(tmp_path / "x"), "outside")
        refused("HEADWATER_CONVERT_FILE_NOT_USABLE", tmp_path / "t", entry=entry, words=words)

    def test_no_partition(self, tmp_path):
        put(tmp_path / "p=a" / "f", id=[1])
        entry = catalog(self.SCHEMA, ["p"], {})
        entry["partitions"] = []
        refused("DELTA_CONVERSION_NO_PARTITION_FOUND", tmp_path, entry=entry, words=("MSCK REPAIR TABLE db.t",))

    def test_only_the_files_of_the_folder_without_partitions(self, tmp_path):
        put(tmp_path / "f", id=[1])
        put(tmp_path / "x" / "f", id=[1])
        convert(tmp_path, entry=catalog(schema_json(id="long")))
        assert list(added(tmp_path)) == ["f"]

    def test_other_partition_columns_of_the_statement(self, tmp_path):
        entry = self.table(tmp_path)
        for kind, is_refused in {"integer": True, "string": False}.items():
            statement = Reading(partitions={"P": kind})
            if is_refused:
                condition = "DELTA_UNEXPECTED_PARTITION_SCHEMA_FROM_USER"
                refused(condition, tmp_path, statement, entry, partitioned_by="P …", words=("p string", "P int"))
            else:
                convert(tmp_path, statement, entry, partitioned_by="P …")

    def test_a_default_that_files_lack(self, tmp_path):
        default = {"CURRENT_DEFAULT": "5", "EXISTS_DEFAULT": "5"}
        put(tmp_path / "f", id=[1])
        entry = catalog(schema_json(id="long", n=("long", default)))
        refused("DELTA_FAILED_MERGE_SCHEMA_FILE", tmp_path, entry=entry, words=("column n", "default 5"))
        put(tmp_path / "f", id=[1], n=[6])
        convert(tmp_path, Reading({f"{_DEFAULTS}.feature.allowColumnDefaults": "supported"}), entry)

    def test_a_run_that_was_cut_off_before_the_catalog_changed(self, tmp_path):
        entry = self.table(tmp_path)
        convert(tmp_path, entry=entry)
        assert convert(tmp_path, entry=entry)["version"] == 0
        entry["properties"] = {"mine": "2"}
        with pytest.raises(HeadwaterError) as raised:
            convert(tmp_path, entry=entry)
        assert raised.value.condition == "DELTA_CONVERT_METASTORE_METADATA_MISMATCH"
        assert convert(tmp_path, Reading({f"{_CONVERT}.metadataCheck.enabled": "false"}), entry)["version"] == 1
        configuration = load_snapshot(str(tmp_path), LocalStore()).metadata.configuration
        assert configuration == {"mine": "2", "delta.appendOnly": "true"}
