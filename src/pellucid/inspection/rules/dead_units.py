"""A unit that is flat on every example passes no gradient on: what lies before it learns nothing from these examples.

Flat is where the slope of the activation, measured by autograd, is nearly 0. Half of a ReLU's values are by design; a
unit is dead only where all of its own are, over all batches that are at hand.
"""

from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor

from pellucid.inspection.instrument.recording import (
    Recording,
    activation_slopes,
    by_unit,
    part_name,
    record,
)
from pellucid.inspection.judgements import NEARLY_ZERO, judge_dead_units
from pellucid.inspection.rules import DoctorRule, Findings, Specimen

ACTIVATIONS = frozenset({"relu", "relu6", "leaky_relu", "gelu", "silu", "elu", "celu", "selu", "mish", "hardswish"})


@dataclass
class _Activation:
    """One activation over all batches: which of its units were flat on every example so far."""

    where: str
    name: str
    flat: Tensor  # (units,)
    n_examples: int
    steepest: float = 0.0

    @property
    def n_dead(self) -> int:
        return int(self.flat.sum())

    @property
    def share(self) -> float:
        return self.n_dead / len(self.flat)


def check(specimen: Specimen) -> Findings:
    layers: dict[tuple[str, str, int], _Activation] = {}
    for batch in specimen.copy().batches():
        if (seen := record(batch, ACTIVATIONS)) is not None:
            _add(layers, seen)
    if not layers:
        return
    worst = max(layers.values(), key=lambda layer: layer.share)
    yield judge_dead_units(worst.where, worst.name, worst.n_dead, len(worst.flat), worst.n_examples, worst.steepest)


def _add(layers: dict[tuple[str, str, int], _Activation], seen: Recording) -> None:
    calls: Counter[tuple[str, str]] = Counter()
    for call in seen.functions:
        which = calls[call.path, call.name]
        calls[call.path, call.name] += 1
        if (steepness := activation_slopes(call)) is None:
            continue
        units = by_unit(steepness.abs(), seen.maker_of(call.arguments[0]))
        flat, steepest = (units < NEARLY_ZERO).all(0), units.amax(0)
        key = call.path, call.name, which
        before = layers.get(key)
        if before is not None and len(before.flat) != len(flat):
            continue
        # By its number where one part calls it several times, as a forward of someone's own does.
        where = part_name(call.path) + (f", its {call.name} no. {which + 1}" if which else "")
        layer = before or _Activation(where, call.name, torch.ones_like(flat), 0)
        layer.flat = layer.flat & flat
        layer.n_examples += len(units)
        layer.steepest = max([layer.steepest, *steepest[layer.flat].tolist()])
        layers[key] = layer


RULE = DoctorRule(
    name="dead-units",
    proves="that units pass no gradient on, whichever of the given examples is read",
    how="measures the slope of every activation at what it is given, over all batches, by autograd",
    check=check,
    cannot_see="units that are flat on these examples and not on others",
    again="tried = copy.deepcopy(model)\n"
    "def show(name): return lambda _, args, out: print(name, (out == 0).flatten(0, -2).all(0).sum())\n"
    "for name, part in tried.named_modules(): part.register_forward_hook(show(name))\n"
    "tried(x)",
    follows=("inputs-unnormalised",),
)
