"""The fake snapshot beside the tests is imported by name, whichever way pytest imports the tests themselves."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
