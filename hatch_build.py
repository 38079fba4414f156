"""The wheel's build hook: compile ``jvm/`` and put the JARs where ``headwater.jar_path()`` looks for them.

Runs for wheels and for editable installs. The work is done by ``jvm/build.py``; see there for what it promises.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class JarBuildHook(BuildHookInterface[Any]):
    """Builds the JARs into the source tree, then lists them among the files of the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it collects files; ``version`` is ``standard`` or ``editable``."""
        build = runpy.run_path(str(Path(self.root) / "jvm" / "build.py"))
        jar: Path = build["build"]()
        for built in (jar, build["compat_jar"](jar)):
            build_data["force_include"][str(built)] = f"headwater/jars/{built.name}"
