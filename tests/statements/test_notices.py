"""What is set and does nothing: declared where it is declared to exist, warned of once, held against the code."""

import logging
from pathlib import Path

import pytest

import headwater
from headwater.basics.errors import HeadwaterError
from headwater.protocol import properties
from headwater.protocol.properties import PROPERTIES, Property
from headwater.statements import notices
from support.commits import edit_log
from support.requests import alter_table, create_request, create_table, data_file, schema_json, write

SCHEMA = schema_json(a="integer")
SOURCES = Path(headwater.__file__).parent
DECLARED = {SOURCES / "protocol" / "properties.py", SOURCES / "statements" / "settings.py"}


def texts():
    files = [*SOURCES.rglob("*.py"), *(SOURCES.parents[1] / "jvm" / "src" / "main").rglob("*.scala")]
    return {file: file.read_text(encoding="utf-8") for file in files if file not in DECLARED}


@pytest.fixture
def said(caplog):
    """The warnings since the last look."""
    caplog.set_level(logging.WARNING, logger="headwater")

    def look():
        found = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return found

    return look


def test_each_property_is_acted_on_or_declared_unused():
    code = "\n".join(texts().values())
    named = {known: name for name, known in vars(properties).items() if isinstance(known, Property)}
    for known in PROPERTIES.values():
        if known.settable:
            is_used = known in named and f"properties.{named[known]}" in code
            assert is_used != (known.unused is not None), known.name


def test_no_setting_is_both_read_and_unused():
    code = "\n".join(texts().values())
    assert [name for name in notices.UNUSED_SETTINGS if f'"{name}"' in code] == []


def create(path, statement, **more):
    return create_table(create_request(path, SCHEMA, **more), statement)


def alter(path, statement, **properties):
    changes = [{"kind": "set_property", "key": key.replace("_", "."), "value": v} for key, v in properties.items()]
    return alter_table({"table": str(path), "name": "t", "changes": changes}, statement)


def insert(path, statement):
    statement.written = [[data_file("one.parquet", 1, [[1, 1, 0]])]]
    return write({"table": str(path), "name": "t", "plan": 0, "schema": SCHEMA, "options": {}}, statement)


@pytest.mark.parametrize("name", sorted(name for name, known in PROPERTIES.items() if known.unused))
def test_an_unused_property_is_recorded_and_warned_of_once(tmp_path, statement, said, name):
    expected = PROPERTIES[name]
    value = next(v for v in ("true", "3", "1.0.0", "interval 1 day", "10mb") if accepts(expected, v))
    create(tmp_path, statement, properties={name: value})
    warned = said()
    assert len(warned) == 1
    assert name in warned[0]
    assert str(tmp_path) in warned[0]
    assert expected.unused in warned[0]
    alter(tmp_path, statement, **{name.replace(".", "_"): value})
    assert said() == []
    assert name in (tmp_path / "_delta_log" / f"{0:020d}.json").read_text()


def accepts(known, value):
    try:
        return known.accepts(value)
    except HeadwaterError:
        return False


def test_used_properties_and_settings_are_not_warned_of(tmp_path, make_statement, said):
    statement = make_statement({"spark.headwater.dml.retries": "1", "spark.databricks.delta.unheard.of": "1"})
    create(tmp_path, statement, properties={"delta.appendOnly": "true", "mine": "1"})
    insert(tmp_path, statement)
    assert said() == []


def test_settings_without_effect_are_warned_of_once(tmp_path, make_statement, said, monkeypatch):
    monkeypatch.setattr("headwater.basics.warn_once._WARNED", {})
    statement = make_statement({"spark.databricks.delta.stats.skipping": "true", "spark.headwater.stalenesLimit": "1"})
    create(tmp_path, statement)
    first = "\n".join(said())
    assert "stats.skipping" in first
    assert "Did you mean spark.headwater.stalenessLimit?" in first
    insert(tmp_path, statement)
    assert said() == []


@pytest.mark.parametrize(("value", "is_warned_of"), [("legacy", True), ("CORRECTED", False), ("EXCEPTION", False)])
def test_only_values_without_effect_are_warned_of(said, monkeypatch, value, is_warned_of):
    monkeypatch.setattr("headwater.basics.warn_once._WARNED", {})
    notices.of_settings({"spark.sql.parquet.datetimeRebaseModeInWrite": value})
    assert bool(said()) is is_warned_of


UNIFORM = {"delta.universalFormat.enabledFormats": "iceberg"}


def test_uniform_without_compatibility_is_refused_wherever_it_is_switched_on(tmp_path, statement, make_statement):
    def refused(run):
        with pytest.raises(HeadwaterError) as error:
            run()
        assert error.value.condition == "DELTA_UNIVERSAL_FORMAT_VIOLATION"
        assert "iceberg" in error.value.text

    refused(lambda: create(tmp_path / "a", statement, properties=UNIFORM))
    refused(lambda: create(tmp_path / "a", statement, properties={"DELTA.universalformat.ENABLEDformats": "iceberg"}))
    default = make_statement({f"spark.databricks.delta.properties.defaults.{key[6:]}": v for key, v in UNIFORM.items()})
    refused(lambda: create(tmp_path / "a", default))
    assert not (tmp_path / "a" / "_delta_log").exists()
    create(tmp_path / "b", statement)
    refused(lambda: alter(tmp_path / "b", statement, delta_universalFormat_enabledFormats="iceberg"))
    for mode in ("replace", "create_or_replace"):
        refused(lambda mode=mode: create(tmp_path / "b", statement, mode=mode, properties=UNIFORM))
    assert len(list((tmp_path / "b" / "_delta_log").glob("*.json"))) == 1
    alter(tmp_path / "b", statement, delta_universalFormat_enabledFormats="")


def test_formats_and_partitions_that_no_metadata_is_written_for(tmp_path, statement):
    compatible = {"delta.enableIcebergCompatV2": "true"}
    for formats, partition, reason in (
        ("hudi", [], "hudi"),
        ("iceberg,hudi", [], "hudi"),
        ("iceberg", ["ts"], "TIMESTAMP"),
    ):
        schema = schema_json(id="long", ts="timestamp")
        given = compatible | {"delta.universalFormat.enabledFormats": formats}
        request = create_request(tmp_path / "a", schema, properties=given, partitionColumns=partition)
        with pytest.raises(HeadwaterError, match=reason) as error:
            create_table(request, statement)
        assert error.value.condition == "DELTA_UNIVERSAL_FORMAT_VIOLATION"
    assert not (tmp_path / "a" / "_delta_log").exists()


def test_what_iceberg_compat_v3_needs_is_not_written(tmp_path, statement):
    given = {"delta.enableIcebergCompatV3": "true"}
    with pytest.raises(HeadwaterError, match=r"delta\.enableIcebergCompatV3.*version 3 of Iceberg's format") as error:
        create(tmp_path / "a", statement, properties={**given, **UNIFORM})
    assert error.value.condition == "DELTA_UNIVERSAL_FORMAT_VIOLATION"
    assert not (tmp_path / "a" / "_delta_log").exists()
    create(tmp_path / "a", statement, properties=given)
    with pytest.raises(HeadwaterError, match=r"UPGRADE UNIFORM \(ICEBERG_COMPAT_VERSION = 2\)"):
        alter(tmp_path / "a", statement, delta_universalFormat_enabledFormats="iceberg")


@pytest.fixture
def uniform(tmp_path, statement):
    """A table whose UniForm another engine switched on."""
    path = tmp_path / "uniform"
    create(path, statement)
    edit_log(path, lambda line: line["metaData"]["configuration"].update(UNIFORM) if "metaData" in line else None)
    from headwater.statements.running.opening import CACHE

    CACHE.forget(str(path))
    return path


def test_a_table_with_uniform_is_written_with_one_warning(uniform, statement, said):
    insert(uniform, statement)
    warned = [text for text in said() if "universalFormat" in text]
    assert len(warned) == 1
    assert str(uniform) in warned[0]
    insert(uniform, statement)
    alter(uniform, statement, delta_appendOnly="true")
    assert said() == []


def test_a_copy_of_a_table_with_uniform_has_none(uniform, tmp_path, statement):
    create(tmp_path / "copy", statement, like=str(uniform))
    assert "universalFormat" not in (tmp_path / "copy" / "_delta_log" / f"{0:020d}.json").read_text()


def test_images_that_a_changelog_cannot_pair(said):
    notices.of_unpaired_images("/t of images", {9, 3, 7, 1, 5, 8})
    notices.of_unpaired_images("/t of images", {9, 3, 7, 1, 5, 8})
    (text,) = said()
    assert "version 1, 3, 5, 7, 8, ..." in text
    assert "idCols" in text
