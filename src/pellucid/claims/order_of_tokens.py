"""Order of tokens: what attention knows of it without positions, by every order of a few tokens and by training.

Attention gives each token the same vector in whatever order the others stand, as long as every token sees all others. A
causal mask already tells them apart by how many each one sees, and a second layer reads it off.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search
from pellucid.claims.learning_rates import split_list_or_text
from pellucid.claims.sizes_and_latency import one_thread
from pellucid.lessons.lesson import seed_knob, train_by_adamw
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor

    from pellucid.data.prepare.tokens import PairSides
    from pellucid.layers.masks import Mask
    from pellucid.models.sequences.transformer import Transformer

WIDTH, N_TOKENS = 8, 6
POSITIONS = ("none", "sinusoidal")


# One layer, every order


@dataclass(frozen=True)
class ReorderKnobs:
    pooled: str = option("no", "Whether the outputs are averaged over all tokens", choices=("no", "mean"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class PlacedKnobs:
    positions: str = option("none", "Positions that are added to the tokens", choices=POSITIONS)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class SightKnobs:
    look_ahead: int = option(
        N_TOKENS - 1, "Later tokens that each of six tokens sees; 0 is a causal mask.", minimum=0, maximum=N_TOKENS - 1
    )
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def draw_layer(seed: int) -> tuple[Tensor, Tensor]:
    """Six tokens, (6, 8), and the matrices of queries, keys and values, (3, 8, 8)."""
    import torch

    from pellucid.training.rng import torch_rng

    rng = torch_rng(seed, 0, "tokens and matrices")
    tokens = torch.randn(N_TOKENS, WIDTH, generator=rng, dtype=torch.float64)
    return tokens, torch.randn(3, WIDTH, WIDTH, generator=rng, dtype=torch.float64)


def all_orders() -> Tensor:
    """(720, 6)"""
    import torch

    return torch.tensor(list(itertools.permutations(range(N_TOKENS))))


def attend_orders(seed: int, mask: Mask, positions: str = "none") -> tuple[Tensor, Tensor]:
    """What two heads give for each order of the tokens, and what they gave in the first order, put into this one."""
    import torch

    from pellucid.claims.positions_as_numbers import added_rows
    from pellucid.layers.attention import MultiHeadAttention

    tokens, matrices = draw_layer(seed)
    layer = MultiHeadAttention(WIDTH, 2, has_bias=False, has_output=False).double()
    orders = all_orders()
    places = added_rows(positions, N_TOKENS, WIDTH) if positions != "none" else torch.zeros(N_TOKENS, WIDTH)
    streams = tokens[orders] + places  # (720, 6, 8)
    with torch.no_grad():
        layer.project.copy_(matrices)
        out = layer(streams, streams, mask=mask)
    return out, out[0][orders]


def measure_invariance(knobs: ReorderKnobs) -> Numbers:
    """All 720 orders of six tokens: how far the output is from that of the first, place by place and token by token."""
    from pellucid.layers.masks import EVERYTHING

    out, moved = attend_orders(knobs.seed, EVERYTHING)
    pooled = [one.mean(1, keepdim=True) if knobs.pooled == "mean" else one for one in (out, moved)]
    return {
        "output changes by": (pooled[0] - pooled[0][0]).abs().max().item(),
        "each token's own vector by": (pooled[0] - pooled[1]).abs().max().item(),
    }


def sum_invariance(knobs: ReorderKnobs) -> Numbers:
    """The same by the formula, one query after another, in NumPy."""
    import numpy

    tokens, matrices = (one.numpy() for one in draw_layer(knobs.seed))
    found = []
    for order in itertools.permutations(range(N_TOKENS)):
        queries, keys, values = (tokens[list(order)] @ matrix.T for matrix in matrices)
        out = numpy.empty((N_TOKENS, WIDTH))
        for i, head in itertools.product(range(N_TOKENS), (slice(0, 4), slice(4, 8))):
            weights = numpy.exp(keys[:, head] @ queries[i, head] / 2)
            out[i, head] = weights / weights.sum() @ values[:, head]
        found.append(out.mean(0) if knobs.pooled == "mean" else out)
    return {"output changes by": float(max([numpy.abs(one - found[0]).max() for one in found]))}


def measure_placed(knobs: PlacedKnobs) -> Numbers:
    """How much each token's own vector changes as the others are put into all orders."""
    from pellucid.layers.masks import EVERYTHING

    out, moved = attend_orders(knobs.seed, EVERYTHING, knobs.positions)
    return {
        "its vector changes by": (out - moved).abs().max().item(),
        "size of a vector": out[0].norm(dim=-1).mean().item(),
    }


def sum_placed(knobs: PlacedKnobs) -> Numbers:
    """torch's own attention of the first order, with waves by the formula."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    from pellucid.claims.positions_as_numbers import wave_speeds

    tokens, matrices = draw_layer(knobs.seed)
    turns = [[place * speed for speed in wave_speeds(WIDTH)] for place in range(N_TOKENS)]
    waves = [[wave for turn in row for wave in (math.sin(turn), math.cos(turn))] for row in turns]
    if knobs.positions == "sinusoidal":
        tokens = tokens + torch.tensor(waves, dtype=torch.float64)
    heads = [(tokens @ matrix.T).view(N_TOKENS, 2, 4).transpose(0, 1) for matrix in matrices]
    out = scaled_dot_product_attention(*heads).transpose(0, 1).flatten(1)
    return {"size of a vector": out.norm(dim=-1).mean().item()}


def measure_sight(knobs: SightKnobs) -> Numbers:
    """The same without positions, where each token sees all before it and so many after it."""
    from pellucid.layers.masks import Local

    out, moved = attend_orders(knobs.seed, Local(N_TOKENS, knobs.look_ahead))
    return {"its vector changes by": (out - moved).abs().max().item()}


# A decoder without positions, by its depth


@dataclass(frozen=True)
class BagDepthKnobs:
    depth: int = option(1, "Layers of the decoder.", minimum=1, maximum=8)
    positions: str = option("none", "Positions", choices=POSITIONS)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_bag(knobs: BagDepthKnobs) -> Numbers:
    """All orders of D A A B before START: how much the scores of the next symbol change, with drawn weights.

    And of the decoder of one layer whose matrices were set by hand.
    """
    import torch

    from pellucid.lessons.hand_set_attention import VOCABULARY, HandSetDecoder
    from pellucid.models.sequences.configs import TransformerConfig
    from pellucid.models.sequences.transformer import Transformer
    from pellucid.training.rng import torch_rng

    rng = torch_rng(knobs.seed, 0, "decoder")
    config = TransformerConfig(len(VOCABULARY), 8, 16, knobs.depth, 1, positions=knobs.positions)
    decoder, by_hand = Transformer(config).double().eval(), HandSetDecoder(is_hard=False)
    orders = sorted(set(itertools.permutations("DAAB")))
    rows = torch.tensor([[VOCABULARY.index(symbol) for symbol in (*order, "START")] for order in orders])
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter.normal_(0.0, parameter.shape[-1] ** -0.5, generator=rng)
        scores = decoder(rows)[:, -1]
        set_scores = torch.stack([by_hand(row)[-1] for row in rows])
    return {
        "scores change by": (scores - scores[0]).abs().max().item(),
        "orders": float(len(rows)),
        "spread of the scores": scores[0].std().item(),
        "of the decoder set by hand": (set_scores - set_scores[0]).abs().max().item(),
    }


@dataclass(frozen=True)
class ShuffleKnobs:
    data: str = option("names", "Data that it is asked of: a list or a text, such as names.")
    depth: int = option(2, "Layers of the transformer.", minimum=1, maximum=4)
    steps: int = option(300, "Training steps of 64 items.", minimum=1, maximum=20_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


CONTEXT, BATCH, LEARNING_RATE = 32, 64, 1e-2
JUDGED = 2_000  # items of dev, or windows of a text


@cache
def train_decoder(data: str, positions: str, depth: int, steps: int, seed: int) -> Transformer:
    """A causal transformer of width 32 with four heads, trained on next tokens."""
    from pellucid.models.sequences.configs import TransformerConfig
    from pellucid.models.sequences.transformer import Transformer
    from pellucid.training.loop import mean_token_loss
    from pellucid.training.rng import seed_torch
    from pellucid.training.tasks.batches import make_batches

    sides = split_list_or_text(data)
    longest = 1 + max(CONTEXT, *[side.longest_item for side in (sides.train, sides.dev)])
    config = TransformerConfig(len(sides.vocabulary), longest, 32, depth, 4, positions=positions)
    with seed_torch(seed, 0, "weights"):
        model = Transformer(config)
    batches = make_batches(sides.train, BATCH, CONTEXT, seed)

    def loss_of(step: int) -> Tensor:
        batch = batches.batch(step)
        return mean_token_loss(model(batch.tokens), batch.targets)

    with one_thread():
        train_by_adamw(model, loss_of, LEARNING_RATE, steps)
    return model.eval()


def measure_shuffled(knobs: ShuffleKnobs) -> Numbers:
    """One token of each item of dev, told from those before it; then with all but the first and the last shuffled."""
    import torch
    from torch.nn.functional import cross_entropy

    from pellucid.training.rng import numpy_rng
    from pellucid.training.tasks.batches import IGNORED, make_batches

    sides = split_list_or_text(knobs.data)
    batch = make_batches(sides.dev, JUDGED, CONTEXT, 0, by_length=False).batch(1)
    rng = numpy_rng(knobs.seed, 0, "shuffled")
    rows, places, shuffled = [], [], batch.tokens.clone()
    for row, length in enumerate((batch.targets != IGNORED).sum(1).tolist()):
        if length < 4:  # fewer than two tokens would be left to shuffle
            continue
        place = int(rng.integers(3, length))
        rows.append(row)
        places.append(place)
        shuffled[row, 1:place] = batch.tokens[row, 1 + rng.permutation(place - 1)]
    targets = batch.targets[rows, places]
    found = {}
    for name, positions in (("without positions", "none"), ("with rotary ones", "rotary")):
        model = train_decoder(knobs.data, positions, knobs.depth, knobs.steps, knobs.seed)
        for how, tokens in (("in order", batch.tokens), ("shuffled", shuffled)):
            with torch.no_grad(), one_thread():
                found[f"loss {how}, {name}"] = cross_entropy(model(tokens)[rows, places], targets).item()
    rise = found["loss shuffled, without positions"] - found["loss in order, without positions"]
    return {"loss rises by": rise, **found}


# A task for which order does not matter


@dataclass(frozen=True)
class TaskKnobs:
    task: str = option("dedupe-sort", "What is to be written", choices=("dedupe-sort", "reverse"))
    steps: int = option(300, "Training steps of 64 pairs.", minimum=1, maximum=20_000)
    depth: int = option(1, "Layers of the decoder.", minimum=1, maximum=4)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@cache
def open_symbols(task: str) -> PairSides:
    """Sources of one to six of four symbols, with what is to be written."""
    from pellucid.data.prepare import pair_sides
    from pellucid.data.sets import dedupe_sort, reverse

    return pair_sides(dedupe_sort.load() if task == "dedupe-sort" else reverse.load(n_symbols=4, longest=6, n=2_000))


@cache
def train_writer(task: str, positions: str, depth: int, steps: int, seed: int) -> float:
    """A decoder of width 32 with one head: the share of new sources for which every symbol is right."""
    import torch

    from pellucid.models.pairs.configs import PairTransformerConfig
    from pellucid.models.pairs.decoder_only import PairTransformer
    from pellucid.training.rng import seed_torch
    from pellucid.training.tasks.batches import IGNORED, PairBatches, make_pair_batch
    from pellucid.training.tasks.pairs import next_target_loss

    sides = open_symbols(task)
    config = PairTransformerConfig(
        len(sides.vocabulary), sides.longest_source, sides.longest_target, 32, depth, 1, positions=positions
    )
    with seed_torch(seed, 0, "weights"):
        model = PairTransformer(config)
    batches = PairBatches(sides.train, BATCH, seed)
    with one_thread():
        train_by_adamw(model, lambda step: next_target_loss(model, batches.batch(step)), LEARNING_RATE, steps)
        new = make_pair_batch(sides.dev)
        with torch.no_grad():
            said = model.eval()(new.sources, new.tokens).argmax(-1)
    return float(((said == new.targets) | (new.targets == IGNORED)).all(1).double().mean())


def measure_wisdom(knobs: TaskKnobs) -> Numbers:
    """The share that is right without positions, and with each of three kinds."""
    kinds = ("none", "sinusoidal", "learned", "rotary")
    right = {kind: train_writer(knobs.task, kind, knobs.depth, knobs.steps, knobs.seed) for kind in kinds}
    best = max([right[kind] for kind in kinds[1:]])
    return {"right without": right["none"], "best with positions": best, **{f"right, {k}": right[k] for k in kinds[1:]}}


EXAM = "exam 3.2.1"

FAMILY = ClaimFamily(
    name="order-of-tokens",
    title="Order of tokens",
    picture="positions",
    claims=(
        Claim(
            id="self-attention-permutation-invariant",
            says="the output of self-attention is the same in whatever order the tokens come",
            where="log Q11 C.4",
            kind="proof",
            measure=measure_invariance,
            decides="output changes by",
            margin=lambda seen: 1e-9 - seen["output changes by"],
            rule="over all 720 orders of six tokens no number of the output changes by more than 1e-9",
            knobs=ReorderKnobs,
            control={"pooled": "mean"},
            second=sum_invariance,
            covers=("self-attention-permutation-invariant-2",),
            other_reading="equivariant: the rows of the output move with their tokens, and their mean is invariant",
        ),
        Claim(
            id="attention-knows-no-order",
            says="without positions self-attention does not know in what order tokens stand",
            where="answers Q3",
            kind="proof",
            measure=measure_placed,
            decides="its vector changes by",
            margin=lambda seen: 1e-9 - seen["its vector changes by"],
            rule="in all 720 orders of six tokens, all of which see each other, each token gets the same vector",
            knobs=PlacedKnobs,
            control={"positions": "sinusoidal"},
            second=sum_placed,
            other_reading="under a causal mask it does: see attention-has-no-sense-of-space",
        ),
        Claim(
            id="attention-has-no-sense-of-space",
            says="attention acts on a set, so that places have to be provided",
            where="notes §17; homework 1.4a.4",
            kind="proof",
            measure=measure_sight,
            decides="its vector changes by",
            margin=lambda seen: 1e-9 - seen["its vector changes by"],
            rule="each of six tokens gets the same vector in all orders, whether it sees all later tokens or none",
            knobs=SightKnobs,
            control={"look_ahead": 0},
            search=Search("look_ahead", 0, N_TOKENS - 1, n_values=6),
        ),
        Claim(
            id="bag-of-symbols",
            says="without positions a decoder treats its input as a bag of symbols",
            where=EXAM,
            kind="proof",
            measure=measure_bag,
            decides="scores change by",
            margin=lambda seen: 1e-9 - seen["scores change by"],
            rule="the scores behind START are the same for all orders of the input, at every depth from 1 to 4",
            knobs=BagDepthKnobs,
            control={"depth": 2},
            search=Search("depth", 1, 4, n_values=4),
        ),
        Claim(
            id="order-needs-explicit-encoding",
            surprise="from two layers on the causal mask alone tells a decoder the order of its tokens",
            says="a transformer cannot use the order of tokens unless positions are added",
            where="homework 1.4a.4",
            kind="training",
            measure=measure_shuffled,
            decides="loss rises by",
            margin=lambda seen: 0.01 - seen["loss rises by"],
            rule="the loss of a decoder trained without positions rises by less than 0.01 nats when the tokens before "
            "the last one are shuffled, at every depth from 1 to 3",
            knobs=ShuffleKnobs,
            control={"depth": 1},
            search=Search("depth", 1, 3, n_values=3),
            seeds=5,
            other_reading="an encoder, whose tokens all see each other, needs them: see attention-knows-no-order",
        ),
        Claim(
            id="no-positional-encoding-wise",
            says="to sort symbols and drop doubles, a decoder does well to have no positions",
            where=EXAM,
            kind="training",
            measure=measure_wisdom,
            decides="right without",
            margin=lambda seen: seen["right without"] - seen["best with positions"] + 0.02,
            rule="after 300 steps it is right on as many new sources as the best of three with positions, to 2 points",
            knobs=TaskKnobs,
            control={"task": "reverse"},
            seeds=5,
            other_reading="that it is better for it: with sinusoidal or rotary positions as many are right",
        ),
    ),
)
