"""What the tests read in README."""

from __future__ import annotations

import re
from textwrap import dedent

from support.paths import ROOT


def indented(starts_with: str) -> str:
    """README's indented block that starts so; blank lines in it are part of it."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    parts = re.findall(r"(?:^    .*\n|^\n(?=    ))+", text, re.MULTILINE)
    [block] = [part for part in map(dedent, parts) if part.strip().startswith(starts_with)]
    return block.lstrip("\n")
