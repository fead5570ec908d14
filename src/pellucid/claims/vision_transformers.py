"""Vision transformers from inside: patches, positions, the class token, and what is known of space before training.

Networks are those of `pellucid train vit`. What is said of any input is tried in double precision on all inputs of a
basis, or on all orders of the patches.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search, yes
from pellucid.claims.longer_sequences import BeyondKnobs, generalises, measure_beyond
from pellucid.claims.sizes_and_latency import least_seconds, one_thread
from pellucid.claims.vits_and_cnns import (
    IMAGES,
    RATE,
    SCRAMBLINGS,
    STEPS,
    build_reader,
    read_after_training,
    read_image_tensors,
    train_reader,
)
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor

    from pellucid.lessons.vit_resolution import ResolutionResult
    from pellucid.models.examples.vit import ViT

WIDTH = 768  # of ViT-B
STARTS = ("drawn", "waves")


@dataclass(frozen=True)
class PatchProjectionKnobs:
    patch: int = option(16, "Patch size in pixels.", minimum=1, maximum=32)
    stride: int = option(16, "By how much the filters of a convolution move.", minimum=1, maximum=32)

    def __post_init__(self) -> None:
        check_options(self)


def measure_patch_projection(knobs: PatchProjectionKnobs) -> Numbers:
    """Cut and multiply, beside filters with the same weights: on every image of one lit pixel, and four patches."""
    import torch
    from torch.nn.functional import conv2d

    from pellucid.models.examples.vit import LinearPatches, as_convolution
    from pellucid.training.rng import seed_torch

    with seed_torch(1, 0, "weights"):
        cut = LinearPatches(3, knobs.patch, WIDTH).double()
    filters = as_convolution(cut).project
    pixels = 3 * knobs.patch**2
    basis = torch.cat([torch.zeros(1, pixels), torch.eye(pixels)]).double().view(-1, 3, knobs.patch, knobs.patch)
    four = torch.randn(1, 3, 2 * knobs.patch, 2 * knobs.patch, generator=torch.Generator().manual_seed(1)).double()
    with torch.no_grad():
        apart, tokens = [], 0
        for images in (basis, four):
            slid = conv2d(images, filters.weight, filters.bias, knobs.stride).flatten(2).transpose(1, 2)
            wanted = cut(images)
            tokens = slid.shape[1]
            apart.append(float((slid[:, : wanted.shape[1]] - wanted[:, :tokens]).abs().max()))
    return {"furthest apart": max(apart), "vectors of four patches": float(tokens), "numbers in a patch": float(pixels)}


def unfold_patches(knobs: PatchProjectionKnobs) -> Numbers:
    """By torch's own cutting of images, and by formula."""
    import torch
    from torch.nn.functional import unfold

    cut = unfold(torch.zeros(1, 3, 2 * knobs.patch, 2 * knobs.patch), knobs.patch, stride=knobs.stride)
    return {"vectors of four patches": float(cut.shape[2]), "numbers in a patch": float(cut.shape[1])}


@dataclass(frozen=True)
class PatchSecondsKnobs:
    images: int = option(4, "Images of 224 × 224 in a batch.", minimum=1, maximum=64)
    patch: int = option(16, "Patch size in pixels.", minimum=2, maximum=112)
    beside: str = option("one product", "What a convolution is timed beside", choices=("one product", "patch by patch"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def time_patch_projections(knobs: PatchSecondsKnobs) -> Numbers:
    """Both ways to make vectors of the patches of RGB images, of width 768, on one thread."""
    import torch

    from pellucid.models.examples.vit import LinearPatches, as_convolution, patches
    from pellucid.training.rng import seed_torch

    with seed_torch(knobs.seed, 0, "weights"):
        cut = LinearPatches(3, knobs.patch, WIDTH)
        images = torch.randn(knobs.images, 3, 224, 224)
    slid = as_convolution(cut)

    def one_by_one() -> list[Tensor]:
        return [cut.project(one) for one in patches(images, knobs.patch).unbind(1)]

    other = one_by_one if knobs.beside == "patch by patch" else partial(cut, images)
    convolution, beside = (least_seconds(run, repeats=6) for run in (partial(slid, images), other))
    return {"times as long": convolution / beside, "ms, convolution": 1e3 * convolution, "ms, beside": 1e3 * beside}


@dataclass(frozen=True)
class ShiftedInputKnobs:
    stride: int = option(1, "Stride of the convolution.", minimum=1, maximum=4)
    shift: int = option(1, "Pixels by which the image is moved.", minimum=1, maximum=8)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def _places_apart(first: Tensor, second: Tensor, by: int) -> float:
    """The furthest that two maps are apart, one moved by so many places, away from the edges."""
    inside = slice(4, -4)
    moved = first.roll(by, -1)[..., inside, inside]
    return float((moved - second[..., inside, inside]).abs().max())


def measure_equivariance(knobs: ShiftedInputKnobs) -> Numbers:
    """A convolution of an image that is moved, beside what it makes of the image, moved by as much."""
    import torch
    from torch.nn.functional import conv2d

    rng = torch.Generator().manual_seed(knobs.seed)
    image = torch.randn(1, 1, 64, 64, generator=rng, dtype=torch.float64)
    filters = torch.randn(4, 1, 3, 3, generator=rng, dtype=torch.float64)
    before, after = (
        conv2d(one, filters, stride=knobs.stride, padding=1) for one in (image, image.roll(knobs.shift, -1))
    )
    # Moved by no whole number of places, the map has no place to be moved to: the nearest are tried.
    steps = {knobs.shift // knobs.stride, -(-knobs.shift // knobs.stride)}
    apart = min(_places_apart(before, after, by) for by in steps)
    return {"furthest apart": apart, "largest output": float(before.abs().max())}


def equivariance_by_hand(knobs: ShiftedInputKnobs) -> Numbers:
    """The largest output, by adding up every window in NumPy."""
    import numpy as np
    import torch

    rng = torch.Generator().manual_seed(knobs.seed)
    image = np.pad(torch.randn(1, 1, 64, 64, generator=rng, dtype=torch.float64).numpy()[0, 0], 1)
    filters = torch.randn(4, 1, 3, 3, generator=rng, dtype=torch.float64).numpy()[:, 0]
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3))[:: knobs.stride, :: knobs.stride]
    return {"largest output": float(np.abs(np.einsum("rcij,fij->frc", windows, filters)).max())}


@dataclass(frozen=True)
class SpatialBiasKnobs:
    data: str = option("digits", IMAGES)
    network: str = option("vit", "Which network", choices=("vit", "cnn"))
    scrambled: str = option("pixels", "What is moved to other places, the same in all images", choices=SCRAMBLINGS)
    examples: int = option(100, "Images that are trained on.", minimum=10, maximum=1_000_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_spatial_bias(knobs: SpatialBiasKnobs) -> Numbers:
    """What is told right of held-out images after training on them as they are, and on scrambled ones."""
    plain, moved = (
        read_after_training(knobs.data, knobs.network, knobs.examples, knobs.seed, how).held
        for how in ("none", knobs.scrambled)
    )
    return {"lost by scrambling": plain - moved, "as they are": plain, "scrambled": moved}


@dataclass(frozen=True)
class ArrangementKnobs:
    positions: str = option("none", "Positions of the patches", choices=("none", "learned"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_arrangements(knobs: ArrangementKnobs) -> Numbers:
    """A new vision transformer on a digit of 2 × 2 patches, in all 24 orders of them."""
    import torch

    from pellucid.models.examples.configs import ViTConfig
    from pellucid.models.examples.vit import ViT
    from pellucid.training.rng import seed_torch

    with seed_torch(knobs.seed, 0, "weights"):
        model = ViT(ViTConfig((1, 8, 8), (), 10, patch=4, width=32, depth=2, positions=knobs.positions)).double().eval()
    image = read_image_tensors("digits").held[0].double()
    quarters = [image[:, row : row + 4, column : column + 4] for row in (0, 4) for column in (0, 4)]
    orders = list(itertools.permutations(range(4)))
    arranged = torch.stack(
        [
            torch.cat([torch.cat([quarters[order[at]] for at in (row, row + 1)], dim=2) for row in (0, 2)], dim=1)
            for order in orders
        ]
    )
    with torch.no_grad():
        scores = model(arranged, arranged.new_zeros(len(arranged), 0))
    return {"furthest apart": float((scores - scores[0]).abs().max()), "orders": float(len(orders))}


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


PATCHES, POSITIONS, CLASS = "homework 1.5a", "homework 1.5b", "homework 1.5c"

FAMILY = ClaimFamily(
    name="vision-transformers",
    title="Vision transformers from inside",
    picture="vit-resolution",
    claims=(
        Claim(
            id="patch-embedding-is-strided-conv",
            says="the linear projection of patches of 16 × 16 is a convolution with a kernel and a stride of 16",
            where=PATCHES,
            kind="proof",
            measure=measure_patch_projection,
            decides="furthest apart",
            margin=lambda seen: yes(seen["vectors of four patches"] == 4 and seen["furthest apart"] < 1e-12),
            rule="with the same weights both give the same for zero and every image of one lit pixel, and so for every "
            "patch, and four vectors for four patches",
            knobs=PatchProjectionKnobs,
            control={"stride": 8},
            second=unfold_patches,
        ),
        Claim(
            id="conv-implementation-is-faster",
            says="patches are projected faster by a convolution than by a linear layer",
            where=PATCHES,
            kind="cost",
            measure=time_patch_projections,
            decides="times as long",
            margin=lambda seen: 0.9 - seen["times as long"],
            rule="on one thread of this processor it takes less than nine tenths of the time of a cut and one product",
            knobs=PatchSecondsKnobs,
            control={"beside": "patch by patch"},
            search=Search("images", 1, 8, n_values=4, is_log=True),
            seeds=5,
        ),
        Claim(
            id="cnn-translation-equivariant",
            says="convolutions are translation equivariant: what is moved in the image is moved as much in the maps",
            where="homework 1.5a/d",
            kind="draws",
            measure=measure_equivariance,
            decides="furthest apart",
            margin=lambda seen: 1e-9 - seen["furthest apart"] / seen["largest output"],
            rule="moved by one pixel, away from the edges, the map is the same but moved",
            knobs=ShiftedInputKnobs,
            control={"stride": 2},
            search=Search("stride", 1, 4, n_values=4),
            second=equivariance_by_hand,
            seeds=5,
            other_reading="with a stride, or a pooling, of s it is so for shifts by a multiple of s",
        ),
        Claim(
            id="vit-has-no-spatial-bias",
            says="a vision transformer has no knowledge of space built in",
            where=PATCHES,
            kind="training",
            measure=measure_spatial_bias,
            decides="lost by scrambling",
            margin=lambda seen: 0.02 - seen["lost by scrambling"],
            rule="trained on 100 images whose pixels are all moved to other places, it tells held-out ones as well, "
            "but for 2 points",
            knobs=SpatialBiasKnobs,
            control={"network": "cnn"},
            seeds=10,
        ),
        Claim(
            id="without-positions-no-layout",
            says="without positions a vision transformer cannot tell arrangements of the same patches apart",
            where=POSITIONS,
            kind="proof",
            measure=measure_arrangements,
            decides="furthest apart",
            margin=lambda seen: 1e-9 - seen["furthest apart"],
            rule="in all 24 orders of four patches the scores are the same",
            knobs=ArrangementKnobs,
            control={"positions": "learned"},
            other_reading="what lies inside a patch it tells apart",
        ),
        Claim(
            id="learned-positions-capture-2d",
            says="learned positions come to know which patches are near in two dimensions",
            where=POSITIONS,
            kind="training",
            measure=measure_grid_positions,
            decides="below, more alike by",
            margin=lambda seen: min(seen["below, more alike by"], seen["beside, more alike by"]) - 0.05,
            rule="positions of patches one below the other, and side by side, have a higher cosine than those of "
            "patches that do not touch, by more than 0.05",
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
