"""Designs that look like bugs and are right: shared, frozen, sparse, without bias, zero at the start."""

from dataclasses import replace

import torch
from tests.broken.museum.batches import CLASSES, VOCAB, clusters, telling_classes, telling_tokens
from tests.broken.museum.exhibit import Healthy
from torch import nn
from torch.nn import functional

from pellucid.inspection.instrument.specimen import Specimen

WIDTH = 32


class Reader(nn.Module):
    def __init__(self, width=WIDTH, **of_embedding):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width, **of_embedding)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, VOCAB)

    def forward(self, tokens):
        return self.head(self.gru(self.embed(tokens))[0])


class Net(nn.Module):
    def __init__(self, features=8, outputs=CLASSES):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, WIDTH), nn.ReLU())
        self.middle = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
        self.head = nn.Linear(WIDTH, outputs)

    def forward(self, x):
        return self.head(self.middle(self.body(x)))


def weights_tied() -> Specimen:
    model = Reader()
    nn.init.normal_(model.embed.weight, std=0.05)
    model.head.weight = model.embed.weight
    return telling_tokens(model)


def embedding_in_two_factors() -> Specimen:
    class Model(Reader):
        """As ALBERT: a narrow table, and one matrix to the full width."""

        def __init__(self):
            super().__init__()
            self.embed = nn.Sequential(nn.Embedding(VOCAB, 8), nn.Linear(8, WIDTH, bias=False))

    return telling_tokens(Model())


def linear_bottleneck() -> Specimen:
    model = nn.Sequential(
        *(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 4, bias=False), nn.Linear(4, 64), nn.ReLU()),
        nn.Linear(64, CLASSES),
    )
    return telling_classes(model)


def frozen_backbone() -> Specimen:
    model = Net()
    model.body.requires_grad_(False)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    return replace(telling_classes(model), optimizer=optimizer)


def frozen_backbone_under_no_grad() -> Specimen:
    class Model(Net):
        def __init__(self):
            super().__init__()
            self.body.requires_grad_(False)

        def forward(self, x):
            with torch.no_grad():
                x = self.body(x)
            return self.head(self.middle(x))

    model = Model()
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    return replace(telling_classes(model), optimizer=optimizer)


def low_rank_adapter() -> Specimen:
    class LowRank(nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base = base.requires_grad_(False)
            self.down = nn.Parameter(torch.randn(WIDTH, 4) / WIDTH**0.5)
            self.up = nn.Parameter(torch.zeros(4, WIDTH))  # zero alone: learns from the second step on

        def forward(self, x):
            return self.base(x) + x @ self.down @ self.up

    model = Net()
    model.middle[0] = LowRank(model.middle[0])
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    return replace(telling_classes(model), optimizer=optimizer)


def residuals_from_zero() -> Specimen:
    class Model(nn.Module):
        """As ReZero: each branch begins at 0, by a parameter."""

        def __init__(self):
            super().__init__()
            self.first = nn.Linear(8, WIDTH)
            self.layers = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(4)])
            self.gates = nn.Parameter(torch.zeros(4))
            self.head = nn.Linear(WIDTH, CLASSES)

        def forward(self, x):
            x = self.first(x)
            for gate, layer in zip(self.gates, self.layers, strict=True):
                x = x + gate * torch.relu(layer(x))
            return self.head(x)

    return telling_classes(Model())


def head_from_zero() -> Specimen:
    model = Net()
    nn.init.zeros_(model.head.weight)
    nn.init.zeros_(model.head.bias)
    return telling_classes(model)


def one_block_for_all_depths() -> Specimen:
    class Model(nn.Module):
        """As a universal transformer: one block, called again and again."""

        def __init__(self):
            super().__init__()
            self.first = nn.Linear(8, WIDTH)
            self.block = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.ReLU())
            self.head = nn.Linear(WIDTH, CLASSES)

        def forward(self, x):
            x = self.first(x)
            for _ in range(4):
                x = x + self.block(x)
            return self.head(x)

    return telling_classes(Model())


def siamese() -> Specimen:
    class Model(nn.Module):
        """One encoder for both of two points: do they have the same class?"""

        def __init__(self):
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
            self.head = nn.Linear(WIDTH, 2)

        def forward(self, one, other):
            return self.head((self.encoder(one) - self.encoder(other)).abs())

    def batch(seed):
        (one, kind), (other, same) = clusters(seed), clusters(seed + 50)
        return (one, other), (kind == same).long()

    model = Model()
    (inputs, targets), *more = [batch(seed) for seed in (1, 2, 3)]
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    return Specimen(model, inputs, targets, nn.CrossEntropyLoss(), optimizer, tuple(more))


def experts() -> Specimen:
    class Model(nn.Module):
        """The best of four experts, times its gate, so that the gate learns."""

        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(8, 4)
            self.experts = nn.ModuleList([nn.Linear(8, WIDTH) for _ in range(4)])
            self.head = nn.Linear(WIDTH, CLASSES)

        def forward(self, x):
            weights, chosen = self.gate(x).softmax(-1).max(-1)
            every = torch.stack([expert(x) for expert in self.experts], dim=1)
            return self.head(torch.relu(weights[:, None] * every[torch.arange(len(x)), chosen]))

    return telling_classes(Model())


def straight_through() -> Specimen:
    class Model(Net):
        """Rounded forward, as if not rounded on the way back."""

        def forward(self, x):
            x = self.body(x)
            x = x + ((8 * x).round() / 8 - x).detach()
            return self.head(self.middle(x))

    return telling_classes(Model())


def slow_teacher() -> Specimen:
    class Model(Net):
        """A frozen average of the body, on which nothing hangs but a part of the features."""

        def __init__(self):
            super().__init__()
            self.teacher = nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU()).requires_grad_(False)

        def forward(self, x):
            with torch.no_grad():
                target = self.teacher(x)
            return self.head(self.middle(self.body(x) + 0.5 * target))

    model = Model()
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    return replace(telling_classes(model), optimizer=optimizer)


def normed_weights() -> Specimen:
    model = Net()
    nn.utils.parametrizations.weight_norm(model.middle[0])
    nn.utils.parametrizations.spectral_norm(model.head)
    return telling_classes(model)


def dropout_of_zero() -> Specimen:
    model = Net()
    model.middle.append(nn.Dropout(0.0))
    return telling_classes(model)


def usual_dropout() -> Specimen:
    model = Net()
    model.middle.append(nn.Dropout(0.5))
    return telling_classes(model)


def gives_a_dictionary() -> Specimen:
    class Model(Net):
        def forward(self, x):
            features = self.middle(self.body(x))
            return {"logits": self.head(features), "features": features}

    def loss(outputs, labels):
        return functional.cross_entropy(outputs["logits"], labels)

    return replace(telling_classes(Model()), loss=loss)


def norm_without_weights() -> Specimen:
    model = Net()
    model.middle.append(nn.LayerNorm(WIDTH, elementwise_affine=False))
    return telling_classes(model)


def plain_descent() -> Specimen:
    patient = telling_classes(Net())
    return replace(patient, optimizer=torch.optim.SGD(patient.model.parameters(), lr=0.1, momentum=0.9))


def decay_on_matrices_alone() -> Specimen:
    model = nn.Sequential(nn.Linear(8, WIDTH), nn.LayerNorm(WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES))
    groups = [
        {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    return replace(telling_classes(model), optimizer=torch.optim.AdamW(groups, lr=3e-3))


HEALTHY = [
    Healthy("weights tied", weights_tied, "head and embedding are one on purpose, and small"),
    Healthy("embedding in two factors", embedding_in_two_factors, "a table and a matrix, to be narrow between"),
    Healthy("linear bottleneck", linear_bottleneck, "two linear layers in a row are narrower than one"),
    Healthy("frozen backbone", frozen_backbone, "not given to the optimizer either"),
    Healthy("frozen backbone under no_grad", frozen_backbone_under_no_grad, "the same, and faster"),
    Healthy("low-rank adapter", low_rank_adapter, "one factor is zero, the other is drawn"),
    Healthy("residuals from zero", residuals_from_zero, "gates of 0 are parameters, and leave it"),
    Healthy("head from zero", head_from_zero, "no opinion at the start: the first loss is ln K"),
    Healthy("one block for all depths", one_block_for_all_depths, "shared on purpose, with one name"),
    Healthy("siamese", siamese, "one encoder for two inputs"),
    Healthy("experts", experts, "argmax routes; the gate learns by its weight"),
    Healthy("straight-through", straight_through, "rounded forward alone"),
    Healthy("slow teacher", slow_teacher, "a frozen part beside the one that learns"),
    Healthy("normed weights", normed_weights, "weight norm and spectral norm as parametrizations"),
    Healthy("dropout of zero", dropout_of_zero, "a setting turned off"),
    Healthy("usual dropout", usual_dropout, "in training alone"),
    Healthy("gives a dictionary", gives_a_dictionary, "with logits among others"),
    Healthy("norm without weights", norm_without_weights, "nothing to learn in it"),
    Healthy("plain descent", plain_descent, "SGD with momentum at a usual rate"),
    Healthy("decay on matrices alone", decay_on_matrices_alone, "two groups, each parameter in one"),
]
