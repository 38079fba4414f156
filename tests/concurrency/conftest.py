"""The stores and helpers beside the tests are imported by name, whichever way pytest imports the tests themselves."""

import sys
from pathlib import Path

_HERE = Path(__file__).parent
sys.path[:0] = [str(_HERE), str(_HERE.parent / "log")]
