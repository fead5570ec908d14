"""What the demonstrations of training show: the same network, started or driven well and badly."""

from typing import NamedTuple

from pellucid.records.training import LayerStats, UnitMap


class Curve(NamedTuple):
    """A number over the steps of a run."""

    name: str
    steps: tuple[int, ...]
    values: tuple[float, ...]


class DecayStudy(NamedTuple):
    """A run whose rate is too high for its end, and the same run with the rate divided late."""

    source: str
    kept: Curve  # the loss while the rate stays as it is
    decayed: Curve
    rates: Curve  # of the decayed one
    decay_step: int
    unrest_before: float  # deviation of the loss over the last steps before the decay, of the decayed run
    unrest_after: float
    dev_kept: float
    dev_decayed: float


class StartStudy(NamedTuple):
    """The loss from the first step on, for weights that start badly and weights that start well."""

    source: str
    uniform: float  # ln of the vocabulary's size, where a start without opinions stands
    bad: Curve
    good: Curve
    bad_says: str
    good_says: str


class SaturationStudy(NamedTuple):
    """The units of a tanh layer on one batch, for weights that start too large and weights that start right."""

    source: str
    bad: UnitMap
    good: UnitMap
    bad_saturated: float  # shares of all values
    good_saturated: float


class DeadUnitStudy(NamedTuple):
    """A layer with a unit that is flat on every example of a batch, so that nothing teaches it."""

    source: str
    units: UnitMap
    dead: tuple[int, ...]  # columns
    gradient_of_dead: float  # the largest gradient that reached its weights
    gradient_of_others: float  # the median over the other units


class GainStudy(NamedTuple):
    """A deep stack of layers with one activation, for several gains of the first weights."""

    source: str
    activation: str
    best_gain: float  # 1 / sqrt(E[f(Z)^2])
    stacks: tuple[tuple[float, tuple[LayerStats, ...]], ...]  # each gain and its layers from the input up
