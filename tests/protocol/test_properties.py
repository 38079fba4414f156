"""Table properties."""

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.protocol import properties
from headwater.protocol.properties import (
    PROPERTIES,
    canonical_name,
    for_new_table,
    normalize,
    parse_bytes,
    parse_interval,
    validate,
)

DAY = 24 * 3600 * 1000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("interval 7 days", 7 * DAY),
        ("7 days", 7 * DAY),
        ("INTERVAL 1 week", 7 * DAY),
        ("interval 1 day 3 hours", DAY + 3 * 3600_000),
        ("168 hours", 7 * DAY),
        ("interval 1.5 seconds", 1500),
        ("interval 2500 microseconds", 2),
        ("interval -1 days", -DAY),
        ("interval 0 hours", 0),
    ],
)
def test_intervals(text, expected):
    assert parse_interval(text) == expected


@pytest.mark.parametrize("text", ["", "interval", "7", "interval 1 month", "1 year", "soon", "1 day 3", "interval 1 d"])
def test_no_intervals(text):
    with pytest.raises(HeadwaterError, match="DELTA_INVALID_INTERVAL"):
        parse_interval(text)


def test_names_ignore_case_and_keep_one_spelling():
    assert normalize({"DELTA.APPENDONLY": "true", "Mine": "x", "delta.constraints.Foo": "a>0"}) == {
        "delta.appendOnly": "true",
        "Mine": "x",
        "delta.constraints.Foo": "a>0",
    }


def test_unknown_names_come_with_a_suggestion():
    with pytest.raises(HeadwaterError) as error:
        canonical_name("delta.appendonyl")
    assert error.value.condition == "DELTA_UNKNOWN_CONFIGURATION"
    assert "delta.appendOnly?" in error.value.text
    assert canonical_name("delta.x.y", allow_arbitrary=True) == "delta.x.y"


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("delta.appendOnly", "TRUE", "maybe"),
        ("delta.checkpointInterval", "1", "0"),
        ("delta.checkpointInterval", "10", "ten"),
        ("delta.dataSkippingNumIndexedCols", "-1", "-2"),
        ("delta.logRetentionDuration", "interval 30 days", "interval -1 days"),
        ("delta.isolationLevel", "serializable", "SnapshotIsolation"),
        ("delta.columnMapping.mode", "NAME", "foo"),
        ("delta.checkpointPolicy", "v2", "v3"),
        ("delta.targetFileSize", "32mb", "x"),
        ("delta.parquet.format.version", "2.12.0", "3"),
        ("delta.randomPrefixLength", "1", "0"),
    ],
)
def test_a_good_value_passes_and_a_bad_one_is_refused(name, good, bad):
    validate(name, good)
    with pytest.raises(HeadwaterError) as error:
        validate(name, bad)
    assert error.value.condition in ("DELTA_INVALID_PROPERTY_VALUE", "DELTA_INVALID_ISOLATION_LEVEL")


def test_every_default_is_a_value():
    for known in PROPERTIES.values():
        assert known.default is None or known.accepts(known.default)
        assert known.of({}) == (known.absent if known.default is None else known.of({known.name: known.default}))


def test_every_property_has_its_name_once():
    listed = [value for value in vars(properties).values() if isinstance(value, properties.Property)]
    assert len({known.name for known in listed}) == len(listed) >= 40
    assert {known.name for known in listed} <= PROPERTIES.keys()
    assert all(known.unused is None for known in listed), "what nothing acts on needs no name in code"


def test_kept_properties_cannot_be_set():
    with pytest.raises(HeadwaterError, match="DELTA_CANNOT_MODIFY_TABLE_PROPERTY"):
        normalize({"delta.columnMapping.maxColumnId": "7"})


def test_session_defaults_are_under_the_statement():
    prefix = "spark.databricks.delta.properties.defaults."
    session = {f"{prefix}appendonly": "true", f"{prefix}feature.deletionVectors": "supported", "spark.x": "1"}
    assert for_new_table({"delta.appendOnly": "false"}, session) == {
        "delta.appendOnly": "false",
        "delta.feature.deletionVectors": "supported",
    }


def test_typed_reading_has_defaults():
    assert properties.FILE_RETENTION.of({}) == 7 * DAY
    assert properties.TRANSACTION_RETENTION.of({}) is None
    assert properties.CHECKPOINT_INTERVAL.of({"delta.checkpointInterval": "5"}) == 5
    assert properties.EXPIRED_LOG_CLEANUP.of({}) is True
    assert properties.OPTIMIZE_WRITE.of({}) is False
    assert properties.AUTO_COMPACT.of({}) == ""
    assert properties.COLUMN_MAPPING_MODE.of({"delta.columnMapping.mode": "Name"}) == "name"
    assert parse_bytes("128mb") == parse_bytes("134217728") == 128 << 20
    assert parse_bytes(f"{1 << 60}t") == (1 << 63) - 1


@pytest.mark.parametrize(
    ("known", "stored", "condition"),
    [
        (properties.CHECKPOINT_INTERVAL, "ten", "DELTA_INVALID_PROPERTY_VALUE"),
        (properties.INDEXED_COLUMNS_LIMIT, "-2", "DELTA_INVALID_PROPERTY_VALUE"),
        (properties.LOG_RETENTION, "soon", "DELTA_INVALID_INTERVAL"),
        (properties.FILE_RETENTION, "interval -1 days", "DELTA_INVALID_INTERVAL"),
    ],
)
def test_what_another_writer_stored_and_is_no_value(known, stored, condition):
    with pytest.raises(HeadwaterError) as error:
        known.of({known.name: stored})
    assert error.value.condition == condition
