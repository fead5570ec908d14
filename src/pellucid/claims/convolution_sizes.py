"""Sizes of convolutions: what windows leave of an image, what a small CNN learns with, and code for it that must run.

The CNN reads gray images of 32 × 32: 8 filters of 5 × 5, a mean over 4 × 4, 16 filters of 4 × 4 with one place of
padding, a mean over 2 × 2, and a linear layer to ten scores. As it is printed, its code lacks a comma behind each of
the two poolings, so Python does not even begin with it: what is said of its sizes holds once both are put back.
"""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search, yes
from pellucid.layers.convolution import count_windows
from pellucid.models.examples.configs import CNNConfig
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor

    from pellucid.models.examples.cnn import CNN

CHANNELS, SIDE, SCORES = 16, 3, 10  # what the head reads, and how many scores it gives
# Digits that the authors of both sets say they have: Netzer et al. 2011, LeCun et al. 1998.
SVHN = {"train": 73_257, "test": 26_032, "extra": 531_131}
MNIST = 60_000 + 10_000


@dataclass(frozen=True)
class UnequalWindowKnobs:
    rows: int = option(128, "Rows of the input.", minimum=1, maximum=10_000)
    columns: int = option(128, "Columns of the input.", minimum=1, maximum=10_000)
    row_kernel: int = option(3, "Rows of the filter.", minimum=1, maximum=100)
    column_kernel: int = option(5, "Columns of the filter.", minimum=1, maximum=100)
    row_stride: int = option(1, "Stride along the rows.", minimum=1, maximum=100)
    column_stride: int = option(3, "Stride along the columns.", minimum=1, maximum=100)

    def __post_init__(self) -> None:
        check_options(self)


def measure_unequal_window(knobs: UnequalWindowKnobs) -> Numbers:
    """Rows and columns of the output, by the arithmetic of windows along each side."""
    return {
        "rows": float(count_windows(knobs.rows, knobs.row_kernel, knobs.row_stride).length),
        "columns": float(count_windows(knobs.columns, knobs.column_kernel, knobs.column_stride).length),
    }


def run_unequal_window(knobs: UnequalWindowKnobs) -> Numbers:
    """The shape that torch's convolution gives."""
    import torch
    from torch import nn

    with torch.device("meta"):
        window = nn.Conv2d(1, 1, (knobs.row_kernel, knobs.column_kernel), (knobs.row_stride, knobs.column_stride))
        out = window(torch.empty(1, 1, knobs.rows, knobs.columns))
    return {"rows": float(out.shape[2]), "columns": float(out.shape[3])}


@dataclass(frozen=True)
class SmallCNNKnobs:
    channels: int = option(1, "Channels of the image: 1 is gray, 3 is colour.", minimum=1, maximum=100)
    padding: int = option(1, "Padding of the second convolution.", minimum=0, maximum=1)

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def config(self) -> CNNConfig:
        return CNNConfig((self.channels, 32, 32), (), SCORES, paddings=(0, self.padding))


LAYERS = ("Conv-1", "AvgPool-1", "Conv-2", "AvgPool-2")


def count_small_cnn(knobs: SmallCNNKnobs) -> Numbers:
    """Weights and biases of each layer by formula."""
    return {name: float(stage.parameters) for name, stage in zip(LAYERS, knobs.config.stages(), strict=True)}


def count_small_cnn_of_torch(knobs: SmallCNNKnobs) -> Numbers:
    """Those of the modules that our CNN is made of; its activations are no layers here."""
    layers = [one for one in _build_small_cnn(knobs).layers.children() if type(one).__name__ != "ReLU"]
    counts = [float(sum([parameter.numel() for parameter in one.parameters()])) for one in layers]
    return dict(zip(LAYERS, counts, strict=True))


def measure_small_cnn_shapes(knobs: SmallCNNKnobs) -> Numbers:
    """Sides and channels behind each layer, by formula."""
    stages = knobs.config.stages()
    sides = {f"side of {name}": float(stage.size[0]) for name, stage in zip(LAYERS, stages, strict=True)}
    channels = {f"channels of {name}": float(stage.channels) for name, stage in zip(LAYERS, stages, strict=True)}
    return {"flattened": float(math.prod(stages[-1].shape)), **sides, **channels}


def run_small_cnn(knobs: SmallCNNKnobs) -> Numbers:
    """The same from an image that goes through our CNN."""
    import torch

    maps: Tensor = torch.zeros(1, knobs.channels, 32, 32)
    found: dict[str, float] = {}
    names = iter(LAYERS)
    for layer in _build_small_cnn(knobs).layers.children():
        maps = layer(maps)
        if type(layer).__name__ != "ReLU":
            name = next(names)
            found |= {f"side of {name}": float(maps.shape[2]), f"channels of {name}": float(maps.shape[1])}
    return {"flattened": float(maps.flatten(1).shape[1]), **found}


def _build_small_cnn(knobs: SmallCNNKnobs) -> CNN:
    from pellucid.models.examples.cnn import CNN

    return CNN(knobs.config)


# The code


@dataclass(frozen=True)
class StudentCodeKnobs:
    commas: int = option(0, "How many of the two commas that are missing are put back.", minimum=0, maximum=2)
    features: int = option(120, "What the linear layer is told that it reads.", minimum=1, maximum=100_000)

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class MendedCodeKnobs(StudentCodeKnobs):
    features: int = option(144, "What the linear layer is told that it reads.", minimum=1, maximum=100_000)


def write_student_code(commas: int, features: int) -> str:
    """The printed code with some of its commas put back, each layer in a line of its own.

    >>> write_student_code(2, 144).count(","), write_student_code(0, 144).count(",")
    (20, 18)
    """
    layers = [
        "nn.Conv2d(in_channels=1, out_channels=8, kernel_size=5, stride=1, padding=0),",
        "nn.AvgPool2d(kernel_size=4, stride=4, padding=0)" + "," * (commas > 0),
        "nn.ReLU(),",
        "nn.Conv2d(in_channels=8, out_channels=16, kernel_size=4, stride=1, padding=1),",
        "nn.AvgPool2d(kernel_size=2, stride=2, padding=0)" + "," * (commas > 1),
        "nn.ReLU(),",
        "nn.Flatten(),",
        f"nn.Linear({features}, {SCORES})",
    ]
    return "nn.Sequential(\n    " + "\n    ".join(layers) + "\n)"


def run_student_code(knobs: StudentCodeKnobs) -> Numbers:
    """Whether Python can read the code, and what comes of an image of 32 × 32 that goes through the network."""
    import torch

    from pellucid.inspection.expression.modules import build_module

    text = write_student_code(knobs.commas, knobs.features)
    found = {"can be read": 0.0, "sizes do not match": 0.0, "scores": 0.0}
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return found
    found["can be read"] = 1.0
    try:
        with torch.no_grad():
            found["scores"] = float(build_module(text).module(torch.zeros(1, 1, 32, 32)).shape[1])
    except RuntimeError as error:
        found["sizes do not match"] = float("shapes cannot be multiplied" in str(error))
    return found


def read_student_code(knobs: StudentCodeKnobs) -> Numbers:
    """By counting: where two calls follow each other without a comma it cannot be read; 144 features come."""
    came = int(measure_small_cnn_shapes(SmallCNNKnobs())["flattened"])
    is_read = knobs.commas == 2
    return {
        "can be read": float(is_read),
        "sizes do not match": float(is_read and knobs.features != came),
        "scores": float(SCORES if is_read and knobs.features == came else 0),
    }


# Heads without a linear layer


@dataclass(frozen=True)
class ConvolutionHeadKnobs:
    kernel: int = option(SIDE, "Rows and columns of the filters.", minimum=1, maximum=SIDE)

    def __post_init__(self) -> None:
        check_options(self)


def _images_of_one() -> Tensor:
    """Zero, and every input with a single 1: two affine maps that agree on these agree everywhere."""
    import torch

    n = CHANNELS * SIDE**2
    return torch.cat([torch.zeros(1, n), torch.eye(n)]).double().view(-1, CHANNELS, SIDE, SIDE)


def measure_convolution_head(knobs: ConvolutionHeadKnobs) -> Numbers:
    """A linear layer of drawn weights, beside filters that are given the same weights, on a basis of all inputs."""
    import torch
    from torch import nn

    from pellucid.models.examples.cnn import ConvolutionHead, LinearHead

    linear = LinearHead(CHANNELS, (SIDE, SIDE), SCORES).double()
    nn.init.normal_(linear.score.weight, generator=torch.Generator().manual_seed(1))
    filters = ConvolutionHead(CHANNELS, (knobs.kernel, knobs.kernel), SCORES).double()
    inputs = _images_of_one()
    with torch.no_grad():
        whole = linear.score.weight.view(SCORES, CHANNELS, SIDE, SIDE)
        filters.score.weight.copy_(whole[:, :, : knobs.kernel, : knobs.kernel])
        ours, theirs = filters(inputs), linear(inputs)
    return {
        "furthest apart": float((ours[:, :, :1, :1] - theirs).abs().max()),
        "places": float(ours.shape[2] * ours.shape[3]),
        "parameters": float(sum([one.numel() for one in filters.parameters()])),
        "parameters of the linear layer": float(sum([one.numel() for one in linear.parameters()])),
    }


def count_convolution_head(knobs: ConvolutionHeadKnobs) -> Numbers:
    return {
        "places": float((SIDE - knobs.kernel + 1) ** 2),
        "parameters": float(SCORES * (CHANNELS * knobs.kernel**2 + 1)),
        "parameters of the linear layer": float(SCORES * (CHANNELS * SIDE**2 + 1)),
    }


@dataclass(frozen=True)
class PooledHeadKnobs:
    window: int = option(SIDE, "Rows and columns over which the scores are averaged.", minimum=1, maximum=SIDE)

    def __post_init__(self) -> None:
        check_options(self)


def measure_pooled_head(knobs: PooledHeadKnobs) -> Numbers:
    """What comes out of 1 × 1 filters and a mean, and how much of a drawn linear layer they can follow at best."""
    import torch

    from pellucid.models.examples.cnn import PooledHead

    head = PooledHead(CHANNELS, (knobs.window, knobs.window), SCORES)
    with torch.no_grad():
        out = head(torch.zeros(1, CHANNELS, SIDE, SIDE))
    # Behind a mean all places weigh the same, so the nearest such layer has the mean of the weights of all places.
    weights = torch.randn(100, SCORES, CHANNELS, SIDE**2, generator=torch.Generator().manual_seed(1)).double()
    nearest = weights.mean(-1, keepdim=True).expand_as(weights)
    return {
        "scores": float(out.shape[1]),
        "places": float(out.shape[2] * out.shape[3]),
        "parameters": float(sum([one.numel() for one in head.parameters()])),
        "of a linear layer it can follow": float(nearest.square().sum() / weights.square().sum()),
    }


def count_pooled_head(knobs: PooledHeadKnobs) -> Numbers:
    """One of nine directions in which the weights of a channel may differ is left."""
    return {
        "scores": float(SCORES),
        "places": float((SIDE - knobs.window + 1) ** 2),
        "parameters": float(SCORES * (CHANNELS + 1)),
        "of a linear layer it can follow": 1 / SIDE**2,
    }


@dataclass(frozen=True)
class HouseNumberKnobs:
    parts: str = option("all", "Parts of SVHN that count", choices=("all", "train and test"))

    def __post_init__(self) -> None:
        check_options(self)


def count_house_numbers(knobs: HouseNumberKnobs) -> Numbers:
    """The digits of SVHN beside those of MNIST, as their authors count them; the images themselves are not here."""
    digits = sum(SVHN.values()) - (0 if knobs.parts == "all" else SVHN["extra"])
    return {"digits": float(digits), "times MNIST": digits / MNIST}


CODE, HEADS = "exam 3.1.3", "exam 3.1.4"

FAMILY = ClaimFamily(
    name="convolution-sizes",
    title="Sizes of convolutions, and a CNN whose code does not run",
    claims=(
        Claim(
            id="conv-3x5-stride-1-3",
            says="filters of 3 × 5 with strides of 1 and 3 make 126 × 42 of an input of 128 × 128",
            where="exam 1.4",
            kind="arithmetic",
            measure=measure_unequal_window,
            decides="columns",
            margin=lambda seen: 0.5 - max(abs(seen["rows"] - 126), abs(seen["columns"] - 42)),
            rule="there are 126 windows along the rows and 42 along the columns",
            knobs=UnequalWindowKnobs,
            control={"column_stride": 1},
            second=run_unequal_window,
        ),
        Claim(
            id="conv-parameter-counts",
            says="the convolutions have 8 · (25 + 1) and 16 · (128 + 1) parameters, and the poolings none",
            where="exam 3.1.2",
            kind="arithmetic",
            measure=count_small_cnn,
            decides="Conv-2",
            margin=lambda seen: (
                0.5 - max(abs(seen[name] - n) for name, n in zip(LAYERS, (8 * 26, 0, 16 * 129, 0), strict=True))
            ),
            rule="the four layers have 208, 0, 2,064 and 0 parameters",
            knobs=SmallCNNKnobs,
            control={"channels": 3},
            second=count_small_cnn_of_torch,
        ),
        Claim(
            id="cnn-shapes-28-7-6-3",
            says="an image of 32 × 32 becomes 28 × 28 × 8, 7 × 7 × 8, 6 × 6 × 16, 3 × 3 × 16, and 144 numbers",
            where=CODE,
            kind="arithmetic",
            measure=measure_small_cnn_shapes,
            decides="flattened",
            margin=lambda seen: (
                0.5
                - max(
                    abs(seen["flattened"] - 144),
                    *[abs(seen[f"side of {name}"] - n) for name, n in zip(LAYERS, (28, 7, 6, 3), strict=True)],
                    *[abs(seen[f"channels of {name}"] - n) for name, n in zip(LAYERS, (8, 8, 16, 16), strict=True)],
                )
            ),
            rule="every one of these sizes is what the layer gives",
            knobs=SmallCNNKnobs,
            control={"padding": 0},
            second=run_small_cnn,
        ),
        Claim(
            id="student-code-dimension-error",
            says="run as it is printed, the code stops because two sizes do not match in a product of matrices",
            where=CODE,
            kind="arithmetic",
            measure=run_student_code,
            decides="sizes do not match",
            margin=lambda seen: yes(seen["sizes do not match"]),
            rule="an image of 32 × 32 comes as far as a product of matrices, and is refused there",
            knobs=StudentCodeKnobs,
            control={"commas": 2},
            search=Search("commas", 0, 2, n_values=3),
            second=read_student_code,
            other_reading="as printed it is no Python: a comma is missing behind each pooling; with both put back, the "
            "linear layer is given 144 numbers and expects 120",
        ),
        Claim(
            id="linear-144-fixes-code",
            says="with nn.Linear(144, 10) at its end the printed code runs",
            where=CODE,
            kind="arithmetic",
            measure=run_student_code,
            decides="scores",
            margin=lambda seen: yes(seen["scores"] == SCORES),
            rule="an image of 32 × 32 gets ten scores",
            knobs=MendedCodeKnobs,
            control={"commas": 2},
            search=Search("commas", 0, 2, n_values=3),
            second=read_student_code,
            other_reading="144 is the right number of features; it mends one of three faults, the others are commas",
        ),
        Claim(
            id="conv3x3-replaces-linear",
            says="ten filters of 3 × 3 can stand where the maps are flattened and a linear layer follows",
            where=f"{HEADS} v1",
            kind="proof",
            measure=measure_convolution_head,
            decides="furthest apart",
            margin=lambda seen: yes(seen["places"] == 1 and seen["furthest apart"] < 1e-12),
            rule="they have one place, and with the same weights the same scores for zero and every input of a single "
            "1, and so for all inputs",
            knobs=ConvolutionHeadKnobs,
            control={"kernel": 2},
            second=count_convolution_head,
        ),
        Claim(
            id="conv1x1-pool-replaces-linear",
            says="ten filters of 1 × 1 with a mean over 3 × 3 behind them give the ten scores too",
            where=f"{HEADS} v2",
            kind="arithmetic",
            measure=measure_pooled_head,
            decides="places",
            margin=lambda seen: yes(seen["scores"] == SCORES and seen["places"] == 1),
            rule="ten scores come out, at one place",
            knobs=PooledHeadKnobs,
            control={"window": 2},
            second=count_pooled_head,
            tolerance=0.01,
            other_reading="the same function it cannot be: with 170 weights for 1,450 it does not see where something "
            "is, and of a linear layer with drawn weights it follows a ninth at best",
        ),
        Claim(
            id="svhn-over-600k",
            says="SVHN has over 600,000 images of digits, an order of magnitude more than MNIST",
            where="exam 3.1",
            kind="arithmetic",
            measure=count_house_numbers,
            decides="digits",
            margin=lambda seen: yes(seen["digits"] > 600_000 and round(math.log10(seen["times MNIST"])) == 1),
            rule="the counts that its authors give add up to more than 600,000, and beside MNIST's the nearest power "
            "of ten is the first",
            knobs=HouseNumberKnobs,
            control={"parts": "train and test"},
            other_reading="it is 9 times MNIST; without the extra part, which many leave out, 99,289, or 1.4 times",
        ),
    ),
)
