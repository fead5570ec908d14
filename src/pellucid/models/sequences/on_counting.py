"""A network that starts from counting: logits = g · log p + f.

p is what an n-gram counted after the last tokens, f what the network says, and g how far it trusts the counts there. At
the start f is 0 and g is 1, so that the first loss is that of counting, and whatever is learned is learned on top of
it. While it trains, p comes from counts that have not seen the token that is predicted (`cross_fit.py`).

A network that only corrects counting has little to learn from: where counts are good no error is left to show it what
matters. So it also has to predict on its own while it trains, by scores of their own that nobody needs afterwards; what
it finds for them serves f as well. On names 800 steps earn 0.070 nats over counting so, and 0.040 without.

The network is any of the catalogue, built with more scores than there are symbols: f, then g - 1, then its own.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from pellucid.data.prepare.tokens import Corpus, token_type
from pellucid.models.contracts import SequenceModel
from pellucid.models.counting.count_model import CountModel, IntArray, WindowsApart
from pellucid.models.rows_apart import RowsApart

COUNTS_FILE = "counts.safetensors"  # of a run: the tokens that were counted, and up to which order
LEAST_LOG = -30.0  # of a probability; no sensible gate turns the impossible into a number
# Of the loss of its own prediction. After 300 steps on JavaScript 0, 0.1, 0.3 and 1 gave dev 0.9725, 0.9485, 0.9459 and
# 0.9569; after 800 on names 0, 0.3 and 1 gave 1.9185, 1.8879 and 1.8884.
ALONE = 0.3


class CountedState(NamedTuple):
    """Where both have read to."""

    network: Any
    counts: IntArray  # the last tokens, (batch, up to the reach of the counts)


class Parts(NamedTuple):
    """What the logits are made of, each (batch, time, …)."""

    gate: Tensor  # (…, 1)
    counted: Tensor  # log-probabilities, (…, vocab)
    learned: Tensor  # (…, vocab)
    alone: Tensor  # what the network would say without counts: scores, (…, vocab)

    @property
    def logits(self) -> Tensor:
        return self.gate * self.counted + self.learned


class OnCounting(SequenceModel):
    """A count model and a network in one.

    >>> from pellucid.models.counting.ngram import NGram, NGramConfig
    >>> from pellucid.models.sequences.configs import NeuralNGramConfig
    >>> from pellucid.models.sequences.windows import NeuralNGram
    >>> counts = NGram.fit(Corpus(np.array([0, 1, 0, 1, 1, 0]), has_boundary=True), NGramConfig(2, order=1))
    >>> model = OnCounting(NeuralNGram(with_own_scores(NeuralNGramConfig(vocab_size=2))), counts)
    >>> model.start_at_counting()
    >>> model(torch.tensor([[0, 1]])).softmax(-1)[0, 0].detach(), np.exp(counts.log_probabilities(np.array([[0]])))
    (tensor([0.4500, 0.5500]), array([[0.45, 0.55]]))
    """

    def __init__(self, network: SequenceModel, counts: CountModel) -> None:
        super().__init__()
        self.network = network
        self.counts = counts
        self.vocab_size, self.longest = counts.vocab_size, network.longest
        if isinstance(embedding := getattr(network, "embedding", None), nn.Embedding):
            # Scores there are more of, but no more symbols to read.
            network.embedding = nn.Embedding(self.vocab_size, embedding.embedding_dim)
            network.embedding.weight = nn.Parameter(embedding.weight.detach()[: self.vocab_size].clone())

    @property
    def core(self) -> SequenceModel:
        return self.network

    def start_at_counting(self) -> None:
        """Let the network say nothing: its head, or its table, becomes 0; of a head with a norm, the norm alone.

        Without a linear layer before it the norm would have nothing to learn from.
        """
        for name, parameter in self.network.named_parameters():
            is_normed = name.startswith("head.linear.")
            if name.split(".")[0] in ("head", "table") and not is_normed:
                nn.init.zeros_(parameter)

    @property
    def skips_padding(self) -> bool:
        return self.network.skips_padding

    def forward(self, tokens: Tensor, counted: Tensor | None = None, real: Tensor | None = None) -> Tensor:
        """counted: what is counted after each token, where more was read than stands here.

        (batch, time, vocab), or with real, which says where the tokens stand, (n, vocab).
        """
        return self.predict(tokens, counted, real).logits

    def predict(self, tokens: Tensor, counted: Tensor | None = None, real: Tensor | None = None) -> Parts:
        """The same in its parts: what is counted, what is learned, and how far the counts are trusted."""
        if counted is None:
            counted = self.counts.forward(tokens)
            counted = counted if real is None else counted.flatten(0, 1)[real]
        return self.join(self.network(tokens) if real is None else self.network(tokens, real), counted)

    def join(self, scores: Tensor, counted: Tensor) -> Parts:
        """What the logits are made of: the network's scores, and the log-probabilities that were counted."""
        logs = counted.to(scores.dtype).clamp(min=LEAST_LOG)
        learned, gate, alone = torch.split(scores, [self.vocab_size, 1, self.vocab_size], dim=-1)
        return Parts(1 + gate, logs, learned, alone)

    def begin(self, batch: int) -> CountedState:
        return CountedState(self.network.begin(batch), self.counts.begin(batch))

    def advance(self, tokens: Tensor, state: CountedState) -> tuple[Tensor, CountedState]:
        scores, network = self.network.advance(tokens, state.network)
        counted, window = self.counts.advance(tokens, state.counts)
        return self.join(scores, counted).logits, CountedState(network, window)

    def read(self, tokens: Tensor, state: CountedState) -> tuple[Tensor, CountedState]:
        scores, network = self.network.read(tokens, state.network)
        counted, window = self.counts.read(tokens, state.counts)
        return self.join(scores, counted).logits, CountedState(network, window)

    def keep(self, state: CountedState, rows: Tensor) -> CountedState:
        return CountedState(self.network.keep(state.network, rows), state.counts[rows.cpu().numpy()])

    def rows_apart(self) -> CountedRows:
        return CountedRows(self)

    def for_inference(self) -> OnCounting:
        return OnCounting(self.network.for_inference(), self.counts).eval()


class CountedRows(RowsApart):
    """Rows of the network, and beside each the window that is counted after."""

    def __init__(self, model: OnCounting) -> None:
        self.model = model
        self.rows = model.network.rows_apart()
        self.windows = WindowsApart(model.counts)

    def put(self, row: int, state: CountedState) -> None:
        self.rows.put(row, state.network)
        self.windows.put(row, state.counts[0])

    def move(self, source: int, target: int) -> None:
        self.rows.move(source, target)
        self.windows.move(source, target)

    def advance(self, tokens: Tensor) -> Tensor:
        counted = torch.from_numpy(self.windows.advance(tokens.cpu().numpy()))
        return self.model.join(self.rows.advance(tokens), counted).logits


def with_own_scores(config: Any) -> Any:
    """The config of a network with all the scores that it needs on counting."""
    return dataclasses.replace(config, vocab_size=2 * config.vocab_size + 1)


def network_alone(model: OnCounting, fresh: SequenceModel) -> SequenceModel:
    """What the network says without counts: its own scores, which it learned beside the others, and nothing else.

    fresh: a network of the same config for the symbols alone; it is given the weights, and given back.
    """
    n, weights = model.vocab_size, {}
    for name, wanted in fresh.state_dict().items():
        found = model.network.state_dict()[name]
        if name == "table":
            found = found[:, :n]  # symbols that are read; the last dimension has the scores
        # Of the scores f, g - 1 and its own, the last.
        for axis, (here, there) in enumerate(zip(wanted.shape, found.shape, strict=True)):
            found = found if here == there else found.narrow(axis, n + 1, n)
        weights[name] = found.clone()
    fresh.load_state_dict(weights)
    return fresh


def counts_to_bytes(order: int, vocab_size: int, counted: Corpus) -> bytes:
    """What a count model is made from again: smaller than its tables, and quick to count.

    A safetensors file, byte by byte as its library writes it, but of tokens that are not held three times meanwhile:
    they may be a gigabyte.
    """
    kind, name = (np.uint8, "U8") if vocab_size <= 256 else (np.int32, "I32")
    tokens = np.ascontiguousarray(counted.tokens, dtype=kind)
    header = {
        "order": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]},
        "tokens": {"dtype": name, "shape": [len(tokens)], "data_offsets": [8, 8 + tokens.nbytes]},
    }
    words = json.dumps(header, separators=(",", ":")).encode("ascii")
    words += b" " * (-len(words) % 8)
    return b"".join((len(words).to_bytes(8, "little"), words, order.to_bytes(8, "little"), tokens.data))


def counted_from_tensors(
    tensors: Mapping[str, Tensor], vocab_size: int, *, has_boundary: bool, closing: int = 0
) -> tuple[Corpus, int]:
    """What was counted, and up to which order. Tensors that are no such model's are refused with a ValueError."""
    tokens, order = tensors.get("tokens"), tensors.get("order")
    if tokens is None or order is None or tokens.ndim != 1 or order.shape != (1,) or not len(tokens):
        raise ValueError("tokens and order are wanted")
    if int(tokens.min()) < 0 or int(tokens.max()) >= vocab_size:
        raise ValueError(f"tokens reach from {int(tokens.min())} to {int(tokens.max())}")
    return Corpus(tokens.numpy().astype(token_type(vocab_size)), has_boundary, closing), int(order)
