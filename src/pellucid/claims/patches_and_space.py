"""Patches and space: how an image becomes a row of vectors, and what a network knows of space before it is trained.

What is said of any input is tried in double precision on all inputs of a basis, or on all orders of the patches.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search, yes
from pellucid.claims.sizes_and_latency import count_flops, least_seconds
from pellucid.claims.vits_and_cnns import IMAGES, SCRAMBLINGS, read_after_training, read_image_tensors
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor

    from pellucid.models.examples.vit import ViT

WIDTH = 768  # of ViT-B


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
    convolution, beside = least_seconds(partial(slid, images), other, repeats=12)
    n_patches = (224 // knobs.patch) ** 2 * knobs.images
    return {
        "times as long": convolution / beside,
        "ms, convolution": 1e3 * convolution,
        "ms, beside": 1e3 * beside,
        "GFLOPs of either": 2e-9 * n_patches * 3 * knobs.patch**2 * WIDTH,
    }


def count_patch_flops(knobs: PatchSecondsKnobs) -> Numbers:
    """What torch counts for the convolution."""
    import torch

    from pellucid.models.examples.vit import ConvolutionPatches

    with torch.device("meta"):
        slid, images = ConvolutionPatches(3, knobs.patch, WIDTH), torch.empty(knobs.images, 3, 224, 224)
    return {"GFLOPs of either": 1e-9 * count_flops(partial(slid, images))}


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


def _build_new_vit(knobs: ArrangementKnobs) -> ViT:
    from pellucid.models.examples.configs import ViTConfig
    from pellucid.models.examples.vit import ViT
    from pellucid.training.rng import seed_torch

    with seed_torch(knobs.seed, 0, "weights"):
        config = ViTConfig((1, 8, 8), (), 10, patch=4, width=32, depth=2, positions=knobs.positions)
        return ViT(config).double().eval()


def measure_arrangements(knobs: ArrangementKnobs) -> Numbers:
    """A new vision transformer on a digit of 2 × 2 patches, in all 24 orders of them."""
    import torch

    model = _build_new_vit(knobs)
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


def arrange_vectors(knobs: ArrangementKnobs) -> Numbers:
    """The same from the vectors of the patches, in all orders, through the blocks one by one."""
    import torch

    model = _build_new_vit(knobs)
    with torch.no_grad():
        (vectors,) = model.patches(read_image_tensors("digits").held[:1].double())
        orders = list(itertools.permutations(range(4)))
        tokens = [torch.cat([model.class_token[None], vectors[list(order)]]) for order in orders]
        stream, where = torch.stack(tokens), model.where((2, 2))
        stream = stream if where is None else stream + where
        for block in model.blocks:
            stream = block(stream)
        scores = model.head(model.summary(model.norm(stream[:, 0])))
    return {"furthest apart": float((scores - scores[0]).abs().max()), "orders": float(len(orders))}


PATCHES = "homework 1.5a"

FAMILY = ClaimFamily(
    name="patches-and-space",
    title="Patches, and what is known of space",
    picture="patches",
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
            changed="both ways are timed in turn, twelve times each, since times one after the other left it open",
            knobs=PatchSecondsKnobs,
            control={"beside": "patch by patch"},
            search=Search("images", 1, 8, n_values=4, is_log=True),
            second=count_patch_flops,
            seeds=5,
            other_reading="one image takes a little longer, several at once take a little less; both compute as much",
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
            surprise="scrambling all pixels in the same way costs a vision transformer nothing",
            says="a vision transformer has no knowledge of space built in",
            where=PATCHES,
            kind="training",
            measure=measure_spatial_bias,
            decides="lost by scrambling",
            margin=lambda seen: 0.02 - seen["lost by scrambling"],
            rule="trained on 100 images whose pixels are all moved to other places, it tells held-out ones as well, "
            "but for 2 points",
            changed="ten seeds, since five left it open",
            knobs=SpatialBiasKnobs,
            control={"network": "cnn"},
            seeds=10,
            other_reading="a patch is cut from neighbours; on digits of four patches even of that no help was seen",
        ),
        Claim(
            id="without-positions-no-layout",
            says="without positions a vision transformer cannot tell arrangements of the same patches apart",
            where="homework 1.5b",
            kind="proof",
            measure=measure_arrangements,
            decides="furthest apart",
            margin=lambda seen: 1e-9 - seen["furthest apart"],
            rule="in all 24 orders of four patches the scores are the same",
            knobs=ArrangementKnobs,
            control={"positions": "learned"},
            second=arrange_vectors,
            tolerance=1e-12,
            other_reading="what lies inside a patch it tells apart",
        ),
    ),
)
