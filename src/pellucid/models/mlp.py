"""MLP: the last tokens become short learned vectors, and a small network reads them side by side.

Bengio, Ducharme, Vincent and Jauvin 2003, "A Neural Probabilistic Language Model": scores = L₂ ∘ f ∘ L₁ ∘ C[X]. What
was learned about one token serves those with a similar vector, which no table of counts can do.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

from torch import Tensor, nn

from pellucid.errors import require_one_of
from pellucid.layers.activations import ACTIVATIONS, gain
from pellucid.layers.hidden import Hidden, head
from pellucid.layers.norms import NORMS
from pellucid.models.neural import NeuralCard, Recipe
from pellucid.models.settings import require_share
from pellucid.models.windows import WindowModel, begun, slid
from pellucid.options import require_whole


@dataclass(frozen=True)
class MLPConfig:
    vocab_size: int
    context: int = 3  # tokens in the window
    embedding: int = 10  # numbers for each token
    hidden: int = 200
    depth: int = 1  # hidden layers
    activation: str = "tanh"
    norm: str = "none"  # after each hidden linear layer, before the activation
    groups: int = 8  # of group norm; the channels of instance norm

    def __post_init__(self) -> None:
        for field in ("vocab_size", "context", "embedding", "hidden", "depth", "groups"):
            require_whole(field, getattr(self, field))
        require_one_of("activation", self.activation, tuple(ACTIVATIONS))
        require_one_of("norm", self.norm, NORMS)
        if self.norm in ("group", "instance"):
            require_share("hidden", self.hidden, self.groups, of="groups" if self.norm == "group" else "channels")


class MLP(WindowModel):
    """Embedding C of shape (|V|, embedding), a window of `context` of its rows, hidden layers, head.

    Weights are drawn so that every pre-activation begins with variance 1: N(0, 1 / fan_in) over the embeddings, which
    have variance 1 themselves, and N(0, gain² / fan_in) over activations.

    With batch norm, statistics are over all positions of a training batch, those that pad short rows included: what
    pads is token 0, their windows are "the item has ended", and the running averages are over the same mixture.

    >>> import torch
    >>> model = MLP(MLPConfig(vocab_size=27))
    >>> model.n_parameters
    11897
    >>> model(torch.tensor([[0, 5, 13, 13, 1]])).shape
    torch.Size([1, 5, 27])
    """

    def __init__(self, config: MLPConfig) -> None:
        super().__init__()
        self.config = config
        self.vocab_size = config.vocab_size
        self.reach = config.context
        self.embedding = nn.Embedding(config.vocab_size, config.embedding)
        factor, kind = gain(config.activation), (config.activation, config.norm, config.groups)
        self.layers = nn.Sequential(Hidden(config.context * config.embedding, config.hidden, 1.0, *kind))
        for _ in range(config.depth - 1):
            self.layers.append(Hidden(config.hidden, config.hidden, factor, *kind))
        self.head = head(config.hidden, config.vocab_size, factor)

    def forward(self, tokens: Tensor) -> Tensor:
        vectors = self.embedding(begun(tokens, self.reach - 1))
        scores: Tensor = self.head(self.layers(slid(vectors, self.reach)))
        return scores

    def of_windows(self, windows: Tensor) -> Tensor:
        scores: Tensor = self.head(self.layers(self.embedding(windows).flatten(1)))
        return scores

    def for_inference(self) -> MLP:
        """The same function with every batch norm folded into the linear layer before it."""
        ready = copy.deepcopy(self).eval()
        for layer in ready.layers:
            assert isinstance(layer, Hidden)
            layer.fold()
        return ready


def sized(size: str, vocab_size: int, context: int) -> MLPConfig:
    """tiny is the classic: 3 tokens, 10 numbers each, 200 hidden units."""
    reach, embedding, hidden, depth = {
        "tiny": (3, 10, 200, 1),
        "small": (5, 16, 256, 1),
        "medium": (8, 24, 256, 2),
        "large": (8, 32, 512, 3),
    }[size]
    return MLPConfig(vocab_size, min(reach, context), embedding, hidden, depth)


MODEL = NeuralCard(
    name="mlp",
    says="the last few tokens as short vectors side by side, read by a network with hidden layers (Bengio 2003)",
    config=MLPConfig,
    build=MLP,
    sized=sized,
    tiny=MLPConfig(vocab_size=5, context=3, embedding=4, hidden=16, depth=2, norm="batch"),
    recipe=Recipe(optimizer="muon", rate=0.01, matrix_rate=0.02, batch=128, weight_decay=0.0, epochs=6.0),
)
