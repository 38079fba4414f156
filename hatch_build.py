"""The wheel's build hook: compile ``jvm/`` and put the JARs where ``headwater.jar_path()`` looks for them.

Runs for wheels and for editable installs. The work is done by ``jvm/build.py``; see there for what it promises.
"""

from __future__ import annotations

import os
import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: The ``jars`` folders of Sparks of other lines, whose JARs the wheel gets beside those for the installed Sparks.
OTHER_SPARKS = "HEADWATER_OTHER_SPARKS"


class JarBuildHook(BuildHookInterface[Any]):
    """Builds the JARs into the source tree, then lists them among the files of the wheel.

    They fit the PySpark of the environment that the build is started from, where the wheel is usually installed, even
    if the build is isolated and has a newer PySpark for its compiler. If a JAR cannot be built, the build fails.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it collects files; ``version`` is ``standard`` or ``editable``."""
        build = runpy.run_path(str(Path(self.root) / "jvm" / "build.py"))
        others = os.environ.get(OTHER_SPARKS, "").split(os.pathsep)
        for spark_jars in build["sparks_at_hand"](Path(other) for other in others if other):
            jar: Path = build["build"](spark_jars)
            for built in (jar, build["compat_jar"](jar)):
                build_data["force_include"][str(built)] = f"headwater/jars/{built.name}"
