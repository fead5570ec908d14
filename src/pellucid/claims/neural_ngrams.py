"""Neural n-grams: what gradient descent makes of a table of scores, beside what counting gives."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search
from pellucid.claims.letter_pairs import DATA, count_list
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class ScoreTableKnobs:
    data: str = option("names", DATA)
    scale: float = option(1.0, "Deviation of the first scores.", minimum=0, maximum=100)
    learning_rate: float = option(50.0, "Learning rate of gradient descent on all pairs.", minimum=0, maximum=1e6)
    steps: int = option(1_000, "Steps.", minimum=0, maximum=100_000)
    loss: str = option("mean", "The mean over all pairs, or their sum", choices=("mean", "sum"))
    temperature: float = option(
        1.0, "Temperature of the pairs: below 1 they are more certain.", minimum=0.05, maximum=10
    )
    start: str = option(
        "drawn", "Scores that are drawn, or the logarithms of the counts", choices=("drawn", "log counts")
    )
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class BareStepKnobs(ScoreTableKnobs):
    learning_rate: float = option(1.0, "Learning rate of gradient descent on all pairs.", minimum=0, maximum=1e6)
    steps: int = option(10, "Steps.", minimum=0, maximum=100_000)
    loss: str = option("sum", "The mean over all pairs, or their sum", choices=("mean", "sum"))


@cache
def train_table(knobs: ScoreTableKnobs) -> tuple[Tensor, tuple[float, ...]]:
    """A table of scores for pairs that learns by gradient descent, and its mean loss before each step and after."""
    import torch

    from pellucid.training.rng import torch_rng

    counts, shares = _pairs(knobs)
    scores = torch.randn(counts.shape, generator=torch_rng(knobs.seed, 0, "table"), dtype=torch.float64) * knobs.scale
    if knobs.start == "log counts":
        scores = counts.clamp(min=1e-3).log()
    factor = float(counts.sum()) if knobs.loss == "sum" else 1.0
    losses = []
    for _ in range(knobs.steps):
        losses.append(-(shares * scores.log_softmax(-1)).sum().item())
        scores = scores - knobs.learning_rate * factor * (scores.softmax(-1) * shares.sum(-1, keepdim=True) - shares)
    losses.append(-(shares * scores.log_softmax(-1)).sum().item())
    return scores, tuple(losses)


def _pairs(knobs: ScoreTableKnobs) -> tuple[Tensor, Tensor]:
    import torch

    counts = torch.from_numpy(count_list(knobs.data).counts).double()
    rows = counts ** (1 / knobs.temperature)
    rows = rows / rows.sum(-1, keepdim=True)
    shares = rows * counts.sum(-1, keepdim=True) / counts.sum()
    return counts, shares


def measure_table(knobs: ScoreTableKnobs) -> Numbers:
    """The loss before and after, and the least that any table can have."""
    import torch

    _, losses = train_table(knobs)
    _, shares = _pairs(knobs)
    rows = shares / shares.sum(-1, keepdim=True)
    least = -(shares * torch.where(rows > 0, rows, 1.0).log()).sum().item()
    return {
        "loss after": losses[-1],
        "loss before": losses[0],
        "loss of counting": least,
        "above counting by": losses[-1] - least,
        "even chances": math.log(len(rows)),
    }


def measure_table_by_torch(knobs: ScoreTableKnobs) -> Numbers:
    """The loss before training as torch's cross-entropy has it, pair by pair."""
    import torch

    from pellucid.training.rng import torch_rng

    found = count_list(knobs.data)
    tokens = torch.from_numpy(found.corpus.tokens.astype("int64"))
    scores = torch.randn(found.counts.shape, generator=torch_rng(knobs.seed, 0, "table"), dtype=torch.float64)
    loss = torch.nn.functional.cross_entropy(scores[tokens[:-1]] * knobs.scale, tokens[1:])
    return {"loss before": loss.item()}


def measure_as_counts(knobs: ScoreTableKnobs) -> Numbers:
    """The exponentials of trained scores beside the counts, for pairs that were seen at least a hundred times."""
    scores, _ = train_table(knobs)
    counts, _ = _pairs(knobs)
    ratios = (scores.exp() / counts)[counts >= 100]
    return {
        "exp of a score over its count": ratios.median().item(),
        "sum of exp of all": scores.exp().sum().item(),
        "pairs counted": counts.sum().item(),
    }


@dataclass(frozen=True)
class NetOrCountsKnobs:
    data: str = option("names", DATA)
    n: int = option(2, "Order of the n-gram.", minimum=2, maximum=5)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@cache
def count_contexts(data: str, n: int) -> tuple[Tensor, Tensor]:
    """Every context of n - 1 tokens that occurs, (contexts, n - 1), and the shares of what follows, (contexts, V)."""
    import numpy as np
    import torch

    found = count_list(data)
    windows = []
    for item in found.items:
        framed = [0] * (n - 1) + found.vocabulary.encode(item) + [0]
        windows += [framed[i : i + n] for i in range(len(framed) - n + 1)]
    contexts, places = np.unique(np.array(windows)[:, :-1], axis=0, return_inverse=True)
    table = torch.zeros(len(contexts), len(found.vocabulary), dtype=torch.float64)
    after = torch.tensor([window[-1] for window in windows])
    table.index_put_(
        (torch.from_numpy(places.reshape(-1)), after), torch.tensor(1.0, dtype=torch.float64), accumulate=True
    )
    return torch.from_numpy(contexts), table / len(windows)


def measure_net_or_counts(knobs: NetOrCountsKnobs) -> Numbers:
    """Train losses of a table W of n - 1 places, brought to its minimum, which is one, and of counting the n-grams."""
    import torch

    from pellucid.training.rng import torch_rng

    contexts, shares = count_contexts(knobs.data, knobs.n)
    size = shares.shape[1]
    drawn = torch.randn(knobs.n - 1, size, size, generator=torch_rng(knobs.seed, 0, "table"), dtype=torch.float64)
    weights = drawn.requires_grad_()
    optimizer = torch.optim.LBFGS([weights], max_iter=100, history_size=20, line_search_fn="strong_wolfe")

    def closure() -> float:
        optimizer.zero_grad()
        scores = torch.stack([weights[place][contexts[:, place]] for place in range(knobs.n - 1)]).sum(0)
        loss = -(shares * scores.log_softmax(-1)).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.item()

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    rows = shares / shares.sum(-1, keepdim=True)
    counted = -(shares * torch.where(rows > 0, rows, 1.0).log()).sum().item()
    learned = closure()
    return {"above counting by": learned - counted, "loss of the network": learned, "loss of counting": counted}


def count_with_model(knobs: NetOrCountsKnobs) -> Numbers:
    """The loss of counting by the n-gram model itself."""
    from pellucid.models.counting.fitting import count_loss
    from pellucid.models.counting.ngram import AddS, NGram, NGramConfig

    found = count_list(knobs.data)
    model = NGram.fit(found.corpus, NGramConfig(len(found.vocabulary), knobs.n, AddS(0.0)))
    return {"loss of counting": count_loss(model, found.corpus).nats}


LEARNING = "notes §10"

FAMILY = ClaimFamily(
    name="neural-ngrams",
    title="Neural n-grams",
    picture="decay",
    claims=(
        Claim(
            id="neural-ngram-equals-count-ngram",
            says="a network with W of (n−1, V, V) gets the same loss as counting n-grams",
            where="notes §8, §10",
            kind="training",
            measure=measure_net_or_counts,
            decides="above counting by",
            margin=lambda seen: 0.01 - seen["above counting by"],
            rule="at its minimum its train loss is within 0.01 nats of counting's, for n of 2 to 4",
            knobs=NetOrCountsKnobs,
            control={"n": 3},
            search=Search("n", 2, 4, n_values=3),
            second=count_with_model,
            seeds=5,
        ),
        Claim(
            id="exp-logits-are-counts",
            says="the scores of the network are logarithms of counts, and their exponentials the counts",
            where="notes §9",
            kind="training",
            measure=measure_as_counts,
            decides="exp of a score over its count",
            margin=lambda seen: 0.1 - abs(math.log(seen["exp of a score over its count"])),
            rule="after training the exponentials are within 10 % of the counts",
            knobs=ScoreTableKnobs,
            control={"start": "log counts"},
            seeds=5,
            other_reading="they are in proportion to the counts, with a factor for each row that nothing decides",
        ),
        Claim(
            id="random-W-loss-high",
            says="with W drawn from N(0, 1) the first loss is not good",
            where=LEARNING,
            kind="draws",
            measure=lambda knobs: measure_table(replace(knobs, steps=0)),
            decides="loss before",
            margin=lambda seen: seen["loss before"] - seen["even chances"] - 1e-9,
            rule="it is higher than that of even chances",
            knobs=ScoreTableKnobs,
            control={"scale": 0.0},
            second=measure_table_by_torch,
            seeds=8,
        ),
        Claim(
            id="update-W-minus-grad",
            says="W ← W − gradient, of the summed loss, lowers the loss",
            where="notes §10(f), §12(f)",
            kind="training",
            measure=measure_table,
            decides="loss after",
            margin=lambda seen: seen["loss before"] - seen["loss after"],
            rule="after ten such steps on all pairs the loss is lower than before",
            knobs=BareStepKnobs,
            control={"loss": "mean"},
            seeds=5,
            other_reading="with a learning rate, which comes a section later, or with the mean of the losses it does",
        ),
        Claim(
            id="loss-very-close-to-one",
            says="training brings the loss very close to one",
            where=LEARNING,
            kind="training",
            measure=measure_table,
            decides="loss after",
            margin=lambda seen: 0.1 - abs(seen["loss after"] - 1),
            rule="after 1,000 steps it is within 0.1 of 1",
            knobs=ScoreTableKnobs,
            control={"temperature": 0.26},
            seeds=5,
            other_reading="very close to that of counting, which it is",
        ),
        Claim(
            id="neural-bigram-reaches-counts",
            says="a table that learns pairs by gradient descent gets the loss of counted pairs",
            where="notes §7, §10",
            kind="training",
            measure=measure_table,
            decides="above counting by",
            margin=lambda seen: 0.01 - seen["above counting by"],
            rule="after 1,000 steps it is within 0.01 nats",
            knobs=ScoreTableKnobs,
            control={"steps": 5},
            seeds=5,
        ),
    ),
)
