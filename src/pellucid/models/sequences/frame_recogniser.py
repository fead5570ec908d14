"""A recogniser of frames, as of sound: attention over features instead of tokens, read while they come.

What comes after a frame helps to tell what it was. With a look-ahead of L the first block sees L frames past the one
it works on, so that each frame is told L frames after it was heard; the blocks behind it see nothing later. Every block
sees `context` frames before. What was read is kept in rings of fixed size: a frame costs the same however long the
stream is. The look-ahead is no part of the weights, so one network can be asked with any.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from torch import Tensor, nn

from pellucid.layers.blocks import PreNormBlock
from pellucid.layers.feed_forward import FeedForward
from pellucid.layers.kv_cache import RingCache
from pellucid.layers.masks import EVERYTHING, Local
from pellucid.layers.positions.encodings import RelativeBias


@dataclass
class FrameStream:
    """What a recogniser keeps of a stream: frames that wait for those after them, and a ring for each block.

    >>> recogniser = FrameRecogniser(features=6, classes=3, context=4, width=8, n_heads=2, depth=2)
    >>> [ring.mask for ring in recogniser.begin(batch=1, look_ahead=3).rings]
    [Local(before=7, after=0), Local(before=4, after=0)]
    """

    look_ahead: int
    rings: list[RingCache]
    waiting: list[Tensor] = field(default_factory=list)  # each (batch, 1, width)
    n_told: int = 0  # frames whose class was told


class FrameRecogniser(nn.Module):
    """frames: (batch, time, features) -> logits: (batch, time, classes).

    >>> import torch
    >>> recogniser = FrameRecogniser(features=6, classes=3, context=4, width=8, n_heads=2, depth=2)
    >>> frames = torch.randn(1, 9, 6)
    >>> stream, told = recogniser.begin(batch=1, look_ahead=2), []
    >>> with torch.no_grad():
    ...     for frame in frames.unbind(1):
    ...         told += recogniser.advance(frame, stream)  # of the frame two before, where there is one
    ...     told += recogniser.finish(stream)  # of the last two
    >>> torch.allclose(torch.stack(told, dim=1), recogniser(frames, look_ahead=2), atol=1e-6)
    True
    """

    def __init__(
        self, *, features: int, classes: int, context: int, width: int = 32, n_heads: int = 4, depth: int = 2
    ) -> None:
        super().__init__()
        self.context = context
        self.embedding = nn.Linear(features, width)
        # By their distance alone: how far the stream has come says nothing.
        self.positions = RelativeBias(n_heads, is_causal=False)
        self.blocks = nn.ModuleList(
            [PreNormBlock(width, n_heads, feed_forward=FeedForward(width)) for _ in range(depth)]
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, frames: Tensor, look_ahead: int = 0) -> Tensor:
        """All frames at once."""
        time = frames.shape[1]
        bias = self.positions.bias(time, time)
        stream = self.embedding(frames)  # (batch, time, width)
        for block, after in zip(self.blocks, self._afters(look_ahead), strict=True):
            stream = block(stream, mask=Local(self.context, after), bias=bias)
        return self._score(stream)

    def begin(self, batch: int, look_ahead: int = 0) -> FrameStream:
        """A stream of which nothing was heard yet."""
        rings = [
            block.attention.ring(batch, self.context + after)
            for block, after in zip(self._each(), self._afters(look_ahead), strict=True)
        ]
        return FrameStream(look_ahead, rings)

    def advance(self, frame: Tensor, stream: FrameStream) -> list[Tensor]:
        """frame: (batch, features), the next one -> logits, (batch, classes), of the one `look_ahead` before it.

        It is a list of one, or of none while the first frames still wait. What the stream keeps is changed by it.
        """
        embedded = self.embedding(frame)[:, None]  # (batch, 1, width)
        stream.waiting.append(embedded)
        stream.rings[0].append(*self._each()[0].project_keys(embedded))
        return [self._tell_first(stream)] if len(stream.waiting) > stream.look_ahead else []

    def finish(self, stream: FrameStream) -> list[Tensor]:
        """Nothing more comes: logits of the frames that wait, each (batch, classes)."""
        return [self._tell_first(stream) for _ in range(len(stream.waiting))]

    def _tell_first(self, stream: FrameStream) -> Tensor:
        """The logits of the frame that has waited longest; behind it as many were heard as wait."""
        n_after = len(stream.waiting) - 1
        first, *others = self._each()
        n_seen = min(stream.n_told, self.context) + 1 + n_after
        keys, values = stream.rings[0].last(n_seen)
        bias = self.positions.bias(n_after + 1, n_seen)[:, :1]  # of that frame alone: (heads, 1, n_seen)
        told = first.recall(stream.waiting.pop(0), keys, values, mask=EVERYTHING, bias=bias)
        n_before = min(stream.n_told, self.context) + 1
        for block, ring in zip(others, stream.rings[1:], strict=True):
            told = block.advance(told, ring, bias=self.positions.bias(1, n_before))
        stream.n_told += 1
        return self._score(told)[:, 0]

    def _score(self, stream: Tensor) -> Tensor:
        scores: Tensor = self.head(self.norm(stream))
        return scores

    def _afters(self, look_ahead: int) -> list[int]:
        """How many frames past its own each block sees."""
        return [look_ahead, *[0] * (len(self.blocks) - 1)]

    def _each(self) -> list[PreNormBlock]:
        """The blocks by their type, which a ModuleList forgets."""
        return cast("list[PreNormBlock]", list(self.blocks))
