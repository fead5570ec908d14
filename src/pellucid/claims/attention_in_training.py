"""Attention in training: the scale, the diagonal, the future, dropout of weights, and hard choices that are to learn.

A reader is one block of attention and feed-forward over embeddings and learned positions, trained by AdamW to name the
next token of a list or a text. Its dev loss is that of a thousand items it did not learn from.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cache
from typing import TYPE_CHECKING

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search
from pellucid.claims.learning_rates import split_list_or_text
from pellucid.claims.letter_pairs import DATA
from pellucid.claims.sizes_and_latency import one_thread
from pellucid.lessons.lesson import seed_knob, train_by_adamw
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor, nn

    from pellucid.data.prepare.tokens import SequenceSides
    from pellucid.layers.masks import Mask
    from pellucid.training.tasks.batches import Batch

COPY_BACK = "copy-back:n=4000,k=3,n_symbols=20,length=12"  # each token is the one three places before
ROUTES = ("1/√d", "1")


@dataclass(frozen=True)
class ReaderKnobs:
    data: str = option("names", DATA)
    width: int = option(32, "Width of the block, and of its head.", minimum=2, maximum=512)
    scale: str = option("1/√d", "What scores are multiplied with", choices=ROUTES)
    mask: str = option("causal", "What a position may see in training", choices=("causal", "none"))
    dropout: float = option(0.0, "Part of the attention weights that is dropped in training.", minimum=0, maximum=0.9)
    steps: int = option(300, "Steps of 64 items.", minimum=0, maximum=5000)
    start: float = option(1.0, "Factor of the first weights of queries and keys.", minimum=0, maximum=1000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@cache
def _open_sides(data: str) -> SequenceSides:
    from pellucid.data import ListData, open_data
    from pellucid.data.prepare.tokens import split_sequences

    if data != COPY_BACK:
        return split_list_or_text(data)
    opened = open_data(data, kind="list")
    assert isinstance(opened, ListData)
    return split_sequences(opened)


def _context(sides: SequenceSides) -> int:
    return 1 + max(side.longest_item for side in (sides.train, sides.dev)) if sides.train.has_boundary else 32


def _build_reader(knobs: ReaderKnobs) -> nn.ModuleDict:
    from torch import nn

    from pellucid.layers.attention import MultiHeadAttention, inverse_root
    from pellucid.layers.blocks import PreNormBlock
    from pellucid.layers.feed_forward import ActivatedFeedForward
    from pellucid.training.rng import seed_torch

    sides = _open_sides(knobs.data)
    size = len(sides.vocabulary)
    with seed_torch(knobs.seed, 0, "weights"):
        block = PreNormBlock(knobs.width, 1, feed_forward=ActivatedFeedForward(knobs.width, nn.ReLU()))
        scale = 1.0 if knobs.scale == "1" else inverse_root
        block.attention = MultiHeadAttention(knobs.width, 1, dropout=knobs.dropout, scale=scale)
        block.attention.project.data[:2] *= knobs.start
        return nn.ModuleDict(
            {
                "embedding": nn.Embedding(size, knobs.width),
                "places": nn.Embedding(_context(sides), knobs.width),
                "block": block,
                "head": nn.Sequential(nn.LayerNorm(knobs.width), nn.Linear(knobs.width, size)),
            }
        )


def _embed(reader: nn.ModuleDict, tokens: Tensor) -> Tensor:
    stream: Tensor = reader["embedding"](tokens) + reader["places"].weight[: tokens.shape[1]]  # type: ignore[index]
    return stream  # (batch, time, width)


def _find_mask(knobs: ReaderKnobs) -> Mask:
    from pellucid.layers.masks import CAUSAL, EVERYTHING

    return CAUSAL if knobs.mask == "causal" else EVERYTHING


def read_tokens(reader: nn.ModuleDict, tokens: Tensor, mask: Mask) -> Tensor:
    """Scores of what comes next: (batch, time) -> (batch, time, vocab)."""
    logits: Tensor = reader["head"](reader["block"](_embed(reader, tokens), mask=mask))
    return logits


@cache
def train_token_reader(knobs: ReaderKnobs) -> nn.ModuleDict:
    """A reader with these knobs, once it has learned."""
    from pellucid.training.loop import mean_token_loss
    from pellucid.training.rng import seed_torch
    from pellucid.training.tasks.batches import make_batches

    sides, reader, mask = _open_sides(knobs.data), _build_reader(knobs), _find_mask(knobs)
    batches = make_batches(sides.train, 64, _context(sides), knobs.seed)

    def loss_of(step: int) -> Tensor:
        batch = batches.batch(step)
        return mean_token_loss(read_tokens(reader, batch.tokens, mask), batch.targets)

    with one_thread(), seed_torch(knobs.seed, 0, "dropout"):
        train_by_adamw(reader, loss_of, 5e-3, knobs.steps)
    return reader.eval()


def _dev_batch(knobs: ReaderKnobs, n_items: int = 1_000) -> Batch:
    from pellucid.training.tasks.batches import make_batches

    sides = _open_sides(knobs.data)
    return make_batches(sides.dev, n_items, _context(sides), 0, by_length=False).batch(1)


def reader_dev_loss(knobs: ReaderKnobs, *, is_honest: bool = False) -> float:
    """On dev, in nats. is_honest: each token is predicted when nothing behind it has been given to the reader."""
    import torch

    from pellucid.training.loop import mean_token_loss

    reader, batch, mask = train_token_reader(knobs), _dev_batch(knobs), _find_mask(knobs)
    with torch.no_grad(), one_thread():
        if not is_honest:
            return mean_token_loss(read_tokens(reader, batch.tokens, mask), batch.targets).item()
        time = batch.tokens.shape[1]
        logits = [read_tokens(reader, batch.tokens[:, : at + 1], mask)[:, -1:] for at in range(time)]
        return mean_token_loss(torch.cat(logits, 1), batch.targets).item()


# The scale


@dataclass(frozen=True)
class TrainedScaleKnobs(ReaderKnobs):
    data: str = option(COPY_BACK, DATA)
    width: int = option(64, "Width d of the block, and of its head.", minimum=2, maximum=512)
    steps: int = option(150, "Steps of 64 items.", minimum=0, maximum=5000)
    start: float = option(
        1.732,
        "Factor of the first weights of queries and keys; with √3 their numbers have variance 1.",
        minimum=0,
        maximum=1000,
    )


def measure_trained_scale(knobs: TrainedScaleKnobs) -> Numbers:
    """Dev losses of the same reader with 1/√d and without."""
    scaled, unscaled = (reader_dev_loss(replace(knobs, scale=scale)) for scale in ROUTES)
    return {"better with 1/√d by": unscaled - scaled, "dev loss with it": scaled, "dev loss without": unscaled}


# The diagonal


@dataclass(frozen=True)
class DiagonalKnobs(ReaderKnobs):
    matrices: str = option(
        "learned", "Of queries and keys: learned, or new and one for both", choices=("learned", "one for both")
    )


def _weights_on_dev(reader: nn.ModuleDict, knobs: ReaderKnobs) -> tuple[Tensor, Tensor]:
    """What positions of dev take, (batch, time, time), and which of them are of tokens that have one before them."""
    import torch

    from pellucid.layers.blocks import PreNormBlock
    from pellucid.training.tasks.batches import IGNORED

    batch, block = _dev_batch(knobs), reader["block"]
    assert isinstance(block, PreNormBlock)
    with torch.no_grad(), one_thread():
        weights = block.weights(_embed(reader, batch.tokens), mask=_find_mask(knobs))[:, 0]
    is_real = batch.targets != IGNORED
    is_real[:, 0] = False  # the first sees itself alone
    return weights, is_real


def _share_of_diagonal(reader: nn.ModuleDict, knobs: ReaderKnobs) -> float:
    import torch

    weights, is_real = _weights_on_dev(reader, knobs)
    is_highest = weights.argmax(-1) == torch.arange(weights.shape[-1])
    return float(is_highest[is_real].double().mean())


def measure_diagonal(knobs: DiagonalKnobs) -> Numbers:
    """How often a token gives itself the highest weight: in a trained reader, in a new one, and by chance."""
    import torch

    new = _build_reader(knobs)
    _, is_real = _weights_on_dev(new, knobs)
    seen = 1 + torch.arange(is_real.shape[1]).expand_as(is_real)[is_real]
    fresh = _share_of_diagonal(new, knobs)
    if knobs.matrices == "one for both":
        attention = new["block"].attention
        assert isinstance(attention, torch.nn.Module)
        with torch.no_grad():
            project = attention.get_parameter("project")
            project[1] = project[0]
    shown = new if knobs.matrices == "one for both" else train_token_reader(_plain(knobs))
    return {
        "diagonal is highest": _share_of_diagonal(shown, knobs),
        "in a new one": fresh,
        "by chance": float((1 / seen).mean()),
    }


def _plain(knobs: ReaderKnobs) -> ReaderKnobs:
    """Those that a reader is trained by, so that claims share it."""
    return ReaderKnobs(**{one.name: getattr(knobs, one.name) for one in fields(ReaderKnobs)})


# The future


@dataclass(frozen=True)
class LeakKnobs(ReaderKnobs):
    mask: str = option("none", "What a position may see in training", choices=("causal", "none"))


def measure_leak(knobs: LeakKnobs) -> Numbers:
    """The dev loss as it is computed, and the one of the same reader where the future has not come yet."""
    plain = _plain(knobs)
    told, honest = reader_dev_loss(plain), reader_dev_loss(plain, is_honest=True)
    causal = reader_dev_loss(replace(plain, mask="causal"))
    return {"too good by": honest - told, "loss as computed": told, "without the future": honest, "causal": causal}


# Dropout of weights


@dataclass(frozen=True)
class WeightDropoutKnobs(ReaderKnobs):
    dropout: float = option(0.3, "Part of the attention weights that is dropped in training.", minimum=0, maximum=0.9)


def _entropy_on_dev(knobs: ReaderKnobs) -> float:
    """Bits of a position's weights, in the mean, without dropout."""
    import torch

    weights, is_real = _weights_on_dev(train_token_reader(knobs), knobs)
    return float(torch.special.entr(weights).sum(-1)[is_real].mean()) / 0.6931471805599453


def measure_weight_dropout(knobs: WeightDropoutKnobs) -> Numbers:
    """Entropies of the weights of readers that learned with dropout of weights and without."""
    plain = _plain(knobs)
    dropped, whole = (_entropy_on_dev(one) for one in (plain, replace(plain, dropout=0.0)))
    return {
        "bits more": dropped - whole,
        "bits with dropout": dropped,
        "bits without": whole,
        "dev loss with dropout": reader_dev_loss(plain),
        "dev loss without": reader_dev_loss(replace(plain, dropout=0.0)),
    }


# Hard choices


@dataclass(frozen=True)
class HardChoiceKnobs:
    alone: str = option("hard", "What learns without an estimator: a hard choice, or softmax", choices=("hard", "soft"))
    steps: int = option(300, "Steps of 64 sequences.", minimum=1, maximum=5000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@cache
def train_to_choose(choice: str, steps: int, seed: int) -> float:
    """Attention of one head that is to name the second of six tokens: how often it is right, as it is used later.

    Choices are hard once it has learned, but for softmax.
    """
    import torch
    from torch import nn
    from torch.nn.functional import cross_entropy

    from pellucid.layers.attention import attend
    from pellucid.layers.masks import EVERYTHING
    from pellucid.layers.softargmax import GumbelSoftmax, WeightChoice, hardargmax, softargmax, straight_through
    from pellucid.training.rng import seed_torch, torch_rng

    choices: dict[str, WeightChoice] = {
        "hard": hardargmax,
        "soft": softargmax,
        "straight-through": straight_through,
        "Gumbel": GumbelSoftmax(is_hard=True, rng=torch_rng(seed, 0, "Gumbel")),
    }
    with seed_torch(seed, 0, "weights"):
        parts = nn.ModuleList([nn.Embedding(8, 32), nn.Embedding(6, 32), *(nn.Linear(32, 32) for _ in range(3))])
        model = parts.append(nn.Linear(32, 8))
    embedding, places, to_query, to_key, to_value, to_answer = model

    def answer(tokens: Tensor, choose: WeightChoice) -> Tensor:
        stream = embedding(tokens) + places(torch.arange(6))
        query = to_query(stream[:, -1:])
        mixed: Tensor = attend(query, to_key(stream), to_value(stream), mask=EVERYTHING, choose=choose)
        logits: Tensor = to_answer(mixed[:, 0])
        return logits

    def draw(step: int, n: int) -> Tensor:
        return torch.randint(8, (n, 6), generator=torch_rng(seed, step, "tokens"))

    def loss_of(step: int) -> Tensor:
        tokens = draw(step, 64)
        return cross_entropy(answer(tokens, choices[choice]), tokens[:, 1])

    with one_thread():
        train_by_adamw(model, loss_of, 1e-2, steps)
        with torch.no_grad():
            tokens = draw(0, 2000)
            found = answer(tokens, softargmax if choice == "soft" else hardargmax).argmax(-1)
    return float((found == tokens[:, 1]).float().mean())


def measure_hard_choice(knobs: HardChoiceKnobs) -> Numbers:
    """How many are right where a hard choice is trained alone, straight through, and by Gumbel noise."""
    alone, through, drawn = (
        train_to_choose(choice, knobs.steps, knobs.seed) for choice in (knobs.alone, "straight-through", "Gumbel")
    )
    return {"right without an estimator": alone, "right by straight-through": through, "right by Gumbel": drawn}


FAMILY = ClaimFamily(
    name="attention-in-training",
    title="Attention in training",
    picture="attention-maps",
    claims=(
        Claim(
            id="scaling-matters-in-training",
            surprise="a network with an adaptive optimizer hardly notices that the scale is missing",
            says="1/√d keeps training well-behaved",
            where="homework 1.1b",
            kind="training",
            measure=measure_trained_scale,
            decides="better with 1/√d by",
            margin=lambda seen: seen["better with 1/√d by"] - 0.05,
            rule="after 150 steps on copy-back the dev loss is lower by more than 0.05 nats with 1/√d than without",
            changed="queries and keys have variance 1, as the statement supposes, and their first size is searched, "
            "for along the width nothing turned",
            knobs=TrainedScaleKnobs,
            control={"start": 16.0},
            search=Search("start", 1.0, 32.0, n_values=6, is_log=True),
            seeds=5,
            other_reading="with queries and keys of variance 1, as they are supposed, AdamW does as well without it",
        ),
        Claim(
            id="diagonal-is-highest",
            surprise="in a trained reader tokens look at themselves less than chance would have it",
            says="a token gives the highest weight to itself",
            where="answers Q4",
            kind="training",
            measure=measure_diagonal,
            decides="diagonal is highest",
            margin=lambda seen: seen["diagonal is highest"] - 0.5,
            rule="in a trained causal reader more than half of the tokens with others before them do",
            knobs=DiagonalKnobs,
            control={"matrices": "one for both"},
            seeds=5,
            other_reading="it is where queries and keys are made by one matrix: that is the control",
        ),
        Claim(
            id="future-tokens-leak",
            says="with future tokens in sight a network cheats, and its metrics mislead",
            where="notes §16",
            kind="training",
            measure=measure_leak,
            decides="too good by",
            margin=lambda seen: seen["too good by"] - 0.5,
            rule="trained without a mask, the dev loss as computed is 0.5 nats below that of the same reader where the "
            "future has not come yet",
            knobs=LeakKnobs,
            control={"mask": "causal"},
            seeds=5,
        ),
        Claim(
            id="attention-dropout-diffuses",
            says="dropout of attention weights makes attention more diffuse",
            where="homework 1.1d",
            kind="training",
            measure=measure_weight_dropout,
            decides="bits more",
            margin=lambda seen: seen["bits more"] - 0.05,
            rule="after training with it the entropy of weights on dev is more than 0.05 bits higher than without",
            changed="the control is more dropout and not less, for 0.3 diffuses nothing on names",
            knobs=WeightDropoutKnobs,
            control={"dropout": 0.8},
            search=Search("dropout", 0.1, 0.9, n_values=5),
            seeds=5,
            other_reading="on copy-back, where several places hold the answer, 0.3 is enough",
        ),
        Claim(
            id="hard-argmax-needs-estimator",
            says="a hard choice learns where to look by Gumbel draws or straight-through gradients, and not without",
            where="homework 1.1c",
            kind="training",
            measure=measure_hard_choice,
            decides="right without an estimator",
            margin=lambda seen: (
                min(seen["right by straight-through"], seen["right by Gumbel"])
                - seen["right without an estimator"]
                - 0.2
            ),
            rule="with either estimator the second of six tokens is named 20 points more often than without",
            knobs=HardChoiceKnobs,
            control={"alone": "soft"},
            seeds=5,
        ),
    ),
)
