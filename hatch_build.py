"""The wheel's build hook: compile ``jvm/`` and put the JAR where ``headwater.jar_path()`` looks for it.

Runs for wheels and for editable installs. The work is done by ``jvm/build.py``; see there for what it promises.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class JarBuildHook(BuildHookInterface[Any]):
    """Builds the JAR into the source tree, then lists it among the files of the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it collects files; ``version`` is ``standard`` or ``editable``."""
        jar: Path = runpy.run_path(str(Path(self.root) / "jvm" / "build.py"))["build"]()
        build_data["force_include"][str(jar)] = "headwater/jars/headwater.jar"
