"""Our table of features against the list that the peer's own classes give in its process, and files that features ask
both of us to write alike.
"""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq
from deltalake import DeltaTable

from headwater.protocol.features import FEATURES

#: The peer's features as plain values: name, (reader version, writer version), legacy, of readers, droppable, requires.
_THEIR_FEATURES = """
jvm = spark._jvm
plain = jvm.scala.jdk.javaapi.CollectionConverters.asJava
loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
kinds = [
    jvm.java.lang.Class.forName("org.apache.spark.sql.delta." + name, True, loader)
    for name in ("LegacyFeatureType", "ReaderWriterFeatureType", "RemovableFeature")
]
result = [
    [
        feature.name(),
        [feature.minReaderVersion(), feature.minWriterVersion()],
        *(kind.isInstance(feature) for kind in kinds),
        sorted(required.name() for required in plain(feature.requiredFeatures())),
    ]
    for feature in plain(jvm.org.apache.spark.sql.delta.TableFeature.allSupportedFeaturesMap()).values()
]
"""
#: What the peer alone has, and why.
ONLY_THEIRS = {
    "adaptiveMetadata-preview": "an unfinished preview of another form of the log, which no chapter of the protocol has"
}
#: What we alone have, and why.
ONLY_OURS = {"timestampWithoutTimezone": "what tables of other writers call timestampNtz"}
#: What the peer takes from a table and we do not, and why.
KEPT = {"catalogManaged": "its table would stay a catalog's own that no longer hears of commits; refused by name"}


def test_the_peer_has_the_same_features(peer):
    """A feature new at the peer fails this test: describe it in our table, or say here why not."""
    theirs = {name: facts for name, *facts in peer.run(_THEIR_FEATURES)}
    assert theirs.keys() - FEATURES.keys() == ONLY_THEIRS.keys()
    assert FEATURES.keys() - theirs.keys() == ONLY_OURS.keys()
    ours: dict[str, list[Any]] = {
        name: [list(feature.legacy or (3 if feature.reader else 0, 7)), bool(feature.legacy)]
        + [feature.reader, feature.droppable or name in KEPT, sorted(feature.requires)]
        for name, feature in FEATURES.items()
        if name not in ONLY_OURS
    }
    for versions, legacy, reader, *_ in ours.values():
        if legacy and not reader:
            versions[0] = 0  # the peer's reader version of a feature of writers; the protocol has 1
    assert {name: theirs[name] for name in ours} == ours
    assert not any(FEATURES[name].droppable for name in KEPT)


def test_both_write_partition_columns_into_files(spark, peer, ours, tmp_path):
    """Each engine into a table of the other with the feature: the partition columns last, the same rows."""
    written = {}
    for name, create, insert in (("ours", spark.sql, peer.sql), ("theirs", peer.sql, spark.sql)):
        path = tmp_path / name
        table = f"delta.`{path}`"
        create(
            f"CREATE TABLE {table} (p STRING, a INT, q DATE) USING delta PARTITIONED BY (q, p) "
            "TBLPROPERTIES ('delta.enableMaterializePartitionColumnsFeature' = 'true')"
        )
        create(f"INSERT INTO {table} VALUES ('x', 1, DATE'2024-01-01'), ('', 2, NULL)")
        insert(f"INSERT INTO {table} VALUES ('y', 3, DATE'2024-01-02')")
        assert ours(path) == peer.table(path)
        files = DeltaTable(str(path)).file_uris()
        assert DeltaTable(str(path)).to_pyarrow_table().to_pydict()["p"].count(None) == 1
        names = [pq.ParquetFile(file).schema_arrow.names for file in files]
        written[name] = [(first, set(others)) for first, *others in names]
    assert written["ours"] == written["theirs"] == [("a", {"p", "q"})] * 3
