"""Dropout that drops twice, everything, the answers themselves, or still drops when the network is used.

Watched are the calls of dropout while training, and again while evaluating, where none may drop: two runs from other
seeds then give other outputs, which is the proof.
"""

from torch import Tensor

from pellucid.inspection.instrument.nests import main_tensor
from pellucid.inspection.instrument.recording import FunctionCall, Recording, part_name, record
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

NEARLY_ALL = 0.9
_PLAIN = frozenset({"dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"})
_NAMES = _PLAIN | {"scaled_dot_product_attention"}


def check(specimen: Specimen) -> Findings:
    seen = record(specimen.copy("training"), _NAMES)
    found = [] if seen is None else [*_everything(seen), *_twice(seen)]
    if seen is not None and specimen.loss is not None:
        found += _of_the_answers(seen)
    found += _in_use(specimen.copy("eval"))
    yield from found
    shares = [_share(call) for call in seen.functions if call.name in _PLAIN] if seen is not None else []
    if found or not shares:
        return
    if not any(shares):
        seen_text, means = f"all {len(shares)} dropouts have p = 0", "none of them drops anything"
        yield Finding.note("the model", seen_text, means, "leave them out, or set p")
        return
    seen_text = f"{len(shares)} dropouts with p from {min(shares):g} to {max(shares):g}, and none drops in use"
    yield Finding.sound("the model", seen_text, "each drops once, and only while training")


def _share(call: FunctionCall) -> float:
    """Of the values that this call drops."""
    if call.name == "scaled_dot_product_attention":
        return float(call.value_of("dropout_p", 4, 0.0))
    is_on = call.value_of("training", 2, call.name != "alpha_dropout" and call.name != "feature_alpha_dropout")
    return float(call.value_of("p", 1, 0.5)) if is_on else 0.0


def _everything(seen: Recording) -> Findings:
    for call in seen.functions:
        share = _share(call)
        if share < NEARLY_ALL or not isinstance(call.made, Tensor) or not call.made.numel():
            continue
        zeros = (call.made == 0).float().mean().item()
        is_all = share == 1 and zeros == 1
        yield Finding(
            "broken" if is_all else "suspicious",
            part_name(call.path),
            f"p = {share:g}: {100 * zeros:.2f} % of what it puts out is 0",
            "nothing comes through while training" if is_all else "next to nothing comes through while training",
            f"p is the share that is dropped, not kept: write p={1 - share:.2g} if that was meant",
            again="module.p",
        )


def _twice(seen: Recording) -> Findings:
    calls = [call for call in seen.functions if call.name in _PLAIN and _share(call) > 0]
    for first in calls:
        for second in calls:
            if first is not second and second.arguments and second.arguments[0] is first.made:
                kept = (1 - _share(first)) * (1 - _share(second))
                yield Finding.suspicious(
                    f"{part_name(first.path)} and {part_name(second.path)}",
                    f"p = {_share(first):g} and at once p = {_share(second):g}: {100 * kept:.0f} % is kept",
                    f"two in a row are one dropout of p = {1 - kept:.2g}",
                    "take one of them out",
                    again="module.p",
                )


def _of_the_answers(seen: Recording) -> Findings:
    last = main_tensor(seen.outputs)
    for call in seen.functions:
        if call.name in _PLAIN and _share(call) > 0 and call.made is last:
            seen_text = f"p = {_share(call):g} on the very outputs that the loss is taken of"
            means = "answers are set to 0 at random while training, and no weight can mend that"
            fix = "put it before the last layer"
            yield Finding.suspicious(part_name(call.path), seen_text, means, fix, again="module.p")


def _in_use(used: Specimen) -> Findings:
    first, second = record(used, _NAMES, seed=0), record(used, frozenset(), seed=1)
    if first is None or second is None:
        return
    dropping = [call for call in first.functions if _share(call) > 0]
    one, other = main_tensor(first.outputs), main_tensor(second.outputs)
    if not dropping or one is None or other is None or one.shape != other.shape:
        return
    apart = (one - other).abs().max().item()
    if apart > 0:
        yield Finding.suspicious(
            part_name(dropping[0].path),
            f"after eval() {dropping[0].name} drops with p = {_share(dropping[0]):g}: two runs differ by {apart:.2g}",
            "answers are random when the network is used",
            "write training=self.training"
            if dropping[0].name in _PLAIN
            else "write dropout_p=self.p if self.training else 0.0",
        )


RULE = DoctorRule(
    name="dropout-odd",
    proves="that dropout drops everything, twice, the answers, or in use",
    how="watches the calls of dropout while training and while evaluating, and runs twice from other seeds",
    check=check,
    cannot_see="noise that is not drawn by torch's dropout",
    again="model.eval(); (model(*inputs) - model(*inputs)).abs().max()",
)
