"""Generating tokens with a cache beside the usual ways, at one size, in one run.

    python benchmarks/generation.py [--turns 5] [--json]

A transformer of 4 blocks of width 128 with a context of 256, its weights drawn at random, writes 255 tokens after one,
alone and in a batch of 64:

    ours       as `pellucid sample` draws: in single precision, and in double where that could change a token
    single     single precision alone, as the peers
    double     double precision alone: twice the memory to read for each token
    torch      single precision without the compiled decoder, as where there was no C compiler at install
    uncached   nanoGPT's way: the whole context through the network for every token, with torch's own attention, then
               torch.multinomial
    peer       Hugging Face `generate` with its cache on a GPT-2 of the same size (left out where it is not installed)

Then 1,000 names, 200,000 parameters, context 16, and whether the data have each: ours (in the same four ways) stops
every row at its boundary and looks into a set; makemore's way runs the whole batch to the longest length without a
cache and looks into a list.

Every arm has its network ready before the clock runs, as a program has that draws more than once. Before anything is
timed, ours, double and uncached must choose the same tokens. The clock is the CPU time of one thread; the arms take
turns; shown are medians, and of each ratio the median of the turns' own ratios with the lowest and highest. In the
batch of 64 the uncached arm runs every 16th position, and its time is scaled to all of them: what a position costs
grows evenly with its number.
"""

import argparse
import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import Tensor

from pellucid.data import ListData, open_data
from pellucid.data.prepare.tokens import split_sequences
from pellucid.decoding.sampling import Reading, draw_tokens
from pellucid.layers import row_attention
from pellucid.models.contracts import SequenceModel
from pellucid.models.sequences.configs import TransformerConfig
from pellucid.models.sequences.transformer import Transformer
from pellucid.models.stepwise import ForwardReading, NeuralReading
from pellucid.training.inference.single_precision import SingleReading

VOCAB, CONTEXT, WIDTH, DEPTH, HEADS = 65, 256, 128, 4, 4
N_TOKENS = CONTEXT - 1
BATCHES = (1, 64)
EVERY = {1: 1, 64: 16}  # positions of the uncached arm that are run
N_NAMES = 1000

Arm = Callable[[], object]
Way = Callable[[SequenceModel], Reading]
OURS = ("ours", "single", "double", "torch")


class Row(NamedTuple):
    """CPU seconds of every turn, for each arm."""

    name: str
    n_tokens: int
    seconds: dict[str, list[float]]

    def ratios(self, arm: str, of: str = "ours") -> list[float]:
        return [other / own for other, own in zip(self.seconds[arm], self.seconds[of], strict=True)]


def lively(model: SequenceModel) -> SequenceModel:
    """Random weights: what is timed does not depend on what was learned, but all-zero heads would end no name."""
    chance = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=chance) * 0.05)
    return model.for_inference().requires_grad_(False)


def seconds(arm: Arm) -> float:
    """CPU seconds of one call, with the collector quiet."""
    gc.collect()
    gc.disable()
    began = time.process_time()
    arm()
    spent = time.process_time() - began
    gc.enable()
    return spent


def taken_in_turns(arms: dict[str, Arm], turns: int, scale: dict[str, float]) -> dict[str, list[float]]:
    for arm in arms.values():
        arm()
    found: dict[str, list[float]] = {name: [] for name in arms}
    for _ in range(turns):
        for name, arm in arms.items():
            found[name].append(seconds(arm) * scale.get(name, 1.0))
    return found


def cached(reading: Reading, batch: int) -> None:
    draw_tokens(reading, n_samples=batch, longest=N_TOKENS, start=[0])


def in_torch(arm: Arm) -> Arm:
    """The same without the compiled decoder."""

    def run() -> None:
        os.environ["PELLUCID_COMPILED_DECODING"] = "0"
        try:
            arm()
        finally:
            del os.environ["PELLUCID_COMPILED_DECODING"]

    return run


@contextmanager
def torchs_attention() -> Iterator[None]:
    """Inside, attention is torch's own kernel, as theirs is, and not ours for short rows."""
    limits = dict.fromkeys(("LONGEST_COMPILED", "LONGEST_IN_TORCH"), 0)
    before = {name: getattr(row_attention, name) for name in limits}
    vars(row_attention).update(limits)
    try:
        yield
    finally:
        vars(row_attention).update(before)


@torchs_attention()
@torch.inference_mode()
def uncached(model: SequenceModel, batch: int, n_tokens: int, every: int = 1) -> Tensor:
    """nanoGPT's `generate`: everything again for each token. With `every`, only that part of the positions is run."""
    chance = torch.Generator().manual_seed(0)
    tokens = torch.zeros(batch, 1, dtype=torch.long)
    for step in range(n_tokens):
        if step % every:
            tokens = torch.cat([tokens, tokens[:, -1:]], dim=1)
            continue
        scores = model(tokens[:, -model.longest :])[:, -1]
        chosen = torch.multinomial(scores.softmax(-1), 1, generator=chance)
        tokens = torch.cat([tokens, chosen], dim=1)
    return tokens


def peer_of(batch: int) -> Arm | None:
    """Hugging Face's `generate` on a GPT-2 of the same size, or None."""
    try:
        from transformers import GPT2Config, GPT2LMHeadModel
    except ImportError:
        return None
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=VOCAB, n_positions=CONTEXT, n_embd=WIDTH, n_layer=DEPTH, n_head=HEADS, bos_token_id=0, eos_token_id=0
    )
    built: Any = GPT2LMHeadModel  # without types of its own
    model = built(config).eval()
    start = torch.zeros(batch, 1, dtype=torch.long)

    @torch.inference_mode()
    def generate() -> None:
        made = model.generate(
            start,
            attention_mask=torch.ones_like(start),
            do_sample=True,
            top_k=0,
            use_cache=True,
            min_new_tokens=N_TOKENS,
            max_new_tokens=N_TOKENS,
            pad_token_id=0,
        )
        assert made.shape == (batch, CONTEXT)

    return generate


def generation(turns: int) -> list[Row]:
    model = lively(Transformer(TransformerConfig(VOCAB, CONTEXT, WIDTH, DEPTH, HEADS)))
    double = lively(Transformer(TransformerConfig(VOCAB, CONTEXT, WIDTH, DEPTH, HEADS))).double()
    require_same(double)
    rows = []
    for batch in BATCHES:
        arms: dict[str, Arm] = {
            "ours": partial(cached, SingleReading(double), batch),
            "single": partial(cached, NeuralReading(model), batch),
            "double": partial(cached, NeuralReading(double), batch),
            "torch": in_torch(partial(cached, NeuralReading(model), batch)),
            "uncached": partial(uncached, model, batch, N_TOKENS, EVERY[batch]),
        }
        peer = peer_of(batch)
        if peer:
            arms["peer"] = peer
        scale = {"uncached": N_TOKENS / len(range(0, N_TOKENS, EVERY[batch]))}
        rows.append(Row(f"batch {batch}", batch * N_TOKENS, taken_in_turns(arms, turns, scale)))
    return rows


def require_same(model: SequenceModel) -> None:
    """All ways choose the same tokens, past the edge of the context too."""
    ways: tuple[Way, ...] = (SingleReading, NeuralReading, ForwardReading)
    first, *others = (
        [sample.tokens for sample in draw_tokens(way(model), n_samples=3, longest=CONTEXT + 20, start=[0])]
        for way in ways
    )
    if any(other != first for other in others):
        sys.exit("single precision, double and uncached reading chose different tokens; nothing was timed")


def names(turns: int) -> Row:
    data = open_data("names")
    assert isinstance(data, ListData)
    items = split_sequences(data).train_items
    model = lively(Transformer(TransformerConfig.of_size("medium", 27, 16)))
    double = lively(Transformer(TransformerConfig.of_size("medium", 27, 16))).double()
    known = set(items)

    def ours(reading: Reading) -> int:
        drawn = draw_tokens(reading, n_samples=N_NAMES, longest=15, start=[0], stop=0)
        return sum(_text(sample.tokens) in known for sample in drawn)

    def usual() -> int:
        tokens = uncached(model, N_NAMES, 15)[:, 1:].tolist()
        return sum(_text(row[: row.index(0)] if 0 in row else row) in items for row in tokens)

    arms: dict[str, Arm] = {
        "ours": partial(ours, SingleReading(double)),
        "single": partial(ours, NeuralReading(model)),
        "double": partial(ours, NeuralReading(double)),
        "torch": in_torch(partial(ours, NeuralReading(model))),
        "uncached": usual,
    }
    return Row(f"{N_NAMES:,} names", N_NAMES, taken_in_turns(arms, turns, {}))


def _text(tokens: Any) -> str:
    return "".join(chr(96 + token) for token in tokens)


def shown(rows: list[Row]) -> str:
    lines = []
    for row in rows:
        unit = "names" if "names" in row.name else "tokens"
        lines.append(f"{row.name}")
        for arm, spent in row.seconds.items():
            middle = statistics.median(spent)
            line = f"  {arm:9} {middle:8.3f} s  {row.n_tokens / middle:9,.0f} {unit}/s"
            if arm not in OURS:
                ratios = row.ratios(arm)
                line += f"   ours is {statistics.median(ratios):.1f}× ({min(ratios):.1f}–{max(ratios):.1f})"
                line += f", single {statistics.median(row.ratios(arm, 'single')):.1f}×"
                line += f", double {statistics.median(row.ratios(arm, 'double')):.1f}×"
            lines.append(line)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Generation with a cache beside the usual ways.")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    wishes = parser.parse_args()
    torch.set_num_threads(1)
    rows = [*generation(wishes.turns), names(wishes.turns)]
    if wishes.json:
        print(json.dumps([row._asdict() for row in rows]))
    else:
        print(f"CPU seconds of one thread, medians of {wishes.turns} turns, torch {torch.__version__}")
        print(shown(rows))


if __name__ == "__main__":
    main()
