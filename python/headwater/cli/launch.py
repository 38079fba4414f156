"""Starting Spark with Headwater: the JAR, the settings, and Spark's own shells and servers.

Owns one list of settings, which ``headwater.configure`` and the commands that start Spark's shells and servers share.
It is merged with the user's own settings, so that none of their extensions and JARs is lost. Promise: PySpark is
imported only when a builder is configured.
"""

from __future__ import annotations

import importlib.util
import os
import re
import runpy
import shlex
import shutil
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.basics import start_settings, versions

EXTENSION = "headwater.spark.HeadwaterExtension"
CATALOG = "headwater.spark.HeadwaterCatalog"
#: The names that Delta Lake's own connector has for the two; ``headwater-delta.jar`` has them for ours.
DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"

_EXTENSIONS_KEY = "spark.sql.extensions"
_CATALOG_KEY = "spark.sql.catalog.spark_catalog"
_JARS_KEY = "spark.jars"
_PYTHON_KEY = start_settings.PYTHON
#: Whether ``spark-sql`` prints the names of columns above rows: Spark's setting and Hive's, either of which suffices.
_HEADER_KEY, _HEADER_OF_HIVE = "spark.sql.cli.print.header", "hive.cli.print.header"
#: Whether Spark draws its own bar of progress, which its shells do unless this says otherwise.
_BAR_KEY = "spark.ui.showConsoleProgress"
#: How often Spark counts the rows of running tasks, and asks each executor for them: 10 s by default.
_HEARTBEAT_KEY = "spark.executor.heartbeatInterval"
_MERGED_KEYS = frozenset({_EXTENSIONS_KEY, _CATALOG_KEY, _JARS_KEY, _PYTHON_KEY})


@dataclass(frozen=True)
class Server:
    """One of Spark's servers: its class, and the setting with the address that it listens on."""

    main_class: str
    name: str
    address: str


SERVERS = {
    "thrift-server": Server(
        "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2",
        "Thrift JDBC/ODBC Server",
        "hive.server2.thrift.bind.host",
    ),
    "connect-server": Server(
        "org.apache.spark.sql.connect.service.SparkConnectServer",
        "Spark Connect server",
        "spark.connect.grpc.binding.address",
    ),
}
LOOPBACK = "127.0.0.1"
#: The oldest Java that any supported Spark runs on.
_OLDEST_JAVA = 17


def jar_path() -> Path:
    """See :func:`headwater.jar_path`."""
    package = Path(__file__).resolve().parents[1]
    spark_jars = _spark_jars()
    version = None if spark_jars is None else versions.spark_version(spark_jars)
    if version is not None:
        versions.require_supported(version)
    build_script = package.parents[1] / "jvm" / "build.py"
    if build_script.is_file():
        built: Path = runpy.run_path(str(build_script))["build"](spark_jars)
        return built
    build = versions.BUILDS[-1] if version is None else versions.build_for(version)
    assert build is not None
    jar = package / "jars" / build.jar
    if not jar.is_file():
        found = [other.jar for other in versions.BUILDS if (package / "jars" / other.jar).is_file()]
        raise RuntimeError(_missing(jar) if not found else _without(version, found))
    return jar


def _spark_jars() -> Path | None:
    """The ``jars`` folder of the Spark that commands start; None without a Spark, as beside ``pyspark-client``."""
    try:
        jars = spark_home() / "jars"
    except RuntimeError:
        return None
    return jars if jars.is_dir() else None


def _missing(jar: Path) -> str:
    return f"{jar} is missing: this installation of Headwater is damaged. Install it again with pip."


def _without(version: str | None, found: Sequence[str]) -> str:
    return (
        f"This installation of Headwater has no JAR for Spark {version}, only {', '.join(found)}. Install a wheel that "
        "has it, or install Headwater's sources again beside that Spark: pip install --force-reinstall --no-deps with "
        "their path."
    )


def delta_jar_path() -> Path:
    """See :func:`headwater.delta_jar_path`."""
    return _beside(jar_path())


def _beside(jar: Path) -> Path:
    delta = versions.delta_jar(jar)
    if not delta.is_file():
        raise RuntimeError(_missing(delta))
    return delta


def settings(existing: Mapping[str, str], jar: Path, *, delta_names: bool = False) -> dict[str, str]:
    """The settings that Spark needs for Delta tables, merged with the ones it already has.

    Extensions and JARs are appended. The session catalog becomes Headwater's, which delegates every table that is not a
    Delta table. Extension and catalog may have the names of Delta Lake's own connector: these are kept, and get the JAR
    that has them. A ``spark.headwater.python`` that is already set is kept.

    :param delta_names: whether the JAR of these names is added in any case.
    """
    extensions = existing.get(_EXTENSIONS_KEY)
    named_extension, named_catalog = (
        DELTA_EXTENSION in items_of(extensions),
        existing.get(_CATALOG_KEY) == DELTA_CATALOG,
    )
    jars = append_item(existing.get(_JARS_KEY), str(jar))
    if delta_names or named_extension or named_catalog:
        jars = append_item(jars, str(_beside(jar)))
    return {
        _EXTENSIONS_KEY: str(extensions) if named_extension else append_item(extensions, EXTENSION),
        _CATALOG_KEY: DELTA_CATALOG if named_catalog else CATALOG,
        _JARS_KEY: jars,
        _PYTHON_KEY: existing.get(_PYTHON_KEY) or sys.executable,
    }


def configure(builder: Any, *, delta_names: bool = False) -> None:
    """See :func:`headwater.configure`; ``delta_names`` as of :func:`settings`."""
    import pyspark

    options = {key: str(value) for key, value in builder._options.items()}
    if (options.get("spark.remote") or os.environ.get("SPARK_REMOTE") or "").startswith("sc://"):
        return
    versions.require_supported(pyspark.__version__)
    if pyspark.SparkContext._jvm is None:
        _require_java(spark_home())
    jar = jar_path()
    _check_running_session(jar)
    merged = settings({**default_settings(spark_home()), **options}, jar, delta_names=delta_names)
    for key, value in merged.items():
        builder.config(key, value)
    if pyspark.SparkContext._jvm is None and (said := left_out_by_submit_args(jar)):
        warnings.warn(". ".join(said), stacklevel=3)
    for own in (jar, versions.delta_jar(jar)):
        if str(own) in items_of(merged[_JARS_KEY]):
            _add_to_running_driver(own)


def left_out_by_submit_args(jar: Path) -> tuple[str, str] | None:
    """What is wrong with a ``PYSPARK_SUBMIT_ARGS`` whose JARs replace those of a builder, and what to do; None if it
    does not.

    PySpark gives its JVM the builder's settings first and these arguments after them, and of two lists of JARs the last
    counts: a session would start without the JAR, and say that Spark cannot find the class of the extension.

    :param jar: what the builder has.
    """
    try:
        given, _ = _split_arguments(shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "")))
    except ValueError:  # a quote without its end: Spark's launcher says so
        return None
    jars = given.get("--jars", given.get(_JARS_KEY))
    if "PYSPARK_GATEWAY_PORT" in os.environ or jars is None:
        return None
    if jar.name in (Path(each).name for each in items_of(jars)):  # this one, or one of the same name elsewhere
        return None
    return (
        f"PYSPARK_SUBMIT_ARGS names the JARs {jars}, which replace {_JARS_KEY} of every session that Python starts, so "
        "Headwater's JAR would be left out",
        f"Add it there: --jars {append_item(jars, str(jar))}",
    )


def spark_home() -> Path:
    """Where Spark is: ``SPARK_HOME`` if set, as Spark itself has it, else the installed PySpark package.

    :raises RuntimeError: there is neither.
    """
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    spec = importlib.util.find_spec("pyspark")
    for location in (spec.submodule_search_locations or []) if spec else []:
        for candidate in (Path(location) / "spark-distribution", Path(location)):
            if (candidate / "bin" / "spark-submit").is_file():
                return candidate
    raise RuntimeError(
        f"{sys.executable} has no PySpark with Spark inside, and SPARK_HOME is not set. Install it "
        f"({shlex.quote(sys.executable)} -m pip install 'headwater[spark]'), or set SPARK_HOME to the folder of a Spark"
    )


def asks_for_bar(spark: Any) -> bool:
    """Whether the user of a classic session has set that Spark draws its own bar. The session's settings do not show
    it: ``spark-submit``, by which PySpark starts its JVM, adds the same one.
    """
    command = str(spark._jvm.java.lang.System.getProperty("sun.java.command"))
    try:
        return f"{_BAR_KEY}=true" in command or default_settings(spark_home()).get(_BAR_KEY) == "true"
    except RuntimeError:  # this Python has no Spark of its own
        return False


def spark_version(home: Path) -> str | None:
    """The version of the Spark in ``home``, from the names of its JARs; None if these do not show it."""
    return versions.spark_version(home / "jars")


def _require_java(home: Path) -> None:
    """Refuse a Java that is too old, or none: Spark's own message is about class files, or about a gateway.

    Nothing is started: a Java's home has a file that names its version, and one without such a file is tried.

    :param home: the Spark's, whose ``conf/spark-env.sh`` may set another Java, in which case nothing is known.
    :raises RuntimeError: with the Java that was found, and what to do.
    """
    if (Path(os.environ.get("SPARK_CONF_DIR") or home / "conf") / "spark-env.sh").is_file():
        return
    install = f"Install a JDK or JRE {_OLDEST_JAVA} or 21, and have JAVA_HOME name its folder"
    java_home, java = os.environ.get("JAVA_HOME"), shutil.which("java")
    if not java_home and java is None:
        raise RuntimeError(f"Spark needs Java, and there is no java on the PATH and no JAVA_HOME. {install}")
    folder = Path(java_home) if java_home else Path(java or "").resolve().parents[1]
    try:
        text = (folder / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    match = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', text, re.MULTILINE)
    if match and int(match[1]) < _OLDEST_JAVA:
        raise RuntimeError(f"The Java in {folder} is {match[1]}, which is too old for Spark. {install}")


def default_settings(home: Path) -> dict[str, str]:
    """The settings in ``spark-defaults.conf`` of ``SPARK_CONF_DIR``, or of the ``conf`` folder of ``home``."""
    path = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf") / "spark-defaults.conf"
    return _read_properties(path) if path.is_file() else {}


def shell_command(
    shell: str, arguments: Sequence[str], *, headers: bool = False, progress: bool = False
) -> tuple[list[str], dict[str, str]]:
    """The command line and the environment that run one of Spark's shells with Headwater set up.

    :param shell: ``spark-sql`` or ``pyspark``: a script in Spark's ``bin``.
    :param arguments: the user's arguments for it; all are passed on. ``--jars`` and ``--conf`` settings that Headwater
        also sets are merged with its own.
    :param headers: whether ``spark-sql`` prints column headers if the user has not set that.
    :param progress: whether Headwater's line shows progress, in place of Spark's bar, if the user has not set that.
    :raises RuntimeError: Spark or the JAR cannot be found.
    :raises headwater.basics.errors.HeadwaterError: that Spark is not a supported version.
    """
    home = spark_home()
    if version := spark_version(home):
        versions.require_supported(version)
    _require_java(home)
    given, rest = _split_arguments(arguments)
    properties = given.pop("--properties-file", None)
    defaults = _read_properties(Path(properties)) if properties else default_settings(home)
    jars = given.pop("--jars", None)  # spark-submit lets --jars win over spark.jars
    existing = {**defaults, **given, **({_JARS_KEY: jars} if jars else {})}
    command = [str(home / "bin" / shell)]
    for key, value in settings(existing, jar_path()).items():
        command += ["--conf", f"{key}={value}"]
    for key, value in _for_a_reader(shell, arguments, headers=headers, progress=progress).items():
        command += ["--conf", f"{key}={value}"]
    if properties:
        command += ["--properties-file", properties]
    environment = {**os.environ, "SPARK_HOME": str(home)}
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    return command + rest, environment


def _for_a_reader(shell: str, arguments: Sequence[str], *, headers: bool, progress: bool) -> dict[str, str]:
    """The settings that make a shell easier to read, as far as the user has set none of them."""
    given, found = _given_settings(arguments), dict[str, str]()
    if headers and shell == "spark-sql" and _HEADER_KEY not in given and not _given_to_hive(_HEADER_OF_HIVE, arguments):
        found[_HEADER_KEY] = "true"
    if progress and given.keys().isdisjoint((_BAR_KEY, start_settings.PROGRESS)):
        found |= {_BAR_KEY: "false", start_settings.PROGRESS: "true"}
        is_local = "spark.master" not in given and not any(each.startswith("--master") for each in arguments)
        if is_local and _HEARTBEAT_KEY not in given:
            found[_HEARTBEAT_KEY] = "2s"
    return found


def server_command(server: str, arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The command line and the environment that run one of Spark's servers in the foreground with Headwater set up.

    The server listens on the loopback interface only, unless the user sets an address: in the arguments, in the files
    of Spark's configuration or in Hive's environment variable. Spark's own default is every interface.

    :param server: a name of :data:`SERVERS`.
    :param arguments: the user's: options of ``spark-submit``, and ``--hiveconf`` for the Thrift server.
    :raises RuntimeError, HeadwaterError: as :func:`shell_command`.
    """
    kind = SERVERS[server]
    command, environment = shell_command("spark-submit", arguments)
    # The class comes first: Spark then takes the arguments it does not know for the server's.
    own = ["--class", kind.main_class, "--name", kind.name]
    listening: list[str] = []
    if kind.address.startswith("spark."):
        if kind.address not in _given_settings(arguments):
            own += ["--conf", f"{kind.address}={LOOPBACK}"]
    elif not (os.environ.get("HIVE_SERVER2_THRIFT_BIND_HOST") or _given_to_hive(kind.address, arguments)):
        listening = ["--hiveconf", f"{kind.address}={LOOPBACK}"]
    return [command[0], *own, *command[1:], *listening], environment


def _given_settings(arguments: Sequence[str]) -> dict[str, str]:
    """Spark's settings in the arguments and in the files of its configuration."""
    given, rest = _split_arguments(arguments)
    properties = given.get("--properties-file")
    settings = _read_properties(Path(properties)) if properties else default_settings(spark_home())
    return {**settings, **_values_of("--conf", rest)}


def _given_to_hive(key: str, arguments: Sequence[str]) -> bool:
    """Whether the user has set a setting of Hive's, in one of the places where Spark's shell and Thrift server look."""
    folder = Path(os.environ.get("SPARK_CONF_DIR") or spark_home() / "conf")
    site = folder / "hive-site.xml"
    return (
        key in _values_of("--hiveconf", arguments)
        or not {f"spark.hadoop.{key}", f"spark.{key}"}.isdisjoint(_given_settings(arguments))
        or (site.is_file() and f"<name>{key}</name>" in site.read_text(encoding="utf-8"))
    )


def _values_of(option: str, arguments: Sequence[str]) -> dict[str, str]:
    """The settings that ``option key=value`` and ``option=key=value`` give among the arguments."""
    following = [value for before, value in zip(arguments, arguments[1:], strict=False) if before == option]
    joined = [argument[len(option) + 1 :] for argument in arguments if argument.startswith(f"{option}=")]
    pairs = (value.partition("=") for value in [*following, *joined])
    return {key: value for key, _, value in pairs}


def append_item(existing: str | None, item: str) -> str:
    """``item`` at the end of the comma-separated list ``existing``, once."""
    items = items_of(existing)
    return ",".join(items if item in items else [*items, item])


def items_of(listed: str | None) -> list[str]:
    """The parts of a comma-separated list."""
    return [part for part in (part.strip() for part in (listed or "").split(",")) if part]


def _split_arguments(arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Separate those of spark-submit's arguments that Headwater has to merge; the rest keep their order."""
    taken: dict[str, str] = {}
    rest: list[str] = []
    remaining = list(arguments)
    while remaining:
        argument = remaining.pop(0)
        option, joined, value = argument.partition("=")
        if option not in ("--conf", "-c", "--jars", "--properties-file"):
            rest.append(argument)
            continue
        if not joined:
            if not remaining:  # a value is missing: Spark says so
                rest.append(argument)
                break
            value = remaining.pop(0)
        key, _, setting = value.partition("=")
        if option in ("--jars", "--properties-file"):
            taken[option] = value
        elif key in _MERGED_KEYS:
            taken[key] = setting
        else:
            rest += ["--conf", value]
    return taken, rest


def _read_properties(path: Path) -> dict[str, str]:
    """A Java properties file as Spark documents it: a line is a key, then white space, ``=`` or ``:``, then a value."""
    found: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        stripped = line.strip()
        if stripped and stripped[0] not in "#!":
            end = next((index for index, letter in enumerate(stripped) if letter in " \t=:"), len(stripped))
            found[stripped[:end]] = stripped[end:].lstrip(" \t").removeprefix("=").removeprefix(":").strip()
    return found


def _check_running_session(jar: Path) -> None:
    """A session that runs already would be what ``getOrCreate()`` returns, and Spark gives it no extension any more.

    :raises HeadwaterError: ``HEADWATER_SESSION_ALREADY_RUNS`` if it has not all that Headwater needs.
    """
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession() or getattr(SparkSession, "_instantiatedSession", None)
    context = getattr(session, "_sc", None)
    if session is None or context is None or context._jsc is None:
        return  # none, or one that was stopped
    found = {key: session.conf.get(key, None) or "" for key in (_EXTENSIONS_KEY, _CATALOG_KEY)}
    missing = [
        f"{key} = {value}"
        for key, value, other in (
            (_EXTENSIONS_KEY, EXTENSION, DELTA_EXTENSION),
            (_CATALOG_KEY, CATALOG, DELTA_CATALOG),
        )
        if not {value, other}.intersection(items_of(found[key]))
    ]
    if missing:
        from headwater.basics.errors import HeadwaterError

        raise HeadwaterError("HEADWATER_SESSION_ALREADY_RUNS", {"missing": " and ".join(missing), "jar": str(jar)})


def _add_to_running_driver(jar: Path) -> None:
    """Add the JAR to a JVM that this Python process has already started.

    ``spark.jars`` reaches the driver only when its JVM starts, and PySpark keeps one JVM for all sessions of a process:
    without this, a notebook that had a plain session before would need a new kernel.
    """
    from pyspark import SparkContext

    jvm = SparkContext._jvm
    if jvm is None:
        return
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    url = jvm.java.io.File(str(jar)).toURI().toURL()
    if hasattr(loader, "addURL") and url.toString() not in {known.toString() for known in loader.getURLs()}:
        loader.addURL(url)
