"""What a watch saw of someone's own loop, in a terminal: the findings, and every layer at the last look."""

from collections.abc import Iterator
from statistics import median

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pellucid.figures.words.diagnosis import findings_parts
from pellucid.figures.words.model_facts import cut, show, table
from pellucid.figures.words.numbers import counted
from pellucid.records import Health, Watched

PICTURES = ("layer-histograms", "update-ratios", "gradient-norms", "unit-maps")  # that can be drawn of a watch
MOST_ROWS = 24


def show_watched(seen: Watched) -> None:
    """Print the watch on stdout."""
    show(*_parts(seen))


def _parts(seen: Watched) -> Iterator[RenderableType]:
    looks = counted(len(seen.health), "look")
    yield Text(cut(f"{seen.name}: {counted(len(seen.steps), 'step')}, {looks}", 110), "bold")
    yield from findings_parts(seen.findings)
    if seen.health:
        last = seen.health[-1]
        yield Text(f"\nLayers at step {last.step:,}", "bold")
        yield Padding(_layers(last), (0, 0, 0, 2), expand=False)
        n_more = len(last.layers) - MOST_ROWS
        if n_more > 0:
            yield Text(f"  … and {n_more:,} more in .report().health", "dim")
        yield from _updates(seen)


def _layers(look: Health) -> Table:
    listing = table(
        ("layer", "left"), ("kind", "left"), ("units", "right"), ("mean", "right"), ("deviation", "right"),
        ("flat", "right"), ("gradient's deviation", "right"),
    )  # fmt: skip
    for layer in look.layers[:MOST_ROWS]:
        flat = "" if layer.saturated is None else f"{100 * layer.saturated:.1f} %"
        numbers = f"{layer.width:,}", f"{layer.mean:.3f}", f"{layer.deviation:.3f}", flat
        listing.add_row(cut(layer.path, 40), cut(layer.kind, 20), *numbers, f"{layer.gradient_deviation:.1e}")
    return listing


def _updates(seen: Watched) -> Iterator[RenderableType]:
    """The middle of all updates of each matrix, of the one that moves least to the one that moves most."""
    moved: dict[str, list[float]] = {}
    for look in seen.health:
        for weight in look.weights:
            if len(weight.shape) >= 2 and weight.update_ratio > 0:
                moved.setdefault(weight.path, []).append(weight.update_ratio)
    if moved:
        ratios = sorted((median(each), path) for path, each in moved.items())
        (least, at_least), (most, at_most) = ratios[0], ratios[-1]
        yield Text(
            f"\nupdates of {least:.1e} ({cut(at_least, 40)}) to {most:.1e} ({cut(at_most, 40)}) of the matrices' own "
            "size, where about 1e-3 is usual"
        )
