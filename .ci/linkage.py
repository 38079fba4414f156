"""Whether the JARs of this tree link with every Spark of ``headwater.basics.versions``: ``linkage.py [VERSION...]``.

Patch releases of one line differ in what they have, and each build's JARs are compiled beside the newest alone. For
each version (or those named), the JARs of its PySpark are downloaded into a temporary folder, ``LinkageCheck`` looks at
both of ours, and the folder is deleted before the next: about 1 GB of disk, and one to two minutes a version, most of
them for the download. ``--keep DIR`` leaves a version's JARs in ``DIR/VERSION/jars``. Needs a JDK. Promise: exits with
an error if a version could not be checked or something is missing in it.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import runpy
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "python"))

from headwater.basics.versions import BUILDS, Build, build_for, delta_jar  # noqa: E402

CHECK = ROOT / "tests" / "linkage" / "LinkageCheck.java"
# Each runs for seconds: to optimize its code for longer takes longer than it saves.
JAVA = ("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def download(version: str, folder: Path) -> Path:
    """Put the JARs of a PySpark into ``folder / "jars"``, and return that; beside it, the hash of the archive."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "pyspark"]
    subprocess.run([*command, "--dest", str(folder), f"pyspark=={version}"], check=True)
    (archive,) = folder.glob("pyspark-*")
    jars = folder / "jars"
    jars.mkdir()
    with tarfile.open(archive) as members:
        for member in members:
            name = Path(member.name)
            content = members.extractfile(member) if name.suffix == ".jar" and name.parent.name == "jars" else None
            if content is not None:
                (jars / name.name).write_bytes(content.read())
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    (folder / "archive.sha256").write_text(f"{digest}  {archive.name}\n", "utf-8")
    archive.unlink()
    return jars


def check(own: Path, spark: Path) -> list[str]:
    """What is missing in a Spark for a JAR of ours and the one of Delta Lake's names beside it."""
    found = []
    for jar in (own, delta_jar(own)):
        path = os.pathsep.join([str(spark / "*"), str(own), str(jar)])
        done = subprocess.run([*JAVA, "-cp", path, str(CHECK), str(jar)], capture_output=True, text=True, check=False)
        lines = done.stdout.splitlines()
        if done.returncode != 0:
            found += [f"{jar.name}: {line}" for line in lines[:-1]] or [f"{jar.name}: {done.stderr.strip()[-500:]}"]
    return found


def order(build: Build, chosen: set[str]) -> list[str]:
    """The versions of a build to check, the newest first, beside which its JARs are compiled."""
    return [version for version in reversed(build.sparks) if version == build.sparks[-1] or version in chosen]


@contextmanager
def place(version: str, kept: Path | None) -> Iterator[Path]:
    """The folder for a Spark: one below ``kept``, or one that is deleted."""
    if kept is None:
        with tempfile.TemporaryDirectory(prefix=f"spark-{version}-") as name:
            yield Path(name)
    else:
        folder = kept / version
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        yield folder


def results(chosen: set[str], kept: Path | None) -> Iterator[tuple[str, list[str]]]:
    """Each version with what is missing in it."""
    make = runpy.run_path(str(ROOT / "jvm" / "build.py"))["build"]
    for build in BUILDS:
        if chosen.isdisjoint(build.sparks):
            continue
        jar: Path | None = None
        for version in order(build, chosen):
            with place(version, kept) as folder:
                spark = download(version, folder)
                jar = jar or make(spark)
                if version in chosen:
                    yield version, check(jar, spark)


def main() -> int:
    """Check, and print a line for each version."""
    parser = argparse.ArgumentParser(description="Whether the JARs link with Spark.")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the JARs of each Spark in DIR/VERSION/jars")
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="by default all that are supported")
    arguments = parser.parse_args()
    chosen = set(arguments.versions) or {version for build in BUILDS for version in build.sparks}
    unknown = sorted(version for version in chosen if build_for(version) is None)
    if unknown:
        sys.exit(f"There is no build for Spark {', '.join(unknown)}.")
    failed = 0
    for version, missing in results(chosen, arguments.keep):
        print(f"Spark {version}: {'links' if not missing else f'{len(missing)} problems'}", flush=True)
        print("".join(f"  {line}\n" for line in missing[:40]), end="", flush=True)
        failed += bool(missing)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
