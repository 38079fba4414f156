"""README works verbatim, top to bottom: its blocks run in order in ``spark-sql``, in the ``pyspark`` shell and in a
script, and do what their comments promise; :mod:`support.documents` has what a promise is. So do the pages of
``docs``, each in a database of its own of one session, once for each language that it has tabs of: in Scala in the long
run, as their calls of Scala's API are those of tests/bridge/programs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headwater.cli import launch
from support.documents import (
    PYTHON_PROMISE,
    README,
    SCALA_PROMISE,
    Block,
    blocks,
    indented,
    pages,
    statements,
    variants,
)
from support.paths import ROOT
from support.sessions import java_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

#: Pages of ``docs`` with blocks to run, and the languages that they run in.
_PAGES = {
    page.relative_to(ROOT / "docs").as_posix(): variants(found)
    for page in pages()
    if page != README and (found := blocks(page, Path("/tmp")))
}
_RUNS = [(page, language) for page, runs in _PAGES.items() for language in runs]


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
    sql = [each for kind, text, _ in blocks(README, tmp_path) if kind == "sql" for each in statements(text)]
    python = [
        promise
        for kind, text, _ in blocks(README, tmp_path)
        if kind == "python"
        for promise in PYTHON_PROMISE.findall(text)
    ]
    assert sum(each.promised is not None for each in sql) >= 7
    assert len(python) >= 2
    assert len(_RUNS) > 10


def test_spark_sql(tmp_path: Path) -> None:
    """Spark's own shell, with the two lines and the JAR."""
    home, conf = launch.spark_home(), tmp_path / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(indented("spark.sql.extensions") + "spark.ui.enabled false\n")
    given = [each for kind, text, _ in blocks(README, tmp_path) if kind == "sql" for each in statements(text)]
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
        return PYTHON_PROMISE.sub(r"assert (\1) == \2", text)
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
    given = blocks(README, tmp_path)
    assert "getOrCreate" in next(text for kind, text, _ in given if kind == "python")
    script = tmp_path / "readme.py"
    script.write_text("".join(as_python(kind, text) for kind, text, _ in given) + "print('done')\n", encoding="utf-8")
    assert run([sys.executable, str(script)], tmp_path / "script", "", environment()).endswith("done\n")


@pytest.mark.soak  # the usual run has the same blocks as a script
def test_the_python_shell(tmp_path: Path) -> None:
    """Python's blocks as they are, typed into the shell; the shell prints what they promise."""
    marks, lines, promised = 0, [], []
    for kind, text, _ in blocks(README, tmp_path):
        if "getOrCreate" in text:
            continue  # the shell has made its session
        if kind == "sql":
            lines += [f"_ = spark.sql({each.text!r}).collect()" for each in statements(text)]
        else:
            lines.append(text)
            promised.append([value for _, value in PYTHON_PROMISE.findall(text)])
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


# --- the pages of the site, in one session ----------------------------------------------------------------------------


def scala_source(name: str, found: list[Block]) -> str:
    """A page's Scala as a method of an object; promised lines are compared."""
    lines = []
    for kind, text, _ in found:
        if kind == "sql":
            for each in statements(text):
                lines.append(
                    f"Pages.run({scala_text(each.text)}, {-1 if each.promised is None else each.promised}, "
                    f"{str(each.rows and not each.counts_changes).lower()})"
                )
        elif kind == "scala":
            lines.append(SCALA_PROMISE.sub(lambda m: f"Pages.check({scala_text(m[1])}, {m[1]}, {m[2]})", text))
    body = "\n".join(lines).replace("\n", "\n    ")
    return f"object {name} {{\n  def run(spark: SparkSession): Unit = {{\n    {body}\n  }}\n}}\n"


def scala_text(text: str) -> str:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{quoted}"'


_SCALA = """package pages
import org.apache.spark.sql.SparkSession
object Pages {
  def check(text: String, found: Any, promised: Long): Unit =
    if (found.toString != promised.toString) throw new AssertionError(s"$text gave $found, the page says $promised")
  def run(text: String, promised: Long, counts: Boolean): Unit = {
    val rows = SparkSession.active.sql(text).collect()
    if (promised >= 0) check(text, if (counts) rows.length else rows(0).get(0), promised)
  }
}
"""


@pytest.fixture(scope="module")
def scala_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the files of the pages in Scala lie, whose paths are compiled into them."""
    return tmp_path_factory.mktemp("scala_pages")


@pytest.fixture(scope="module")
def compiling(scala_home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """All pages' Scala is compiled in one process."""
    source, classes = scala_home / "Pages.scala", scala_home / "classes"
    classes.mkdir()
    objects = [
        scala_source(object_name(page), variants(blocks(ROOT / "docs" / page, scala_home))["scala"])
        for page, runs in _PAGES.items()
        if "scala" in runs
    ]
    source.write_text("\n".join([_SCALA, *objects]), encoding="utf-8")
    libraries = f"{launch.spark_home() / 'jars' / '*'}:{launch.delta_jar_path()}"
    command = ["java", "-Xss8m", "-XX:TieredStopAtLevel=1", "-cp", libraries, "scala.tools.nsc.Main", "-usejavacp"]
    with (scala_home / "compiler.log").open("wb") as log:
        compiler = subprocess.Popen([*command, "-d", str(classes), str(source)], stderr=log, stdout=log)
        yield compiler
        compiler.kill()
        compiler.wait()


def object_name(page: str) -> str:
    return "Page_" + re.sub(r"\W", "_", page)


def run_in_scala(spark: SparkSession, page: str, home: Path, compiler: subprocess.Popen[bytes]) -> None:
    assert compiler.wait(timeout=300) == 0, (home / "compiler.log").read_text("utf-8")
    java: Any = spark._jvm.java  # type: ignore[union-attr]
    new_array: Any = spark.sparkContext._gateway.new_array  # type: ignore[union-attr]
    urls = new_array(java.net.URL, 2)
    for at, place in enumerate((f"{(home / 'classes').as_uri()}/", launch.delta_jar_path().as_uri())):
        urls[at] = java.net.URI(place).toURL()
    loader = java.net.URLClassLoader(urls, java.lang.Thread.currentThread().getContextClassLoader())
    method = next(m for m in loader.loadClass(f"pages.{object_name(page)}").getMethods() if m.getName() == "run")
    arguments = new_array(java.lang.Object, 1)
    arguments[0] = spark._jsparkSession
    method.invoke(None, arguments)


def run_in_python(spark: SparkSession, found: list[Block]) -> None:
    names: dict[str, Any] = {"spark": spark}
    for kind, text, _ in found:
        if "getOrCreate" not in text:  # the session is there
            exec(compile(as_python(kind, text), text, "exec"), names)


@pytest.mark.parametrize(("page", "language"), [run for run in _RUNS if run[1] != "scala"], ids=str)
@pytest.mark.usefixtures("database")
def test_a_page(page: str, language: str, spark: SparkSession, tmp_path: Path) -> None:
    run_in_python(spark, variants(blocks(ROOT / "docs" / page, tmp_path))[language])


@pytest.mark.soak  # the usual run has Scala's API in tests/bridge/test_delta_names.py
@pytest.mark.parametrize("page", [page for page, language in _RUNS if language == "scala"])
@pytest.mark.usefixtures("database")
def test_a_page_in_scala(page: str, spark: SparkSession, scala_home: Path, compiling: subprocess.Popen[bytes]) -> None:
    run_in_scala(spark, page, scala_home, compiling)
