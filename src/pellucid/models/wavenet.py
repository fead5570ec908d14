"""Wavenet-like: the window is fused pair by pair, as a tree, so that nothing is squeezed together all at once.

After van den Oord et al. 2016, "WaveNet", in the plain form of the makemore lectures: two tokens become one vector, two
of those the next, until one is left for the whole window.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from pellucid.layers.activations import gain
from pellucid.layers.hidden import Hidden, head
from pellucid.models.sequences.configs import WavenetConfig
from pellucid.models.windows import WindowModel, begun


class Wavenet(WindowModel):
    """Embedding, one hidden layer (batch norm, tanh) for each doubling of the window, head.

    The windows of neighbouring positions share most of their pairs, so `forward` does not build them: layer l fuses
    what ends at t - 2ˡ with what ends at t, for every t at once, which is a convolution dilated by 2ˡ. One window alone
    (`of_windows`) is fused as the tree that it is. In training the statistics of batch norm are over all positions of
    a layer, each counted once, those before the beginning and those that pad short rows included.

    >>> model = Wavenet(WavenetConfig(vocab_size=27))
    >>> model.n_parameters
    76579
    >>> model(torch.tensor([[0, 5, 13, 13, 1]])).shape
    torch.Size([1, 5, 27])
    """

    def __init__(self, config: WavenetConfig) -> None:
        super().__init__()
        self.config = config
        self.vocab_size = config.vocab_size
        self.reach = config.context
        self.embedding = nn.Embedding(config.vocab_size, config.embedding)
        self.layers = nn.ModuleList([Hidden(2 * config.embedding, config.hidden, 1.0, norm="batch")])
        for _ in range(config.depth - 1):
            self.layers.append(Hidden(2 * config.hidden, config.hidden, gain("tanh"), norm="batch"))
        self.head = head(config.hidden, config.vocab_size, gain("tanh"))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(begun(tokens, self.reach - 1))
        for doubling, layer in enumerate(self.layers):
            back = 2**doubling
            x = layer(torch.cat([x[:, :-back], x[:, back:]], dim=-1))
        scores: Tensor = self.head(x)
        return scores

    def of_windows(self, windows: Tensor) -> Tensor:
        x = self.embedding(windows)
        for layer in self.layers:
            x = layer(x.reshape(len(x), x.shape[1] // 2, -1))
        scores: Tensor = self.head(x[:, 0])
        return scores

    def for_inference(self) -> Wavenet:
        """The same function with every batch norm folded into the linear layer before it."""
        ready = copy.deepcopy(self).eval()
        for layer in ready.layers:
            assert isinstance(layer, Hidden)
            layer.fold()
        return ready
