"""An S3-compatible server in a process of its own, which can be told to misbehave (:mod:`support.stores.misbehaving`).

The server is moto's, over real HTTP. It answers requests in many threads, and looks and then writes; here, no two
requests that change something are in it at once, which makes its conditional create atomic. ``s3_server``
prints its port and ends with its standard input.
"""

from __future__ import annotations

import sys

from moto.server import DomainDispatcherApplication, create_backend_app

from support.stores.misbehaving import Misbehaving, serve


def main() -> None:
    print(serve(Misbehaving(DomainDispatcherApplication(create_backend_app)), *sys.argv[1:]), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
