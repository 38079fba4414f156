"""What ``.ci/release.py`` checks and describes, without a build, which the release itself makes and compares."""

from __future__ import annotations

import importlib.util
import io
import json
import re
import subprocess
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from headwater import __version__
from support.paths import ROOT


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, for a repository that has its version's tag."""
    spec = importlib.util.spec_from_file_location("release", ROOT / ".ci" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    repository = tmp_path / "repository"
    for name in ("python/headwater/__init__.py", "python/delta/pyproject.toml", "CHANGELOG.md"):
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        text = (ROOT / name).read_text("utf-8")
        if name == "CHANGELOG.md":  # between releases it has entries that are not released
            text = re.sub(r"(?<=^## \[Unreleased\]\n)(.*?)(?=^## \[)", "\n", text, flags=re.MULTILINE | re.DOTALL)
        (repository / name).write_text(text, "utf-8")
    monkeypatch.setattr(module, "ROOT", repository)
    author = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for command in (("init", "-q"), ("add", "."), (*author, "commit", "-qm", "c"), ("tag", f"v{__version__}")):
        subprocess.run(["git", *command], cwd=repository, check=True, capture_output=True)
    return module


def test_tag_package_and_changelog_agree(release: ModuleType) -> None:
    assert release.declared_version() == __version__
    release.check_tag(f"v{__version__}", __version__)


@pytest.mark.parametrize(
    ("file", "pattern", "instead", "error"),
    [
        ("CHANGELOG.md", rf"\[{re.escape(__version__)}\] - [\d-]+", f"[{__version__}]", "has no section"),
        ("CHANGELOG.md", r"(?<=## \[Unreleased\])", "\n\n## [9.9.9] - 2026-01-01", "has no section"),
        ("CHANGELOG.md", r"(?<=## \[Unreleased\])", "\n\n### Added\n\n- Something.", r"has entries under \[Unrele"),
        ("python/delta/pyproject.toml", r'version = ".*"', 'version = "0.0.1"', "another version than"),
        ("python/headwater/__init__.py", "import sys", "import os, sys", "work tree differs"),
    ],
)
def test_what_does_not_agree_is_no_release(
    file: str, pattern: str, instead: str, error: str, release: ModuleType
) -> None:
    path = release.ROOT / file
    path.write_text(re.sub(pattern, instead, path.read_text("utf-8"), count=1), "utf-8")
    with pytest.raises(release.ReleaseError, match=error):
        release.check_tag(f"v{__version__}", __version__)


def test_the_tag_is_that_of_the_commit(release: ModuleType) -> None:
    with pytest.raises(release.ReleaseError, match=r"the tag must be v"):
        release.check_tag("v0.0.1", __version__)
    commit = ("-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "later", "--allow-empty")
    subprocess.run(["git", *commit], cwd=release.ROOT, check=True)
    with pytest.raises(release.ReleaseError, match="not that of the tag"):
        release.check_tag(f"v{__version__}", __version__)


def test_two_builds_that_differ_are_no_release(release: ModuleType) -> None:
    release.compare({"a": "1"}, {"a": "1"})
    with pytest.raises(release.ReleaseError, match=r"differ: a, b$"):
        release.compare({"a": "1", "b": "2", "c": "3"}, {"a": "2", "c": "3"})


def _jar(*classes: str, **others: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in {**{f"{each}.class": b"" for each in classes}, **others}.items():
            archive.writestr(name, content)
    return made.getvalue()


def _dist(folder: Path, release: ModuleType, **changed: bytes | None) -> Path:
    """A folder with a wheel of the package's own pages; ``changed`` by the last part of names, None for without."""
    licences = f"headwater-{__version__}.dist-info/licenses"
    page = ROOT / "python/headwater/inspector/page"
    contents: dict[str, bytes | None] = {
        **{f"headwater/inspector/page/{path.name}": path.read_bytes() for path in page.iterdir()},
        f"{licences}/LICENSE": b"Apache",
        **{f"{licences}/python/{other.text}": b"licence" for other in release.OTHERS},
        "headwater/jars/headwater.jar": _jar("headwater/spark/A"),
        **{f"headwater/{name.replace('_', '.')}": content for name, content in changed.items()},
    }
    folder.mkdir()
    with zipfile.ZipFile(folder / f"headwater-{__version__}-py3-none-any.whl", "w") as archive:
        for name, content in contents.items():
            if content is not None:
                archive.writestr(name, content)
    return folder


def test_what_a_wheel_contains_has_its_licence(
    release: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release, "ROOT", ROOT)
    release.check_licences(_dist(tmp_path / "right", release))
    with pytest.raises(release.ReleaseError, match=r"new\.js names a copyright: declare it"):
        release.check_licences(_dist(tmp_path / "copied", release, new_js=b"/* Copyright (c) somebody */"))
    for name, content in (("new_py", b"# Licensed under X"), ("notes_txt", b"Copyright (c) somebody")):
        with pytest.raises(release.ReleaseError, match="names a copyright: declare it"):
            release.check_licences(_dist(tmp_path / name, release, **{name: content}))
    notice = _dist(tmp_path / "notice", release, **{"jars/other_jar": _jar(**{"META-INF/NOTICE": b"Copyright X"})})
    with pytest.raises(release.ReleaseError, match=r"jars/other\.jar!META-INF/NOTICE names a copyright"):
        release.check_licences(notice)
    foreign = _dist(tmp_path / "foreign", release, **{"jars/other_jar": _jar("headwater/spark/A", "com/google/B")})
    with pytest.raises(release.ReleaseError, match=r"jars/other\.jar has classes of others: com/google/B\.class"):
        release.check_licences(foreign)
    without = _dist(tmp_path / "without", release)
    monkeypatch.setattr(release, "OTHERS", (release.OTHERS[0]._replace(text="headwater/lost.txt"),))
    with pytest.raises(release.ReleaseError, match=r"python/headwater/lost\.txt is not among"):
        release.check_licences(without)


def test_sources_contain_the_licences_of_what_they_contain(release: ModuleType, tmp_path: Path) -> None:
    page = "python/headwater/inspector/page"
    names = ["LICENSE", f"{page}/uPlot.js", f"{page}/uPlot.LICENSE.txt"]
    for left_out in (None, *names):
        with tarfile.open(tmp_path / "headwater-1.0.tar.gz", "w:gz") as archive:
            for name in names:
                if name != left_out:
                    archive.addfile(tarfile.TarInfo(f"headwater-1.0/{name}"))
        if left_out is None or left_out.endswith(".js"):
            release.check_licences(tmp_path)
        else:
            with pytest.raises(release.ReleaseError, match=re.escape(f"the licence {left_out} is not among its files")):
                release.check_licences(tmp_path)


def test_the_parts_of_a_wheel_are_in_the_bill_of_materials(release: ModuleType, tmp_path: Path) -> None:
    (wheel,) = _dist(tmp_path / "dist", release).iterdir()
    with zipfile.ZipFile(wheel) as archive:
        parts: list[dict[str, Any]] = list(release._parts(archive))
    assert [(part["name"], part.get("version")) for part in parts] == [
        ("headwater/jars/headwater.jar", None),
        ("uPlot", "1.6.32"),
    ]
    assert parts[1]["purl"] == "pkg:npm/uplot@1.6.32"
    assert parts[1]["licenses"] == [{"license": {"id": "MIT"}}]


def test_provenance_names_what_went_in_and_what_came_out(
    release: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = tmp_path / "4.2.1"
    spark.mkdir()
    (spark / "archive.sha256").write_text("ab12  pyspark-4.2.1.tar.gz\n", "utf-8")
    monkeypatch.setattr(release, "_javac", lambda: "javac 17.0.1")
    for name in ("GITHUB_ACTIONS", "GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_REF"):
        monkeypatch.delenv(name, raising=False)
    said = release.provenance({"a.whl": "cd34"}, "v1.2.3", "2026-01-01T00:00:00Z", {"4.2.1": spark})
    assert said["subject"] == [{"name": "a.whl", "digest": {"sha256": "cd34"}}]
    definition = said["predicate"]["buildDefinition"]
    source, pyspark, *tools = definition["resolvedDependencies"]
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=release.ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    assert source == {"name": "source", "digest": {"gitCommit": head}}
    assert pyspark == {"uri": "pkg:pypi/pyspark@4.2.1", "digest": {"sha256": "ab12"}}
    assert [tool["uri"] for tool in tools] == [
        f"pkg:pypi/{pin.replace('==', '@')}" for pin in (release.BACKEND, release.SBOM_TOOL)
    ]
    assert said["predicate"]["runDetails"]["builder"]["id"] == "urn:headwater:by-hand"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    for name, value in (("SERVER_URL", "https://host"), ("REPOSITORY", "o/n"), ("REF", "refs/tags/v1.2.3")):
        monkeypatch.setenv(f"GITHUB_{name}", value)
    said = release.provenance({}, "v1.2.3", "", {"4.2.1": spark})
    builder = said["predicate"]["runDetails"]["builder"]["id"]
    assert builder == "https://host/o/n/.github/workflows/release.yml@refs/tags/v1.2.3"
    json.dumps(said)
