"""Compiles ``jvm/`` into ``headwater.jar`` and ``headwater-delta.jar`` with nothing but a JDK and an installed PySpark.

A Spark's own ``jars`` folder holds Spark and the Scala compiler that Spark was built with, so one ``java`` call
compiles the Scala sources and one ``javac`` call any Java ones. ``headwater/basics/versions.py`` says which JAR is for
which. Used by the wheel's build hook, by ``headwater.jar_path()`` in a source checkout, and by hand: ``python
jvm/build.py``, which takes the ``jars`` folders of other Sparks. Promises: standard library only; the same sources give
the same bytes; JARs whose recorded hash equals the sources' hash are not built again; a JAR appears whole or not at
all.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "jvm" / "src" / "main"
SHIMS = ROOT / "jvm" / "shims"
#: The class names of Delta Lake's own connector, over the classes of headwater.jar.
COMPAT = ROOT / "jvm" / "compat"
SCALAC_OPTIONS = ROOT / "jvm" / "scalac.options"
PACKAGE = ROOT / "python" / "headwater"
JARS = PACKAGE / "jars"
ERROR_CONDITIONS = ROOT / "conf" / "error-conditions.json"

_HASH_ENTRY = "META-INF/headwater-sources.sha256"
_OLDEST_JAVA = 17
# The compiler runs for seconds: optimizing its code for longer takes 29 CPU seconds in place of 11.
_JAVA_OPTIONS = ("-Xss8m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time a ZIP entry can carry: JARs must not differ by when they were built


class BuildError(RuntimeError):
    """The JAR cannot be built; the message says what to do."""


def build(spark_jars: Path | None = None, *, folder: Path = JARS, force: bool = False) -> Path:
    """Build the JAR for a Spark, and the one of :data:`COMPAT` beside it, if one is missing or stale; return its path.

    :param spark_jars: the Spark's ``jars`` folder; by default the installed PySpark's.
    :raises BuildError: no JDK, no PySpark, a Spark that there is no build for, or the sources do not compile (the
        compiler has then printed why).
    """
    spark_jars = spark_jars or _find_spark_jars()
    kind = _kind(spark_jars)
    jar: Path = folder / kind.jar
    expected = source_hash(kind)
    if not force and _is_built(jar, expected):
        return jar
    with _only_one(jar):
        # Another process may have built it while this one waited.
        if force or not _is_built(jar, expected):
            _build(jar, expected, kind, spark_jars)
    return jar


def compat_jar(jar: Path) -> Path:
    """Where the JAR of :data:`COMPAT` lies: beside ``jar``."""
    compat: Path = _versions()["delta_jar"](jar)
    return compat


def _is_built(jar: Path, expected: str) -> bool:
    return recorded_hash(jar) == expected == recorded_hash(compat_jar(jar))


@contextmanager
def _only_one(jar: Path) -> Iterator[None]:
    """Let one process build at a time: two shells started in a fresh clone both find the JAR missing."""
    jar.parent.mkdir(parents=True, exist_ok=True)
    with (jar.parent / ".headwater-build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(jar: Path, expected: str, kind: Any, spark_jars: Path) -> None:
    jdk = _find_jdk()
    print(f"Compiling {SOURCES} into {jar.name} ...", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="headwater-jar-") as work:
        classes, compat = Path(work) / "classes", Path(work) / "compat"
        _compile(jdk, [spark_jars / "*"], [*_files(SOURCES), *_shims(kind)], classes)
        _compile(jdk, [spark_jars / "*", classes], _files(COMPAT), compat)
        _write_jar(compat_jar(jar), "headwater.delta", {**_classes(compat), _HASH_ENTRY: expected.encode()})
        _write_jar(jar, "headwater", {**_classes(classes), **_resources(kind), _HASH_ENTRY: expected.encode()})


def _classes(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in _files(folder)}


def is_stale(folder: Path = JARS) -> bool:
    """Whether the sources have changed since the JARs for the installed PySpark were built, or one is missing."""
    kind = _kind(_find_spark_jars())
    return not _is_built(folder / kind.jar, source_hash(kind))


def recorded_hash(jar: Path) -> str | None:
    """The hash of the sources that ``jar`` was built from, or None if there is no such readable JAR."""
    try:
        with zipfile.ZipFile(jar) as archive:
            return archive.read(_HASH_ENTRY).decode()
    except (OSError, KeyError, zipfile.BadZipFile):
        return None


def source_hash(kind: Any) -> str:
    """SHA-256 over the names and contents of everything that decides what the JAR of a build holds."""
    digest = hashlib.sha256()
    for path in [
        *_files(SOURCES),
        *_shims(kind),
        *_files(COMPAT),
        SCALAC_OPTIONS,
        ERROR_CONDITIONS,
        Path(__file__).resolve(),
    ]:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    digest.update(_build_properties(kind))
    return digest.hexdigest()


def _files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file() and not path.name.startswith("."))


def _shims(kind: Any) -> list[Path]:
    """What all builds have, and what this one has beside it."""
    return [path for folder in ("common", *kind.shims) for path in _files(SHIMS / folder)]


def _resources(kind: Any) -> Mapping[str, bytes]:
    """What goes into the JAR beside the classes: the resources, the error conditions, what it fits together with."""
    folder = SOURCES / "resources"
    entries = {path.relative_to(folder).as_posix(): path.read_bytes() for path in _files(folder)}
    entries["headwater/error-conditions.json"] = ERROR_CONDITIONS.read_bytes()
    entries["headwater/build.properties"] = _build_properties(kind)
    return entries


@cache
def _versions() -> dict[str, Any]:
    return runpy.run_path(str(PACKAGE / "basics" / "versions.py"))


def _kind(spark_jars: Path) -> Any:
    """The ``versions.Build`` for a Spark."""
    version = _versions()["spark_version"](spark_jars)
    kind = None if version is None else _versions()["build_for"](version)
    if kind is None:
        supported = ", ".join(_versions()["SUPPORTED_SPARK"])
        raise BuildError(
            f"There is no build for the Spark in {spark_jars} ({version}). Headwater works with {supported}."
        )
    return kind


def _build_properties(kind: Any) -> bytes:
    text: str = _versions()["build_properties"](kind)
    return text.encode()


def _compile(jdk: Path, libraries: Iterable[Path], sources: Iterable[Path], classes: Path) -> None:
    """Compile sources against libraries into the folder ``classes``, which is made."""
    scala = [path for path in sources if path.suffix == ".scala"]
    java = [path for path in sources if path.suffix == ".java"]
    if not scala and not java:
        raise BuildError(
            f"Scala or Java sources are missing under {ROOT / 'jvm'}. The checkout is incomplete: clone it again."
        )
    classes.mkdir()
    classpath = os.pathsep.join(map(str, libraries))
    if scala:
        compiler = [str(jdk / "java"), *_JAVA_OPTIONS, "-cp", classpath, "scala.tools.nsc.Main", "-usejavacp"]
        _run([*compiler, f"@{SCALAC_OPTIONS}", "-d", str(classes), *map(str, [*scala, *java])], "The Scala compiler")
    if java:
        flags = ["-encoding", "UTF-8", "--release", str(_OLDEST_JAVA)]
        joined = os.pathsep.join([classpath, str(classes)])
        _run([str(jdk / "javac"), *flags, "-cp", joined, "-d", str(classes), *map(str, java)], "javac")


def _run(command: list[str], what: str) -> None:
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    # To stderr: `headwater jar` prints a path on stdout that scripts read.
    print(result.stdout, end="", file=sys.stderr)
    if result.returncode != 0:
        raise BuildError(f"{what} rejected the sources under {SOURCES}; its messages are above.")


def _find_jdk() -> Path:
    """The ``bin`` folder of a JDK of at least Java 17: ``JAVA_HOME``'s, else the one whose ``javac`` is on the PATH."""
    need = f"Building headwater.jar needs a JDK, version {_OLDEST_JAVA} or newer (a JRE has no compiler data)."
    home = os.environ.get("JAVA_HOME")
    javac = shutil.which("javac", path=str(Path(home) / "bin")) if home else shutil.which("javac")
    if javac is None:
        where = f"JAVA_HOME={home} holds no javac" if home else "JAVA_HOME is not set and no javac is on the PATH"
        raise BuildError(f"{need} {where}. Install one (for example openjdk-17-jdk) or point JAVA_HOME at it.")
    printed = subprocess.run([javac, "-version"], capture_output=True, text=True, check=False)
    words = (printed.stdout + printed.stderr).split()
    major = words[1].split(".")[0] if len(words) > 1 else ""
    if not major.isdigit() or int(major) < _OLDEST_JAVA:
        raise BuildError(f"{need} {javac} is {' '.join(words) or 'not working'}. Point JAVA_HOME at a newer JDK.")
    return Path(javac).resolve().parent


def sparks_at_hand(others: Iterable[Path] = ()) -> list[Path]:
    """The ``jars`` folders of the Sparks that a wheel gets JARs for, one for each JAR: those of the PySpark of the
    environment that starts the build, which an isolated build does not see; of this process's PySpark; of
    ``SPARK_HOME``; and others.

    :raises BuildError: no Spark is at hand, or Headwater does not run on one of them. A ``SPARK_HOME`` that it does not
        run on is left out.
    """
    found = [jars for jars in (_environments_spark_jars(), _spark_jars_of(_locations())) if jars is not None]
    home = Path(os.environ.get("SPARK_HOME") or os.devnull) / "jars"
    if _has_compiler(home) and _versions()["build_for"](_versions()["spark_version"](home) or "") is not None:
        found.append(home)
    by_jar: dict[str, Path] = {}
    for spark_jars in (*found, *others) if found else (_find_spark_jars(),):
        by_jar.setdefault(_kind(spark_jars).jar, spark_jars)
    return list(by_jar.values())


def _environments_spark_jars() -> Path | None:
    """The PySpark that this interpreter has outside of the build: pip isolates a build by environment variables."""
    asked = "import runpy, sys; print(*runpy.run_path(sys.argv[1])['_locations'](), sep='\\n')"
    answer = subprocess.run(
        [sys.executable, "-E", "-c", asked, str(Path(__file__).resolve())],
        cwd=Path(sys.executable).parent,  # a folder of the current directory may have a package's name
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return _spark_jars_of(answer.stdout.splitlines())


def _locations() -> list[str]:
    spec = importlib.util.find_spec("pyspark")
    return list(spec.submodule_search_locations or ()) if spec else []


def _spark_jars_of(locations: Iterable[str]) -> Path | None:
    """The ``jars`` folder of a PySpark with Spark inside: the package of a client alone has none."""
    return next((jars for each in locations if _has_compiler(jars := Path(each) / "jars")), None)


def _has_compiler(jars: Path) -> bool:
    return any(jars.glob("scala-compiler-*.jar"))


def _find_spark_jars() -> Path:
    if (found := _spark_jars_of(_locations())) is not None:
        return found
    raise BuildError(
        "Building headwater.jar needs the PySpark package, for the Scala compiler among its jars, and "
        f"{sys.executable} has none. Install it there: pip install pyspark."
    )


def _write_jar(jar: Path, module: str, entries: Mapping[str, bytes]) -> None:
    """Write a JAR that depends on ``entries`` alone: sorted, all of one time and mode; then move it into place."""
    lines = f"Manifest-Version: 1.0\r\nAutomatic-Module-Name: {module}\r\n\r\n"
    manifest = {"META-INF/MANIFEST.MF": lines.encode()}
    jar.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=jar.parent, prefix=".headwater-", suffix=".jar")
    try:
        with os.fdopen(handle, "wb") as stream, zipfile.ZipFile(stream, "w") as archive:
            _add(archive, manifest.items())
            _add(archive, sorted(entries.items()))
        os.chmod(temporary, 0o644)
        os.replace(temporary, jar)
    except BaseException:
        os.unlink(temporary)
        raise


def _add(archive: zipfile.ZipFile, entries: Iterable[tuple[str, bytes]]) -> None:
    for name, content in entries:
        info = zipfile.ZipInfo(name, _EPOCH)
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = 0o644 << 16
        info.create_system = 3
        archive.writestr(info, content, compresslevel=6)


if __name__ == "__main__":
    try:
        given = [Path(argument) for argument in sys.argv[1:] if argument != "--force"]
        for spark_jars in given or [_find_spark_jars()]:
            print(build(spark_jars, force="--force" in sys.argv[1:]))
    except BuildError as error:
        sys.exit(str(error))
