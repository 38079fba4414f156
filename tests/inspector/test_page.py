"""The page in a browser, where there is one: what it shows, by keyboard too, and that nothing of a table is run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from inspector.conftest import Served, add, definition, remove
from support.commits import write_commit

EVIL = "<img src=x onerror=\"window.evil='run'\"><script>window.evil='run'</script>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
    names = ("chromium", "chromium-browser", "google-chrome")
    program = os.environ.get("HEADWATER_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip(
            f"there is no browser: none of {', '.join(names)} is on the PATH, and HEADWATER_CHROMIUM names none"
        )
    with playwright.sync_playwright() as running:
        chromium = running.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser: Any, serve: Callable[..., Served]) -> Iterator[Callable[..., Any]]:
    """Open the page of a table; in the end, the browser must have found nothing wrong with it."""
    wrong: list[str] = []
    contexts = []

    def go(table: Path, width: int = 1200, scheme: str = "light", folder: bool = False) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, locale="en-US")
        contexts.append(context)
        page = context.new_page()
        served = serve(table, folder=folder)
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda asked: None if asked.url.startswith(served.url) else wrong.append(asked.url))
        page.goto(served.url)
        page.wait_for_selector("html[data-ready]")
        return page

    yield go
    for context in contexts:
        context.close()
    # A call that answers with an error is one line of the console, and no defect of the page.
    assert [text for text in wrong if "status of 422" not in text] == []


def test_a_table_is_shown(tmp_path: Path, visit: Callable[..., Any]) -> None:
    columns = (("id", "long"), ("day", "string"), (EVIL, "string"))
    start = definition(*columns, partitioned=("day",), name=EVIL, description=EVIL, configuration={EVIL: EVIL})
    write_commit(tmp_path, 0, *start, {"commitInfo": {"operation": EVIL, "engineInfo": EVIL, "userMetadata": EVIL}})
    pq.write_table(pa.table({"id": [1, 2], EVIL: [EVIL, "plain"]}), tmp_path / "0")
    for n in range(6):
        day = {"partitionValues": {"day": "a" if n < 3 else EVIL}}
        txn = {"txn": {"appId": EVIL, "version": n}}
        write_commit(tmp_path, n + 1, add(f"{n}", 1000, low=10 * n, high=10 * n + 9, **day), txn)
    page = visit(tmp_path)
    assert page.inner_text("h1") == EVIL
    page.wait_for_function("document.querySelectorAll('.treemap > *').length === 2")
    page.wait_for_selector("#vectors .muted")

    page.fill("#where", "id >= 20 AND day = 'a'")
    page.wait_for_selector("text=Reads 1 of 6 files")
    assert page.locator(".ranges .read").count() == 1
    assert page.locator(".ranges .skipped").count() == 5

    page.focus("button[aria-label='Open version 0']")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open] >> text=What it defines")
    assert page.evaluate("document.querySelector('dialog').contains(document.activeElement)")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="hidden")

    page.click("#read-rows")
    page.wait_for_selector("#rows td")
    assert page.inner_text("#rows tbody tr:first-child td:last-child") == EVIL
    assert page.evaluate("window.evil") is None
    assert page.locator("main img, main script, dialog img").count() == 0

    write_commit(tmp_path, 7, remove("1"))
    page.click("text=Show it", timeout=15_000)
    page.wait_for_selector("#at >> text=7")
    assert page.inner_text(".tile:nth-child(3) .value") == "5"


def test_a_damaged_table_and_a_narrow_window(tmp_path: Path, visit: Callable[..., Any]) -> None:
    write_commit(tmp_path, 0, *definition(("id", "long")), add("a", low=1, high=2))
    write_commit(tmp_path, 1, add("b", low=1, high=2))
    (tmp_path / "_delta_log" / f"{2:020d}.json").write_text('{"add": ' + EVIL)
    page = visit(tmp_path, 380, "dark")
    assert page.inner_text("h1") == tmp_path.name
    assert "DELTA_INVALID_COMMIT" in page.inner_text("#overview [role=alert]")
    page.click("button[aria-label='Open version 2']")
    page.wait_for_selector("dialog[open] >> text=damaged")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.keyboard.press("Escape")
    page.click("button[aria-label='Open version 1']")
    page.click("text=View the table at this version")
    page.wait_for_selector(".tile")
    assert page.inner_text(".tile:nth-child(3) .value") == "2"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 18, 23)"
    assert page.evaluate("window.evil") is None


def test_the_tables_of_a_folder(tmp_path: Path, visit: Callable[..., Any]) -> None:
    """They are listed, filled in and opened; reload, back and a pasted address show the same again."""
    write_commit(tmp_path / "a" / "rivers & co", 0, *definition(("id", "long")), *(add(str(n)) for n in range(12)))
    write_commit(tmp_path / "a" / "rivers & co", 1, add("more"))
    write_commit(tmp_path / "lakes", 0, *definition(("id", "long")), add("a", 5000))
    write_commit(tmp_path / EVIL.replace("/", ""), 0, *definition(("id", "long")))
    (tmp_path / "torn" / "_delta_log").mkdir(parents=True)
    (tmp_path / "torn" / "_delta_log" / f"{0:020d}.json").write_text('{"add": ' + EVIL)
    page = visit(tmp_path, folder=True)
    page.wait_for_selector("text=4 tables, 6.2 KiB, 1 table cannot be read")
    assert page.locator("main img, main script").count() == 0
    assert page.inner_text("tr:has-text('rivers & co') summary") == "1 warning"
    assert "torn" in page.inner_text("tr:has-text('torn') .problem")
    page.click("button:has-text('Size')")
    assert page.inner_text("tbody tr:first-child td.name") == "lakes"
    page.fill("#wanted", "RIV")
    assert page.locator("tbody tr").count() == 1

    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"

    page.click("text=a/rivers & co")
    page.wait_for_selector(".tile")
    assert page.inner_text("h1") == "rivers & co"
    page.wait_for_selector("#overview .findings code >> text=OPTIMIZE delta.`")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("#overview .findings button")
    page.wait_for_selector("#overview .findings button >> text=Copied")
    assert page.evaluate("navigator.clipboard.readText()") == f"OPTIMIZE delta.`{tmp_path}/a/rivers & co`"
    page.click("button[aria-label='Open version 0']")
    page.wait_for_selector("dialog[open] >> text=What it defines")
    pasted = page.url
    page.click("text=View the table at this version")
    page.wait_for_selector("#at >> text=version 0")
    page.reload()
    page.wait_for_selector("#at >> text=version 0")
    page.click("text=Back to the newest")
    page.wait_for_selector("#at >> text=version 1")
    page.go_back()
    page.wait_for_selector("#at >> text=version 0")
    page.goto(pasted)
    page.wait_for_selector("dialog[open] >> text=What it defines")
    page.click("dialog button:has-text('After')")
    page.wait_for_selector("dialog[open] >> text=Version 1 is the result of an unnamed operation: 1 file added.")
    page.click("text=Compare with the one before")
    page.wait_for_selector("dialog[open] >> text=Compared with version 0, version 1 has 1 new file (100 B).")
    page.reload()
    page.wait_for_selector("dialog[open] >> text=Compared with version 0")
    page.go_back()
    page.wait_for_selector("dialog[open] >> text=Version 1 is the result")
    page.click("dialog button[aria-label='Close']")
    page.fill("#to", "0")
    page.click(".compare button")
    page.wait_for_selector("dialog[open] >> text=This is version 0 beside itself.")
    page.keyboard.press("Escape")
    page.click("text=All tables")
    page.wait_for_selector("#tables tbody tr >> nth=3")
    assert page.evaluate("window.evil") is None


def test_a_narrow_window_has_all_of_a_version(tmp_path: Path, visit: Callable[..., Any]) -> None:
    """Rows are low, marks are named, and what closes the dialog stays in view."""
    commits = (("WRITE", add("a")), ("OPTIMIZE", add("b")), ("RESTORE", remove("b")))
    write_commit(tmp_path, 0, *definition(("id", "long"), ("day", "string"), partitioned=("day",)))
    for version, (operation, action) in enumerate(commits, 1):
        info = {"commitInfo": {"operation": operation, "engineInfo": "Apache-Spark/4.2.0 Headwater/0.1.0"}}
        write_commit(tmp_path, version, action, info)
    write_commit(tmp_path, 4, *(add(f"{n}", partitionValues={"day": f"{n % 4}"}) for n in range(40)))
    page = visit(tmp_path, 390)
    marks = page.locator("#timeline .legend b").all_inner_texts()
    assert marks == ["O", "R"]
    page.wait_for_selector("#partitions >> text=5 partitions by day, 4.0 KiB.")
    page.wait_for_selector("#files .amount >> text=41")
    assert page.inner_text("#files .steps span:first-child") == "41"
    heights = "[...document.querySelectorAll('#timeline tbody tr')].map((row) => row.offsetHeight)"
    assert max(page.evaluate(heights)) < 40
    page.click("button[aria-label='Open version 4']")
    page.wait_for_selector("dialog[open] >> text=Version 4 is the result")
    page.evaluate("document.querySelector('dialog').scrollTo(0, 1e6)")
    box = page.locator("dialog .close").bounding_box()
    assert box["y"] >= 0
    assert box["x"] + box["width"] <= 390
    page.click("dialog .close")
    page.wait_for_selector("dialog", state="hidden")
    page.fill("#where", "day = '1' AND length(day) = 1")
    page.wait_for_selector("#skipping .note.warm >> text=LENGTH(day) = 1 skips no file")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_names_of_columns_are_completed(tmp_path: Path, visit: Callable[..., Any]) -> None:
    columns = (("id", "long"), ("customer_id", "long"), ("customer name", "string"), (EVIL, "string"), ("It`s", "long"))
    write_commit(tmp_path, 0, *definition(*columns), add("a", low=1, high=2))
    page = visit(tmp_path)
    shown = "[...document.querySelectorAll('.completions:not([hidden]) code')].map((each) => each.textContent)"

    def offered(text: str) -> Any:
        page.fill("#where", "")
        page.type("#where", text)
        return page.evaluate(shown)

    assert offered("i") == ["id", "`It``s`", "customer_id"]
    assert offered("id = 1 AND CUST") == ["customer_id", "`customer name`"]
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.input_value("#where") == "id = 1 AND `customer name`"
    assert page.evaluate(shown) == []
    assert offered("`customer n") == ["`customer name`"]
    page.keyboard.press("Tab")
    assert page.input_value("#where") == "`customer name`"
    assert offered("id = 'cust") == []
    assert offered("id = 'x' AND custo") == ["customer_id", "`customer name`"]
    page.wait_for_timeout(600)
    assert page.locator("#skipping .problem").count() == 0  # the name is still being typed
    page.keyboard.press("Escape")
    page.wait_for_selector("#skipping .problem >> text=custo")
    assert page.evaluate(shown) == []
    assert offered("<im") == []
    assert offered("id") == ["customer_id"]
    page.keyboard.press("Enter")
    page.wait_for_selector("#skipping .problem, #skipping .answer .big")
    page.fill("#where", "")
    page.type("#where", "cus")
    page.click(".completions li >> nth=0")
    assert page.input_value("#where") == "customer_id"
    assert page.evaluate("window.evil") is None
