"""Bugs of modes: what differs between training and use, and what should not."""

import random
from dataclasses import replace

import torch
from tests.broken.museum.batches import CLASSES, pictures, telling_classes
from tests.broken.museum.exhibit import Exhibit
from torch import nn
from torch.nn import functional

from pellucid.inspection.instrument.specimen import Specimen


class Classifier(nn.Module):
    def __init__(self, dropout=0.2):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(dropout))
        self.head = nn.Linear(32, CLASSES)

    def forward(self, x):
        return self.head(self.body(x))


class Pictures(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1, bias=False)
        self.norm = norm
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


def trained(patient: Specimen, steps=5) -> Specimen:
    for _ in range(steps):
        patient.optimizer.zero_grad()
        patient.loss_of(patient.outputs()).backward()
        patient.optimizer.step()
    patient.optimizer.zero_grad()
    return patient


def eval_never_called() -> Specimen:
    """A trained model is asked for answers; nobody trains it any more."""
    return replace(trained(telling_classes(Classifier(0.5))), loss=None, targets=None, optimizer=None, more=())


def eval_never_called_with_batch_norm() -> Specimen:
    patient = trained(telling_classes(Pictures(nn.BatchNorm2d(8)), pictures))
    return replace(patient, loss=None, targets=None, optimizer=None, more=())


def train_never_called_again() -> Specimen:
    """eval() for a look at the dev side in the first epoch, and training went on."""
    patient = telling_classes(Pictures(nn.BatchNorm2d(8)), pictures)
    patient.model.eval()
    return patient


def part_left_in_eval() -> Specimen:
    patient = telling_classes(Classifier(0.5))
    patient.model.body.eval()
    return patient


def functional_dropout_always_on() -> Specimen:
    class Net(Classifier):
        def forward(self, x):
            return self.head(functional.dropout(torch.relu(self.body[0](x)), 0.5))

    return telling_classes(Net(0.0))


def mode_not_handed_on() -> Specimen:
    class Net(Classifier):
        def train(self, mode=True):
            self.training = mode
            self.head.train(mode)  # the body is forgotten
            return self

    return telling_classes(Net(0.5))


def noise_in_use() -> Specimen:
    class Net(Classifier):
        def forward(self, x):
            return super().forward(x + 0.3 * torch.randn_like(x))

    return telling_classes(Net(0.0))


def batch_norm_of_one_row() -> Specimen:
    patient = telling_classes(Pictures(nn.BatchNorm2d(8)), lambda seed: pictures(seed, rows=1))
    return trained(patient)


def batch_norm_without_running_statistics() -> Specimen:
    return telling_classes(Pictures(nn.BatchNorm2d(8, track_running_stats=False)), pictures)


def batch_norm_never_moves() -> Specimen:
    return trained(telling_classes(Pictures(nn.BatchNorm2d(8, momentum=0.0)), pictures), steps=60)


def dropout_of_one() -> Specimen:
    return telling_classes(Classifier(1.0))


def dropout_as_share_kept() -> Specimen:
    return telling_classes(Classifier(0.95))


def dropout_twice() -> Specimen:
    model = Classifier()
    model.body = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.5), nn.Dropout(0.5))
    return telling_classes(model)


def dropout_on_the_scores() -> Specimen:
    class Net(Classifier):
        def __init__(self):
            super().__init__(0.0)
            self.last = nn.Dropout(0.5)

        def forward(self, x):
            return self.last(super().forward(x))

    return telling_classes(Net())


def chance_of_its_own() -> Specimen:
    class Net(Classifier):
        def __init__(self):
            super().__init__(0.0)
            self.dice = random.Random()  # not seeded with the rest

        def forward(self, x):
            return super().forward(x) * self.dice.uniform(0.8, 1.2)

    return telling_classes(Net())


def forward_counts_its_calls() -> Specimen:
    class Net(Classifier):
        def __init__(self):
            super().__init__(0.0)
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return super().forward(x) / self.calls  # annealed at every call, also when only looked at

    return telling_classes(Net())


MODE = ("wrong-mode", "non-determinism")

EXHIBITS = [
    Exhibit(eval_never_called, MODE, "a trained model answers with dropout on"),
    Exhibit(eval_never_called_with_batch_norm, ("wrong-mode", "batch-mixing"), "its answers depend on the batch"),
    Exhibit(train_never_called_again, MODE, "batch norm never sees a batch: training goes on in eval mode"),
    Exhibit(part_left_in_eval, MODE, "one part is in eval while the rest trains"),
    Exhibit(functional_dropout_always_on, MODE, "functional.dropout without self.training drops in use, too"),
    Exhibit(mode_not_handed_on, MODE, "train() was overridden, and eval() does not reach the dropout"),
    Exhibit(noise_in_use, MODE, "noise for training is added in use, too"),
    Exhibit(batch_norm_of_one_row, ("wrong-mode", "batch-mixing"), "batch norm over one row"),
    Exhibit(batch_norm_without_running_statistics, ("batch-mixing",), "in use each answer depends on the batch"),
    Exhibit(batch_norm_never_moves, ("wrong-mode",), "momentum 0: running statistics never move"),
    Exhibit(dropout_of_one, ("dropout-odd",), "p = 1, meant as the share that is kept, drops everything"),
    Exhibit(dropout_as_share_kept, ("dropout-odd",), "p = 0.95, meant as the share that is kept"),
    Exhibit(dropout_twice, ("dropout-odd",), "two dropouts in a row keep a quarter"),
    Exhibit(dropout_on_the_scores, ("dropout-odd",), "half of the scores are 0 at random"),
    Exhibit(chance_of_its_own, ("non-determinism",), "a dice that no seed reaches"),
    Exhibit(forward_counts_its_calls, ("non-determinism",), "each call gives another answer"),
]
