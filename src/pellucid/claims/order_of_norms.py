"""The order of norms: a transformer's layer norms behind its parts, as in 2017, or before them.

    post    x ← norm(x + part(x))     the norm is on the stream itself
    pre     x ← x + part(norm(x))     nothing is on the stream but sums

Both have the same drawn weights, so that nothing but the place of the norms tells them apart. `scale` is a factor on
all weights of the blocks as torch draws them. Where networks are trained there is a last norm before the head in both;
in post-norm it changes nothing.
"""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search, yes
from pellucid.claims.residual_connections import root_mean
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor, nn

    from pellucid.layers.blocks import EncoderBlock

ORDERS = ("pre", "post", "none")
ORDER = "Norms before the parts, behind them on the stream, or before parts without skips"
WIDTH, HEADS, BATCH, TOKENS = 32, 4, 8, 12


def build_norm_stack(form: str, depth: int, scale: float, seed: int, norm: str = "layer") -> list[EncoderBlock]:
    """Blocks with four heads and ReLU, the weights of which depend on the seed alone."""
    import torch
    from torch import nn

    from pellucid.layers.blocks import NoResidualBlock, PostNormBlock, PreNormBlock
    from pellucid.layers.feed_forward import ActivatedFeedForward
    from pellucid.training.rng import seed_torch

    kinds: dict[str, type[EncoderBlock]] = {"pre": PreNormBlock, "post": PostNormBlock, "none": NoResidualBlock}
    with seed_torch(seed, 0, "blocks"):
        blocks = [
            kinds[form](
                WIDTH,
                HEADS,
                feed_forward=ActivatedFeedForward(WIDTH, nn.ReLU()),
                norm=nn.LayerNorm if norm == "layer" else lambda width: nn.Identity(),
            )
            for _ in range(depth)
        ]
    with torch.no_grad():
        for block in blocks:
            for part in (block.attention, block.feed_forward):
                for parameter in part.parameters():
                    parameter.mul_(scale)
    return blocks


def draw_stream(seed: int, purpose: str) -> Tensor:
    import torch

    from pellucid.training.rng import torch_rng

    return torch.randn(BATCH, TOKENS, WIDTH, generator=torch_rng(seed, 0, purpose), dtype=torch.float64)


@dataclass(frozen=True)
class PostStreamKnobs:
    form: str = option("post", ORDER, choices=ORDERS)
    norm: str = option("layer", "The norms of the blocks", choices=("layer", "none"))
    depth: int = option(6, "Blocks.", minimum=1, maximum=200)
    scale: float = option(1.0, "Factor on the weights as torch draws them.", minimum=0, maximum=1000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class PreStreamKnobs(PostStreamKnobs):
    form: str = option("pre", ORDER, choices=ORDERS)


@dataclass(frozen=True)
class DeepStreamKnobs(PostStreamKnobs):
    depth: int = option(24, "Blocks.", minimum=1, maximum=200)


def measure_stream(knobs: PostStreamKnobs) -> Numbers:
    """Sizes on the way through the blocks before training, and a random gradient's on the way back."""
    import torch

    x, above = draw_stream(knobs.seed, "stream"), draw_stream(knobs.seed, "gradient")
    streams = [x.requires_grad_()]
    inside: list[float] = []
    for block in build_norm_stack(knobs.form, knobs.depth, knobs.scale, knobs.seed, knobs.norm):
        expand: Any = block.double().feed_forward.expand
        hook = expand.register_forward_hook(lambda module, given, out: inside.append(root_mean(out)))
        streams.append(block(streams[-1]))
        hook.remove()
    (back,) = torch.autograd.grad(streams[-1], x, above)
    means, deviations = streams[-1].mean(-1), streams[-1].std(-1, unbiased=False)
    sizes = [root_mean(one) for one in streams]
    return {
        "growth": sizes[-1] / sizes[0],
        "largest on the way": max(sizes) / sizes[0],
        "largest in feed-forward": max(inside),
        "rows off mean 0 and deviation 1 by": max(means.abs().max().item(), (deviations - 1).abs().max().item()),
        "gradient left": root_mean(back) / root_mean(above),
        "cosine of gradients": torch.cosine_similarity(back.flatten(), above.flatten(), dim=0).item(),
    }


def run_torch_layers(knobs: PostStreamKnobs) -> Numbers:
    """The same by torch's own encoder layers with our weights, where there are such."""
    import torch

    if knobs.form == "none" or knobs.norm == "none":
        return {}
    x, above = draw_stream(knobs.seed, "stream"), draw_stream(knobs.seed, "gradient")
    stream = x.requires_grad_()
    for block in build_norm_stack(knobs.form, knobs.depth, knobs.scale, knobs.seed):
        stream = copy_to_torch(block, is_pre=knobs.form == "pre")(stream)
    (back,) = torch.autograd.grad(stream, x, above)
    return {"growth": root_mean(stream) / root_mean(x), "gradient left": root_mean(back) / root_mean(above)}


def copy_to_torch(block: EncoderBlock, *, is_pre: bool) -> nn.TransformerEncoderLayer:
    """torch's layer with the weights of ours, in double precision."""
    from torch import nn

    layer = nn.TransformerEncoderLayer(
        WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=is_pre, dtype=block.attention.project.dtype
    )
    ours = block.state_dict()
    layer.load_state_dict(
        {
            "self_attn.in_proj_weight": ours["attention.project"].flatten(0, 1),
            "self_attn.in_proj_bias": ours["attention.shift"],
            "self_attn.out_proj.weight": ours["attention.combine.weight"],
            "self_attn.out_proj.bias": ours["attention.combine.bias"],
            "linear1.weight": ours["feed_forward.expand.weight"],
            "linear1.bias": ours["feed_forward.expand.bias"],
            "linear2.weight": ours["feed_forward.contract.weight"],
            "linear2.bias": ours["feed_forward.contract.bias"],
            **{f"norm1.{name}": ours[f"attention_norm.{name}"] for name in ("weight", "bias")},
            **{f"norm2.{name}": ours[f"feed_forward_norm.{name}"] for name in ("weight", "bias")},
        }
    )
    return layer.double()


@dataclass(frozen=True)
class TwoOrdersKnobs:
    depth: int = option(6, "Blocks.", minimum=1, maximum=200)
    scale: float = option(1.0, "Factor on the weights as torch draws them.", minimum=0, maximum=1000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_two_orders(knobs: TwoOrdersKnobs) -> Numbers:
    """How a gradient arrives at the first block in both orders: what is left of its size, and its cosine."""
    pre = PreStreamKnobs(depth=knobs.depth, scale=knobs.scale, seed=knobs.seed)
    found = {}
    for seen, form in ((measure_stream(pre), "pre"), (measure_stream(replace(pre, form="post")), "post")):
        found[f"cosine, {form}"] = seen["cosine of gradients"]
        found[f"left, {form}"] = seen["gradient left"]
    return found


def two_orders_by_torch(knobs: TwoOrdersKnobs) -> Numbers:
    pre = PreStreamKnobs(depth=knobs.depth, scale=knobs.scale, seed=knobs.seed)
    return {f"left, {form}": run_torch_layers(replace(pre, form=form))["gradient left"] for form in ("pre", "post")}


# One part of a block, and the code of a whole one


@dataclass(frozen=True)
class NormedPartKnobs:
    form: str = option("post", ORDER, choices=("pre", "post"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_part_jacobian(knobs: NormedPartKnobs) -> Numbers:
    """The Jacobian of a feed-forward part with its skip and its norm, beside I + that of what is added."""
    import torch

    from pellucid.layers.blocks import NORM_ORDERS

    block = build_norm_stack(knobs.form, 1, 1.0, knobs.seed)[0].double()
    order, norm, part = NORM_ORDERS[knobs.form], block.feed_forward_norm, block.feed_forward
    x = draw_stream(knobs.seed, "stream")[0, 0]
    whole = torch.func.jacrev(lambda x: order.add(x, part(order.read(x, norm)), norm))(x)
    added = torch.func.jacrev(lambda x: part(order.read(x, norm)))(x)
    factors = torch.linalg.svdvals(whole)
    stated = added + torch.eye(WIDTH, dtype=added.dtype)
    return {
        "apart by": ((whole - stated).norm() / whole.norm()).item(),
        "size": whole.norm().item(),
        "directions that pass less than 0.1 %": float((factors < 1e-3).sum()),
    }


def part_jacobian_by_hand(knobs: NormedPartKnobs) -> Numbers:
    """By formula: that of layer norm is (I - 1/d - z zᵀ/d)/σ for its output z, but for ε."""
    import numpy as np

    block = build_norm_stack(knobs.form, 1, 1.0, knobs.seed)[0].double()
    weights = {name: value.numpy() for name, value in block.feed_forward.state_dict().items()}
    x = draw_stream(knobs.seed, "stream")[0, 0].numpy()

    def norm_jacobian(values: Any) -> tuple[Any, Any]:
        variance = values.var()
        deviation = np.sqrt(variance + 1e-5)
        z = (values - values.mean()) / deviation
        return z, (np.eye(WIDTH) - 1 / WIDTH - np.outer(z, z) / WIDTH) / deviation

    read, before = norm_jacobian(x) if knobs.form == "pre" else (x, np.eye(WIDTH))
    hidden = weights["expand.weight"] @ read + weights["expand.bias"]
    added = weights["contract.weight"] @ ((hidden > 0)[:, None] * weights["expand.weight"]) @ before
    whole = stated = np.eye(WIDTH) + added
    if knobs.form == "post":
        found = weights["contract.weight"] @ np.maximum(hidden, 0) + weights["contract.bias"]
        whole = norm_jacobian(x + found)[1] @ stated
    return {
        "apart by": float(np.linalg.norm(whole - stated) / np.linalg.norm(whole)),
        "size": float(np.linalg.norm(whole)),
    }


@dataclass(frozen=True)
class CodeKnobs:
    attention: str = option(
        "torch's",
        "nn.MultiheadAttention, which returns a pair, or one that returns a tensor",
        choices=("torch's", "ours"),
    )
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def run_corrected_code(knobs: CodeKnobs) -> Numbers:
    """Pre-norm as a student would write it, q, k and v being one normed stream, beside our block with its weights."""
    from pellucid.layers.masks import EVERYTHING

    block = build_norm_stack("pre", 1, 1.0, knobs.seed)[0].double()
    layer = copy_to_torch(block, is_pre=True)
    x = draw_stream(knobs.seed, "stream")

    def attend_alone(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return block.attention(queries, keys, mask=EVERYTHING)  # type: ignore[no-any-return]  # of a module's call

    # As it is indented in print, it stands outside of the function, where Python takes no return.
    code = ast.parse("def forward(x):\n    x = x + 1\nreturn x")
    printed = {"its last line as printed": float(not any(isinstance(line, ast.Return) for line in code.body))}
    attention: Any = layer.self_attn if knobs.attention == "torch's" else attend_alone
    try:
        level = layer.norm1(x)
        stream = x + attention(level, level, level)
        stream = stream + layer.linear2(layer.linear1(layer.norm2(stream)).relu())
    except TypeError:  # a tensor and a pair cannot be added
        return {"runs": 0.0, **printed}
    return {"runs": 1.0, "furthest from our block": (stream - block(x)).abs().max().item(), **printed}


# Softmax of large numbers


@dataclass(frozen=True)
class LargeScoreKnobs:
    largest: float = option(1000.0, "The largest of three scores; the others are 0 and half of it.", minimum=0)
    computed: str = option("by torch", "As torch does, or as exp over its sum", choices=("by torch", "as written"))
    precision: str = option(
        "float32", "Numbers of 24, 11 or 53 binary digits", choices=("float32", "float16", "float64")
    )

    def __post_init__(self) -> None:
        check_options(self)


def measure_large_scores(knobs: LargeScoreKnobs) -> Numbers:
    """Softmax of three scores: how many of its numbers are not finite, and the largest of the others."""
    import torch

    kind = getattr(torch, knobs.precision)
    scores = torch.tensor([0.0, knobs.largest / 2, knobs.largest], dtype=torch.float64).to(kind)
    weights = scores.softmax(-1) if knobs.computed == "by torch" else scores.exp() / scores.exp().sum()
    is_finite = weights.isfinite()
    return {
        "not finite": float((~is_finite).sum()),
        "largest weight": max(weights[is_finite].tolist(), default=0.0),
        "scores that are infinite": float(scores.isinf().sum()),
    }


def divide_by_largest(knobs: LargeScoreKnobs) -> Numbers:
    """1 over the sum of exp(score - largest), by Python."""
    if knobs.computed != "by torch" or knobs.precision == "float16":
        return {}
    rest = sum([math.exp(-min(part * knobs.largest, 700.0)) for part in (0.5, 1.0)])
    return {"largest weight": 1 / (1 + rest), "not finite": 0.0}  # no power is above 1, and one of them is 1


FAMILY = ClaimFamily(
    name="order-of-norms",
    title="The order of norms",
    claims=(
        Claim(
            id="post-ln-activations-explode",
            surprise="norms behind the parts hold the stream where it is, and those before them let it grow",
            says="with norms behind the parts values grow without control from layer to layer",
            where="log Q14",
            kind="draws",
            measure=measure_stream,
            decides="largest on the way",
            margin=lambda seen: seen["largest on the way"] - 2,
            rule="behind one of six blocks values are over twice those before the first, for any weights",
            knobs=PostStreamKnobs,
            control={"norm": "none", "scale": 3.0},
            search=Search("scale", 0.1, 100.0, n_values=7, is_log=True),
            second=run_torch_layers,
            tolerance=1e-5,
            seeds=8,
            other_reading="without any norm they do; with norms before the parts they grow, if slowly",
        ),
        Claim(
            id="pre-ln-activations-under-control",
            says="with norms before the parts activations stay under control throughout",
            where="log Q14",
            kind="draws",
            measure=measure_stream,
            decides="growth",
            margin=lambda seen: 2 - seen["largest on the way"],
            rule="nowhere on the way through the blocks values are more than twice as large, for any depth to 96",
            knobs=PreStreamKnobs,
            control={"depth": 96},
            search=Search("depth", 1, 96, n_values=7, is_log=True),
            second=run_torch_layers,
            tolerance=1e-5,
            seeds=8,
            other_reading="what each part is given is normed, and so always under control; the stream grows",
        ),
        Claim(
            id="post-ln-passed-before-normalised",
            says="with norms behind the parts what a block puts out is passed on before it is normed",
            where="log Q14",
            kind="draws",
            measure=measure_stream,
            decides="rows off mean 0 and deviation 1 by",
            margin=lambda seen: seen["rows off mean 0 and deviation 1 by"] - 0.01,
            rule="its rows are off a mean of 0 or a deviation of 1 by more than 0.01",
            knobs=PostStreamKnobs,
            control={"form": "pre"},
            second=run_torch_layers,
            tolerance=1e-5,
            seeds=8,
            other_reading="this is what norms before the parts do",
        ),
        Claim(
            id="residual-prevents-vanishing",
            says="skip paths keep gradients alive in deep stacks of transformer blocks with norms behind the parts",
            where="homework 1.4e.1",
            kind="draws",
            measure=measure_stream,
            decides="gradient left",
            margin=lambda seen: math.log10(seen["gradient left"]) + 1,
            rule="more than a tenth of a gradient is left at the first block, for any depth from 2 to 96",
            knobs=DeepStreamKnobs,
            control={"form": "none"},
            search=Search("depth", 2, 96, n_values=6, is_log=True),
            second=run_torch_layers,
            tolerance=1e-5,
            seeds=8,
        ),
        Claim(
            id="pre-ln-cleaner-gradients",
            says="norms before the parts give gradients a cleaner, more direct path than norms behind them",
            where="log Q14",
            kind="draws",
            measure=measure_two_orders,
            decides="cosine, pre",
            margin=lambda seen: seen["cosine, pre"] - seen["cosine, post"] - 0.1,
            rule="a gradient arrives at the first block with a cosine to itself that is higher by 0.1 or more",
            changed="the control has 24 blocks, since the first one came out the same way",
            knobs=TwoOrdersKnobs,
            control={"depth": 24},
            search=Search("depth", 1, 48, n_values=6, is_log=True),
            second=two_orders_by_torch,
            tolerance=1e-5,
            seeds=8,
            other_reading="a way on which nothing stands but sums; with few blocks that makes little difference",
        ),
        Claim(
            id="post-ln-keeps-identity-path",
            says="norm(x + part(x)) has the Jacobian I + ∂part/∂x, so that there is a way around for gradients",
            where="homework 1.4e",
            kind="proof",
            measure=measure_part_jacobian,
            decides="apart by",
            margin=lambda seen: 1e-6 - seen["apart by"],
            rule="the Jacobian of a part with skip and norm equals I + that of what is added, to a millionth",
            knobs=NormedPartKnobs,
            control={"form": "pre"},
            second=part_jacobian_by_hand,
            other_reading="before the norm it does; the norm takes away two directions, the mean and the length",
        ),
        Claim(
            id="pre-ln-code-runs",
            says="the corrected forward pass (norm, attention of q = k = v, sum, norm, feed-forward, sum) runs",
            where="log Q14",
            kind="proof",
            measure=run_corrected_code,
            decides="runs",
            margin=lambda seen: yes(seen["runs"] and seen["furthest from our block"] < 1e-9),
            rule="with the modules of torch it runs, and gives what our block gives with the same weights",
            knobs=CodeKnobs,
            control={"attention": "ours"},
            other_reading="with attention that returns a tensor it does; torch's returns its weights as well, so that "
            "the sum is refused; and as printed, the last line stands outside of the function",
        ),
        Claim(
            id="softmax-overflows-large-inputs",
            says="softmax of large numbers overflows to infinity, and then to NaN",
            where="log Q14",
            kind="arithmetic",
            measure=measure_large_scores,
            decides="not finite",
            margin=lambda seen: seen["not finite"] - 0.5,
            rule="a weight that torch gives for scores up to 1e38 is not finite, in float32",
            knobs=LargeScoreKnobs,
            control={"computed": "as written"},
            search=Search("largest", 1.0, 1e38, is_log=True),
            second=divide_by_largest,
            other_reading="written as exp over its sum it does, above 88.7 in float32 and 11.1 in float16; and in "
            "float16 a score above 65,504 is infinite itself, which makes NaN of all",
        ),
    ),
)
