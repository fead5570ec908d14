"""What training looks like when it goes well and when it does not: small networks on names, the same for every seed.

Each takes seconds on one thread. Rates, gains and batches are chosen to show one thing each; all numbers are measured.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from pellucid.data import open_data
from pellucid.data.kinds import ListData
from pellucid.data.sides import Side, Sides, divided
from pellucid.inspection.health import HealthProbe
from pellucid.layers.activations import gain
from pellucid.models.mlp import MLP, MLPConfig
from pellucid.records import (
    Curve,
    DeadUnitStudy,
    DecayStudy,
    GainStudy,
    Health,
    LayerStats,
    SaturationStudy,
    StartStudy,
    UnitMap,
)
from pellucid.training.batches import Batch, batches_of
from pellucid.training.loop import loss_of
from pellucid.training.rng import seed_torch, torch_rng
from pellucid.training.task import Batches

BATCH = 32  # names in a step
SOME, FEW = 16, 4  # names in a batch that is looked at whole, and in one so small that units are dead on it
STRETCH = 20  # steps that a shown loss is the mean of
LONGEST = 16  # the context of a batch; names have their own length
FIRST, WEIGHTS_INTO_FIRST = "layers.0.activation", "layers.0.linear.weight"  # of the MLP


def decay_study(seed: int = 1, rate: float = 200.0, n_steps: int = 400) -> DecayStudy:
    """A rate that is too high for the end of a run, kept to the end, and divided by ten for the last tenth of it.

    A table of scores for each pair of letters learns from all names at once, so all unrest is the rate's doing.
    """
    sides = _names()
    decay_step = n_steps * 9 // 10

    def divided_late(step: int) -> float:
        return rate if step <= decay_step else rate / 10

    train, dev = (pair_shares(side, len(sides.vocabulary)) for side in (sides.train, sides.dev))
    kept, dev_kept = _table_trained(train, dev, lambda step: rate, n_steps, seed)
    decayed, dev_decayed = _table_trained(train, dev, divided_late, n_steps, seed)
    steps = tuple(range(1, n_steps + 1))
    # Half of what follows the decay is coming down; the other half shows how still it becomes.
    still = (n_steps - decay_step) // 2
    return DecayStudy(
        source=f"names, a table of bigram scores, all names in every step, rate {rate:g}, seed {seed}",
        kept=Curve("kept", steps, tuple(kept)),
        decayed=Curve("divided by 10", steps, tuple(decayed)),
        rates=Curve("rate", steps, tuple(divided_late(step) for step in steps)),
        decay_step=decay_step,
        unrest_before=statistics.pstdev(decayed[decay_step - still : decay_step]),
        unrest_after=statistics.pstdev(decayed[-still:]),
        dev_kept=dev_kept,
        dev_decayed=dev_decayed,
    )


def start_study(seed: int = 1, rate: float = 0.1, n_steps: int = 1000) -> StartStudy:
    """The first steps of the same network after a bad start and after a good one; each loss a mean of the last few."""
    sides = _names()
    curves = []
    for name in ("bad", "good"):
        model = _mlp(sides, seed)
        if name == "bad":
            _start_too_large(model, seed)
        losses = _trained(model, _batches(sides, seed), rate, n_steps)
        curves.append(Curve(name, tuple(range(1, n_steps + 1)), means_of_last(losses, STRETCH)))
    return StartStudy(
        source=f"names, an MLP, SGD at a rate of {rate:g}, seed {seed}; means over {STRETCH} steps",
        uniform=math.log(len(sides.vocabulary)),
        bad=curves[0],
        good=curves[1],
        bad_says="all weights and biases drawn from N(0, 1)",
        good_says="weights drawn by the gain of tanh, the last layer's a tenth of that",
    )


def saturation_study(seed: int = 1) -> SaturationStudy:
    """The hidden layer's units on one batch before any training, for both starts."""
    sides = _names()
    batch = _batches(sides, seed, SOME).batch(1)
    bad, good = _mlp(sides, seed), _mlp(sides, seed)
    _start_too_large(bad, seed)
    (bad_layer, bad_map), (good_layer, good_map) = (_first_bend(_look(model, batch)) for model in (bad, good))
    return SaturationStudy(
        f"names, an MLP of {bad_layer.width} tanh units, seed {seed}",
        bad_map,
        good_map,
        bad_layer.saturated or 0.0,
        good_layer.saturated or 0.0,
    )


def dead_unit_study(seed: int = 1, rate: float = 2.0, n_steps: int = 20) -> DeadUnitStudy:
    """A ReLU layer after a few steps at a rate that knocked units out, on a batch of a few names.

    The gradients are those of the weights into each unit, the largest of each by its size.
    """
    sides = _names()
    model = _mlp(sides, seed, activation="relu")
    _trained(model, _batches(sides, seed), rate, n_steps)
    health = _look(model, _batches(sides, seed, FEW).batch(n_steps + 1))
    layer, units = _first_bend(health)
    columns = list(zip(*units.values, strict=True))
    dead = tuple(i for i, column in enumerate(columns) if set(column) == {"9"})
    gradient = model.get_parameter(WEIGHTS_INTO_FIRST).grad  # (units, inputs)
    assert gradient is not None
    into_each = gradient.abs().amax(1).tolist()
    return DeadUnitStudy(
        source=f"names, an MLP of {layer.width} ReLU units after {n_steps} steps of SGD at {rate:g}, seed {seed}",
        units=units,
        dead=dead,
        gradient_of_dead=max((into_each[i] for i in dead), default=0.0),
        gradient_of_others=statistics.median(into_each[i] for i in range(len(columns)) if i not in dead),
    )


def gain_study(
    seed: int = 1, activation: str = "tanh", depth: int = 6, factors: Sequence[float] = (0.5, 1.0, 3.0)
) -> GainStudy:
    """A deep stack on one batch before any training, its weights drawn by multiples of the activation's gain."""
    sides = _names()
    batch = _batches(sides, seed).batch(1)
    best = gain(activation)
    stacks = []
    for factor in factors:
        model = _mlp(sides, seed, activation, depth, hidden=100)
        with torch.no_grad():
            for path, layer in model.named_modules():
                # The first layer reads embeddings, which have variance 1 already.
                if isinstance(layer, nn.Linear) and path.startswith("layers.") and not path.startswith("layers.0."):
                    layer.weight.mul_(factor)
        layers = tuple(layer for layer in _look(model, batch).layers if layer.path.endswith(".activation"))
        stacks.append((factor * best, layers))
    return GainStudy(f"names, {depth} layers of 100 units, seed {seed}", activation, best, tuple(stacks))


def maps_of(health: Sequence[Health]) -> dict[str, tuple[UnitMap, ...]]:
    """Of a run's looks the maps of each layer that can be flat: the first look's, then the last one's, if it has them.

    >>> maps_of([Health(1, (), (), (UnitMap("act", "Tanh", ("90",), ("09",)),)), Health(2, (), ())])
    {'act': (UnitMap(path='act', kind='Tanh', values=('90',), gradients=('09',)),)}
    """
    found: dict[str, tuple[UnitMap, ...]] = {}
    looks = [look for look in health if look.maps]
    for look in looks[:1] + looks[1:][-1:]:
        for units in look.maps:
            found[units.path] = (*found.get(units.path, ()), units)
    return found


def means_of_last(values: Sequence[float], n: int) -> tuple[float, ...]:
    """Each with the up to n - 1 before it: the first stays as it is.

    >>> means_of_last([4.0, 2.0, 0.0], 2)
    (4.0, 3.0, 1.0)
    """
    return tuple(statistics.fmean(values[max(0, i + 1 - n) : i + 1]) for i in range(len(values)))


def pair_shares(side: Side, vocab_size: int) -> Tensor:
    """How much of all pairs of neighbouring tokens each pair is: (vocab, vocab), the first token down."""
    tokens = torch.from_numpy(side.tokens.astype("int64"))
    counts = torch.bincount(tokens[:-1] * vocab_size + tokens[1:], minlength=vocab_size**2)
    return (counts.double() / counts.sum()).view(vocab_size, vocab_size)


def _table_trained(
    train: Tensor, dev: Tensor, rate_at: Callable[[int], float], n_steps: int, seed: int
) -> tuple[list[float], float]:
    """Gradient descent on a table of scores, from N(0, 1): the loss before each step, and on dev at the end."""
    scores = torch.randn(train.shape, generator=torch_rng(seed, 0, "table"), dtype=train.dtype)
    losses = []
    for step in range(1, n_steps + 1):
        losses.append(_pair_loss(scores, train))
        # The slope of cross-entropy by a score: what it says less what is so, for each row by how often it occurs.
        scores -= rate_at(step) * (scores.softmax(-1) * train.sum(-1, keepdim=True) - train)
    return losses, _pair_loss(scores, dev)


def _pair_loss(scores: Tensor, shares: Tensor) -> float:
    return -(shares * scores.log_softmax(-1)).sum().item()


def _names() -> Sides:
    data = open_data("names")
    assert isinstance(data, ListData)
    return divided(data)


def _mlp(sides: Sides, seed: int, activation: str = "tanh", depth: int = 1, hidden: int = 200) -> MLP:
    with seed_torch(seed, 0, "weights"):
        return MLP(MLPConfig(len(sides.vocabulary), activation=activation, depth=depth, hidden=hidden))


def _start_too_large(model: MLP, seed: int) -> None:
    """Every weight and bias from N(0, 1), whatever its fan-in."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(generator=torch_rng(seed, 0, name))


def _batches(sides: Sides, seed: int, batch: int = BATCH) -> Batches:
    return batches_of(sides.train, batch, LONGEST, seed, by_length=False)


def _trained(model: MLP, batches: Batches, rate: float, n_steps: int) -> list[float]:
    """Plain gradient descent on small batches: the loss before each step."""
    losses = []
    for step in range(1, n_steps + 1):
        batch = batches.batch(step)
        model.zero_grad()
        loss = loss_of(model(batch.tokens), batch.targets)
        loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
        with torch.no_grad():
            for parameter in model.parameters():
                assert parameter.grad is not None
                parameter.sub_(parameter.grad, alpha=rate)
        losses.append(loss.item())
    return losses


def _look(model: MLP, batch: Batch) -> Health:
    """One pass forward and back with a probe, and no update."""
    probe = HealthProbe(model)
    model.zero_grad()
    with probe.watch(1, with_maps=True):
        loss_of(model(batch.tokens), batch.targets).backward()  # type: ignore[no-untyped-call]
    (health,) = probe.taken()
    return health


def _first_bend(health: Health) -> tuple[LayerStats, UnitMap]:
    layer = next(layer for layer in health.layers if layer.path == FIRST)
    return layer, next(units for units in health.maps if units.path == FIRST)
