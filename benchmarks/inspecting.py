"""What a look costs, two transformers side by side, and how other counters answer the same questions.

    python benchmarks/inspecting.py [--counters] [--wide-and-deep] [--cost]

Without a choice all three. Counters: parameters and FLOPs of modules of every kind beside torch's own counter, and
beside torchinfo and fvcore where they are installed; those count multiplications with their additions, shown doubled.
Cost: CPU time of one traced forward, and of a whole look, over that of a plain forward.
"""

import argparse
import importlib
import importlib.util
import logging
import os
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from pellucid.figures.words.inspection import versus_cells, versus_sentences
from pellucid.inspection.table.module_table import tabulate_module
from pellucid.inspection.table.trace import trace_forward
from pellucid.models.sequences.configs import TransformerConfig
from pellucid.models.sequences.transformer import Transformer
from pellucid.records import Versus

BATCH = 3
Case = tuple[nn.Module, tuple[Tensor, ...]]


class Tied(nn.Module):
    """An embedding and a head of one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.head = nn.Linear(16, 50, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        scores: Tensor = self.head(self.embedding(tokens))
        return scores


class OwnWeight(nn.Module):
    """A parameter of the whole, beside a part."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8))
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(x @ self.weight)
        return y


class Fused(nn.Module):
    def forward(self, heads: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(heads, heads, heads)


def encoder(depth: int, width: int, n_heads: int = 8) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(width, n_heads, 4 * width, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)


def cases() -> dict[str, Case]:
    stream = torch.randn(BATCH, 5, 16)
    trained, used = (nn.TransformerEncoderLayer(16, 2, 64, dropout=0.0, batch_first=True) for _ in range(2))
    return {
        "Linear(8, 4)": (nn.Linear(8, 4), (torch.randn(BATCH, 8),)),
        "the same over time": (nn.Linear(8, 4), (torch.randn(BATCH, 5, 8),)),
        "Conv2d(3, 8, 3)": (nn.Conv2d(3, 8, 3), (torch.randn(BATCH, 3, 8, 8),)),
        "BatchNorm1d(8)": (nn.BatchNorm1d(8).eval(), (torch.randn(BATCH, 8),)),
        "tied embedding": (Tied(), (torch.zeros(BATCH, 5, dtype=torch.long),)),
        "a weight of the whole": (OwnWeight(), (torch.randn(BATCH, 8),)),
        "GRU(8, 16)": (nn.GRU(8, 16, batch_first=True), (torch.randn(BATCH, 5, 8),)),
        "LSTM(8, 16)": (nn.LSTM(8, 16, batch_first=True), (torch.randn(BATCH, 5, 8),)),
        "fused attention": (Fused(), (torch.randn(BATCH, 2, 6, 8),)),
        "encoder layer, trained": (trained, (stream,)),
        "encoder layer, used": (used.eval(), (stream,)),
    }


def by_others(module: nn.Module, inputs: tuple[Tensor, ...]) -> list[str]:
    """Parameters by torchinfo, then FLOPs by torch, torchinfo and fvcore; "" for what is not installed."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module(*inputs)
    parameters = torchinfo = fvcore = ""
    if importlib.util.find_spec("torchinfo"):
        found: Any = importlib.import_module("torchinfo").summary(module, input_data=list(inputs), verbose=0)
        parameters, torchinfo = f"{found.total_params:,}", f"{2 * found.total_mult_adds:,}"
    if importlib.util.find_spec("fvcore"):
        analysis: Any = importlib.import_module("fvcore.nn").FlopCountAnalysis(module, inputs)
        fvcore = f"{2 * int(analysis.total()):,}"
    return [parameters, f"{counter.get_total_flops():,}", torchinfo, fvcore]


def show_counters() -> None:
    print(f"{'':24}{'parameters':>12}{'torchinfo':>12}{'FLOPs':>12}{'torch':>12}{'torchinfo':>12}{'fvcore':>12}")
    for name, (module, inputs) in cases().items():
        seen = tabulate_module(module, inputs)
        parameters, *flops = by_others(module, inputs)
        ours = [f"{seen.parameters:,}", parameters, f"{seen.flops_by_operation:,}"]
        print(f"{name:24}" + "".join(f"{one:>12}" for one in (*ours, *flops)))


def show_wide_and_deep() -> None:
    """8 layers of 1024 and 32 of 512, one row of 16 tokens, causal."""
    mask = nn.Transformer.generate_square_subsequent_mask(16)
    seen = [
        tabulate_module(encoder(depth, width).eval(), (torch.randn(1, 16, width), mask), f"{depth}×{width}")
        for depth, width in ((8, 1024), (32, 512))
    ]
    compared = Versus.of(*seen)
    print(f"{'':24}{seen[0].name:>18}{seen[1].name:>18}")
    for what, left, right, ratio in map(versus_cells, compared.rows):
        print(f"{what:24}{left:>18}{right:>18}  {ratio}")
    for sentence in versus_sentences(compared):
        print(sentence)


def show_cost() -> None:
    sizes: dict[str, Case] = {
        "3 layers of 16": (nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)), (torch.randn(4, 8),)),
        "transformer, tiny": (
            Transformer(TransformerConfig.of_size("tiny", 27, 16)),
            (torch.randint(0, 27, (32, 16)),),
        ),
        "transformer, 0.8 M": (
            Transformer(TransformerConfig.of_size("large", 27, 64)),
            (torch.randint(0, 27, (32, 64)),),
        ),
        "12 layers of 768": (encoder(12, 768), (torch.randn(1, 128, 768),)),
    }
    print(f"{'milliseconds of CPU':24}{'forward':>12}{'traced':>12}{'':>8}{'a look':>12}")
    for name, (model, inputs) in sizes.items():
        forward = cpu_seconds(lambda model=model, inputs=inputs: plain(model, inputs))  # type: ignore[misc]
        one = cpu_seconds(lambda model=model, inputs=inputs: trace_forward(model, inputs))  # type: ignore[misc]
        whole = cpu_seconds(lambda model=model, inputs=inputs: tabulate_module(model, inputs), turns=1)  # type: ignore[misc]
        print(f"{name:24}{forward * 1e3:12.2f}{one * 1e3:12.2f}{one / forward:7.1f}×{whole * 1e3:12.0f}")


@torch.no_grad()
def plain(model: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    model(*inputs)


def cpu_seconds(run: Callable[[], object], turns: int = 7) -> float:
    """The median of several runs, after one that is not counted where there are several."""
    taken = []
    for turn in range(turns + (turns > 1)):
        start = time.process_time()
        run()
        if turn or turns == 1:
            taken.append(time.process_time() - start)
    return statistics.median(taken)


def main() -> None:
    parser = argparse.ArgumentParser()
    parts = {"counters": show_counters, "wide-and-deep": show_wide_and_deep, "cost": show_cost}
    for name in parts:
        parser.add_argument(f"--{name}", action="store_true")
    asked = vars(parser.parse_args())
    torch.manual_seed(0)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of the other counters
    logging.disable(logging.WARNING)
    wanted = [name for name in parts if asked[name.replace("-", "_")]] or list(parts)
    for name in wanted:
        parts[name]()
        print()


if __name__ == "__main__":
    main()
