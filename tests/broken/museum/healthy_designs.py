"""Architectures beside the usual ones: very deep, without bias, without positions, sparse, dense, over sets."""

import math
from dataclasses import replace

import torch
from tests.broken.museum.batches import CLASSES, VOCAB, orders, pictures, telling_classes, telling_tokens
from tests.broken.museum.exhibit import Healthy
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from pellucid.inspection.instrument.specimen import Specimen

WIDTH = 32


class Block(nn.Module):
    """Pre-norm, without any bias, gated as in Llama; slopes on distances as in ALiBi where they are given."""

    def __init__(self, slopes=None):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.three = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 128, bias=False)
        self.down = nn.Linear(64, WIDTH, bias=False)
        self.slopes = slopes

    def attend(self, x):
        B, T, C = x.shape
        q, k, v = (part.view(B, T, 4, C // 4).transpose(1, 2) for part in self.three(x).chunk(3, dim=-1))
        if self.slopes is None:
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            distance = torch.arange(T)[:, None] - torch.arange(T)
            bias = -self.slopes[:, None, None] * distance
            bias = bias.masked_fill(distance < 0, float("-inf"))
            mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return self.out(mixed.transpose(1, 2).reshape(B, T, C))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        gate, value = self.up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(functional.silu(gate) * value)


class Decoder(nn.Module):
    def __init__(self, depth, slopes=None, positions=True):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.positions = nn.Parameter(0.1 * torch.randn(32, WIDTH)) if positions else None
        self.blocks = nn.Sequential(*[Block(slopes) for _ in range(depth)])
        self.norm = nn.RMSNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)
        for block in self.blocks:
            for part in (block.out, block.down):
                nn.init.normal_(part.weight, std=0.1 / math.sqrt(2 * depth))

    def forward(self, tokens):
        x = self.embed(tokens)
        if self.positions is not None:
            x = x + self.positions[: tokens.shape[1]]
        return self.head(self.norm(self.blocks(x)))


def very_deep_pre_norm() -> Specimen:
    return telling_tokens(Decoder(24), rate=1e-3)


def alibi() -> Specimen:
    return telling_tokens(Decoder(2, slopes=0.5 ** torch.arange(1, 5), positions=False))


def no_biases() -> Specimen:
    return telling_tokens(Decoder(2))


def causal_without_positions() -> Specimen:
    return telling_tokens(Decoder(2, positions=False))


def checkpointed() -> Specimen:
    class Model(Decoder):
        def forward(self, tokens):
            x = self.embed(tokens) + self.positions[: tokens.shape[1]]
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False)
            return self.head(self.norm(x))

    return telling_tokens(Model(2))


def sparse_embedding() -> Specimen:
    model = nn.Sequential(nn.EmbeddingBag(VOCAB, WIDTH, mode="mean", sparse=True), nn.Linear(WIDTH, 2))

    def data(seed):
        tokens, _ = orders(seed)
        return tokens, ((tokens > 8).sum(1) > 5).long()  # what is asked for does not hang on the order

    return replace(telling_classes(model, data), optimizer=torch.optim.SGD(model.parameters(), lr=0.1))


def set_of_points() -> Specimen:
    class Model(nn.Module):
        """Deep sets: the order of tokens must not matter."""

        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(VOCAB, WIDTH)
            self.each = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
            self.head = nn.Linear(WIDTH, 2)

        def forward(self, tokens):
            return self.head(self.each(self.embed(tokens)).mean(1))

    def data(seed):
        tokens, _ = orders(seed)
        return tokens, ((tokens > 8).sum(1) > 5).long()

    return telling_classes(Model(), data)


def dense_blocks() -> Specimen:
    class Model(nn.Module):
        """As DenseNet: each layer reads all before it."""

        def __init__(self):
            super().__init__()
            self.convs = nn.ModuleList([nn.Conv2d(1 + 4 * i, 4, 3, padding=1) for i in range(3)])
            self.head = nn.Linear(13, CLASSES)

        def forward(self, x):
            for conv in self.convs:
                x = torch.cat([x, torch.relu(conv(x))], dim=1)
            return self.head(x.amax((2, 3)))

    return telling_classes(Model(), pictures)


def separable_convolutions() -> Specimen:
    model = nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU6()),
        *(nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False), nn.BatchNorm2d(8), nn.ReLU6()),
        *(nn.Conv2d(8, 16, 1, bias=False), nn.BatchNorm2d(16)),  # no activation here, as in MobileNet
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, CLASSES)),
    )
    return telling_classes(model, pictures)


HEALTHY = [
    Healthy("very deep pre-norm", very_deep_pre_norm, "24 blocks with scaled residuals"),
    Healthy("ALiBi", alibi, "positions by distance"),
    Healthy("no biases", no_biases, "RMS norm, gates and no bias"),
    Healthy("causal without positions", causal_without_positions, "the mask alone tells the order"),
    Healthy("checkpointed", checkpointed, "blocks are run twice to save memory"),
    Healthy("sparse embedding", sparse_embedding, "gradients are sparse tensors"),
    Healthy("set of points", set_of_points, "order is not asked for"),
    Healthy("dense blocks", dense_blocks, "each layer reads all before it"),
    Healthy("separable convolutions", separable_convolutions, "a linear bottleneck after a norm"),
]
