"""Bugs of writing one token after the other: caches that go wrong, and answers that are given with the question."""

import torch
from tests.broken.museum.batches import BATCHES, VOCAB, of_tokens, sentences, telling_tokens
from tests.broken.museum.exhibit import Exhibit
from torch import nn
from torch.nn import functional

from pellucid.inspection.instrument.specimen import Specimen

WIDTH = 32


class Stepwise(nn.Module):
    """Reads all at once by forward, and one after the other by begin and advance."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.cell = nn.GRUCell(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB)

    def begin(self, batch):
        return torch.zeros(batch, WIDTH)

    def advance(self, tokens, state):
        state = self.cell(self.embed(tokens), state)
        return self.head(state), state

    def forward(self, tokens):
        state, scores = self.begin(len(tokens)), []
        for column in tokens.unbind(1):
            state = self.cell(self.embed(column), state)
            scores.append(self.head(state))
        return torch.stack(scores, dim=1)


def state_never_handed_on() -> Specimen:
    class Model(Stepwise):
        def advance(self, tokens, state):
            return self.head(self.cell(self.embed(tokens), state)), state  # the old one

    return telling_tokens(Model())


class Cached(nn.Module):
    """One head of attention with a cache of keys and values, as `forward(tokens, past_key_values, use_cache)`."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.positions = nn.Embedding(64, WIDTH)
        self.three = nn.Linear(WIDTH, 3 * WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB)

    def places(self, past, time):
        return torch.arange(past, past + time)

    def joined(self, old, new):
        return torch.cat([old, new], dim=1)

    def forward(self, tokens, past_key_values=None, use_cache=False):
        past = past_key_values[0].shape[1] if past_key_values is not None else 0
        time = tokens.shape[1]
        x = self.embed(tokens) + self.positions(self.places(past, time))
        q, k, v = self.three(x).chunk(3, dim=-1)
        if past_key_values is not None:
            k, v = self.joined(past_key_values[0], k), self.joined(past_key_values[1], v)
        seen = torch.ones(time, k.shape[1]).tril(k.shape[1] - time).bool()
        scores = self.head(x + functional.scaled_dot_product_attention(q, k, v, attn_mask=seen))
        return (scores, (k, v)) if use_cache else scores


def positions_begin_anew_with_the_cache() -> Specimen:
    class Model(Cached):
        def places(self, past, time):
            return torch.arange(time)  # each new token is the first one

    return telling_tokens(Model())


def cache_in_the_wrong_order() -> Specimen:
    class Model(Cached):
        def joined(self, old, new):
            return torch.cat([new, old], dim=1)[:, : old.shape[1]]  # the oldest never leaves, the newest is cut

    return telling_tokens(Model())


class Pairs(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.positions = nn.Parameter(0.1 * torch.randn(1, 32, WIDTH))
        self.body = nn.Transformer(WIDTH, 4, 1, 1, 64, dropout=0.0, batch_first=True)
        self.head = nn.Linear(WIDTH, VOCAB)

    def placed(self, tokens):
        return self.embed(tokens) + self.positions[:, : tokens.shape[1]]

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        return self.head(self.body(self.placed(source), self.placed(target), tgt_mask=mask, tgt_is_causal=True))


def translating(model, read) -> Specimen:
    """A source is told backwards; `read` makes of the target what the decoder reads."""
    batches = []
    for seed in BATCHES:
        source, _ = sentences(seed, time=6)
        target = source.flip(1)
        batches.append(((source, read(target)), target))
    (inputs, targets), *more = batches
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    return Specimen(model, inputs, targets, of_tokens, optimizer, tuple(more))


def decoder_is_given_the_answer() -> Specimen:
    return translating(Pairs(), lambda target: target.clone())  # not moved by one


def decoder_without_a_mask() -> Specimen:
    class Model(Pairs):
        def forward(self, source, target):
            return self.head(self.body(self.placed(source), self.placed(target)))

    return translating(Model(), lambda target: functional.pad(target[:, :-1], (1, 0)))


CACHE = ("cache-unlike",)

EXHIBITS = [
    Exhibit(state_never_handed_on, CACHE, "advance gives the old state back"),
    Exhibit(positions_begin_anew_with_the_cache, CACHE, "with a cache every new token has position 0"),
    Exhibit(cache_in_the_wrong_order, CACHE, "the new key goes to the front, and the last one is cut off"),
    Exhibit(
        decoder_is_given_the_answer,
        ("shifted-targets", "future-leak"),
        "the decoder reads the very token it shall tell",
    ),
    Exhibit(decoder_without_a_mask, ("shifted-targets", "future-leak"), "teacher forcing without a mask"),
]
