"""Vision transformers from inside: learned positions, images of another size, and the class token.

Networks are those of `pellucid train vit`, trained as in vits_and_cnns.py.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search, yes
from pellucid.claims.longer_sequences import BeyondKnobs, generalises, measure_beyond
from pellucid.claims.sizes_and_latency import one_thread
from pellucid.claims.vits_and_cnns import (
    IMAGES,
    RATE,
    STEPS,
    build_reader,
    read_image_tensors,
    train_reader,
)
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor

    from pellucid.lessons.vit_resolution import ResolutionResult
    from pellucid.models.examples.vit import ViT

STARTS = ("drawn", "waves")


@dataclass(frozen=True)
class GridPositionKnobs:
    data: str = option("digits", IMAGES)
    start: str = option("drawn", "Positions before training: drawn, or waves of rows and columns", choices=STARTS)
    steps: int = option(STEPS, "Steps of training.", minimum=1, maximum=20_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@cache
def train_fine_vit(data: str, start: str, steps: int, seed: int) -> ViT:
    """A vision transformer of size tiny on all images of train, cut into 4 × 4 patches."""
    import torch

    from pellucid.layers.positions.encodings import LearnedPositions, sinusoids
    from pellucid.models.examples.configs import ViTConfig
    from pellucid.models.examples.vit import ViT
    from pellucid.training.rng import seed_torch

    images = read_image_tensors(data)
    patch = max(1, min(images.shape.numbers[1:]) // 4)
    with seed_torch(seed, 0, "weights"):
        model = ViT(replace(ViTConfig.of_size("tiny", images.shape), patch=patch))
    if start == "waves":  # half of the numbers tell the row, the others the column
        (rows, columns), half = model.config.grid, model.config.width // 2
        down, across = sinusoids(rows, half), sinusoids(columns, half)
        grid = torch.cat([down[:, None].expand(-1, columns, -1), across.expand(rows, -1, -1)], dim=2)
        assert isinstance(model.positions, LearnedPositions)
        with torch.no_grad():
            model.positions.table.weight[1:] = grid.flatten(0, 1)
    train_reader(model, images.train, images.classes, seed, steps, RATE)
    return model.eval()


def measure_grid_positions(knobs: GridPositionKnobs) -> Numbers:
    """How alike learned positions are: of patches one below the other, side by side, and of all that do not touch."""
    import torch

    model = train_fine_vit(knobs.data, knobs.start, knobs.steps, knobs.seed)
    rows, columns = model.config.grid
    with torch.no_grad():
        learned = model.where((rows, columns))
        assert learned is not None
        centred = learned[1:] - learned[1:].mean(0)
        alike = torch.nn.functional.normalize(centred, dim=1)
        cosines = (alike @ alike.T).tolist()
    found: dict[str, list[float]] = {"below": [], "beside": [], "apart": []}
    for one, other in itertools.combinations(range(rows * columns), 2):
        down, across = other // columns - one // columns, abs(other % columns - one % columns)
        kind = "below" if (down, across) == (1, 0) else "beside" if (down, across) == (0, 1) else "apart"
        found[kind].append(cosines[one][other])
    means = {kind: sum(values) / len(values) for kind, values in found.items()}
    return {
        "below, more alike by": means["below"] - means["apart"],
        "beside, more alike by": means["beside"] - means["apart"],
        "cosine of those apart": means["apart"],
    }


@dataclass(frozen=True)
class OtherSizeKnobs:
    side: int = option(12, "Side of the images that are read; it was trained on 8 pixels.", minimum=4, maximum=24)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@cache
def read_other_sizes(seed: int) -> dict[int, ResolutionResult]:
    from pellucid.lessons.vit_resolution import ResolutionKnobs, measure

    with one_thread():
        study = measure(ResolutionKnobs(seed, sizes=tuple(float(side) for side in range(4, 25))))
    return {result.side: result for result in study.results}


def measure_other_size(knobs: OtherSizeKnobs) -> Numbers:
    """Digits of another size, with positions read off between those that were learned, and in two other ways."""
    found = read_other_sizes(knobs.seed)[knobs.side]
    return {
        "better by": found.interpolated - max(found.in_order, found.without),
        "interpolated": found.interpolated,
        "in reading order": found.in_order,
        "without positions": found.without,
    }


@dataclass(frozen=True)
class ClassTokenKnobs:
    data: str = option("digits", IMAGES)
    looks: str = option("at all", "What the class token may look at", choices=("at all", "at itself"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@cache
def train_small_vit(data: str, seed: int) -> ViT:
    from pellucid.models.examples.vit import ViT

    images = read_image_tensors(data)
    model = build_reader("vit", "small", images.shape, seed)
    assert isinstance(model, ViT)
    train_reader(model, images.train, images.classes, seed, STEPS, RATE)
    return model.eval()


def score_by_class_token(model: ViT, images: Tensor, looks: str) -> Tensor:
    """What the head says of the class token, which may look at all tokens or at itself alone: (n, classes)."""
    import torch

    from pellucid.layers.masks import EVERYTHING, BooleanMask

    stream = model.stream(images)
    allowed = torch.ones(stream.shape[1], stream.shape[1], dtype=torch.bool)
    allowed[0, 1:] = looks == "at all"
    for block in model.blocks:
        stream = block(stream, mask=EVERYTHING if looks == "at all" else BooleanMask(allowed))
    scores: Tensor = model.head(model.summary(model.norm(stream[:, 0])))
    return scores


def measure_class_token(knobs: ClassTokenKnobs) -> Numbers:
    """Held-out images that the class token tells right, as it looks at all patches or only at some."""
    import torch

    images = read_image_tensors(knobs.data)
    model = train_small_vit(knobs.data, knobs.seed)
    with torch.inference_mode():
        scores = score_by_class_token(model, images.held, knobs.looks)
    is_right: Tensor = scores.argmax(1) == images.truths
    return {"told right": is_right.double().mean().item(), "one class of": float(images.shape.outputs)}


def run_class_token(knobs: ClassTokenKnobs) -> Numbers:
    """By the network as it is, which reads the class token alone."""
    import torch

    if knobs.looks != "at all":
        return {}
    images = read_image_tensors(knobs.data)
    with torch.inference_mode():
        scores = train_small_vit(knobs.data, knobs.seed)(images.held, images.held.new_zeros(len(images.held), 0))
    return {"told right": (scores.argmax(1) == images.truths).double().mean().item()}


@dataclass(frozen=True)
class LargestClassKnobs:
    scale: float = option(1.0, "What the logits are multiplied by.", minimum=1e-12, maximum=1e12)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_largest_class(knobs: LargestClassKnobs) -> Numbers:
    """The class of the largest probability, beside that of the largest logit, on digits and a new network."""
    import torch

    images = read_image_tensors("digits")
    model = build_reader("vit", "tiny", images.shape, knobs.seed).eval()
    with torch.inference_mode():
        logits = model(images.held, images.held.new_zeros(len(images.held), 0)) * knobs.scale
        probabilities = logits.softmax(1)
    same: Tensor = probabilities.argmax(1) == logits.argmax(1)
    return {"same class": same.double().mean().item(), "probabilities sum to": probabilities.sum(1).mean().item()}


def largest_class_in_double(knobs: LargestClassKnobs) -> Numbers:
    """In NumPy and in double precision, where softmax keeps every order."""
    import numpy as np
    import torch

    images = read_image_tensors("digits")
    model = build_reader("vit", "tiny", images.shape, knobs.seed).eval()
    with torch.inference_mode():
        logits = model(images.held, images.held.new_zeros(len(images.held), 0)).double().numpy()
    powers = np.exp(logits - logits.max(1, keepdims=True))
    shares = powers / powers.sum(1, keepdims=True)
    return {"same class": float((shares.argmax(1) == logits.argmax(1)).mean()), "probabilities sum to": 1.0}


POSITIONS, CLASS = "homework 1.5b", "homework 1.5c"

FAMILY = ClaimFamily(
    name="vision-transformers",
    title="Vision transformers from inside",
    picture="vit-resolution",
    claims=(
        Claim(
            id="learned-positions-capture-2d",
            surprise="learned positions of neighbouring patches are less alike than those of distant ones",
            says="learned positions come to know which patches are near in two dimensions",
            where=POSITIONS,
            kind="training",
            measure=measure_grid_positions,
            decides="below, more alike by",
            margin=lambda seen: min(seen["below, more alike by"], seen["beside, more alike by"]) - 0.05,
            rule="positions of patches one below the other, and side by side, have a higher cosine than those of "
            "patches that do not touch, by more than 0.05",
            changed="the control is a table that begins with rows and columns, for on digits positions do not come to "
            "know them",
            knobs=GridPositionKnobs,
            control={"start": "waves"},
            seeds=5,
            other_reading="a table can hold rows and columns: given them to begin with, it keeps them",
        ),
        Claim(
            id="sinusoids-generalise-to-longer",
            says="fixed sinusoidal encodings generalise to sequences longer than those of training",
            where=POSITIONS,
            kind="training",
            measure=measure_beyond,
            decides="right beyond",
            margin=generalises,
            rule="trained on 16 places, of sequences a quarter longer to four times as long nine tenths of what was "
            "right are kept beyond them",
            changed="judged from sequences a quarter longer on, for one place more than in training is hardly longer",
            knobs=BeyondKnobs,
            control={"positions": "rotary"},
            search=Search("length", 20, 64, n_values=4, is_log=True),
            seeds=5,
            other_reading="they can be computed for any length; what a network makes of them there is not learned",
        ),
        Claim(
            id="other-resolution-needs-interpolation",
            says="on images of another size learned positions have to be interpolated",
            where=POSITIONS,
            kind="training",
            measure=measure_other_size,
            decides="better by",
            margin=lambda seen: seen["better by"] - 0.05,
            rule="of digits of 12 × 12 pixels, after training on 8 × 8, interpolated positions tell 5 points more than "
            "the same ones in reading order or none",
            knobs=OtherSizeKnobs,
            control={"side": 8},
            seeds=5,
        ),
        Claim(
            id="cls-token-aggregates",
            says="the class token gathers from all patches what tells the class",
            where=CLASS,
            kind="training",
            measure=measure_class_token,
            decides="told right",
            margin=lambda seen: seen["told right"] - 0.8,
            rule="a head that reads the class token alone tells four of five held-out images",
            knobs=ClassTokenKnobs,
            control={"looks": "at itself"},
            second=run_class_token,
            seeds=5,
        ),
        Claim(
            id="softmax-at-inference-for-class",
            says="the predicted class is the one with the largest probability behind a softmax",
            where=CLASS,
            kind="draws",
            measure=measure_largest_class,
            decides="same class",
            margin=lambda seen: yes(seen["same class"] == 1 and abs(seen["probabilities sum to"] - 1) < 1e-5),
            rule="on every image it is the class with the largest logit",
            knobs=LargestClassKnobs,
            control={"scale": 1e-9},
            second=largest_class_in_double,
            seeds=5,
            other_reading="so the softmax is not needed for it; where logits hardly differ it rounds them to ties",
        ),
    ),
)
