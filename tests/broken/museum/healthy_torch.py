"""Torch's own transformers, and usual recurrent and convolutional nets, in several settings."""

from dataclasses import replace

import torch
from tests.broken.museum.batches import (
    BATCHES,
    CLASSES,
    VOCAB,
    of_tokens,
    orders,
    pictures,
    sentences,
    telling_classes,
    telling_tokens,
)
from tests.broken.museum.exhibit import Healthy
from torch import nn
from torch.nn import functional

from pellucid.inspection.instrument.specimen import Specimen

WIDTH = 32


class Stack(nn.Module):
    """nn.TransformerEncoder with learned positions; causal for a language model, pooled for classes."""

    def __init__(self, outputs, is_causal, **settings):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.positions = nn.Embedding(16, WIDTH)
        for table in (self.embed, self.positions):
            nn.init.normal_(table.weight, std=0.1)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 64, batch_first=True, **settings)
        norm = nn.LayerNorm(WIDTH) if settings.get("norm_first") else None
        self.body = nn.TransformerEncoder(layer, 2, norm, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, outputs)
        self.is_causal = is_causal

    def forward(self, tokens):
        time = tokens.shape[1]
        x = self.embed(tokens) + self.positions(torch.arange(time))
        if not self.is_causal:
            return self.head(self.body(x).mean(1))
        mask = nn.Transformer.generate_square_subsequent_mask(time)
        return self.head(self.body(x, mask, is_causal=True))


def decoder_pre_norm() -> Specimen:
    return telling_tokens(Stack(VOCAB, is_causal=True, norm_first=True, dropout=0.0))


def decoder_post_norm() -> Specimen:
    return telling_tokens(Stack(VOCAB, is_causal=True, dropout=0.0), rate=1e-3)


def decoder_with_dropout() -> Specimen:
    return telling_tokens(Stack(VOCAB, is_causal=True, norm_first=True, dropout=0.1, activation="gelu"))


def encoder_of_classes() -> Specimen:
    return telling_classes(Stack(2, is_causal=False, norm_first=True, dropout=0.0), orders)


def encoder_of_classes_in_eval_mode() -> Specimen:
    patient = telling_classes(Stack(2, is_causal=False, norm_first=True, dropout=0.1), orders)
    patient.model.eval()
    return replace(patient, loss=None, targets=None, optimizer=None, more=())


class Pairs(nn.Module):
    def __init__(self, **settings):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.positions = nn.Parameter(0.1 * torch.randn(1, 16, WIDTH))
        self.body = nn.Transformer(WIDTH, 4, 1, 1, 64, batch_first=True, **settings)
        self.head = nn.Linear(WIDTH, VOCAB)

    def placed(self, tokens):
        return self.embed(tokens) + self.positions[:, : tokens.shape[1]]

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        return self.head(self.body(self.placed(source), self.placed(target), tgt_mask=mask, tgt_is_causal=True))


def translator(**settings) -> Specimen:
    model = Pairs(**settings)
    batches = []
    for seed in BATCHES:
        source = sentences(seed, time=6)[0].clamp(min=1)
        batches.append(((source, functional.pad(source.flip(1)[:, :-1], (1, 0))), source.flip(1)))
    (inputs, targets), *more = batches
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    return Specimen(model, inputs, targets, of_tokens, optimizer, tuple(more))


class MaskedReader(nn.Module):
    """A BERT: sees both sides, and tells the tokens that were hidden behind token 0."""

    def __init__(self):
        super().__init__()
        self.stack = Stack(VOCAB, is_causal=False, norm_first=True, dropout=0.0)

    def forward(self, tokens):
        stack = self.stack
        return stack.head(stack.body(stack.embed(tokens) + stack.positions(torch.arange(tokens.shape[1]))))


def masked_language_model() -> Specimen:
    def data(seed):
        tokens, _ = sentences(seed)
        tokens = tokens.clamp(min=1)
        is_hidden = torch.rand(tokens.shape, generator=torch.Generator().manual_seed(seed)) < 0.25
        return tokens.masked_fill(is_hidden, 0), tokens.masked_fill(~is_hidden, -100)

    return replace(telling_tokens(MaskedReader(), data), is_causal=False)


class Recurrent(nn.Module):
    def __init__(self, kind, outputs=VOCAB, pooled=False, **settings):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.rnn = kind(WIDTH, WIDTH, batch_first=True, **settings)
        self.head = nn.Linear(WIDTH * (2 if settings.get("bidirectional") else 1), outputs)
        self.pooled = pooled

    def forward(self, tokens):
        out, _ = self.rnn(self.embed(tokens))
        return self.head(out.mean(1) if self.pooled else out)


class Both(nn.Module):
    """Gives scores and the state, as torch's own recurrent layers do."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens):
        out, state = self.lstm(self.embed(tokens))
        return self.head(out), state


def lstm_that_gives_its_state() -> Specimen:
    return replace(telling_tokens(Both()), loss=lambda outputs, targets: of_tokens(outputs[0], targets))


def plain_cnn() -> Specimen:
    model = nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1)),
        *(nn.Flatten(), nn.Linear(16, CLASSES)),
    )
    return telling_classes(model, pictures)


def normed_cnn(norm) -> Specimen:
    model = nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1, bias=False), norm(8), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 16, 3, padding=1, bias=False), norm(16), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, CLASSES)),
    )
    return telling_classes(model, pictures)


def lenet() -> Specimen:
    model = nn.Sequential(
        *(nn.Conv2d(1, 6, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 12, 3), nn.Tanh()),
        *(nn.Flatten(), nn.Linear(48, 32), nn.Tanh(), nn.Linear(32, CLASSES)),
    )
    return telling_classes(model, pictures)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                *(nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()),
                *(nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)),
            )
            for _ in range(3)
        )
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        for block in self.blocks:
            x = torch.relu(x + block(x))
        return self.head(x.mean((2, 3)))


class Causal(nn.Module):
    """Dilated convolutions padded on the left alone."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.convs = nn.ModuleList([nn.Conv1d(WIDTH, WIDTH, 2, dilation=d) for d in (1, 2, 4)])
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens):
        x = self.embed(tokens).transpose(1, 2)
        for conv in self.convs:
            x = x + torch.relu(conv(functional.pad(x, (conv.dilation[0], 0))))
        return self.head(x.transpose(1, 2))


def multilayer(activation) -> Specimen:
    layers = [nn.Flatten(), nn.Linear(64, 64), activation(), nn.Linear(64, 64), activation(), nn.Linear(64, CLASSES)]
    return telling_classes(nn.Sequential(*layers), pictures)


HEALTHY = [
    Healthy("torch decoder, pre-norm", decoder_pre_norm, "TransformerEncoder with a causal mask"),
    Healthy("torch decoder, post-norm", decoder_post_norm, "two post-norm layers need no warm-up"),
    Healthy("torch decoder with dropout", decoder_with_dropout, "dropout in training alone, with the mask"),
    Healthy("torch encoder", encoder_of_classes, "sees both sides, as it shall"),
    Healthy("torch encoder in eval mode", encoder_of_classes_in_eval_mode, "in use: no loss and no optimizer"),
    Healthy("torch transformer of pairs", lambda: translator(dropout=0.0), "targets moved by one, and a mask"),
    Healthy(
        "torch transformer of pairs, GELU", lambda: translator(dropout=0.1, activation="gelu"), "the same with dropout"
    ),
    Healthy("torch masked language model", masked_language_model, "hidden tokens are told from both sides"),
    Healthy("RNN", lambda: telling_tokens(Recurrent(nn.RNN)), "reads forward only"),
    Healthy("GRU of two layers", lambda: telling_tokens(Recurrent(nn.GRU, num_layers=2, dropout=0.1)), "with dropout"),
    Healthy("LSTM", lambda: telling_tokens(Recurrent(nn.LSTM)), "reads forward only"),
    Healthy("LSTM that gives its state", lstm_that_gives_its_state, "puts out a tuple"),
    Healthy(
        "LSTM in both directions",
        lambda: telling_classes(Recurrent(nn.LSTM, 2, pooled=True, bidirectional=True), orders),
        "both directions, for one class per text",
    ),
    Healthy("causal convolutions", lambda: telling_tokens(Causal()), "padded on the left alone"),
    Healthy("CNN", plain_cnn, "no norm"),
    Healthy("CNN with batch norm", lambda: normed_cnn(nn.BatchNorm2d), "rows meet in training, by design"),
    Healthy("CNN with group norm", lambda: normed_cnn(lambda width: nn.GroupNorm(4, width)), "no row meets another"),
    Healthy(
        "CNN with instance norm", lambda: normed_cnn(lambda width: nn.InstanceNorm2d(width, affine=True)), "the same"
    ),
    Healthy("LeNet", lenet, "tanh and mean pooling"),
    Healthy("residual CNN", lambda: telling_classes(Residual(), pictures), "as ResNet"),
    *[
        Healthy(f"MLP with {kind.__name__}", lambda kind=kind: multilayer(kind), "two hidden layers")
        for kind in (nn.ReLU, nn.Tanh, nn.GELU, nn.SiLU)
    ],
]
