"""Table properties among a writer's options: those of a new table as TBLPROPERTIES gives them, none of an old one."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.basics.errors import HeadwaterError
from headwater.protocol.properties import PROPERTIES
from headwater.statements.running.opening import open_snapshot
from support.requests import called, create_request, create_table, resolve_write, schema_json

SCHEMA = schema_json(a="integer", b="string")
NAMES = [*sorted(PROPERTIES), "delta.nope", "delta.enableChangeDataFed", "delta.feature.nope", "mine", "my.own"]
VALUES = ["true", "false", "name", "id", "1", "7", "interval 60 days", "a", "zstd", "", "serializable"]
PROPERTY = st.sampled_from([spelt for name in NAMES for spelt in (name, name, name.lower(), name.upper())])


def outcome(path, statement, **request):
    """What a new table's properties and protocol are, or why it is refused."""
    try:
        create_table(create_request(path, SCHEMA, **request), statement)
    except HeadwaterError as error:
        return error.condition, error.text.replace(str(path), "")
    snapshot = open_snapshot(str(path), statement)
    # Names and times are made for each table.
    made = ("materialized", "EnablementTimestamp")
    kept = {k: v for k, v in snapshot.metadata.configuration.items() if not any(word in k for word in made)}
    return kept, snapshot.protocol


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.dictionaries(PROPERTY, st.sampled_from(VALUES), min_size=1, max_size=3), st.booleans())
def test_a_new_table_has_them_as_by_tblproperties(tmp_path_factory, statement, given_options, replaces):
    """Those of Delta, and those of expectations; other options are no properties."""
    folder = tmp_path_factory.mktemp("t")
    own = ("delta.", "headwater.expect.", "headwater.quarantine")
    properties = {k: v for k, v in given_options.items() if k.lower().startswith(own)}
    outcomes = []
    for how, given_here in (("options", given_options), ("properties", properties)):
        if replaces:
            create_table(create_request(folder / how, SCHEMA), statement)
        mode = "create_or_replace" if replaces else "create"
        outcomes.append(outcome(folder / how, statement, mode=mode, **{how: given_here}))
    assert outcomes[0] == outcomes[1]


def test_an_option_counts_more_than_a_property_of_the_statement(tmp_path, statement):
    both = {"options": {"DELTA.appendonly": "true"}, "properties": {"delta.appendOnly": "false"}}
    assert outcome(tmp_path / "t", statement, **both)[0] == {"delta.appendOnly": "true"}


@pytest.fixture
def writes(tmp_path, statement):
    """Each way into a table that exists, given options; the second one overwrites its schema."""
    path = str(tmp_path / "t")
    create_table(create_request(path, SCHEMA, properties={"delta.appendOnly": "false"}), statement)
    sink = {"table": path, "mode": "Append", "partitionColumns": []}
    save = {"mode": "replace", "saveMode": "Overwrite"}
    append = {"table": path, "schema": SCHEMA, "version": 0, "byName": True, "mode": "append"}
    return path, {
        "append": lambda options: resolve_write({**append, "options": options}, statement),
        "overwrite": lambda options: create_table(create_request(path, SCHEMA, **save, options=options), statement),
        "stream": lambda options: called("check_sink")({"sink": {**sink, "options": options}}, statement),
    }


@pytest.mark.parametrize("way", ["append", "stream", "overwrite"])
def test_a_table_that_exists_does_not_get_them(writes, way, statement, caplog):
    path, ways = writes
    caplog.set_level("WARNING", logger="headwater")
    ways[way]({"DELTA.appendonly": "true", "delta.feature.rowTracking": "supported"})
    found = open_snapshot(path, statement)
    assert found.metadata.configuration.get("delta.appendOnly", "false") == "false"
    assert "rowTracking" not in (found.protocol.writer_features or ())
    assert "the option delta.appendOnly has no effect, because the table already exists" in caplog.text
    for wrong, condition in (("delta.nope", "DELTA_UNKNOWN_CONFIGURATION"), ("delta.appendOnly", "DELTA_INVALID_PROP")):
        with pytest.raises(HeadwaterError, match=condition):
            ways[way]({wrong: "maybe"})


def test_a_stream_that_creates_its_table_is_refused_before_it_starts(tmp_path, statement):
    sink = {"table": str(tmp_path / "new"), "mode": "Append", "partitionColumns": []}
    for options in ({"delta.nope": "1"}, {"delta.appendOnly": "maybe"}):
        with pytest.raises(HeadwaterError, match="DELTA_UNKNOWN_CONFIGURATION|DELTA_INVALID_PROPERTY_VALUE"):
            called("check_sink")({"sink": {**sink, "options": options}}, statement)
    called("check_sink")({"sink": {**sink, "options": {"delta.appendOnly": "true"}}}, statement)
