"""Fits without noise: a network of two hidden layers learns y = Σ (x³ + 3x² + 3), whose data have no noise at all.

As in the question, it has 64 and 64 leaky ReLU units, the squared error and Adam. It sees all rows in every step, and
its rate falls to nothing at the end. Errors are squared errors as a part of the variance of y.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search
from pellucid.claims.sizes_and_latency import one_thread
from pellucid.lessons.lesson import seed_knob, train_by_adamw
from pellucid.options import check_options, option

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]

REACH = 2.0  # inputs are from -REACH to REACH
LEAK = 0.01  # slope of leaky ReLU below 0
LOOKS = 40  # at both errors in a run
UNSEEN = 1_000  # rows


@dataclass(frozen=True)
class CleanFitKnobs:
    rows: int = option(256, "Rows that are learned.", minimum=4, maximum=20_000)
    inputs: int = option(4, "Inputs of the polynomial.", minimum=1, maximum=64)
    hidden: int = option(64, "Units of each of the two hidden layers.", minimum=1, maximum=1024)
    steps: int = option(800, "Steps of Adam on all rows.", minimum=40, maximum=50_000)
    targets: str = option("own", "Each row learns its own y, or that of another row", choices=("own", "shuffled"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


class CleanFit(NamedTuple):
    """A run: both errors at each look, and what the network says of other rows at its first tenth and at its end."""

    train: tuple[float, ...]
    unseen: tuple[float, ...]
    early: Any
    late: Any
    shift: tuple[Array, Array, float, float]  # mean and deviation of the inputs and of y


@functools.cache
def fit_polynomial(knobs: CleanFitKnobs) -> CleanFit:
    import copy

    import torch
    from torch import Tensor

    from pellucid.models.examples.configs import RowMLPConfig
    from pellucid.models.examples.rows import RowMLP
    from pellucid.training.rng import numpy_rng, seed_torch

    x, y = draw_function_rows(knobs, knobs.rows + UNSEEN, 1.0)
    seen = slice(knobs.rows)
    if knobs.targets == "shuffled":
        y[seen] = y[numpy_rng(knobs.seed, 0, "targets").permutation(knobs.rows)]
    shift = (x[seen].mean(0), x[seen].std(0), float(y[seen].mean()), float(y[seen].std()))
    inputs = torch.from_numpy((x - shift[0]) / shift[1]).float()
    wanted = torch.from_numpy((y - shift[2]) / shift[3]).float()
    with seed_torch(knobs.seed, 0, "weights"):
        model = RowMLP(RowMLPConfig((knobs.inputs,), (), 1, knobs.hidden, 2, activation="leaky_relu"))
    codes = torch.zeros(len(inputs), 0, dtype=torch.long)
    errors: list[tuple[float, float]] = []
    kept: list[Any] = []

    def squares(part: slice) -> Tensor:
        found: Tensor = (model(inputs[part], codes[part])[:, 0] - wanted[part]).square().mean()
        return found

    def look() -> None:
        with torch.no_grad():
            parts = [squares(part) / wanted[part].var() for part in (seen, slice(knobs.rows, None))]
        errors.append((float(parts[0]), float(parts[1])))

    def loss_of(step: int) -> Tensor:
        if step % (knobs.steps // LOOKS) == 1:
            look()
        if step == knobs.steps // 10:
            kept.append(copy.deepcopy(model))
        return squares(seen)

    with one_thread():
        train_by_adamw(model, loss_of, 1e-2, knobs.steps)
        look()
    train, unseen = zip(*errors, strict=True)
    return CleanFit(train, unseen, kept[0], model, shift)


def draw_function_rows(knobs: CleanFitKnobs, n: int, beyond: float) -> tuple[Array, Array]:
    """Rows of the polynomial: inputs, (rows, inputs), and y. beyond: how many times as far the inputs reach."""
    from pellucid.data.sets import polynomial

    frame = polynomial.load(seed=knobs.seed, n=n, n_inputs=knobs.inputs, reach=beyond * REACH).frame
    return frame.drop("y").to_numpy(), frame["y"].to_numpy().copy()


def measure_clean_fit(knobs: CleanFitKnobs) -> Numbers:
    """Both errors at the end, and the lowest error on unseen rows on the way."""
    fit = fit_polynomial(knobs)
    train, unseen = fit.train[-1], fit.unseen[-1]
    falls = [after < before for before, after in zip(fit.train, fit.train[1:], strict=False)]
    both = [after < before for fell, before, after in zip(falls, fit.unseen, fit.unseen[1:], strict=False) if fell]
    return {
        "train error": train,
        "unseen error": unseen,
        "unseen over train": unseen / train,
        "lowest unseen error": min(fit.unseen),
        "gains on train that are gains on unseen": sum(both) / max(1, len(both)),
    }


@dataclass(frozen=True)
class OutsideRangeKnobs(CleanFitKnobs):
    beyond: float = option(1.0, "How many times as far as in training the inputs reach.", minimum=1, maximum=100)


def measure_outside_range(knobs: OutsideRangeKnobs) -> Numbers:
    """The error on rows whose inputs reach further, at a tenth of the run and at its end."""
    import torch

    base = CleanFitKnobs(knobs.rows, knobs.inputs, knobs.hidden, knobs.steps, knobs.targets, knobs.seed)
    fit = fit_polynomial(base)
    mean, deviation, middle, spread = fit.shift

    def error(model: Any, beyond: float) -> float:
        x, y = draw_function_rows(CleanFitKnobs(inputs=knobs.inputs, seed=knobs.seed + 1_000), UNSEEN, beyond)
        inputs = torch.from_numpy((x - mean) / deviation).float()
        with torch.no_grad():
            said = model(inputs, torch.zeros(len(inputs), 0, dtype=torch.long))[:, 0].numpy() * spread + middle
        return float(((said - y) ** 2).mean() / y.var())

    early, late = (error(model, knobs.beyond) for model in (fit.early, fit.late))
    return {
        "late over early": late / early,
        "error early": early,
        "error late": late,
        "train error": fit.train[-1],
        "error late at 4 times the range": error(fit.late, 4.0),
    }


@dataclass(frozen=True)
class WavesKnobs:
    waves: int = option(1, "Waves of a sine from 0 to 1.", minimum=1, maximum=100_000)
    hidden: int = option(64, "Units of each of the two hidden layers.", minimum=2, maximum=128)

    def __post_init__(self) -> None:
        check_options(self)


def measure_waves(knobs: WavesKnobs) -> Numbers:
    """How often a network of one input and two hidden layers can change its sign, and how often the sine does.

    Every unit of the first layer bends its sum once, which gives hidden + 1 straight pieces at most. On each of them a
    unit of the second layer is bent once more, so that there are (hidden + 1)² pieces at most; and a straight piece
    changes its sign once at most.
    """
    return {
        "pieces at most": float((knobs.hidden + 1) ** 2),
        "sign changes of the sine": 2.0 * knobs.waves - 1,
        "sign changes of a built network": float(count_zigzag(knobs.hidden)),
    }


def zigzag_weights(pieces: int) -> tuple[Array, float]:
    """Weights of so many leaky ReLU units, bent at 0, 1/pieces, ..., and an offset: up and down between 0 and 1."""
    import numpy as np

    weights = 2 * pieces / (1 - LEAK) * (-1.0) ** np.arange(pieces)
    weights[0] = pieces - LEAK * weights[1:].sum()
    offset = LEAK * float((weights * np.arange(pieces) / pieces).sum())
    return weights, offset


def count_zigzag(hidden: int) -> int:
    """Sign changes from 0 to 1 of a built network of two hidden layers: a zigzag of a zigzag, less a half.

    >>> count_zigzag(4)
    16
    """
    import numpy as np

    weights, offset = zigzag_weights(hidden)
    x = (np.arange(8 * hidden**2) + 0.5) / (8 * hidden**2)
    for _ in range(2):
        units = x[:, None] - np.arange(hidden) / hidden
        x = np.where(units > 0, units, LEAK * units) @ weights + offset
    signs = x > 0.5
    return int((signs[1:] != signs[:-1]).sum())


def count_waves(knobs: WavesKnobs) -> Numbers:
    """Signs of the sine at points, and the closed form of the built network: hidden² pieces, each of which crosses."""
    import numpy as np

    signs = np.sin(2 * np.pi * knobs.waves * (np.arange(16 * knobs.waves) + 0.5) / (16 * knobs.waves)) > 0
    changes = float((signs[1:] != signs[:-1]).sum())
    return {"sign changes of the sine": changes, "sign changes of a built network": float(knobs.hidden**2)}


QUESTION = "log Q10"

FAMILY = ClaimFamily(
    name="fits-without-noise",
    title="Fits without noise",
    changed="three controls of this family and of bengio-mlp replaced ones that came out the same way; no record says "
    "which",
    claims=(
        Claim(
            id="fixed-64-64-universal-approximator",
            says="a network with two hidden layers of 64 units is a universal approximator",
            where=QUESTION,
            kind="proof",
            measure=measure_waves,
            decides="pieces at most",
            margin=lambda seen: seen["pieces at most"] - seen["sign changes of the sine"] + 0.5,
            rule="for every number of waves it can change its sign as often as a sine does",
            knobs=WavesKnobs,
            control={"waves": 3_000},
            search=Search("waves", 1, 10_000, is_log=True),
            second=count_waves,
            other_reading="universal are networks whose width may grow with the function and the precision",
        ),
        Claim(
            id="mlp-train-error-near-zero",
            says="64 and 64 leaky ReLU units learn the polynomial to a training error close to zero",
            where=QUESTION,
            kind="training",
            measure=measure_clean_fit,
            decides="train error",
            margin=lambda seen: 1e-3 - seen["train error"],
            rule="after 800 steps it is below a thousandth of the variance of y",
            knobs=CleanFitKnobs,
            control={"hidden": 2},
            seeds=5,
        ),
        Claim(
            id="mlp-good-fit-prediction",
            says="the fit is a good one: validation error tracks training error, and both end low",
            where=QUESTION,
            kind="training",
            measure=measure_clean_fit,
            decides="unseen error",
            margin=lambda seen: min(0.01 - (seen["unseen error"] - seen["train error"]), 0.05 - seen["unseen error"]),
            rule="the unseen error is above the train error by less than 1 % of the variance, and below 5 %, however "
            "many rows are learned",
            knobs=CleanFitKnobs,
            control={"rows": 1_024},
            search=Search("rows", 16, 1_024, n_values=4, is_log=True),
            seeds=5,
        ),
        Claim(
            id="no-noise-means-no-overfitting",
            says="without noise in the data there is nothing to overfit",
            where=QUESTION,
            kind="training",
            measure=measure_clean_fit,
            decides="unseen over train",
            margin=lambda seen: max(0.01 - seen["unseen error"], 2 * seen["train error"] - seen["unseen error"]),
            rule="the unseen error is below 1 % of the variance, or at most twice the train error, however many inputs "
            "there are",
            knobs=CleanFitKnobs,
            control={"inputs": 2},
            search=Search("inputs", 1, 16, n_values=3, is_log=True),
            seeds=5,
            surprise="the gap comes from too few rows for the number of inputs, not from noise",
        ),
        Claim(
            id="train-gain-transfers-directly",
            says="whatever lowers the training error lowers the validation error as well",
            where=QUESTION,
            kind="training",
            measure=measure_clean_fit,
            decides="gains on train that are gains on unseen",
            margin=lambda seen: seen["gains on train that are gains on unseen"] - 0.95,
            rule="from look to look, 40 in a run, 95 % of the gains on train are gains on unseen rows, however many "
            "rows are learned",
            knobs=CleanFitKnobs,
            control={"rows": 1_024},
            search=Search("rows", 16, 1_024, n_values=4, is_log=True),
            seeds=5,
        ),
        Claim(
            id="error-falls-on-any-data",
            says="as the network learns, its error on any data of that function falls",
            where=QUESTION,
            kind="training",
            measure=measure_outside_range,
            decides="late over early",
            margin=lambda seen: -math.log(seen["late over early"]),
            rule="the error is lower at the end than at a tenth of the run, however far beyond the range of training "
            "the inputs reach",
            knobs=OutsideRangeKnobs,
            control={"targets": "shuffled"},
            search=Search("beyond", 1.0, 8.0, n_values=5, is_log=True),
            seeds=5,
            other_reading="that it becomes small there, as on train: at 4 times the range it stays near the variance",
        ),
    ),
)
