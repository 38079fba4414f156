"""The console script ``headwater``, which needs only Python itself to be installed.

Owns what happens where a package that the command needs is missing: ``headwater doctor`` still runs, and every other
command ends with one message that names the package. Promise: standard library only, until the command is imported.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command that the arguments name."""
    try:
        from headwater.cli.main import main as run
    except ImportError as error:
        if sys.argv[1:2] == ["doctor"]:
            from headwater.cli.doctor import run_without_packages

            sys.exit(run_without_packages(sys.argv[2:]))
        sys.exit(f"headwater: {error}. Run headwater doctor, which says what is missing and what to do.")
    run()
