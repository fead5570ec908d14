"""Losses in training: what cross-entropy and the squared error of probabilities do to a classifier that learns.

The squared error is that of the probabilities that softmax or a sigmoid gives. Networks learn the digits by Adam: half
of them train, the others are tested on.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search
from pellucid.lessons.lesson import seed_knob
from pellucid.lessons.probability_losses import LOSSES
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor

NAMES = {"cross-entropy": "cross-entropy", "squared error": "mse", "absolute error": "l1"}
RATES = (1e-3, 3e-3, 1e-2, 3e-2)


@dataclass(frozen=True)
class WrongStartKnobs:
    p: float = option(0.01, "Probability that the right class has at the start, about.", minimum=1e-9, maximum=0.49)
    learning_rate: float = option(1.0, "Of plain gradient descent.", minimum=1e-4, maximum=100)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def count_steps(name: str, knobs: WrongStartKnobs, most: int = 3_000) -> int:
    """Steps of gradient descent until 90 % of two clouds are right, from weights that are sure of the opposite."""
    import numpy as np

    rng = np.random.default_rng(knobs.seed)
    x = np.array([2.0, 0.0]) + 0.5 * rng.normal(size=(100, 2))  # each times its label
    weights = np.array([math.log(knobs.p / (1 - knobs.p)) / 2, 0.0])
    slope = next(loss.slope for loss in LOSSES if loss.name == name)
    for step in range(most):
        z = x @ weights
        if (z > 0).mean() >= 0.9:
            return step
        weights = weights - knobs.learning_rate * (slope(z)[:, None] * x).mean(0)
    return most


def measure_recovery(knobs: WrongStartKnobs) -> Numbers:
    """Steps until an answer that begins sure and wrong is right again, by both losses."""
    squared, entropy = (count_steps(name, knobs) for name in ("squared error", "cross-entropy"))
    return {
        "steps by squared error": float(squared),
        "steps by cross-entropy": float(entropy),
        "times as many": squared / max(1, entropy),
    }


@dataclass(frozen=True)
class DigitLossKnobs:
    classes: int = option(10, "The first so many digits are told apart.", minimum=2, maximum=10)
    wrong_labels: float = option(0.0, "Part of train whose labels are drawn at random.", minimum=0, maximum=1)
    start: float = option(1.0, "Factor of the output layer's first weights.", minimum=0, maximum=1000)
    steps: int = option(300, "Steps.", minimum=10, maximum=5000)
    batch_size: int = option(64, "Digits in a step.", minimum=1, maximum=1797)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@functools.cache
def train_on_digits(loss: str, learning_rate: float, knobs: DigitLossKnobs, every: int = 10) -> tuple[float, ...]:
    """The accuracy on the held-out digits after each so many steps, of an MLP with 64 hidden ReLU units."""
    import torch
    from torch import nn

    from pellucid.data.sets import digits
    from pellucid.layers.losses import find_example_loss
    from pellucid.training.rng import seed_torch, torch_rng

    data, rng = digits.load(), torch_rng(knobs.seed, 0, "labels")
    labels = torch.from_numpy(data.labels.astype("int64"))
    order = torch.randperm(len(labels), generator=rng)
    order = order[labels[order] < knobs.classes]
    inputs = torch.from_numpy(data.pixels.reshape(-1, 64)).float()[order] / 255
    labels, n_train = labels[order], len(order) // 2
    is_wrong = torch.rand(n_train, generator=rng) < knobs.wrong_labels
    taught = torch.where(is_wrong, torch.randint(knobs.classes, (n_train,), generator=rng), labels[:n_train])
    with seed_torch(knobs.seed, 0, "weights"):
        first, last = nn.Linear(64, 64), nn.Linear(64, knobs.classes)
    with torch.no_grad():
        last.weight.mul_(knobs.start)
    model = nn.Sequential(first, nn.ReLU(), last)
    losses = find_example_loss(loss, "classification").losses
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    batches = torch_rng(knobs.seed, 0, "batches")
    accuracies = []
    for step in range(1, knobs.steps + 1):
        chosen = torch.randperm(n_train, generator=batches)[: knobs.batch_size]
        optimizer.zero_grad()
        losses(model(inputs[chosen]), taught[chosen]).mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step % every == 0:
            with torch.no_grad():
                accuracies.append(float((model(inputs[n_train:]).argmax(1) == labels[n_train:]).float().mean()))
    return tuple(accuracies)


def measure_speed(knobs: DigitLossKnobs) -> Numbers:
    """The fewest steps on all of train to 85 % over four learning rates, each loss with the one that suits it."""
    whole, found = replace(knobs, steps=40, batch_size=1797), {}
    for name in ("cross-entropy", "squared error"):
        curves = [train_on_digits(NAMES[name], rate, whole, every=1) for rate in RATES]
        found[f"steps by {name}"] = float(
            min([next((step for step, a in enumerate(one, 1) if a >= 0.85), 40) for one in curves])
        )
    return found


def measure_accuracy(knobs: DigitLossKnobs) -> Numbers:
    """The accuracy at the end, the mean of five looks at it."""
    return {
        f"accuracy by {name}": math.fsum(train_on_digits(loss, 3e-3, knobs)[-5:]) / 5 for name, loss in NAMES.items()
    }


def measure_with_wrong_labels(knobs: DigitLossKnobs) -> Numbers:
    """The same with more steps, and half of the labels at random unless another part is asked for."""
    return measure_accuracy(replace(knobs, steps=800, wrong_labels=knobs.wrong_labels or 0.5))


@dataclass(frozen=True)
class SigmoidDepthKnobs:
    depth: int = option(10, "Hidden sigmoid layers of 32 units.", minimum=1, maximum=50)
    loss: str = option("cross-entropy", "Loss", choices=("cross-entropy", "mse"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_first_gradient(knobs: SigmoidDepthKnobs) -> Numbers:
    """One pass of cross-entropy through sigmoid layers: the gradient of the first layer beside that of the last."""
    import torch
    from torch import nn

    from pellucid.layers.losses import find_example_loss
    from pellucid.training.rng import seed_torch, torch_rng

    with seed_torch(knobs.seed, 0, "weights"):
        layers = [nn.Linear(32, 32) for _ in range(knobs.depth)]
        last = nn.Linear(32, 10)
    rng = torch_rng(knobs.seed, 0, "inputs")
    inputs, labels = torch.randn(64, 32, generator=rng), torch.randint(10, (64,), generator=rng)
    activations = inputs
    for layer in layers:
        activations = layer(activations).sigmoid()
    losses: Tensor = find_example_loss(knobs.loss, "classification").losses(last(activations), labels)
    by_first, by_last = torch.autograd.grad(losses.mean(), [layers[0].weight, last.weight])
    ratio = float(by_first.norm() / by_last.norm())
    return {"first over last": ratio, "its logarithm": math.log10(max(ratio, 1e-300))}


FAMILY = ClaimFamily(
    name="losses-in-training",
    title="Losses in training",
    picture="losses",
    claims=(
        Claim(
            id="mse-stuck-after-confident-error",
            says="after a sure error the squared error learns very slowly, and cross-entropy recovers",
            where="log Q4-Q6",
            kind="training",
            measure=measure_recovery,
            decides="times as many",
            margin=lambda seen: math.log10(seen["times as many"]) - 1,
            rule="from a start that is surely wrong it takes ten times as many steps or more to be right",
            knobs=WrongStartKnobs,
            control={"p": 0.001},
            search=Search("p", 1e-4, 0.4, is_log=True),
            seeds=8,
        ),
        Claim(
            id="ce-faster-training",
            says="classifiers learn faster by cross-entropy than by the squared error",
            where="log Q6",
            kind="training",
            measure=measure_speed,
            decides="steps by cross-entropy",
            margin=lambda seen: math.log(0.9 * seen["steps by squared error"] / seen["steps by cross-entropy"]),
            rule="each with its best learning rate, cross-entropy needs a tenth fewer steps to 85 % of the digits",
            knobs=DigitLossKnobs,
            control={"classes": 2},
            seeds=8,
        ),
        Claim(
            id="mse-fails-for-classification",
            says="the squared error fails at classification",
            where="log Q4/Q6",
            kind="training",
            measure=measure_accuracy,
            decides="accuracy by squared error",
            margin=lambda seen: seen["accuracy by cross-entropy"] - seen["accuracy by squared error"] - 0.05,
            rule="it ends 5 points or more below cross-entropy on digits",
            knobs=DigitLossKnobs,
            control={"start": 100.0},
            seeds=5,
        ),
        Claim(
            id="never-use-distance-loss",
            says="no distance should be used as the loss of a classifier",
            where="log Q4",
            kind="training",
            measure=measure_with_wrong_labels,
            decides="accuracy by absolute error",
            margin=lambda seen: (
                seen["accuracy by cross-entropy"]
                - max(seen["accuracy by squared error"], seen["accuracy by absolute error"])
                + 0.01
            ),
            rule="also where half of the labels are random, neither distance ends a point above cross-entropy",
            knobs=DigitLossKnobs,
            control={"wrong_labels": 0.001},
            seeds=5,
        ),
        Claim(
            id="ce-prevents-vanishing-gradient",
            says="cross-entropy prevents the vanishing gradient",
            where="log Q6",
            kind="draws",
            measure=measure_first_gradient,
            decides="first over last",
            margin=lambda seen: seen["its logarithm"] + 2,
            rule="in a network of sigmoid layers the first layer has a hundredth of the last one's gradient at least",
            knobs=SigmoidDepthKnobs,
            control={"depth": 1},
            search=Search("depth", 1, 20),
            seeds=8,
            other_reading="it undoes the sigmoid or softmax of the output, and of no other layer",
        ),
    ),
)
