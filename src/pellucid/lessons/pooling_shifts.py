"""Pooling and shifts: how much of what a CNN learned survives when the image is moved by a few pixels.

Three networks with the same windows and the same number of weights differ in how they halve their maps: the largest of
2 × 2 places, their mean, or a window that goes in steps of 2 and leaves places out. All are trained on digits in the
middle of a larger canvas, and read digits that are moved; nothing moved was ever trained on.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pellucid.figures.charts.panel import BOTTOM, LEFT, Axis, Panel, Point
from pellucid.figures.charts.svg import BLUE, COLOURS, INK, LINE, ORANGE, line_key, move_marks, pixel_image, svg_text
from pellucid.figures.picture import Picture, picture
from pellucid.figures.words.notation import count_of, join_words, percent
from pellucid.lessons.lesson import Lesson, seed_knob
from pellucid.options import check_options, option
from pellucid.records.answers import Colours

if TYPE_CHECKING:
    from torch import Tensor, nn

POOLINGS = ("max", "average", "strided")
STYLES: Mapping[str, tuple[str, str]] = {"max": (BLUE, ""), "average": (ORANGE, "9 5"), "strided": (COLOURS[2], "3 5")}
WAYS = ((0, 1), (0, -1), (1, 0), (-1, 0))  # down and to the right
BATCH, LEARNING_RATE, CHANNELS = 64, 3e-3, 8
WIDTH, HEIGHT, TOP, CANVAS = 560.0, 360.0, 40.0, 110.0


@dataclass(frozen=True)
class PoolingShiftKnobs:
    pooling: str = option("all", "How maps are halved", choices=("all", *POOLINGS))
    shift: int = option(3, "Pixels by which images are moved at most.", minimum=1, maximum=8)
    steps: int = option(300, "Steps of each training.", minimum=1, maximum=10_000)
    trainings: int = option(3, "Trainings of each network, for intervals.", minimum=1, maximum=20)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


class ShiftCurve(NamedTuple):
    """One way to halve maps: the share told right at each shift."""

    kind: str  # one of POOLINGS
    means: tuple[float, ...]  # over the trainings
    reaches: tuple[float, ...]  # of the 95 % interval to either side; nan where one training tells none


class ShiftStudy(NamedTuple):
    """CNNs that differ in their pooling, on images that are moved."""

    side: int  # pixels of the canvas
    parameters: int  # of each network
    n_images: int  # held out, each moved in four directions
    steps: int
    trainings: int
    curves: tuple[ShiftCurve, ...]
    pixels: tuple[Colours, ...]  # of one image, moved by 0, 1, … pixels to the right


def measure(knobs: PoolingShiftKnobs) -> ShiftStudy:
    """Train each network from several seeds, and read the held-out digits moved in all four directions.

    >>> study = measure(PoolingShiftKnobs(pooling="max", shift=1, steps=2, trainings=1))
    >>> study.side, study.parameters, len(study.curves[0].means)
    (10, 2698, 2)
    """
    from pellucid.data.readers.images import colours_of
    from pellucid.records.intervals import student_factor

    (images, classes), (held, truths), pixels = _read_digits(knobs.shift)
    side, n = images.shape[-1], knobs.trainings
    curves, parameters = [], 0
    for pooling in POOLINGS if knobs.pooling == "all" else (knobs.pooling,):
        shares = []
        for place in range(n):
            model = _train(
                build_cnn(pooling, side, knobs.seed + place), images, classes, knobs.steps, knobs.seed + place
            )
            shares.append([share_right_when_moved(model, held, truths, shift) for shift in range(knobs.shift + 1)])
            parameters = sum(one.numel() for one in model.parameters())
        by_shift = list(zip(*shares, strict=True))
        reaches = [
            student_factor(n - 1) * statistics.stdev(one) / math.sqrt(n) if n > 1 else math.nan for one in by_shift
        ]
        curves.append(ShiftCurve(pooling, tuple(map(statistics.fmean, by_shift)), tuple(reaches)))
    moved = [move_images(pixels, (0, shift))[0, 0] for shift in range(knobs.shift + 1)]
    shown = tuple(colours_of(one.numpy().astype("uint8")) for one in moved)
    return ShiftStudy(side, parameters, len(held), knobs.steps, n, tuple(curves), shown)


def _read_digits(shift: int) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor], Tensor]:
    """Train, and what is held out, on a canvas with room for the shift; and the first of those as pixels."""
    import torch
    from torch.nn import functional

    from pellucid.data import open_data
    from pellucid.data.kinds import PixelsData
    from pellucid.data.prepare import ImagePreparation, image_sides

    data = open_data("digits")
    assert isinstance(data, PixelsData)
    sides = image_sides(data)
    assert isinstance(sides.preparation, ImagePreparation)
    border = (shift,) * 4
    paper = -sides.preparation.mean[0] / sides.preparation.deviation[0]  # what a pixel of 0 is to the network

    def on_canvas(numbers: Tensor) -> Tensor:
        return functional.pad(numbers, border, value=paper)

    train = on_canvas(torch.from_numpy(sides.train.numbers)), torch.from_numpy(sides.train.targets)
    both = [[torch.from_numpy(part) for part in (side.numbers, side.targets)] for side in (sides.dev, sides.test)]
    held, truths = (torch.cat(parts) for parts in zip(*both, strict=True))
    first = torch.from_numpy(data.pixels[sides.places["dev"][:1]].astype("int16"))[:, None]
    return train, (on_canvas(held), truths), functional.pad(first, border)


def build_cnn(pooling: str, side: int, seed: int) -> nn.Sequential:
    """Twice a window of 3 × 3 and a halving, then a linear layer: (batch, 1, side, side) -> (batch, 10)."""
    from torch import nn

    from pellucid.training.rng import seed_torch

    quarter = (side + 3) // 4  # half of the half, each rounded up
    layers: list[nn.Module] = []
    with seed_torch(seed, 0, "weights"):
        for before, after in ((1, CHANNELS), (CHANNELS, 2 * CHANNELS)):
            layers.append(nn.Conv2d(before, after, 3, stride=2 if pooling == "strided" else 1, padding=1))
            layers.append(nn.ReLU())
            if pooling != "strided":
                kind = nn.MaxPool2d if pooling == "max" else nn.AvgPool2d
                layers.append(kind(2, ceil_mode=True))
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(2 * CHANNELS * quarter**2, 10))


def _train(model: nn.Sequential, images: Tensor, classes: Tensor, steps: int, seed: int) -> nn.Sequential:
    """Adam on batches that are drawn by the seed; no image is moved."""
    import torch
    from torch.nn import functional

    from pellucid.training.rng import torch_rng

    draw_rows, optimizer = torch_rng(seed, 0, "batches"), torch.optim.Adam(model.parameters(), LEARNING_RATE)
    for _ in range(steps):
        rows = torch.randint(len(images), (BATCH,), generator=draw_rows)
        optimizer.zero_grad()
        functional.cross_entropy(model(images[rows]), classes[rows]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return model.eval()


def share_right_when_moved(model: nn.Module, images: Tensor, truths: Tensor, shift: int) -> float:
    """Of images that are moved by so many pixels, in each of four directions: the share told right."""
    import torch

    with torch.inference_mode():
        right = [
            (model(move_images(images, (down * shift, across * shift))).argmax(1) == truths).double().mean()
            for down, across in (WAYS if shift else WAYS[:1])
        ]
        return float(torch.stack(right).mean())


def move_images(images: Tensor, by: tuple[int, int]) -> Tensor:
    """Images, (..., height, width), whose border is empty, moved down and to the right.

    >>> import torch
    >>> move_images(torch.tensor([[0, 5, 0]]), (0, 1))
    tensor([[0, 0, 5]])
    """
    return images.roll(by, (-2, -1))


def draw(record: ShiftStudy) -> Picture:
    """An image as it is moved, and the share told right against the shift."""
    n_shown = len(record.pixels)
    marks: list[str] = []
    for shift, image in enumerate(record.pixels):
        frame = f'<rect width="{CANVAS:.0f}" height="{CANVAS:.0f}" fill="none" stroke="{LINE}"/>'
        words = svg_text(0, -8, f"moved by {shift}", INK)
        across, down = shift % 4, shift // 4
        marks += move_marks(
            [words, pixel_image(image, CANVAS, CANVAS), frame],
            LEFT + across * (CANVAS + 34),
            24 + down * (CANVAS + 34),
        )
    top = 24 + -(-n_shown // 4) * (CANVAS + 34) + 20
    key = [(190.0 * i, *STYLES[curve.kind], 3.0, _name(curve.kind)) for i, curve in enumerate(record.curves)]
    marks += move_marks(line_key(key, LEFT), 0, top)
    marks += _panel(record).draw(0, top + TOP)
    title = "What a shift of the image does to a CNN, by its pooling"
    width = LEFT + max(WIDTH + 90, min(4, n_shown) * (CANVAS + 34))
    return picture(title, _captions(record), marks, width, top + TOP + HEIGHT + BOTTOM)


def _name(pooling: str) -> str:
    return {"max": "max pooling", "average": "average pooling", "strided": "strided window"}[pooling]


def _panel(record: ShiftStudy) -> Panel:
    last = len(record.pixels) - 1
    x = Axis(-0.06 * last, 1.06 * last, "shift, pixels")
    panel = Panel(x, Axis(0.0, 1.04, "share told right"), WIDTH, HEIGHT)
    for i, curve in enumerate(record.curves):
        colour, dash = STYLES[curve.kind]
        aside = 0.012 * last * (i - (len(record.curves) - 1) / 2)  # so that no interval covers another
        points: list[Point] = [(shift + aside, share) for shift, share in enumerate(curve.means)]
        for (shift, share), reach in zip(points, curve.reaches, strict=True):
            if math.isfinite(reach) and reach:
                ends = [(shift, max(0.0, share - reach)), (shift, min(1.0, share + reach))]
                panel.line(ends, colour, width=7.0, fade=0.3, says="95 % interval of the mean")
        panel.line(points, colour, dash=dash, says=_name(curve.kind))
        for place, (shift, share) in enumerate(points):
            panel.dot(shift, share, colour, size=5.0, says=f"{_name(curve.kind)}, {place}: {percent(share)}")
    panel.ends([(curve.means[-1], percent(curve.means[-1]), STYLES[curve.kind][0]) for curve in record.curves])
    return panel


def _captions(record: ShiftStudy) -> list[str]:
    told = [
        f"{_name(one.kind)} {join_words([_share_words(*both) for both in zip(one.means, one.reaches, strict=True)])}"
        for one in record.curves
    ]
    last = len(record.pixels) - 1
    moved = f"moved by {join_words([str(shift) for shift in range(last + 1)])} pixels"
    lines = [
        f"Digits on a canvas of {record.side}×{record.side} pixels, {record.parameters:,} parameters each, "
        f"{count_of(record.steps, 'step')} on digits in the middle; read on {record.n_images:,} others, moved in all "
        "four directions.",
        f"Told right, {moved}: {'; '.join(told)}"
        + (f". Means of {record.trainings} trainings with 95 % intervals." if record.trainings > 1 else "."),
    ]
    best = max(record.curves, key=lambda one: one.means[1])
    if len(record.curves) > 1:
        worst = min(record.curves, key=lambda one: one.means[1])
        lost = [f"{100 * (one.means[0] - one.means[1]):.2f}".replace("-", "−") for one in (best, worst)]
        lines.append(
            f"One pixel, an eighth of a digit, costs {lost[0]} points with {_name(best.kind)}, and "
            f"{lost[1]} with {_name(worst.kind)}."
        )
    return lines


def _share_words(share: float, reach: float) -> str:
    return f"{percent(share)} ± {100 * reach:.2f}" if math.isfinite(reach) else percent(share)


LESSON = Lesson(
    name="pooling-shifts",
    summary="CNNs with max pooling, average pooling and strided windows, on images that are moved by a few pixels.",
    measure=measure,
    draw=draw,
    knobs=PoolingShiftKnobs,
)
