"""Longer sequences: encodings of positions that were trained on 16 tokens and read more, and places not trained on.

The task is copy-back: at each place to name the symbol two places before. It asks for a distance and for nothing else,
so that who has learned it for 16 places could do it at any. Each network is a stack of two causal blocks of our
encoder, width 32, four heads; what is judged are sequences that it was not trained on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search
from pellucid.claims.sizes_and_latency import one_thread
from pellucid.lessons.lesson import seed_knob, train_by_adamw
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor

    from pellucid.models.pairs.encoder_decoder import EncoderStack

KINDS = ("none", "index", "sinusoidal", "learned", "rotary", "relative", "alibi")
TRAINED, LONGEST = 16, 128  # places of the sequences that are trained on, and that a network is made for
BACK, SYMBOLS_USED = 2, 8
TOKENS_A_STEP, LEARNING_RATE = 1024, 5e-3
N_TRAIN, N_NEW = 2_000, 100


class Copier(NamedTuple):
    """A network that names the symbol two places before each place."""

    embedding: Tensor  # (symbols, width)
    stack: EncoderStack
    head: Tensor  # (symbols and "nothing", width)
    sees_all: bool  # each place sees all others, not those before it alone

    def score(self, tokens: Tensor) -> Tensor:
        """(batch, time) -> (batch, time, symbols and "nothing")"""
        from pellucid.layers.masks import CAUSAL, EVERYTHING

        out: Tensor = self.stack(self.embedding[tokens], EVERYTHING if self.sees_all else CAUSAL) @ self.head.T
        return out


@cache
def load_copies(seed: int, n: int, length: int) -> tuple[Tensor, Tensor]:
    """Sources and targets of copy-back as numbers, (n, length) each; the last number is for nothing."""
    import torch

    from pellucid.data.sets import SYMBOLS
    from pellucid.data.sets.copy_back import NOTHING, load

    numbers = {symbol: i for i, symbol in enumerate((*SYMBOLS[:SYMBOLS_USED], NOTHING))}
    pairs = load(seed=seed, n=n, k=BACK, n_symbols=SYMBOLS_USED, length=length).pairs
    sources, targets = (
        torch.tensor([[numbers[symbol] for symbol in row] for row in side]) for side in zip(*pairs, strict=True)
    )
    return sources, targets


@cache
def train_copier(positions: str, length: int, scored: int, sees_all: bool, steps: int, seed: int) -> Copier:
    """Trained on sequences of `length` places, of which the first `scored` count."""
    import torch
    from torch import nn
    from torch.nn.functional import cross_entropy

    from pellucid.models.pairs.configs import EncoderConfig
    from pellucid.models.pairs.encoder_decoder import EncoderStack
    from pellucid.training.rng import numpy_rng, seed_torch

    config = EncoderConfig(SYMBOLS_USED + 1, LONGEST, LONGEST, 32, 2, 4, positions=positions)
    with seed_torch(seed, 0, "weights"):
        stack = EncoderStack(config, LONGEST)
        embedding, head = nn.Embedding(SYMBOLS_USED, 32).weight, nn.Linear(32, SYMBOLS_USED + 1).weight
    copier = Copier(embedding, stack, head, sees_all)
    sources, targets = load_copies(seed, N_TRAIN, length)
    whole = nn.ParameterList([*stack.parameters(), embedding, head])

    def loss_of(step: int) -> Tensor:
        rows = torch.from_numpy(numpy_rng(seed, step, "batch").integers(0, N_TRAIN, TOKENS_A_STEP // length))
        scores = copier.score(sources[rows])[:, :scored]
        return cross_entropy(scores.flatten(0, 1), targets[rows, :scored].flatten())

    with one_thread():
        train_by_adamw(whole, loss_of, LEARNING_RATE, steps)
    stack.eval()
    return copier


def share_right(copier: Copier, length: int, first: int, last: int | None = None) -> float:
    """Of new sequences of this length, the share of places from `first` up to `last` that are told right."""
    import torch

    sources, targets = load_copies(1_000, N_NEW, length)
    with torch.no_grad(), one_thread():
        return float((copier.score(sources).argmax(-1) == targets)[:, first:last].double().mean())


# Longer than in training


@dataclass(frozen=True)
class BeyondKnobs:
    positions: str = option("sinusoidal", "Kind of positions", choices=KINDS)
    length: int = option(
        2 * TRAINED, "Places of the sequences that are read; 16 were trained on.", minimum=17, maximum=128
    )
    steps: int = option(300, "Training steps of 64 sequences.", minimum=1, maximum=20_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class IndexBeyondKnobs(BeyondKnobs):
    positions: str = option("index", "Kind of positions", choices=KINDS)


@dataclass(frozen=True)
class RelativeBeyondKnobs(BeyondKnobs):
    positions: str = option("relative", "Kind of positions", choices=KINDS)


@dataclass(frozen=True)
class BesideKnobs:
    beside: str = option("sinusoidal", "Positions that rotary ones are compared with", choices=KINDS)
    length: int = option(
        4 * TRAINED, "Places of the sequences that are read; 16 were trained on.", minimum=17, maximum=128
    )
    steps: int = option(300, "Training steps of 64 sequences.", minimum=1, maximum=20_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_beyond(knobs: BeyondKnobs) -> Numbers:
    """The share that is right in the first 16 places, and behind them."""
    copier = train_copier(knobs.positions, TRAINED, TRAINED, False, knobs.steps, knobs.seed)
    return {
        "right beyond": share_right(copier, knobs.length, TRAINED),
        "right as long as trained": share_right(copier, TRAINED, BACK),
    }


def measure_beside(knobs: BesideKnobs) -> Numbers:
    """Places beyond the length of training that rotary positions and others answer right."""
    found = {}
    for name, kind in (("rotary", "rotary"), ("beside", knobs.beside)):
        copier = train_copier(kind, TRAINED, TRAINED, False, knobs.steps, knobs.seed)
        found[f"right beyond, {name}"] = share_right(copier, knobs.length, TRAINED)
        found[f"as long as trained, {name}"] = share_right(copier, TRAINED, BACK)
    return found


# Places that were not trained on


@dataclass(frozen=True)
class ElsewhereKnobs:
    positions: str = option("relative", "Kind of positions", choices=KINDS)
    steps: int = option(300, "Training steps of 32 sequences.", minimum=1, maximum=20_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_elsewhere(knobs: ElsewhereKnobs) -> Numbers:
    """Sequences of 32, of which the first half counts in training; all places see each other."""
    copier = train_copier(knobs.positions, 2 * TRAINED, TRAINED, True, knobs.steps, knobs.seed)
    return {
        "right elsewhere": share_right(copier, 2 * TRAINED, TRAINED),
        "right where trained": share_right(copier, 2 * TRAINED, BACK, TRAINED),
    }


# Trained with the index


@dataclass(frozen=True)
class HardTrainingKnobs:
    positions: str = option("index", "Positions that sinusoidal ones are compared with", choices=KINDS)
    length: int = option(LONGEST, "Places of the sequences that are trained on.", minimum=4, maximum=128)
    steps: int = option(300, "Training steps.", minimum=1, maximum=20_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_hard_training(knobs: HardTrainingKnobs) -> Numbers:
    """The share that is right after the same steps, at the length of training."""
    found = {}
    for name, kind in (("asked", knobs.positions), ("sinusoidal", "sinusoidal")):
        copier = train_copier(kind, knobs.length, knobs.length, False, knobs.steps, knobs.seed)
        found[f"right, {name}"] = share_right(copier, knobs.length, BACK)
    return {"fewer right by": found["right, sinusoidal"] - found["right, asked"], **found}


def generalises(seen: Numbers) -> float:
    """Above 0 where the task was learned at all, and beyond 16 places nine tenths of it are kept."""
    right = seen["right as long as trained"]
    return min(right - 0.5, seen["right beyond"] - 0.9 * right)


LOG, HOMEWORK = "log Q11 C.4", "homework 1.3b"
FURTHER = Search("length", 17, 128, n_values=7, is_log=True)

FAMILY = ClaimFamily(
    name="longer-sequences",
    title="Longer sequences than in training",
    picture="positions",
    claims=(
        Claim(
            id="sinusoid-generalises-lengths",
            surprise="beyond the lengths of training, sinusoids do no better than counting the positions",
            says="a network with sinusoidal positions reads longer sequences than it was trained on",
            where=LOG,
            kind="training",
            measure=measure_beyond,
            decides="right beyond",
            margin=generalises,
            rule="at twice the 16 places of training nine tenths of what was right are kept beyond them",
            changed="judged at twice the length alone: along a search it failed everywhere but one place behind the "
            "training length",
            knobs=BeyondKnobs,
            control={"positions": "rotary"},
            seeds=5,
            other_reading="that the numbers can be computed at any length: sinusoid-any-length. Beyond its training a "
            "network is no better with them than with the plain index: index-no-longer-lengths",
        ),
        Claim(
            id="index-no-longer-lengths",
            says="a network whose positions are the plain index does not generalise to longer sequences",
            where=LOG,
            kind="training",
            measure=measure_beyond,
            decides="right beyond",
            margin=lambda seen: 0.9 * seen["right as long as trained"] - seen["right beyond"],
            rule="beyond the 16 places of training it loses a tenth of what was right or more, at every length to 128",
            knobs=IndexBeyondKnobs,
            control={"positions": "rotary"},
            search=FURTHER,
            seeds=5,
        ),
        Claim(
            id="relative-positions-extrapolate",
            says="a network with relative positions generalises to longer sequences than it was trained on",
            where=HOMEWORK,
            kind="training",
            measure=measure_beyond,
            decides="right beyond",
            margin=generalises,
            rule="beyond the 16 places of training nine tenths of what was right are kept, at every length to 128",
            knobs=RelativeBeyondKnobs,
            control={"length": 20},
            search=FURTHER,
            seeds=5,
            other_reading="better than absolute ones: compare sinusoid-generalises-lengths",
        ),
        Claim(
            id="rope-long-context",
            says="rotary positions help with contexts longer than those of training",
            where="answers Q3",
            kind="training",
            measure=measure_beside,
            decides="right beyond, rotary",
            margin=lambda seen: seen["right beyond, rotary"] - seen["right beyond, beside"] - 0.05,
            rule="trained on 16 places, at 64 they are right 5 points more often than sinusoidal ones",
            knobs=BesideKnobs,
            control={"beside": "relative"},
            seeds=5,
            other_reading="not that they keep what was learned: relative biases keep more of it, and neither keeps all",
        ),
        Claim(
            id="relative-positions-translation-invariant",
            says="with relative positions a pattern is found at any place",
            where=HOMEWORK,
            kind="training",
            measure=measure_elsewhere,
            decides="right elsewhere",
            margin=lambda seen: min(
                seen["right where trained"] - 0.5, seen["right elsewhere"] - 0.9 * seen["right where trained"]
            ),
            rule="trained on the first half of all places, nine tenths of what is right there are kept in the second",
            changed="the control is a shorter length, for the usual one is past the turning point",
            knobs=ElsewhereKnobs,
            control={"positions": "learned"},
            seeds=5,
        ),
        Claim(
            id="index-position-hard-to-train",
            says="a network whose positions are the plain index is hard to train",
            where=LOG,
            kind="training",
            measure=measure_hard_training,
            decides="fewer right by",
            margin=lambda seen: seen["fewer right by"] - 0.1,
            rule="after 300 steps on 128 places fewer are right than with sinusoidal positions, by 10 points or more",
            knobs=HardTrainingKnobs,
            control={"positions": "rotary"},
            seeds=5,
        ),
    ),
)
