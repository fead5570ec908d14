"""Bugs of recurrent nets, convolutions and positions: order, direction, and what is carried from call to call."""

import torch
from tests.broken.museum.batches import VOCAB, orders, sentences, telling_classes, telling_tokens
from tests.broken.museum.exhibit import Exhibit
from torch import nn
from torch.nn import functional

from pellucid.inspection.instrument.specimen import Specimen

WIDTH = 32


class Reader(nn.Module):
    """Embeds, reads in a way of its own, and scores each position."""

    def __init__(self, width=WIDTH):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width)
        self.head = nn.Linear(width, VOCAB)


def state_carried_between_batches() -> Specimen:
    class Model(Reader):
        def __init__(self):
            super().__init__()
            self.gru = nn.GRU(WIDTH, WIDTH, batch_first=True)
            self.state = None

        def forward(self, tokens):
            out, state = self.gru(self.embed(tokens), self.state)
            self.state = state.detach()  # the next batch is another text
            return self.head(out)

    return telling_tokens(Model())


def recurrent_batch_first_forgotten() -> Specimen:
    class Model(Reader):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(WIDTH, WIDTH)

        def forward(self, tokens):
            return self.head(self.lstm(self.embed(tokens))[0])

    return telling_tokens(Model())


def language_model_of_both_directions() -> Specimen:
    class Model(Reader):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(WIDTH, WIDTH // 2, batch_first=True, bidirectional=True)

        def forward(self, tokens):
            return self.head(self.lstm(self.embed(tokens))[0])

    return telling_tokens(Model())


def convolution_with_padding_on_both_sides() -> Specimen:
    class Model(Reader):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv1d(WIDTH, WIDTH, 3, padding="same")

        def forward(self, tokens):
            return self.head(torch.relu(self.conv(self.embed(tokens).transpose(1, 2)).transpose(1, 2)))

    return telling_tokens(Model())


def convolution_over_features() -> Specimen:
    class Model(nn.Module):
        """(batch, time, width) where Conv1d wants (batch, width, time); both are 12."""

        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(VOCAB, 12)
            self.conv = nn.Conv1d(12, 12, 3)
            self.head = nn.Linear(12, VOCAB)

        def forward(self, tokens):
            return self.head(torch.relu(self.conv(functional.pad(self.embed(tokens), (2, 0)))))

    return telling_tokens(Model())


def causal_padding_after_dilation() -> Specimen:
    class Model(Reader):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv1d(WIDTH, WIDTH, 3, dilation=4)

        def forward(self, tokens):
            x = functional.pad(self.embed(tokens).transpose(1, 2), (2, 6))  # 8 on the left were needed
            return self.head(torch.relu(self.conv(x)).transpose(1, 2))

    return telling_tokens(Model())


def context_is_the_mean_of_all() -> Specimen:
    class Model(Reader):
        def __init__(self):
            super().__init__()
            self.gru = nn.GRU(WIDTH, WIDTH, batch_first=True)

        def forward(self, tokens):
            out, _ = self.gru(self.embed(tokens))
            return self.head(out + out.mean(1, keepdim=True))

    return telling_tokens(Model())


def instance_norm_in_a_reader() -> Specimen:
    class Model(Reader):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv1d(WIDTH, WIDTH, 2)
            self.norm = nn.InstanceNorm1d(WIDTH)

        def forward(self, tokens):
            x = functional.pad(self.embed(tokens).transpose(1, 2), (1, 0))
            return self.head(torch.relu(self.norm(self.conv(x))).transpose(1, 2))

    return telling_tokens(Model())


def last_row_for_last_step() -> Specimen:
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(VOCAB, WIDTH)
            self.gru = nn.GRU(WIDTH, WIDTH, batch_first=True)
            self.head = nn.Linear(WIDTH, 2)

        def forward(self, tokens):
            return self.head(self.gru(self.embed(tokens))[0][-1])  # of (batch, time, width), and both are 10

    return telling_classes(Model(), lambda seed: orders(seed, rows=10, time=10))


def directions_joined_by_a_view() -> Specimen:
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(VOCAB, WIDTH)
            self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True, bidirectional=True)
            self.head = nn.Linear(2 * WIDTH, 2)

        def forward(self, tokens):
            _, (state, _) = self.lstm(self.embed(tokens))  # (directions, batch, width)
            return self.head(state.reshape(len(tokens), -1))

    return telling_classes(Model(), orders)


class Encoder(nn.Module):
    """A bag of attention over (batch, time), told which of two tokens comes first."""

    def __init__(self, width=WIDTH):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 2)

    def placed(self, x):
        return x

    def forward(self, tokens):
        return self.head(self.body(self.placed(self.embed(tokens))).mean(1))


def positions_not_added() -> Specimen:
    return telling_classes(Encoder(), orders)


def positions_made_and_not_added() -> Specimen:
    class Model(Encoder):
        def __init__(self):
            super().__init__()
            self.positions = nn.Embedding(64, WIDTH)

        def placed(self, x):
            self.positions(torch.arange(x.shape[1]))  # the sum was lost in a merge
            return x

    return telling_classes(Model(), orders)


def positions_the_same_everywhere() -> Specimen:
    class Model(Encoder):
        def __init__(self):
            super().__init__()
            self.positions = nn.Embedding(64, WIDTH)

        def placed(self, x):
            return x + self.positions(torch.zeros(x.shape[1], dtype=torch.long))

    return telling_classes(Model(), orders)


def positions_by_row() -> Specimen:
    class Model(Encoder):
        """A sinusoidal table for (time, batch, width) added to (batch, time, width)."""

        def __init__(self):
            super().__init__()
            angles = torch.arange(64)[:, None] / 100 ** (torch.arange(0, WIDTH, 2) / WIDTH)
            self.register_buffer("table", torch.cat([angles.sin(), angles.cos()], dim=1)[:, None])

        def placed(self, x):
            return x + self.table[: len(x)]

    return telling_classes(Model(), orders)


class Positioned(nn.Module):
    """A causal transformer with a table of 8 positions, which reads 12."""

    def __init__(self, width=WIDTH):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width)
        self.positions = nn.Embedding(8, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, VOCAB)

    def places(self, time):
        return torch.arange(time)

    def forward(self, tokens):
        x = self.embed(tokens) + self.positions(self.places(tokens.shape[1]))
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.head(self.body(x, mask, is_causal=True))


def positions_beyond_the_table_clamped() -> Specimen:
    class Model(Positioned):
        def places(self, time):
            return torch.arange(time).clamp(max=7)

    return telling_tokens(Model())


def positions_beyond_the_table_wrapped() -> Specimen:
    class Model(Positioned):
        def places(self, time):
            return torch.arange(time) % 8

    return telling_tokens(Model())


def longer_than_the_table() -> Specimen:
    return telling_tokens(Positioned(), lambda seed: sentences(seed, time=12))


LEAK = ("future-leak",)
MIXING = ("batch-mixing",)
NOWHERE = ("no-positions",)
OVERFLOW = ("positions-overflow",)

EXHIBITS = [
    Exhibit(state_carried_between_batches, ("non-determinism",), "the state of one batch begins the next"),
    Exhibit(recurrent_batch_first_forgotten, MIXING, "an LSTM without batch_first reads across the rows"),
    Exhibit(language_model_of_both_directions, LEAK, "an LSTM in both directions tells the next token"),
    Exhibit(convolution_with_padding_on_both_sides, LEAK, "a convolution that is padded on both sides sees one ahead"),
    Exhibit(convolution_over_features, LEAK, "a convolution over features mixes all positions"),
    Exhibit(causal_padding_after_dilation, LEAK, "padding as for a dilation of 1"),
    Exhibit(context_is_the_mean_of_all, LEAK, "the mean over all positions is added to each"),
    Exhibit(instance_norm_in_a_reader, LEAK, "instance norm over time: each position knows the later ones"),
    Exhibit(last_row_for_last_step, MIXING, "out[-1] is the last row, not the last step"),
    Exhibit(directions_joined_by_a_view, MIXING, "(directions, batch, width) reshaped: rows are mixed"),
    Exhibit(positions_not_added, NOWHERE, "attention without positions is a bag, and order is asked for"),
    Exhibit(positions_made_and_not_added, (*NOWHERE, "no-gradient"), "positions are looked up and not added"),
    Exhibit(positions_the_same_everywhere, NOWHERE, "every position has number 0"),
    Exhibit(positions_by_row, (*MIXING, *NOWHERE), "positions are numbered along the batch"),
    Exhibit(positions_beyond_the_table_clamped, OVERFLOW, "all positions past the table are the last one"),
    Exhibit(positions_beyond_the_table_wrapped, OVERFLOW, "positions past the table begin again at 0"),
    Exhibit(longer_than_the_table, ("opening", *OVERFLOW), "twelve tokens, and positions for eight"),
]
