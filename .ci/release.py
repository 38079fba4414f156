"""Makes the files of a release from its tag, and tries them: ``release.py --tag v1.2.3``, ``release.py --try PYTHON``.

``--tag`` checks that tag, package and changelog agree, builds both distributions twice, in different folders, times,
locales and from different sources (the commit; for the second wheel, the source distribution of the first build), and
stops unless the bytes are the same. It writes into ``dist``: wheels, source distributions, a bill of materials
(CycloneDX), ``provenance.json`` (in-toto, SLSA) and ``SHA256SUMS``. ``--build`` builds once, without a tag: for a
comparison of hashes. ``--try`` installs wheel and source distribution of ``dist`` in new environments of a Python and
runs ``.ci/smoke.py`` there.

Needs git, a JDK 17, Python 3.11 and a package index. Promises: nothing but the commit, the versions of the tools and
its time decide the bytes; what others wrote is in the wheel only with its licence.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import platform
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
#: What builds and describes a release: other versions may give other bytes.
BACKEND, SBOM_TOOL = "hatchling==1.33.0", "cyclonedx-bom==7.5.0"
#: The distributions: the folder of each.
DISTRIBUTIONS = {"headwater": ".", "headwater_delta": "python/delta"}
_SPARKS = ROOT / "target" / "release" / "sparks"
_STATEMENT, _PREDICATE = "https://in-toto.io/Statement/v1", "https://slsa.dev/provenance/v1"
#: Only these decide what a build sees: no user's settings, and no SPARK_HOME but the one that the build is given.
_KEPT = ("PATH", "HOME", "JAVA_HOME", "TMPDIR")
#: What a file of others says of itself.
_COPYRIGHT = re.compile(r"copyright|\blicen[cs]ed\b|all rights reserved", re.IGNORECASE)


class Other(NamedTuple):
    """What others wrote and the wheel contains.

    :param version: a pattern that finds it in the first file.
    """

    name: str
    licence: str
    purl: str
    version: str
    files: tuple[str, ...]
    text: str


_PAGE = "headwater/inspector/page"
OTHERS = (
    Other(
        "uPlot",
        "MIT",
        "pkg:npm/uplot",
        r"uPlot \(v([\d.]+)\)",
        (f"{_PAGE}/uPlot.js", f"{_PAGE}/uPlot.css"),
        f"{_PAGE}/uPlot.LICENSE.txt",
    ),
)


class ReleaseError(RuntimeError):
    """The release cannot be made; the message says why."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the files of a release, or try them.")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--tag", help="make the release of this tag, which is the commit that is checked out")
    action.add_argument("--build", action="store_true", help="build the commit that is checked out, once")
    action.add_argument("--try", dest="pythons", nargs="+", metavar="PYTHON", help="try the files with these Pythons")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="the folder of the files")
    arguments = parser.parse_args()
    dist: Path = arguments.dist.resolve()
    try:
        if arguments.pythons:
            for python in arguments.pythons:
                try_with(python, dist)
        else:
            make(arguments.tag, dist)
    except (ReleaseError, subprocess.CalledProcessError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


def make(tag: str | None, dist: Path) -> None:
    """Write the files of a release into the empty or new folder ``dist``."""
    began = _now()
    version = declared_version()
    if tag is not None:
        check_tag(tag, version)
    if dist.exists() and any(dist.iterdir()):
        raise ReleaseError(f"{dist} is not empty: remove what an earlier run left there")
    dist.mkdir(parents=True, exist_ok=True)
    sparks = get_sparks()
    with tempfile.TemporaryDirectory(prefix="headwater-release-") as name:
        work = Path(name)
        tools = _environment(work / "tools", BACKEND, SBOM_TOOL)
        first = build(work / "a", dist, tools, sparks)
        if tag is not None:
            second = build(work / "another folder with a longer name", work / "second", tools, sparks, again_from=dist)
            compare(first, second)
            check_licences(dist)
            (dist / f"headwater-{version}.cdx.json").write_text(bill_of_materials(dist, tools, work), "utf-8")
            described = provenance(_hashes(dist), tag, began, sparks)
            (dist / "provenance.json").write_text(json.dumps(described, indent=2) + "\n", "utf-8")
    sums = "".join(f"{digest}  {name}\n" for name, digest in _hashes(dist).items())
    (dist / "SHA256SUMS").write_text(sums, "utf-8")
    print(sums, end="")


# --- before the build -------------------------------------------------------------------------------------------------


def declared_version() -> str:
    """The version of the package, which the other distribution has as well."""
    (version,) = re.findall(r'^__version__ = "(.+)"$', _text("python/headwater/__init__.py"), re.MULTILINE)
    return str(version)


def check_tag(tag: str, version: str) -> None:
    """Raise an error unless tag, commit, package and changelog agree, and nothing is changed."""
    if tag != f"v{version}":
        raise ReleaseError(f"the tag is {tag} and the package's version {version}: the tag must be v{version}")
    unreleased, _, rest = _text("CHANGELOG.md").partition("## [Unreleased]")[2].lstrip().partition("## [")
    if not re.match(rf"{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", rest, re.MULTILINE):
        raise ReleaseError(f"CHANGELOG.md has no section '## [{version}] - <date>' right after [Unreleased]")
    if unreleased:
        raise ReleaseError(f"CHANGELOG.md has entries under [Unreleased], which the release would contain: {version}'s")
    if f'version = "{version}"' not in _text("python/delta/pyproject.toml"):
        raise ReleaseError(f"python/delta/pyproject.toml has another version than {version}")
    if _git("rev-parse", f"refs/tags/{tag}^{{commit}}") != _git("rev-parse", "HEAD"):
        raise ReleaseError(f"the commit that is checked out is not that of the tag {tag}")
    if changed := _git("status", "--porcelain"):
        raise ReleaseError(f"the work tree differs from the commit:\n{changed}")


def get_sparks() -> dict[str, Path]:
    """The newest Spark of each JAR, the newest of all last: the folder that has its ``jars``."""
    linkage = runpy.run_path(str(ROOT / ".ci" / "linkage.py"))
    found = {}
    for each in linkage["BUILDS"]:
        version = each.sparks[-1]
        found[version] = _SPARKS / version
        if not (found[version] / "archive.sha256").exists():
            with linkage["place"](version, _SPARKS) as folder:
                linkage["download"](version, folder)
    return found


def _environment(folder: Path, *requirements: str) -> Path:
    """A new environment with these packages; its Python."""
    venv.create(folder, with_pip=True, symlinks=True)
    python = folder / "bin" / "python"
    _run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements])
    return python


# --- the build --------------------------------------------------------------------------------------------------------


def build(
    folder: Path, out: Path, tools: Path, sparks: Mapping[str, Path], *, again_from: Path | None = None
) -> dict[str, str]:
    """Build all distributions of the commit in a folder that is made; the hashes of the files.

    :param again_from: build again: in another place, time zone, locale and mode of new files, and each wheel from the
        source distribution in this folder.
    """
    sources = folder / "headwater"
    _unpack_commit(sources)
    *older, newest = sparks.values()
    environment = {
        **{name: os.environ[name] for name in _KEPT if name in os.environ},
        "SOURCE_DATE_EPOCH": _git("log", "-1", "--format=%ct"),
        "SPARK_HOME": str(newest),
        "HEADWATER_OTHER_SPARKS": os.pathsep.join(str(spark / "jars") for spark in older),
    }
    other = {"TZ": "Asia/Kathmandu", "LC_ALL": "C", "PYTHONHASHSEED": "7"} if again_from else {"TZ": "UTC"}
    for name, place in DISTRIBUTIONS.items():
        for target in ("sdist", "wheel"):
            at = sources / place
            if again_from and target == "wheel":
                at = _unpack_sources(again_from, name, folder / "sources")
            command: list[str | Path] = [tools, "-m", "hatchling", "build", "--target", target, "--directory", out]
            _run(command, cwd=at, env={**environment, **other}, umask=0o077 if again_from else 0o022)
    return _hashes(out)


def _unpack_commit(folder: Path) -> None:
    folder.mkdir(parents=True)
    archive = folder.parent / "commit.tar"
    _git("archive", "--format=tar", f"--output={archive}", "HEAD")
    with tarfile.open(archive) as members:
        members.extractall(folder, filter="data")
    archive.unlink()


def _unpack_sources(dist: Path, name: str, folder: Path) -> Path:
    """The folder of an unpacked source distribution."""
    (archive,) = dist.glob(f"{name}-[0-9]*.tar.gz")
    with tarfile.open(archive) as members:
        members.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def compare(first: Mapping[str, str], second: Mapping[str, str]) -> None:
    """Raise an error unless two builds gave the same files."""
    differing = sorted(name for name in {*first, *second} if first.get(name) != second.get(name))
    if differing:
        raise ReleaseError(f"two builds of one commit differ: {', '.join(differing)}")


def _hashes(folder: Path) -> dict[str, str]:
    """SHA-256 of each file, by its name."""
    return {path.name: _digest(path.read_bytes()) for path in sorted(folder.iterdir()) if path.name != "SHA256SUMS"}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# --- what is in it ----------------------------------------------------------------------------------------------------


def check_licences(dist: Path) -> None:
    """Raise an error if a file lacks a licence of something that it contains, or a wheel has what nobody declared."""
    problems = [f"{wheel.name}: {problem}" for wheel in sorted(dist.glob("*.whl")) for problem in _unlicensed(wheel)]
    for sources in sorted(dist.glob("*.tar.gz")):
        with tarfile.open(sources) as members:
            names = {name.partition("/")[2] for name in members.getnames()}
        problems += [f"{sources.name}: {problem}" for problem in _missing(names, names, "python/")]
    if problems:
        raise ReleaseError("\n".join(problems))


def _missing(names: Iterable[str], licences: Iterable[str], package: str = "") -> Iterable[str]:
    """What is said of the licences that are missing beside files of these names."""
    others = [other for other in OTHERS if any(f"{package}{file}" in names for file in other.files)]
    for licence in {"LICENSE", *(f"python/{other.text}" for other in others)} - set(licences):
        yield f"the licence {licence} is not among its files"


def _unlicensed(wheel: Path) -> Iterable[str]:
    with zipfile.ZipFile(wheel) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    information = f"{'-'.join(wheel.name.split('-')[:2])}.dist-info/"
    yield from _missing(contents, (name.removeprefix(f"{information}licenses/") for name in contents))
    declared = {file for other in OTHERS for file in (*other.files, other.text)}
    texts = {name: content for name, content in contents.items() if name not in declared}
    for name, content in contents.items():
        if name.endswith(".jar"):
            yield from (f"{name} has classes of others: {entry}" for entry in foreign_classes(content))
            with zipfile.ZipFile(io.BytesIO(texts.pop(name))) as archive:
                inside = [entry for entry in archive.namelist() if not entry.endswith(".class")]
                texts |= {f"{name}!{entry}": archive.read(entry) for entry in inside}
    for name, content in texts.items():
        if not name.startswith(information) and _COPYRIGHT.search(content.decode("utf-8", "replace")):
            yield f"{name} names a copyright: declare it in OTHERS of .ci/release.py, with its licence"


def foreign_classes(jar: bytes) -> list[str]:
    """The classes of a JAR that have no source in ``jvm/``."""
    packages = {
        found[1].replace(".", "/")
        for source in (ROOT / "jvm").rglob("*")
        if source.suffix in (".scala", ".java")
        for found in [re.search(r"^package ([\w.]+)", source.read_text("utf-8"), re.MULTILINE)]
        if found
    }
    with zipfile.ZipFile(io.BytesIO(jar)) as archive:
        classes = [name for name in archive.namelist() if name.endswith(".class")]
    return [name for name in classes if not _is_below(name.rpartition("/")[0], packages)]


def _is_below(package: str, packages: set[str]) -> bool:
    return any(package == each or package.startswith(f"{each}/") for each in packages)


def bill_of_materials(dist: Path, tools: Path, work: Path) -> str:
    """CycloneDX: the package with its JARs and what it contains of others, and what an installation of it brings."""
    wheel = _wheel(dist)
    venv.create(work / "installed", with_pip=False, symlinks=True)
    installed = work / "installed" / "bin" / "python"
    _run([tools, "-m", "pip", "--python", installed, "install", "--quiet", "--disable-pip-version-check", wheel])
    command: list[str | Path] = [
        tools,
        "-m",
        "cyclonedx_py",
        "environment",
        "--output-reproducible",
        "--spec-version",
        "1.6",
    ]
    found: dict[str, Any] = json.loads(_run([*command, installed]))
    (own,) = [each for each in found["components"] if each["name"] == "headwater"]
    found["components"].remove(own)
    own.pop("externalReferences", None)  # the wheel's place on this machine
    found["metadata"] = {**found.get("metadata", {}), "component": {**own, "hashes": [_hash(wheel.read_bytes())]}}
    with zipfile.ZipFile(wheel) as archive:
        found["components"] += _parts(archive)
    found["components"].sort(key=lambda each: (each["type"], each["name"]))
    return json.dumps(found, indent=2, sort_keys=True) + "\n"


def _parts(archive: zipfile.ZipFile) -> Iterable[dict[str, Any]]:
    """The components within a wheel."""
    for name in sorted(name for name in archive.namelist() if name.endswith(".jar")):
        licence = [{"license": {"id": "Apache-2.0"}}]
        yield {
            "type": "file",
            "bom-ref": name,
            "name": name,
            "hashes": [_hash(archive.read(name))],
            "licenses": licence,
        }
    for other in OTHERS:
        (version,) = re.findall(other.version, archive.read(other.files[0]).decode("utf-8"))
        yield {
            "type": "library",
            "bom-ref": f"{other.purl}@{version}",
            "name": other.name,
            "version": version,
            "purl": f"{other.purl}@{version}",
            "licenses": [{"license": {"id": other.licence}}],
            "properties": [{"name": "headwater:file", "value": file} for file in other.files],
        }


def _hash(content: bytes) -> dict[str, str]:
    return {"alg": "SHA-256", "content": _digest(content)}


def provenance(files: Mapping[str, str], tag: str, began: str, sparks: Mapping[str, Path]) -> dict[str, Any]:
    """An in-toto statement: from what, by what and when the files were made. It is not signed."""
    commit = _git("rev-parse", "HEAD")
    workflow = "{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}/.github/workflows/release.yml@{GITHUB_REF}"
    is_workflow = "GITHUB_ACTIONS" in os.environ
    dependencies: list[dict[str, Any]] = [{"name": "source", "digest": {"gitCommit": commit}}]
    for version, folder in sparks.items():
        digest = (folder / "archive.sha256").read_text("utf-8").split()[0]
        dependencies.append({"uri": f"pkg:pypi/pyspark@{version}", "digest": {"sha256": digest}})
    tools = {
        name: f"pkg:pypi/{name}@{version}" for name, _, version in (BACKEND.partition("=="), SBOM_TOOL.partition("=="))
    }
    return {
        "_type": _STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in files.items()],
        "predicateType": _PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:headwater:release:1",
                "externalParameters": {"tag": tag},
                "internalParameters": {
                    "SOURCE_DATE_EPOCH": int(_git("log", "-1", "--format=%ct")),
                    "python": platform.python_version(),
                    "zlib": zlib.ZLIB_RUNTIME_VERSION,
                    "javac": _javac(),
                },
                "resolvedDependencies": [*dependencies, *({"uri": uri} for uri in tools.values())],
            },
            "runDetails": {
                "builder": {"id": workflow.format_map(os.environ) if is_workflow else "urn:headwater:by-hand"},
                "metadata": {"startedOn": began, "finishedOn": _now()},
            },
        },
    }


def _javac() -> str:
    home = os.environ.get("JAVA_HOME")
    return _run([Path(home) / "bin" / "javac" if home else "javac", "-version"]).strip()


# --- the trial --------------------------------------------------------------------------------------------------------


def try_with(python: str, dist: Path) -> None:
    """Install the wheel and the source distribution in new environments of a Python, and run every statement."""
    wheel = _wheel(dist)
    sources = dist / f"{'-'.join(wheel.name.split('-')[:2])}.tar.gz"
    for distribution in (wheel, sources):
        with tempfile.TemporaryDirectory(prefix="headwater-try-") as name:
            folder = Path(name)
            _run([python, "-m", "venv", folder / "venv"])
            inside = folder / "venv" / "bin" / "python"
            clean = {name: os.environ[name] for name in _KEPT if name in os.environ}
            install: list[str | Path] = [inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            if distribution is sources:  # the JAR that is built fits the PySpark of the environment
                _run([*install, _spark_requirement()], env=clean)
            _run([*install, f"{distribution}[spark]"], env=clean)
            spark = _run([inside, "-c", "import pyspark; print(pyspark.__version__)"], env=clean).strip()
            shutil.copy(ROOT / ".ci" / "smoke.py", folder)
            _run([inside, folder / "smoke.py", spark], cwd=folder, env={**clean, "SPARK_LOCAL_IP": "127.0.0.1"})
            version = _run([inside, "--version"]).strip()
            print(f"{distribution.name}: {version}, Spark {spark}: passed", flush=True)


def _spark_requirement() -> str:
    (found,) = re.findall(r'^spark = \["(.+?)"\]', _text("pyproject.toml"), re.MULTILINE)
    return str(found)


# --- help -------------------------------------------------------------------------------------------------------------


def _wheel(dist: Path) -> Path:
    (wheel,) = dist.glob("headwater-[0-9]*.whl")
    return wheel


def _text(path: str) -> str:
    return (ROOT / path).read_text("utf-8")


def _git(*arguments: str) -> str:
    return _run(["git", "-C", ROOT, *arguments]).strip()


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _run(command: Sequence[str | Path], **given: Any) -> str:
    """Standard output of a command; an error with what it printed if it fails."""
    words = [str(word) for word in command]
    ended: subprocess.CompletedProcess[str] = subprocess.run(
        words, capture_output=True, text=True, check=False, **given
    )
    if ended.returncode != 0:
        raise ReleaseError(f"{' '.join(words)} failed:\n{ended.stdout[-3000:]}{ended.stderr[-5000:]}")
    return ended.stdout


if __name__ == "__main__":
    sys.exit(main())
