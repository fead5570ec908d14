"""Bugs of all kinds that were added after the rules were made, so that no rule was made for them."""

from dataclasses import replace

import torch
from tests.broken.museum.batches import (
    CLASSES,
    VOCAB,
    clusters,
    orders,
    pictures,
    telling_classes,
    telling_numbers,
    telling_tokens,
)
from tests.broken.museum.exhibit import Exhibit
from torch import nn
from torch.nn import functional

from pellucid.inspection.instrument.specimen import Specimen

WIDTH = 32


class Net(nn.Module):
    def __init__(self, features=8, outputs=CLASSES):
        super().__init__()
        self.fc1 = nn.Linear(features, WIDTH)
        self.fc2 = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, outputs)

    def forward(self, x):
        return self.out(torch.relu(self.fc2(torch.relu(self.fc1(x)))))


def chunked_local_attention_leaks() -> Specimen:
    class Local(nn.Module):
        """Attention within chunks of four; inside a chunk nothing is barred."""

        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(VOCAB, WIDTH)
            self.places = nn.Parameter(0.1 * torch.randn(12, WIDTH))
            self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
            self.head = nn.Linear(WIDTH, VOCAB)

        def forward(self, tokens):
            B, T = tokens.shape
            x = (self.embed(tokens) + self.places[:T]).view(B * T // 4, 4, WIDTH)
            x = x + self.attention(x, x, x, need_weights=False)[0]
            return self.head(x.view(B, T, WIDTH))

    return telling_tokens(Local())


def rows_packed_without_borders() -> Specimen:
    class Packed(nn.Module):
        """All rows are laid end to end for speed, and the recurrent net reads on from one into the next."""

        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(VOCAB, WIDTH)
            self.gru = nn.GRU(WIDTH, WIDTH, batch_first=True)
            self.head = nn.Linear(WIDTH, VOCAB)

        def forward(self, tokens):
            out, _ = self.gru(self.embed(tokens.reshape(1, -1)))
            return self.head(out.view(*tokens.shape, WIDTH))

    return telling_tokens(Packed())


def ghost_statistics_in_eval() -> Specimen:
    class Whitened(Net):
        def forward(self, x):
            x = self.fc1(x)
            u, s, v = torch.linalg.svd(x - x.mean(0), full_matrices=False)
            return self.out(torch.relu(self.fc2(u * len(x) ** 0.5 + 0 * s @ v)))

    return telling_classes(Whitened())


def gumbel_hard_without_gradient() -> Specimen:
    class Coded(Net):
        def forward(self, x):
            scores = self.fc1(x)
            hard = torch.zeros_like(scores).scatter_(1, scores.topk(4, dim=1).indices, 1.0)
            return self.out(torch.relu(self.fc2(hard)))

    return telling_classes(Coded())


def sign_activation() -> Specimen:
    class Signed(Net):
        def forward(self, x):
            return self.out(torch.sign(self.fc2(torch.relu(self.fc1(x)))))

    return telling_classes(Signed())


def gate_closed() -> Specimen:
    class Gated(Net):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(8, WIDTH)
            nn.init.constant_(self.gate.bias, -40.0)

        def forward(self, x):
            return self.out(torch.sigmoid(self.gate(x)) * torch.relu(self.fc1(x)))

    return telling_classes(Gated())


def embedding_in_the_wrong_optimizer() -> Specimen:
    model = nn.Sequential(nn.Embedding(VOCAB, WIDTH), nn.Flatten(), nn.Linear(10 * WIDTH, 2))
    patient = telling_classes(model, orders)
    named = [p for n, p in model.named_parameters() if "embed" not in n and n != "0.weight"]
    return replace(patient, optimizer=torch.optim.AdamW(named, lr=1e-3))


def rate_in_percent() -> Specimen:
    patient = telling_classes(Net())
    return replace(patient, optimizer=torch.optim.SGD(patient.model.parameters(), lr=10.0, momentum=0.9))


def warm_up_never_ends() -> Specimen:
    patient = telling_classes(Net())
    optimizer = torch.optim.AdamW(patient.model.parameters(), lr=3e-3)
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (step + 1) / 1e6)
    return replace(patient, optimizer=optimizer)


def gradients_left_from_the_last_epoch() -> Specimen:
    patient = telling_tokens(nn.Sequential(nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB)))
    for inputs, targets in patient.more * 4:
        patient.loss(patient.model(*inputs), targets).backward()
    return patient


def cross_entropy_on_probabilities_by_hand() -> Specimen:
    class Probable(Net):
        def forward(self, x):
            powers = super().forward(x).exp()
            return powers / powers.sum(-1, keepdim=True)

    return telling_classes(Probable())


def log_softmax_of_softmax() -> Specimen:
    class Twice(Net):
        def forward(self, x):
            return functional.log_softmax(functional.softmax(super().forward(x), -1), -1)

    return replace(telling_classes(Twice()), loss=nn.NLLLoss())


def tanh_before_cross_entropy() -> Specimen:
    class Bounded(Net):
        def forward(self, x):
            return torch.tanh(30 * super().forward(x))

    return telling_classes(Bounded())


def regression_on_row_and_column_by_subtraction() -> Specimen:
    def loss(outputs, targets):
        return (outputs - targets).pow(2).mean()

    patient = telling_numbers(Net(outputs=1), loss=loss)
    return replace(patient, targets=patient.targets[:, 0], more=tuple((x, y[:, 0]) for x, y in patient.more))


def targets_of_the_reversed_batch() -> Specimen:
    def data(seed):
        points, labels = clusters(seed)
        return points, labels.flip(0)

    patient = telling_classes(Net(), data)
    for seed in range(200, 350):
        points, labels = data(seed)
        patient.optimizer.zero_grad()
        patient.loss(patient.model(points), labels).backward()
        patient.optimizer.step()
    return patient


def every_image_the_same_by_cropping() -> Specimen:
    def data(seed):
        images, labels = pictures(seed)
        return functional.pad(images, (40, 0, 40, 0))[:, :, :8, :8], labels

    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, CLASSES))
    return telling_classes(model, data)


def unit_of_time_in_nanoseconds() -> Specimen:
    def data(seed):
        points, labels = clusters(seed)
        return torch.cat(
            [points, 1e9 + 1e6 * torch.rand(len(points), 1, generator=torch.Generator().manual_seed(seed))], 1
        ), labels

    return telling_classes(Net(features=9), data)


def squared_distance_overflow() -> Specimen:
    class Far(Net):
        def forward(self, x):
            return super().forward(x).mul(1e25).pow(2).sqrt()

    return telling_classes(Far())


def entropy_of_certain_answers() -> Specimen:
    def loss(scores, labels):
        chances = scores.softmax(-1)
        entropy = -(chances * chances.log()).sum(-1).mean()
        return functional.cross_entropy(scores, labels) - 0.01 * entropy

    model = Net()
    nn.init.normal_(model.out.weight, std=80.0)
    return replace(telling_classes(model), loss=loss)


def loop_draws_a_new_layer() -> Specimen:
    class Forgetful(Net):
        def forward(self, x):
            x = torch.relu(self.fc1(x))
            x = nn.Dropout(0.3)(x)  # a new module at every call is always in training
            return self.out(x)

    return telling_classes(Forgetful())


def shared_default_argument() -> Specimen:
    class Block(nn.Module):
        norm = nn.LayerNorm(WIDTH)

        def __init__(self, norm=norm):
            super().__init__()
            self.norm = norm
            self.linear = nn.Linear(WIDTH, WIDTH)

        def forward(self, x):
            return x + torch.relu(self.linear(self.norm(x)))

    model = nn.Sequential(nn.Linear(8, WIDTH), Block(), Block(), Block(), nn.Linear(WIDTH, CLASSES))
    return telling_classes(model)


def weights_in_a_dictionary() -> Specimen:
    class Hidden(nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = {"a": nn.Linear(8, WIDTH), "b": nn.Linear(WIDTH, WIDTH)}
            self.out = nn.Linear(WIDTH, CLASSES)

        def forward(self, x):
            return self.out(torch.relu(self.heads["b"](torch.relu(self.heads["a"](x)))))

    return telling_classes(Hidden())


def rotary_positions_of_the_batch() -> Specimen:
    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(VOCAB, WIDTH)
            layer = nn.TransformerEncoderLayer(WIDTH, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
            self.body = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
            self.head = nn.Linear(WIDTH, 2)

        def forward(self, tokens):
            x = self.embed(tokens)
            angles = torch.arange(x.shape[0], dtype=torch.float)[:, None, None]  # of rows, not of places
            half = WIDTH // 2
            a, b = x[..., :half], x[..., half:]
            x = torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1)
            return self.head(self.body(x).mean(1))

    return telling_classes(Turned(), orders)


def very_deep_without_residuals() -> Specimen:
    layers = [nn.Linear(8, WIDTH), nn.ReLU()]
    for _ in range(40):
        layers += [nn.Linear(WIDTH, WIDTH), nn.ReLU()]
    return telling_classes(nn.Sequential(*layers, nn.Linear(WIDTH, CLASSES)))


def key_padding_mask_for_real_tokens() -> Specimen:
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(VOCAB, WIDTH)
            self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
            self.head = nn.Linear(WIDTH, 2)

        def forward(self, tokens):
            x = self.embed(tokens)
            mixed, _ = self.attention(x, x, x, key_padding_mask=tokens != 0)  # True bars: all but padding
            return self.head(mixed[:, 0])

    def data(seed):
        tokens, labels = orders(seed)
        return functional.pad(tokens, (0, 2)), labels

    return telling_classes(Masked(), data)


def running_sum_kept_for_ever() -> Specimen:
    class Memory(Net):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(8))

        def forward(self, x):
            self.total += x.detach().mean(0)
            return super().forward(x - self.total)

    return telling_classes(Memory())


def next_token_from_both_sides() -> Specimen:
    class Summed(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(VOCAB, WIDTH)
            self.mix = nn.Linear(12, 12, bias=False)
            self.head = nn.Linear(WIDTH, VOCAB)

        def forward(self, tokens):
            x = self.embed(tokens)
            return self.head(x + torch.relu(self.mix(x.transpose(1, 2))).transpose(1, 2))  # an MLP over places

    return telling_tokens(Summed())


EXHIBITS = [
    Exhibit(chunked_local_attention_leaks, ("future-leak",), "attention in chunks without a mask inside them"),
    Exhibit(rows_packed_without_borders, ("batch-mixing",), "rows are laid end to end and read as one"),
    Exhibit(ghost_statistics_in_eval, ("batch-mixing",), "features are whitened with the batch, in use too"),
    Exhibit(
        gumbel_hard_without_gradient, ("detached-path", "no-gradient"), "the best four are chosen without a gradient"
    ),
    Exhibit(sign_activation, ("detached-path", "no-gradient", "saturated"), "sign as an activation: flat everywhere"),
    Exhibit(
        gate_closed,
        ("saturated", "no-gradient", "detached-path", "gradients-over-depth"),
        "a gate that is shut at the start",
    ),
    Exhibit(embedding_in_the_wrong_optimizer, ("not-in-optimizer",), "a filter by name left the embedding out"),
    Exhibit(rate_in_percent, ("learning-rate", "update-ratio"), "a rate of 10 that was meant in percent"),
    Exhibit(warm_up_never_ends, ("learning-rate", "update-ratio"), "a warm-up of a million steps"),
    Exhibit(gradients_left_from_the_last_epoch, ("accumulation",), "zero_grad is called for another model"),
    Exhibit(
        cross_entropy_on_probabilities_by_hand, ("double-softmax",), "a softmax written out, and again in the loss"
    ),
    Exhibit(log_softmax_of_softmax, ("double-softmax",), "softmax in the model and log_softmax behind it"),
    Exhibit(tanh_before_cross_entropy, ("saturated", "cannot-overfit"), "scores within ±1, squashed"),
    Exhibit(regression_on_row_and_column_by_subtraction, ("target-broadcast",), "(N, 1) − (N) in a loss of one's own"),
    Exhibit(targets_of_the_reversed_batch, ("labels-ignored", "chance-plateau"), "labels were appended in front"),
    Exhibit(
        every_image_the_same_by_cropping, ("duplicated-inputs", "no-gradient"), "a crop beside the image: all black"
    ),
    Exhibit(unit_of_time_in_nanoseconds, ("inputs-unnormalised",), "a column of nanoseconds"),
    Exhibit(squared_distance_overflow, ("nan-origin",), "a square beyond 1e38"),
    Exhibit(entropy_of_certain_answers, ("nan-origin",), "0 · log 0 in an entropy"),
    Exhibit(loop_draws_a_new_layer, ("wrong-mode", "dropout-odd"), "nn.Dropout made in forward is always on"),
    Exhibit(shared_default_argument, ("ties",), "a default argument is one norm for all blocks"),
    Exhibit(weights_in_a_dictionary, ("no-gradient", "not-in-optimizer"), "layers in a Python dictionary"),
    Exhibit(
        rotary_positions_of_the_batch, ("batch-mixing", "no-positions"), "positions turn with the row, not the place"
    ),
    Exhibit(very_deep_without_residuals, ("gradients-over-depth",), "forty plain layers"),
    Exhibit(
        key_padding_mask_for_real_tokens,
        ("no-positions", "no-gradient", "detached-path", "cannot-overfit"),
        "the mask bars all but padding",
    ),
    Exhibit(running_sum_kept_for_ever, ("non-determinism", "wrong-mode"), "a sum over all calls is taken from inputs"),
    Exhibit(next_token_from_both_sides, ("future-leak",), "an MLP over places without a mask"),
]
