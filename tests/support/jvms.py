"""JVMs that tests reach through py4j, and the JARs that Maven fetches for them."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from support.paths import ROOT

SPARK_JARS = Path(pyspark.__file__).parent / "jars"
_FETCH_SECONDS = 600


def fetched(pom: Path, **properties: str) -> list[Path]:
    """The JARs that a POM with these properties depends on, fetched once and kept under ``target``."""
    stated = "\n".join([pom.read_text(encoding="utf-8"), *(f"{key}={value}" for key, value in properties.items())])
    there = ROOT / "target" / f"test-{pom.parent.name}-{pom.stem}-{hashlib.sha256(stated.encode()).hexdigest()[:12]}"
    if not there.is_dir():
        there.parent.mkdir(exist_ok=True)
        coming = Path(tempfile.mkdtemp(dir=there.parent))
        given = [f"-D{key.replace('_', '.')}={value}" for key, value in properties.items()]
        subprocess.run(
            ["mvn", "--batch-mode", "--quiet", "-f", pom, *given, f"-DoutputDirectory={coming}",
             "dependency:copy-dependencies"],
            check=True, timeout=_FETCH_SECONDS, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            coming.rename(there)
        except OSError:  # another process fetched them meanwhile
            shutil.rmtree(coming)
    return sorted(there.glob("*.jar"))


class Jvm:
    """A JVM for any number of threads; it ends with :meth:`close` or :meth:`kill`, or with this process."""

    def __init__(self, classpath: Sequence[str], options: Sequence[str]) -> None:
        (py4j,) = SPARK_JARS.glob("py4j-*.jar")
        port, self._process = launch_gateway(
            jarpath=str(py4j),
            classpath=":".join(classpath),
            javaopts=list(options),
            die_on_exit=True,
            return_proc=True,
        )
        self.gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))

    def close(self) -> None:
        self.gateway.shutdown()
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(Exception):  # whatever py4j says about a JVM that is gone
            self.gateway.shutdown()
