"""What a notebook shows, of answers that are made up."""

from __future__ import annotations

import re
from datetime import datetime

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


def test_optimize_and_vacuum_are_said_in_sentences():
    def optimized(removed, added, **more):
        return [Row(path="/t", metrics=Row(numFilesAdded=added, numFilesRemoved=removed, **more))]

    sizes = {"filesRemoved": Row(totalSize=20 << 20), "filesAdded": Row(totalSize=1 << 20)}
    table = Table(optimized(20, 1, **sizes), commit(1200, "OPTIMIZE"))
    assert line(table, "OPTIMIZE t") == "OPTIMIZE rewrote 20 files (20.0 MiB) as 1 file (1.0 MiB) in version 1,200."
    assert "<details>" in cards.run(table, "OPTIMIZE t")._repr_html_()
    assert line(Table(optimized(2, 1)), "OPTIMIZE t") == "OPTIMIZE rewrote 2 files as 1 file."
    nothing = Table(optimized(0, 0, totalConsideredFiles=4), commit(9, "OPTIMIZE"))
    assert line(nothing, "OPTIMIZE t") == "OPTIMIZE found nothing to rewrite in 4 files."
    assert line(Table([Row(path="/t", metrics=None)]), "OPTIMIZE t") == "OPTIMIZE"

    done = Table([Row(path="/t")], commit(8, "VACUUM END", numDeletedFiles="3"), commit(7, "VACUUM START"))
    assert line(done, "VACUUM t") == "VACUUM deleted 3 files that no version within the retention time needs."
    none = Table([Row(path="/t")], commit(8, "VACUUM END", numDeletedFiles="0"))
    assert line(none, "VACUUM t") == "VACUUM found no file to delete: all are needed, or are not old enough."
    assert line(Table([Row(path="/t")]), "VACUUM t") == "VACUUM"


def detail_row(**more):
    row = {"location": "/t", "numFiles": 1, "sizeInBytes": 1000, "partitionColumns": [], "clusteringColumns": None}
    return Row(**{**row, "description": None, "lastModified": None, **more})


def heights(html):
    return [float(each) for each in re.findall(r'<rect [^>]*height="([\d.]+)"', html)]


def test_a_card_has_the_size_over_time():
    """As far back as the commits say what they added and removed; elsewhere nothing is made up."""
    own = "Apache-Spark/4.2.0 Headwater/0.1.0"
    commits = [
        Row(**{**commit(5, "VACUUM END", numDeletedFiles="1").asDict(), "engineInfo": own}),
        Row(**{**commit(4, "DELETE", numRemovedBytes="500", numAddedBytes="250").asDict(), "engineInfo": own}),
        Row(**{**commit(3, "RESTORE", tableSizeAfterRestore="1250").asDict(), "engineInfo": None}),
        Row(**{**commit(2, "WRITE", numOutputBytes="1").asDict(), "engineInfo": own}),
    ]
    html = str(cards.card(Table([], *commits, detail=detail_row())))
    assert "size of the table at versions 3 to 5, at most 1.2 KiB" in html
    assert heights(html) == [36.0, 28.8, 28.8]
    assert "DELETE, 250 B added, 500 B removed; size of the table at this version: 1000 B" in html
    appended = [
        Row(**{**commit(v, "WRITE", numOutputBytes="400").asDict(), "operationParameters": {"mode": mode}})
        for v, mode in ((3, "Append"), (2, "Append"), (1, "Overwrite"), (0, "Append"))
    ]
    assert "versions 1 to 3, at most 1000 B" in str(cards.card(Table([], *appended, detail=detail_row())))
    odd = [commit(v, "WRITE", numOutputBytes="4000") for v in (1, 0)]
    assert "<svg" not in str(cards.card(Table([], *odd, detail=detail_row())))


def test_names_have_no_backticks():
    assert "<b>/t/rivers</b>" in named("delta.`/t/rivers`")
    assert "<b>main.my schema.rivers</b>" in named("main.`my schema`.`rivers`")
    assert "<b>`</b>" in named("`")


def named(name):
    """The card of a table of this name."""
    table = Table([], detail=detail_row())
    table.name = table.shown = name
    return str(cards.card(table))


def test_a_detail_is_a_table_of_names_and_values():
    time = datetime(2024, 1, 2, 3, 4, 5, 999)
    row = detail_row(properties={"b": "2", "a": ODD}, lastModified=time, numFiles=1234, sizeInBytes=2048)
    html = cards.detail(Frame(row))._repr_html_()
    cells = re.findall(r"<td[^>]*>(.*?)</td>", html)
    assert dict(zip(cells[::2], cells[1::2], strict=True)) == {
        "location": "/t",
        "numFiles": "1,234",
        "sizeInBytes": "2.0 KiB (2,048 bytes)",
        "lastModified": "2024-01-02 03:04:05",
        "properties": "a = &lt;img src=x onerror=alert(1)&gt;\\u202e\\x1b, b = 2",
    }
    assert cards.detail(Frame())._repr_html_().count("<tr>") == 1


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
