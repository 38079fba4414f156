"""A folder of tables: what the search finds and leaves out, and that nothing outside the folder is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from headwater.basics.errors import HeadwaterError
from headwater.cli.locations import reached
from headwater.inspector import folder as module
from headwater.inspector.folder import Folder
from headwater.stores import LocalStore
from headwater.stores.arrow import ArrowStore
from inspector.conftest import Served, add, asked, definition
from support.commits import write_commit


def table_at(path: Path, *files: dict[str, Any]) -> Path:
    write_commit(path, 0, *definition(("id", "long")), *files)
    return path


def folder_of(path: Path) -> Folder:
    return Folder(str(path), LocalStore())


def test_the_tables_below_a_folder_are_listed_and_opened(tmp_path: Path) -> None:
    table_at(tmp_path / "rivers", add("a", 5000), add("b", 7))
    table_at(tmp_path / "raw" / "eu" / "gauges & more", add("c"))
    (tmp_path / "raw" / "notes").mkdir()
    table_at(tmp_path / ".hidden")
    table_at(tmp_path / "rivers" / "inside of a table")
    ask = asked(folder_of(tmp_path))
    assert ask("place")[1] == {"kind": "folder", "path": str(tmp_path)}
    assert ask("tables")[1] == {"tables": ["raw/eu/gauges & more", "rivers"], "notes": []}
    status, row = ask("glance", table="rivers")
    assert (status, row["files"], row["bytes"], row["rows"], row["version"]) == (200, 2, 5007, 20, 0)
    assert [(each["level"], each["name"]) for each in row["findings"]] == [("note", "smallFiles")]
    assert ask("overview", table="raw/eu/gauges & more")[1]["files"] == 1
    assert ask("history", table="rivers")[1]["entries"][0]["version"] == 0
    write_commit(tmp_path / "rivers", 1, add("more"))
    assert ask("glance", table="rivers")[1]["files"] == 3
    assert ask("newest", table="rivers")[1]["version"] == 1


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../t", "/etc", "rivers/../../t", "rivers/inside of a table", "no", "\0"]
)
def test_a_request_cannot_name_another_folder(tmp_path: Path, name: str) -> None:
    table_at(tmp_path / "t")
    table_at(tmp_path / "root" / "rivers" / "inside of a table")
    table_at(tmp_path / "root" / "rivers")
    ask = asked(folder_of(tmp_path / "root"))
    for call in ("glance", "overview", "log", "history", "sample"):
        status, error = ask(call, table=name)
        assert (status, error["condition"]) == (422, "HEADWATER_INSPECT_NO_TABLE"), call


@pytest.mark.parametrize("scheme", ["file", "local", "LOCAL"])
def test_every_word_for_the_local_file_system_means_the_store_that_is_confined(tmp_path: Path, scheme: str) -> None:
    with reached(f"{scheme}://{tmp_path}") as place:
        assert isinstance(place.store, LocalStore)
        assert place.path == str(tmp_path)


def test_links_lead_nowhere_else(tmp_path: Path) -> None:
    """Neither those to folders, which the search passes by, nor those in a log or to a data file."""
    outside, root = table_at(tmp_path / "outside", add("f")), tmp_path / "root"
    pq.write_table(pa.table({"id": [42]}), outside / "f")
    table_at(root / "t", add("f"), add(f"file:{outside}/f"))
    (root / "t" / "f").symlink_to(outside / "f")
    (root / "to-outside").symlink_to(outside)
    (root / "circle").symlink_to(root)
    (root / "t2" / "_delta_log").mkdir(parents=True)
    commit = f"_delta_log/{0:020d}.json"
    (root / "t2" / commit).symlink_to(outside / commit)
    (root / "t3").mkdir()
    (root / "t3" / "_delta_log").symlink_to(outside / "_delta_log")
    ask = asked(folder_of(root))
    found = ask("tables")[1]
    assert found["tables"] == ["t", "t2"]
    assert found["notes"] == ["3 symbolic links to a folder were not followed."]
    assert ask("overview", table="t")[1]["files"] == 2
    rows = ask("sample", table="t")[1]
    assert rows["rows"] == []
    assert len(rows["problems"]) == 2
    for call, values in (("glance", {}), ("overview", {}), ("version", {"number": 0})):
        status, error = ask(call, table="t2", **values)
        assert (status, error["condition"]) == (422, "DELTA_FILE_ACCESS_FAILED"), (call, error)
        assert "leads out of the folder" in error["message"]
    # What is a folder in the search may be a link once the table is opened.
    (root / "t" / "_delta_log").rename(tmp_path / "moved")
    (root / "t" / "_delta_log").symlink_to(tmp_path / "moved")
    assert ask("newest", table="t")[0] == 422
    # A link that stays inside is only another name.
    (root / "t" / "_delta_log").unlink()
    (tmp_path / "moved").rename(root / "t" / "_delta_log")
    (outside / "f").rename(root / "g")
    (root / "t" / "f").unlink()
    (root / "t" / "f").symlink_to(root / "g")
    assert ask("sample", table="t")[1]["rows"] == [["42"]]


def test_a_broken_log_is_a_row_with_a_message(tmp_path: Path) -> None:
    table_at(tmp_path / "good", add("a"))
    table_at(tmp_path / "torn")
    (tmp_path / "torn" / "_delta_log" / f"{1:020d}.json").write_text('{"add": {"pa')
    (tmp_path / "empty" / "_delta_log").mkdir(parents=True)
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / "_delta_log").write_text("no folder")
    ask = asked(folder_of(tmp_path))
    assert ask("tables")[1]["tables"] == ["empty", "good", "torn"]
    found = {name: ask("glance", table=name) for name in ("empty", "good", "torn")}
    assert [status for status, _ in found.values()] == [422, 200, 422]
    assert found["torn"][1]["condition"] == "DELTA_INVALID_COMMIT"
    assert "torn" in found["torn"][1]["message"]
    assert found["empty"][1]["message"]


def test_the_search_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        table_at(tmp_path / f"t{number}")
    table_at(tmp_path / "a" / "b" / "c" / "deep")
    monkeypatch.setattr(module, "DEEPEST", 2)
    found = folder_of(tmp_path).search()
    assert len(found.tables) == 5
    assert found.notes == [
        "1 folder more than 2 levels down was not searched: inspect a folder further down to see the tables there."
    ]
    monkeypatch.setattr(module, "MOST_TABLES", 3)
    found = folder_of(tmp_path).search()
    assert len(found.tables) == 3
    assert found.notes[0].startswith("The search ended after 3 tables in ")
    monkeypatch.setattr(module, "MOST_FOLDERS", 2)
    assert "after 0 tables in 2 folders" in folder_of(tmp_path).search().notes[0]


def test_a_large_table_has_its_findings_on_its_own_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table_at(tmp_path / "t", add("a"), add("b"))
    monkeypatch.setattr(module, "_MOST_FILES", 1)
    ask = asked(folder_of(tmp_path))
    row = ask("glance", table="t")[1]
    assert (row["files"], row["findings"], row["findingsFailed"]) == (2, None, None)
    assert [each["sql"] for each in ask("advice", table="t")[1]["findings"]] == [f"OPTIMIZE delta.`{tmp_path}/t`"]


def test_a_store_of_pyarrow_is_searched(tmp_path: Path) -> None:
    table_at(tmp_path / "bucket" / "a" / "rivers", add("a"))
    store = ArrowStore(pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem()))
    folder = Folder(store.uri("s3://bucket"), store)
    table_at(tmp_path / "bucket" / "z")
    assert folder.search() == (["a/rivers", "z"], [])
    assert folder.glance("a/rivers")["files"] == 1
    with pytest.raises(HeadwaterError) as caught:
        folder.table("a")
    assert caught.value.condition == "HEADWATER_INSPECT_NO_TABLE"


def test_a_folder_is_served_with_the_same_guard(tmp_path: Path, serve: Callable[..., Served]) -> None:
    table_at(tmp_path / "a b" / "rivers", add("a"))
    served = serve(tmp_path, folder=True)
    name = quote("a b/rivers", safe="")
    assert json.loads(served.get(f"{served.folder}api/tables")[2])["tables"] == ["a b/rivers"]
    assert served.get(f"{served.folder}?table={name}")[0] == 200
    assert served.get(f"{served.folder}api/overview?table={name}")[0] == 200
    assert served.get(f"{served.folder}api/overview")[0] == 422
    assert served.get(f"{served.folder}api/nothing?table={name}")[0] == 404
    assert served.get(f"/api/overview?table={name}")[0] == 403
    assert urlsplit(served.url).hostname == "127.0.0.1"
