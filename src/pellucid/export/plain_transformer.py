"""The transformer of lists and texts as `--to torch` writes it: what the settings leave open elsewhere is settled here.

`models/sequences/transformer.py` serves every kind of positions and blocks, reads token by token and skips padding
while it trains. This is the one with rotary positions and the norm before each part, for whole sequences alone. Its
weights have the same names, and tests hold its numbers and its gradients equal to those of the other.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.layers.positions.encodings import rotary_angles, rotate


class RotaryAttention(nn.Module):
    """Each token asks itself and those before it: (batch, time, width) -> the same."""

    def __init__(self, width: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.project = nn.Parameter(torch.empty(3, width, width).uniform_(-(width**-0.5), width**-0.5))
        self.combine = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        """angles: by which queries and keys are turned, (time, head_width / 2, 2)."""
        batch, time, _ = x.shape
        projected = functional.linear(x, self.project.flatten(0, 1))  # (batch, time, 3 · width)
        heads = projected.view(batch, time, 3, self.n_heads, -1)
        q, k, v = heads.permute(2, 0, 3, 1, 4)  # (batch, n_heads, time, head_width) each
        mixed = functional.scaled_dot_product_attention(rotate(q, angles), rotate(k, angles), v, is_causal=True)
        out: Tensor = self.combine(mixed.transpose(1, 2).flatten(2))
        return out  # (batch, time, width)


class SquaredReLULayer(nn.Module):
    """Each position by itself: into four times the width, through the square of ReLU, and back."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.expand = nn.Linear(width, 4 * width, bias=False)
        self.contract = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.contract(self.expand(x).relu().square())
        return out


class RotaryBlock(nn.Module):
    """Attention, then feed-forward; each reads the normalised stream and adds to it."""

    def __init__(self, width: int, n_heads: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.attention = RotaryAttention(width, n_heads)
        self.feed_forward = SquaredReLULayer(width)

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        x = x + self.attention(self.norm(x), angles)
        out: Tensor = x + self.feed_forward(self.norm(x))
        return out  # (batch, time, width)


class RotaryTransformer(nn.Module):
    """A decoder: embedding, blocks, norm, head.

    >>> RotaryTransformer(vocab_size=5, context=8, width=8, depth=2, n_heads=2)(torch.tensor([[0, 1, 2]])).shape
    torch.Size([1, 3, 5])
    """

    angles: Tensor

    def __init__(
        self, *, vocab_size: int, context: int, width: int, depth: int, n_heads: int, rotary_base: float = 10_000.0
    ) -> None:
        super().__init__()
        self.longest = context
        self.embedding = nn.Embedding(vocab_size, width)
        self.blocks = nn.ModuleList([RotaryBlock(width, n_heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.head = nn.Linear(width, vocab_size, bias=False)
        self.register_buffer("angles", rotary_angles(context, width // n_heads, rotary_base), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        time = tokens.shape[1]
        if time > self.longest:
            raise ValueError(f"{time} tokens came, and this transformer was made for {self.longest}")
        x = self.embedding(tokens)  # (batch, time, width)
        for block in self.blocks:
            x = block(x, self.angles[:time])
        logits: Tensor = self.head(self.norm(x))
        return logits  # (batch, time, vocab)
