"""What each method has Spark run, and with which views."""

from __future__ import annotations

import datetime

import pytest
from pyspark.errors import AnalysisException

from headwater.tables import DeltaTable
from support.tables_fakes import FakeColumn, FakeFrame, FakeSession

ID, V = FakeColumn("id"), FakeColumn("v")


def test_delete(table, ran, views):
    table.delete()
    assert ran() == "DELETE FROM delta.`/t`"
    table.delete("id = 1 -- one")
    assert ran() == "DELETE FROM delta.`/t` WHERE id = 1 -- one"
    assert views() == {}
    table.alias("a`b").delete("id = 1")
    assert ran() == "DELETE FROM delta.`/t` AS `a``b` WHERE id = 1"


def test_a_comment_ends_with_its_line(table, session):
    table.update("id = 1", {"a": "1 -- one"})
    assert "(1 -- one\n\n)" in session.statements[-1]


def test_update(table, ran, views):
    table.alias("t").update("id = 1", {"t.a.b": "1", "`a.b`": "id + 1"})
    assert ran() == "UPDATE delta.`/t` AS `t` SET `t`.`a`.`b` = (1 ), `a.b` = (id + 1 ) WHERE id = 1"
    assert views() == {}
    table.update(set={"a": "1"})
    assert ran() == "UPDATE delta.`/t` SET `a` = (1 )"


def test_columns_are_in_a_view_of_the_target(table, ran, views, session):
    table.alias("t").update(ID, {"a": V, "b": "v"})
    assert ran() == (
        "UPDATE delta.`/t` AS `t` SET `a` = headwater_column('__headwater_target', 0), `b` = (v ) "
        "WHERE headwater_column('__headwater_target', 1)"
    )
    assert views() == {"__headwater_target": "nothing x delta.`/t`.t x nothing where ('0', v, '1', id)"}
    assert session.views == {}


def test_merge_of_texts(table, session, ran, views):
    source = FakeFrame(session, "source")
    merge = (
        table.alias("t")
        .merge(source, "t.id = s.id")
        .whenMatchedUpdate("s.v > 1", {"t.v": "s.v", "n.a": "1"})
        .whenMatchedUpdateAll("s.w")
        .whenMatchedDelete()
        .whenNotMatchedInsert("s.v > 2", {"id": "s.id", "`a b`": "2"})
        .whenNotMatchedInsertAll()
        .whenNotMatchedBySourceUpdate("t.v < 0", {"v": "0"})
        .whenNotMatchedBySourceDelete()
    )
    assert session.statements == []
    merge.execute()
    assert ran() == (
        "MERGE INTO delta.`/t` AS `t` USING `__headwater_both` ON (t.id = s.id ) "
        "WHEN MATCHED AND (s.v > 1 ) THEN UPDATE SET `t`.`v` = (s.v ), `n`.`a` = (1 ) "
        "WHEN MATCHED AND (s.w ) THEN UPDATE SET * "
        "WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED AND (s.v > 2 ) THEN INSERT (`id`, `a b`) VALUES ((s.id ), (2 )) "
        "WHEN NOT MATCHED THEN INSERT * "
        "WHEN NOT MATCHED BY SOURCE AND (t.v < 0 ) THEN UPDATE SET `v` = (0 ) "
        "WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )
    assert views() == {"__headwater_both": "nothing x nothing x source"}
    assert session.views == {}
    merge.withSchemaEvolution().execute()
    assert ran().startswith("MERGE WITH SCHEMA EVOLUTION INTO delta.`/t` AS `t` USING `__headwater_both` ON")
    assert len({name for seen in session.seen for name in seen}) == 2


def test_merge_of_columns_sees_in_each_clause_what_it_may(table, session, ran, views):
    table.merge(FakeFrame(session, "source"), ID).whenNotMatchedInsert(V, {"id": ID, "v": "v"}).whenMatchedDelete(
        V
    ).whenNotMatchedBySourceUpdate(set={"v": V}).execute()
    assert ran() == (
        "MERGE INTO delta.`/t` USING `__headwater_both` ON headwater_column('__headwater_both', 0) "
        "WHEN NOT MATCHED AND headwater_column('__headwater_source', 0) "
        "THEN INSERT (`id`, `v`) VALUES (headwater_column('__headwater_source', 1), (v )) "
        "WHEN MATCHED AND headwater_column('__headwater_both', 1) THEN DELETE "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET `v` = headwater_column('__headwater_target', 0)"
    )
    assert views() == {
        "__headwater_both": "nothing x delta.`/t` x source where ('0', id, '1', v)",
        "__headwater_source": "nothing x nothing x source where ('0', v, '1', id)",
        "__headwater_target": "nothing x delta.`/t` x nothing where ('0', v)",
    }
    assert session.views == {}


def test_a_merge_builder_is_not_changed_by_its_clauses(table, session, ran):
    begun = table.merge(FakeFrame(session, "source"), "true")
    begun.whenMatchedDelete()
    begun.whenMatchedUpdateAll().execute()
    assert ran().endswith("ON (true ) WHEN MATCHED THEN UPDATE SET *")
    values = {"v": "1"}
    clause = begun.whenMatchedUpdate(set=values)
    values["v"] = "2"
    clause.execute()
    assert ran().endswith("`v` = (1 )")


def test_views_are_dropped_when_the_statement_fails(table, session):
    def fail(text):
        raise AnalysisException("no", errorClass="NO", messageParameters={})

    session.fail = fail
    with pytest.raises(AnalysisException):
        table.merge(FakeFrame(session, "source"), ID).whenMatchedDelete().execute()
    assert session.seen[-1] != {}
    assert session.views == {}


def test_a_column_that_cannot_be_resolved_is_an_error_before_the_statement(table, session):
    session.refuses_views = True
    with pytest.raises(AnalysisException, match="no such column"):
        table.delete(ID)
    assert session.statements == []


def test_the_frame_stays_until_the_table_has_other_columns(table, session):
    before = table._frame
    table.delete(ID)
    assert table._frame is before
    aliased = table.alias("t")
    assert aliased.toDF().made == "delta.`/t`.t"
    session.schema = "two"
    table.delete(ID)
    aliased.delete(ID)
    assert table._frame is not before
    assert aliased.toDF().made == "delta.`/t`.t"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda t: t.history(), "DESCRIBE HISTORY delta.`/t`"),
        (lambda t: t.history(3), "DESCRIBE HISTORY delta.`/t` LIMIT 3"),
        (lambda t: t.alias("x").detail(), "DESCRIBE DETAIL delta.`/t`"),
        (
            lambda t: t.upgradeTableProtocol(3, 7),
            "ALTER TABLE delta.`/t` SET TBLPROPERTIES ('delta.minReaderVersion' = '3', 'delta.minWriterVersion' = '7')",
        ),
        (
            lambda t: t.addFeatureSupport("deletionVectors"),
            "ALTER TABLE delta.`/t` SET TBLPROPERTIES ('delta.feature.deletionVectors' = 'supported')",
        ),
    ],
)
def test_other_statements(table, ran, call, text):
    call(table)
    assert ran() == text


@pytest.mark.parametrize(
    ("name", "complete"),
    [
        ("t", "`spark_catalog`.`now`.`t`"),
        ("s.t", "`s`.`t`"),
        ("c.s.`a.b`", "`c`.`s`.`a.b`"),
        ("delta.`/x`", "delta.`/x`"),
    ],
)
def test_names_are_complete(session, ran, name, complete):
    assert DeltaTable.forName(session, name).toDF().made == complete
    assert ran() == f"DESCRIBE DETAIL {complete}"


class TestWrongArguments:
    def test_arguments_of_a_wrong_type_are_refused(self, table, session):
        source = FakeFrame(session, "source")
        merge = table.merge(source, "true")
        for wrong in (
            lambda: table.delete(1),
            lambda: table.delete({"a": "1"}),
            lambda: table.update("a", "b"),
            lambda: table.update({"a": "1"}, {"a": "1"}),
            lambda: table.update(set={"a": 1}),
            lambda: table.update(set={1: "a"}),
            lambda: table.merge("source", "true"),
            lambda: table.merge(source, True),
            lambda: merge.whenMatchedUpdate(1, {"a": "1"}),
            lambda: merge.whenMatchedDelete(1),
            lambda: merge.whenMatchedUpdateAll(1),
            lambda: merge.whenNotMatchedInsert(values={"a": None}),
            lambda: merge.whenNotMatchedInsertAll(1),
            lambda: merge.whenNotMatchedBySourceUpdate(set=["a"]),
            lambda: merge.whenNotMatchedBySourceDelete(datetime.date.today()),
            lambda: table.history("1"),
            lambda: table.alias(1),
            lambda: table.upgradeTableProtocol("1", 2),
            lambda: table.upgradeTableProtocol(True, 2),
            lambda: table.addFeatureSupport(1),
            lambda: table.restoreToVersion("1"),
            lambda: table.restoreToTimestamp(1),
            lambda: table.vacuum("1"),
            lambda: table.generate(1),
            lambda: table.optimize().where(1),
            lambda: table.optimize().executeZOrderBy(1),
            lambda: table.clone("x", "true"),
            lambda: DeltaTable.forPath(session, 1),
            lambda: DeltaTable.forPath("session", "/t"),
            lambda: DeltaTable.forPath(session, "/t", ["a"]),
            lambda: DeltaTable.forName(session, None),
            lambda: DeltaTable.isDeltaTable(session, None),
            lambda: DeltaTable.create("session"),
        ):
            with pytest.raises(TypeError, match=r"must be .* not (.* )?of type"):
                wrong()
        assert session.statements == []

    def test_missing_arguments_are_refused(self, table, session):
        merge = table.merge(FakeFrame(session, "source"), "true")
        for wrong in (
            lambda: table.update("a"),
            lambda: table.update(set={}),
            lambda: merge.whenMatchedUpdate("a"),
            lambda: merge.whenNotMatchedInsert(),
            lambda: merge.whenNotMatchedInsert(values={}),
            lambda: merge.whenNotMatchedBySourceUpdate(),
            lambda: table.merge(None, "true"),
            lambda: table.merge(FakeFrame(session, "source"), None),
        ):
            with pytest.raises(ValueError, match=r"'\w+' is (missing|empty)"):
                wrong()
        with pytest.raises(ValueError, match="no name"):
            table.update(set={"a..b": "1"})
        assert session.statements == []


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda t: t.vacuum(), "VACUUM delta.`/t`"),
        (lambda t: t.vacuum(1.5), "VACUUM delta.`/t` RETAIN 1.5 HOURS"),
        (lambda t: t.generate("symlink_format_manifest"), "GENERATE `symlink_format_manifest` FOR TABLE delta.`/t`"),
        (lambda t: t.restoreToVersion(1), "RESTORE TABLE delta.`/t` TO VERSION AS OF 1"),
        (lambda t: t.restoreToTimestamp("2020-01-01"), "RESTORE TABLE delta.`/t` TO TIMESTAMP AS OF '2020-01-01'"),
    ],
)
def test_maintenance_runs_its_statement(table, ran, call, text):
    call(table)
    assert ran() == text


def test_convert(session):
    DeltaTable.convertToDelta(session, "parquet.`/p`", "a INT")
    assert session.statements[-2:] == [
        "CONVERT TO DELTA parquet.`/p` PARTITIONED BY (a INT)",
        "DESCRIBE DETAIL delta.`/p`",
    ]


def test_clones(table, session):
    clone = table.cloneAtVersion(2, "/x", True, True, {"a": "b"})
    assert session.statements[0] == (
        "CREATE OR REPLACE TABLE delta.`/x` SHALLOW CLONE delta.`/t` VERSION AS OF 2 TBLPROPERTIES ('a' = 'b')"
    )
    assert clone.toDF().made == "delta.`/x`"
    table.cloneAtTimestamp("2020-01-01", "db.x", True)
    table.clone("/y", isShallow=True)
    table.clone("/z")
    texts = [text for text in session.statements if "CLONE" in text]
    assert texts[1:] == [
        "CREATE TABLE db.x SHALLOW CLONE delta.`/t` TIMESTAMP AS OF '2020-01-01'",
        "CREATE TABLE delta.`/y` SHALLOW CLONE delta.`/t`",
        "CREATE TABLE delta.`/z` CLONE delta.`/t`",
    ]


def test_optimize_along_a_curve_where_a_condition_holds(table, ran):
    table.optimize().where("a = 1").executeZOrderBy(["b", "c.d"])
    assert ran() == "OPTIMIZE delta.`/t` WHERE (a = 1 ) ZORDER BY (`b`, `c`.`d`)"


def test_is_delta_table_tells_no_table_from_trouble(session):
    assert DeltaTable.isDeltaTable(session, "/t")

    def failing(condition):
        def fail(text):
            raise AnalysisException("no", errorClass=condition, messageParameters={})

        return fail

    session.fail = failing("DELTA_TABLE_NOT_FOUND")
    assert not DeltaTable.isDeltaTable(session, "/t")
    session.fail = failing("DELTA_UNSUPPORTED_FEATURES_FOR_READ")
    assert DeltaTable.isDeltaTable(session, "/t")
    session.fail = failing("DELTA_STATE_RECOVER_ERROR")
    with pytest.raises(AnalysisException):
        DeltaTable.isDeltaTable(session, "/t")


def test_a_table_of_another_format(session):
    def fail(text):
        raise AnalysisException("no", errorClass="DELTA_ONLY_OPERATION", messageParameters={})

    session.fail = fail
    with pytest.raises(AnalysisException, match=r"`s`.`p` is not a Delta table") as raised:
        DeltaTable.forName(session, "s.p")
    assert (raised.value.getCondition(), raised.value.getSqlState()) == ("DELTA_MISSING_DELTA_TABLE", "42P01")


def test_sessions_of_both_kinds():
    from headwater.tables import statement_inputs

    assert statement_inputs._functions(FakeSession()).__name__ == "pyspark.sql.functions"
