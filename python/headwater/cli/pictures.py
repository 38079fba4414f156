"""Bar charts: in the terminal, as SVG, and in a report of one HTML file.

Owns how figures are drawn; what they are is the caller's. Promises: all text is escaped; the report has no script and
loads nothing; a bar is never shown by its colour alone, its figure stands beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

#: Colours that differ in lightness as well, for those who do not see them as colours; the first is ours.
_COLOURS = ("#2a78b8", "#c8ccd2")
_TERMINAL = ("blue", "bright_black")
_BLOCKS = ("█", "░")
_LABEL, _BAR, _ROW, _TEXT = 250, 300, 26, 150
_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
figure { margin: 1.5rem 0; } figcaption { font-weight: 600; }
table { border-collapse: collapse; } td, th { text-align: left; padding: 0.2rem 1rem 0.2rem 0; vertical-align: top; }
td:last-child { text-align: right; white-space: nowrap; } code { font-size: 0.85rem; }
svg { max-width: 100%; height: auto; }
"""


class Bar(NamedTuple):
    """A bar.

    :param parts: its parts' lengths, one after the other, in a unit that all bars of a picture share.
    :param text: its figure.
    """

    label: str
    parts: tuple[float, ...]
    text: str


class Picture(NamedTuple):
    """Bars below each other. ``note`` says what their parts are."""

    title: str
    note: str
    bars: Sequence[Bar]

    @property
    def longest(self) -> float:
        return max((sum(bar.parts) for bar in self.bars), default=0) or 1


def print_picture(console: Console, picture: Picture) -> None:
    """Print a picture as wide as the terminal, within reason."""
    console.print(Text(picture.title, style="bold"))
    console.print(Text(picture.note, style="dim"))
    labels = max(len(bar.label) for bar in picture.bars)
    texts = max(len(bar.text) for bar in picture.bars)
    room = max(10, min(60, console.width - labels - texts - 3))
    for bar in picture.bars:
        line = Text(f"{bar.label:<{labels}} ")
        for position, part in enumerate(bar.parts):
            length = round(room * part / picture.longest) or (1 if part else 0)
            line.append(_BLOCKS[position % 2] * length, style=_TERMINAL[position % 2])
        line.append(f" {bar.text}")
        console.print(line, no_wrap=True, crop=True)


def svg(picture: Picture) -> str:
    """The picture as SVG, of its own."""
    width, height = _LABEL + _BAR + _TEXT, _ROW * len(picture.bars) + 8
    told = "; ".join(f"{bar.label}: {bar.text}" for bar in picture.bars)
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" font-family="system-ui, sans-serif" font-size="13"><title>{escape(picture.title)}</title>'
        f"<desc>{escape(told)}</desc><style>text{{fill:#1f2328}}"
        "@media(prefers-color-scheme:dark){text{fill:#e6edf3}}</style>"
    ]
    for row, bar in enumerate(picture.bars):
        top, left = row * _ROW + 4, float(_LABEL)
        drawn.append(f'<text x="{_LABEL - 8}" y="{top + 15}" text-anchor="end">{escape(bar.label)}</text>')
        for position, part in enumerate(bar.parts):
            length = _BAR * part / picture.longest
            drawn.append(
                f'<rect x="{left:.1f}" y="{top}" width="{max(length, 1 if part else 0):.1f}" height="{_ROW - 8}" '
                f'fill="{_COLOURS[position % 2]}"/>'
            )
            left += length
        drawn.append(f'<text x="{left + 6:.1f}" y="{top + 15}">{escape(bar.text)}</text>')
    return f"{''.join(drawn)}</svg>"


def report(title: str, introduction: str, pictures: Sequence[Picture], rows: Sequence[tuple[str, str]]) -> str:
    """An HTML file of pictures, and of a table of code and figures."""
    figures = "".join(
        f"<figure><figcaption>{escape(picture.title)}</figcaption><p>{escape(picture.note)}</p>{svg(picture)}</figure>"
        for picture in pictures
    )
    table = "".join(f"<tr><td><code>{escape(code)}</code></td><td>{escape(text)}</td></tr>" for code, text in rows)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>"
        f"<p>{escape(introduction)}</p>{figures}<h2>The statements and their times</h2><table>{table}</table>"
        "</body></html>\n"
    )
