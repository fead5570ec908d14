"""Where tanh or sigmoid has reached its ends, its slope is nearly 0 and little gradient comes through.

The last sigmoid of a classifier may be sure of itself, so what the module puts out at the end is not judged.
"""

from collections.abc import Iterator

from torch import nn

from pellucid.inspection.instrument.nests import main_tensor
from pellucid.inspection.instrument.recording import Recording, activation_slopes, part_name, record
from pellucid.inspection.judgements import NEARLY_ZERO, judge_saturation
from pellucid.inspection.rules import DoctorRule, Findings, Specimen

SQUASHING = frozenset({"tanh", "sigmoid"})


def check(specimen: Specimen) -> Findings:
    counts: dict[tuple[str, str], list[int]] = {}  # of each layer: values near the ends, values
    for batch in specimen.copy().batches():
        if (seen := record(batch, SQUASHING)) is None:
            continue
        for path, name, n_flat, n in (*_functions(seen), *_recurrent(seen)):
            found = counts.setdefault((path, name), [0, 0])
            found[0] += n_flat
            found[1] += n
    if not counts:
        return
    (path, name), (n_flat, n) = max(counts.items(), key=lambda item: item[1][0] / item[1][1])
    count = f"{100 * n_flat / n:.2f} % of {name}'s {n} values were where its slope is below {NEARLY_ZERO:.2f}"
    yield judge_saturation(part_name(path), count, n_flat / n)


def _functions(seen: Recording) -> Iterator[tuple[str, str, int, int]]:
    last = main_tensor(seen.outputs)
    for call in seen.functions:
        if call.made is not last and (steepness := activation_slopes(call)) is not None:
            yield call.path, call.name, int((steepness < NEARLY_ZERO).sum()), steepness.numel()


def _recurrent(seen: Recording) -> Iterator[tuple[str, str, int, int]]:
    """What torch's own recurrent network puts out is a tanh that calls no function; its slope is 1 - out²."""
    for call in seen.modules:
        if isinstance(call.module, nn.RNN) and call.module.nonlinearity == "tanh" and call.made is not None:
            out = call.made.detach()
            yield call.path, "RNN", int((1 - out.square() < NEARLY_ZERO).sum()), out.numel()


RULE = DoctorRule(
    name="saturated",
    proves="that most values of a tanh or sigmoid lie where hardly any gradient comes through",
    how="measures the slope of each at what it is given, by autograd",
    check=check,
    cannot_see="activations that are written out and not called",
    again="tried = copy.deepcopy(model)\n"
    "def show(name): return lambda _, args, out: print(name, (out.abs() > 0.97).float().mean())\n"
    "for name, part in tried.named_modules(): part.register_forward_hook(show(name))\n"
    "tried(x)",
    follows=("inputs-unnormalised",),
)
