"""The API's methods take what the methods of the same names in ``delta.tables`` take: names, order and defaults."""

from __future__ import annotations

import inspect

import pytest

from headwater import tables

CONDITION = "condition=None"
CLONED = "isShallow=False, replace=False, properties=None"
METHODS = {
    "DeltaTable": {
        "toDF": "", "alias": "aliasName", "generate": "mode", "delete": CONDITION, "update": "condition=None, set=None",
        "merge": "source, condition", "vacuum": "retentionHours=None", "history": "limit=None", "detail": "",
        "convertToDelta": "sparkSession, identifier, partitionSchema=None",
        "forPath": "sparkSession, path, hadoopConf=None",
        "forName": "sparkSession, tableOrViewName", "create": "sparkSession=None", "replace": "sparkSession=None",
        "createIfNotExists": "sparkSession=None", "createOrReplace": "sparkSession=None",
        "isDeltaTable": "sparkSession, identifier", "upgradeTableProtocol": "readerVersion, writerVersion",
        "addFeatureSupport": "featureName", "dropFeatureSupport": "featureName, truncateHistory=None",
        "restoreToVersion": "version", "restoreToTimestamp": "timestamp", "optimize": "", "clone": f"target, {CLONED}",
        "cloneAtVersion": f"version, target, {CLONED}", "cloneAtTimestamp": f"timestamp, target, {CLONED}",
    },
    "DeltaMergeBuilder": {
        "whenMatchedUpdate": "condition=None, set=None", "whenMatchedUpdateAll": CONDITION,
        "whenMatchedDelete": CONDITION,
        "whenNotMatchedInsert": "condition=None, values=None", "whenNotMatchedInsertAll": CONDITION,
        "whenNotMatchedBySourceUpdate": "condition=None, set=None", "whenNotMatchedBySourceDelete": CONDITION,
        "withSchemaEvolution": "", "execute": "",
    },
    "DeltaTableBuilder": {
        "tableName": "identifier", "location": "location", "comment": "comment", "addColumns": "cols",
        "partitionedBy": "*cols", "clusterBy": "*cols", "property": "key, value", "execute": "",
    },
    "DeltaOptimizeBuilder": {"where": "partitionFilter", "executeCompaction": "", "executeZOrderBy": "*cols"},
    "IdentityGenerator": {"__init__": "start=1, step=1"},
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_methods_take_what_programs_give_them(name):
    for method, expected in METHODS[name].items():
        found = inspect.signature(getattr(getattr(tables, name), method)).parameters.values()
        given = [str(p.replace(annotation=p.empty)) for p in found if p.name != "self"]
        assert ", ".join(given) == expected, method
