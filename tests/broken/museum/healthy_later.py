"""Healthy models that were added after the rules were made, so that no rule was made to pass them."""

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
    telling_classes,
    telling_numbers,
    telling_tokens,
)
from tests.broken.museum.exhibit import Healthy
from torch import nn
from torch.nn import functional

from pellucid.inspection.instrument.specimen import Specimen

WIDTH = 32


def segmentation() -> Specimen:
    class UNet(nn.Module):
        """A class for each pixel, with a skip around the narrow place."""

        def __init__(self):
            super().__init__()
            self.down = nn.Conv2d(1, 8, 3, padding=1)
            self.deep = nn.Conv2d(8, 16, 3, padding=1)
            self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
            self.last = nn.Conv2d(16, 2, 1)

        def forward(self, x):
            fine = torch.relu(self.down(x))
            coarse = torch.relu(self.deep(functional.max_pool2d(fine, 2)))
            return self.last(torch.cat([fine, torch.relu(self.up(coarse))], dim=1))

    def data(seed):
        images, _ = pictures(seed)
        return images, (functional.avg_pool2d(images, 3, 1, 1)[:, 0] > 0).long()

    return telling_classes(UNet(), data)


def linear_attention() -> Specimen:
    class Linear(nn.Module):
        """Causal attention by running sums of keys times values."""

        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(VOCAB, WIDTH)
            self.three = nn.Linear(WIDTH, 3 * WIDTH)
            self.head = nn.Linear(WIDTH, VOCAB)

        def forward(self, tokens):
            x = self.embed(tokens)
            q, k, v = self.three(x).chunk(3, -1)
            q, k = functional.elu(q) + 1, functional.elu(k) + 1
            sums = (k[..., None] * v[..., None, :]).cumsum(1)
            norm = (q * k.cumsum(1)).sum(-1, keepdim=True)
            return self.head(x + (q[..., None, :] @ sums)[..., 0, :] / norm)

    return telling_tokens(Linear())


def state_space() -> Specimen:
    class Scan(nn.Module):
        """A decaying sum over the past, by a loop."""

        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(VOCAB, WIDTH)
            self.decay = nn.Parameter(torch.zeros(WIDTH))
            self.gate = nn.Linear(WIDTH, WIDTH)
            self.head = nn.Linear(WIDTH, VOCAB)

        def forward(self, tokens):
            x = self.embed(tokens)
            keep = torch.sigmoid(self.decay)
            state, out = torch.zeros_like(x[:, 0]), []
            for step in x.unbind(1):
                state = keep * state + (1 - keep) * step
                out.append(state)
            return self.head(x + torch.stack(out, 1) * torch.sigmoid(self.gate(x)))

    return telling_tokens(Scan())


def several_tasks() -> Specimen:
    class Tasks(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU())
            self.kind = nn.Linear(WIDTH, CLASSES)
            self.size = nn.Linear(WIDTH, 1)

        def forward(self, x):
            x = self.body(x)
            return self.kind(x), self.size(x)

    def loss(outputs, labels):
        return functional.cross_entropy(outputs[0], labels) + functional.mse_loss(outputs[1][:, 0], labels / 3)

    return replace(telling_classes(Tasks()), loss=loss)


def cosine_classifier() -> Specimen:
    class Cosine(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 16))
            self.centres = nn.Parameter(torch.randn(CLASSES, 16))

        def forward(self, x):
            return 5 * functional.normalize(self.body(x), dim=-1) @ functional.normalize(self.centres, dim=-1).t()

    return telling_classes(Cosine())


def squeeze_and_excite() -> Specimen:
    class Excited(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(1, 16, 3, padding=1, bias=False)
            self.norm = nn.BatchNorm2d(16)
            self.gate = nn.Sequential(nn.Linear(16, 4), nn.ReLU(), nn.Linear(4, 16), nn.Sigmoid())
            self.head = nn.Linear(16, CLASSES)

        def forward(self, x):
            x = torch.relu(self.norm(self.conv(x)))
            x = x * self.gate(x.mean((2, 3)))[:, :, None, None]
            return self.head(x.amax((2, 3)))

    return telling_classes(Excited(), pictures)


def graph() -> Specimen:
    class Graph(nn.Module):
        """Five nodes a row, with their own edges."""

        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(8, WIDTH), nn.Linear(WIDTH, WIDTH)
            self.head = nn.Linear(WIDTH, 2)

        def forward(self, nodes, edges):
            x = torch.relu(edges @ self.first(nodes))
            return self.head(torch.relu(edges @ self.second(x)).mean(1))

    def batch(seed):
        dice = torch.Generator().manual_seed(seed)
        nodes = torch.randn(32, 5, 8, generator=dice)
        edges = (torch.rand(32, 5, 5, generator=dice) < 0.5).float() + torch.eye(5)
        return (nodes, edges / edges.sum(-1, keepdim=True)), (nodes[:, :, 0].mean(1) > 0).long()

    model = Graph()
    (inputs, targets), *more = [batch(seed) for seed in BATCHES]
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    return Specimen(model, inputs, targets, nn.CrossEntropyLoss(), optimizer, tuple(more))


def packed_sequences() -> Specimen:
    class Packed(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(VOCAB, WIDTH, padding_idx=0)
            self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True)
            self.head = nn.Linear(WIDTH, 2)

        def forward(self, tokens):
            lengths = (tokens != 0).sum(1).clamp(min=1)
            packed = nn.utils.rnn.pack_padded_sequence(
                self.embed(tokens), lengths, batch_first=True, enforce_sorted=False
            )
            return self.head(self.lstm(packed)[1][0][-1])

    def data(seed):
        tokens, labels = orders(seed)
        return functional.pad(tokens, (0, 3)), labels

    return telling_classes(Packed(), data)


def prefix_reader() -> Specimen:
    class Prefix(nn.Module):
        """The first four tokens see each other; the rest see what came before. They are no targets."""

        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(VOCAB, WIDTH)
            self.places = nn.Parameter(0.1 * torch.randn(12, WIDTH))
            layer = nn.TransformerEncoderLayer(WIDTH, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
            self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(WIDTH, VOCAB)

        def forward(self, tokens):
            time = tokens.shape[1]
            mask = nn.Transformer.generate_square_subsequent_mask(time)
            mask[:4, :4] = 0.0
            return self.head(self.body(self.embed(tokens) + self.places[:time], mask))

    def data(seed):
        tokens, targets = sentences(seed)
        targets = targets.clone()
        targets[:, :3] = -100
        return tokens, targets

    return replace(telling_tokens(Prefix(), data), is_causal=None)


def mixture_of_gaussians() -> Specimen:
    class Mixture(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(8, WIDTH), nn.Tanh())
            self.head = nn.Linear(WIDTH, 9)

        def forward(self, x):
            return self.head(self.body(x))

    def loss(outputs, targets):
        weights, means, deviations = outputs.chunk(3, -1)
        normal = torch.distributions.Normal(means, functional.softplus(deviations) + 0.05)
        return -torch.logsumexp(weights.log_softmax(-1) + normal.log_prob(targets), -1).mean()

    return telling_numbers(Mixture(), loss=loss)


def ordinal() -> Specimen:
    """How many of three thresholds are passed."""
    model = nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3))

    def loss(scores, labels):
        return functional.binary_cross_entropy_with_logits(scores, (labels[:, None] > torch.arange(3)).float())

    return replace(telling_classes(model), loss=loss)


def triplet() -> Specimen:
    model = nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 8))

    def loss(points, labels):
        distances = torch.cdist(points, points)
        is_same = labels[:, None] == labels
        far = (distances * is_same).amax(1)
        near = (distances + 1e3 * is_same).amin(1)
        return functional.relu(far - near + 1).mean()

    return replace(telling_classes(model), loss=loss)


def conv_autoencoder() -> Specimen:
    model = nn.Sequential(
        *(nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3, stride=2, padding=1), nn.ReLU()),
        *(nn.ConvTranspose2d(4, 8, 2, stride=2), nn.ReLU(), nn.ConvTranspose2d(8, 1, 2, stride=2)),
    )
    patient = telling_classes(model, lambda seed: (pictures(seed)[0], pictures(seed)[0].clone()))
    return replace(patient, loss=nn.MSELoss())


def batch_norm_everywhere() -> Specimen:
    layers = []
    for i in range(4):
        layers += [nn.Linear(8 if i == 0 else WIDTH, WIDTH, bias=False), nn.BatchNorm1d(WIDTH), nn.ReLU()]
    return telling_classes(nn.Sequential(*layers, nn.Linear(WIDTH, CLASSES)))


def trained_for_a_while() -> Specimen:
    model = nn.Sequential(nn.Linear(8, WIDTH), nn.LayerNorm(WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES))
    patient = telling_classes(model)
    for seed in range(100, 220):
        points, labels = clusters(seed)
        patient.optimizer.zero_grad()
        patient.loss(model(points), labels).backward()
        patient.optimizer.step()
    patient.optimizer.zero_grad()
    return patient


def decoder_that_keeps_a_cache() -> Specimen:
    class Cached(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(VOCAB, WIDTH)
            self.places = nn.Embedding(64, WIDTH)
            self.three = nn.Linear(WIDTH, 3 * WIDTH)
            self.head = nn.Linear(WIDTH, VOCAB)

        def forward(self, tokens, past_key_values=None, use_cache=False):
            past = 0 if past_key_values is None else past_key_values[0].shape[1]
            time = tokens.shape[1]
            x = self.embed(tokens) + self.places(torch.arange(past, past + time))
            q, k, v = self.three(x).chunk(3, dim=-1)
            if past_key_values is not None:
                k, v = torch.cat([past_key_values[0], k], 1), torch.cat([past_key_values[1], v], 1)
            seen = torch.ones(time, k.shape[1]).tril(k.shape[1] - time).bool()
            scores = self.head(x + functional.scaled_dot_product_attention(q, k, v, attn_mask=seen))
            return (scores, (k, v)) if use_cache else scores

    return telling_tokens(Cached())


def teacher_and_student() -> Specimen:
    class Distilled(nn.Module):
        """The loss holds the student against a teacher inside the model, too."""

        def __init__(self):
            super().__init__()
            self.student = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, CLASSES))
            self.teacher = nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES))
            self.teacher.requires_grad_(False)

        def forward(self, x):
            with torch.no_grad():
                taught = self.teacher(x).softmax(-1)
            return self.student(x), taught

    def loss(outputs, labels):
        scores, taught = outputs
        return functional.cross_entropy(scores, labels) + 0.1 * functional.cross_entropy(scores, taught)

    model = Distilled()
    optimizer = torch.optim.Adam(model.student.parameters(), lr=3e-3)
    return replace(telling_classes(model), loss=loss, optimizer=optimizer)


HEALTHY = [
    Healthy("segmentation", segmentation, "a class for each pixel"),
    Healthy("linear attention", linear_attention, "running sums see the past alone"),
    Healthy("state space", state_space, "a decaying sum over the past"),
    Healthy("several tasks", several_tasks, "two heads and a sum of two losses"),
    Healthy("cosine classifier", cosine_classifier, "directions times a scale"),
    Healthy("squeeze and excite", squeeze_and_excite, "gates by channel"),
    Healthy("graph", graph, "edges are an input"),
    Healthy("packed sequences", packed_sequences, "padding is never read"),
    Healthy("prefix reader", prefix_reader, "a prefix that sees itself is not asked for"),
    Healthy("mixture of Gaussians", mixture_of_gaussians, "a density for numbers"),
    Healthy("ordinal", ordinal, "thresholds that are passed"),
    Healthy("triplet", triplet, "distances within the batch, in the loss"),
    Healthy("convolutional autoencoder", conv_autoencoder, "images from a narrow place"),
    Healthy("batch norm everywhere", batch_norm_everywhere, "four layers without bias"),
    Healthy("trained for a while", trained_for_a_while, "knows its task already"),
    Healthy("decoder that keeps a cache", decoder_that_keeps_a_cache, "the same with and without it"),
    Healthy("teacher and student", teacher_and_student, "a frozen teacher inside the model"),
]
