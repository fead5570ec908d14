"""Bugs of depth and of first weights: signals that die, saturate, fade or grow before anything is learned."""

import torch
from tests.broken.museum.batches import CLASSES, VOCAB, clusters, telling_classes, telling_tokens
from tests.broken.museum.exhibit import Exhibit
from torch import nn

from pellucid.inspection.instrument.specimen import Specimen

WIDTH = 32


def stack(activation, depth, width=WIDTH, first=8, outputs=CLASSES) -> nn.Sequential:
    layers = []
    for i in range(depth):
        layers += [nn.Linear(first if i == 0 else width, width), activation()]
    return nn.Sequential(*layers, nn.Linear(width, outputs))


def linear_parts(model):
    return [part for part in model.modules() if isinstance(part, nn.Linear)]


def dead_by_their_biases() -> Specimen:
    model = stack(nn.ReLU, 2)
    nn.init.constant_(model[2].bias, -10.0)
    return telling_classes(model)


def dead_after_one_giant_step() -> Specimen:
    model = stack(nn.ReLU, 2)
    nn.init.constant_(model[0].bias, 50.0)
    nn.init.uniform_(model[2].weight, -1.0, 0.0)
    return telling_classes(model)


def tanh_saturated() -> Specimen:
    model = stack(nn.Tanh, 2, width=128, first=128)
    for part in linear_parts(model)[:-1]:
        nn.init.normal_(part.weight)  # without 1/√fan-in
    return telling_classes(model, lambda seed: clusters(seed, width=128))


def sigmoid_saturated() -> Specimen:
    model = stack(nn.Sigmoid, 1)
    nn.init.normal_(model[0].weight, std=20.0)
    return telling_classes(model)


def sigmoids_in_depth() -> Specimen:
    return telling_classes(stack(nn.Sigmoid, 12))


def tanh_fading_in_depth() -> Specimen:
    return telling_classes(stack(nn.Tanh, 30))


def growing_in_depth() -> Specimen:
    model = stack(nn.ReLU, 12)
    for part in linear_parts(model):
        nn.init.normal_(part.weight, std=3 / WIDTH**0.5)
    return telling_classes(model)


def residuals_doubled() -> Specimen:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(8, WIDTH)
            self.layers = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(16)])
            self.head = nn.Linear(WIDTH, CLASSES)

        def forward(self, x):
            x = self.first(x)
            for layer in self.layers:
                x = x + x + torch.relu(layer(x))  # the skip was added twice
            return self.head(x)

    return telling_classes(Net())


def all_weights_zero() -> Specimen:
    model = stack(nn.ReLU, 2)
    for part in linear_parts(model):
        nn.init.zeros_(part.weight)
    return telling_classes(model)


def all_weights_the_same() -> Specimen:
    model = stack(nn.Tanh, 2)
    for part in linear_parts(model):
        nn.init.constant_(part.weight, 0.05)
        nn.init.zeros_(part.bias)
    return telling_classes(model)


def linear_after_linear() -> Specimen:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1 = nn.Linear(8, WIDTH)
            self.fc2 = nn.Linear(WIDTH, WIDTH)
            self.fc3 = nn.Linear(WIDTH, CLASSES)

        def forward(self, x):
            return self.fc3(self.fc2(self.fc1(x)))

    return telling_classes(Net())


def bias_before_batch_norm() -> Specimen:
    model = nn.Sequential(nn.Linear(8, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES))
    return telling_classes(model)


def post_norm_in_depth_without_warm_up() -> Specimen:
    class Net(nn.Module):
        def __init__(self, width=WIDTH):
            super().__init__()
            self.embed = nn.Embedding(VOCAB, width)
            self.positions = nn.Embedding(12, width)
            layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
            self.body = nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)
            self.head = nn.Linear(width, VOCAB)

        def forward(self, tokens):
            x = self.embed(tokens) + self.positions.weight[: tokens.shape[1]]
            mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
            return self.head(self.body(x, mask, is_causal=True))

    return telling_tokens(Net(), rate=1e-2)


def tied_head_without_scale() -> Specimen:
    class Net(nn.Module):
        def __init__(self, width=256):
            super().__init__()
            self.embed = nn.Embedding(VOCAB, width)  # N(0, 1), which is far too large for a head
            self.gru = nn.GRU(width, width, batch_first=True)
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, VOCAB, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, tokens):
            return self.head(self.norm(self.gru(self.embed(tokens))[0]))

    return telling_tokens(Net())


def last_bias_of_thousands() -> Specimen:
    model = stack(nn.ReLU, 1)
    model[-1].bias.data[0] = 1000.0
    return telling_classes(model)


DEPTH = ("gradients-over-depth",)

EXHIBITS = [
    Exhibit(dead_by_their_biases, ("dead-units",), "biases of −10: no unit of the layer ever speaks"),
    Exhibit(dead_after_one_giant_step, ("dead-units",), "large inputs times negative weights: all units are 0"),
    Exhibit(tanh_saturated, ("saturated",), "weights of deviation 1 with 128 inputs: tanh is ±1"),
    Exhibit(sigmoid_saturated, ("saturated",), "weights of deviation 20: the sigmoid is 0 or 1"),
    Exhibit(sigmoids_in_depth, DEPTH, "twelve sigmoids: the gradient is divided by 4 at each"),
    Exhibit(tanh_fading_in_depth, DEPTH, "thirty tanh layers with torch's default weights"),
    Exhibit(growing_in_depth, (*DEPTH, "initial-loss"), "weights too large by a factor: values grow at each layer"),
    Exhibit(residuals_doubled, (*DEPTH, "initial-loss"), "the skip is added twice, and values double at each layer"),
    Exhibit(
        all_weights_zero, ("no-gradient", "detached-path", "dead-units"), "zero weights: no gradient leaves the head"
    ),
    Exhibit(all_weights_the_same, ("ties", "symmetry", "cannot-overfit"), "all units of a layer are one unit"),
    Exhibit(linear_after_linear, ("linear-in-a-row",), "three linear layers without anything between", is_slight=True),
    Exhibit(bias_before_batch_norm, ("bias-before-norm",), "a bias that batch norm takes away", is_slight=True),
    Exhibit(post_norm_in_depth_without_warm_up, ("post-norm-depth", "learning-rate"), "12 post-norm layers at 0.01"),
    Exhibit(
        tied_head_without_scale, ("initial-loss",), "the head is an embedding of deviation 1: the first loss is huge"
    ),
    Exhibit(last_bias_of_thousands, ("initial-loss",), "one class has a bias of 1000"),
]
