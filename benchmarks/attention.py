"""Attention and blocks beside torch's and Hugging Face's at equal sizes, what weights cost, and what length costs.

    python benchmarks/attention.py [--turns 15] [--json]

Training: one pass forward and one back, causal, no dropout, single precision, at three sizes:

    heads      our MultiHeadAttention beside nn.MultiheadAttention, which is told to make no weights
    block      our PreNormBlock with GELU beside nn.TransformerEncoderLayer in pre-norm order
    gpt2       our PreNormBlock with tanh-GELU beside Hugging Face's GPT2Block, which is given torch's own tanh-GELU
               and torch's fused attention (left out where it is not installed)

Before anything is timed, both must give the same numbers with the same weights. Memory is by how much a process of its
own grows during one pass.

Weights: `attend` as it is, `attend` asked for its weights, and as it is once more, forward alone.

Length: `attend` forward and back, fused beside written out, and by how much the most memory that the process ever held
grows while it does so; each point in a process of its own.

The clock is the CPU time of one thread; the arms take turns; shown are medians, and of each ratio the median of the
turns' own ratios with its quartiles.
"""

import argparse
import gc
import importlib.util
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import Tensor, nn

from memory import grown_alone, grown_by
from pellucid.layers.attention import MultiHeadAttention, attend, attention_weights
from pellucid.layers.blocks import PreNormBlock
from pellucid.layers.feed_forward import ActivatedFeedForward
from pellucid.layers.masks import CAUSAL

Arm = Callable[[], object]
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
N_HEADS, HEAD_WIDTH = 4, 32  # of the curve
ENOUGH = 0.05  # seconds that one timing takes at least; shorter arms are repeated


class Size(NamedTuple):
    batch: int
    time: int
    width: int
    n_heads: int

    def __str__(self) -> str:
        return f"batch {self.batch}, time {self.time}, width {self.width}, {self.n_heads} heads"


SIZES = (Size(32, 64, 64, 4), Size(16, 128, 128, 4), Size(8, 256, 256, 8))


class Row(NamedTuple):
    """CPU seconds of one call in every turn, for each arm; the first arm is ours."""

    name: str
    seconds: dict[str, list[float]]
    grown: tuple[int, ...] = ()  # bytes of each arm

    def ratios(self, arm: str) -> list[float]:
        ours = next(iter(self.seconds.values()))
        return [other / own for other, own in zip(self.seconds[arm], ours, strict=True)]


class Point(NamedTuple):
    """What one length costs: seconds and bytes, fused and written out."""

    length: int
    seconds: tuple[float, float]
    grown: tuple[int, int]


def seconds(arm: Arm, calls: int) -> float:
    """CPU seconds of one of so many calls, with the collector quiet."""
    gc.collect()
    gc.disable()
    began = time.process_time()
    for _ in range(calls):
        arm()
    spent = time.process_time() - began
    gc.enable()
    return spent / calls


def taken_in_turns(arms: dict[str, Arm], turns: int) -> dict[str, list[float]]:
    for arm in arms.values():
        arm()
    calls = max(1, round(ENOUGH / seconds(next(iter(arms.values())), 1)))
    found: dict[str, list[float]] = {name: [] for name in arms}
    for turn in range(turns):
        # Whoever comes second finds the caches as the first left them, so the order alternates.
        for name in list(arms)[:: 1 if turn % 2 else -1]:
            found[name].append(seconds(arms[name], calls))
    return found


def trained(module: nn.Module, forward: Callable[[], Tensor], up: Tensor) -> Arm:
    """One pass forward and one back, as in a training step."""

    def arm() -> None:
        module.zero_grad()
        torch.autograd.backward(forward(), up)

    return arm


Pairs = Iterator[tuple[Tensor, Tensor]]


def linear_pairs(ours: Any, theirs: Any) -> Pairs:
    is_turned = ours.weight.shape != theirs.weight.shape or type(theirs).__name__ == "Conv1D"
    yield ours.weight, theirs.weight.t() if is_turned else theirs.weight
    yield ours.bias, theirs.bias


def heads_pairs(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> Pairs:
    assert ours.shift is not None
    yield ours.project, theirs.in_proj_weight.view_as(ours.project)
    yield ours.shift, theirs.in_proj_bias
    yield from linear_pairs(ours.combine, theirs.out_proj)


def block_pairs(ours: Any, theirs: nn.TransformerEncoderLayer) -> Pairs:
    yield from heads_pairs(ours.attention, theirs.self_attn)
    yield from linear_pairs(ours.feed_forward.expand, theirs.linear1)
    yield from linear_pairs(ours.feed_forward.contract, theirs.linear2)
    yield from linear_pairs(ours.attention_norm, theirs.norm1)
    yield from linear_pairs(ours.feed_forward_norm, theirs.norm2)


def gpt2_pairs(ours: Any, theirs: Any) -> Pairs:
    yield ours.attention.project, theirs.attn.c_attn.weight.t().reshape(ours.attention.project.shape)
    yield ours.attention.shift, theirs.attn.c_attn.bias
    yield from linear_pairs(ours.attention.combine, theirs.attn.c_proj)
    yield from linear_pairs(ours.feed_forward.expand, theirs.mlp.c_fc)
    yield from linear_pairs(ours.feed_forward.contract, theirs.mlp.c_proj)
    yield from linear_pairs(ours.attention_norm, theirs.ln_1)
    yield from linear_pairs(ours.feed_forward_norm, theirs.ln_2)


def contest(
    name: str, ours: nn.Module, theirs: nn.Module, pairs: Pairs, forwards: list[Any], up: Tensor
) -> dict[str, Arm]:
    """The two arms, after both were seen to give the same numbers with the same weights."""
    with torch.no_grad():
        for own, other in pairs:
            own.copy_(other)
        apart = (forwards[0]() - forwards[1]()).abs().max().item()
    if not apart < 1e-4:
        sys.exit(f"{name}: ours and theirs are {apart:g} apart with the same weights; nothing was timed")
    return {"ours": trained(ours, forwards[0], up), "theirs": trained(theirs, forwards[1], up)}


def heads(size: Size, stream: Tensor, up: Tensor) -> dict[str, Arm]:
    ours = MultiHeadAttention(size.width, size.n_heads)
    theirs = nn.MultiheadAttention(size.width, size.n_heads, batch_first=True)
    mask = nn.Transformer.generate_square_subsequent_mask(size.time)

    def mine() -> Tensor:
        out: Tensor = ours(stream, stream, mask=CAUSAL)
        return out

    def yours() -> Tensor:
        out: Tensor = theirs(stream, stream, stream, attn_mask=mask, is_causal=True, need_weights=False)[0]
        return out

    return contest("heads", ours, theirs, heads_pairs(ours, theirs), [mine, yours], up)


def block(size: Size, stream: Tensor, up: Tensor) -> dict[str, Arm]:
    ours = PreNormBlock(size.width, size.n_heads, feed_forward=ActivatedFeedForward(size.width, nn.GELU()))
    theirs = nn.TransformerEncoderLayer(
        size.width, size.n_heads, 4 * size.width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    mask = nn.Transformer.generate_square_subsequent_mask(size.time)

    def mine() -> Tensor:
        out: Tensor = ours(stream, mask=CAUSAL)
        return out

    def yours() -> Tensor:
        out: Tensor = theirs(stream, src_mask=mask, is_causal=True)
        return out

    return contest("block", ours, theirs, block_pairs(ours, theirs), [mine, yours], up)


def gpt2(size: Size, stream: Tensor, up: Tensor) -> dict[str, Arm]:
    from transformers import GPT2Config
    from transformers.models.gpt2.modeling_gpt2 import GPT2Block

    configured: Any = GPT2Config  # without types of its own, as the block
    config = configured(
        n_embd=size.width,
        n_head=size.n_heads,
        n_positions=size.time,
        activation_function="gelu_pytorch_tanh",
        attn_pdrop=0.0,
        resid_pdrop=0.0,
        attn_implementation="sdpa",
    )
    built: Any = GPT2Block
    theirs = built(config, layer_idx=0)
    feed_forward = ActivatedFeedForward(size.width, nn.GELU(approximate="tanh"))
    ours = PreNormBlock(size.width, size.n_heads, feed_forward=feed_forward)

    def mine() -> Tensor:
        out: Tensor = ours(stream, mask=CAUSAL)
        return out

    def yours() -> Tensor:
        out: Tensor = theirs(stream)
        return out

    return contest("gpt2", ours, theirs, gpt2_pairs(ours, theirs), [mine, yours], up)


KINDS = {"heads": heads, "block": block, "gpt2": gpt2}


def arms_of(kind: str, size: Size) -> dict[str, Arm]:
    torch.manual_seed(0)
    stream = torch.randn(size.batch, size.time, size.width, requires_grad=True)
    return KINDS[kind](size, stream, torch.randn(size.batch, size.time, size.width))


def prepare_arm(kind: str, size: Size, arm: str) -> Arm:
    """For a process that does nothing else."""
    torch.set_num_threads(1)
    return arms_of(kind, size)[arm]


def training(turns: int) -> list[Row]:
    kinds = list(KINDS)
    if importlib.util.find_spec("transformers") is None:
        print("Hugging Face's transformers are not installed: the arm gpt2 is left out", file=sys.stderr)
        kinds.remove("gpt2")
    rows = []
    for size, kind in itertools.product(SIZES, kinds):
        spent = taken_in_turns(arms_of(kind, size), turns)
        rows.append(Row(f"{kind}: {size}", spent, tuple(grown_alone(prepare_arm, kind, size, arm) for arm in spent)))
    return rows


def three(batch: int, n_heads: int, length: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values, for one head after the other."""
    torch.manual_seed(0)
    queries, keys, values = (torch.randn(batch, n_heads, length, width, requires_grad=True) for _ in range(3))
    return queries, keys, values


@torch.no_grad()
def asking(turns: int) -> list[Row]:
    rows = []
    for size in SIZES:
        inputs = three(size.batch, size.n_heads, size.time, size.width // size.n_heads)
        arms: dict[str, Arm] = {
            "not asked": lambda inputs=inputs: attend(*inputs),  # type: ignore[misc]
            "asked": lambda inputs=inputs: attention_weights(*inputs[:2]) @ inputs[2],  # type: ignore[misc]
            "afterwards": lambda inputs=inputs: attend(*inputs),  # type: ignore[misc]
        }
        rows.append(Row(str(size), taken_in_turns(arms, turns)))
    return rows


def one_point(way: str, length: int, turns: int) -> dict[str, float]:
    """In a process of its own: the median of its seconds, and by how many bytes the most it ever held has grown."""
    inputs = three(1, N_HEADS, length, HEAD_WIDTH)
    small = three(1, N_HEADS, 8, HEAD_WIDTH)
    up = torch.randn(1, N_HEADS, length, HEAD_WIDTH)

    def passed(given: tuple[Tensor, Tensor, Tensor], above: Tensor) -> None:
        mixed = attend(*given) if way == "fused" else attention_weights(*given[:2]) @ given[2]
        torch.autograd.backward(mixed, above)

    passed(small, up[:, :, :8])  # what is loaded only once
    grown = grown_by(lambda: passed(inputs, up))
    calls = max(1, round(ENOUGH / seconds(lambda: passed(inputs, up), 1)))
    spent = [seconds(lambda: passed(inputs, up), calls) for _ in range(turns)]
    return {"seconds": statistics.median(spent), "bytes": grown}


def lengths(turns: int) -> list[Point]:
    def asked(way: str, length: int, turns: int, **settings: str) -> dict[str, float]:
        words = [sys.executable, __file__, "--point", way, str(length), "--turns", str(turns)]
        run = subprocess.run(words, capture_output=True, encoding="utf-8", check=True, env={**os.environ, **settings})
        found: dict[str, float] = json.loads(run.stdout)
        return found

    points = []
    for length in LENGTHS:
        fused, written = (asked(way, length, turns)["seconds"] for way in ("fused", "written"))
        # glibc keeps freed pieces below its threshold, more or fewer; below this one all are given back at once.
        few, many = (asked(way, length, 1, MALLOC_MMAP_THRESHOLD_="65536")["bytes"] for way in ("fused", "written"))
        points.append(Point(length, (fused, written), (round(few), round(many))))
    return points


def shown(row: Row) -> str:
    lines = [row.name]
    for number, (arm, spent) in enumerate(row.seconds.items()):
        line = f"  {arm:10} {statistics.median(spent) * 1e3:8.3f} ms"
        if number:
            low, middle, high = statistics.quantiles(row.ratios(arm), n=4)
            line += f"   {middle:.2f}× the first ({low:.2f}–{high:.2f})"
        if row.grown:
            line += f"   {row.grown[number] / 2**20:.1f} MB"
        lines.append(line)
    return "\n".join(lines)


def shown_lengths(points: list[Point]) -> str:
    lines = ["length     fused    written   ratio      fused    written"]
    for point in points:
        (fused, written), (few, many) = point.seconds, point.grown
        lines.append(
            f"{point.length:6} {fused * 1e3:8.2f} ms {written * 1e3:8.2f} ms  {written / fused:4.1f}×"
            f"  {few / 2**20:7.1f} MB {many / 2**20:7.1f} MB"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Attention and blocks beside torch's and Hugging Face's.")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--point", nargs=2, metavar=("WAY", "LENGTH"), help=argparse.SUPPRESS)
    wishes = parser.parse_args()
    torch.set_num_threads(1)
    if wishes.point:
        print(json.dumps(one_point(wishes.point[0], int(wishes.point[1]), wishes.turns)))
        return
    found = {"training": training(wishes.turns), "weights": asking(wishes.turns)}
    points = lengths(max(2, wishes.turns // 5))
    if wishes.json:
        rows = {name: [row._asdict() for row in rows] for name, rows in found.items()}
        print(json.dumps({**rows, "lengths": [point._asdict() for point in points]}))
        return
    print(f"CPU time of one thread, medians of {wishes.turns} turns, torch {torch.__version__}")
    print("\nTraining, forward and back\n" + "\n".join(map(shown, found["training"])))
    print("\nAsking for weights, forward\n" + "\n".join(map(shown, found["weights"])))
    print(f"\nLength, forward and back, {N_HEADS} heads of {HEAD_WIDTH}\n" + shown_lengths(points))


if __name__ == "__main__":
    main()
