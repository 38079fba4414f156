"""Every setting that code names is documented, and every documented one is read."""

from __future__ import annotations

import re

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.statements import notices, settings
from headwater.statements.settings import INTERNAL, SETTINGS, UNUSED_SETTINGS, markdown
from support.paths import ROOT
from support.recording_statement import RecordingStatement

NAME = re.compile(r"""["'](spark\.(?:headwater|databricks)\.[A-Za-z0-9_.]*)""")


#: Those that are read by their values.
CONSTANTS = {name: value for name, value in vars(settings).items() if isinstance(value, settings.Setting)}


def python_sources() -> list[str]:
    """The texts of the package's modules, but for the list itself."""
    sources = (ROOT / "python" / "headwater").rglob("*.py")
    return [source.read_text(encoding="utf-8") for source in sources if source.name != "settings.py"]


def named() -> set[str]:
    """All names of settings in texts of the code, but for the list itself; some are only beginnings."""
    sources = [*(ROOT / "python" / "headwater").rglob("*.py"), *(ROOT / "jvm").rglob("*.scala")]
    texts = (s.read_text(encoding="utf-8") for s in sources if s.name != "settings.py")
    return {name for text in texts for name in NAME.findall(text)}


def test_each_setting_that_code_names_is_listed():
    unused = UNUSED_SETTINGS.keys()
    exact = {s.name for s in SETTINGS if not s.is_family} | unused | set(INTERNAL)
    families = tuple(s.prefix for s in SETTINGS if s.is_family)
    unknown = {
        name
        for name in named()
        if name not in exact
        and not name.startswith(families)
        and not (name.endswith(".") and any(known.startswith(name) for known in (*exact, *families)))
    }
    assert unknown == set()


def test_each_listed_setting_is_read():
    """By its value here, or where it is named: in Scala, at Spark's start."""
    used = {word for source in python_sources() for word in re.findall(r"\b[A-Z_]+\b", source)}
    read = {s.name for constant, s in CONSTANTS.items() if constant in used}
    assert {
        s.name for s in SETTINGS if s.name not in read and not any(n.startswith(s.prefix) for n in named())
    } == set()


def test_a_setting_with_a_value_is_spelled_nowhere_else():
    spelled = re.compile("|".join(f"[\"']{re.escape(s.name)}[\"']" for s in CONSTANTS.values()))
    assert [found for source in python_sources() for found in spelled.findall(source)] == []


@pytest.mark.parametrize("setting", list(CONSTANTS.values()), ids=list(CONSTANTS))
def test_each_setting_is_read_or_refused_by_its_name(setting):
    """Of any text, and of its own default."""
    assert setting.of(RecordingStatement({})) == setting.value
    for text in ("", " ", "perhaps", "-1", "1.5", "1e400", "nan", "7", setting.default):
        refusal = None
        try:
            setting.of(RecordingStatement({setting.name: text}))
        except HeadwaterError as error:
            refusal = error
        if refusal is not None and refusal.condition != "DELTA_INVALID_INTERVAL":
            assert refusal.parameters == {"name": setting.name, "input": text, "explain": f"must be {setting.expected}"}
            assert setting.expected


def test_a_session_sets_values_of_each_type():
    confs = {
        "spark.databricks.delta.schema.autoMerge.enabled": " TRUE ",
        "spark.databricks.delta.optimize.maxFileSize": "123",
        "spark.databricks.delta.optimizeWrite.binSize": "2",
        "spark.databricks.delta.optimize.maxDeletedRowsRatio": "0.5",
        "spark.databricks.delta.autoCompact.enabled": "legacy",
        "spark.databricks.delta.checkpointV2.topLevelFileFormat": "JSON",
        "spark.databricks.delta.checkpoint.partSize": "0",
        "spark.headwater.hooks.deadlineSeconds": "0.5",
        "spark.headwater.stalenessLimit": "10 minutes",
    }
    statement = RecordingStatement(confs)
    found = [s.of(statement) for s in CONSTANTS.values() if s.name in confs]
    assert found == [600_000, 0.5, True, None, "json", True, 2 << 20, 123, 0.5]


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        (settings.RETRY_SECONDS, "-1"),
        (settings.OPTIMIZE_MAX_SIZE, "1g"),
        (settings.OPTIMIZE_DELETED_ROWS, "1.01"),
        (settings.OPTIMIZE_DELETED_ROWS, "nan"),
        (settings.OPTIMIZE_WRITE_BIN_SIZE, "0"),
        (settings.HOOKS_DEADLINE, "0"),
        (settings.HOOKS_DEADLINE, "inf"),
    ],
)
def test_what_is_no_value_is_refused(setting, text):
    with pytest.raises(HeadwaterError, match="DELTA_ILLEGAL_OPTION") as raised:
        setting.of(RecordingStatement({setting.name: text}))
    assert raised.value.parameters["input"] == text


#: What the documentation of Delta Lake's connector names, and what its code calls public.
PEERS = """
alterLocation.bypassSchemaCheck autoCompact.enabled autoCompact.maxFileSize autoCompact.minNumFiles
catalog.enableServerSidePlanning catalog.update.enabled changeDataFeed.timestampOutOfRange.enabled changelogV2.enabled
checkLatestSchemaOnRead checkpoint.partSize
clusteredTable.enableClusteringTablePreview commitInfo.userMetadata commitMetrics.enabled
constraints.assumesDropIfExists.enabled convert.iceberg.partitionEvolution.enabled
convert.iceberg.useNativePartitionValues convert.metadataCheck.enabled convert.partitionValues.ignoreCastFailure
convert.useCatalogSchema convert.useMetadataLog deltaLog.minorCompaction.useForReads history.metricsEnabled
hudi.maxPendingCommits iceberg.maxPendingActions iceberg.maxPendingCommits lastCommitVersionInSession
legacy.allowAmbiguousPathsInCreateTable merge.materializeSource.maxAttempts merge.repartitionBeforeWrite.enabled
optimize.repartition.enabled optimizeWrite.binSize optimizeWrite.enabled optimizeWrite.maxShufflePartitions
optimizeWrite.numShuffleBlocks properties.defaults.appendOnly properties.defaults.minReaderVersion
properties.defaults.minWriterVersion replaceWhere.constraintCheck.enabled replaceWhere.dataColumns.enabled
restore.protocolDowngradeAllowed retentionDurationCheck.enabled schema.autoMerge.enabled stalenessLimit
tableFeatures.fastDropFeature.dvTombstoneCountThreshold tableFeatures.fastDropFeature.enabled
uniform.iceberg.maxActionsToConvertForCommitLarge v2.enableMode vacuum.lite.enabled vacuum.logging.enabled
vacuum.parallelDelete.enabled vacuum.parallelDelete.parallelism withEventTimeOrder.enabled write.txnAppId
write.txnVersion write.txnVersion.autoReset.enabled writeChecksumFile.enabled
"""
STORES = (
    "spark.delta.logStore.class",
    "spark.delta.logStore.s3a.impl",
    "spark.io.delta.storage.S3DynamoDBLogStore.x",
    "spark.hadoop.delta.enableFastS3AListFrom",
)


def test_each_setting_of_the_peer_acts_or_warns(caplog):
    """Never both, and never in silence. That those in ``SETTINGS`` are read is checked above."""
    names = [*(f"spark.databricks.delta.{name}" for name in PEERS.split()), *STORES]
    caplog.set_level("WARNING", logger="headwater")
    for name in names:
        caplog.clear()
        notices.of_settings({name: "1"})
        warned = any(name in record.getMessage() for record in caplog.records)
        acts = any(name == s.name or (s.is_family and name.startswith(s.prefix)) for s in SETTINGS)
        assert acts != warned, name
    assert all(why for why in UNUSED_SETTINGS.values())


def test_the_documentation_is_that_of_the_list():
    assert (ROOT / "docs" / "settings.md").read_text(encoding="utf-8") == markdown()


def test_each_setting_is_found_on_the_page_by_its_name():
    """Under one topic, with an anchor of its own."""
    page = markdown()
    anchors = re.findall(r'<a id="([^"]+)"></a>', page)
    names = [*(s.name for s in SETTINGS), *UNUSED_SETTINGS, *settings.UNUSED_VALUES]
    assert sorted(anchors) == sorted(map(settings.anchor, names))
    assert len(set(anchors)) == len(anchors)
    assert "| --- | --- | --- |\n\n" not in page, "a topic without settings"
