"""The package ``delta``, and the names of Delta Lake's own classes in settings, are Headwater's."""

from __future__ import annotations

import importlib
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import delta
import headwater
from headwater import exceptions, tables
from headwater.cli import launch

_JAR = Path(launch.__file__).parents[1] / "jars" / "headwater.jar"
_BUILT = _JAR.with_name("headwater-delta.jar")
_ROOT = Path(__file__).parents[2]
_EXTENSION, _CATALOG = "spark.sql.extensions", "spark.sql.catalog.spark_catalog"


@pytest.fixture(autouse=True)
def _jars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "jar_path", lambda: _JAR)
    monkeypatch.setattr(launch, "_beside", lambda jar: jar.with_name(_BUILT.name))
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)


class _Builder:
    """As much of ``SparkSession.Builder`` as the functions use."""

    def __init__(self, options: dict[str, str] | None = None) -> None:
        self._options = dict(options or {})

    def config(self, key: str, value: str) -> None:
        self._options[key] = value

    def getOrCreate(self) -> None: ...


@pytest.mark.parametrize("extension", [None, launch.EXTENSION, launch.DELTA_EXTENSION])
@pytest.mark.parametrize("catalog", [None, launch.CATALOG, launch.DELTA_CATALOG])
def test_names_in_settings_stay_and_get_the_jar_that_has_them(extension: str | None, catalog: str | None) -> None:
    given = {key: value for key, value in ((_EXTENSION, extension), (_CATALOG, catalog)) if value}
    merged = launch.settings(given, _JAR)
    assert merged[_EXTENSION] == (extension or launch.EXTENSION)
    assert merged[_CATALOG] == (catalog or launch.CATALOG)
    named = {launch.DELTA_EXTENSION, launch.DELTA_CATALOG} & set(given.values())
    assert merged["spark.jars"] == (f"{_JAR},{_BUILT}" if named else str(_JAR))


def test_a_session_with_other_extensions_keeps_them() -> None:
    assert launch.settings({_EXTENSION: "a.B"}, _JAR)[_EXTENSION] == f"a.B,{launch.EXTENSION}"
    both = f"a.B, {launch.DELTA_EXTENSION}"
    assert launch.settings({_EXTENSION: both}, _JAR)[_EXTENSION] == both


def test_a_builder_that_names_nothing_yet() -> None:
    """The program may name extension and catalog after the call: the JAR that has the names is there in any case."""
    builder: Any = _Builder()
    assert delta.configure_spark_with_delta_pip(builder) is builder
    assert builder._options["spark.jars"] == f"{_JAR},{_BUILT}"
    assert builder._options["spark.headwater.python"] == sys.executable
    assert "spark.jars.packages" not in builder._options


def test_more_packages() -> None:
    builder: Any = _Builder({"spark.jars.packages": "a:b:1, c:d:2"})
    delta.configure_spark_with_delta_pip(builder, ["c:d:2", "e:f:3"])
    assert builder._options["spark.jars.packages"] == "a:b:1,c:d:2,e:f:3"


def test_what_is_no_builder() -> None:
    with pytest.raises(TypeError, match=r"needs a SparkSession.builder, .*, not NoneType"):
        delta.configure_spark_with_delta_pip(None)


def test_it_refuses_to_run_beside_delta_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    version = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "4.4.0" if name == "delta-spark" else version(name))
    with pytest.raises(ImportError, match=r"delta-spark 4\.4\.0 are both installed.*pip uninstall delta-spark"):
        importlib.reload(delta)


def test_modules_have_the_names_that_programs_import() -> None:
    from delta import exceptions as names
    from delta import tables as classes
    from delta.connect import tables as connect

    for module, ours in ((classes, tables), (connect, tables), (names, exceptions)):
        assert module.__all__
        assert all(getattr(module, name) is getattr(ours, name) for name in module.__all__)
    assert set(names.__all__) == {"DeltaConcurrentModificationException", *map(_name, exceptions.CONFLICTS.values())}


def _name(kind: type) -> str:
    return kind.__name__


def test_the_two_distributions_have_one_version() -> None:
    described = (_ROOT / "python" / "delta" / "pyproject.toml").read_text()
    assert re.findall(r'^version = "(.+?)"', described, re.MULTILINE) == [headwater.__version__]
    assert f'"headwater=={headwater.__version__}"' in described
    assert f'"headwater-delta=={headwater.__version__}"' in (_ROOT / "pyproject.toml").read_text()
    assert (_ROOT / "python" / "delta" / "LICENSE").read_bytes() == (_ROOT / "LICENSE").read_bytes()
