"""Options: each misspelling is refused, no option of another layer is, and the code reads those that are declared."""

import re
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headwater.basics.errors import HeadwaterError
from headwater.statements.known_options import OPTIONS, SPARKS, UNUSED, check_options, markdown

ROOT = Path(__file__).resolve().parents[2]
#: Those that a user may misspell, and that we tell from other names. Spark gives path to every reader.
NAMES = [o.name for options in OPTIONS.values() for o in options if "." not in o.name and o.name != "path"]
FOLDED = {name.lower() for name in (*NAMES, "path")}
#: What the files of an index are written with is no option of a user.
_WITHOUT = ("known_options.py", "key_indexes.py")
CODE = "".join(
    source.read_text(encoding="utf-8").lower()
    for folder in ("python/headwater", "jvm/src")
    for source in (ROOT / folder).rglob("*.[ps]*")
    if source.suffix in (".py", ".scala") and source.name not in _WITHOUT
)
PEERS_OPTIONS = """
dataChange endingTimestamp endingVersion excludeRegex failOnDataLoss ignoreChanges ignoreDeletes ignoreFileDeletion
maxBytesPerTrigger maxFilesPerTrigger mergeSchema optimizeWrite overwriteSchema parquet.writer.version
partitionOverwriteMode readChangeFeed replaceOn replaceUsing replaceWhere schemaLocation schemaTrackingLocation
skipChangeCommits startingTimestamp startingVersion streamingSourceTrackingId targetAlias timestampAsOf txnAppId
txnVersion useNullIntolerantEqualityWithDPO userMetadata versionAsOf withEventTimeOrder writePartitionColumns
allowSourceColumnDrop allowSourceColumnRename allowSourceColumnTypeChange compression maxRecordsPerFile
"""
#: What Spark's other formats, its own layers, frameworks and table formats document as options of readers and writers.
OTHERS = """
__partition_columns __clustering_columns __v1_save_as_table_overwrite _internal allowBackslashEscapingAnyCharacter
allowComments allowNonNumericNumbers allowNumericLeadingZeros allowSingleQuotes allowUnquotedControlChars
allowUnquotedFieldNames append_mode arrayElementName assumeRoleArn attributePrefix avroSchema avroSchemaUrl
badRecordsPath basePath batchsize batchSize branch bucketBy cascadeTruncate charset charToEscapeQuoteEscaping
checkpointInterval cleanSource clusterBy clusterByAuto codec collection columnNameOfCorruptRecord columnNameMapping
comment compressionCodec compressionLevel connectionProvider createTableColumnTypes createTableOptions credential
customSchema database dataAddress datetimeFormat dateFormat dateFormatInRead dbtable declaration deleteMode delimiter
delta.sharing.format discardCachedInputRatio driver dropFieldIfAllNull emptyValue enableDateTimeParsingFallback
encoding endingOffsets endingOffsetsByTimestamp endpoint enforceSchema escape escapeQuotes excludeAttribute extension
failOnUnknownFields fetchOffset.numRetries fetchsize fetchSize fileFormat fileNameOnly file-format format
fs.s3a.access.key groupIdPrefix handleInvalid header headers host hoodie.datasource.write.operation ignoreExtension
ignoreLeadingWhiteSpace ignoreNamespace ignoreNullFields ignoreSurroundingSpaces ignoreTrailingWhiteSpace
includeExistingFiles includeHeaders includeTimestamp inferColumnTypes inferSchema inferTimestamp isolationLevel
isolation-level kafka.bootstrap.servers kerberos keytab kmsKeyId latestFirst lineSep locale location lowerBound
maxCachedFiles maxCharsPerColumn maxColumns maxFileAge maxLinesPerTrigger maxNestingDepth maxOffsetsPerTrigger
maxRecordLength maxRecordsPerFetch maxRowsPerBatch maxRowsPerPartition maxTriggerDelay maxVersionsPerRpc mode
modifiedAfter modifiedBefore multiLine multiline nanValue negativeInf newRows nullValue nullValues numPartitions
numRows numPartition oracle.jdbc.timezoneAsRegion orc.compress orc.bloom.filter.columns overwrite-mode
parquet.block.size parquet.bloom.filter.enabled parser partitionBy partitionColumn partitioning password
pathGlobFilter paths positionalMapping pipelines.reset port positiveInf preferDate preferIntervals prefersDecimal
prefetch preserveSchema primitivesAsString principal pushDownAggregate pushDownLimit pushDownOffset pushDownPredicate
pushDownTableSample query queryTimeout quote quoteAll quoteEscapedCharacter quoteMode rampUpTime readMode recordName
recordNamespace recursiveFieldMaxDepth recursiveFileLookup refreshKrb5Config rescuedDataColumn responseFormat rootTag
rowsPerSecond rowTag rowValidationXSDPath samplingRatio saveMode schema schemaRegistryUrl sep serialization.format
sessionInitStatement sheetName singleVariantColumn snapshot-id sortBy sourceArchiveDir spark.sql.x stagingDir
startingOffsets startingOffsetsByTimestamp startingOffsetsByTimestampStrategy start-snapshot-id end-snapshot-id
streamName stringType subscribe subscribePattern table tableName table_type tag target-file-size-bytes tempDir
timestampFormat timestampNTZFormat timezone timeZone topic topics treatEmptyValuesAsNulls truncate trustStore
unescapedQuoteHandling unityCatalogLocation uniqueKey uploadMode upperBound url useDeprecatedOffsetFetching user
valueTag version verticaHost wholetext wholeFile wildcardColName write-format wrappedXml zorderBy
"""


@st.composite
def misspellings(draw):
    """A declared name, and the same with one slip of the hand."""
    name = draw(st.sampled_from(NAMES))
    at = draw(st.integers(1, len(name) - 1))
    letter = draw(st.sampled_from("abcdefghijklmnopqrstuvwxyz"))
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)
    wrong = draw(
        st.sampled_from(
            [
                name[:at] + name[at + 1 :],
                name[:at] + letter + name[at + 1 :],
                name[:at] + letter + name[at:],
                name[: at - 1] + name[at] + name[at - 1] + name[at + 1 :],
                "_".join(words),
                "-".join(words).lower(),
                f"{name} ",
                name + "s",
                *(["".join([*words, "Enabled"]), "".join(words[:-1])] if len(words) > 2 else []),
            ]
        )
    )
    assume(wrong.strip("_-").lower() not in FOLDED)
    return name, wrong


def refusal(options, **how):
    try:
        check_options(options, **how)
    except HeadwaterError as error:
        return error
    return None


@given(misspellings())
def test_each_misspelling_is_refused_with_a_name_that_there_is(case):
    name, wrong = case
    error = refusal({wrong: "true"})
    assert error is not None, (name, wrong)
    assert error.condition == "HEADWATER_UNKNOWN_OPTION"
    assert error.parameters["option"] == wrong
    assert error.parameters["suggestion"].removeprefix(" Did you mean ").removesuffix("?").lower() in FOLDED


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("idCol", "idCols"),
        ("idColumns", "idCols"),
        ("mergeSchem", "mergeSchema"),
        ("mergeSchemas", "mergeSchema"),
        ("merge.schema.enabled", None),
        ("versionAsOff", "versionAsOf"),
        ("as-of-timestamp", "timestampAsOf"),
        ("startVersion", "startingVersion"),
        ("partitionOverwrite", "partitionOverwriteMode"),
        ("MERGESCHEMA", None),
        ("quite another", None),
    ],
)
def test_what_is_meant(wrong, right):
    error = refusal({wrong: "x"})
    assert (error and error.parameters["suggestion"]) == (right and f" Did you mean {right}?")


def test_options_of_other_layers_are_never_refused(caplog):
    """On DataFrames. The log warns of each once, unless it belongs to Spark's layers or a file system."""
    caplog.set_level("WARNING", logger="headwater")
    for name in OTHERS.split():
        for spelt in (name, name.lower()):
            assert refusal({spelt: "x"}) is None, spelt
    assert "option header is not known, and has no effect here." in caplog.text
    assert "__partition_columns" not in caplog.text
    assert "fs.s3a" not in caplog.text
    caplog.clear()
    check_options({"header": "x"})
    assert caplog.text == ""


@given(st.text(st.characters(categories=["L", "N", "P"]), min_size=1))
def test_any_name_is_refused_or_passes(name):
    """And where only known names are, any other is refused."""
    refusal({name: "x"})
    others = (
        name.lower() not in FOLDED and "." not in name and name[0] != "_" and name.lower() not in ("paths", "provider")
    )
    for how in ({"in_sql": True}, {"only_known_of": "A stream"}):
        error = refusal({name: "x"}, **how)
        assert (error is not None) == others
        subject = how.get("only_known_of", "The WITH clause of a Delta table")
        assert error is None or error.parameters["subject"] == subject
        assert refusal({name: None}, **how) is None


def test_each_option_of_the_peer_acts_or_warns(caplog):
    caplog.set_level("WARNING", logger="headwater")
    for name in PEERS_OPTIONS.split():
        caplog.clear()
        check_options({name: "true"})
        warned = any(name in record.getMessage() for record in caplog.records)
        assert warned != (f'"{name.lower()}"' in CODE), name


def test_the_code_reads_what_is_declared():
    read = re.findall(r'options\.(?:get|flag|containskey)\("([\w.]+)"|"([\w.]+)"(?:\.lower\(\))? in options', CODE)
    names = {name for pair in read for name in pair if name and not name.startswith("headwater.")}
    assert len(names) > 20
    assert names <= FOLDED | {"spark.remote", "uri"}
    unread = [name for name in NAMES if f'"{name.lower()}"' not in CODE]
    assert set(unread) <= {o.name for o in (*SPARKS, *UNUSED)}


def test_the_documentation_is_that_of_the_list():
    assert (ROOT / "docs" / "options.md").read_text(encoding="utf-8") == markdown()
