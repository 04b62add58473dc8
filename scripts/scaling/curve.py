"""Draws efficiency over GPUs as an SVG file, which every browser shows. So simple a picture needs no plotting
library."""

import math
from html import escape
from pathlib import Path

from safe_files import replace

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 60, 20, 40, 50
LOWEST = 50  # percent
COLOURS = ("#1f6fb4", "#d1651a", "#3a8f3a", "#8a4fb0", "#777777")


def _x(ranks: float, most: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * math.log2(ranks) / max(1.0, math.log2(most))


def _y(percent: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (100 - max(LOWEST, percent)) / (100 - LOWEST)


def _text(x: float, y: float, text: str, anchor: str = "middle", colour: str = "#222") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'


def _axes(most: int) -> list[str]:
    parts = []
    for percent in range(LOWEST, 101, 10):
        y = _y(percent)
        parts += [f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>',
                  _text(LEFT - 8, y + 4, f"{percent} %", "end")]
    for power in range(most.bit_length()):
        parts.append(_text(_x(2**power, most), HEIGHT - BOTTOM + 20, str(2**power)))
    return parts + [_text(WIDTH / 2, HEIGHT - 10, "ranks")]


def draw(path: Path, title: str, lines: dict[str, list[tuple[int, float]]],
         points: list[tuple[str, int, float]] = ()) -> None:
    """Draws the file. `lines`: by name, (ranks, efficiency from 0 to 1); `points`: measured (label, ranks,
    efficiency)."""
    most = max(ranks for line in lines.values() for ranks, _ in line)
    parts = [_text(WIDTH / 2, 22, title), *_axes(most)]
    for number, (name, line) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        corners = " ".join(f"{_x(ranks, most):.1f},{_y(100 * value):.1f}" for ranks, value in line)
        parts += [f'<polyline points="{corners}" fill="none" stroke="{colour}" stroke-width="2"/>',
                  _text(LEFT + 12, HEIGHT - BOTTOM - 12 - 18 * number, name, "start", colour)]
    for label, ranks, value in points:
        x, y = _x(ranks, most), _y(100 * value)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"><title>{escape(label)}</title></circle>')
    replace(path, f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
                  f'font-size="12"><rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>\n')
