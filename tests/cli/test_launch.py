"""Settings reach Spark complete: Headwater's own, and everything the user had set."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
import pyspark.sql
import pytest

import headwater
from headwater.basics.errors import HeadwaterError
from headwater.cli import launch
from headwater.cli import main as cli

_JAR = Path("/somewhere/headwater.jar")


@pytest.fixture(autouse=True)
def _no_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "jar_path", lambda: _JAR)
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_REMOTE", "PYSPARK_PYTHON", "HIVE_SERVER2_THRIFT_BIND_HOST"):
        monkeypatch.delenv(name, raising=False)


class _Builder:
    """As much of ``SparkSession.Builder`` as ``configure`` uses."""

    def __init__(self, **options: Any) -> None:
        self._options = {key.replace("_", "."): value for key, value in options.items()}

    def config(self, key: str, value: str) -> None:
        self._options[key] = value


def _settings_of(command: list[str]) -> dict[str, str]:
    values = [value for option, value in zip(command, command[1:], strict=False) if option == "--conf"]
    return dict(value.split("=", 1) for value in values)


def test_settings_of_a_plain_spark() -> None:
    assert launch.settings({}, _JAR) == {
        "spark.sql.extensions": "headwater.spark.HeadwaterExtension",
        "spark.sql.catalog.spark_catalog": "headwater.spark.HeadwaterCatalog",
        "spark.jars": "/somewhere/headwater.jar",
        "spark.headwater.python": sys.executable,
    }


def test_settings_keep_what_is_there() -> None:
    existing = {
        "spark.sql.extensions": "a.B, c.D",
        "spark.jars": "x.jar",
        "spark.headwater.python": "/opt/python",
        "spark.master": "yarn",
    }
    merged = launch.settings(existing, _JAR)
    assert merged["spark.sql.extensions"] == "a.B,c.D,headwater.spark.HeadwaterExtension"
    assert merged["spark.jars"] == "x.jar,/somewhere/headwater.jar"
    assert merged["spark.headwater.python"] == "/opt/python"
    assert launch.settings(merged, _JAR) == merged


def test_configure_merges_with_builder_and_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# comment\nspark.jars  from-defaults.jar\nspark.sql.extensions=from.Defaults\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    builder = _Builder(spark_sql_extensions="from.Builder")
    assert headwater.configure(builder) is builder
    assert builder._options["spark.sql.extensions"] == "from.Builder,headwater.spark.HeadwaterExtension"
    assert builder._options["spark.jars"] == "from-defaults.jar,/somewhere/headwater.jar"


@pytest.mark.parametrize(
    ("arguments", "warns"),
    [
        ("--jars x.jar pyspark-shell", True),
        ("--conf spark.jars=x.jar,y.jar pyspark-shell", True),
        ("--jars x.jar,/elsewhere/headwater.jar pyspark-shell", False),
        ("--packages a:b:1 --conf spark.a='--jars x.jar' pyspark-shell", False),
        ("--jars 'x.jar pyspark-shell", False),
    ],
)
def test_configure_warns_of_arguments_that_leave_the_jar_out(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder, arguments: str, warns: bool
) -> None:
    # As in a process that has started no JVM yet, whatever other tests have started in this one.
    monkeypatch.setattr(pyspark.SparkContext, "_jvm", None)
    monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(pyspark.sql.SparkSession, "_instantiatedSession", None)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", arguments)
    headwater.configure(_Builder())
    said = [warning for warning in recwarn if "PYSPARK_SUBMIT_ARGS" in str(warning.message)]
    assert [warning.filename for warning in said] == [__file__] * warns
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")  # a JVM that was started before, as by spark-submit
    headwater.configure(_Builder())
    assert len(recwarn) == len(said)


def test_configure_leaves_a_remote_builder_alone() -> None:
    builder = _Builder(spark_remote="sc://host:15002")
    headwater.configure(builder)
    assert builder._options == {"spark.remote": "sc://host:15002"}


def test_shell_gets_settings_and_the_users_arguments() -> None:
    command, environment = launch.shell_command("spark-sql", ["--master", "local[1]", "-e", "SELECT 1", "--help"])
    assert command[0].endswith("/bin/spark-sql")
    assert Path(command[0]).is_file()
    assert command[-5:] == ["--master", "local[1]", "-e", "SELECT 1", "--help"]
    assert _settings_of(command) == launch.settings({}, _JAR)
    assert environment["PYSPARK_PYTHON"] == sys.executable


@pytest.mark.parametrize(
    "arguments",
    [
        ["--jars", "a.jar,b.jar", "--conf", "spark.sql.extensions=x.Y", "--conf", "spark.a=b=c"],
        ["--jars=a.jar,b.jar", "-c", "spark.sql.extensions=x.Y", "--conf=spark.a=b=c"],
        ["--conf", "spark.jars=a.jar,b.jar", "--conf", "spark.sql.extensions=x.Y", "-c", "spark.a=b=c"],
    ],
)
def test_shell_merges_the_users_settings(arguments: list[str]) -> None:
    command, _ = launch.shell_command("pyspark", arguments)
    assert "--jars" not in command
    found = _settings_of(command)
    assert found["spark.jars"] == "a.jar,b.jar,/somewhere/headwater.jar"
    assert found["spark.sql.extensions"] == "x.Y,headwater.spark.HeadwaterExtension"
    assert found["spark.a"] == "b=c"


def test_shell_merges_a_properties_file(tmp_path: Path) -> None:
    file = tmp_path / "my.conf"
    file.write_text("spark.jars: mine.jar\n")
    command, _ = launch.shell_command("spark-sql", ["--properties-file", str(file)])
    assert _settings_of(command)["spark.jars"] == "mine.jar,/somewhere/headwater.jar"
    assert command[command.index("--properties-file") + 1] == str(file)


def test_shell_of_another_spark_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.13-3.5.9.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(HeadwaterError, match=r"3\.5\.9"):
        launch.shell_command("spark-sql", [])


@pytest.mark.parametrize(
    ("server", "arguments", "expected"),
    [
        ("thrift-server", [], "--hiveconf hive.server2.thrift.bind.host=127.0.0.1"),
        ("thrift-server", ["--hiveconf", "hive.server2.thrift.bind.host=0.0.0.0"], None),
        ("thrift-server", ["--hiveconf=hive.server2.thrift.bind.host=0.0.0.0"], None),
        ("thrift-server", ["--conf", "spark.hadoop.hive.server2.thrift.bind.host=0.0.0.0"], None),
        ("connect-server", [], "--conf spark.connect.grpc.binding.address=127.0.0.1"),
        ("connect-server", ["--conf=spark.connect.grpc.binding.address=0.0.0.0"], None),
        ("connect-server", ["-c", "spark.connect.grpc.binding.address=0.0.0.0"], None),
    ],
)
def test_servers_listen_to_this_machine_unless_told(server: str, arguments: list[str], expected: str | None) -> None:
    command, _ = launch.server_command(server, [*arguments, "--master", "local[1]"])
    assert Path(command[0]).name == "spark-submit"
    assert command[1:3] == ["--class", launch.SERVERS[server].main_class]
    assert _settings_of(command).items() >= launch.settings({}, _JAR).items()
    line = " ".join(command)
    assert "--master local[1]" in line
    assert line.count("127.0.0.1") == (1 if expected else 0)
    assert (expected or "0.0.0.0") in line


@pytest.mark.parametrize(
    ("server", "file", "text"),
    [
        ("thrift-server", "hive-site.xml", "<property><name>hive.server2.thrift.bind.host</name></property>"),
        ("thrift-server", "spark-defaults.conf", "spark.hadoop.hive.server2.thrift.bind.host 0.0.0.0"),
        ("connect-server", "spark-defaults.conf", "spark.connect.grpc.binding.address 0.0.0.0"),
    ],
)
def test_addresses_of_configuration_files_stay(
    server: str, file: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert "127.0.0.1" in " ".join(launch.server_command(server, [])[0])
    (tmp_path / file).write_text(text + "\n")
    assert "127.0.0.1" not in " ".join(launch.server_command(server, [])[0])


@pytest.mark.parametrize(
    ("found", "missing"),
    [
        ({}, ["spark.sql.extensions = ", "spark.sql.catalog.spark_catalog = "]),
        ({"spark.sql.extensions": f"a.B, {launch.EXTENSION}"}, ["spark.sql.catalog.spark_catalog = "]),
        (
            {"spark.sql.catalog.spark_catalog": launch.CATALOG, "spark.sql.extensions": "a.B"},
            ["spark.sql.extensions = "],
        ),
        ({"spark.sql.catalog.spark_catalog": launch.CATALOG, "spark.sql.extensions": launch.EXTENSION}, []),
    ],
)
@pytest.mark.parametrize("runs", [True, False])
def test_a_session_that_runs_has_all_settings_or_is_refused(
    monkeypatch: pytest.MonkeyPatch, found: dict[str, str], missing: list[str], runs: bool
) -> None:
    from pyspark.sql import SparkSession

    context = SimpleNamespace(_jsc=object() if runs else None)
    session = SimpleNamespace(conf=SimpleNamespace(get=found.get), _sc=context)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: session)
    builder = _Builder()
    if not (runs and missing):
        assert headwater.configure(builder) is builder
        return
    with pytest.raises(HeadwaterError) as raised:
        headwater.configure(builder)
    assert raised.value.condition == "HEADWATER_SESSION_ALREADY_RUNS"
    assert builder._options == {}
    for setting in ("spark.sql.extensions = ", "spark.sql.catalog.spark_catalog = "):
        assert (setting in raised.value.text) == (setting in missing), raised.value.text
    assert "spark.stop()" in raised.value.text


def test_without_spark_the_message_names_what_installs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package brings no PySpark, so whoever has none reads how to get one."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, package=None: None)
    with pytest.raises(RuntimeError, match=r"pip install 'headwater\[spark\]'.*SPARK_HOME"):
        launch.spark_home()
    with pytest.raises(RuntimeError, match="pip install 'headwater"):
        launch.shell_command("spark-sql", [])
    with pytest.raises(RuntimeError, match=r"pip install 'headwater\[demo\]'"):
        cli.demo()
    for module in [name for name in sys.modules if name.startswith("headwater.tables")]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(ModuleNotFoundError, match=r"'headwater\[spark\]', or 'headwater\[client\]'") as missing:
        importlib.import_module("headwater.tables")
    assert missing.value.name == "pyspark"


def test_pyspark_client_alone_has_no_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of PySpark's name, without JARs and scripts."""
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").touch()
    spec = importlib.util.spec_from_file_location(
        "pyspark", tmp_path / "pyspark" / "__init__.py", submodule_search_locations=[str(tmp_path / "pyspark")]
    )
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, package=None: spec)
    with pytest.raises(RuntimeError, match="no PySpark with Spark inside"):
        launch.spark_home()


@pytest.mark.parametrize(
    ("version", "shown"),
    [("1.8.0_402", "is 8,"), ("11.0.13", "is 11,"), ("17.0.9", None), ("21", None), ("25.0.2", None), (None, None)],
)
def test_a_java_that_is_too_old_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None, shown: str | None
) -> None:
    """In place of Spark's message, which is about the versions of class files."""
    if version:
        (tmp_path / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if shown is None:
        launch.shell_command("spark-sql", [])
        return
    with pytest.raises(
        RuntimeError, match=f"The Java in {re.escape(str(tmp_path))} {shown} .* Install a JDK"
    ) as raised:
        launch.shell_command("spark-sql", [])
    monkeypatch.setattr(pyspark.SparkContext, "_jvm", None)
    with pytest.raises(RuntimeError, match=re.escape(str(raised.value))):
        headwater.configure(_Builder())
    # A Spark may set its own Java when it starts.
    (tmp_path / "spark-env.sh").touch()
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    launch.shell_command("spark-sql", [])


@pytest.mark.parametrize(
    "given",
    [
        ["--conf", "spark.sql.cli.print.header=false"],
        ["-c", "spark.sql.cli.print.header=false"],
        ["--hiveconf", "hive.cli.print.header=false"],
        ["--conf=spark.hadoop.hive.cli.print.header=false"],
    ],
)
def test_a_reader_sees_column_headers_unless_the_user_says_otherwise(given: list[str]) -> None:
    headers = "spark.sql.cli.print.header"
    assert _settings_of(launch.shell_command("spark-sql", ["-e", "SELECT 1"], headers=True)[0])[headers] == "true"
    assert headers not in _settings_of(launch.shell_command("spark-sql", [])[0])
    assert headers not in _settings_of(launch.shell_command("pyspark", [], headers=True)[0])
    assert f"{headers}=true" not in launch.shell_command("spark-sql", given, headers=True)[0]


@pytest.mark.parametrize("shell", ["spark-sql", "pyspark"])
def test_a_shells_line_of_progress_is_in_place_of_sparks_bar_unless_the_user_says_otherwise(shell: str) -> None:
    ours, bar, beat = "spark.headwater.progress", "spark.ui.showConsoleProgress", "spark.executor.heartbeatInterval"
    found = _settings_of(launch.shell_command(shell, [], progress=True)[0])
    assert (found[ours], found[bar], found[beat]) == ("true", "false", "2s")
    assert not {ours, bar, beat}.intersection(_settings_of(launch.shell_command(shell, [])[0]))
    assert beat not in _settings_of(launch.shell_command(shell, ["--master", "yarn"], progress=True)[0])
    for mine in (f"{bar}=true", f"{bar}=false", f"{ours}=false"):
        command = launch.shell_command(shell, ["--conf", mine], progress=True)[0]
        assert f"{ours}=true" not in command
        assert [each for each in command if each.startswith((bar, ours))] == [mine]
    command = launch.shell_command(shell, ["--conf", f"{beat}=5s"], progress=True)[0]
    assert [each for each in command if each.startswith(beat)] == [f"{beat}=5s"]


def test_no_java_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="Spark needs Java.*JAVA_HOME"):
        launch.shell_command("spark-sql", [])


@pytest.mark.parametrize(
    "core", ["spark-core_2.12-3.5.6.jar", "spark-core_2.13-3.5.6.jar", "spark-core_2.13-4.4.0.jar"]
)
def test_another_spark_is_refused_before_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, core: str) -> None:
    """One for Scala 2.12, too, which could not even load a class of ours."""
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / core).touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    for start in (launch.shell_command, launch.server_command):
        name = "spark-sql" if start is launch.shell_command else "thrift-server"
        with pytest.raises(HeadwaterError, match="4.0.0, .* not with (3.5.6|4.4.0)") as raised:
            start(name, [])
        assert raised.value.condition == "HEADWATER_UNSUPPORTED_SPARK_VERSION"
