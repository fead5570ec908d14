"""Bugs of losses: what is put in, against what it is held, and how it is summed."""

from dataclasses import replace

import torch
from tests.broken.museum.batches import (
    CLASSES,
    of_tokens,
    telling_classes,
    telling_numbers,
    telling_tokens,
)
from tests.broken.museum.exhibit import Exhibit
from torch import nn
from torch.nn import functional

from pellucid.inspection.instrument.specimen import Specimen


class Classifier(nn.Module):
    def __init__(self, outputs=CLASSES):
        super().__init__()
        self.hidden = nn.Linear(8, 32)
        self.head = nn.Linear(32, outputs)

    def forward(self, x):
        return self.head(torch.relu(self.hidden(x)))


class Reader(nn.Module):
    """A GRU that scores the next token."""

    def __init__(self, vocab=16, width=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, vocab)

    def forward(self, tokens):
        return self.head(self.gru(self.embed(tokens))[0])


def with_targets(patient: Specimen, change) -> Specimen:
    """The same with other targets in every batch; change: (first input, targets) -> targets."""
    return replace(
        patient,
        targets=change(patient.inputs[0], patient.targets),
        more=tuple((inputs, change(inputs[0], targets)) for inputs, targets in patient.more),
    )


def softmax_twice() -> Specimen:
    class Probabilities(Classifier):
        def forward(self, x):
            return super().forward(x).softmax(dim=-1)

    return telling_classes(Probabilities())


def softmax_twice_in_a_decoder() -> Specimen:
    class Probabilities(Reader):
        def forward(self, tokens):
            return functional.softmax(super().forward(tokens), dim=-1)

    return telling_tokens(Probabilities())


def softmax_over_the_rows() -> Specimen:
    class Probabilities(Classifier):
        def forward(self, x):
            return super().forward(x).log_softmax(dim=0)

    return replace(telling_classes(Probabilities()), loss=nn.NLLLoss())


def nll_on_scores() -> Specimen:
    return replace(telling_classes(Classifier()), loss=nn.NLLLoss())


def nll_on_probabilities() -> Specimen:
    class Probabilities(Classifier):
        def forward(self, x):
            return super().forward(x).softmax(dim=-1)

    return replace(telling_classes(Probabilities()), loss=nn.NLLLoss())


def _is_first(_, labels):
    return (labels == 0).float()[:, None]


def sigmoid_before_bce_with_logits() -> Specimen:
    class Chance(Classifier):
        def forward(self, x):
            return super().forward(x).sigmoid()

    return replace(with_targets(telling_classes(Chance(1)), _is_first), loss=nn.BCEWithLogitsLoss())


def bce_arguments_swapped() -> Specimen:
    class Chance(Classifier):
        def forward(self, x):
            return super().forward(x).sigmoid()

    patient = with_targets(telling_classes(Chance(1)), _is_first)
    return replace(patient, loss=lambda chances, labels: functional.binary_cross_entropy(labels, chances))


def bce_on_class_numbers() -> Specimen:
    patient = with_targets(telling_classes(Classifier(1)), lambda _, labels: labels.float()[:, None])
    return replace(patient, loss=nn.BCEWithLogitsLoss())


def softmax_over_one_output() -> Specimen:
    class Chance(Classifier):
        def forward(self, x):
            return super().forward(x).softmax(dim=-1)  # of one number: always 1

    return replace(with_targets(telling_classes(Chance(1)), _is_first), loss=nn.BCELoss())


def squared_error_on_probabilities() -> Specimen:
    class Probabilities(Classifier):
        def forward(self, x):
            return super().forward(x).softmax(dim=-1)

    patient = with_targets(telling_classes(Probabilities()), lambda _, y: functional.one_hot(y, CLASSES).float())
    return replace(patient, loss=nn.MSELoss())


def squared_error_of_column_and_row() -> Specimen:
    patient = telling_numbers(Classifier(1), loss=functional.mse_loss)
    return with_targets(patient, lambda _, wanted: wanted[:, 0])


def absolute_error_of_row_and_column() -> Specimen:
    class Squeezed(Classifier):
        def forward(self, x):
            return super().forward(x).squeeze()

    return telling_numbers(Squeezed(1), loss=functional.l1_loss)


def relu_on_scores() -> Specimen:
    class Cut(Classifier):
        def forward(self, x):
            return torch.relu(super().forward(x) - 2.0)

    return telling_classes(Cut())


def summed_over_the_batch() -> Specimen:
    patient = replace(telling_classes(Classifier()), loss=nn.CrossEntropyLoss(reduction="sum"))
    return replace(patient, optimizer=torch.optim.SGD(patient.model.parameters(), lr=0.1))  # a rate for means


def scores_viewed_for_the_loss() -> Specimen:
    def loss(scores, targets):
        B, T, V = scores.shape
        return functional.cross_entropy(scores.view(B, V, T), targets)  # wants a transpose

    return replace(telling_tokens(Reader()), loss=loss)


def loss_of_the_last_place_only() -> Specimen:
    def loss(scores, targets):
        return functional.cross_entropy(scores[:, -1], targets[:, -1])

    return replace(telling_tokens(Reader()), loss=loss)


def _padded(tokens, targets):
    """Rows of 3 to 8 tokens, the rest padded with 0, which is no word here."""
    lengths = 3 + torch.arange(len(tokens)) % 6
    return torch.where(torch.arange(tokens.shape[1]) < lengths[:, None], targets.clamp(min=1), 0)


def loss_over_padding() -> Specimen:
    patient = with_targets(telling_tokens(Reader()), _padded)
    inputs = _padded(patient.inputs[0], patient.inputs[0])
    more = tuple(((_padded(*others, *others),), targets) for others, targets in patient.more)
    return replace(patient, inputs=(inputs,), more=more)


def target_not_shifted() -> Specimen:
    return with_targets(telling_tokens(Reader()), lambda tokens, _: tokens.clone())


def target_shifted_backwards() -> Specimen:
    return with_targets(telling_tokens(Reader()), lambda tokens, _: tokens.roll(1, dims=1))


def target_shifted_twice() -> Specimen:
    return replace(telling_tokens(Reader()), loss=lambda scores, targets: of_tokens(scores[:, :-1], targets[:, 1:]))


def a_real_class_is_ignored() -> Specimen:
    return replace(telling_classes(Classifier()), loss=nn.CrossEntropyLoss(ignore_index=0))


def sign_forgotten() -> Specimen:
    def loss(scores, labels):
        return scores.log_softmax(-1).gather(1, labels[:, None]).mean()

    return replace(telling_classes(Classifier()), loss=loss)


def accuracy_as_loss() -> Specimen:
    def loss(scores, labels):
        return 1 - (scores.argmax(-1) == labels).float().mean()

    return replace(telling_classes(Classifier()), loss=loss)


def loss_wrapped_anew() -> Specimen:
    def loss(scores, labels):
        return torch.tensor(functional.cross_entropy(scores, labels).item(), requires_grad=True)

    return replace(telling_classes(Classifier()), loss=loss)


def first_loss_far_above_chance() -> Specimen:
    model = Classifier()
    nn.init.normal_(model.head.weight, std=6.0)
    return telling_classes(model)


FIRST = ("initial-loss",)

EXHIBITS = [
    Exhibit(softmax_twice, ("double-softmax",), "softmax in the model, and again in the cross-entropy"),
    Exhibit(softmax_twice_in_a_decoder, ("double-softmax",), "the same at every position of a reader"),
    Exhibit(softmax_over_the_rows, ("batch-mixing",), "dim=0 makes probabilities over the rows of the batch"),
    Exhibit(nll_on_scores, ("missing-log-softmax",), "NLLLoss wants logarithms of probabilities, and gets scores"),
    Exhibit(nll_on_probabilities, ("missing-log-softmax",), "NLLLoss wants logarithms, and gets probabilities"),
    Exhibit(sigmoid_before_bce_with_logits, ("sigmoid-before-logits",), "sigmoid in the model, and again in the loss"),
    Exhibit(bce_arguments_swapped, (*FIRST, "nan-origin"), "labels stand where the chances belong"),
    Exhibit(bce_on_class_numbers, (*FIRST, "bottomless-loss"), "class numbers 0 to 3 as targets of yes-or-no losses"),
    Exhibit(softmax_over_one_output, ("no-gradient", "detached-path"), "softmax of one number is always 1"),
    Exhibit(
        squared_error_on_probabilities,
        ("squared-error-on-probabilities",),
        "flat where it is sure and wrong",
    ),
    Exhibit(squared_error_of_column_and_row, ("target-broadcast",), "(N, 1) against (N) compares all with all"),
    Exhibit(absolute_error_of_row_and_column, ("target-broadcast",), "squeezed outputs (N) against targets (N, 1)"),
    Exhibit(relu_on_scores, ("dead-units", "no-gradient"), "a ReLU on the scores, nearly all of them 0"),
    Exhibit(summed_over_the_batch, ("initial-loss", "accumulation"), "the loss grows with the batch"),
    Exhibit(
        scores_viewed_for_the_loss, ("scrambled-scores",), "view in place of transpose: scores meet others' targets"
    ),
    Exhibit(loss_of_the_last_place_only, ("unasked-targets",), "only the last position is ever trained"),
    Exhibit(loss_over_padding, ("loss-over-padding",), "half of what is learned is to say padding"),
    Exhibit(target_not_shifted, ("shifted-targets",), "the target is the token that was just read"),
    Exhibit(target_shifted_backwards, ("shifted-targets",), "the target is the token before: it is already known"),
    Exhibit(target_shifted_twice, ("shifted-targets",), "shifted by the data and once more by the loss"),
    Exhibit(a_real_class_is_ignored, ("unasked-targets",), "ignore_index=0, and 0 is a class like others"),
    Exhibit(sign_forgotten, (*FIRST, "bottomless-loss"), "the likelihood is minimised"),
    Exhibit(accuracy_as_loss, ("no-gradient", "detached-path"), "accuracy has no gradient"),
    Exhibit(loss_wrapped_anew, ("no-gradient", "detached-path"), "a new tensor of the loss knows no model"),
    Exhibit(first_loss_far_above_chance, FIRST, "large weights of the last layer: sure and wrong at the start"),
]
