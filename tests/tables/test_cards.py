"""What a notebook shows, of answers that are made up."""

from __future__ import annotations

import re

from pyspark.errors import AnalysisException
from pyspark.sql import Row

from headwater.basics.amounts import effects, size_text
from headwater.tables import cards

ODD = "<img src=x onerror=alert(1)>\u202e\x1b"


class Frame:
    def __init__(self, *rows):
        self.rows = list(rows)
        self.columns = list(rows[0].asDict()) if rows else []

    def take(self, number):
        return self.rows[:number]

    collect = property(lambda self: lambda: self.rows)


class Table:
    """A table whose statements give what they are told to."""

    def __init__(self, answer, *commits, detail=None):
        self.name = self.shown = f"delta.`/{ODD}`"
        self.answer, self.commits, self.detail = answer, commits, detail

    def sql(self, text):
        if text.startswith("DESCRIBE HISTORY"):
            return Frame(*self.commits)
        if text.startswith("DESCRIBE DETAIL"):
            if self.detail is None:
                raise AnalysisException("gone", errorClass="DELTA_MISSING_DELTA_TABLE", messageParameters={})
            return Frame(self.detail)
        return Frame(*self.answer)


def commit(version, operation, **metrics):
    return Row(
        version=version,
        timestamp=None,
        operation=operation,
        operationParameters={},
        operationMetrics=metrics,
        userName=ODD,
        engineInfo=None,
    )


def line(table, text):
    return cards.run(table, text)._repr_html_().partition("</div>")[0].removeprefix("<div>")


def test_the_line_is_of_the_statements_own_commit():
    own = commit(7, "DELETE", numDeletedRows="3", numRemovedFiles="1", numAddedBytes="2048", executionTimeMs="1500")
    table = Table([Row(num_affected_rows=3)], commit(9, "WRITE"), commit(8, "DELETE", numDeletedRows="4"), own)
    assert line(table, "DELETE FROM t") == "version 7: DELETE, 3 rows deleted, 1 file removed, 2.0 KiB added, 1.50 s"
    assert line(Table([Row(num_affected_rows=0)], own), "DELETE FROM t") == "DELETE: no row changed"
    assert line(Table([Row(num_affected_rows=5)], own), "DELETE FROM t") == "DELETE: 5 rows changed"
    answer = Row(path="/t", metrics=Row(numFilesAdded=1, numFilesRemoved=20))
    assert line(Table([answer]), "OPTIMIZE t") == "OPTIMIZE: 1 file added, 20 files removed"


def test_all_that_comes_from_a_table_is_escaped():
    detail = {"location": ODD, "numFiles": 1, "sizeInBytes": 5, "partitionColumns": [ODD], "clusteringColumns": None}
    row = Row(**detail, description=ODD, lastModified=None)
    commits = [commit(1, ODD, **{ODD: ODD}, numOutputBytes="x"), commit(0, None, numOutputBytes="9" * 30)]
    table = Table([Row(**{ODD: ODD, "more": Row(**{ODD: ODD})})], *commits, detail=row)
    shown = [
        cards.run(table, f"{ODD} x")._repr_html_(),
        cards.history(Frame(*commits))._repr_html_(),
        cards.card(table),
    ]
    for html in shown:
        tags = set(re.findall(r"<\s*(\w+)", html))
        assert tags <= {"div", "table", "thead", "tbody", "tr", "th", "td", "b", "br", "small", "svg", "rect", "title"}
        assert "&lt;img" in html
        assert not {"\u202e", "\x1b"} & set(html)


def test_where_nothing_can_be_shown():
    assert cards.card(Table([])) is None
    assert "<svg" not in cards.history(Frame(commit(0, "WRITE")))._repr_html_()
    assert cards.history(Frame())._repr_html_().count("<tr>") == 1
    many = cards.history(Frame(*(commit(v, "WRITE", numOutputBytes=str(v)) for v in range(39, -1, -1))))._repr_html_()
    assert (many.count("<rect"), many.count("<tr>"), "…" in many) == (40, 21, True)


def test_amounts():
    assert [size_text(size) for size in (0, 1023, 1536, 5 << 50)] == ["0 B", "1023 B", "1.5 KiB", "5120.0 TiB"]
    for metrics in (None, {}, {"numDeletedRows": "-5"}, {"numFiles": None, "numOutputRows": True}):
        assert effects(metrics) == []
    assert effects({"numOutputRows": "0"}) == ["nothing to do"]
    assert effects({"numFiles": "2", "numOutputRows": 1, "numOutputBytes": "10"}) == [
        "1 row written",
        "2 files added",
        "10 B added",
    ]
    assert effects({"numDeletedRows": "9" * 19})[0].endswith("rows deleted")
