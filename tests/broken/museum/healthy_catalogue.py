"""Every network of pellucid's own catalogue, at the size that its contracts are tried on."""

from collections.abc import Callable

import torch
from tests.broken.museum.batches import BATCHES, of_tokens, sentences
from tests.broken.museum.exhibit import Healthy
from torch import Tensor, nn
from torch.nn import functional

from pellucid.inspection.instrument.specimen import Specimen
from pellucid.models.catalogue import NetworkCard, networks_for
from pellucid.models.contracts import Reconstructor
from pellucid.models.examples.configs import ExampleShape


def _optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)


def reader(card: NetworkCard) -> Callable[[], Specimen]:
    def build() -> Specimen:
        model = card.build(card.tiny)
        (tokens, targets), *rest = [sentences(seed, 32, 12, card.tiny.vocab_size, rare=0.5) for seed in BATCHES]
        more = tuple(((others,), wanted) for others, wanted in rest)
        return Specimen(model, (tokens,), targets, of_tokens, _optimizer(model), more, is_causal=True)

    return build


def _examples(inputs: ExampleShape, seed: int, rows: int = 32) -> tuple[Tensor, Tensor, Tensor]:
    """Numbers about the centre of each class, codes at random, and the classes."""
    classes = max(inputs.outputs, 2)
    centres = torch.randn(classes, *inputs.numbers, generator=torch.Generator().manual_seed(0))
    dice = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, classes, (rows,), generator=dice)
    numbers = centres[labels] + 0.4 * torch.randn(rows, *inputs.numbers, generator=dice)
    columns = [torch.randint(0, codes, (rows,), generator=dice) for codes in inputs.categories]
    codes = torch.stack(columns, dim=1) if columns else torch.zeros(rows, 0, dtype=torch.long)
    return numbers, codes, labels


def examples(card: NetworkCard) -> Callable[[], Specimen]:
    def build() -> Specimen:
        model = card.build(card.tiny)
        is_mirror = isinstance(model, Reconstructor)
        batches = []
        for seed in BATCHES:
            numbers, codes, labels = _examples(ExampleShape.of(card.tiny), seed)
            batches.append(
                ((numbers, codes), model.reconstruction_target(numbers, codes).detach() if is_mirror else labels)
            )
        (inputs, targets), *more = batches
        loss = nn.MSELoss() if is_mirror else nn.CrossEntropyLoss()
        return Specimen(model, inputs, targets, loss, _optimizer(model), tuple(more))

    return build


def pairs(card: NetworkCard) -> Callable[[], Specimen]:
    """Sources are told backwards, with the boundary at the end."""

    def build() -> Specimen:
        model = card.build(card.tiny)
        batches = []
        for seed in BATCHES:
            dice = torch.Generator().manual_seed(seed)
            sources = torch.randint(1, card.tiny.vocab_size, (32, 4), generator=dice)
            written = sources.flip(1)
            batches.append(((sources, functional.pad(written, (1, 0))), functional.pad(written, (0, 1))))
        (inputs, targets), *more = batches
        return Specimen(model, inputs, targets, of_tokens, _optimizer(model), tuple(more))

    return build


HEALTHY = [
    *[Healthy(f"pellucid {name}", reader(card), card.summary) for name, card in networks_for("list").items()],
    *[
        Healthy(f"pellucid {name} of examples", examples(card), card.summary)
        for name, card in networks_for("images").items()
    ],
    *[Healthy(f"pellucid {name} of pairs", pairs(card), card.summary) for name, card in networks_for("pairs").items()],
]
