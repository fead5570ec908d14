"""Wavenet-like: the window is fused pair by pair, as a tree, so that nothing is squeezed together all at once.

After van den Oord et al. 2016, "WaveNet", in the plain form of the makemore lectures: two tokens become one vector, two
of those the next, until one is left for the whole window.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pellucid.errors import PellucidError
from pellucid.layers.activations import gain
from pellucid.layers.hidden import Hidden, head
from pellucid.models.neural import NeuralCard, Recipe
from pellucid.models.windows import WindowModel, begun
from pellucid.options import require_whole


@dataclass(frozen=True)
class WavenetConfig:
    vocab_size: int
    context: int = 8  # tokens in the window: a power of 2, one layer for each doubling
    embedding: int = 24
    hidden: int = 128

    def __post_init__(self) -> None:
        for field in ("vocab_size", "embedding", "hidden"):
            require_whole(field, getattr(self, field))
        require_whole("context", self.context, least=2)
        if self.context != (near := power_of_two(self.context)):
            raise PellucidError(
                f"a context of {self.context} tokens cannot be halved until one is left",
                fix=f"The nearest that can is {near}",
            )

    @property
    def depth(self) -> int:
        return self.context.bit_length() - 1


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


def power_of_two(number: int) -> int:
    """The power of 2 nearest to a number of 2 or more, the smaller of two equally near ones.

    >>> [power_of_two(number) for number in (2, 3, 5, 6, 7, 100)]
    [2, 2, 4, 4, 8, 128]
    """
    below: int = 1 << (number.bit_length() - 1)
    return below if number - below <= 2 * below - number else 2 * below


def sized(size: str, vocab_size: int, context: int) -> WavenetConfig:
    """The window is the largest power of 2 in what is given, at most 8, or 16 for large."""
    reach, embedding, hidden = {
        "tiny": (4, 8, 32),
        "small": (8, 16, 64),
        "medium": (8, 24, 128),
        "large": (16, 32, 256),
    }[size]
    fits = 1 << (max(2, min(reach, context)).bit_length() - 1)
    return WavenetConfig(vocab_size, fits, embedding, hidden)


MODEL = NeuralCard(
    name="wavenet",
    says="the last tokens fused pair by pair, as a tree, until one vector is left",
    config=WavenetConfig,
    build=Wavenet,
    sized=sized,
    tiny=WavenetConfig(vocab_size=5, context=4, embedding=4, hidden=16),
    recipe=Recipe(optimizer="muon", rate=0.01, matrix_rate=0.02, batch=128, weight_decay=0.1, epochs=6.0),
)
