"""``python -m headwater``: the ``headwater`` command of this interpreter's package.

Error messages name it, because which ``headwater`` is on the PATH is not known to them.
"""

from __future__ import annotations

from headwater.cli.start import main

if __name__ == "__main__":
    main()
