"""``headwater doctor``: checks that everything Headwater needs is installed, and says what to do about what is missing.

Owns the checks, each of them one or more findings. Promises: standard library only at import, and every other import is
inside a check, so it runs where nothing is installed; a check that fails in a way nobody foresaw is a finding, and the
others run; nothing is started but ``java -version`` and a handler process, which ends with the check; nothing is
written but one empty file in a local folder, which is deleted, to see whether its file system keeps a store's promise.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import json
import os
import platform
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import uuid
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from headwater import __version__
from headwater.basics import clock, versions
from headwater.basics.printable import printable
from headwater.cli import launch

OK, NOTE, WARNING, WRONG = "ok", "note", "warning", "wrong"

_PACKAGE = Path(__file__).resolve().parents[1]
_NEWEST_PYTHON = (3, 13)
#: Pythons that a coming version drops, and when at the earliest, as docs/compatibility.md announces.
ENDING_PYTHONS = {(3, 10): ("1.1", "2027-06-01")}
_JAVAS = (17, 21)
#: What the package needs, where its own description is not installed: a source tree on the path.
_PACKAGES = (
    "py4j", "pyarrow", "msgspec", "numpy", "orjson", "pyroaring", "sqlglot", "tzdata", "typer", "rich"
)  # fmt: skip
#: Packages with compiled parts, which may be there and not load.
_COMPILED = ("pyarrow", "msgspec", "numpy", "orjson", "pyroaring")
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*\(?([^;)]*)\)?\s*(;.*)?")
_HANDLER_SECONDS = 60
#: How far two clocks may be apart before a person should know, in milliseconds.
_CLOCKS_APART = 5_000
_RELEASED = 1_735_689_600_000  # 2025-01-01: no clock that is right is before it
#: The most files of a table that are looked for: each may be a request to the store.
_MOST_FILES = 10_000
#: File systems over an object store, whose links and exclusive creates are not those of the store.
_OVER_OBJECTS = re.compile(r"fuse\.(s3fs|gcsfuse|goofys|rclone|mount-s3|blobfuse2?|geesefs|juicefs)")
_SCHEMES = {
    "s3a": "Spark writes it by creating objects on condition (If-None-Match: *)",
    "s3": "Spark writes it by creating objects on condition (If-None-Match: *), if s3 is set to the file system of s3a",
    "hdfs": "Spark writes it by renaming, which the name node refuses where a name is taken",
    "webhdfs": "Spark writes it by renaming, which the name node refuses where a name is taken",
    "swebhdfs": "Spark writes it by renaming, which the name node refuses where a name is taken",
    "viewfs": "Spark writes it where the mount leads to HDFS, by renaming",
}


class Finding(NamedTuple):
    """What a check found.

    :param state: ``ok``; ``note``, which may be meant; ``warning``; ``wrong``, which has to be changed.
    :param advice: what to do; None if there is nothing.
    """

    check: str
    state: str
    found: str
    advice: str | None = None


def run(path: str | None, *, as_json: bool) -> int:
    """Make all checks and print them; the exit code."""
    findings: list[Finding] = []
    for finding in examine(path):
        findings.append(finding)
        if not as_json:
            _print(finding)
    wrong = sum(finding.state == WRONG for finding in findings)
    if as_json:
        answer = {"version": __version__, "ok": not wrong, "findings": [finding._asdict() for finding in findings]}
        print(json.dumps(answer, indent=2))
    else:
        warnings = sum(finding.state == WARNING for finding in findings)
        print(f"\n{len(findings)} findings: {wrong} wrong, {warnings} to be looked at.")
    return 1 if wrong else 0


def run_without_packages(arguments: Sequence[str]) -> int:
    """As :func:`run`, of the command line alone, where the package that parses it is missing."""
    paths = [argument for argument in arguments if not argument.startswith("-")]
    return run(paths[0] if paths else None, as_json="--json" in arguments)


def _print(finding: Finding) -> None:
    found, advice = (printable(text) for text in (finding.found, finding.advice or ""))
    print(f"{finding.state:<8}{finding.check}: {found}")
    if advice:
        print(f"{'':<8}{advice}")


def examine(path: str | None) -> Iterator[Finding]:
    """All findings, check by check."""
    checks: list[tuple[str, Callable[[], Iterator[Finding]]]] = [
        ("Python", _python),
        ("packages", _packages),
        ("Java", _java),
        ("Spark", _spark),
        ("JAR", _jar),
        ("settings", _settings),
        ("handler", _handler),
        ("clock", _clock),
    ]
    if path is not None:
        checks.append(("path", lambda: _path(path)))
    for name, check in checks:
        try:
            yield from check()
        except Exception as error:
            yield Finding(name, WRONG, f"the check failed: {type(error).__name__}: {error}")


# --- Python -----------------------------------------------------------------------------------------------------------


def _python() -> Iterator[Finding]:
    found = f"{platform.python_version()} ({sys.executable}), headwater {__version__}"
    if sys.version_info[:2] > _NEWEST_PYTHON:
        newest = ".".join(map(str, _NEWEST_PYTHON))
        yield Finding("Python", WARNING, found, f"Headwater is tested with 3.10 to {newest}.")
    elif ends := ENDING_PYTHONS.get(sys.version_info[:2]):
        until = "Support for this Python ends with Headwater {}, not before {}: plan to install a newer one."
        yield Finding("Python", NOTE, found, until.format(*ends))
    else:
        yield Finding("Python", OK, found)


def _packages() -> Iterator[Finding]:
    try:
        declared = importlib.metadata.requires("headwater") or []
    except importlib.metadata.PackageNotFoundError:
        declared = list(_PACKAGES)
    good = []
    for text in declared:
        match = _REQUIREMENT.match(text)
        if match is None or "extra" in (match[3] or ""):
            continue
        name, wanted = match[1], match[2].strip()
        problem = _package(name, wanted)
        if problem is None:
            good.append(f"{name} {importlib.metadata.version(name)}")
        else:
            yield problem
    if good:
        yield Finding("packages", OK, ", ".join(good))


def _package(name: str, wanted: str) -> Finding | None:
    """What is wrong with a package; None if nothing is."""
    install = f"Install it: {_install(name + wanted)}"
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Finding("packages", WRONG, f"{name} is missing", install)
    if not _fits(version, wanted):
        return Finding("packages", WRONG, f"{name} {version} does not fit {wanted}", install)
    if name in _COMPILED:
        try:
            importlib.import_module(name)
        except Exception as error:
            again = f"Install it again: {sys.executable} -m pip install --force-reinstall '{name}{wanted}'"
            return Finding("packages", WRONG, f"{name} {version} does not load: {error}", again)
    return None


def _install(requirement: str) -> str:
    return f"{sys.executable} -m pip install '{requirement}'"


def _has(name: str) -> bool:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version(name)
        return True
    return False


def _fits(version: str, wanted: str) -> bool:
    """Whether a version is within bounds like ``>=1.2,<3``; bounds of other kinds are taken for kept."""
    own = _numbers(version)
    for bound in filter(None, (part.strip() for part in wanted.split(","))):
        other = _numbers(bound)
        if (bound.startswith(">=") and own < other) or (bound.startswith("<") and bound[1:2] != "=" and own >= other):
            return False
    return True


def _numbers(version: str) -> list[int]:
    numbers = [int(number) for number in re.findall(r"\d+", version.split("+")[0])[:4]]
    while numbers and not numbers[-1]:
        numbers.pop()
    return numbers


# --- Java and Spark ---------------------------------------------------------------------------------------------------


def _java() -> Iterator[Finding]:
    home = os.environ.get("JAVA_HOME")
    install = "Install a JDK 17 or 21, and have JAVA_HOME name its folder."
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        yield Finding("Java", WRONG, "there is no java on the PATH, and JAVA_HOME is not set", install)
        return
    try:
        ended = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        yield Finding("Java", WRONG, f"{java} does not run: {error}", install)
        return
    match = re.search(r'version "(\d+)(?:\.(\d+))?', ended.stdout + ended.stderr)
    if match is None:
        yield Finding("Java", WRONG, f"{java} does not say its version", install)
        return
    number = int(match[2] or 0) if match[1] == "1" else int(match[1])
    found = f"{number} ({java})"
    if number < _JAVAS[0]:
        yield Finding("Java", WRONG, f"{found}, which is too old for Spark", install)
    elif number not in _JAVAS:
        yield Finding("Java", WARNING, found, "Headwater is tested with 17 and 21.")
    else:
        yield Finding("Java", OK, found)


def _spark() -> Iterator[Finding]:
    try:
        home = launch.spark_home()
    except RuntimeError as error:
        if _has("pyspark-client"):
            found = "pyspark-client alone, which connects to servers and cannot run Spark here"
            yield Finding("Spark", NOTE, found, f"To run Spark here as well: {_install('headwater[spark]')}")
        else:
            found, _, advice = str(error).partition(". ")
            yield Finding("Spark", WRONG, found, f"{advice}.")
        return
    version = launch.spark_version(home)
    supported = ", ".join(versions.SUPPORTED_SPARK)
    install = f"Use one of {supported}, such as by pip install 'pyspark=={versions.SUPPORTED_SPARK[-1]}'."
    if version is None:
        yield Finding("Spark", WRONG, f"{home} has no Spark in its jars folder", "Correct or unset SPARK_HOME.")
        return
    found = f"{version} ({home})"
    if not versions.is_supported(version):
        yield Finding("Spark", WRONG, f"{found} is not supported", install)
    elif not versions.is_tested(version):
        yield Finding("Spark", WARNING, f"{found} is newer than what was tested", f"Tested are {supported}.")
    else:
        yield Finding("Spark", OK, found)
    if os.environ.get("SPARK_HOME") and _has("pyspark"):
        package = importlib.metadata.version("pyspark")
        if _numbers(package)[:2] != _numbers(version)[:2]:
            advice = f"Install the one of that Spark: pip install 'pyspark=={version}', or unset SPARK_HOME."
            yield Finding("Spark", WARNING, f"the package pyspark is {package}, and SPARK_HOME has {version}", advice)
    jars = sorted((home / "jars").glob("*.jar"))
    for jar in jars:
        if re.match(r"delta-(spark|core|contribs|hudi|connect)", jar.name):
            advice = f"Remove it: {jar}. Headwater takes its place."
            yield Finding("Spark", WRONG, f"its jars folder has Delta Lake's own connector, {jar.name}", advice)
    own = [jar.name for jar in jars if re.fullmatch(r"headwater(-[0-9.]+)?\.jar", jar.name)]
    if own:
        advice = "Remove it, or see that it is the one that headwater jar prints: two different ones are refused."
        yield Finding("Spark", NOTE, f"its jars folder has {', '.join(own)}", advice)


def _jar() -> Iterator[Finding]:
    version: str | None = None
    with contextlib.suppress(RuntimeError):
        version = launch.spark_version(launch.spark_home())
    build = versions.BUILDS[-1] if version is None else versions.build_for(version)
    if build is None:
        yield Finding("JAR", WRONG, f"there is none for Spark {version}", "Use a Spark that is supported.")
        return
    jar = _PACKAGE / "jars" / build.jar
    is_checkout = (_PACKAGE.parents[1] / "jvm" / "build.py").is_file()
    again = "Install Headwater again with pip."
    if not jar.is_file():
        if is_checkout:
            yield Finding("JAR", NOTE, f"{jar} is not built yet", "It is built when it is first used.")
        else:
            yield Finding("JAR", WRONG, f"{jar} is missing", again)
        return
    try:
        with zipfile.ZipFile(jar) as archive:
            properties = archive.read("headwater/build.properties").decode()
    except (OSError, KeyError, zipfile.BadZipFile, UnicodeDecodeError) as error:
        advice = "Delete it; it is built again." if is_checkout else again
        yield Finding("JAR", WRONG, f"{jar} is damaged: {error}", advice)
        return
    if f"bridge.version={versions.bridge_version()}" in properties.splitlines():
        yield Finding("JAR", OK, str(jar))
    elif is_checkout:
        yield Finding("JAR", NOTE, f"{jar} is older than its sources", "It is built again when it is next used.")
    else:
        yield Finding("JAR", WRONG, f"{jar} is of another build than this package", again)


# --- settings and handler ---------------------------------------------------------------------------------------------


def _defaults() -> tuple[Path, dict[str, str]]:
    """Spark's file of settings, which may not be there, and its settings."""
    home = launch.spark_home()
    path = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf") / "spark-defaults.conf"
    return path, launch.default_settings(home)


def _settings() -> Iterator[Finding]:
    try:
        path, settings = _defaults()
    except RuntimeError:
        yield Finding("settings", NOTE, "there is no Spark whose settings could be looked at")
        return
    except (OSError, UnicodeDecodeError) as error:
        yield Finding("settings", WRONG, f"Spark's settings cannot be read: {error}", "Correct the file.")
        return
    extension, catalog = "spark.sql.extensions", "spark.sql.catalog.spark_catalog"
    wanted = ((extension, launch.EXTENSION, launch.DELTA_EXTENSION), (catalog, launch.CATALOG, launch.DELTA_CATALOG))
    missing = [
        f"{key} {name}"
        for key, name, other in wanted
        if not {name, other}.intersection(launch.items_of(settings.get(key)))
    ]
    if not missing:
        yield Finding("settings", OK, f"{path} has both lines")
    elif len(missing) == len(wanted):
        advice = "The commands headwater spark-sql and pyspark and headwater.configure set them. "
        advice += f"For Spark's own commands, add both: {'; '.join(missing)}"
        yield Finding("settings", NOTE, f"{path} does not have the two lines", advice)
    else:
        yield Finding("settings", WRONG, f"{path} has one of the two lines", f"Add the other as well: {missing[0]}")
    for jar in launch.items_of(settings.get("spark.jars")):
        if "headwater" in Path(jar).name and "://" not in jar and not Path(jar.removeprefix("file:")).is_file():
            advice = "Name the path that headwater jar prints."
            yield Finding("settings", WRONG, f"{path} names the JAR {jar}, which does not exist", advice)
    build = versions.build_for(launch.spark_version(launch.spark_home()) or "") or versions.BUILDS[-1]
    if said := launch.left_out_by_submit_args(_PACKAGE / "jars" / build.jar):
        yield Finding("settings", WRONG, *said)
    packages = launch.items_of(settings.get("spark.jars.packages"))
    for package in packages:
        if re.match(r"io\.delta:delta-", package):
            advice = f"Remove it from spark.jars.packages in {path}. Headwater takes its place."
            yield Finding("settings", WRONG, f"{path} loads Delta Lake's own connector, {package}", advice)


def _handler() -> Iterator[Finding]:
    try:
        python = _defaults()[1].get("spark.headwater.python", "").strip() or sys.executable
    except (RuntimeError, OSError, UnicodeDecodeError):
        python = sys.executable
    began = time.monotonic()
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    if not _PACKAGE.parent.name.endswith("-packages"):
        path = [str(_PACKAGE.parent), os.environ.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    advice = "Put right what is wrong above, or have spark.headwater.python name a Python with Headwater installed."
    try:
        # As this process was started without its packages, so is the handler.
        flags = ["-S"] if sys.flags.no_site and python == sys.executable else []
        process = subprocess.Popen(
            [python, *flags, "-m", "headwater.handler"],
            env=environment,
            text=True,
            **pipes,  # type: ignore[call-overload]
        )
    except OSError as error:
        yield Finding("handler", WRONG, f"{python} does not start: {error}", advice)
        return
    timer = threading.Timer(_HANDLER_SECONDS, process.kill)
    timer.start()
    greeting = {"token": secrets.token_hex(32), "logLevel": "ERROR", "bridge": versions.bridge_version(), "jar": ""}
    try:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(greeting) + "\n")
            process.stdin.flush()
        answer = next((line for line in iter(process.stdout.readline, "") if line.startswith("{")), "")
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        said = process.stderr.read()
        process.wait()
    finally:
        timer.cancel()
        process.kill()
    found = json.loads(answer) if answer else {}
    if "port" in found:
        yield Finding("handler", OK, f"{python} answered after {time.monotonic() - began:.1f} s")
        return
    lines = said.strip().splitlines()
    reason = found.get("error", {}).get("text") or (lines[-1] if lines else "it did not answer")
    yield Finding("handler", WRONG, f"{python} runs no handler: {reason}", advice)


# --- clock and store --------------------------------------------------------------------------------------------------


def _clock() -> Iterator[Finding]:
    now = clock.milliseconds()
    text = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now / 1000))
    if now < _RELEASED:
        yield Finding("clock", WRONG, f"it is {text} here", "Set the machine's clock, such as by NTP.")
    else:
        yield from _compared("clock", tempfile.gettempdir(), text)
    try:
        from zoneinfo import ZoneInfo

        ZoneInfo("America/New_York")
    except Exception:
        advice = f"Install them: {sys.executable} -m pip install tzdata"
        yield Finding("clock", WRONG, "there are no rules of time zones", advice)


def _compared(check: str, folder: str, text: str | None = None) -> Iterator[Finding]:
    """Compare this machine's clock with that of a folder's file system."""
    probe = Path(folder) / f".headwater-doctor-{uuid.uuid4()}.tmp"
    try:
        probe.touch()
        apart = probe.stat().st_mtime_ns // 1_000_000 - clock.milliseconds()
        probe.unlink()
    except OSError as error:
        yield Finding(check, WARNING, f"{folder} cannot be written to: {error.strerror}")
        return
    if abs(apart) > _CLOCKS_APART:
        advice = "Set both clocks by NTP: the times of versions are those of files, unless a table keeps its own."
        yield Finding(check, WARNING, f"the clock of {folder} is {apart / 1000:+.0f} s from this machine's", advice)
    elif text is not None:
        yield Finding(check, OK, text)


def _path(path: str) -> Iterator[Finding]:
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):", path)
    try:
        if scheme is None or scheme[1].lower() == "file":
            from headwater.stores import store_for

            yield from _local(store_for(path)[1])
        else:
            yield from _remote(scheme[1].lower())
        yield from _table(path)
    except ImportError as error:
        yield Finding("path", WRONG, f"{path} cannot be looked at: {error}", "Install what is missing above.")


def _local(path: str) -> Iterator[Finding]:
    from headwater.stores import LocalStore

    folder = Path(path)
    while not folder.is_dir():
        if folder.exists():
            yield Finding("path", WRONG, f"{folder} is no folder", "Name the folder of a table.")
            return
        folder = folder.parent
    log = folder / "_delta_log"
    if str(folder) == path and log.is_dir():
        folder = log
    if not os.access(folder, os.W_OK | os.X_OK):
        advice = "To write the table, give this user the right to write there."
        yield Finding("store", WARNING, f"{folder} may be read, and not be written to, by this user", advice)
        return
    kind = _file_system(str(folder))
    probe = folder / f".headwater-doctor-{uuid.uuid4()}.tmp"
    try:
        yield _promise(LocalStore(), probe, kind)
    except OSError as error:
        yield Finding("store", WRONG, f"no file can be created in {folder}: {error.strerror or error}", "Put it right.")
    finally:
        for left in (probe, probe.with_suffix(".link")):
            with contextlib.suppress(OSError):
                left.unlink()
    yield from _compared("store", str(folder))


def _promise(store: object, probe: Path, kind: str) -> Finding:
    """Whether a file is created only if it does not exist."""
    from headwater.basics.errors import HeadwaterError

    where = f"{probe.parent} ({kind})"
    put = store.put_if_absent  # type: ignore[attr-defined]
    try:
        put(str(probe), b"")
    except HeadwaterError:
        advice = "Move the tables to another file system, such as ext4, XFS, APFS or NFS: nothing is committed there."
        return Finding("store", WRONG, f"{where} has neither hard links nor a rename that never replaces", advice)
    try:
        put(str(probe), b"")
    except FileExistsError:
        pass
    else:
        advice = "Do not write tables there: of two writers, one would overwrite the other's commit."
        return Finding("store", WRONG, f"{where} creates a file although there is one", advice)
    if _OVER_OBJECTS.fullmatch(kind):
        advice = "Other machines may see other files. Let Spark reach the store by its own URI, such as s3a:."
        return Finding("store", WARNING, f"{where} is an object store behind a mount", advice)
    return Finding("store", OK, f"{where} creates a file only if it does not exist")


def _file_system(path: str) -> str:
    """The kind of file system that a path is on; ``unknown`` if the system does not say."""
    best, kind = "", "unknown"
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            before, _, after = line.partition(" - ")
            mount = before.split()[4].replace("\\040", " ")
            if (path == mount or path.startswith(mount.rstrip("/") + "/")) and len(mount) >= len(best):
                best, kind = mount, after.split()[0]
    return kind


def _remote(scheme: str) -> Iterator[Finding]:
    promise = _SCHEMES.get(scheme)
    if promise is None:
        advice = f"To write there, name a store that creates a file only once in spark.headwater.store.{scheme}."
        yield Finding("store", WARNING, f"tables in {scheme}: are read, and not written", advice)
        return
    yield Finding("store", OK, f"{scheme}: {promise}")
    if scheme in ("s3", "s3a"):
        with contextlib.suppress(RuntimeError, OSError):
            yield from _hadoop_aws(launch.spark_home() / "jars", _defaults()[1])


def _hadoop_aws(jars: Path, settings: dict[str, str]) -> Iterator[Finding]:
    client = next((match[1] for jar in jars.glob("hadoop-client-api-*.jar") if (match := _version(jar.name))), None)
    named = [*launch.items_of(settings.get("spark.jars")), *launch.items_of(settings.get("spark.jars.packages"))]
    listed = [*(jar.name for jar in jars.glob("hadoop-aws-*.jar")), *(one for one in named if "hadoop-aws" in one)]
    if listed:
        yield Finding("store", OK, f"Spark loads {', '.join(listed)}; its Hadoop is {client}")
    else:
        advice = f"Start Spark with --packages org.apache.hadoop:hadoop-aws:{client or 'VERSION'}"
        yield Finding("store", NOTE, "Spark's own folder and settings do not have hadoop-aws, which reaches S3", advice)


def _version(name: str) -> re.Match[str] | None:
    return re.search(r"-(\d[\w.]*)\.jar$", name)


def _files(snapshot: Any) -> Finding | None:
    """Whether the table's files are there; None if that would take long."""
    from headwater.basics.amounts import plural
    from headwater.log.lost_files import missing_files, named_files, root_of

    paths = [path for path in named_files(snapshot).paths() if root_of(path) == root_of(snapshot.table_path)]
    if len(paths) > _MOST_FILES:
        return None
    try:
        missing = missing_files(paths, lambda path: snapshot.store)
    except OSError as error:
        return Finding("files", WARNING, f"whether the table's files are there is not known: {error}")
    if not missing:
        return Finding("files", OK, "all files of the newest version are there")
    advice = "Restore them. FSCK REPAIR TABLE … DRY RUN lists the entries; without DRY RUN, it removes them."
    return Finding("files", WRONG, f"missing: {plural(len(missing), 'file')}, such as {min(missing)}", advice)


def _table(path: str) -> Iterator[Finding]:
    """Whether there is a table, whether it can be read, and whether its times are those of this clock."""
    from headwater.basics.amounts import plural
    from headwater.basics.errors import HeadwaterError
    from headwater.cli.locations import reached
    from headwater.log.snapshot import load_snapshot

    try:
        with reached(path) as place:
            snapshot = load_snapshot(place.path, place.store)
            ahead = snapshot.timestamp - clock.milliseconds()
            files = _files(snapshot)
    except HeadwaterError as error:
        if error.condition in ("DELTA_TABLE_NOT_FOUND", "DELTA_EMPTY_DIRECTORY"):
            yield Finding("table", NOTE, f"there is no table at {path} yet")
        elif error.condition == "HEADWATER_COMMAND_NEEDS_PATH":
            yield Finding("table", NOTE, error.text)
        elif error.condition in ("HEADWATER_COMMAND_NEEDS_FILE_SYSTEM", "DELTA_FILE_ACCESS_FAILED"):
            yield Finding("table", WARNING, error.text, "Spark may still be able to reach it.")
        else:
            yield Finding("table", WRONG, f"[{error.condition}] {error.text}")
        return
    yield Finding("table", OK, f"version {snapshot.version}, {plural(snapshot.num_files, 'file')}")
    if files is not None:
        yield files
    if ahead > _CLOCKS_APART:
        advice = "Set the clocks of the machines that write it by NTP."
        yield Finding("table", WARNING, f"its newest version is {ahead / 1000:.0f} s ahead of this clock", advice)
