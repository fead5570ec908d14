"""Batch sizes: what small batches and large ones do to gradients, to the time and memory of an update, and to learning.

The network is an MLP of one hidden layer on images, by default the 1,465 digits of train, with plain SGD and on one
thread. Local minima are waves in a wide bowl, whose height can be set while the noise of a batch stays, and those of a
network of two hidden units on XOR.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search
from pellucid.claims.learning_rates import BLOWN_UP
from pellucid.claims.sizes_and_latency import one_thread
from pellucid.claims.vits_and_cnns import IMAGES, ImageTensors, read_image_tensors
from pellucid.lessons.batch_size import noise_share
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor

    from pellucid.models.contracts import ExampleModel

HIDDEN = 32
RATES = tuple(2.0**power for power in range(-6, 4))  # that are tried, each twice the one before
MOST_STEPS, LOOK = 800, 5  # that are made, and after which the loss on train is looked at
EXAMPLES, DRAWS = 400, 1_000  # whose gradients are taken, and batches that are drawn of them


def build_classifier(images: ImageTensors, seed: int) -> ExampleModel:
    """An MLP with one hidden layer of 32 units, which reads the pixels of an image."""
    from pellucid.models.examples.configs import RowMLPConfig
    from pellucid.models.examples.rows import RowMLP
    from pellucid.training.rng import seed_torch

    with seed_torch(seed, 0, "weights"):
        return RowMLP(RowMLPConfig(*images.shape, hidden=HIDDEN, depth=1))


def classifier_loss(model: ExampleModel, images: Tensor, classes: Tensor) -> Tensor:
    from torch.nn.functional import cross_entropy

    return cross_entropy(model(images, images.new_zeros(len(images), 0)), classes)


def update_by_sgd(model: ExampleModel, loss: Tensor, learning_rate: float) -> None:
    """One plain step against the gradient."""
    import torch

    model.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.sub_(parameter.grad, alpha=learning_rate)


# Noise of the gradient


@dataclass(frozen=True)
class GradientNoiseKnobs:
    data: str = option("digits", IMAGES)
    small: int = option(8, "Images of the small batch.", minimum=1, maximum=EXAMPLES)
    large: int = option(64, "Images of the large batch.", minimum=1, maximum=EXAMPLES)
    rows: str = option(
        "different",
        "Whether the large batch has other images, or those of a small one again and again",
        choices=("different", "repeated"),
    )
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_gradient_noise(knobs: GradientNoiseKnobs) -> Numbers:
    """How far batches' gradients are from the mean over 400 images, squared, for batches that are drawn of them."""
    import torch

    from pellucid.lessons.batch_size import flat_gradient
    from pellucid.training.rng import torch_rng

    images = read_image_tensors(knobs.data)
    model = build_classifier(images, knobs.seed)
    rng = torch_rng(knobs.seed, 0, "batches")
    chosen = torch.randperm(len(images.train), generator=rng)[:EXAMPLES].tolist()
    parameters = list(model.parameters())
    with one_thread():
        each = torch.stack(
            [
                flat_gradient(classifier_loss(model, images.train[[row]], images.classes[[row]]), parameters)
                for row in chosen
            ]
        )
    mean = each.mean(0)
    n_large = knobs.large if knobs.rows == "different" else knobs.small  # copies change no mean

    def noise(size: int) -> float:
        batches = torch.rand(DRAWS, len(each), generator=rng).argsort(1)[:, :size]
        apart = torch.stack([each[rows].mean(0) - mean for rows in batches])
        return float(apart.square().sum(1).mean())

    small, large = noise(knobs.small), noise(n_large)
    return {"times as noisy": small / large, "noise, small": small, "noise, large": large}


def noise_by_formula(knobs: GradientNoiseKnobs) -> Numbers:
    """Drawn without putting back: the variance of one, over the batch size, times (N − B)/(N − 1)."""
    n_large = knobs.large if knobs.rows == "different" else knobs.small
    return {"times as noisy": noise_share(knobs.small, EXAMPLES) / noise_share(n_large, EXAMPLES)}


# Time and memory of an update


@dataclass(frozen=True)
class UpdateKnobs:
    data: str = option("digits", IMAGES)
    small: int = option(8, "Images of the small batch.", minimum=1, maximum=100_000)
    large: int = option(256, "Images of the large batch.", minimum=1, maximum=100_000)
    pieces: str = option(
        "whole",
        "Whether the large batch is read at once, or in small ones whose gradients add up",
        choices=("whole", "small ones"),
    )
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def least_update_seconds(updates: Mapping[str, Callable[[], object]], repeats: int = 100) -> dict[str, float]:
    """Seconds that one thread worked for each, the least of several; in turns, so that all meet the same machine."""
    least = dict.fromkeys(updates, math.inf)
    with one_thread():
        for _ in range(repeats):
            for name, update in updates.items():
                began = time.process_time()
                update()
                least[name] = min(least[name], time.process_time() - began)
    return least


def _update_on(model: ExampleModel, parts: Sequence[tuple[Tensor, Tensor]]) -> None:
    for part in parts:
        update_by_sgd(model, classifier_loss(model, *part) / len(parts), 0.01)


def measure_updates(knobs: UpdateKnobs) -> Numbers:
    """One update on a batch of each size: its seconds, and what it keeps for the way back."""
    import torch

    from pellucid.lessons.batch_size import saved_for_backward
    from pellucid.training.rng import torch_rng

    images = read_image_tensors(knobs.data)
    rng = torch_rng(knobs.seed, 0, "batches")
    updates, kept = {}, {}
    for name, size in (("small", knobs.small), ("large", knobs.large)):
        model = build_classifier(images, knobs.seed)
        rows = torch.randint(len(images.train), (size,), generator=rng)
        x, y = images.train[rows], images.classes[rows]
        piece = knobs.small if knobs.pieces == "small ones" else size
        parts = [(x[at : at + piece].clone(), y[at : at + piece].clone()) for at in range(0, size, piece)]
        updates[name] = partial(_update_on, model, parts)
        kept[name] = saved_for_backward(partial(classifier_loss, model, *parts[0]), model.parameters())
    seconds = least_update_seconds(updates)
    return {
        "seconds, small over large": seconds["small"] / seconds["large"],
        "seconds of an epoch, small over large": seconds["small"] * knobs.large / (seconds["large"] * knobs.small),
        "microseconds, small": 1e6 * seconds["small"],
        "microseconds, large": 1e6 * seconds["large"],
        "bytes kept, small": float(kept["small"]),
        "bytes kept, large": float(kept["large"]),
    }


def count_kept_bytes(knobs: UpdateKnobs) -> Numbers:
    """Of each image its pixels, the hidden layer before and after its activation, log-probabilities and its class."""
    images = read_image_tensors(knobs.data)
    of_one = 4 * (images.shape.n_numbers + 2 * HIDDEN + images.shape.outputs) + 8
    large = knobs.small if knobs.pieces == "small ones" else knobs.large
    return {"bytes kept, small": float(of_one * knobs.small + 4), "bytes kept, large": float(of_one * large + 4)}


# Learning


@cache
def train_by_batches(
    data: str, batch_size: int, learning_rate: float, steps: int, seed: int, until: float = 0.0
) -> tuple[int, float]:
    """Plain SGD: the steps that were made, and the loss on all of train; one that is no number is very large.

    until: the loss at which it ends, looked at after every five steps; 0 is never.
    """
    import torch

    from pellucid.training.rng import torch_rng

    images = read_image_tensors(data)
    model, rng = build_classifier(images, seed), torch_rng(seed, 0, "batches")
    loss = BLOWN_UP
    with one_thread():
        for step in range(1, steps + 1):
            rows = torch.randint(len(images.train), (batch_size,), generator=rng)
            update_by_sgd(model, classifier_loss(model, images.train[rows], images.classes[rows]), learning_rate)
            if step == steps or (until and step % LOOK == 0):
                with torch.no_grad():
                    loss = classifier_loss(model, images.train, images.classes).item()
                if loss <= until:
                    return step, loss
    return steps, loss if loss < BLOWN_UP else BLOWN_UP  # what is no number compares as false


@dataclass(frozen=True)
class BestRateKnobs:
    data: str = option("digits", IMAGES)
    small: int = option(2, "Images of the small batch.", minimum=1, maximum=10_000)
    large: int = option(256, "Images of the large batch.", minimum=1, maximum=10_000)
    steps: int = option(150, "Steps of each training.", minimum=10, maximum=100_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_best_rates(knobs: BestRateKnobs) -> Numbers:
    """The learning rate with the lowest loss on train after as many steps, for each batch size."""
    best, lowest = {}, {}
    for name, size in (("small", knobs.small), ("large", knobs.large)):
        losses = {rate: train_by_batches(knobs.data, size, rate, knobs.steps, knobs.seed)[1] for rate in RATES}
        best[name] = min(losses, key=lambda rate: losses[rate])
        lowest[name] = losses[best[name]]
    return {
        "times lower": best["large"] / best["small"],
        "doublings lower": math.log2(best["large"] / best["small"]),
        "best rate, small": best["small"],
        "best rate, large": best["large"],
        "loss, small": lowest["small"],
        "loss, large": lowest["large"],
    }


@dataclass(frozen=True)
class IterationsKnobs:
    data: str = option("digits", IMAGES)
    small: int = option(8, "Images of the small batch.", minimum=1, maximum=10_000)
    large: int = option(256, "Images of the large batch.", minimum=1, maximum=10_000)
    learning_rate: float = option(0.0, "Of both; 0 is the best for each.", minimum=0, maximum=100)
    loss: float = option(0.3, "Loss on train that is to be reached.", minimum=0.001, maximum=10)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_iterations(knobs: IterationsKnobs) -> Numbers:
    """Steps until the loss on train is reached, at the learning rate that takes fewest or at a given one."""
    images = read_image_tensors(knobs.data)

    def steps_of(size: int, rate: float) -> int:
        return train_by_batches(knobs.data, size, rate, MOST_STEPS, knobs.seed, knobs.loss)[0]

    rates = (knobs.learning_rate,) if knobs.learning_rate else (0.125, 0.25, 0.5, 1.0, 2.0)
    small, large = (float(min(steps_of(size, rate) for rate in rates)) for size in (knobs.small, knobs.large))
    return {
        "steps, large over small": large / small,
        "steps, small": small,
        "steps, large": large,
        "epochs, small": small * knobs.small / len(images.train),
        "epochs, large": large * knobs.large / len(images.train),
    }


# Local minima

POINTS, STARTS = 64, 64
BOWL, WAVE = 0.02, 2.0  # curvatures of a bowl, and of the waves in it, whatever their height
Losses = Callable[[Sequence["Tensor"], "Tensor | None"], "Tensor"]


@dataclass(frozen=True)
class EscapeKnobs:
    minima: str = option("waves", "Waves in a wide bowl, or those of a network on XOR", choices=("waves", "of XOR"))
    height: float = option(0.1, "From the bottom of a wave to its top.", minimum=1e-4, maximum=100)
    batch_size: int = option(4, "Points of a batch; there are 64.", minimum=1, maximum=POINTS)
    learning_rate: float = option(0.5, "Learning rate, of small batches and large ones.", minimum=1e-4, maximum=10)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def losses_on_xor(seed: int) -> Losses:
    """Of many networks of two tanh units, each on points of its own: rows (starts, n), or None for all -> (starts,)."""
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits

    from pellucid.data.sets import xor

    frame = xor.load(seed=seed, n=POINTS, noise=0.15).frame
    x = torch.from_numpy(2 * frame.select("x1", "x2").to_numpy() - 1)
    y = torch.from_numpy(frame["y"].to_numpy().astype("float64"))

    def losses(weights: Sequence[Tensor], rows: Tensor | None) -> Tensor:
        first, first_bias, last, last_bias = weights
        n = len(first)
        points, truths = (x.expand(n, -1, -1), y.expand(n, -1)) if rows is None else (x[rows], y[rows])
        hidden = (points @ first + first_bias).tanh()  # (starts, n, 2)
        scores = (hidden @ last)[..., 0] + last_bias
        return binary_cross_entropy_with_logits(scores, truths, reduction="none").mean(1)

    return losses


def losses_on_waves(height: float, seed: int) -> Losses:
    """Of one number w: a wide bowl with waves, and for each point a slope; all slopes together are 0."""
    import torch

    from pellucid.training.rng import torch_rng

    slopes = torch.randn(POINTS, generator=torch_rng(seed, 0, "slopes"), dtype=torch.float64)
    slopes -= slopes.mean()
    turns = math.sqrt(2 * WAVE / height)  # of the cosine for each unit of w

    def losses(weights: Sequence[Tensor], rows: Tensor | None) -> Tensor:
        (w,) = weights
        slope = torch.zeros_like(w) if rows is None else slopes[rows].mean(1)
        return BOWL * w.square() / 2 + slope * w + height / 2 * (1 - (turns * w).cos())

    return losses


def descend(
    losses: Losses, weights: Sequence[Tensor], batch_size: int, rate: float, n_steps: int, seed: int
) -> list[Tensor]:
    """Gradient descent from many starts at once, each on batches of its own, or on all points."""
    import torch

    from pellucid.training.rng import torch_rng

    rng, n = torch_rng(seed, 0, "batches"), len(weights[0])
    now = [one.clone().requires_grad_() for one in weights]
    for _ in range(n_steps):
        rows = torch.randint(POINTS, (n, batch_size), generator=rng) if batch_size < POINTS else None
        slopes = torch.autograd.grad(losses(now, rows).sum(), now)
        with torch.no_grad():
            for one, slope in zip(now, slopes, strict=True):
                one.sub_(slope, alpha=rate)
    return [one.detach() for one in now]


@cache
def find_minima(minima: str, height: float, seed: int) -> tuple[Losses, tuple[Tensor, ...]]:
    """Where descent on all points ended at a loss that is 0.1 or more above the lowest."""
    import torch

    from pellucid.training.rng import torch_rng

    rng = torch_rng(seed, 0, "weights")
    if minima == "of XOR":
        losses = losses_on_xor(seed)
        shapes = ((STARTS, 2, 2), (STARTS, 1, 2), (STARTS, 2, 1), (STARTS, 1))
        start = [torch.randn(shape, generator=rng, dtype=torch.float64) for shape in shapes]
    else:
        losses = losses_on_waves(height, seed)
        start = [12 * torch.rand(STARTS, generator=rng, dtype=torch.float64)]
    with one_thread():
        ended = descend(losses, start, POINTS, 0.5, 1_500, seed)
    found = losses(ended, None)
    is_stuck = found > found.min() + 0.1
    return losses, tuple(one[is_stuck] for one in ended)


@cache
def losses_after_escape(minima: str, height: float, batch_size: int, rate: float, seed: int) -> Tensor:
    """Of those that are stuck: by how much the loss falls in 300 steps on batches, and 300 on all points to settle."""
    losses, stuck = find_minima(minima, height, seed)
    with one_thread():
        moved = descend(losses, stuck, batch_size, rate, 300, seed)
        settled = descend(losses, moved, POINTS, 0.5, 300, seed)
    return losses(stuck, None) - losses(settled, None)


def measure_escapes(knobs: EscapeKnobs) -> Numbers:
    """The shares of stuck starts whose loss falls by more than 0.05, on small batches and on all points."""
    losses, stuck = find_minima(knobs.minima, knobs.height, knobs.seed)
    small, whole = (
        losses_after_escape(knobs.minima, knobs.height, size, knobs.learning_rate, knobs.seed)
        for size in (knobs.batch_size, POINTS)
    )
    return {
        "escaped on small batches": (small > 0.05).double().mean().item(),
        "escaped on all points": (whole > 0.05).double().mean().item(),
        "worse on small batches": (small < -0.05).double().mean().item(),
        "starts that are stuck": len(stuck[0]) / STARTS,
        "loss where they are": losses(stuck, None).mean().item(),
    }


BATCH_SIZE = "exam P2.1"

FAMILY = ClaimFamily(
    name="batch-sizes",
    title="Batch sizes",
    picture="batch-size",
    claims=(
        Claim(
            id="small-batch-noisier",
            says="small batches have noisier gradients",
            where=BATCH_SIZE,
            kind="draws",
            measure=measure_gradient_noise,
            decides="times as noisy",
            margin=lambda seen: seen["times as noisy"] - 2,
            rule="the gradient of 8 images is more than twice as far from that of all, squared, as that of 64",
            knobs=GradientNoiseKnobs,
            control={"rows": "repeated"},
            second=noise_by_formula,
            tolerance=0.05,
            seeds=5,
        ),
        Claim(
            id="small-batch-faster-updates",
            says="with small batches an update takes less time",
            where=BATCH_SIZE,
            kind="cost",
            measure=measure_updates,
            decides="seconds, small over large",
            margin=lambda seen: 0.9 - seen["seconds, small over large"],
            rule="on one thread an update of 8 images takes less than nine tenths of the time of a larger one",
            changed="both sizes are timed in turns, 100 times each: one after the other, 15 times, the interval held "
            "both answers",
            knobs=UpdateKnobs,
            control={"large": 8},
            search=Search("large", 16, 1024, n_values=4, is_log=True),
            seeds=5,
            other_reading="all images take longer in small batches than in large ones",
        ),
        Claim(
            id="large-batch-slower-and-more-memory",
            says="with large batches an update takes longer and needs more memory",
            where=BATCH_SIZE,
            kind="cost",
            measure=measure_updates,
            decides="bytes kept, large",
            margin=lambda seen: min(
                1 / seen["seconds, small over large"] - 1.1, seen["bytes kept, large"] / seen["bytes kept, small"] - 1.1
            ),
            rule="256 images take more than 1.1 times the seconds of 8, and keep more than 1.1 times the bytes",
            knobs=UpdateKnobs,
            control={"pieces": "small ones"},
            second=count_kept_bytes,
            seeds=5,
        ),
        Claim(
            id="small-batch-smaller-lr",
            says="small batches may need a lower learning rate",
            where=BATCH_SIZE,
            kind="training",
            measure=measure_best_rates,
            decides="times lower",
            margin=lambda seen: seen["doublings lower"] - 0.5,
            rule="after as many steps the best of ten rates, each twice the one before, is lower with 2 images than "
            "with 256, by more than half a doubling on average",
            knobs=BestRateKnobs,
            control={"small": 128},
            seeds=5,
        ),
        Claim(
            id="large-batch-fewer-iterations",
            says="with large batches training takes fewer steps",
            where=BATCH_SIZE,
            kind="training",
            measure=measure_iterations,
            decides="steps, large over small",
            margin=lambda seen: 0.9 - seen["steps, large over small"],
            rule="with 256 images, each at its best rate, a loss of 0.3 takes less than nine tenths of the steps of 8",
            knobs=IterationsKnobs,
            control={"learning_rate": 0.02, "loss": 1.0},
            seeds=5,
            other_reading="it takes more epochs, and so more images",
        ),
        Claim(
            id="small-batch-escapes-minima",
            surprise="noise of batches leaves shallow traps, and none of those that exclusive or has",
            says="the noise of small batches leads out of local minima in which large batches stay",
            where=BATCH_SIZE,
            kind="training",
            measure=measure_escapes,
            decides="escaped on small batches",
            margin=lambda seen: seen["escaped on small batches"] - seen["escaped on all points"] - 0.1,
            rule="of starts in local minima at least a tenth more come to a lower loss by batches of 4 than by going "
            "on with all points, however high the way out is",
            changed="the height of the way out is searched and not the size of the batch, which decides nothing by "
            "itself",
            knobs=EscapeKnobs,
            control={"minima": "of XOR"},
            search=Search("height", 0.02, 2.0, n_values=5, is_log=True),
            seeds=5,
            other_reading="of networks with two hidden units half of all starts get stuck on XOR, and not one of them "
            "comes out by batches of 4 at the same rate",
        ),
    ),
)
