"""Pooling and bottlenecks: what a network keeps of an image where it makes less of it.

Three CNNs with the same weights halve their maps by the largest of 2 × 2 places, by their mean, or by steps of 2, as in
`pellucid draw pooling-shifts`. An autoencoder has to bring an image through a few numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search
from pellucid.claims.vits_and_cnns import IMAGES, read_image_tensors
from pellucid.lessons.lesson import seed_knob
from pellucid.lessons.pooling_shifts import PoolingShiftKnobs
from pellucid.models.examples.configs import CNNConfig
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor

FARTHEST = 3  # pixels by which digits are moved
WINDOWS = 100_000  # of 2 × 2 places, drawn


@dataclass(frozen=True)
class MovedDigitsKnobs:
    pooling: str = option(
        "both", "How maps are halved, beside steps of 2", choices=("both", "max", "average", "strided")
    )
    shift: int = option(1, "Pixels by which digits of 8 × 8 are moved.", minimum=1, maximum=FARTHEST)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@cache
def told_right_when_moved(pooling: str, seed: int) -> tuple[float, ...]:
    """The share of held-out digits that a trained CNN tells right, moved by 0, 1, … pixels."""
    from pellucid.claims.sizes_and_latency import one_thread
    from pellucid.lessons.pooling_shifts import measure

    with one_thread():
        (curve,) = measure(PoolingShiftKnobs(pooling, shift=FARTHEST, trainings=1, seed=seed)).curves
    return curve.means


def measure_moved_digits(knobs: MovedDigitsKnobs) -> Numbers:
    """How much of what a network tells right it loses by a shift, with pooling and with steps of 2 in its place."""
    kinds = ("max", "average") if knobs.pooling == "both" else (knobs.pooling,)
    lost = {}
    for kind in dict.fromkeys((*kinds, "strided")):
        shares = told_right_when_moved(kind, knobs.seed)
        lost[kind] = shares[0] - shares[knobs.shift]
    return {
        "lost less than by steps": min(lost["strided"] - lost[kind] for kind in kinds),
        **{f"lost, {kind}": value for kind, value in lost.items()},
    }


@dataclass(frozen=True)
class FieldKnobs:
    first: int = option(4, "Side of the first pooling; 1 is none.", minimum=1, maximum=8)
    second: int = option(2, "Side of the second pooling; 1 is none.", minimum=1, maximum=4)

    def __post_init__(self) -> None:
        check_options(self)


def _field_config(first: int, second: int) -> CNNConfig:
    """The CNN of 5 × 5 and 4 × 4 filters, on an image that is large enough for all poolings."""
    return CNNConfig((1, 96, 96), (), 10, pools=(first, second))


def measure_pooled_field(knobs: FieldKnobs) -> Numbers:
    """Places of a row of the image that the last place sees, by formula."""
    pooled, plain = (_field_config(*sides).stages()[-1].field[0] for sides in ((knobs.first, knobs.second), (1, 1)))
    return {"pixels seen": float(pooled), "without pooling": float(plain)}


def measure_field_by_gradients(knobs: FieldKnobs) -> Numbers:
    """The same from the pixels that move the middle of what comes out."""
    import torch

    from pellucid.inspection.table.receptive_field import measure_field
    from pellucid.models.examples.cnn import CNN

    found = []
    for sides in ((knobs.first, knobs.second), (1, 1)):
        seen = measure_field(CNN(_field_config(*sides)).layers, (torch.zeros(1, 1, 96, 96),))
        assert seen is not None
        found.append(float(seen.reach[0]))
    return {"pixels seen": found[0], "without pooling": found[1]}


@dataclass(frozen=True)
class ProminentKnobs:
    height: float = option(5.0, "How far one place stands out, in deviations of the noise.", minimum=-50, maximum=50)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_pools(knobs: ProminentKnobs) -> Numbers:
    """Windows of 2 × 2 places of noise, with one place that stands out and without."""
    import torch

    from pellucid.models.examples.cnn import POOLS

    rng = torch.Generator().manual_seed(knobs.seed)
    noise = torch.randn(WINDOWS, 1, 2, 2, generator=rng, dtype=torch.float64)
    marked = noise.clone()
    marked[:, :, 0, 0] += knobs.height
    largest, mean = POOLS["max"](2), POOLS["average"](2)
    return {
        "max is what stands out": float((largest(marked)[:, 0, 0, 0] == marked[:, 0, 0, 0]).double().mean()),
        "mean moves by": float((mean(marked) - mean(noise)).mean()),
        "deviation of the mean": float(mean(noise).std()),
        "deviation of the max": float(largest(noise).std()),
    }


def integrate_pools(knobs: ProminentKnobs) -> Numbers:
    """The same numbers by integrals over the normal distribution."""
    step = 1e-3
    places = [step * at for at in range(-10_000, 10_001)]
    density = [math.exp(-z * z / 2) / math.sqrt(2 * math.pi) * step for z in places]
    below = [math.erfc(-z / math.sqrt(2)) / 2 for z in places]
    of_max = [4 * weight * share**3 for weight, share in zip(density, below, strict=True)]
    first, second = (sum([z**power * weight for z, weight in zip(places, of_max, strict=True)]) for power in (1, 2))
    taken = [
        weight * (math.erfc(-(z + knobs.height) / math.sqrt(2)) / 2) ** 3
        for z, weight in zip(places, density, strict=True)
    ]
    return {
        "max is what stands out": sum(taken),
        "mean moves by": knobs.height / 4,
        "deviation of the mean": 0.5,
        "deviation of the max": math.sqrt(second - first**2),
    }


@dataclass(frozen=True)
class LatentKnobs:
    data: str = option("digits", IMAGES)
    latent: int = option(8, "Numbers that an image goes through.", minimum=1, maximum=32)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def nearest_told_right(known: Tensor, classes: Tensor, asked: Tensor, truths: Tensor) -> float:
    """The share of rows whose nearest known row is of their class. Rows: (n, numbers), classes: (n,)."""
    import torch

    is_right = classes[torch.cdist(asked, known).argmin(1)] == truths
    return is_right.double().mean().item()


@cache
def measure_latent_of(data: str, latent: int, seed: int) -> Numbers:
    """A dense autoencoder, whose loss knows no classes; then the nearest neighbour by its latent numbers."""
    import torch
    from torch.nn import functional

    from pellucid.claims.sizes_and_latency import one_thread
    from pellucid.lessons.lesson import train_by_adamw
    from pellucid.models.examples.configs import AutoencoderConfig, row_width
    from pellucid.models.examples.rows import Autoencoder
    from pellucid.training.rng import seed_torch, torch_rng

    images = read_image_tensors(data)
    width = row_width(images.shape.numbers, ())
    with one_thread(), seed_torch(seed, 0, "weights"):
        model = Autoencoder(AutoencoderConfig(images.shape.numbers, (), width, latent=latent))
        rows = torch_rng(seed, 0, "batches")

        def loss_of(step: int) -> Tensor:
            x = images.train[torch.randint(len(images.train), (64,), generator=rows)]
            return functional.mse_loss(model(x, x.new_zeros(64, 0)), x.flatten(1))

        train_by_adamw(model, loss_of, 3e-3, 400)
    with torch.no_grad():
        both = [side.flatten(1) for side in (images.train, images.held)]
        codes = [model.latent(side, side.new_zeros(len(side), 0)) for side in both]
        again = model.decode(codes[1])
        axes = torch.randn(width, latent, generator=torch_rng(seed, 0, "axes"))

    def told(known: Tensor, asked: Tensor) -> float:
        return nearest_told_right(known, images.classes, asked, images.truths)

    pixels = told(both[0], both[1])
    return {
        "kept of what pixels tell": told(codes[0], codes[1]) / pixels,
        "told right by latent numbers": told(codes[0], codes[1]),
        "told right by all pixels": pixels,
        "told right by as many drawn directions": told(both[0] @ axes, both[1] @ axes),
        "variance that comes back": float(1 - (again - both[1]).square().mean() / both[1].var(0).mean()),
        "numbers of an image": float(width),
    }


def tell_by_scikit_learn(knobs: LatentKnobs) -> Numbers:
    from sklearn.neighbors import KNeighborsClassifier  # type: ignore[import-untyped,unused-ignore]

    images = read_image_tensors(knobs.data)
    nearest = KNeighborsClassifier(1).fit(images.train.flatten(1), images.classes)
    return {"told right by all pixels": float(nearest.score(images.held.flatten(1), images.truths))}


POOLING = "exam 3.1.1"

FAMILY = ClaimFamily(
    name="pooling-and-bottlenecks",
    title="Pooling and bottlenecks",
    picture="pooling-shifts",
    claims=(
        Claim(
            id="pooling-gives-invariance",
            says="pooling makes a network more robust to small shifts of the image",
            where=POOLING,
            kind="training",
            measure=measure_moved_digits,
            decides="lost less than by steps",
            margin=lambda seen: seen["lost less than by steps"],
            rule="with max pooling and with average pooling a shift costs fewer of the digits that were told right "
            "than with steps of 2 in their place",
            changed="what moved images give was known before the rule was written",
            knobs=MovedDigitsKnobs,
            control={"pooling": "strided"},
            search=Search("shift", 1, FARTHEST, n_values=3),
            seeds=5,
            other_reading="invariant it is not: moved by one pixel of eight, the network with pooling too loses "
            "about a third of the digits, or more",
        ),
        Claim(
            id="pooling-grows-receptive-field",
            says="pooling makes later places see more of the image",
            where=POOLING,
            kind="arithmetic",
            measure=measure_pooled_field,
            decides="pixels seen",
            margin=lambda seen: seen["pixels seen"] - seen["without pooling"] - 0.5,
            rule="behind the same filters a place of the last map sees more pixels with poolings than without",
            knobs=FieldKnobs,
            control={"first": 1, "second": 1},
            second=measure_field_by_gradients,
        ),
        Claim(
            id="max-picks-avg-smooths",
            says="max pooling takes what is most prominent in a window, and average pooling smooths",
            where=POOLING,
            kind="draws",
            measure=measure_pools,
            decides="max is what stands out",
            margin=lambda seen: min(
                seen["max is what stands out"] - 0.9,
                0.55 - seen["deviation of the mean"],
                seen["deviation of the max"] - seen["deviation of the mean"],
            ),
            rule="a place five deviations above the noise is the maximum in nine of ten windows; the mean leaves about "
            "half of the noise, and less than the maximum does",
            knobs=ProminentKnobs,
            control={"height": -5.0},
            second=integrate_pools,
            tolerance=0.02,
            seeds=8,
            other_reading="prominent means large and positive: a place far below the rest is never taken, and where "
            "pooling comes before the ReLU, as here, maps have such places",
        ),
        Claim(
            id="autoencoder-latent-lower-dim",
            says="the latent space of an autoencoder has fewer dimensions and keeps the most salient features",
            where="exam 1.5",
            kind="training",
            measure=lambda knobs: measure_latent_of(knobs.data, knobs.latent, knobs.seed),
            decides="kept of what pixels tell",
            margin=lambda seen: seen["kept of what pixels tell"] - 0.9,
            rule="the nearest neighbour by 8 latent numbers tells at least nine tenths of the held-out images that it "
            "tells by all pixels",
            knobs=LatentKnobs,
            control={"latent": 1},
            search=Search("latent", 1, 32, n_values=6, is_log=True),
            second=tell_by_scikit_learn,
            seeds=5,
        ),
    ),
)
