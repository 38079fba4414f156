"""README works verbatim, top to bottom: its blocks run in order in ``spark-sql``, in the ``pyspark`` shell and in a
script, and do what their comments promise.

A comment that begins with a number is a promise. ``-- 2 rows`` after a query is how many rows it has, after a DELETE,
UPDATE or MERGE how many it changed; ``-- 3`` is the one value of a query, ``# 3`` the value of a line of Python. In
the blocks nothing is changed but the folder ``/tmp``, which belongs to all.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from headwater import launch
from support.documents import indented
from support.sessions import java_options

ROOT = Path(__file__).resolve().parents[1]
_FENCED = re.compile(r"^```(sql|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_END = re.compile(r";\s*(?:--\s*(.*))?$")
_PROMISE = re.compile(r"(\d+)( rows?)?\b")
_PYTHON_PROMISE = re.compile(r"^(\S.*?)  # (\d+)$", re.MULTILINE)
_CHANGES = ("DELETE", "UPDATE", "MERGE")
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Sql:
    """A statement, and what a comment after it promises."""

    text: str
    promised: int | None
    rows: bool

    @property
    def counts_changes(self) -> bool:
        return self.rows and self.text.lstrip().startswith(_CHANGES)

    def check(self, found: list[list[str]]) -> None:
        """``found``: the rows it gave."""
        if self.promised is None:
            return
        told = len(found) if self.rows and not self.counts_changes else int(found[0][0])
        assert told == self.promised, f"{self.text}\ngave {found}, README says {self.promised}"


def blocks(tmp_path: Path) -> list[tuple[str, str]]:
    text = (ROOT / "README.md").read_text(encoding="utf-8").replace("/tmp/", f"{tmp_path}/")
    return [match.groups() for match in _FENCED.finditer(text)]  # type: ignore[misc]


def statements(block: str) -> list[Sql]:
    found, lines = [], []
    for line in block.splitlines():
        if line.strip() and not line.startswith("--"):
            lines.append(line)
        if end := _END.search(line):
            promise = _PROMISE.match(end.group(1) or "")
            text = "\n".join([*lines[:-1], line[: end.start()]])
            found.append(Sql(text, int(promise.group(1)) if promise else None, bool(promise and promise.group(2))))
            lines = []
    assert not lines, f"a block's last statement has no end: {lines}"
    return found


def environment(**more: str) -> dict[str, str]:
    # What the tests' own session put there is for its JVM alone.
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))}
    jvm = {"SPARK_SUBMIT_OPTS": java_options()}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # the environment is active
    return {**kept, "PATH": path, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT / "python"), **jvm, **more}


def run(command: list[str], folder: Path, text: str, environment: dict[str, str]) -> str:
    """Standard output of a process in a folder of its own, once it has read the text."""
    folder.mkdir(exist_ok=True)
    ended = subprocess.run(
        command, cwd=folder, input=text, env=environment, capture_output=True, text=True, timeout=800, check=False
    )
    assert ended.returncode == 0, f"{ended.stdout[-3000:]}\n{ended.stderr[-5000:]}"
    return ended.stdout


def test_there_is_something_to_promise(tmp_path: Path) -> None:
    sql = [each for kind, text in blocks(tmp_path) if kind == "sql" for each in statements(text)]
    python = [
        promise for kind, text in blocks(tmp_path) if kind == "python" for promise in _PYTHON_PROMISE.findall(text)
    ]
    assert sum(each.promised is not None for each in sql) >= 10
    assert len(python) >= 4


def test_spark_sql(tmp_path: Path) -> None:
    """Spark's own shell, with the two lines and the JAR."""
    home, conf = launch.spark_home(), tmp_path / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(indented("spark.sql.extensions") + "spark.ui.enabled false\n")
    given = [each for kind, text in blocks(tmp_path) if kind == "sql" for each in statements(text)]
    script = tmp_path / "readme.sql"
    script.write_text("".join(f"{each.text};\nSELECT '=== {i}';\n" for i, each in enumerate(given)), encoding="utf-8")
    command = [str(home / "bin" / "spark-sql"), "--jars", str(launch.jar_path()), "-f", str(script)]
    output = run(command, tmp_path / "shell", "", environment(SPARK_HOME=str(home), SPARK_CONF_DIR=str(conf)))
    parts = re.split(r"^=== \d+\n", output, flags=re.MULTILINE)
    assert len(parts) == len(given) + 1, output
    for each, part in zip(given, parts, strict=False):
        each.check([line.split("\t") for line in part.splitlines()])


def as_python(kind: str, text: str) -> str:
    """A block for Python: SQL is run by the session and its rows are compared, lines with promises are compared."""
    if kind == "python":
        return _PYTHON_PROMISE.sub(r"assert (\1) == \2", text)
    lines = []
    for each in statements(text):
        rows = f"[[str(v) for v in row] for row in spark.sql({each.text!r}).collect()]"
        if each.promised is None:
            lines.append(rows)
        else:
            found = "len(found)" if each.rows and not each.counts_changes else "int(found[0][0])"
            lines.append(f"found = {rows}\nassert {found} == {each.promised}, found")
    return "\n".join(lines) + "\n"


def test_a_script(tmp_path: Path) -> None:
    """The blocks one after the other are a script; the first of Python makes its session."""
    given = blocks(tmp_path)
    assert "getOrCreate" in next(text for kind, text in given if kind == "python")
    script = tmp_path / "readme.py"
    script.write_text("".join(as_python(*block) for block in given) + "print('done')\n", encoding="utf-8")
    assert run([sys.executable, str(script)], tmp_path / "script", "", environment()).endswith("done\n")


def test_the_python_shell(tmp_path: Path) -> None:
    """Python's blocks as they are, typed into the shell; the shell prints what they promise."""
    marks, lines, promised = 0, [], []
    for kind, text in blocks(tmp_path):
        if "getOrCreate" in text:
            continue  # the shell has made its session
        if kind == "sql":
            lines += [f"_ = spark.sql({each.text!r}).collect()" for each in statements(text)]
        else:
            lines.append(text)
            promised.append([value for _, value in _PYTHON_PROMISE.findall(text)])
            lines.append("\nprint('===')")
            marks += 1
    command, shell = launch.shell_command("pyspark", ["--conf", "spark.ui.enabled=false"])
    asked = {key: value for key, value in shell.items() if key.startswith(("SPARK_", "PYSPARK_"))}
    asked["PYSPARK_DRIVER_PYTHON_OPTS"] = "-i"  # as with a terminal
    output = run(command, tmp_path / "shell", "\n".join(lines) + "\n", environment(**asked))
    parts = re.split(r"^(?:>>> |\.\.\. )*===$", output, flags=re.MULTILINE)
    assert len(parts) == marks + 1, output
    for part, wanted in zip(parts, promised, strict=False):
        found = re.findall(r"^(?:>>> |\.\.\. )*(\d+)$", part, re.MULTILINE)
        assert found == wanted, part
