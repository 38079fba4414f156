"""Every setting that code names is documented, and every documented one is read."""

from __future__ import annotations

import re

from headwater.statements import notices
from headwater.statements.settings import INTERNAL, SETTINGS, UNUSED_SETTINGS, markdown
from support.paths import ROOT

NAME = re.compile(r"""["'](spark\.(?:headwater|databricks)\.[A-Za-z0-9_.]*)""")


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


def test_each_listed_setting_is_named_by_code():
    assert {s.name for s in SETTINGS if not any(name.startswith(s.prefix) for name in named())} == set()


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
