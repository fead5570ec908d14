"""Small data with something to learn in it, and patients that read it with a loss and an optimizer that suit it."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.inspection.instrument.specimen import Specimen

CLASSES = 4
VOCAB = 16
BATCHES = (1, 2, 3)  # seeds: the batch that is looked at, and two more

Pair = tuple[Tensor, Tensor]


def clusters(seed: int, rows: int = 32, width: int = 8) -> Pair:
    """Points about one centre for each class."""
    centres = torch.randn(CLASSES, width, generator=torch.Generator().manual_seed(0))
    dice = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, CLASSES, (rows,), generator=dice)
    return centres[labels] + 0.4 * torch.randn(rows, width, generator=dice), labels


def slopes(seed: int, rows: int = 32, width: int = 8) -> Pair:
    """Numbers to be told from others: a sum of them with a little noise, (rows,)."""
    weights = torch.randn(width, generator=torch.Generator().manual_seed(0)) / width**0.5
    dice = torch.Generator().manual_seed(seed)
    features = torch.randn(rows, width, generator=dice)
    return features, features @ weights + 0.1 * torch.randn(rows, generator=dice)


def pictures(seed: int, rows: int = 16, size: int = 8) -> Pair:
    """Gray images, (rows, 1, size, size), each with the pattern of its class."""
    patterns = torch.randn(CLASSES, 1, size, size, generator=torch.Generator().manual_seed(0))
    dice = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, CLASSES, (rows,), generator=dice)
    return patterns[labels] + 0.5 * torch.randn(rows, 1, size, size, generator=dice), labels


def sentences(seed: int, rows: int = 16, time: int = 12, vocab: int = VOCAB, rare: float = 0.2) -> Pair:
    """Tokens, and the token after each: two may follow on every one, and one of them does so rarely."""
    followers = torch.randint(0, vocab, (vocab, 2), generator=torch.Generator().manual_seed(0))
    dice = torch.Generator().manual_seed(seed)
    columns = [torch.randint(0, vocab, (rows,), generator=dice)]
    for _ in range(time):
        rarely = (torch.rand(rows, generator=dice) < rare).long()
        columns.append(followers[columns[-1], rarely])
    tokens = torch.stack(columns, dim=1)
    return tokens[:, :-1], tokens[:, 1:]


def orders(seed: int, rows: int = 32, time: int = 10) -> Pair:
    """Tokens among which 1 and 2 stand once each, and which of the two comes first."""
    dice = torch.Generator().manual_seed(seed)
    tokens = torch.randint(3, VOCAB, (rows, time), generator=dice)
    places = torch.rand(rows, time, generator=dice).argsort(dim=1)[:, :2]
    tokens[torch.arange(rows), places[:, 0]] = 1
    tokens[torch.arange(rows), places[:, 1]] = 2
    return tokens, (places[:, 0] < places[:, 1]).long()


def of_tokens(scores: Tensor, targets: Tensor) -> Tensor:
    """The cross-entropy of scores (batch, time, vocab)."""
    return functional.cross_entropy(scores.flatten(0, 1), targets.flatten())


def _shown(model: nn.Module, pairs: list[Pair], loss, rate: float, is_causal: bool | None) -> Specimen:
    (inputs, targets), *rest = pairs
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    more = tuple(((others,), wanted) for others, wanted in rest)
    return Specimen(model, (inputs,), targets, loss, optimizer, more, is_causal)


def telling_classes(model: nn.Module, data=clusters, rate: float = 3e-3) -> Specimen:
    return _shown(model, [data(seed) for seed in BATCHES], nn.CrossEntropyLoss(), rate, None)


def telling_numbers(model: nn.Module, loss=nn.MSELoss(), rate: float = 3e-3) -> Specimen:  # noqa: B008 (has no state)
    pairs = [slopes(seed) for seed in BATCHES]
    return _shown(model, [(features, wanted[:, None]) for features, wanted in pairs], loss, rate, None)


def telling_tokens(model: nn.Module, data=sentences, rate: float = 3e-3) -> Specimen:
    """Of a model that reads (batch, time) and scores what comes next."""
    return _shown(model, [data(seed) for seed in BATCHES], of_tokens, rate, is_causal=True)
