"""Capacity and overfitting: what the size of a network does to the loss on train and on dev, and what the gap tells.

Networks are the MLP that reads a window of letters, and a small transformer. They learn so many items of a list, drawn
by the seed, and are judged on the dev side. Losses are in nats a token.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search
from pellucid.claims.learning_rates import split_list_or_text
from pellucid.claims.letter_pairs import DATA
from pellucid.claims.sizes_and_latency import one_thread
from pellucid.errors import PellucidError
from pellucid.lessons.heads_or_width import train_transformer
from pellucid.lessons.lesson import seed_knob, train_by_adamw
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor

    from pellucid.data.prepare.tokens import Corpus, SequenceSides
    from pellucid.models.sequences.windows import WindowMLP

JUDGED_TOKENS = 4_000  # of dev, and of what was learned
LETTERS_OF_AN_ITEM = 7  # a text is cut into as many tokens as so many items of names have
SAMPLES = 300
RATE = 1e-2


def sample_corpus(side: Corpus, n: int, seed: int) -> Corpus:
    """n items of a list, drawn by the seed; of a text a stretch of about as many tokens."""
    import numpy as np

    from pellucid.data.prepare.tokens import Corpus

    rng = np.random.default_rng([seed, n])
    if not side.has_boundary:
        length = min(n * LETTERS_OF_AN_ITEM, len(side.tokens))
        start = int(rng.integers(len(side.tokens) - length + 1))
        return Corpus(side.tokens[start : start + length], has_boundary=False)
    ends = np.append(side.starts, len(side.tokens) - 1)
    chosen = rng.permutation(len(side.starts))[:n]
    items = [side.tokens[ends[at] : ends[at + 1]] for at in chosen]
    return Corpus(np.concatenate([*items, side.tokens[:1]]), has_boundary=True, closing=side.closing)


class LearnedItems(NamedTuple):
    """A network, what it learned, and the losses on both at each look."""

    model: WindowMLP
    learned: Corpus
    train: tuple[float, ...]
    dev: tuple[float, ...]


@functools.cache
def learn_items(
    data: str, items: int, hidden: int, seed: int, context: int = 3, steps: int = 250, looks: int = 1
) -> LearnedItems:
    """The MLP on so many items, 32 in a step."""
    from pellucid.data.prepare.tokens import take_part
    from pellucid.models.sequences.configs import WindowMLPConfig
    from pellucid.models.sequences.windows import WindowMLP
    from pellucid.training.loop import mean_token_loss
    from pellucid.training.rng import seed_torch
    from pellucid.training.tasks.batches import make_batches
    from pellucid.training.tasks.sequences import evaluate_loss

    sides = split_list_or_text(data)
    learned = sample_corpus(sides.train, items, seed)
    judged = [take_part(part, JUDGED_TOKENS) for part in (learned, sides.dev)]
    with seed_torch(seed, 0, "weights"):
        model = WindowMLP(WindowMLPConfig(len(sides.vocabulary), context, hidden=hidden))
    batches = make_batches(learned, 32, 16, seed, by_length=False)
    losses: list[tuple[float, ...]] = []

    def look() -> None:
        losses.append(tuple([evaluate_loss(model, part, 16).nats for part in judged]))

    def loss_of(step: int) -> Tensor:
        if looks > 1 and step % (steps // looks) == 0:
            look()
        batch = batches.batch(step)
        return mean_token_loss(model(batch.tokens), batch.targets)

    with one_thread():
        train_by_adamw(model, loss_of, RATE, steps)
        look()
    train, dev = zip(*losses, strict=True)
    return LearnedItems(model, learned, train, dev)


@dataclass(frozen=True)
class CapacityKnobs:
    data: str = option("names", DATA)
    items: int = option(300, "Items that are learned.", minimum=20, maximum=1_000_000)
    small: int = option(8, "Hidden units of the smaller network.", minimum=1, maximum=4096)
    large: int = option(256, "Hidden units of the larger network.", minimum=1, maximum=4096)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_capacity(knobs: CapacityKnobs) -> Numbers:
    """Both losses of a small, a middle and a large network."""
    middle = round(math.sqrt(knobs.small * knobs.large))
    found = [learn_items(knobs.data, knobs.items, hidden, knobs.seed) for hidden in (knobs.small, middle, knobs.large)]
    train, dev = [one.train[-1] for one in found], [one.dev[-1] for one in found]
    lowest = train.index(min(train))
    return {
        "gap of the small": dev[0] - train[0],
        "gap of the large": dev[2] - train[2],
        "train loss of the small": train[0],
        "train loss of the large": train[2],
        "dev loss of the small": dev[0],
        "dev loss of the large": dev[2],
        "dev loss of the lowest train loss, above the lowest": dev[lowest] - min(dev),
    }


@dataclass(frozen=True)
class MemoryKnobs:
    data: str = option("names", DATA)
    items: int = option(100, "Items that are learned.", minimum=20, maximum=1_000_000)
    context: int = option(3, "Tokens that the network sees.", minimum=1, maximum=32)
    steps: int = option(400, "Steps of 32 items.", minimum=10, maximum=100_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class ByHeartKnobs(MemoryKnobs):
    steps: int = option(1_000, "Steps of 32 items.", minimum=10, maximum=100_000)


def measure_memory(knobs: MemoryKnobs) -> Numbers:
    """A network of 256 units learns few items by heart: both losses, and what 300 samples of it are."""
    from pellucid.decoding.sampling import draw_tokens
    from pellucid.models.stepwise import NeuralReading

    sides = split_list_or_text(knobs.data)
    if not sides.train.has_boundary:
        raise PellucidError("running text has no items that could be drawn again", fix="Give a list, such as names")
    found = learn_items(knobs.data, knobs.items, 256, knobs.seed, knobs.context, knobs.steps)
    known = {tuple(one) for one in split_at_boundaries(found.learned.tokens.tolist())}
    with one_thread():
        drawn = draw_tokens(
            NeuralReading(found.model),
            n_samples=SAMPLES,
            longest=40,
            start=[0],
            stop=found.learned.closing,
            seed=knobs.seed,
        )
    return {
        "samples that were learned": sum([one.tokens in known for one in drawn]) / SAMPLES,
        "dev loss": found.dev[-1],
        "train loss": found.train[-1],
        "even chances": math.log(len(sides.vocabulary)),
    }


def split_at_boundaries(tokens: list[int]) -> list[list[int]]:
    """The items between the boundaries, 0.

    >>> split_at_boundaries([0, 5, 6, 0, 7, 0])
    [[5, 6], [7]]
    """
    return [list(part) for is_inside, part in itertools.groupby(tokens, key=bool) if is_inside]


@dataclass(frozen=True)
class AnyGapKnobs:
    data: str = option("names", DATA)
    items: int = option(20_000, "Items that are learned, at most.", minimum=20, maximum=1_000_000)
    steps: int = option(600, "Steps of 32 items.", minimum=100, maximum=100_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_any_gap(knobs: AnyGapKnobs) -> Numbers:
    """Looks at a run where train is below dev, and how many of them are followed by a lower dev loss."""
    found = learn_items(knobs.data, knobs.items, 64, knobs.seed, steps=knobs.steps, looks=20)
    later = [min(found.dev[at + 1 :]) for at in range(len(found.dev) - 1)]
    gapped = [at for at in range(len(later)) if found.train[at] < found.dev[at]]
    falling = [at for at in gapped if later[at] < found.dev[at] - 0.005]
    return {
        "of looks with a gap, dev still falls": len(falling) / max(1, len(gapped)),
        "looks with a gap": len(gapped) / len(later),
        "train loss": found.train[-1],
        "dev loss": found.dev[-1],
    }


@dataclass(frozen=True)
class NoGapKnobs:
    data: str = option("names", DATA)
    noise: float = option(0.0, "Part of all letters that are drawn anew, each as likely.", minimum=0, maximum=1)
    n: int = option(2, "Order of the counted model; the larger one has one more.", minimum=2, maximum=4)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_no_gap(knobs: NoGapKnobs) -> Numbers:
    """Losses of counting n-grams, and what the next order gains on dev; both smoothed by 0.1."""
    import numpy as np

    from pellucid.data.prepare.tokens import take_part
    from pellucid.models.counting.fitting import count_loss
    from pellucid.models.counting.ngram import AddS, NGram, NGramConfig

    sides = split_list_or_text(knobs.data)
    size, rng = len(sides.vocabulary), np.random.default_rng(knobs.seed)

    def spoil(side: Corpus) -> Corpus:
        tokens = side.tokens
        is_new = (rng.random(len(tokens)) < knobs.noise) & (tokens > 0)
        drawn = rng.integers(1, size, len(tokens)).astype(tokens.dtype)
        return replace(side, tokens=np.where(is_new, drawn, tokens))

    train, dev = spoil(sample_corpus(sides.train, 8_000, knobs.seed)), spoil(take_part(sides.dev, 10_000))
    smaller, larger = (NGram.fit(train, NGramConfig(size, n, AddS(0.1))) for n in (knobs.n, knobs.n + 1))
    on_dev, with_more = count_loss(smaller, dev).nats, count_loss(larger, dev).nats
    on_train = count_loss(smaller, train).nats
    return {
        "gain by sizing up": on_dev - with_more,
        "gap": on_dev - on_train,
        "train loss": on_train,
        "dev loss": on_dev,
    }


@dataclass(frozen=True)
class DropoutKnobs:
    data: str = option("names", DATA)
    items: int = option(300, "Items that are learned.", minimum=20, maximum=1_000_000)
    dropout: float = option(0.2, "Dropout behind attention and feed-forward.", minimum=0, maximum=0.9)
    steps: int = option(300, "Steps of 64 items.", minimum=10, maximum=100_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@functools.cache
def learn_with_dropout(knobs: DropoutKnobs) -> tuple[float, float]:
    """The losses on train and dev of a transformer of one block, width 32 and four heads."""
    from pellucid.data.prepare.tokens import take_part
    from pellucid.models.sequences.configs import TransformerConfig
    from pellucid.training.tasks.sequences import evaluate_loss

    sides: SequenceSides = split_list_or_text(knobs.data)
    few = replace(sides, train=sample_corpus(sides.train, knobs.items, knobs.seed))
    longest = 1 + max(sides.train.longest_item, sides.dev.longest_item) if sides.train.has_boundary else 16
    config = TransformerConfig(len(sides.vocabulary), longest, 32, 1, 4, dropout=knobs.dropout)
    with one_thread():
        model = train_transformer(few, config, knobs.steps, knobs.seed)
        parts = [take_part(part, JUDGED_TOKENS) for part in (few.train, sides.dev)]
        train, dev = (evaluate_loss(model, part, longest).nats for part in parts)
    return train, dev


def measure_dropout(knobs: DropoutKnobs) -> Numbers:
    """Both losses with dropout and without it."""
    (train, dev), (bare_train, bare_dev) = (learn_with_dropout(one) for one in (knobs, replace(knobs, dropout=0.0)))
    return {
        "dev better by": bare_dev - dev,
        "gap with dropout": dev - train,
        "gap without": bare_dev - bare_train,
        "dev loss with dropout": dev,
        "dev loss without": bare_dev,
    }


FIT, HEADS = "notes §13", "notes §17.1"

FAMILY = ClaimFamily(
    name="capacity-and-overfitting",
    title="Capacity and overfitting",
    claims=(
        Claim(
            id="better-loss-is-not-better-model",
            says="the network with the lower loss is not therefore the better one",
            where=FIT,
            kind="training",
            measure=measure_capacity,
            decides="dev loss of the lowest train loss, above the lowest",
            margin=lambda seen: seen["dev loss of the lowest train loss, above the lowest"] - 0.02,
            rule="of three networks on 300 items the lowest train loss is over 0.02 nats from the best dev loss",
            knobs=CapacityKnobs,
            control={"items": 10_000},
            seeds=5,
        ),
        Claim(
            id="capacity-overfits",
            says="a network with more parameters overfits more",
            where=FIT,
            kind="training",
            measure=measure_capacity,
            decides="gap of the large",
            margin=lambda seen: seen["gap of the large"] - seen["gap of the small"] - 0.05,
            rule="with 256 units the gap from train to dev is larger than with 8 by over 0.05 nats, however many items "
            "are learned",
            knobs=CapacityKnobs,
            control={"items": 10_000},
            search=Search("items", 100, 10_000, n_values=3, is_log=True),
            seeds=5,
        ),
        Claim(
            id="overfit-model-only-samples-training-data",
            says="an overfit network samples nothing but its training data",
            where=FIT,
            kind="training",
            measure=measure_memory,
            decides="samples that were learned",
            margin=lambda seen: seen["samples that were learned"] - 0.95,
            rule="of 300 samples of a network that learned 100 items by heart, 95 % are among them, whatever it sees",
            changed="1,000 steps in place of 400, which were too few to learn the items by heart",
            knobs=ByHeartKnobs,
            control={"context": 7},
            search=Search("context", 1, 7, n_values=3),
            seeds=5,
        ),
        Claim(
            id="unseen-loss-can-be-very-high",
            says="the loss of an overfit network on unseen data can be very high",
            where=FIT,
            kind="training",
            measure=measure_memory,
            decides="dev loss",
            margin=lambda seen: seen["dev loss"] - seen["even chances"],
            rule="it is higher than that of even chances, which needs no data",
            knobs=MemoryKnobs,
            control={"steps": 20},
            seeds=5,
        ),
        Claim(
            id="train-equals-val-means-underfit",
            says="where train and dev loss are about the same, the model is too small, and a larger one is better",
            where="notes §13.1",
            kind="draws",
            measure=measure_no_gap,
            decides="gain by sizing up",
            margin=lambda seen: seen["gain by sizing up"] - 0.01 if abs(seen["gap"]) < 0.03 else -1.0,
            rule="with a gap below 0.03 nats, counting one token further back gains over 0.01 nats on dev, however "
            "much of the data is chance",
            knobs=NoGapKnobs,
            control={"noise": 1.0},
            search=Search("noise", 0.0, 1.0, n_values=6),
            seeds=5,
            surprise="data that are partly chance give equal losses to a model that is already large enough",
        ),
        Claim(
            id="any-gap-means-overfit",
            says="if the train loss is any lower than the validation loss, the network overfits",
            where=HEADS,
            kind="training",
            measure=measure_any_gap,
            decides="of looks with a gap, dev still falls",
            margin=lambda seen: 0.5 - seen["of looks with a gap, dev still falls"],
            rule="at most half of the looks with a gap are followed by a dev loss that is lower by over 0.005 nats",
            changed="30 seeds, since twelve left it open",
            knobs=AnyGapKnobs,
            control={"items": 50},
            seeds=30,
            other_reading="as it is written, a validation loss below the evaluation loss, it names no train loss",
        ),
        Claim(
            id="dropout-prevents-overfitting",
            says="dropout in a transformer makes it overfit less",
            where=HEADS,
            kind="training",
            measure=measure_dropout,
            decides="dev better by",
            margin=lambda seen: (
                seen["dev better by"] - 0.02 if seen["gap with dropout"] < seen["gap without"] else -1.0
            ),
            rule="on 300 items the gap is smaller and the dev loss lower by over 0.02 nats with dropout of 0.2",
            knobs=DropoutKnobs,
            control={"items": 10_000, "steps": 100},
            seeds=5,
        ),
    ),
)
