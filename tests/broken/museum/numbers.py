"""Numbers that are none: where NaN and infinity begin, in the forward pass or only on the way back."""

from dataclasses import replace

import torch
from tests.broken.museum.batches import CLASSES, VOCAB, clusters, orders, telling_classes, telling_numbers
from tests.broken.museum.exhibit import Exhibit
from torch import nn
from torch.nn import functional

from pellucid.inspection.instrument.specimen import Specimen


class Net(nn.Module):
    def __init__(self, outputs=CLASSES):
        super().__init__()
        self.hidden = nn.Linear(8, 32)
        self.head = nn.Linear(32, outputs)

    def between(self, x):
        return x

    def forward(self, x):
        return self.head(self.between(torch.relu(self.hidden(x))))


def logarithm_of_zero() -> Specimen:
    class Model(Net):
        def between(self, x):
            return x.log()  # a ReLU is 0 half of the time

    return telling_classes(Model())


def root_of_zero_on_the_way_back() -> Specimen:
    class Model(Net):
        def forward(self, x):
            x = self.hidden(x)
            return self.head(((x - x[:, :1]) ** 2).sqrt())  # how far from the first unit, which is 0 from itself

    return telling_classes(Model())


def division_by_the_deviation_of_a_constant() -> Specimen:
    class Model(Net):
        def forward(self, x):
            return super().forward((x - x.mean(0)) / x.std(0))

    def data(seed):
        points, labels = clusters(seed)
        points[:, 5] = 3.0
        return points, labels

    return telling_classes(Model(), data)


def softmax_written_by_hand() -> Specimen:
    class Model(Net):
        def forward(self, x):
            powers = (1000 * super().forward(x)).exp()
            return (powers / powers.sum(-1, keepdim=True)).log()

    return replace(telling_classes(Model()), loss=nn.NLLLoss())


def norm_of_a_zero_row() -> Specimen:
    class Model(Net):
        def forward(self, x):
            return super().forward(x / x.norm(dim=-1, keepdim=True))

    def data(seed):
        points, labels = clusters(seed)
        points[7] = 0.0
        return points, labels

    return telling_classes(Model(), data)


def distance_of_equals_on_the_way_back() -> Specimen:
    def loss(outputs, targets):
        return torch.sqrt(((outputs - targets) ** 2).sum(-1)).mean()

    patient = telling_numbers(Net(1), loss=loss)
    return replace(patient, targets=patient.outputs().detach(), more=())


def where_hides_the_forward_only() -> Specimen:
    class Model(Net):
        def forward(self, x):
            x = self.hidden(x)
            return self.head(torch.where(x > 0, x.sqrt(), 0.0))  # the branch that is not taken has a gradient, too

    return telling_classes(Model())


def row_of_padding_only() -> Specimen:
    class Model(nn.Module):
        def __init__(self, width=32):
            super().__init__()
            self.embed = nn.Embedding(VOCAB, width)
            self.positions = nn.Parameter(0.02 * torch.randn(10, width))
            self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
            self.head = nn.Linear(width, 2)

        def forward(self, tokens):
            x = self.embed(tokens) + self.positions
            mixed, _ = self.attention(x, x, x, key_padding_mask=tokens == 0)
            return self.head(mixed.mean(1))

    def data(seed):
        tokens, labels = orders(seed)
        tokens[5] = 0  # an empty text
        return tokens, labels

    return telling_classes(Model(), data)


def half_precision_overflows() -> Specimen:
    class Model(Net):
        def between(self, x):
            return (x * 3000).half().pow(2).float() / 9e6

    return telling_classes(Model())


def cosine_of_one_beyond() -> Specimen:
    class Model(Net):
        def between(self, x):
            x = functional.normalize(x + 1e-3, dim=-1)
            return x * torch.acos((x * x).sum(-1, keepdim=True) * 1.00001)  # rounding takes a cosine past 1

    return telling_classes(Model())


NAN = ("nan-origin",)

EXHIBITS = [
    Exhibit(logarithm_of_zero, NAN, "log of a ReLU"),
    Exhibit(root_of_zero_on_the_way_back, NAN, "the root of 0 is finite, its slope is not"),
    Exhibit(division_by_the_deviation_of_a_constant, NAN, "a constant column has deviation 0"),
    Exhibit(softmax_written_by_hand, NAN, "exp overflows where softmax would not"),
    Exhibit(norm_of_a_zero_row, NAN, "a row of zeros is divided by its norm"),
    Exhibit(distance_of_equals_on_the_way_back, NAN, "the root of a distance of 0 has no slope"),
    Exhibit(where_hides_the_forward_only, NAN, "torch.where hides a NaN forward and not backward"),
    Exhibit(row_of_padding_only, NAN, "a row of padding alone has no key to look at"),
    Exhibit(half_precision_overflows, NAN, "squares beyond 65,504 in half precision"),
    Exhibit(cosine_of_one_beyond, NAN, "acos of a little more than 1"),
]
