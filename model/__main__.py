"""``python -m model``: check the model of the commit protocol, and print what was searched.

Without options, each part runs with its usual bounds; ``--kind short`` takes seconds, ``--kind long`` an hour.
``--mutate NAME`` gives the model a fault, and prints the shortest trace to the invariant that it breaks, in steps of
the code; ``--mutate all`` has every fault. The exit code is 1 if an invariant is broken, or a fault is not found.
"""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from model.checker import CheckerMissing, Result, check
from model.parts import PARTS, Mutation, Part

_KINDS = ("short", "usual", "long")


def main(
    part: Annotated[list[str] | None, typer.Option(help="Only the part of this name; may be repeated.")] = None,
    *,
    kind: Annotated[str, typer.Option(help="Which bounds: short, usual (and short), or long (all).")] = "usual",
    mutate: Annotated[list[str] | None, typer.Option(help="A fault; may be repeated, or 'all'.")] = None,
) -> None:
    """Check the model of the commit protocol."""
    console = Console(width=120, highlight=False)
    if kind not in _KINDS:
        raise typer.BadParameter(f"one of {', '.join(_KINDS)}", param_hint="--kind")
    parts = [each for each in PARTS if not part or each.name in part]
    if part and len(parts) < len(set(part)):
        raise typer.BadParameter(f"one of {', '.join(each.name for each in PARTS)}", param_hint="--part")
    try:
        holds = _mutations(console, parts, mutate) if mutate else _runs(console, parts, kind)
    except CheckerMissing as missing:
        console.print(str(missing))
        raise typer.Exit(2) from None
    raise typer.Exit(0 if holds else 1)


def _runs(console: Console, parts: list[Part], kind: str) -> bool:
    holds = True
    kinds = _KINDS[: _KINDS.index(kind) + 1]
    console.print(f"{'bounds':70}{'states':>13}{'transitions':>13}{'depth':>7}{'CPU s':>7}")
    for part in parts:
        for run in part.runs:
            if run.kind not in kinds:
                continue
            result = check(part, run.bounds)
            numbers = f"{result.states:13,}{result.transitions:13,}{result.depth:7,}{result.seconds:7.1f}"
            console.print(f"{part.name + ': ' + run.name:70}{numbers}", soft_wrap=True)
            if result.broken:
                holds = False
                console.print(f"breaks: {result.broken}")
                _print_trace(console, result)
        console.print(f"  checked: {'; '.join(part.invariants)}\n")
    console.print("all invariants hold" if holds else "an invariant is broken")
    return holds


def _mutations(console: Console, parts: list[Part], names: list[str]) -> bool:
    chosen: list[tuple[Part, Mutation]] = [
        (part, each) for part in parts for each in part.mutations if "all" in names or each.name in names
    ]
    known = [each.name for part in parts for each in part.mutations]
    if set(names) - {"all", *known}:  # one that is left out would pass for one that was found
        raise typer.BadParameter(f"all, or one of {', '.join(known)}", param_hint="--mutate")
    found = True
    for part, mutation in chosen:
        result = check(part, mutation.bounds, mutation.constant)
        broken = f"breaks: {result.broken}" if result.broken else "NOT FOUND"
        console.print(f"{part.name}, {mutation.name}: {mutation.words}\n  {broken} ({result.states:,} states)")
        _print_trace(console, result)
        found = found and result.broken == mutation.breaks
    return found


def _print_trace(console: Console, result: Result) -> None:
    for number, (function, words) in enumerate(result.trace, 1):
        console.print(f"  {number:2}  {words}  ({function})", soft_wrap=True, markup=False)
    console.print()


if __name__ == "__main__":
    typer.run(main)
