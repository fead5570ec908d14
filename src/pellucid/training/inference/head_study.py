"""What each head of a run's transformer is good for: the loss without it, how widely it looks, how unlike others it is.

A head is switched off by what the combining matrix takes of it: with these columns at 0 the other heads go on as they
were, and nothing else changes. Each is switched off alone, so heads that do the same can each be done without.

How widely it looks is the entropy of its weights; how unlike two heads are, the Jensen–Shannon divergence of their
weights for the same query: 0 bits where they look at the same, 1 where they never do. Both are means over the queries
that could choose, of many items or windows of dev.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.data.prepare.tokens import Corpus, take_part
from pellucid.errors import PellucidError
from pellucid.models.contracts import SequenceModel
from pellucid.models.sequences.transformer import Block, CausalSelfAttention, Transformer
from pellucid.records import HeadEffect, HeadStudy
from pellucid.records.answers import as_matrix
from pellucid.runs import Run
from pellucid.training.checkpoints import load_network
from pellucid.training.inference.attention_maps import transformer_weights
from pellucid.training.run import ResumeOptions, reopen_data
from pellucid.training.tasks.metrics import paired_gain
from pellucid.training.tasks.sequences import SequenceTask

MOST_JUDGED = 20_000  # tokens of dev that the loss without a head is measured on
MOST_LOOKED_AT = 2_000  # tokens of dev whose weights are compared


def study_heads(run: Run) -> HeadStudy:
    """Every head of a run's transformer of a list or a text."""
    model, _ = load_network(run)
    if run.kind not in ("list", "text") or not isinstance(core := model.core, Transformer):
        raise PellucidError(
            f"{run.name} is a run of {run.model} on {run.kind}",
            fix="Heads are switched off in a transformer of a list or a text: name a run of one, or none",
        )
    assert isinstance(model, SequenceModel)
    task = reopen_data(run, ResumeOptions())
    assert isinstance(task, SequenceTask)
    whole = task.evaluate(model, "dev", MOST_JUDGED)
    assert whole.units is not None
    entropies, even, distances = compare_heads(core, take_part(task.parts["dev"], MOST_LOOKED_AT), task.context)
    effects: list[HeadEffect] = []
    for layer, block in enumerate(core.blocks):
        assert isinstance(block, Block)
        for head in range(block.attention.n_heads):
            with switch_head_off(block.attention, head):
                without = task.evaluate(model, "dev", MOST_JUDGED)
            assert without.units is not None
            gain = paired_gain("dev", whole.units, without.units)
            if np.array_equal(whole.units.merits, without.units.merits):
                gain = gain._replace(low=0.0, high=0.0)  # it has handed on nothing yet
            effects.append(
                HeadEffect(
                    layer=layer,
                    head=head,
                    loss=without.loss,
                    rise=gain.mean,
                    low=gain.low,
                    high=gain.high,
                    entropy=entropies[len(effects)],
                )
            )
    n_tokens = int(whole.units.sizes.sum())
    return HeadStudy(
        source=f"{run.name}: a transformer of {model.n_parameters:,} parameters on {run.data.name}",
        loss=whole.loss,
        n_tokens=n_tokens,
        n_units=len(whole.units.sizes),
        unit="item" if task.is_list else "window",
        even_entropy=even,
        heads=tuple(effects),
        distances=distances,
    )


@contextmanager
def switch_head_off(attention: CausalSelfAttention, head: int) -> Iterator[None]:
    """Inside, nothing of what this head found is handed on; afterwards the weights are as they were, to the bit.

    >>> attention = CausalSelfAttention(8, n_heads=2, starts_silent=False)
    >>> stream = torch.randn(1, 3, 8)
    >>> before = attention(stream)
    >>> with torch.no_grad(), switch_head_off(attention, 0), switch_head_off(attention, 1):
    ...     float(attention(stream).abs().max())
    0.0
    >>> torch.equal(attention(stream), before)
    True
    """
    width = attention.combine.in_features // attention.n_heads
    columns = attention.combine.weight.data[:, head * width : (head + 1) * width]
    kept = columns.clone()
    columns.zero_()
    try:
        yield
    finally:
        columns.copy_(kept)


def compare_heads(
    model: Transformer, part: Corpus, context: int
) -> tuple[list[float], float, tuple[tuple[float, ...], ...]]:
    """The mean entropy of each head's weights in bits, that of even weights, and the divergence of any two heads."""
    entropies: Tensor | float = 0.0
    divergences: Tensor | float = 0.0
    even, n_queries = 0.0, 0
    model = model.for_inference().double()
    for tokens in each_window(part, context):
        n = len(tokens)
        if n < 2:
            continue
        found = torch.cat([weights[0] for weights in transformer_weights(model, torch.from_numpy(tokens)[None])])
        chosen = found[:, 1:]  # (heads, n - 1, n): the first sees itself alone
        own = entropy_bits(chosen)
        entropies = entropies + own.sum(-1)
        mixed = entropy_bits((chosen[:, None] + chosen[None]) / 2)  # (heads, heads, n - 1)
        divergences = divergences + (mixed - (own[:, None] + own[None]) / 2).sum(-1)
        even += float(np.log2(np.arange(2, n + 1)).sum())
        n_queries += n - 1
    assert isinstance(entropies, Tensor), "dev has no two tokens in a row"
    assert isinstance(divergences, Tensor)
    means = (divergences / n_queries).clamp(min=0)  # what is below is the last digit
    return (entropies / n_queries).tolist(), even / n_queries, as_matrix(means)


def each_window(part: Corpus, context: int) -> Iterator[np.ndarray[Any, Any]]:
    """What a network reads at once: each item of a list with what opens it, or each window of a text."""
    if part.has_boundary:
        ends = [*part.starts.tolist(), part.n_predicted]
    else:
        ends = [*range(0, part.n_predicted, context), part.n_predicted]
    for start, end in pairwise(ends):
        yield part.tokens[start:end].astype(np.int64)


def entropy_bits(weights: Tensor) -> Tensor:
    """(..., n, m), rows that sum to one -> (..., n).

    >>> entropy_bits(torch.tensor([[0.5, 0.5, 0.0], [0.25, 0.25, 0.5]]))
    tensor([1.0000, 1.5000])
    """
    nats: Tensor = -torch.special.xlogy(weights, weights).sum(-1)
    return nats / math.log(2)
