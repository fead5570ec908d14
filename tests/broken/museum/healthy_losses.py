"""Losses beside the usual cross-entropy, each with outputs that suit it."""

from dataclasses import replace

import torch
from tests.broken.museum.batches import (
    CLASSES,
    VOCAB,
    clusters,
    sentences,
    telling_classes,
    telling_numbers,
    telling_tokens,
)
from tests.broken.museum.exhibit import Healthy
from tests.broken.museum.losses import with_targets
from torch import nn
from torch.nn import functional

from pellucid.inspection.instrument.specimen import Specimen

WIDTH = 32


class Net(nn.Module):
    def __init__(self, outputs=CLASSES, last=None):
        super().__init__()
        self.hidden = nn.Linear(8, WIDTH)
        self.head = nn.Linear(WIDTH, outputs)
        self.last = last or nn.Identity()

    def forward(self, x):
        return self.last(self.head(torch.relu(self.hidden(x))))


def log_softmax_and_nll() -> Specimen:
    return replace(telling_classes(Net(last=nn.LogSoftmax(dim=-1))), loss=nn.NLLLoss())


def poisson() -> Specimen:
    patient = telling_numbers(Net(1), loss=nn.PoissonNLLLoss(log_input=True))
    return with_targets(patient, lambda x, _: (2 * x[:, :1]).exp().clamp(max=6).round())


def softplus_rates() -> Specimen:
    patient = telling_numbers(Net(1, nn.Softplus()), loss=nn.PoissonNLLLoss(log_input=False))
    return with_targets(patient, lambda x, _: (2 * x[:, :1]).exp().clamp(max=6).round())


def gaussian_with_its_variance() -> Specimen:
    def loss(outputs, targets):
        return functional.gaussian_nll_loss(outputs[:, :1], targets, functional.softplus(outputs[:, 1:]) + 1e-3)

    return telling_numbers(Net(2), loss=loss)


def several_labels() -> Specimen:
    patient = with_targets(telling_classes(Net(3)), lambda x, _: (x[:, :3] > 0).float())
    return replace(patient, loss=nn.BCEWithLogitsLoss())


def one_logit() -> Specimen:
    patient = with_targets(telling_classes(Net(1)), lambda _, labels: (labels < 2).float()[:, None])
    return replace(patient, loss=nn.BCEWithLogitsLoss())


def sigmoid_and_bce() -> Specimen:
    patient = with_targets(telling_classes(Net(1, nn.Sigmoid())), lambda _, labels: (labels < 2).float()[:, None])
    return replace(patient, loss=nn.BCELoss())


def squared_error() -> Specimen:
    return telling_numbers(Net(1))


def squared_error_of_rows() -> Specimen:
    class Row(Net):
        def forward(self, x):
            return super().forward(x).squeeze(1)

    return with_targets(telling_numbers(Row(1)), lambda _, wanted: wanted[:, 0])


def huber() -> Specimen:
    return telling_numbers(Net(1), loss=nn.HuberLoss())


def quantile() -> Specimen:
    def loss(outputs, targets):
        return torch.maximum(0.9 * (targets - outputs), 0.1 * (outputs - targets)).mean()

    return telling_numbers(Net(1), loss=loss)


def squashed_numbers() -> Specimen:
    return with_targets(telling_numbers(Net(1, nn.Tanh())), lambda _, wanted: 0.9 * torch.tanh(wanted))


def smoothed_labels() -> Specimen:
    return replace(telling_classes(Net()), loss=nn.CrossEntropyLoss(label_smoothing=0.1))


def weighted_classes() -> Specimen:
    return replace(telling_classes(Net()), loss=nn.CrossEntropyLoss(weight=torch.tensor([0.5, 1.0, 1.0, 2.0])))


def focal() -> Specimen:
    def loss(scores, labels):
        chances = scores.log_softmax(-1).gather(1, labels[:, None])
        return -((1 - chances.exp()) ** 2 * chances).mean()

    return replace(telling_classes(Net()), loss=loss)


def hinge() -> Specimen:
    return replace(telling_classes(Net()), loss=nn.MultiMarginLoss())


def soft_targets() -> Specimen:
    """Of a teacher, as probabilities."""
    patient = telling_classes(Net())
    return with_targets(patient, lambda _, labels: (3.0 * functional.one_hot(labels, CLASSES)).softmax(-1))


def divergence() -> Specimen:
    patient = with_targets(
        telling_classes(Net(last=nn.LogSoftmax(dim=-1))),
        lambda _, labels: (3.0 * functional.one_hot(labels, CLASSES)).softmax(-1),
    )
    return replace(patient, loss=nn.KLDivLoss(reduction="batchmean"))


def contrasts() -> Specimen:
    """Two views of each row; the right partner is told among all rows of the batch, by the loss alone."""

    class Views(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 16))

        def forward(self, one, other):
            return functional.normalize(self.encoder(one), dim=-1), functional.normalize(self.encoder(other), dim=-1)

    def loss(outputs, targets):
        one, other = outputs
        return functional.cross_entropy(one @ other.t() / 0.5, targets)

    def batch(seed):
        points, _ = clusters(seed)
        dice = torch.Generator().manual_seed(seed)
        return (points, points + 0.1 * torch.randn(points.shape, generator=dice)), torch.arange(len(points))

    model = Views()
    (inputs, targets), *more = [batch(seed) for seed in (1, 2, 3)]
    return Specimen(model, inputs, targets, loss, torch.optim.Adam(model.parameters(), lr=1e-3), tuple(more))


def autoencoder() -> Specimen:
    model = nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3), nn.Linear(3, WIDTH), nn.ReLU())
    model.append(nn.Linear(WIDTH, 8))
    return replace(with_targets(telling_classes(model), lambda x, _: x.clone()), loss=nn.MSELoss())


def variational_autoencoder() -> Specimen:
    class Variational(nn.Module):
        """Draws in training, takes the mean in use."""

        def __init__(self):
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 6))
            self.decoder = nn.Sequential(nn.Linear(3, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 8))

        def forward(self, x):
            mean, log_variance = self.encoder(x).chunk(2, dim=-1)
            drawn = mean + torch.randn_like(mean) * (log_variance / 2).exp() if self.training else mean
            return self.decoder(drawn), mean, log_variance

    def loss(outputs, targets):
        made, mean, log_variance = outputs
        divergence = 0.5 * (mean**2 + log_variance.exp() - log_variance - 1).sum(-1).mean()
        return functional.mse_loss(made, targets) + 0.01 * divergence

    return replace(with_targets(telling_classes(Variational()), lambda x, _: x.clone()), loss=loss)


def padding_left_out() -> Specimen:
    class Padded(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(VOCAB, WIDTH, padding_idx=0)
            self.gru = nn.GRU(WIDTH, WIDTH, batch_first=True)
            self.head = nn.Linear(WIDTH, VOCAB)

        def forward(self, tokens):
            return self.head(self.gru(self.embed(tokens))[0])

    def data(seed):
        tokens, targets = (part.clamp(min=1) for part in sentences(seed))
        is_text = torch.arange(tokens.shape[1]) < 4 + torch.arange(len(tokens))[:, None] % 8
        return tokens * is_text, targets * is_text

    def loss(scores, targets):
        return functional.cross_entropy(scores.flatten(0, 1), targets.flatten(), ignore_index=0)

    return replace(telling_tokens(Padded(), data), loss=loss)


def rare_class_with_its_bias() -> Specimen:
    """One in eight is positive, and the bias begins at its logit."""
    model = Net(1)
    nn.init.constant_(model.head.bias, -2.0)
    patient = with_targets(telling_classes(model), lambda x, _: (x[:, :1] > 1.2).float())
    return replace(patient, loss=nn.BCEWithLogitsLoss())


HEALTHY = [
    Healthy("log-softmax and NLLLoss", log_softmax_and_nll, "the logarithm that NLLLoss wants"),
    Healthy("Poisson", poisson, "counts, with the logarithm of the rate"),
    Healthy("softplus rates", softplus_rates, "counts, with the rate itself"),
    Healthy("Gaussian with its variance", gaussian_with_its_variance, "mean and variance are put out"),
    Healthy("several labels", several_labels, "yes or no for each of three"),
    Healthy("one logit", one_logit, "yes or no"),
    Healthy("sigmoid and BCELoss", sigmoid_and_bce, "the chance that BCELoss wants"),
    Healthy("squared error", squared_error, "(N, 1) against (N, 1)"),
    Healthy("squared error of rows", squared_error_of_rows, "(N) against (N)"),
    Healthy("Huber", huber, "numbers"),
    Healthy("quantile", quantile, "the ninth decile of numbers"),
    Healthy("squashed numbers", squashed_numbers, "targets within tanh's range"),
    Healthy("smoothed labels", smoothed_labels, "the loss cannot reach 0"),
    Healthy("weighted classes", weighted_classes, "some classes count more"),
    Healthy("focal", focal, "begins below ln K by design"),
    Healthy("hinge", hinge, "begins near 0.75, not ln K"),
    Healthy("soft targets", soft_targets, "probabilities of a teacher"),
    Healthy("divergence", divergence, "Kullback and Leibler's, with log-probabilities"),
    Healthy("contrasts", contrasts, "rows meet in the loss, not in the model"),
    Healthy("autoencoder", autoencoder, "the target is the input, through a narrow place"),
    Healthy("variational autoencoder", variational_autoencoder, "draws in training alone"),
    Healthy("padding left out", padding_left_out, "ignored by the loss, zero in the table"),
    Healthy("rare class with its bias", rare_class_with_its_bias, "the first loss is that of the shares"),
]
