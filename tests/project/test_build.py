"""Building the JAR: reproducible, only when stale, with errors that say what to do."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import venv
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pyspark
import pytest

_ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> SimpleNamespace:
    """The functions of ``jvm/build.py`` in a checkout with one Scala class, one Java class and a service file."""
    return _checkout(tmp_path)


@pytest.fixture(scope="module")
def _built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Such a checkout after its first build."""
    root = tmp_path_factory.mktemp("built")
    _checkout(root).build()
    return root


@pytest.fixture
def built(_built: Path, tmp_path: Path) -> SimpleNamespace:
    """A copy of a checkout that was built."""
    root = tmp_path / "built"
    shutil.copytree(_built, root)
    return _functions(root)


def _checkout(tmp_path: Path) -> SimpleNamespace:
    package = "python/headwater"
    messages = [f"{package}/bridge/messages/{file.name}" for file in (_ROOT / package / "bridge/messages").glob("*.py")]
    for name in (
        "jvm/build.py",
        "jvm/scalac.options",
        f"{package}/__init__.py",
        f"{package}/basics/versions.py",
        "conf/error-conditions.json",
        *messages,
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_ROOT / name, tmp_path / name)
    main = tmp_path / "jvm" / "src" / "main"
    services = main / "resources" / "META-INF" / "services"
    compat = tmp_path / "jvm" / "compat"
    for folder in (main / "scala", main / "java", services, compat):
        folder.mkdir(parents=True)
    (main / "scala" / "A.scala").write_text("package a\nclass A { def b: B = new B(this) }\n")
    (main / "java" / "B.java").write_text("package a;\npublic class B { public B(A a) {} }\n")
    (compat / "C.java").write_text("package c;\npublic class C extends a.A {}\n")
    (services / "some.Service").write_text("a.A\n")
    return _functions(tmp_path)


def _functions(root: Path) -> SimpleNamespace:
    module = runpy.run_path(str(root / "jvm" / "build.py"))
    names = {name: module[name] for name in ("build", "is_stale", "JARS", "BuildError")}
    return SimpleNamespace(root=root, source=root / "jvm" / "src" / "main" / "scala" / "A.scala", **names)


def test_build_is_complete_and_reproducible(built: SimpleNamespace, tmp_path: Path) -> None:
    jar = built.build()
    first = jar.read_bytes()
    with zipfile.ZipFile(jar) as archive:
        names = set(archive.namelist())
        assert b"4.2.0, 4.2.1" in archive.read("headwater/build.properties")
    assert {"a/A.class", "a/B.class", "META-INF/services/some.Service", "headwater/error-conditions.json"} <= names
    with zipfile.ZipFile(jar.with_name("headwater-delta.jar")) as archive:
        assert set(archive.namelist()) == {"META-INF/MANIFEST.MF", "META-INF/headwater-sources.sha256", "c/C.class"}
    elsewhere = tmp_path / "a folder" / "of another name"
    shutil.copytree(built.root, elsewhere, ignore=shutil.ignore_patterns("*.jar"))
    again = _functions(elsewhere).build()
    assert again.read_bytes() == first
    assert again.with_name("headwater-delta.jar").read_bytes() == jar.with_name("headwater-delta.jar").read_bytes()


@pytest.mark.soak  # the usual run has the same of a small checkout; .ci/release.py compares whole releases
@pytest.mark.slow
def test_the_whole_jar_has_the_same_bytes_in_another_folder(tmp_path: Path) -> None:
    built = []
    for name in ("a", "a folder of another name"):
        for part in ("jvm", "conf", "python/headwater"):
            unwanted = shutil.ignore_patterns("*.jar", "*.lock", "__pycache__")
            shutil.copytree(_ROOT / part, tmp_path / name / part, ignore=unwanted)
        jar = _functions(tmp_path / name).build()
        built.append([jar.read_bytes(), jar.with_name("headwater-delta.jar").read_bytes()])
    assert len(built[0][0]) > 1_000_000
    assert built[0] == built[1]


def test_a_spark_that_it_does_not_work_with(checkout: SimpleNamespace, tmp_path: Path) -> None:
    with pytest.raises(checkout.BuildError, match=r"3\.5\.5.*works with 4\.0\.0"):
        checkout.build(_spark_named(tmp_path / "3.5", "3.5.5"))


@pytest.mark.soak  # CI builds for each older Spark itself
def test_the_jar_is_for_the_spark_that_it_is_compiled_with(checkout: SimpleNamespace, tmp_path: Path) -> None:
    """A stand-in for another Spark: the same JARs under the name of its version."""
    others = _spark_named(tmp_path / "4.1", "4.1.3")
    for shims, name in (("until-4.1", "Older"), ("spark-4.2", "Newer")):
        folder = tmp_path / "jvm" / "shims" / shims
        folder.mkdir(parents=True)
        (folder / f"{name}.scala").write_text(f"package a\nclass {name}\n")
    newer, older = checkout.build(), checkout.build(others)
    assert (newer.name, older.name) == ("headwater.jar", "headwater-4.1.jar")
    for jar, own, other in ((newer, "Newer", "Older"), (older, "Older", "Newer")):
        with zipfile.ZipFile(jar) as archive:
            assert f"a/{own}.class" in archive.namelist()
            assert f"a/{other}.class" not in archive.namelist()
            assert f"jar={jar.name}".encode() in archive.read("headwater/build.properties")
        assert jar.with_name(f"{jar.stem}-delta.jar").is_file()


def _spark_named(folder: Path, version: str) -> Path:
    folder.mkdir()
    for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar"):
        name = f"spark-core_2.13-{version}.jar" if jar.name.startswith("spark-core_") else jar.name
        (folder / name).symlink_to(jar)
    return folder


@pytest.mark.parametrize(
    ("own", "isolated", "home", "expected"),
    [
        ("4.1.4", "4.3.0", None, ["own", "isolated"]),
        ("4.0.2", None, None, ["own"]),
        ("4.2.1", "4.3.0", None, ["own"]),
        (None, "4.3.0", None, ["isolated"]),
        (None, "4.3.0", "4.0.5", ["isolated", "home"]),
        ("4.1.4", "4.3.0", "3.5.5", ["own", "isolated"]),
        ("client", "4.3.0", None, ["isolated"]),
        ("3.5.5", "4.3.0", None, "3.5.5.*works with 4.0.0"),
        (None, None, None, "needs the PySpark package"),
    ],
)
def test_a_wheel_fits_the_environment_that_it_is_installed_in(
    own: str | None, isolated: str | None, home: str | None, expected: list[str] | str, tmp_path: Path
) -> None:
    """pip isolates a build from the environment by variables: what the build needs comes from another folder."""
    venv.create(tmp_path / "own", symlinks=True)
    (packages,) = (tmp_path / "own" / "lib").glob("python*/site-packages")
    overlay = tmp_path / "isolated"
    overlay.mkdir()
    # As pip does: the environment's own packages are not there, those of the overlay are.
    (overlay / "sitecustomize.py").write_text(f"import sys\nsys.path.remove({str(packages)!r})\n")
    places = {"own": packages, "isolated": overlay, "home": tmp_path / "home"}
    for name, version in {"own": own, "isolated": isolated, "home": home}.items():
        if version is not None:
            jars = places[name] / ("jars" if name == "home" else "pyspark/jars")
            jars.mkdir(parents=True)
            (jars.parent / "__init__.py").touch()
            for jar in () if version == "client" else (f"spark-core_2.13-{version}.jar", "scala-compiler-2.13.16.jar"):
                (jars / jar).touch()
    asked = f"import runpy; print(*runpy.run_path({str(_ROOT / 'jvm' / 'build.py')!r})['sparks_at_hand'](), sep='\\n')"
    environment = {"PYTHONPATH": str(overlay), **({"SPARK_HOME": str(tmp_path / "home")} if home else {})}
    ended = subprocess.run(
        [tmp_path / "own" / "bin" / "python", "-c", asked], env=environment, capture_output=True, text=True, check=False
    )
    if isinstance(expected, str):
        assert re.search(expected, ended.stderr)
        return
    assert ended.returncode == 0, ended.stderr
    found = [Path(line) for line in ended.stdout.splitlines()]
    assert found == [places[name] / ("jars" if name == "home" else "pyspark/jars") for name in expected]


def test_only_a_stale_jar_is_built(built: SimpleNamespace) -> None:
    first = built.build().stat().st_ino
    assert built.build().stat().st_ino == first
    assert not built.is_stale()
    built.source.write_text("class {")
    assert built.is_stale()
    with pytest.raises(built.BuildError, match="compiler rejected"):
        built.build()
    # Nothing takes the place of the JARs that are there, and they are stale still.
    assert [jar.stat().st_ino for jar in built.JARS.glob("headwater.jar*")] == [first]
    assert built.is_stale()


def test_another_message_makes_the_jar_stale(built: SimpleNamespace) -> None:
    """The JAR carries the version of the bridge: a JAR of other messages would be refused."""
    read = built.root / "python/headwater/bridge/messages/read.py"
    assert not built.is_stale()
    read.write_text(read.read_text() + "# other\n")
    assert built.is_stale()


def test_no_jdk(checkout: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(checkout.BuildError, match=r"needs a JDK.*JAVA_HOME=.* holds no javac"):
        checkout.build()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(checkout.BuildError, match="JAVA_HOME is not set"):
        checkout.build()
