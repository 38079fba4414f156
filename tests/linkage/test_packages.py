"""The Scala sources lie where a reader looks for them: a package a topic, a file a class, named for it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

JVM = Path(__file__).parents[2] / "jvm"
SCALA = JVM / "src" / "main" / "scala"
OURS = "headwater/spark"
#: What Spark's visibility requires to lie in Spark's own packages.
SPARKS = ("org/apache/spark/sql/headwater", "org/apache/spark/sql/execution/headwater")
TOPICS = {"bridge", "catalog", "changes", "dml", "layout", "lineage", "scan", "statements", "streaming", "write"}
#: Named in settings, in META-INF and in users' error handling: moving one breaks users.
NAMED_BY_USERS = {
    "HeadwaterCatalog",
    "HeadwaterUnityCatalog",
    "DeltaDataSource",
    "HeadwaterException",
    "HeadwaterExtension",
    "HeadwaterRowException",
    "HeadwaterThrowable",
}
_DEFINITION = re.compile(
    r"^(?:(?:private(?:\[\w+\])?|final|sealed|abstract|case)\s+)*(?:class|object|trait)\s+(\w+)", re.M
)


#: Written from Python's structs, those of a topic into one file: `Read.scala` from `read.py`. Another test compares.
MESSAGES = SCALA / OURS / "bridge" / "messages"


def _sources() -> list[Path]:
    found = [*SCALA.rglob("*.scala"), *(JVM / "shims").rglob("*.scala")]
    return sorted(path for path in found if path.parent != MESSAGES)


def test_only_what_users_name_lies_above_the_topics() -> None:
    assert {path.stem for path in (SCALA / OURS).glob("*.scala")} == NAMED_BY_USERS


def test_packages_are_topics_and_mirror_each_other() -> None:
    for root in (OURS, *SPARKS):
        assert {path.name for path in (SCALA / root).iterdir() if path.is_dir()} <= TOPICS


@pytest.mark.parametrize("path", _sources(), ids=lambda path: path.stem)
def test_a_file_has_one_class_and_says_what_it_owns(path: Path) -> None:
    text = path.read_text()
    package = "headwater.spark.shims" if SCALA not in path.parents else ".".join(path.parent.relative_to(SCALA).parts)
    assert text.startswith(f"package {package}\n")
    assert path.stem in _DEFINITION.findall(text)
    assert re.search(rf"\*/\n(?:@.*\n)?(?:[\w\[\]]+ )*(?:class|object|trait) {path.stem}\b", text), "no scaladoc"
    shared = [name for name in set(_DEFINITION.findall(text)) - {path.stem} if not _is_private(text, name)]
    assert not shared, f"{shared} serve more than this file: each has a file of its own"


def test_no_line_is_wider_than_the_formatter_lets_code_be() -> None:
    """scalafmt leaves comments as they are."""
    most = int(re.findall(r"^maxColumn = (\d+)", (JVM.parent / ".scalafmt.conf").read_text("utf-8"), re.M)[0])
    files = {path: path.read_text("utf-8").splitlines() for path in JVM.rglob("*.scala")}
    wide = [f"{path.name}:{n}" for path, lines in files.items() for n, line in enumerate(lines, 1) if len(line) > most]
    assert most <= 140
    assert wide == []


def _is_private(text: str, name: str) -> bool:
    """Whether a class serves its file alone: it is private to the package, or a case class that the file's one uses."""
    return bool(
        re.search(rf"^(?:private (?:final )?(?:case )?|final case )(?:class|object|trait) {name}\b", text, re.M)
    )
