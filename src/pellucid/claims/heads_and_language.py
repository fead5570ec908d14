"""Heads that learned language: one beside several, heads that are damaged, and what the weights of attention tell.

Transformers of width 64 learn names for 150 steps, or a user's own list or text.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pellucid.claims.claim import Claim, ClaimFamily, Numbers
from pellucid.claims.learning_rates import split_list_or_text
from pellucid.claims.letter_pairs import DATA
from pellucid.claims.sizes_and_latency import one_thread
from pellucid.lessons.heads_or_width import JUDGED, SETS, train_transformer
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor

    from pellucid.data.prepare.tokens import Corpus, SequenceSides
    from pellucid.models.sequences.transformer import CausalSelfAttention, Transformer

WIDTH, TEXT_CONTEXT = 64, 32
LETTERS = 5  # of an item that are read before the one that is told


@dataclass(frozen=True)
class LanguageHeadsKnobs:
    data: str = option("names", DATA)
    heads: int = option(8, "Attention heads of width 64 in all.", minimum=1, maximum=32)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@functools.cache
def open_sequence_sides(data: str) -> tuple[SequenceSides, Corpus, int]:
    """The sides of a list, of a text or of copy-back; the part of dev that is judged, and the context that is read."""
    from pellucid.data import ListData, open_data
    from pellucid.data.prepare.tokens import split_sequences, take_part

    if data.startswith("copy-back"):
        opened = open_data(SETS.get(data, data), kind="list")
        assert isinstance(opened, ListData)
        sides = split_sequences(opened)
    else:
        sides = split_list_or_text(data)
    longest = max(side.longest_item for side in (sides.train, sides.dev))
    return sides, take_part(sides.dev, JUDGED), 1 + longest if sides.train.has_boundary else TEXT_CONTEXT


@functools.cache
def train_on_language(data: str, heads: int, seed: int, depth: int = 2, steps: int = 150) -> Transformer:
    from pellucid.models.sequences.configs import TransformerConfig

    sides, _, context = open_sequence_sides(data)
    with one_thread():
        return train_transformer(
            sides, TransformerConfig(len(sides.vocabulary), context, WIDTH, depth, heads), steps, seed
        )


def attentions_of(model: Transformer) -> list[CausalSelfAttention]:
    from pellucid.models.sequences.transformer import Block

    return [block.attention for block in model.blocks if isinstance(block, Block)]


def judge_on_dev(model: Transformer, data: str) -> float:
    from pellucid.training.tasks.sequences import evaluate_loss

    _, judged, context = open_sequence_sides(data)
    with one_thread():
        return evaluate_loss(model, judged, context).nats


def measure_language(knobs: LanguageHeadsKnobs) -> Numbers:
    """The dev loss with several heads and with one, after 150 steps; parameters and batches are the same."""
    several, one = (
        judge_on_dev(train_on_language(knobs.data, heads, knobs.seed), knobs.data) for heads in (knobs.heads, 1)
    )
    return {"one head worse by": one - several, "dev loss with the heads": several, "with one head": one}


@dataclass(frozen=True)
class DamagedHeadKnobs:
    data: str = option("names", DATA)
    heads: int = option(8, "Attention heads of width 64 in all.", minimum=1, maximum=32)
    damage: str = option("nonsense", "Weights drawn at random, or nothing at all", choices=("nonsense", "silent"))
    head: str = option("worst", "Which head is judged by", choices=("worst", "median"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class SilentHeadKnobs(DamagedHeadKnobs):
    damage: str = option("silent", "Weights drawn at random, or nothing at all", choices=("nonsense", "silent"))


def damage_heads(attention: CausalSelfAttention, heads: list[int], damage: str, seed: int) -> Any:
    """These heads look where chance says, or give nothing, until the hook that comes back is removed."""
    import torch

    from pellucid.layers.attention import attend, attention_weights
    from pellucid.training.rng import torch_rng

    rng = torch_rng(seed, 0, "nonsense")

    def replace_heads(module: Any, args: tuple[Any, ...], output: Tensor) -> Tensor:
        x, angles, bias = args
        q, k, v = module.project_heads(x, angles)
        given = attend(q, k, v, bias=bias)
        size = v.shape[-1]
        for head in heads:
            new = torch.zeros_like(given[:, head])
            if damage == "nonsense":
                drawn = 3 * torch.randn(2, *v[:, head].shape, generator=rng)
                new = attention_weights(*drawn) @ v[:, head]
            columns = module.combine.weight[:, head * size : (head + 1) * size]
            output = output + (new - given[:, head]) @ columns.T
        return output

    return attention.register_forward_hook(replace_heads)


@functools.cache
def harm_of_damage(data: str, n_heads: int, damage: str, seed: int) -> tuple[float, tuple[tuple[float, ...], ...]]:
    """The dev loss, and for each layer by how much it rises with each head damaged, and at last with all of them."""
    model = train_on_language(data, n_heads, seed)
    whole, layers = judge_on_dev(model, data), []
    for attention in attentions_of(model):
        harms = []
        for heads in [*[[head] for head in range(n_heads)], list(range(n_heads))]:
            hook = damage_heads(attention, heads, damage, seed)
            harms.append(judge_on_dev(model, data) - whole)
            hook.remove()
        layers.append(tuple(harms))
    return whole, tuple(layers)


def measure_damage(knobs: DamagedHeadKnobs) -> Numbers:
    """The dev loss without one head, beside that without all heads of its layer: the layer where it tells most."""
    whole, layers = harm_of_damage(knobs.data, knobs.heads, knobs.damage, knobs.seed)
    parts, rises = [], []
    for *single, together in layers:
        ranked = sorted(single)
        parts.append(ranked[-1 if knobs.head == "worst" else (len(ranked) - 1) // 2] / together)
        rises.append(ranked[-1])
    return {
        "part of what the layer's heads are worth": max(parts),
        "dev loss rises by": max(rises),
        "dev loss": whole,
        "equal part": 1 / knobs.heads,
    }


@dataclass(frozen=True)
class WeightsTellKnobs:
    data: str = option("names", DATA)
    depth: int = option(2, "Blocks of the transformer.", minimum=1, maximum=4)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_telling_weights(knobs: WeightsTellKnobs) -> Numbers:
    """After five tokens: is the one with the largest weight the one whose change moves the forecast most?

    Weights are those of the last position, the mean over heads and blocks. A token is changed into six others in turn,
    and the mean Kullback-Leibler divergence from the forecast as it was is what it is worth.
    """
    import numpy as np
    import torch

    from pellucid.layers.attention import attention_weights
    from pellucid.training.rng import torch_rng

    model = train_on_language(knobs.data, 4, knobs.seed, knobs.depth)
    sides, _, _ = open_sequence_sides(knobs.data)
    stream = sides.dev.tokens.astype("int64")
    starts = sides.dev.starts if sides.dev.has_boundary else np.arange(0, len(stream) - LETTERS - 1, LETTERS + 1)
    rows = np.stack([stream[start : start + LETTERS + 1] for start in starts if start + LETTERS < len(stream)])
    rows = rows[(rows[:, 1:] != 0).all(1)][:400] if sides.dev.has_boundary else rows[:400]
    tokens, seen = torch.from_numpy(rows), []
    hooks = [
        attention.register_forward_hook(
            lambda module, args, output: seen.append(
                attention_weights(*module.project_heads(*args[:2])[:2], bias=args[2])
            )
        )
        for attention in attentions_of(model)
    ]
    with one_thread(), torch.no_grad():
        forecast = model(tokens)[:, -1].log_softmax(-1)
        for hook in hooks:
            hook.remove()
        weights = torch.stack(seen)[:, :, :, -1, 1:].mean((0, 2))  # (rows, letters)
        rng, worth = torch_rng(knobs.seed, 0, "changes"), torch.zeros_like(weights)
        for place in range(LETTERS):
            for _ in range(6):
                changed = tokens.clone()
                by = torch.randint(1, len(sides.vocabulary) - 1, (len(tokens),), generator=rng)
                changed[:, place + 1] = 1 + (tokens[:, place + 1] - 1 + by) % (len(sides.vocabulary) - 1)
                other = model(changed)[:, -1].log_softmax(-1)
                worth[:, place] += (forecast.exp() * (forecast - other)).sum(-1)
    same = (weights.argmax(1) == worth.argmax(1)).float().mean()
    earlier = (weights[:, :-1].argmax(1) == worth[:, :-1].argmax(1)).float().mean()
    ranks = [one.argsort(1).argsort(1).double() for one in (weights, worth)]
    centred = [one - one.mean(1, keepdim=True) for one in ranks]
    return {
        "largest weight is largest effect": float(same),
        "the same among those before the last": float(earlier),
        "rank correlation": float((centred[0] * centred[1]).sum() / (centred[0] ** 2).sum()),
        "largest effect is the last token": float((worth.argmax(1) == LETTERS - 1).float().mean()),
        "largest weight is the last token": float((weights.argmax(1) == LETTERS - 1).float().mean()),
    }


LOG = "log Q15"

FAMILY = ClaimFamily(
    name="heads-and-language",
    title="Heads that learned language",
    picture="heads-or-width",
    claims=(
        Claim(
            id="single-head-worse-language",
            says="a single head is worse at language than several",
            where=LOG,
            kind="training",
            measure=measure_language,
            decides="one head worse by",
            margin=lambda seen: seen["one head worse by"] - 0.01,
            rule="after 150 steps its dev loss is higher than that of 8 heads by over 0.01 nats",
            changed="the control was a list with one relation, where several heads help too; it is one in which "
            "nothing is to be looked for",
            knobs=LanguageHeadsKnobs,
            control={"data": "copy-back:n=4000,k=11,n_symbols=20,length=12"},
            seeds=5,
            other_reading="where nothing is to be looked for, as in the control, it is as good",
        ),
        Claim(
            id="heads-act-as-ensemble",
            says="when one head has a nonsensical pattern, the others make up for it",
            where=LOG,
            kind="training",
            measure=measure_damage,
            decides="part of what the layer's heads are worth",
            margin=lambda seen: 0.1 - seen["part of what the layer's heads are worth"],
            rule="random weights in any one of 8 heads cost less than a tenth of what they cost in all of its layer",
            knobs=DamagedHeadKnobs,
            control={"head": "median"},
            seeds=5,
        ),
        Claim(
            id="heads-are-redundant",
            says="when one head gives nothing, the others make up for it",
            where="homework 1.4c.4",
            kind="training",
            measure=measure_damage,
            decides="part of what the layer's heads are worth",
            margin=lambda seen: 0.1 - seen["part of what the layer's heads are worth"],
            rule="any one of 8 heads that is silent costs less than a tenth of what its whole layer's silence costs",
            changed="24 seeds, since eight left it open",
            knobs=SilentHeadKnobs,
            control={"head": "median"},
            seeds=24,
        ),
        Claim(
            id="attention-weights-interpretable",
            says="the weights of attention show which tokens the network uses",
            where="homework 1.4b.5",
            kind="training",
            measure=measure_telling_weights,
            decides="largest weight is largest effect",
            margin=lambda seen: seen["largest weight is largest effect"] - 2 / 3,
            rule="in two of three cases the token with the largest weight is that whose change moves the forecast most",
            knobs=WeightsTellKnobs,
            control={"data": "copy-back", "depth": 1},
            seeds=5,
            other_reading="of tokens before the last, whose own way goes past attention, in about half of the cases",
            surprise="the token that matters most is the last one, whose way goes past attention: no weight shows it",
        ),
    ),
)
