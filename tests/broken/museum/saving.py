"""Bugs of tying and saving: layers that are one by accident, weights that should be one, and what is lost."""

import copy

import torch
from tests.broken.museum.batches import CLASSES, VOCAB, telling_classes, telling_tokens
from tests.broken.museum.exhibit import Exhibit
from torch import nn

from pellucid.inspection.instrument.specimen import Specimen

WIDTH = 32


class Reader(nn.Module):
    def __init__(self, width=WIDTH):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width)
        nn.init.normal_(self.embed.weight, std=0.1)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, VOCAB, bias=False)

    def forward(self, tokens):
        return self.head(self.gru(self.embed(tokens))[0])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, WIDTH)
        self.layers = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(4)])
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        x = torch.relu(self.first(x))
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return self.head(x)


def one_block_many_times() -> Specimen:
    model = Net()
    model.layers = nn.ModuleList([nn.Linear(WIDTH, WIDTH)] * 4)  # four names of one layer
    return telling_classes(model)


def one_norm_for_all() -> Specimen:
    class Model(nn.Module):
        """Each block was to have a norm of its own, and all got the default argument."""

        def __init__(self, norm):
            super().__init__()
            self.first = nn.Linear(8, WIDTH)
            parts = [nn.Sequential(nn.Linear(WIDTH, WIDTH), norm, nn.ReLU()) for _ in range(3)]
            self.blocks = nn.Sequential(*parts)
            self.head = nn.Linear(WIDTH, CLASSES)

        def forward(self, x):
            return self.head(self.blocks(self.first(x)))

    return telling_classes(Model(nn.BatchNorm1d(WIDTH)))


def layers_copied_with_their_weights() -> Specimen:
    model = Net()
    layer = nn.Linear(WIDTH, WIDTH)
    model.layers = nn.ModuleList([copy.deepcopy(layer) for _ in range(4)])  # one draw for all four
    return telling_classes(model)


def tied_by_a_copy() -> Specimen:
    model = Reader()
    model.head.weight = nn.Parameter(model.embed.weight.detach().clone())  # equal at the start, and then apart
    return telling_tokens(model)


def tied_weights_drawn_anew() -> Specimen:
    """The tie is made in __init__, undone by drawing the head anew, and written down in the configuration."""

    class Config:
        tie_word_embeddings = True

    model = Reader()
    model.config = Config()
    model.head.weight = model.embed.weight
    model.head.weight = nn.Parameter(0.1 * torch.randn(VOCAB, WIDTH))
    return telling_tokens(model)


def tie_lost_on_load() -> Specimen:
    class Model(Reader):
        def __init__(self):
            super().__init__()
            self.head.weight = self.embed.weight

        def load_state_dict(self, state, strict=True, assign=False):
            return super().load_state_dict({k: v.clone() for k, v in state.items()}, strict=strict, assign=True)

    return telling_tokens(Model())


def scale_not_saved() -> Specimen:
    class Model(Net):
        def __init__(self):
            super().__init__()
            self.scale = 0.5 + torch.rand(8)  # drawn once, in no state_dict: after loading it is another

        def forward(self, x):
            return super().forward(x * self.scale)

    return telling_classes(Model())


def statistics_not_saved() -> Specimen:
    class Model(Net):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.randn(8), persistent=False)

        def forward(self, x):
            return super().forward(x - self.mean)

    return telling_classes(Model())


def part_left_out_of_the_file() -> Specimen:
    class Model(Net):
        def state_dict(self, *args, **kwargs):
            state = super().state_dict(*args, **kwargs)
            return {key: value for key, value in state.items() if "layers.3" not in key}  # a filter for old files

        def load_state_dict(self, state, strict=True, assign=False):
            return super().load_state_dict(state, strict=False, assign=assign)

    return telling_classes(Model())


def encoder_is_the_decoder() -> Specimen:
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            stage = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
            self.first = nn.Linear(8, WIDTH)
            self.encoder = stage
            self.decoder = stage  # was to be a second one
            self.head = nn.Linear(WIDTH, CLASSES)

        def forward(self, x):
            return self.head(self.decoder(self.encoder(self.first(x))))

    return telling_classes(Model())


TIED = ("ties",)
SAVED = ("save-load", "ties")

EXHIBITS = [
    Exhibit(one_block_many_times, TIED, "[layer] * 4 is one layer with four names"),
    Exhibit(one_norm_for_all, TIED, "one norm object went into every block"),
    Exhibit(layers_copied_with_their_weights, TIED, "deepcopy: four layers begin with the same weights"),
    Exhibit(tied_by_a_copy, TIED, "a copy is no tie: head and embedding begin equal and part"),
    Exhibit(tied_weights_drawn_anew, TIED, "the tie was undone by drawing the head anew"),
    Exhibit(tie_lost_on_load, SAVED, "loading makes two weights of one"),
    Exhibit(scale_not_saved, SAVED, "a drawn tensor that is no buffer is not in the file"),
    Exhibit(statistics_not_saved, SAVED, "a buffer that is not persistent is not in the file"),
    Exhibit(part_left_out_of_the_file, SAVED, "one layer is filtered out of the file, and loading does not mind"),
    Exhibit(encoder_is_the_decoder, TIED, "encoder and decoder are one object"),
]
