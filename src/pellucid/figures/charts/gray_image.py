"""A small gray image as SVG of its own: no file beside it, sharp at every size."""

from collections import defaultdict
from itertools import groupby

LEVELS = 32  # of gray that are told apart; more would be longer and look the same

Pixels = tuple[tuple[int, ...], ...]


def gray_image(pixels: Pixels, x: float, y: float, size: float) -> str:
    """The image in a square of that size, its shape kept; neighbours of one gray in a row are one stroke.

    >>> print(gray_image(((0, 0), (255, 0)), 0, 0, 20))
    <g transform="translate(0.0 0.0) scale(10)" shape-rendering="crispEdges"><path stroke="#000000"
    d="M0 0.5h2M1 1.5h1"/><path stroke="#ffffff" d="M0 1.5h1"/></g>
    """
    width, height = max([len(row) for row in pixels]), len(pixels)
    scale = size / max(width, height)
    strokes: dict[int, list[str]] = defaultdict(list)
    for top, row in enumerate(pixels):
        left = 0
        for level, run in groupby([_level(gray) for gray in row]):
            length = len(list(run))
            strokes[level].append(f"M{left} {top}.5h{length}")
            left += length
    paths = [f'<path stroke="{_colour(level)}" d="{"".join(strokes[level])}"/>' for level in sorted(strokes)]
    across, down = x + (size - width * scale) / 2, y + (size - height * scale) / 2
    return (
        f'<g transform="translate({across:.1f} {down:.1f}) scale({scale:g})" shape-rendering="crispEdges">'
        f"{''.join(paths)}</g>"
    )


def _level(gray: int) -> int:
    return round(min(max(gray, 0), 255) * (LEVELS - 1) / 255)


def _colour(level: int) -> str:
    return "#" + f"{round(level * 255 / (LEVELS - 1)):02x}" * 3
