"""Bugs of optimizers: which parameters they move, how far, and on what gradients."""

import copy
from dataclasses import replace

import torch
from tests.broken.museum.batches import CLASSES, VOCAB, telling_classes, telling_tokens
from tests.broken.museum.exhibit import Exhibit
from torch import nn

from pellucid.inspection.instrument.specimen import Specimen


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.head = nn.Linear(32, CLASSES)

    def forward(self, x):
        return self.head(self.body(x))


class Reader(nn.Module):
    """A transformer of torch's parts."""

    def __init__(self, width=32):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width)
        self.positions = nn.Parameter(0.02 * torch.randn(12, width))
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, VOCAB)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.head(self.body(self.embed(tokens) + self.positions[: tokens.shape[1]], mask, is_causal=True))


def moved_by(optimizer, model=None) -> Specimen:
    """A patient whose optimizer is made by the given function of the model."""
    model = model or Net()
    return replace(telling_classes(model), optimizer=optimizer(model))


def rate_far_too_high() -> Specimen:
    return moved_by(lambda model: torch.optim.Adam(model.parameters(), lr=0.3))


def rate_far_too_high_for_a_transformer() -> Specimen:
    model = Reader()
    return replace(telling_tokens(model), optimizer=torch.optim.Adam(model.parameters(), lr=0.1))


def plain_descent_far_too_fast() -> Specimen:
    return moved_by(lambda model: torch.optim.SGD(model.parameters(), lr=50.0))


def rate_far_too_low() -> Specimen:
    return moved_by(lambda model: torch.optim.Adam(model.parameters(), lr=1e-8))


def rate_of_zero() -> Specimen:
    """A warm-up that was multiplied by 0 at the first step, and never stepped."""
    return moved_by(lambda model: torch.optim.Adam(model.parameters(), lr=0.0))


def head_replaced_afterwards() -> Specimen:
    patient = telling_classes(Net())
    patient.model.head = nn.Linear(32, CLASSES)
    return patient


def parameters_moved_to_new_ones() -> Specimen:
    """Weights read from a file were put in as new parameters, after the optimizer was made."""
    patient = telling_classes(Net())
    for part in patient.model.body:
        if isinstance(part, nn.Linear):
            part.weight = nn.Parameter(part.weight.detach().clone())
    return patient


def optimizer_of_a_copy() -> Specimen:
    return moved_by(lambda model: torch.optim.Adam(copy.deepcopy(model).parameters(), lr=1e-3))


def only_the_head_is_moved() -> Specimen:
    return moved_by(lambda model: torch.optim.Adam(model.head.parameters(), lr=1e-3))


def weight_decay_on_norms() -> Specimen:
    return moved_by(lambda model: torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.5))


def weight_decay_beyond_learning() -> Specimen:
    return moved_by(lambda model: torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=9.0))


def zero_grad_forgotten() -> Specimen:
    """As it stands in the middle of a loop that never clears its gradients."""
    patient = telling_classes(Net())
    for _ in range(8):
        patient.loss_of(patient.outputs()).backward()
    return patient


def maximize_left_on() -> Specimen:
    return moved_by(lambda model: torch.optim.SGD(model.parameters(), lr=0.1, maximize=True))


def parameters_in_two_groups() -> Specimen:
    def optimizer(model):
        made = torch.optim.SGD(model.parameters(), lr=0.05)
        made.param_groups.append({**made.param_groups[0], "params": list(model.head.parameters())})  # past the check
        return made

    return moved_by(optimizer)


def epsilon_swallows_the_gradient() -> Specimen:
    return moved_by(lambda model: torch.optim.Adam(model.parameters(), lr=1e-4, eps=10.0))


HIGH = ("learning-rate", "update-ratio")
OUTSIDE = ("not-in-optimizer",)

EXHIBITS = [
    Exhibit(rate_far_too_high, HIGH, "Adam at 0.3, a hundred times too fast"),
    Exhibit(rate_far_too_high_for_a_transformer, HIGH, "a transformer with Adam at 0.1"),
    Exhibit(plain_descent_far_too_fast, HIGH, "plain descent at 50"),
    Exhibit(rate_far_too_low, HIGH, "a rate of 1e-8: nothing moves"),
    Exhibit(rate_of_zero, HIGH, "the rate is 0 and stays there"),
    Exhibit(head_replaced_afterwards, OUTSIDE, "the head was replaced after the optimizer was made"),
    Exhibit(parameters_moved_to_new_ones, OUTSIDE, "weights were put in as new parameters after it was made"),
    Exhibit(optimizer_of_a_copy, OUTSIDE, "the optimizer moves a copy"),
    Exhibit(only_the_head_is_moved, OUTSIDE, "all is trainable, and only the head is given to the optimizer"),
    Exhibit(weight_decay_on_norms, ("weight-decay",), "decay pulls norms and biases to 0", is_slight=True),
    Exhibit(weight_decay_beyond_learning, ("weight-decay", *HIGH), "decay takes nearly all of a weight at each step"),
    Exhibit(zero_grad_forgotten, ("accumulation",), "gradients of all steps so far are summed"),
    Exhibit(maximize_left_on, HIGH, "maximize=True climbs"),
    Exhibit(parameters_in_two_groups, ("not-in-optimizer",), "the head is moved twice a step"),
    Exhibit(epsilon_swallows_the_gradient, HIGH, "Adam's eps of 10 is far larger than any gradient"),
]
