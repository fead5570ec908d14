"""Bugs of shapes that torch accepts: rows, positions and features that change places or are added crosswise."""

from dataclasses import replace

import torch
from tests.broken.museum.batches import (
    CLASSES,
    VOCAB,
    clusters,
    orders,
    pictures,
    slopes,
    telling_classes,
    telling_numbers,
    telling_tokens,
)
from tests.broken.museum.data import trained
from tests.broken.museum.exhibit import Exhibit
from torch import nn
from torch.nn import functional

from pellucid.inspection.instrument.specimen import Specimen

WIDTH = 32


class Scorer(nn.Module):
    """Embeds tokens, lets `mixed` do something wrong, and scores each position."""

    def __init__(self, width=WIDTH, norm=None):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width)
        self.norm = norm or nn.LayerNorm(width)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, VOCAB)

    def mixed(self, x):
        return x

    def forward(self, tokens):
        x = self.mixed(self.embed(tokens))
        return self.head(self.gru(x)[0])


class Net(nn.Module):
    def __init__(self, outputs=CLASSES):
        super().__init__()
        self.hidden = nn.Linear(8, WIDTH)
        self.head = nn.Linear(WIDTH, outputs)

    def mixed(self, x):
        return x

    def forward(self, x):
        return self.head(torch.relu(self.mixed(self.hidden(x))))


def view_in_place_of_transpose() -> Specimen:
    class Model(Scorer):
        def __init__(self):
            super().__init__()
            self.gru = nn.GRU(WIDTH, WIDTH)

        def forward(self, tokens):
            B, T = tokens.shape
            out, _ = self.gru(self.embed(tokens).view(T, B, WIDTH))
            return self.head(out.view(B, T, WIDTH))

    return telling_tokens(Model())


def mean_over_the_batch() -> Specimen:
    class Model(Net):
        def mixed(self, x):
            return x - x.mean(0)  # was to be the mean of each row

    return telling_classes(Model())


def pooled_over_the_wrong_axis() -> Specimen:
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(VOCAB, WIDTH)
            self.head = nn.Linear(WIDTH, 2)

        def forward(self, tokens):
            return self.head(self.embed(tokens).mean(dim=0))  # (time, width), and time happens to be the batch

    def data(seed):
        tokens, labels = orders(seed, rows=10, time=10)
        return tokens, labels

    return telling_classes(Model(), data)


def divided_by_the_largest_of_all() -> Specimen:
    class Model(Net):
        def forward(self, x):
            return super().forward(x / x.abs().max())

    return telling_classes(Model())


def standardised_with_the_batch() -> Specimen:
    class Model(Net):
        def forward(self, x):
            return super().forward((x - x.mean()) / x.std())

    return telling_classes(Model())


def column_plus_row() -> Specimen:
    class Model(Net):
        def __init__(self):
            super().__init__(1)
            self.offset = nn.Linear(8, 1)

        def forward(self, x):
            crossed = super().forward(x) + self.offset(x).squeeze(1)  # (N, 1) + (N) is (N, N)
            return crossed.mean(1, keepdim=True)

    return telling_numbers(Model())


def layer_norm_over_time() -> Specimen:
    class Model(Scorer):
        def __init__(self):
            super().__init__(norm=nn.LayerNorm(12))

        def mixed(self, x):
            return self.norm(x.transpose(1, 2)).transpose(1, 2)

    return telling_tokens(Model())


def layer_norm_over_time_and_width() -> Specimen:
    class Model(Scorer):
        def mixed(self, x):
            return functional.layer_norm(x, x.shape[1:])

    return telling_tokens(Model())


def layer_norm_over_the_batch() -> Specimen:
    class Model(Net):
        def mixed(self, x):
            return functional.layer_norm(x.t(), (len(x),)).t()

    return telling_classes(Model())


def softmax_over_the_rows_in_pooling() -> Specimen:
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(VOCAB, WIDTH)
            self.ask = nn.Linear(WIDTH, 1)
            self.head = nn.Linear(WIDTH, 2)

        def forward(self, tokens):
            x = self.embed(tokens)
            return self.head((self.ask(x).softmax(dim=0) * x).sum(dim=1))  # weights sum to 1 over the batch

    return telling_classes(Model(), orders)


def contrast_within_the_batch() -> Specimen:
    class Model(Net):
        def mixed(self, x):
            return torch.cat([x[:1], x[1:] - x[:-1]])  # neighbours in time were meant; these are other rows

    return telling_classes(Model())


def targets_shuffled_by_a_transpose() -> Specimen:
    """Images come as (height, width, rows): a reshape where a permute was needed mixes the rows."""

    def data(seed):
        images, labels = pictures(seed, rows=64)
        return images[:, 0].permute(1, 2, 0).reshape(64, 1, 8, 8), labels

    model = nn.Sequential(nn.Flatten(), nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES))
    return trained(telling_classes(model, data), data)


def predictions_against_a_row_of_weights() -> Specimen:
    """Weighted squared error, where the weights (N) meet errors (N, 1)."""
    patient = telling_numbers(Net(1))
    weights = 1 + torch.arange(32) % 3

    def loss(outputs, targets):
        return (weights * (outputs - targets) ** 2).mean()

    return replace(patient, loss=loss)


def one_number_for_all() -> Specimen:
    class Model(Net):
        def forward(self, x):
            return super().forward(x).mean(0, keepdim=True).expand(len(x), -1)

    return telling_classes(Model(), clusters)


def targets_of_the_wrong_rank() -> Specimen:
    features, wanted = slopes(1)
    patient = telling_numbers(Net(1), loss=functional.smooth_l1_loss)
    return replace(patient, inputs=(features,), targets=wanted, more=())


MIXING = ("batch-mixing",)
LEAK = ("future-leak",)

EXHIBITS = [
    Exhibit(view_in_place_of_transpose, MIXING, "(batch, time) read as (time, batch) by a view: rows are mixed"),
    Exhibit(mean_over_the_batch, MIXING, "the mean over rows is taken from each"),
    Exhibit(pooled_over_the_wrong_axis, MIXING, "pooled over the batch, which is as long as time"),
    Exhibit(divided_by_the_largest_of_all, MIXING, "inputs are divided by the largest of the whole batch"),
    Exhibit(standardised_with_the_batch, MIXING, "inputs are standardised with the batch they come in"),
    Exhibit(column_plus_row, MIXING, "(N, 1) + (N) adds all to all inside the model"),
    Exhibit(layer_norm_over_time, LEAK, "layer norm over positions: each knows the later ones"),
    Exhibit(layer_norm_over_time_and_width, LEAK, "layer norm over positions and features at once"),
    Exhibit(layer_norm_over_the_batch, MIXING, "layer norm over the rows of the batch"),
    Exhibit(softmax_over_the_rows_in_pooling, MIXING, "attention pooling with a softmax over the batch"),
    Exhibit(contrast_within_the_batch, MIXING, "differences of neighbouring rows"),
    Exhibit(
        targets_shuffled_by_a_transpose, ("labels-ignored",), "a reshape where a permute was needed: rows are mixed"
    ),
    Exhibit(
        predictions_against_a_row_of_weights, ("target-broadcast", "batch-mixing"), "weights (N) times errors (N, 1)"
    ),
    Exhibit(one_number_for_all, (*MIXING, "labels-ignored"), "the mean over the batch is every row's answer"),
    Exhibit(targets_of_the_wrong_rank, ("target-broadcast",), "a smooth L1 loss of (N, 1) and (N)"),
]
