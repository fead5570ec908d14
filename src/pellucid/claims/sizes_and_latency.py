"""Sizes and latency: parameters, FLOPs and seconds of attention, heads and layers, counted and timed.

FLOPs count a multiplication and an addition as two, and leave out what is done number by number. Seconds are those that
one thread of the processor worked, the least of a few passes, so that what else runs here hardly plays a part.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor, nn


def count_flops(run: Callable[[], object]) -> int:
    """What torch counts while this runs, on the device "meta"."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        run()
    return int(counter.get_total_flops())


@contextmanager
def one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def least_seconds(*runs: Callable[[], object], repeats: int = 3) -> list[float]:
    """Seconds that one thread worked, without gradients, the least of several; all in turn, each as often.

    In turn, so that a processor that slows down for a while slows all of them.
    """
    import torch

    least = [math.inf for _ in runs]
    with one_thread(), torch.inference_mode():
        for _ in range(repeats):
            for at, run in enumerate(runs):
                began = time.process_time()
                run()
                least[at] = min(least[at], time.process_time() - began)
    return least


# A shallow, wide model and a deep, narrow one


@dataclass(frozen=True)
class ShapePairKnobs:
    layers_a: int = option(8, "Layers of the shallow model.", minimum=1, maximum=200)
    width_a: int = option(1024, "Its width.", minimum=8, maximum=16_384)
    layers_b: int = option(32, "Layers of the deep model.", minimum=1, maximum=200)
    width_b: int = option(512, "Its width.", minimum=8, maximum=16_384)
    vocab: int = option(50_257, "Tokens of the vocabulary.", minimum=2, maximum=1_000_000)
    tokens: int = option(1024, "Tokens that are read.", minimum=1, maximum=1_000_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        return (self.layers_a, self.width_a), (self.layers_b, self.width_b)


def build_stack(layers: int, width: int, device: str = "meta") -> nn.ModuleList:
    """Blocks of our transformer with eight heads; on the processor their weights are small numbers."""
    import torch
    from torch import nn

    from pellucid.models.sequences.configs import TransformerConfig
    from pellucid.models.sequences.transformer import Block

    heads = 8 if width % 8 == 0 and width >= 64 else 1
    config = TransformerConfig(8, 8, width, 1, heads, positions="learned")
    with torch.device("meta"):
        stack = nn.ModuleList([Block(config) for _ in range(layers)])
    if device == "meta":
        return stack
    stack.to_empty(device=device)
    with torch.no_grad():
        for parameter in stack.parameters():
            parameter.uniform_(-0.02, 0.02, generator=torch.Generator().manual_seed(0))
    return stack


build_timed_stack = functools.lru_cache(maxsize=4)(functools.partial(build_stack, device="cpu"))


def run_stack(stack: nn.ModuleList, x: Tensor) -> Tensor:
    for layer in stack:
        x = layer(x, None, None)
    return x


def measure_squares_of_width(knobs: ShapePairKnobs) -> Numbers:
    """Layers times the square of the width, of a shallow and of a deep network."""
    a, b = (float(layers * width**2) for layers, width in knobs.shapes)
    return {"shallow": a, "deep": b}


def count_matrices(knobs: ShapePairKnobs) -> Numbers:
    """The parameters of the matrices that make queries, in all layers."""
    found = []
    for layers, width in knobs.shapes:
        matrices = [one[0] for name, one in build_stack(layers, width).named_parameters() if "project" in name]
        found.append(float(sum([one.numel() for one in matrices])))
    return {"shallow": found[0], "deep": found[1]}


def measure_parameters(knobs: ShapePairKnobs) -> Numbers:
    """12 L d² in the layers, and V d in the embedding, which the output shares, as in GPT."""
    a, b = (12.0 * layers * width**2 + knobs.vocab * width for layers, width in knobs.shapes)
    return {
        "shallow": a,
        "deep": b,
        "shallow over deep": a / b,
        "embedding of the shallow": knobs.vocab * knobs.width_a,
    }


def count_parameters(knobs: ShapePairKnobs) -> Numbers:
    found = []
    for layers, width in knobs.shapes:
        in_layers = sum([parameter.numel() for parameter in build_stack(layers, width).parameters()])
        found.append(float(in_layers + knobs.vocab * width))
    return {"shallow": found[0], "deep": found[1], "shallow over deep": found[0] / found[1]}


def measure_stack_flops(knobs: ShapePairKnobs) -> Numbers:
    """24 n d² and 4 n² d in each layer."""
    n = knobs.tokens
    a, b = (layers * (24.0 * n * width**2 + 4.0 * n * n * width) for layers, width in knobs.shapes)
    return {"shallow, GFLOPs": a / 1e9, "deep, GFLOPs": b / 1e9, "deep over shallow": b / a}


def count_stack_flops(knobs: ShapePairKnobs) -> Numbers:
    import torch

    counts = []
    for layers, width in knobs.shapes:
        x = torch.empty(1, knobs.tokens, width, device="meta")
        counts.append(count_flops(functools.partial(run_stack, build_stack(layers, width), x)))
    return {
        "shallow, GFLOPs": counts[0] / 1e9,
        "deep, GFLOPs": counts[1] / 1e9,
        "deep over shallow": counts[1] / counts[0],
    }


def time_stacks(knobs: ShapePairKnobs) -> Numbers:
    import torch

    runs = []
    for layers, width in knobs.shapes:
        stack, x = build_timed_stack(layers, width), torch.randn(1, knobs.tokens, width)
        runs.append(functools.partial(run_stack, stack, x))
    seconds = least_seconds(*runs)
    return {
        "shallow, ms": 1e3 * seconds[0],
        "deep, ms": 1e3 * seconds[1],
        "shallow over deep": seconds[0] / seconds[1],
    }


@dataclass(frozen=True)
class StepCountKnobs:
    width: int = option(512, "Width that is doubled.", minimum=8, maximum=2048)
    layers: int = option(4, "Layers, which stay as many.", minimum=1, maximum=64)
    tokens: int = option(16, "Tokens that are read.", minimum=1, maximum=4096)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def time_widths(knobs: StepCountKnobs) -> Numbers:
    """As many steps one after the other, with matrices of one width and of twice that."""
    import torch

    runs = []
    for width in (knobs.width, 2 * knobs.width):
        stack, x = build_timed_stack(knobs.layers, width), torch.randn(1, knobs.tokens, width)
        runs.append(functools.partial(run_stack, stack, x))
    seconds = least_seconds(*runs, repeats=10)
    return {"ms": 1e3 * seconds[0], "ms at twice the width": 1e3 * seconds[1], "times as long": seconds[1] / seconds[0]}


# What grows with what


@dataclass(frozen=True)
class GrowthKnobs:
    tokens: int = option(128, "Tokens that are read.", minimum=1, maximum=1_000_000)
    width: int = option(512, "Embedding (model) dimension.", minimum=8, maximum=16_384)

    def __post_init__(self) -> None:
        check_options(self)


def attention_flops(n: int, d: int) -> float:
    """Of a layer of self-attention: four projections, scores, and what they mix."""
    return 8.0 * n * d * d + 4.0 * n * n * d


def measure_growth(knobs: GrowthKnobs) -> Numbers:
    """How the FLOPs of attention and of an RNN grow with twice the tokens, and with twice the width."""
    n, d = knobs.tokens, knobs.width
    return {
        "attention, twice the tokens": attention_flops(2 * n, d) / attention_flops(n, d),
        "attention, twice the width": attention_flops(n, 2 * d) / attention_flops(n, d),
        "RNN, twice the tokens": (4.0 * 2 * n * d * d) / (4.0 * n * d * d),
        "RNN, twice the width": (4.0 * n * (2 * d) ** 2) / (4.0 * n * d * d),
    }


def count_growth(knobs: GrowthKnobs) -> Numbers:
    import torch

    from pellucid.layers.attention import MultiHeadAttention
    from pellucid.layers.masks import EVERYTHING

    def count(n: int, d: int) -> int:
        with torch.device("meta"):
            attention = MultiHeadAttention(d, 1, has_bias=False)
        x = torch.empty(1, n, d, device="meta")
        return count_flops(functools.partial(attention, x, x, mask=EVERYTHING))

    n, d = knobs.tokens, knobs.width
    return {
        "attention, twice the tokens": count(2 * n, d) / count(n, d),
        "attention, twice the width": count(n, 2 * d) / count(n, d),
    }


def measure_attention_share(knobs: GrowthKnobs) -> Numbers:
    """Of a layer: 4 n² d for scores and what they mix, 24 n d² for projections and feed-forward."""
    n, d = knobs.tokens, knobs.width
    return {"attention's part": 4.0 * n * n * d / (4.0 * n * n * d + 24.0 * n * d * d), "six widths": 6.0 * d}


def count_attention_share(knobs: GrowthKnobs) -> Numbers:
    import torch

    (block,) = build_stack(1, knobs.width)
    whole = count_flops(functools.partial(block, torch.empty(1, knobs.tokens, knobs.width, device="meta"), None, None))
    linear = sum([2 * knobs.tokens * parameter.numel() for parameter in block.parameters()])
    return {"attention's part": 1 - linear / whole}


@dataclass(frozen=True)
class ExpansionKnobs:
    width: int = option(512, "Embedding (model) dimension.", minimum=1, maximum=16_384)

    def __post_init__(self) -> None:
        check_options(self)


def measure_expansion(knobs: ExpansionKnobs) -> Numbers:
    """What a number goes through in our feed-forward."""
    import torch

    from pellucid.layers.feed_forward import FeedForward

    with torch.device("meta"):
        layer = FeedForward(knobs.width)
    widths = [parameter.shape for module in layer.modules() for parameter in module.parameters(recurse=False)]
    return {"in": float(widths[0][1]), "inside": float(widths[0][0]), "out": float(widths[1][0])}


def measure_expansion_of_torch(knobs: ExpansionKnobs) -> Numbers:
    """torch's encoder layer as Vaswani and others had it."""
    import torch
    from torch import nn

    with torch.device("meta"):
        layer = nn.TransformerEncoderLayer(512, 8)
    return {"inside": float(layer.linear1.out_features)} if knobs.width == 512 else {}


FAMILY = ClaimFamily(
    name="sizes-and-latency",
    title="Sizes and latency",
    picture="token-costs",
    claims=(
        Claim(
            id="gpt-ld2-equal",
            says="8 layers of width 1024 and 32 layers of width 512 have the same L·d², 8,388,608",
            where="log Q13",
            kind="arithmetic",
            measure=measure_squares_of_width,
            decides="shallow",
            margin=lambda seen: 0.5 - max(abs(seen["shallow"] - 8_388_608), abs(seen["deep"] - 8_388_608)),
            rule="both products are 8,388,608",
            knobs=ShapePairKnobs,
            control={"layers_b": 24},
            second=count_matrices,
        ),
        Claim(
            id="gpt-total-parameters-equal",
            says="so both models have about the same number of parameters in all",
            where="log Q13",
            kind="cost",
            measure=measure_parameters,
            decides="shallow over deep",
            margin=lambda seen: 0.05 - abs(math.log(seen["shallow over deep"])),
            rule="with embeddings of GPT's 50,257 tokens they differ by less than 5 %",
            knobs=ShapePairKnobs,
            control={"vocab": 256},
            search=Search("vocab", 27, 200_000, is_log=True),
            second=count_parameters,
            other_reading="of the layers alone it is true",
        ),
        Claim(
            id="gpt-similar-flops",
            says="both models compute about as much",
            where="log Q13",
            kind="cost",
            measure=measure_stack_flops,
            decides="deep over shallow",
            margin=lambda seen: 0.1 - abs(math.log(seen["deep over shallow"])),
            rule="the FLOPs of their layers on 1,024 tokens differ by less than 10 %",
            knobs=ShapePairKnobs,
            control={"tokens": 64},
            search=Search("tokens", 16, 65_536, is_log=True),
            second=count_stack_flops,
        ),
        Claim(
            id="gpt-shallow-wide-faster",
            says="the shallow, wide model is faster",
            where="log Q13",
            kind="cost",
            measure=lambda knobs: time_stacks(knobs if knobs.tokens != 1024 else replace(knobs, tokens=16)),
            decides="shallow over deep",
            margin=lambda seen: 0.9 - seen["shallow over deep"],
            rule="on one thread of this processor a pass of 16 tokens takes it less than nine tenths of the time",
            knobs=ShapePairKnobs,
            control={"tokens": 1},
            search=Search("tokens", 1, 64, n_values=4, is_log=True),
            seeds=5,
            other_reading="on hardware with more parallel units than the layers need it may turn",
        ),
        Claim(
            id="gpt-bottleneck-is-step-count",
            says="how long a pass takes depends on the number of layers, not on the size of their matrices",
            where="log Q13",
            kind="cost",
            measure=time_widths,
            decides="times as long",
            margin=lambda seen: 1.5 - seen["times as long"],
            rule="with as many layers of twice the width a pass takes less than one and a half times as long",
            knobs=StepCountKnobs,
            control={"width": 16},
            search=Search("width", 16, 512, n_values=6, is_log=True),
            seeds=5,
        ),
        Claim(
            id="complexity-n2d-vs-nd2",
            says="a layer of self-attention costs O(n²d), and a recurrent one O(nd²)",
            where="homework 1.4a.5",
            kind="cost",
            measure=measure_growth,
            decides="attention, twice the tokens",
            margin=lambda seen: min(
                seen["attention, twice the tokens"] - 3,
                seen["RNN, twice the width"] - 3,
                3 - seen["RNN, twice the tokens"],
            ),
            rule="twice the tokens make attention cost more than three times as much, nearer to four than to two, and "
            "a recurrent layer less; twice the width makes that one cost more than three times as much",
            knobs=GrowthKnobs,
            control={"tokens": 8192},
            search=Search("tokens", 16, 65_536, is_log=True),
            second=count_growth,
            other_reading="of scores and what they mix it is true at any length; projections cost 8nd² more",
        ),
        Claim(
            id="attention-dominates-compute",
            says="what a transformer costs is mostly the attention between all pairs of tokens",
            where="log Q12",
            kind="cost",
            measure=measure_attention_share,
            decides="attention's part",
            margin=lambda seen: seen["attention's part"] - 0.5,
            rule="more than half of a layer's FLOPs are scores and what they mix",
            knobs=GrowthKnobs,
            control={"tokens": 20_000},
            search=Search("tokens", 16, 100_000, is_log=True),
            second=count_attention_share,
        ),
        Claim(
            id="ffn-expands-by-4",
            says="the feed-forward goes from 512 to 2048 and back to 512",
            where="notes §17.2; homework 1.4d",
            kind="arithmetic",
            measure=measure_expansion,
            decides="inside",
            margin=lambda seen: 0.5 - max(abs(seen["in"] - 512), abs(seen["inside"] - 2048), abs(seen["out"] - 512)),
            rule="our feed-forward of width 512 has 2048 inside",
            knobs=ExpansionKnobs,
            control={"width": 256},
            second=measure_expansion_of_torch,
        ),
    ),
)
