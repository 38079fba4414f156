"""What a client does to itself: it stops or is killed right before or after a commit, and its clock jumps.

Owns the store that clients use, which is the local one or Hadoop's with these faults around its calls, and the settings
that make a crash show within a run: a writer of a transaction that gives no sign of life is given up after
:attr:`~histories.client.Plan.patience` seconds, not after the package's ten.
"""

from __future__ import annotations

import os
import random
import re
import select
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.basics import clock
from headwater.groups import at_work
from headwater.groups.settling import SETTLER
from headwater.log import groups
from headwater.statements.running import opening
from headwater.stores import Store, store_for

if TYPE_CHECKING:
    from histories.client import Plan

#: What a commit, and what a decision is called in a log.
_COMMIT = re.compile(r"/_delta_log/\d{20}\.json$")
_DECISION = re.compile(r"/_delta_log/_transactions/[0-9a-f-]{36}\.json$")
#: How much more often than at other commits a fault strikes at those of a transaction over several tables.
_OF_TRANSACTIONS = 6


def prepare(plan: Plan, name: str, chance: random.Random, quiet: bool) -> None:
    """Have this process use such stores and such a clock.

    :param quiet: without the faults, for the queries at the end.
    """
    if "faketime" in os.environ.get("LD_PRELOAD", ""):
        # libfaketime shifts the deadline of a sleep by the monotonic clock, which it leaves alone: it would never end.
        setattr(time, "sleep", _sleep)  # noqa: B010 - it is a function of another module
    groups.settle_by(SETTLER)
    groups.PATIENCE, groups.GRACE = plan.patience, 30.0
    at_work._BETWEEN_SIGNS = plan.patience / 4
    if plan.gateway is not None:
        _use_gateway(plan.gateway, plan.hadoop)
    if quiet:
        return
    if plan.moves_clock:
        _move_clock(Path(plan.folder) / f"clock-{name}")
    if plan.stops or plan.kills:
        wrapped = _with_faults(plan, chance)

        def faulty(path: str, *more: Any) -> tuple[Store, str]:
            store, own = store_for(path, *more)
            return wrapped(store), own

        setattr(opening, "store_for", faulty)  # noqa: B010 - the same


def _sleep(seconds: float) -> None:
    select.select([], [], [], seconds)


def _with_faults(plan: Plan, chance: random.Random) -> Any:
    """A function that makes a store one whose puts stop or kill the process now and then."""
    kinds: dict[type, type] = {}

    def strike(path: str, data: bytes) -> None:
        is_of_group = b'"transactionGroup"' in data or _DECISION.search(path) is not None
        if not is_of_group and _COMMIT.search(path) is None:
            return
        drawn = chance.random() / (_OF_TRANSACTIONS if is_of_group else 1)
        if drawn < plan.kills:
            os.kill(os.getpid(), signal.SIGKILL)
        elif drawn < plan.kills + plan.stops:
            os.kill(os.getpid(), signal.SIGSTOP)

    def kind_of(plain: type) -> type:
        class Faulty(plain):  # type: ignore[misc]
            strikes = True

            def put_if_absent(self, path: str, data: bytes) -> None:
                strike(path, data)
                super().put_if_absent(path, data)
                strike(path, data)

        return Faulty

    def wrapped(store: Store) -> Store:
        plain = type(store)
        if not hasattr(plain, "strikes"):  # some stores are shared by statements
            kinds.setdefault(plain, kind_of(plain))
            store.__class__ = kinds[plain]  # it keeps what it knows, and its puts are watched
        return store

    return wrapped


def _move_clock(file: Path) -> None:
    """The package reads the clock in one place; here, it is off by the seconds in a file."""
    real = clock.milliseconds

    def milliseconds() -> int:
        return real() + int(file.read_text() or "0") * 1000

    clock.milliseconds = milliseconds


def _use_gateway(port: int, settings: dict[str, str]) -> None:
    """Reach stores through a JVM that all clients share."""
    from py4j.java_gateway import GatewayParameters, JavaGateway

    from headwater.bridge.hadoop_files import HadoopFileSystem
    from histories.tables import BareStatement

    java = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True)).jvm
    conf = java.org.apache.hadoop.conf.Configuration()
    for name, value in settings.items():
        conf.set(name, value)
    BareStatement.files = HadoopFileSystem(lambda: java.headwater.spark.bridge.HadoopFiles(conf))
