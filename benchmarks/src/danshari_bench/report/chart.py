"""Small SVG charts that follow the page's light or dark theme, without scripts or dependencies.

Plotting libraries write fixed colours into the file or need a script to switch them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

SMALL_SIZE, WIDE_SIZE = (560, 400), (1120, 560)
"""Width and height of a chart beside another, and of one alone."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 16, 14, 42


@dataclass(slots=True, kw_only=True)
class Series:
    """Points of one contender, joined by a line if it is a curve."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: str
    """A CSS colour; `var(--…)` follows the theme."""
    line: bool = False
    dashed: bool = False
    marks: bool = True
    label: bool = True
    ring: bool = False
    """Whether the last point is drawn as a ring: a contender at its own defaults."""


@dataclass(slots=True, kw_only=True)
class Axis:
    """One axis: its title and range."""

    title: str
    low: float = 0.0
    high: float = 1.0
    ticks: Sequence[float] = field(default_factory=lambda: (0, 0.2, 0.4, 0.6, 0.8, 1.0))


class _Frame:
    """Maps values to pixel positions and draws axes, grid and titles."""

    def __init__(self, x: Axis, y: Axis, size: tuple[int, int]) -> None:
        self.x_axis, self.y_axis = x, y
        self.width, self.height = size

    def x(self, value: float) -> float:
        axis = self.x_axis
        share = (min(value, axis.high) - axis.low) / (axis.high - axis.low)
        return _LEFT + share * (self.width - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        axis = self.y_axis
        share = (max(value, axis.low) - axis.low) / (axis.high - axis.low)
        return self.height - _BOTTOM - share * (self.height - _TOP - _BOTTOM)

    def draw(self) -> list[str]:
        """Return the SVG elements of grid, ticks and axis titles."""
        left, right, bottom, top = _LEFT, self.width - _RIGHT, self.height - _BOTTOM, _TOP
        parts = []
        for tick in (t for t in self.y_axis.ticks if t >= self.y_axis.low):
            at = self.y(tick)
            parts.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}"/>')
            parts.append(f'<text class="tick" x="{left - 7}" y="{at + 4:.1f}" text-anchor="end">{tick:g}</text>')
        for tick in self.x_axis.ticks:
            at = self.x(tick)
            parts.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{top}" y2="{bottom}"/>')
            parts.append(f'<text class="tick" x="{at:.1f}" y="{bottom + 16}" text-anchor="middle">{tick:g}</text>')
        parts.append(f'<text class="axis" x="{(left + right) / 2}" y="{self.height - 6}" text-anchor="middle">'
                     f"{escape(self.x_axis.title)}</text>")  # fmt: skip
        parts.append(f'<text class="axis" x="14" y="{(top + bottom) / 2}" text-anchor="middle" '
                     f'transform="rotate(-90 14 {(top + bottom) / 2})">{escape(self.y_axis.title)}</text>')  # fmt: skip
        return parts


def draw_scatter(series: Sequence[Series], x: Axis, y: Axis, *, title: str, size: tuple[int, int] = SMALL_SIZE) -> str:
    """Return an SVG chart of points and curves; hovering over a point shows its name and values."""
    frame = _Frame(x, y, size)
    parts = [f'<svg viewBox="0 0 {size[0]} {size[1]}" role="img" aria-label="{escape(title)}">', *frame.draw()]
    taken: list[tuple[float, float, float]] = []
    for one in series:
        points = [(frame.x(a), frame.y(b)) for a, b in one.points]
        if one.line and len(points) > 1:
            path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
            dash = ' stroke-dasharray="5 4"' if one.dashed else ""
            parts.append(f'<polyline points="{path}" fill="none" stroke="{one.colour}" stroke-width="1.8"{dash}/>')
        for number, ((a, b), (value_x, value_y)) in enumerate(zip(points, one.points, strict=True)):
            if one.marks:
                ring = one.ring and number == len(points) - 1
                fill = (
                    f'fill="var(--page)" stroke="{one.colour}" stroke-width="2.6"' if ring else f'fill="{one.colour}"'
                )
                parts.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="{5.5 if ring else 3.6}" {fill}>'
                             f"<title>{escape(one.name)}: {value_x:.2f}, {value_y:.2f}</title></circle>")  # fmt: skip
    for one in series:
        if one.label and one.points:
            parts.append(_draw_label(one, frame, taken))
    return "\n".join([*parts, "</svg>"])


def _draw_label(one: Series, frame: _Frame, taken: list[tuple[float, float, float]]) -> str:
    """Return the name of a series beside its last point, moved up or down until it overlaps no other label."""
    a, b = frame.x(one.points[-1][0]), frame.y(one.points[-1][1])
    wide = 6.1 * len(one.name)
    left = a + 9 + wide > frame.width - _RIGHT
    start = a - 9 - wide if left else a + 9
    at = b + 4
    for step in (0, -12, 12, -24, 24, -36, 36, -48, 48, 60, -60):
        if all(abs(b + 4 + step - y) > 11 or start > x + w or start + wide < x for x, y, w in taken):
            at = b + 4 + step
            break
    at = max(at, 11)
    taken.append((start, at, wide))
    return f'<text class="name" x="{start:.1f}" y="{at:.1f}" fill="{one.colour}">{escape(one.name)}</text>'


@dataclass(slots=True, kw_only=True)
class Bar:
    """One row of stacked parts."""

    name: str
    parts: Sequence[tuple[str, float]]
    """(what it is, share)."""


def draw_stacked_bars(bars: Sequence[Bar], colours: dict[str, str], *, title: str, least: float = 0.0) -> str:
    """Return an SVG chart of horizontal stacked bars from `least` to 1, with a legend."""
    row, left, top = 19, 148, 30
    height, width = top + row * len(bars) + 22, SMALL_SIZE[0]
    scale = (width - left - 16) / (1 - least)
    parts = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">']
    place = left
    for name, colour in colours.items():
        parts.append(f'<rect x="{place}" y="6" width="11" height="11" rx="2" fill="{colour}"/>')
        parts.append(f'<text class="tick" x="{place + 16}" y="16">{escape(name)}</text>')
        place += 30 + int(6.3 * len(name))
    for number, bar in enumerate(bars):
        y, at = top + row * number, 0.0
        parts.append(f'<text class="name" x="{left - 8}" y="{y + 12}" text-anchor="end">{escape(bar.name)}</text>')
        for what, share in bar.parts:
            low, high = max(at, least), max(at + share, least)
            at += share
            if high > low:
                parts.append(f'<rect x="{left + (low - least) * scale:.1f}" y="{y}" width="{(high - low) * scale:.1f}" '
                             f'height="14" fill="{colours[what]}"><title>{escape(bar.name)}: {escape(what)} {share:.3f}'
                             "</title></rect>")  # fmt: skip
    for tick in (least, (1 + least) / 2, 1.0):
        parts.append(f'<text class="tick" x="{left + (tick - least) * scale:.1f}" y="{height - 6}" '
                     f'text-anchor="middle">{tick:g}</text>')  # fmt: skip
    return "\n".join([*parts, "</svg>"])
