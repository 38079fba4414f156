"""``python -m histories``: run clients against tables, and check what they were told.

Rounds of half a minute, each on fresh tables, until the time is over. The exit code is 1 if a history is refused, or
if nothing could check it. ``python -m histories check FILE`` checks a history that was kept.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from histories import history, summary
from histories.mutations import MUTATIONS
from histories.running import NEMESES, Setting, run_round
from histories.stores import STORES

#: A JVM and a server take half a minute to start.
_WITH_JVM_SECONDS = 150.0
_ROUND_SECONDS = {name: 30.0 if name == "local" else _WITH_JVM_SECONDS for name in STORES}

app = typer.Typer(add_completion=False, help=__doc__, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def run(  # noqa: PLR0917 - the command's options
    context: typer.Context,
    minutes: Annotated[float, typer.Option(help="How long clients run, in all.")] = 2.0,
    clients: Annotated[int, typer.Option(help="How many processes, beside other engines.")] = 4,
    store: Annotated[str, typer.Option(help=f"One of {', '.join(STORES)}.")] = "local",
    nemesis: Annotated[str, typer.Option(help=f"Some of {', '.join(NEMESES)}, by commas; none.")] = "pause,kill,clock",
    spark: Annotated[bool, typer.Option("--spark", help="A Spark besides, which runs SQL.")] = False,
    peer: Annotated[
        bool, typer.Option("--peer", help="A Spark with Delta Lake's own connector besides, which appends.")
    ] = False,
    mutate: Annotated[str | None, typer.Option(help=f"A fault to find: {', '.join(MUTATIONS)}.")] = None,
    seed: Annotated[int, typer.Option(help="What the first round draws by; each round has the next.")] = 0,
    keep: Annotated[
        Path | None, typer.Option(help="A folder for the histories, and the tables of refused ones.")
    ] = None,
) -> None:
    """Run rounds, and say what each history shows."""
    if context.invoked_subcommand is not None:
        return
    chosen = tuple(each for each in nemesis.split(",") if each != "none")
    for value, known in (
        (store, STORES),
        (mutate or next(iter(MUTATIONS)), MUTATIONS),
        *((n, NEMESES) for n in chosen),
    ):
        if value not in known:
            raise typer.BadParameter(f"{value} is not one of {', '.join(known)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # which ends the clients
    left = minutes * 60
    refused, totals = [], Counter[str]()
    while left > 0:
        seconds = min(_ROUND_SECONDS[store] if not spark and not peer else _WITH_JVM_SECONDS, left)
        left -= seconds
        setting = Setting(
            seconds=seconds,
            clients=clients,
            store=store,
            nemesis=chosen,
            mutate=mutate,
            seed=seed,
            with_spark=spark,
            with_peer=peer,
        )
        home = Path(tempfile.mkdtemp(prefix="histories-"))
        judged = summary.judge(run_round(setting, home / "round"))
        typer.echo(f"round of seed {seed}, {seconds:.0f} s: " + "\n".join(summary.lines(judged)))
        totals.update(op.outcome for op in judged.history.ops)
        if keep is not None:
            history.write(keep / f"history-{seed}.jsonl", judged.history)
            if not judged.is_good:
                shutil.copytree(home / "round", keep / f"round-{seed}", dirs_exist_ok=True)
        shutil.rmtree(home)
        if not judged.is_good:
            refused.append(seed)
        seed += 1
    told = ", ".join(f"{count} {outcome}" for outcome, count in totals.most_common())
    typer.echo(f"{sum(totals.values())} ops ({told}); refused: {', '.join(map(str, refused)) or 'none'}")
    raise typer.Exit(1 if refused else 0)


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="What --keep has written.")],
    seconds: Annotated[float, typer.Option(help="The most for one object.")] = 60.0,
) -> None:
    """Check a history that was kept."""
    judged = summary.judge(history.read(file), seconds)
    typer.echo("\n".join(summary.lines(judged)))
    raise typer.Exit(0 if judged.is_good else 1)


if __name__ == "__main__":
    app()
