"""A vision transformer on images of another size: its learned positions, interpolated to the new grid or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from pellucid.figures.charts.matrix import balance_key, balanced_colours, heat_map
from pellucid.figures.charts.panel import BOTTOM, LEFT, Axis, Panel, Point
from pellucid.figures.charts.svg import BLUE, INK, ORANGE, QUIET, line_key, move_marks, svg_text
from pellucid.figures.picture import Picture, picture
from pellucid.figures.words.notation import count_of, join_words, percent
from pellucid.lessons.lesson import Lesson, seed_knob, train_small_run
from pellucid.options import check_options, option
from pellucid.records.answers import Matrix, as_matrix

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from pellucid.models.examples.vit import ViT

WIDTH, HEIGHT, MAP, GAP, TOP = 480.0, 340.0, 180.0, 30.0, 66.0
SETTINGS = MappingProxyType({"model": "vit", "kind": "images", "size": "tiny", "threads": 1})
CHANCE = 0.1  # one of ten digits
WAYS = (("interpolated", BLUE, ""), ("in reading order", ORANGE, "9 5"), ("without", QUIET, "3 5"))


@dataclass(frozen=True)
class ResolutionKnobs:
    seed: int = seed_knob()
    steps: int = option(600, "Steps of the training on 8×8 pixels.", minimum=1, maximum=20_000)
    patch: int = option(2, "Patch size in pixels, in images of every size.", minimum=1, maximum=4)
    sizes: tuple[float, ...] = option(
        (6, 8, 10, 12, 16), "Sides of the images that are read, in pixels.", minimum=4, maximum=64, example="8,12,16"
    )

    def __post_init__(self) -> None:
        check_options(self)


class ResolutionResult(NamedTuple):
    """Images of one size: the share told right with each way to place the learned positions."""

    side: int  # pixels
    grid: tuple[int, int]  # of patches
    interpolated: float
    in_order: float  # one after another, as the table has them; further patches have none
    without: float


class ResolutionStudy(NamedTuple):
    """A vision transformer that was trained on one size, on images of others."""

    source: str
    side: int  # that it was trained on
    grid: tuple[int, int]
    patch: int
    n_images: int  # held out, at each size
    results: tuple[ResolutionResult, ...]
    learned: Matrix  # the positions by the direction in which they differ most
    interpolated: Matrix  # the same on the grid of the largest size
    in_order: Matrix


def measure(knobs: ResolutionKnobs) -> ResolutionStudy:
    """Train on digits of 8×8 pixels, then read them in other sizes, which are made by interpolating the pixels."""
    import torch

    with train_small_run(
        {**SETTINGS, "steps": knobs.steps, "network": {"patch": knobs.patch}}, knobs.seed, "digits"
    ) as (
        report,
        folder,
    ):
        model = _load_vit(folder)
    images, truths = _held_out()
    own = model.config.grid
    with torch.inference_mode():
        learned = model.where(own)
        assert learned is not None
        sides = sorted({round(side) for side in knobs.sizes})
        results = [_read_at(model, images, truths, side) for side in sides]
        axis = _main_axis(learned[1:])
        largest = results[-1].grid
        placed = place_positions(learned, own, largest)
        maps = [
            (where[1:] @ axis).reshape(grid)
            for where, grid in ((learned, own), *((one, largest) for one in placed[:2]))
        ]
    return ResolutionStudy(
        source=f"A vit of {report.network.parameters:,} parameters, {knobs.steps:,} steps on digits, seed {knobs.seed}",
        side=model.config.numbers[1],
        grid=own,
        patch=knobs.patch,
        n_images=len(images),
        results=tuple(results),
        learned=as_matrix(maps[0]),
        interpolated=as_matrix(maps[1]),
        in_order=as_matrix(maps[2]),
    )


def place_positions(learned: Tensor, old: tuple[int, int], new: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor]:
    """The positions of a class token and an old grid on a new one: interpolated, in reading order, and not at all.

    learned: (1 + old rows · columns, width) -> three times (1 + new rows · columns, width).

    >>> import torch
    >>> [where.flatten().tolist() for where in place_positions(torch.tensor([[9.0], [0.0], [2.0]]), (1, 2), (1, 3))]
    [[9.0, 0.0, 1.0, 2.0], [9.0, 0.0, 2.0, 0.0], [9.0, 0.0, 0.0, 0.0]]
    """
    from pellucid.layers.positions.encodings import resize_grid

    n = 1 + new[0] * new[1]
    in_order, without = learned.new_zeros(n, learned.shape[1]), learned.new_zeros(n, learned.shape[1])
    in_order[: len(learned)] = learned[:n]
    without[0] = learned[0]
    return (learned if old == new else resize_grid(learned, old, new, n_apart=1)), in_order, without


def _load_vit(folder: Path) -> ViT:
    """In double precision, so that what is told does not depend on the machine's kernels."""
    from pellucid.models.examples.vit import ViT
    from pellucid.runs import open_run
    from pellucid.training.checkpoints import load_network

    model = load_network(open_run(folder))[0].for_inference().double()
    assert isinstance(model, ViT)
    return model


def _held_out() -> tuple[Tensor, Tensor]:
    """The digits that it was not trained on, dev and test: (n, 1, 8, 8), and their classes."""
    import torch

    from pellucid.data import open_data
    from pellucid.data.kinds import PixelsData
    from pellucid.data.prepare import image_sides

    data = open_data("digits")
    assert isinstance(data, PixelsData)
    sides = image_sides(data)
    both = [[torch.from_numpy(part) for part in (side.numbers, side.targets)] for side in (sides.dev, sides.test)]
    images, truths = (torch.cat(parts) for parts in zip(*both, strict=True))
    return images.double(), truths


def _read_at(model: ViT, images: Tensor, truths: Tensor, side: int) -> ResolutionResult:
    from torch.nn import functional

    from pellucid.layers.convolution import grid_of

    grid = grid_of(side, side, model.config.patch)
    resized = functional.interpolate(images, (side, side), mode="bilinear", antialias=side < images.shape[2])
    learned = model.where(model.config.grid)
    assert learned is not None
    shares = [
        float((_scores(model, resized, where).argmax(1) == truths).double().mean())
        for where in place_positions(learned, model.config.grid, grid)
    ]
    return ResolutionResult(side, grid, *shares)


def _scores(model: ViT, images: Tensor, where: Tensor) -> Tensor:
    """What the network says of images when its tokens get these positions: (n, classes)."""
    import torch

    vectors = model.patches(images)
    stream = torch.cat([model.class_token.expand(len(vectors), 1, -1), vectors], dim=1) + where
    for block in model.blocks:
        stream = block(stream)
    scores: Tensor = model.head(model.summary(model.norm(stream[:, 0])))
    return scores


def _main_axis(positions: Tensor) -> Tensor:
    """The direction in which positions, (n, width), differ most; its largest part is positive."""
    import torch

    _, _, axes = torch.linalg.svd(positions - positions.mean(0), full_matrices=False)
    axis: Tensor = axes[0] * axes[0, axes[0].abs().argmax()].sign()
    return axis


def draw(record: ResolutionStudy) -> Picture:
    """The positions on both grids, and below them what share is told right at each size."""
    largest = record.results[-1]
    maps = (
        (record.learned, f"learned, {_grid_words(record.grid)}"),
        (record.interpolated, f"interpolated to {_grid_words(largest.grid)}"),
        (record.in_order, f"in reading order on {_grid_words(largest.grid)}"),
    )
    most = max([abs(value) for rows, _ in maps for row in rows for value in row]) or 1.0
    marks = balance_key(f"−{most:.2g}", f"{most:.2g}")
    for i, (rows, words) in enumerate(maps):
        drawn = heat_map(rows, balanced_colours(most), MAP / max(len(rows), len(rows[0])), (), ())
        marks += move_marks([svg_text(0, -10, words, INK), *drawn.marks], i * (MAP + 60), TOP + 20)
    top = TOP + MAP + 70
    marks += move_marks(
        line_key([(210.0 * i, colour, dash, 3.0, way) for i, (way, colour, dash) in enumerate(WAYS)], LEFT), 0, top
    )
    marks += _accuracy_panel(record).draw(0, top + 40)
    title = "Positions of a vision transformer on images of another size"
    return picture(title, _captions(record), marks, max(3 * (MAP + 60), LEFT + WIDTH + 120), top + 40 + HEIGHT + BOTTOM)


def _accuracy_panel(record: ResolutionStudy) -> Panel:
    sides = [result.side for result in record.results]
    reach = max(1.0, 0.06 * (sides[-1] - sides[0]))
    panel = Panel(
        Axis(sides[0] - reach, sides[-1] + reach, "side of the images, pixels"),
        Axis(0.0, 1.04, "share told right"),
        WIDTH,
        HEIGHT,
    )
    panel.upright(record.side, INK, "2 5")
    panel.words(panel.at(record.side, 0.0)[0], -6, "trained", QUIET, align="middle")
    panel.across(CHANCE, QUIET, "2 5")
    for way, colour, dash in WAYS:
        points: list[Point] = [(result.side, _share_by_way(result, way)) for result in record.results]
        panel.line(points, colour, dash=dash, says=way)
        for side, share in points:
            panel.dot(
                side,
                share,
                colour,
                size=5.0,
                is_hollow=way != "interpolated",
                says=f"{side:g} pixels, {way}: {percent(share)}",
            )
    panel.ends([(CHANCE, "guessing", QUIET)])
    return panel


def _share_by_way(result: ResolutionResult, way: str) -> float:
    """The share told right when positions are placed in this way."""
    return {"interpolated": result.interpolated, "in reading order": result.in_order, "without": result.without}[way]


def _grid_words(grid: Sequence[int]) -> str:
    return " × ".join([str(side) for side in grid])


def _captions(record: ResolutionStudy) -> list[str]:
    own = next((result for result in record.results if result.side == record.side), None)
    others = [result for result in record.results if result.side != record.side]
    lines = [
        f"{record.source}, on images of {record.side}×{record.side} pixels in patches of {record.patch}: a grid of "
        f"{_grid_words(record.grid)}. Above, each position by the direction in which they differ most.",
        f"Of {count_of(record.n_images, 'image')} that it was not trained on, in the size that it knows "
        + (f"{percent(own.interpolated)} are told right." if own else "none were read."),
    ]
    if others:
        sizes = join_words([str(result.side) for result in others])
        told = [f"{way} {join_words([percent(_share_by_way(one, way)) for one in others])}" for way, *_ in WAYS]
        lines.append(f"Resized to {sizes} pixels, and nothing trained again: with positions {'; '.join(told)}.")
    return lines


LESSON = Lesson(
    name="vit-resolution",
    summary="A vision transformer on images of another size: positions interpolated, in reading order, and without.",
    measure=measure,
    draw=draw,
    knobs=ResolutionKnobs,
    figure_of_run="vit-positions",
)
