"""Bugs on the way back: places where the gradient stops, and parameters that it never reaches."""

import torch
from tests.broken.museum.batches import CLASSES, VOCAB, orders, telling_classes, telling_tokens
from tests.broken.museum.exhibit import Exhibit
from torch import nn
from torch.nn import functional

from pellucid.inspection.instrument.specimen import Specimen


class TwoStages(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 32), nn.ReLU())
        self.middle = nn.Linear(32, 32)
        self.head = nn.Linear(32, CLASSES)

    def between(self, x):
        return x

    def forward(self, x):
        x = self.between(self.encoder(x))
        return self.head(torch.relu(self.middle(x)))


def frozen_layer() -> Specimen:
    model = TwoStages()
    for parameter in model.middle.parameters():
        parameter.requires_grad = False  # from a debugging session
    return telling_classes(model)


def frozen_from_pretrained() -> Specimen:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding.from_pretrained(torch.randn(VOCAB, 16))  # freeze=True unless told otherwise
            self.gru = nn.GRU(16, 32, batch_first=True)
            self.head = nn.Linear(32, VOCAB)

        def forward(self, tokens):
            return self.head(self.gru(self.embed(tokens))[0])

    return telling_tokens(Net())


def detach_in_the_path() -> Specimen:
    class Net(TwoStages):
        def between(self, x):
            return x.detach()

    return telling_classes(Net())


def data_in_the_path() -> Specimen:
    class Net(TwoStages):
        def between(self, x):
            return x.data

    return telling_classes(Net())


def numpy_round_trip() -> Specimen:
    class Net(TwoStages):
        def between(self, x):
            return torch.from_numpy(x.detach().numpy().clip(0.0, 6.0))

    return telling_classes(Net())


def new_tensor_in_the_path() -> Specimen:
    class Net(TwoStages):
        def between(self, x):
            return torch.tensor(x.tolist())

    return telling_classes(Net())


def no_grad_around_the_encoder() -> Specimen:
    class Net(TwoStages):
        def forward(self, x):
            with torch.no_grad():
                x = self.encoder(x)
            return self.head(torch.relu(self.middle(x)))

    return telling_classes(Net())


def rounded_in_the_path() -> Specimen:
    class Net(TwoStages):
        def between(self, x):
            return (8 * x).round() / 8

    return telling_classes(Net())


def cast_to_whole_numbers() -> Specimen:
    class Net(TwoStages):
        def between(self, x):
            return (x * 10).long().float() / 10

    return telling_classes(Net())


def argmax_in_the_path() -> Specimen:
    class Net(nn.Module):
        """The likeliest of 16 codes is looked up, and the codes are never learned."""

        def __init__(self):
            super().__init__()
            self.coder = nn.Linear(8, 16)
            self.codes = nn.Embedding(16, 32)
            self.head = nn.Linear(32, CLASSES)

        def forward(self, x):
            return self.head(torch.relu(self.codes(self.coder(x).argmax(-1))))

    return telling_classes(Net())


def layers_in_a_plain_list() -> Specimen:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Linear(8 if i == 0 else 32, 32) for i in range(3)]  # no ModuleList
            self.head = nn.Linear(32, CLASSES)

        def forward(self, x):
            for layer in self.layers:
                x = torch.relu(layer(x))
            return self.head(x)

    return telling_classes(Net())


def parameters_as_plain_tensors() -> Specimen:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.randn(8, 32) / 8**0.5
            self.weight.requires_grad = True  # has a gradient, and is in no list of parameters
            self.head = nn.Linear(32, CLASSES)

        def forward(self, x):
            return self.head(torch.relu(x @ self.weight))

    return telling_classes(Net())


def parameter_wrapped_anew() -> Specimen:
    class Net(TwoStages):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(32))

        def between(self, x):
            return x * nn.Parameter(functional.softplus(self.scale))  # a new leaf at every call

    return telling_classes(Net())


def branch_never_called() -> Specimen:
    class Net(TwoStages):
        def __init__(self):
            super().__init__()
            self.skip = nn.Linear(8, 32)  # was to be added in forward

    return telling_classes(Net())


def branch_times_zero() -> Specimen:
    class Net(TwoStages):
        def __init__(self):
            super().__init__()
            self.skip = nn.Linear(8, 32)
            self.alpha = 0.0  # a number, not a parameter: it never leaves 0

        def forward(self, x):
            return self.head(torch.relu(self.middle(self.encoder(x))) + self.alpha * self.skip(x))

    return telling_classes(Net())


def clamped_where_all_is_outside() -> Specimen:
    class Net(TwoStages):
        def forward(self, x):
            return (super().forward(x) + 20).clamp(0, 1)

    return telling_classes(Net())


def both_low_rank_factors_zero() -> Specimen:
    class LowRank(nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base = base.requires_grad_(False)
            self.down = nn.Parameter(torch.zeros(8, 2))
            self.up = nn.Parameter(torch.zeros(2, 32))  # one of them has to be drawn

        def forward(self, x):
            return self.base(x) + x @ self.down @ self.up

    model = TwoStages()
    model.encoder[0] = LowRank(model.encoder[0])
    return telling_classes(model)


def source_never_read() -> Specimen:
    class Net(nn.Module):
        """An encoder and a decoder whose cross-attention looks at the decoder itself."""

        def __init__(self, width=32):
            super().__init__()
            self.embed = nn.Embedding(VOCAB, width)
            self.encoder = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
            self.query = nn.Parameter(torch.randn(1, 1, width))
            self.cross = nn.MultiheadAttention(width, 4, batch_first=True)
            self.head = nn.Linear(width, 2)

        def forward(self, tokens):
            _memory = self.encoder(self.embed(tokens))
            query = self.query.expand(len(tokens), 1, -1)
            return self.head(self.cross(query, query, query)[0][:, 0])  # keys and values should be the memory

    return telling_classes(Net(), orders)


STOPPED = ("detached-path", "no-gradient")
UNSEEN = ("no-gradient", "not-in-optimizer")

EXHIBITS = [
    Exhibit(frozen_layer, ("no-gradient", "not-in-optimizer"), "a layer in the middle was left frozen"),
    Exhibit(
        frozen_from_pretrained, ("no-gradient", "not-in-optimizer"), "from_pretrained freezes, and vectors were drawn"
    ),
    Exhibit(detach_in_the_path, STOPPED, "detach() between encoder and head"),
    Exhibit(data_in_the_path, STOPPED, ".data is a detach that does not say so"),
    Exhibit(numpy_round_trip, STOPPED, "through numpy and back: no gradient comes through"),
    Exhibit(new_tensor_in_the_path, STOPPED, "torch.tensor of a list is a new beginning"),
    Exhibit(no_grad_around_the_encoder, STOPPED, "no_grad was left around the encoder"),
    Exhibit(rounded_in_the_path, STOPPED, "rounding is flat: its gradient is 0"),
    Exhibit(cast_to_whole_numbers, STOPPED, "whole numbers have no gradient"),
    Exhibit(argmax_in_the_path, STOPPED, "argmax between coder and codes"),
    Exhibit(layers_in_a_plain_list, UNSEEN, "layers in a Python list are no parameters"),
    Exhibit(parameters_as_plain_tensors, UNSEEN, "a tensor with requires_grad is no parameter"),
    Exhibit(parameter_wrapped_anew, STOPPED, "a parameter is wrapped in a new one at every call"),
    Exhibit(branch_never_called, STOPPED, "a layer was made and never called"),
    Exhibit(branch_times_zero, STOPPED, "a branch is multiplied by a constant 0"),
    Exhibit(clamped_where_all_is_outside, STOPPED, "clamp is flat where all values are"),
    Exhibit(both_low_rank_factors_zero, STOPPED, "both factors are 0: neither gets a gradient, ever"),
    Exhibit(source_never_read, STOPPED, "cross-attention reads the decoder, never the source"),
]
