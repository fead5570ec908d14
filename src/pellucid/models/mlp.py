"""MLP: the last tokens become short learned vectors, and a small network reads them side by side.

Bengio, Ducharme, Vincent and Jauvin 2003, "A Neural Probabilistic Language Model": scores = L₂ ∘ f ∘ L₁ ∘ C[X]. What
was learned about one token serves those with a similar vector, which no table of counts can do.
"""

from __future__ import annotations

import copy

from torch import Tensor, nn

from pellucid.layers.activations import gain
from pellucid.layers.hidden import Hidden, head
from pellucid.models.sequences.configs import WindowMLPConfig
from pellucid.models.windows import WindowModel, begun, slid


class WindowMLP(WindowModel):
    """Embedding C of shape (|V|, embedding), a window of `context` of its rows, hidden layers, head.

    Weights are drawn so that every pre-activation begins with variance 1: N(0, 1 / fan_in) over the embeddings, which
    have variance 1 themselves, and N(0, gain² / fan_in) over activations.

    With batch norm, statistics are over all positions of a training batch, those that pad short rows included: what
    pads is token 0, their windows are "the item has ended", and the running averages are over the same mixture.

    >>> import torch
    >>> model = WindowMLP(WindowMLPConfig(vocab_size=27))
    >>> model.n_parameters
    11897
    >>> model(torch.tensor([[0, 5, 13, 13, 1]])).shape
    torch.Size([1, 5, 27])
    """

    def __init__(self, config: WindowMLPConfig) -> None:
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

    def for_inference(self) -> WindowMLP:
        """The same function with every batch norm folded into the linear layer before it."""
        ready = copy.deepcopy(self).eval()
        for layer in ready.layers:
            assert isinstance(layer, Hidden)
            layer.fold()
        return ready
