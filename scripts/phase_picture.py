"""The tutorial's picture: tokens per tier and phase of each request of one session under `balanced`."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from danshari.analysis.phases import PHASES
from danshari.analysis.tiers import TIERS, tier_of
from danshari.cli.report import bundled_sessions
from danshari.compactor import Compactor
from danshari.formats import find_format
from danshari.replay.prompt_cache import request_boundaries
from danshari.sessions import read

TIER_COLOURS = {"conclusion": "#2a9d8f", "evidence": "#e9c46a", "process": "#8ab4d8", "transient": "#b8a6c9"}
PHASE_COLOURS = {"explore": "#5b8fd6", "locate": "#7b6fc4", "repair": "#d1495b", "verify": "#3a9d5d"}
LEFT, WIDTH, BASE, TOP, RIGHT = 60, 940, 300, 70, 190


class RequestMoment(NamedTuple):
    """One request: its phase, the view's tokens by tier, and the tokens of the full history."""

    phase: str
    tiers: Counter[str]
    full: float


def replay_moments() -> list[RequestMoment]:
    """Replay the session and return one moment per request."""
    session = next(iter(read(next(p for p in bundled_sessions() if p.stem == "shop-anthropic"))))
    engine = Compactor("balanced", model=session.model, format=session.format, clock=lambda: 0.0)
    found = []
    for at in request_boundaries(session, find_format(session.format)):
        result = engine.compact(session.messages[:at])
        track = engine._run.state.track
        assert track is not None
        tiers: Counter[str] = Counter()
        for place, size in enumerate(track.sizes):
            tiers[tier_of(track.facts, place)] += size  # type: ignore[assignment]
        found.append(RequestMoment(result.signals.phase, tiers, track.facts.total))
    return found


def draw_phase_picture() -> str:
    """Return the picture as SVG."""
    shown = replay_moments()
    top = max(m.full for m in shown)
    step = (WIDTH - LEFT - RIGHT) / len(shown)

    def y(tokens: float) -> float:
        return BASE - (BASE - TOP) * tokens / top

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} 340" role="img" '
        'aria-label="phases and tiers of one session, request by request">',
        "<style>text{font:13px system-ui,sans-serif;fill:#57606a}.t{font-weight:600;font-size:15px}"
        "@media(prefers-color-scheme:dark){text{fill:#c9d1d9}}</style>",
        f'<text class="t" x="{LEFT}" y="22">What each request carries, by tier; the phase above it</text>',
    ]
    for number, moment in enumerate(shown):
        x, below = LEFT + number * step, 0.0
        parts.append(
            f'<rect x="{x:.1f}" y="40" width="{step + 0.3:.1f}" height="14" fill="{PHASE_COLOURS[moment.phase]}"/>'
        )
        for tier in TIERS:
            size = moment.tiers[tier]
            low, high = y(below + size), y(below)
            parts.append(f'<rect x="{x:.1f}" y="{low:.1f}" width="{step + 0.3:.1f}" height="{high - low:.1f}" '
                         f'fill="{TIER_COLOURS[tier]}"/>')  # fmt: skip
            below += size
    points = " ".join(f"{LEFT + (n + 0.5) * step:.1f},{y(m.full):.1f}" for n, m in enumerate(shown))
    parts.append(f'<polyline points="{points}" fill="none" stroke="#8a8f98" stroke-width="2" stroke-dasharray="5 4"/>')
    for share in (0, 0.5, 1):
        parts.append(
            f'<text x="{LEFT - 8}" y="{y(top * share) + 4:.0f}" text-anchor="end">{top * share / 1000:.0f}k</text>'
        )
    parts += _legend()
    parts.append(f'<text x="{LEFT}" y="{BASE + 22}">request 1</text>')
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{BASE + 22}" text-anchor="end">request {len(shown)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend() -> list[str]:
    """Return the SVG elements of the legend."""
    x, parts = WIDTH - RIGHT + 16, []
    for place, (name, colour) in enumerate(
        [*((p, PHASE_COLOURS[p]) for p in PHASES), *((t, TIER_COLOURS[t]) for t in TIERS)]
    ):
        at = 52 + 22 * place + (26 if place >= len(PHASES) else 0)
        parts.append(f'<rect x="{x}" y="{at - 11}" width="12" height="12" rx="3" fill="{colour}"/>')
        parts.append(f'<text x="{x + 20}" y="{at}">{name}</text>')
    parts.append(
        f'<line x1="{x}" x2="{x + 14}" y1="{BASE - 6}" y2="{BASE - 6}" stroke="#8a8f98" stroke-width="2" stroke-dasharray="5 4"/>'
    )
    parts.append(f'<text x="{x + 20}" y="{BASE - 2}">the full history</text>')
    return parts
