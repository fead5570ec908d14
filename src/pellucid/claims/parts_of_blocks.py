"""The parts of a block: layer norm, and what attention and the feed-forward part do to a stream.

Three things in a transformer's block are not linear: softmax, layer norm and the ReLU of the feed-forward part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search
from pellucid.claims.order_of_norms import (
    HEADS,
    WIDTH,
    PostStreamKnobs,
    build_norm_stack,
    draw_stream,
    measure_stream,
    run_torch_layers,
)
from pellucid.claims.residual_connections import root_mean
from pellucid.claims.sizes_and_latency import one_thread
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor

# Layer norm


@dataclass(frozen=True)
class RowShapeKnobs:
    shape: str = option("exponential", "Distribution of the features", choices=("exponential", "normal"))
    width: int = option(512, "Features of a row.", minimum=2, maximum=100_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def _draw_features(knobs: RowShapeKnobs) -> Tensor:
    import torch

    from pellucid.training.rng import torch_rng

    shape, rng = (200, knobs.width), torch_rng(knobs.seed, 0, "features")
    if knobs.shape == "normal":
        return torch.randn(shape, generator=rng, dtype=torch.float64)
    return torch.rand(shape, generator=rng, dtype=torch.float64).log().neg()


def measure_normed_rows(knobs: RowShapeKnobs) -> Numbers:
    """Mean, deviation and skewness of the features of a row behind layer norm, averaged over 200 rows."""
    from pellucid.layers.norms import build_norm

    out = build_norm("layer", knobs.width, 1).double()(_draw_features(knobs)).detach()
    return {
        "skewness": (out**3).mean().item(),
        "mean": out.mean().item(),
        "deviation": out.std(-1, unbiased=False).mean().item(),
    }


def skewness_before_norm(knobs: RowShapeKnobs) -> Numbers:
    """m₃ / m₂^1.5 of the rows as they were drawn, in NumPy: a norm that only shifts and stretches leaves it."""
    rows = _draw_features(knobs).numpy()
    centred = rows - rows.mean(1, keepdims=True)
    return {"skewness": float(((centred**3).mean(1) / (centred**2).mean(1) ** 1.5).mean())}


@dataclass(frozen=True)
class RowAloneKnobs:
    norm: str = option("layer", "The norm", choices=("layer", "batch"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_row_alone(knobs: RowAloneKnobs) -> Numbers:
    """One row in training among others and at inference alone; and the numbers that a norm keeps without learning."""
    import torch

    from pellucid.layers.norms import build_norm

    norm = build_norm(knobs.norm, WIDTH, 1).double()
    rows = 3 + 2 * draw_stream(knobs.seed, "rows")[0]
    with torch.no_grad():
        among = norm.train()(rows)[0]
        alone = norm.eval()(rows[:1])[0]
    return {
        "furthest apart": (among - alone).abs().max().item(),
        "running numbers": float(sum([buffer.numel() for buffer in norm.buffers()])),
        "first feature": among[0].item(),
    }


def norm_row_by_hand(knobs: RowAloneKnobs) -> Numbers:
    """(x - mean) / √(variance + ε), by NumPy: of the row, or of the column."""
    rows = (3 + 2 * draw_stream(knobs.seed, "rows")[0]).numpy()
    group = rows[0] if knobs.norm == "layer" else rows[:, 0]
    return {"first feature": float((rows[0, 0] - group.mean()) / math.sqrt(group.var() + 1e-5))}


@dataclass(frozen=True)
class RangeKnobs:
    norm: str = option("layer", "The norms of the blocks", choices=("layer", "none"))
    scale: float = option(3.0, "Factor on the weights as torch draws them.", minimum=0, maximum=1000)
    depth: int = option(12, "Blocks with norms behind their parts.", minimum=1, maximum=200)
    form: str = option("post", "Norms behind the parts, or before them", choices=("post", "pre"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def as_stream(knobs: RangeKnobs) -> PostStreamKnobs:
    return PostStreamKnobs(knobs.form, knobs.norm, knobs.depth, knobs.scale, knobs.seed)


def measure_range(knobs: RangeKnobs) -> Numbers:
    """How values on the stream change through the blocks, as a factor, and the largest inside a feed-forward part."""
    seen = measure_stream(as_stream(knobs))
    return {name: seen[name] for name in ("growth", "largest on the way", "largest in feed-forward")}


@dataclass(frozen=True)
class SensitivityRangeKnobs:
    network: str = option(
        "transformer", "Four post-norm blocks on names, or six ReLU layers on digits", choices=("transformer", "MLP")
    )
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


FACTORS, RATES = (0.1, 1.0, 10.0), (0.0001, 0.001, 0.01, 0.1)  # on the weights at first; learning rates
WORST = 10.0  # nats: what a loss counts as that is larger, or no number


@cache
def train_normed_mlp(norm: str, factor: float, learning_rate: float, seed: int) -> float:
    """Six layers of 32 ReLU units on digits, 100 steps of Adam: the loss on train."""
    import torch
    from torch import nn
    from torch.nn.functional import cross_entropy

    from pellucid.claims.deep_training import BATCH, split_classes
    from pellucid.models.examples.configs import RowMLPConfig
    from pellucid.models.examples.rows import RowMLP
    from pellucid.training.rng import seed_torch, torch_rng

    sides = split_classes("digits")
    config = RowMLPConfig(*sides.shape, hidden=32, depth=6, activation="relu", norm=norm)
    with seed_torch(seed, 0, "weights"), torch.no_grad():
        model = RowMLP(config)
        for module in model.layers.modules():
            if isinstance(module, nn.Linear):
                module.weight.mul_(factor)
    numbers = sides.train.numbers.flatten(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    rng = torch_rng(seed, 0, "batches")
    with one_thread():
        for _ in range(100):
            which = torch.randint(len(numbers), (BATCH,), generator=rng)
            optimizer.zero_grad()
            scores = model(numbers[which], sides.train.codes[which])
            cross_entropy(scores, sides.train.classes[which]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        with torch.no_grad():
            loss = cross_entropy(model(numbers, sides.train.codes), sides.train.classes).item()
    return min(loss, WORST) if math.isfinite(loss) else WORST


def measure_sensitivity_ranges(knobs: SensitivityRangeKnobs) -> Numbers:
    """Worst less best loss over starts, and over learning rates, with norms and without any."""
    from pellucid.claims.norm_order_training import train_norm_order

    def train(norm: str, factor: float, learning_rate: float) -> float:
        if knobs.network == "MLP":
            return train_normed_mlp(norm, factor, learning_rate, knobs.seed)
        run = train_norm_order("post", norm, "names", 4, learning_rate, 0, knobs.seed, factor)
        return min(run.loss, WORST)

    found = {}
    for name, norm in (("with norms", "layer"), ("without", "none")):
        by_start = [train(norm, factor, 0.001) for factor in FACTORS]
        by_rate = [train(norm, 1.0, rate) for rate in RATES]
        found[f"by start, {name}"] = max(by_start) - min(by_start)
        found[f"by rate, {name}"] = max(by_rate) - min(by_rate)
    return found


def is_half_as_sensitive(seen: Numbers) -> float:
    return min(0.5 * seen[f"by {what}, without"] - seen[f"by {what}, with norms"] for what in ("start", "rate"))


# Attention and the feed-forward part


@dataclass(frozen=True)
class AttentionBendKnobs:
    scale: float = option(1.0, "Deviation of the inputs.", minimum=0.001, maximum=1000)
    part: str = option("attention", "Attention, or the feed-forward part", choices=("attention", "feed-forward"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_attention_bend(knobs: AttentionBendKnobs) -> Numbers:
    """Between the outputs for two random streams: how far those for streams in between are off a straight line."""
    import torch

    from pellucid.layers.masks import EVERYTHING

    block = build_norm_stack("pre", 1, 1.0, knobs.seed)[0].double()
    first, second = (knobs.scale * draw_stream(knobs.seed, name) for name in ("one end", "other end"))
    parts = torch.linspace(0, 1, 11, dtype=torch.float64).tolist()

    def run(stream: Tensor, weights_of: Tensor | None = None) -> Tensor:
        if knobs.part == "feed-forward":
            return block.feed_forward(stream)  # type: ignore[no-any-return]  # of a module's call
        if weights_of is None:
            return block.attention(stream, stream, mask=EVERYTHING)  # type: ignore[no-any-return]
        from pellucid.layers.attention import join_heads

        weights = block.attention.weights(weights_of, weights_of, mask=EVERYTHING)
        _, values = block.attention.project_memory(stream)
        return block.attention.combine(join_heads(weights @ values))  # type: ignore[no-any-return]

    def bend(weights_of: Tensor | None) -> float:
        outs = [run((1 - part) * first + part * second, weights_of) for part in parts]
        off = [out - (1 - part) * outs[0] - part * outs[-1] for part, out in zip(parts, outs, strict=True)]
        return max([root_mean(one) for one in off]) / root_mean(outs[-1] - outs[0])

    with torch.no_grad():
        found = {"bend": bend(None)}
        if knobs.part == "attention":
            found["bend, weights held"] = bend(first)
    return found


def attention_bend_by_hand(knobs: AttentionBendKnobs) -> Numbers:
    """The same by the formula of attention, in NumPy."""
    import numpy as np

    if knobs.part != "attention":
        return {}
    state = build_norm_stack("pre", 1, 1.0, knobs.seed)[0].double().attention.state_dict()
    project, shift, combine = (state[name].numpy() for name in ("project", "shift", "combine.weight"))
    ends = [knobs.scale * draw_stream(knobs.seed, name).numpy() for name in ("one end", "other end")]

    def run(x: Any) -> Any:
        q, k, v = (x @ project[i].T + shift[i * WIDTH : (i + 1) * WIDTH] for i in range(3))
        heads = []
        for part in np.split(np.arange(WIDTH), HEADS):
            scores = q[..., part] @ np.swapaxes(k[..., part], -1, -2) / math.sqrt(len(part))
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            heads.append(weights / weights.sum(-1, keepdims=True) @ v[..., part])
        return np.concatenate(heads, -1) @ combine.T

    parts = np.linspace(0, 1, 11)
    outs = [run((1 - part) * ends[0] + part * ends[1]) for part in parts]
    off = [out - (1 - part) * outs[0] - part * outs[-1] for part, out in zip(parts, outs, strict=True)]
    reach = ((outs[-1] - outs[0]) ** 2).mean() ** 0.5
    return {"bend": max([float((one**2).mean() ** 0.5) for one in off]) / float(reach)}


@dataclass(frozen=True)
class PositionWiseKnobs:
    part: str = option("feed-forward", "The part of a block", choices=("attention", "feed-forward"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_position_wise(knobs: PositionWiseKnobs) -> Numbers:
    """What a part gives at a place when all others change, and when the places change their order."""
    import torch

    from pellucid.layers.masks import CAUSAL

    block = build_norm_stack("pre", 1, 1.0, knobs.seed)[0].double()
    stream, other = draw_stream(knobs.seed, "stream"), draw_stream(knobs.seed, "other")
    other[:, -1] = stream[:, -1]
    order = torch.randperm(stream.shape[1], generator=torch.Generator().manual_seed(knobs.seed))

    def run(x: Tensor) -> Tensor:
        out: Tensor = block.feed_forward(x) if knobs.part == "feed-forward" else block.attention(x, x, mask=CAUSAL)
        return out

    with torch.no_grad():
        whole = run(stream)
        return {
            "changed by the others": (run(other)[:, -1] - whole[:, -1]).abs().max().item(),
            "changed by their order": (run(stream[:, order]) - whole[:, order]).abs().max().item(),
            "size": root_mean(whole),
        }


def run_place_by_place(knobs: PositionWiseKnobs) -> Numbers:
    """The same network on every place by itself, as a row without others."""
    import torch

    if knobs.part != "feed-forward":
        return {}
    block = build_norm_stack("pre", 1, 1.0, knobs.seed)[0].double()
    with torch.no_grad():
        rows = [block.feed_forward(place) for place in draw_stream(knobs.seed, "stream").flatten(0, 1)]
    return {"size": root_mean(torch.stack(rows))}


@dataclass(frozen=True)
class EssentialKnobs:
    places: int = option(2, "Tokens that the two bits stand in.", minimum=1, maximum=2)
    norm: str = option("layer", "The norms of the blocks", choices=("layer", "none"))
    steps: int = option(300, "Steps of Adam.", minimum=10, maximum=10_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@cache
def train_on_xor(feed_forward: bool, places: int, norm: str, steps: int, seed: int) -> float:
    """Two pre-norm blocks that read two bits, in one token or in two, and a linear head on the last: how many of 4."""
    import torch
    from torch import nn
    from torch.nn.functional import binary_cross_entropy_with_logits

    from pellucid.training.rng import seed_torch

    class Nothing(nn.Module):
        """A part that adds nothing."""

        def forward(self, stream: Tensor) -> Tensor:
            return torch.zeros_like(stream)

    corners = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]) * 2 - 1
    truths = (corners[:, 0] * corners[:, 1] < 0).float()
    tokens = torch.zeros(4, places, 4)  # both bits, and which place it is
    for bit in range(2):
        tokens[:, bit % places, bit] = corners[:, bit]
    for place in range(places):
        tokens[:, place, 2 + place] = 1.0
    blocks = nn.ModuleList(build_norm_stack("pre", 2, 1.0, seed, norm))
    if not feed_forward:
        for block in blocks:
            block.feed_forward = Nothing()
    with seed_torch(seed, 0, "ends"):
        stem, head = nn.Linear(4, WIDTH), nn.Linear(WIDTH, 1)
    last = nn.LayerNorm(WIDTH) if norm == "layer" else nn.Identity()
    parameters = [p for part in (blocks, stem, head, last) for p in part.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.003)
    with one_thread():
        for _ in range(steps):
            stream = stem(tokens)
            for block in blocks:
                stream = block(stream)
            scores = head(last(stream[:, -1]))[:, 0]
            optimizer.zero_grad()
            binary_cross_entropy_with_logits(scores, truths).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return float(((scores > 0) == (truths > 0.5)).sum())


def measure_essential(knobs: EssentialKnobs) -> Numbers:
    """The four cases of exclusive or that a block learns with and without its feed-forward part."""
    same = (knobs.places, knobs.norm, knobs.steps, knobs.seed)
    return {"right with feed-forward, of 4": train_on_xor(True, *same), "right without": train_on_xor(False, *same)}


NORM, PART = "notes §17.4", "homework 1.4d"

FAMILY = ClaimFamily(
    name="parts-of-blocks",
    title="Parts of a block: layer norm and feed-forward",
    claims=(
        Claim(
            id="layernorm-makes-unit-gaussian",
            says="layer norm makes the features of a row follow a standard normal distribution",
            where=NORM,
            kind="draws",
            measure=measure_normed_rows,
            decides="skewness",
            margin=lambda seen: 0.1 - abs(seen["skewness"]),
            rule="exponential features come out with a skewness below 0.1, as a normal distribution has 0",
            knobs=RowShapeKnobs,
            control={"shape": "normal"},
            second=skewness_before_norm,
            tolerance=1e-3,
            seeds=8,
            other_reading="it gives them the mean 0 and the deviation 1 of one, and leaves their shape",
        ),
        Claim(
            id="layernorm-no-batch-no-running",
            says="layer norm works by rows, and needs no running mean or variance",
            where=NORM,
            kind="draws",
            measure=measure_row_alone,
            decides="furthest apart",
            margin=lambda seen: min(1e-9 - seen["furthest apart"], 0.5 - seen["running numbers"]),
            rule="a row comes out the same in training among others and at inference alone, and nothing is kept",
            knobs=RowAloneKnobs,
            control={"norm": "batch"},
            second=norm_row_by_hand,
            seeds=8,
        ),
        Claim(
            id="layernorm-keeps-activations-in-range",
            says="layer norm keeps activations from growing or vanishing on their way through the blocks",
            where="homework 1.4e.2",
            kind="draws",
            measure=measure_range,
            decides="growth",
            margin=lambda seen: math.log(2) - max(abs(math.log(seen["growth"])), math.log(seen["largest on the way"])),
            rule="through 12 blocks with norms behind their parts values stay within a factor of 2, for any weights",
            knobs=RangeKnobs,
            control={"norm": "none"},
            search=Search("scale", 0.1, 30.0, n_values=5, is_log=True),
            second=lambda knobs: run_torch_layers(as_stream(knobs)),
            tolerance=1e-5,
            seeds=8,
            other_reading="inside a feed-forward part they are as large as its weights make them",
        ),
        Claim(
            id="layernorm-reduces-sensitivity",
            says="layer norm makes training less sensitive to the first weights and to the learning rate",
            where="homework 1.4e.2",
            kind="training",
            measure=measure_sensitivity_ranges,
            decides="by start, with norms",
            margin=is_half_as_sensitive,
            rule="over starts of 0.1 to 10 times, and over rates of 0.0001 to 0.1, losses spread half as far or less",
            changed="the learning rate was first asked of an MLP, where it fails; the statement is about "
            "transformers, so that they are asked and the MLP is the control",
            knobs=SensitivityRangeKnobs,
            control={"network": "MLP"},
            seeds=5,
            other_reading="in six ReLU layers on digits it is so for the first weights, and for rates it is not",
        ),
        Claim(
            id="attention-is-linear",
            says="attention is mainly linear, a weighted sum",
            where="homework 1.4d.1",
            kind="draws",
            measure=measure_attention_bend,
            decides="bend",
            margin=lambda seen: 0.05 - seen["bend"],
            rule="between two streams of any size its outputs are off a straight line by less than 5 % of its length",
            knobs=AttentionBendKnobs,
            control={"scale": 0.2},
            search=Search("scale", 0.1, 10.0, n_values=7, is_log=True),
            second=attention_bend_by_hand,
            seeds=8,
            other_reading="in the values alone, with its weights held, it is linear exactly",
        ),
        Claim(
            id="ffn-position-wise",
            says="one feed-forward network is applied to each position by itself",
            where=PART,
            kind="draws",
            measure=measure_position_wise,
            decides="changed by the others",
            margin=lambda seen: 1e-12 - max(seen["changed by the others"], seen["changed by their order"]),
            rule="what it gives at a place depends neither on what stands at the others nor on which place it is",
            knobs=PositionWiseKnobs,
            control={"part": "attention"},
            second=run_place_by_place,
            seeds=8,
        ),
        Claim(
            id="ffn-essential",
            surprise="softmax or a layer norm alone is enough to learn exclusive or",
            says="the feed-forward part adds a non-linearity that a transformer cannot do without",
            where=PART,
            kind="training",
            measure=measure_essential,
            decides="right without",
            margin=lambda seen: min(seen["right with feed-forward, of 4"] - 3.5, 3.5 - seen["right without"]),
            rule="two blocks tell all of XOR of two bits in two tokens, and without feed-forward parts they do not",
            knobs=EssentialKnobs,
            control={"places": 1, "norm": "none"},
            seeds=5,
            other_reading="with both bits in one token and without norms it is needed, for then nothing else bends; "
            "softmax over two tokens, or layer norm on one, is enough for XOR",
        ),
    ),
)
