"""Bugs of data: inputs and labels that do not belong together, are of the wrong size, or tell the answer."""

from dataclasses import replace

import torch
from tests.broken.museum.batches import (
    BATCHES,
    CLASSES,
    VOCAB,
    clusters,
    orders,
    pictures,
    sentences,
    slopes,
    telling_classes,
    telling_numbers,
    telling_tokens,
)
from tests.broken.museum.exhibit import Exhibit
from torch import nn
from torch.nn import functional

from pellucid.inspection.instrument.specimen import Specimen


class Classifier(nn.Module):
    def __init__(self, features=8, outputs=CLASSES):
        super().__init__()
        self.hidden = nn.Linear(features, 32)
        self.head = nn.Linear(32, outputs)

    def forward(self, x):
        return self.head(torch.relu(self.hidden(x.flatten(1))))


class Reader(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, VOCAB)

    def forward(self, tokens):
        return self.head(self.gru(self.embed(tokens))[0])


def shuffled(labels, seed):
    return labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(100 + seed))]


def trained(patient: Specimen, data, steps=150) -> Specimen:
    """After so many steps, each on a batch of its own: nobody knows yet why it does not learn."""
    for seed in range(1000, 1000 + steps):
        inputs, targets = data(seed)
        patient.optimizer.zero_grad()
        patient.loss(patient.model(inputs), targets).backward()
        patient.optimizer.step()
    patient.optimizer.zero_grad()
    return patient


def labels_shuffled() -> Specimen:
    def data(seed):
        points, labels = clusters(seed)
        return points, shuffled(labels, seed)  # the inputs were sorted by name, the labels were not

    return trained(telling_classes(Classifier(), data), data)


def targets_of_other_rows() -> Specimen:
    def data(seed):
        features, numbers = slopes(seed)
        return features, shuffled(numbers, seed)[:, None]

    patient = telling_numbers(Classifier(outputs=1))
    pairs = [data(seed) for seed in BATCHES]
    more = tuple(((features,), numbers) for features, numbers in pairs[1:])
    return trained(replace(patient, inputs=pairs[0][:1], targets=pairs[0][1], more=more), data)


def pixels_to_255() -> Specimen:
    def data(seed):
        images, labels = pictures(seed)
        return ((images.clamp(-3, 3) + 3) * 42.5).round(), labels

    return telling_classes(Classifier(64), data)


def one_column_in_millions() -> Specimen:
    def data(seed):
        points, labels = clusters(seed)
        points[:, 3] = 1e6 * points[:, 3] + 5e6  # a salary among lengths
        return points, labels

    return telling_classes(Classifier(), data)


def normalised_twice() -> Specimen:
    def data(seed):
        images, labels = pictures(seed)
        return (images / 255 - 0.5) / 255, labels

    return telling_classes(Classifier(64), data)


def divided_as_whole_numbers() -> Specimen:
    def data(seed):
        images, labels = pictures(seed)
        bytes_ = ((images.clamp(-3, 3) + 3) * 42).to(torch.uint8)
        return (bytes_ // 255).float(), labels

    return telling_classes(Classifier(64), data)


def loader_repeats_one_row() -> Specimen:
    def data(seed):
        points, labels = clusters(seed)
        return points[:1].expand_as(points).clone(), labels  # an index that never moves

    return telling_classes(Classifier(), data)


def rows_twice_in_the_batch() -> Specimen:
    def data(seed):
        points, labels = clusters(seed)
        return points[:4].repeat(8, 1), labels[:4].repeat(8)

    return telling_classes(Classifier(), data)


def loader_repeats_one_batch() -> Specimen:
    return telling_classes(Classifier(), lambda seed: clusters(1))


def one_class_in_every_batch() -> Specimen:
    def data(seed):
        points, _ = clusters(1, rows=256)
        labels = clusters(1, rows=256)[1]
        return points[labels == 0], labels[labels == 0]  # sorted by class and never shuffled

    return telling_classes(Classifier(), data)


def label_among_the_inputs() -> Specimen:
    def data(seed):
        points, labels = clusters(seed)
        return torch.cat([points, labels[:, None].float() - 1.5], dim=1), labels

    return telling_classes(Classifier(9), data)


def label_among_the_inputs_as_one_hot() -> Specimen:
    def data(seed):
        points, labels = clusters(seed)
        return torch.cat([points, functional.one_hot(labels, CLASSES).float()], dim=1), labels

    return telling_classes(Classifier(8 + CLASSES), data)


def target_among_the_features() -> Specimen:
    patient = telling_numbers(Classifier(features=9, outputs=1))
    pairs = [slopes(seed) for seed in (1, 2, 3)]
    made = [((torch.cat([x, 2 * y[:, None]], dim=1),), y[:, None]) for x, y in pairs]
    return replace(patient, inputs=made[0][0], targets=made[0][1], more=tuple(made[1:]))


def missing_values_in_the_inputs() -> Specimen:
    def data(seed):
        points, labels = clusters(seed)
        points[3, 2] = float("nan")
        return points, labels

    return telling_classes(Classifier(), data)


def all_tokens_unknown() -> Specimen:
    def data(seed):
        tokens, targets = sentences(seed)
        return torch.zeros_like(tokens), targets  # the vocabulary was made of other words

    return telling_tokens(Reader(), data)


def padded_on_the_wrong_side() -> Specimen:
    class LastState(nn.Module):
        """Reads the state after the last column, which is padding for most rows."""

        def __init__(self, width=32):
            super().__init__()
            self.embed = nn.Embedding(VOCAB, width, padding_idx=0)
            self.rnn = nn.GRU(width, width, batch_first=True)
            self.head = nn.Linear(width, 2)

        def forward(self, tokens):
            return self.head(self.rnn(self.embed(tokens))[0][:, -1])

    def data(seed):
        tokens, labels = orders(seed)
        return functional.pad(tokens, (0, 150)), labels

    return telling_classes(LastState(), data)


def rows_of_the_test_side() -> Specimen:
    def data(seed):
        points, labels = clusters(seed)
        known, answers = clusters(1)
        return torch.cat([known[:24], points[24:]]), torch.cat([answers[:24], labels[24:]])

    return telling_classes(Classifier(), data)


LABELS = ("labels-ignored",)
CONSTANT = ("duplicated-inputs", "labels-ignored")
LEAK = ("data-leak", "shifted-targets")

EXHIBITS = [
    Exhibit(labels_shuffled, LABELS, "inputs and labels were shuffled apart"),
    Exhibit(targets_of_other_rows, LABELS, "the numbers to be told stand in another order"),
    Exhibit(pixels_to_255, ("inputs-unnormalised",), "pixels from 0 to 255"),
    Exhibit(one_column_in_millions, ("inputs-unnormalised",), "one column is millions of times larger than the others"),
    Exhibit(normalised_twice, ("inputs-unnormalised",), "pixels divided by 255 twice"),
    Exhibit(divided_as_whole_numbers, CONSTANT, "bytes // 255: all images are black"),
    Exhibit(loader_repeats_one_row, CONSTANT, "every row of the batch is the same"),
    Exhibit(rows_twice_in_the_batch, ("duplicated-inputs",), "four rows eight times"),
    Exhibit(loader_repeats_one_batch, ("duplicated-inputs",), "every batch is the first one"),
    Exhibit(
        one_class_in_every_batch, (*LABELS, "duplicated-inputs", "chance-plateau"), "sorted by class and never shuffled"
    ),
    Exhibit(label_among_the_inputs, LEAK, "the label is a column of the inputs"),
    Exhibit(label_among_the_inputs_as_one_hot, LEAK, "the label is among the inputs as one-hot columns"),
    Exhibit(target_among_the_features, LEAK, "twice the target is a column of the inputs"),
    Exhibit(missing_values_in_the_inputs, ("nan-origin",), "one value of the inputs is not a number"),
    Exhibit(all_tokens_unknown, CONSTANT, "every token is the unknown one"),
    Exhibit(
        padded_on_the_wrong_side,
        ("gradients-over-depth", "no-gradient"),
        "the state is read after 150 paddings",
    ),
    Exhibit(rows_of_the_test_side, ("duplicated-inputs",), "batches share most of their rows"),
]
