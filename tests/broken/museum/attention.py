"""Bugs of attention: what a position may see, along which axis, and how sharply.

Each attention is put into the same decoder, which is otherwise right.
"""

import torch
from tests.broken.museum.batches import VOCAB, telling_tokens
from tests.broken.museum.exhibit import Exhibit
from torch import nn
from torch.nn import functional

from pellucid.inspection.instrument.specimen import Specimen

WIDTH, HEADS, LONGEST = 32, 4, 32


class Block(nn.Module):
    def __init__(self, attention, width):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = attention
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    def __init__(self, attention, depth=2, width=WIDTH):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, width)
        self.positions = nn.Embedding(LONGEST, width)
        self.blocks = nn.ModuleList([Block(attention(width), width) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCAB)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Heads(nn.Module):
    """The parts that every attention below has; each says for itself how it mixes."""

    def __init__(self, width=WIDTH):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def split(self, x):
        B, T, C = x.shape
        return x.view(B, T, HEADS, C // HEADS).transpose(1, 2)

    def merge(self, x):
        B, H, T, D = x.shape
        return x.transpose(1, 2).reshape(B, T, H * D)

    def three(self, x):
        return self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))


def tril(T):
    return torch.ones(T, T).tril().bool()


def causal_mask_forgotten() -> Specimen:
    class Attention(Heads):
        def forward(self, x):
            q, k, v = self.three(x)
            scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
            return self.out(self.merge(scores.softmax(-1) @ v))

    return telling_tokens(Decoder(Attention))


def mask_beaten_by_large_scores() -> Specimen:
    class Attention(Heads):
        def __init__(self, width):
            super().__init__(width)
            for part in (self.query, self.key):  # as after training without weight decay
                part.weight.data.mul_(400)

        def forward(self, x):
            q, k, v = self.three(x)
            scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
            scores = scores - 1e4 * (~tril(x.shape[1])).float()
            return self.out(self.merge(scores.softmax(-1) @ v))

    return telling_tokens(Decoder(Attention))


def mask_multiplied() -> Specimen:
    class Attention(Heads):
        def forward(self, x):
            q, k, v = self.three(x)
            scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
            return self.out(self.merge((scores * tril(x.shape[1])).softmax(-1) @ v))  # exp(0) is 1

    return telling_tokens(Decoder(Attention))


def mask_after_softmax() -> Specimen:
    class Attention(Heads):
        def forward(self, x):
            q, k, v = self.three(x)
            weights = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(-1)
            return self.out(self.merge(weights.masked_fill(~tril(x.shape[1]), 0.0) @ v))

    return telling_tokens(Decoder(Attention))


def causal_flag_dropped_with_dropout() -> Specimen:
    class Attention(Heads):
        def forward(self, x):
            q, k, v = self.three(x)
            if self.training:  # the fused kernel was slow with dropout, so it was written out
                weights = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(-1)
                mixed = functional.dropout(weights, 0.1) @ v
            else:
                mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(self.merge(mixed))

    return telling_tokens(Decoder(Attention))


def mask_upside_down() -> Specimen:
    class Attention(Heads):
        def forward(self, x):
            q, k, v = self.three(x)
            scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
            scores = scores.masked_fill(torch.ones(x.shape[1], x.shape[1]).tril(-1).bool(), float("-inf"))
            return self.out(self.merge(scores.softmax(-1) @ v))

    return telling_tokens(Decoder(Attention))


def mask_one_too_far() -> Specimen:
    class Attention(Heads):
        def forward(self, x):
            q, k, v = self.three(x)
            seen = torch.ones(x.shape[1], x.shape[1]).tril(1).bool()
            mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
            return self.out(self.merge(mixed))

    return telling_tokens(Decoder(Attention))


def softmax_over_queries() -> Specimen:
    class Attention(Heads):
        def forward(self, x):
            q, k, v = self.three(x)
            scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
            scores = scores.masked_fill(~tril(x.shape[1]), float("-inf"))
            return self.out(self.merge(scores.softmax(-2) @ v))

    return telling_tokens(Decoder(Attention))


def softmax_over_the_batch() -> Specimen:
    class Attention(Heads):
        def forward(self, x):
            q, k, v = self.three(x)
            scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
            weights = scores.softmax(0).masked_fill(~tril(x.shape[1]), 0.0)
            return self.out(self.merge(weights @ v))

    return telling_tokens(Decoder(Attention))


def heads_split_by_view() -> Specimen:
    class Attention(Heads):
        def split(self, x):
            B, T, C = x.shape
            return x.reshape(B, HEADS, T, C // HEADS)

        def forward(self, x):
            q, k, v = self.three(x)
            return self.out(self.merge(functional.scaled_dot_product_attention(q, k, v, is_causal=True)))

    return telling_tokens(Decoder(Attention))


def heads_merged_by_view() -> Specimen:
    class Attention(Heads):
        def merge(self, x):
            B, H, T, D = x.shape
            return x.reshape(B, T, H * D)

        def forward(self, x):
            q, k, v = self.three(x)
            return self.out(self.merge(functional.scaled_dot_product_attention(q, k, v, is_causal=True)))

    return telling_tokens(Decoder(Attention))


def scale_forgotten() -> Specimen:
    class Attention(Heads):
        def __init__(self, width):
            super().__init__(width)
            for part in (self.query, self.key):
                nn.init.xavier_normal_(part.weight, gain=1.5)

        def forward(self, x):
            q, k, v = (part(x) for part in (self.query, self.key, self.value))  # one wide head
            scores = (q @ k.transpose(-2, -1)).masked_fill(~tril(x.shape[1]), float("-inf"))
            return self.out(scores.softmax(-1) @ v)

    return telling_tokens(Decoder(Attention, width=128))


def scale_the_wrong_way_round() -> Specimen:
    class Attention(Heads):
        def forward(self, x):
            q, k, v = self.three(x)
            scores = q @ k.transpose(-2, -1) * q.shape[-1] ** 0.5
            return self.out(self.merge(scores.masked_fill(~tril(x.shape[1]), float("-inf")).softmax(-1) @ v))

    return telling_tokens(Decoder(Attention, width=128))


def attention_by_argmax() -> Specimen:
    class Attention(Heads):
        def forward(self, x):
            q, k, v = self.three(x)
            scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
            best = scores.masked_fill(~tril(x.shape[1]), float("-inf")).argmax(-1)
            return self.out(self.merge(functional.one_hot(best, x.shape[1]).float() @ v))

    return telling_tokens(Decoder(Attention))


def weights_detached() -> Specimen:
    class Attention(Heads):
        def forward(self, x):
            q, k, v = self.three(x)
            scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
            weights = scores.masked_fill(~tril(x.shape[1]), float("-inf")).softmax(-1)
            self.last_weights = weights = weights.detach()  # kept for a picture, and then used
            return self.out(self.merge(weights @ v))

    return telling_tokens(Decoder(Attention))


def batch_first_forgotten() -> Specimen:
    class Attention(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.heads = nn.MultiheadAttention(width, HEADS)

        def forward(self, x):
            return self.heads(x, x, x, need_weights=False)[0]

    return telling_tokens(Decoder(Attention))


def query_is_key() -> Specimen:
    class Attention(Heads):
        def __init__(self, width):
            super().__init__(width)
            self.query = self.key = self.value = nn.Linear(width, width)

        def forward(self, x):
            q, k, v = self.three(x)
            return self.out(self.merge(functional.scaled_dot_product_attention(q, k, v, is_causal=True)))

    return telling_tokens(Decoder(Attention))


LEAK = ("future-leak",)

EXHIBITS = [
    Exhibit(causal_mask_forgotten, LEAK, "a decoder without a mask: each position sees what it shall tell"),
    Exhibit(mask_beaten_by_large_scores, LEAK, "barred scores get −10,000, and the scores have grown beyond that"),
    Exhibit(mask_multiplied, LEAK, "scores are multiplied by 0 where they should be −∞"),
    Exhibit(mask_after_softmax, LEAK, "weights are barred after the softmax, whose sum has seen the future"),
    Exhibit(causal_flag_dropped_with_dropout, LEAK, "the mask is only in the path that has no dropout"),
    Exhibit(mask_upside_down, LEAK, "the past is barred in place of the future"),
    Exhibit(mask_one_too_far, LEAK, "the diagonal of the mask is one too far, and the next token is seen"),
    Exhibit(softmax_over_queries, LEAK, "the softmax runs over queries, so that later ones change earlier weights"),
    Exhibit(softmax_over_the_batch, ("batch-mixing",), "the softmax runs over the rows of the batch"),
    Exhibit(heads_split_by_view, LEAK, "heads are cut by a view without transposing, and positions are mixed"),
    Exhibit(heads_merged_by_view, LEAK, "heads are joined by a reshape without transposing back"),
    Exhibit(scale_forgotten, ("attention-unscaled",), "scores without 1/√d decide before anything is learned"),
    Exhibit(scale_the_wrong_way_round, ("attention-unscaled",), "scores are multiplied by √d in place of divided"),
    Exhibit(attention_by_argmax, ("detached-path", "no-gradient"), "argmax picks one key; no gradient goes to queries"),
    Exhibit(weights_detached, ("detached-path", "no-gradient"), "weights were detached for a picture, and then used"),
    Exhibit(batch_first_forgotten, ("batch-mixing",), "without batch_first attention runs over the batch"),
    Exhibit(query_is_key, ("ties",), "one assignment made query, key and value the same layer"),
]
