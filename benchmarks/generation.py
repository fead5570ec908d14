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

Every arm has its network ready before the clock runs, as a program has that draws more than once. Memory is by how much
a process of its own grows while an arm makes a network and draws, after it has done so with another. Before anything is
timed, ours, double and uncached must choose the same tokens. The clock is the CPU time of one thread; the arms take
turns; shown are medians, and of each ratio the median of the turns' own ratios with the lowest and highest. In the
batch of 64 the uncached arm runs every 16th position, and its time is scaled to all of them: what a position costs
grows evenly with its number.
"""

import argparse
import gc
import importlib.util
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

from memory import Action, grown_alone
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
Make = Callable[[], Arm]  # with a network of its own
Way = Callable[[SequenceModel], Reading]
OURS = ("ours", "single", "double", "torch")
COMPARED = ("ours", "uncached", "peer")


class Row(NamedTuple):
    """CPU seconds of every turn for each arm, and bytes of those that are compared."""

    name: str
    n_tokens: int
    seconds: dict[str, list[float]]
    grown: dict[str, int]

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


def peer_of(batch: int) -> Arm:
    """Hugging Face's `generate` on a GPT-2 of the same size."""
    from transformers import GPT2Config, GPT2LMHeadModel

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


def single(config: TransformerConfig) -> SequenceModel:
    return lively(Transformer(config))


def double(config: TransformerConfig) -> SequenceModel:
    return single(config).double()


def batch_arms(batch: int) -> dict[str, Make]:
    config = TransformerConfig(VOCAB, CONTEXT, WIDTH, DEPTH, HEADS)
    arms: dict[str, Make] = {
        "ours": lambda: partial(cached, SingleReading(double(config)), batch),
        "single": lambda: partial(cached, NeuralReading(single(config)), batch),
        "double": lambda: partial(cached, NeuralReading(double(config)), batch),
        "torch": lambda: in_torch(partial(cached, NeuralReading(single(config)), batch)),
        "uncached": lambda: partial(uncached, single(config), batch, N_TOKENS, EVERY[batch]),
        "peer": lambda: peer_of(batch),
    }
    if importlib.util.find_spec("transformers") is None:
        print("Hugging Face's transformers are not installed: the peer is left out", file=sys.stderr)
        del arms["peer"]
    return arms


def generation(turns: int) -> list[Row]:
    require_same(double(TransformerConfig(VOCAB, CONTEXT, WIDTH, DEPTH, HEADS)))
    rows = []
    for batch in BATCHES:
        arms = batch_arms(batch)
        scale = {"uncached": N_TOKENS / len(range(0, N_TOKENS, EVERY[batch]))}
        spent = taken_in_turns({name: make() for name, make in arms.items()}, turns, scale)
        rows.append(Row(f"batch {batch}", batch * N_TOKENS, spent, memory_of(arms, batch)))
    return rows


def memory_of(arms: dict[str, Make], batch: int | None) -> dict[str, int]:
    """Bytes of the arms that are compared, each in a process of its own."""
    return {name: grown_alone(prepare_arm, batch, name) for name in COMPARED if name in arms}


def prepare_arm(batch: int | None, name: str) -> Action:
    """To make a network and draw, for a process that does nothing else. batch: None for the names."""
    torch.set_num_threads(1)
    make = (name_arms() if batch is None else batch_arms(batch))[name]
    return lambda: make()()


def require_same(model: SequenceModel) -> None:
    """All ways choose the same tokens, past the edge of the context too."""
    ways: tuple[Way, ...] = (SingleReading, NeuralReading, ForwardReading)
    first, *others = (
        [sample.tokens for sample in draw_tokens(way(model), n_samples=3, longest=CONTEXT + 20, start=[0])]
        for way in ways
    )
    if any(other != first for other in others):
        sys.exit("single precision, double and uncached reading chose different tokens; nothing was timed")


def name_arms() -> dict[str, Make]:
    data = open_data("names")
    assert isinstance(data, ListData)
    items = split_sequences(data).train_items
    config = TransformerConfig.of_size("medium", 27, 16)
    known = set(items)

    def ours(reading: Reading) -> int:
        drawn = draw_tokens(reading, n_samples=N_NAMES, longest=15, start=[0], stop=0)
        return sum(_text(sample.tokens) in known for sample in drawn)

    def usual(model: SequenceModel) -> int:
        tokens = uncached(model, N_NAMES, 15)[:, 1:].tolist()
        return sum(_text(row[: row.index(0)] if 0 in row else row) in items for row in tokens)

    return {
        "ours": lambda: partial(ours, SingleReading(double(config))),
        "single": lambda: partial(ours, NeuralReading(single(config))),
        "double": lambda: partial(ours, NeuralReading(double(config))),
        "torch": lambda: in_torch(partial(ours, NeuralReading(single(config)))),
        "uncached": lambda: partial(usual, single(config)),
    }


def names(turns: int) -> Row:
    arms = name_arms()
    spent = taken_in_turns({name: make() for name, make in arms.items()}, turns, {})
    return Row(f"{N_NAMES:,} names", N_NAMES, spent, memory_of(arms, None))


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
            line += f"  {row.grown[arm] / 1e6:6,.1f} MB" if arm in row.grown else ""
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
