"""Dropout and batch norms do one thing in training and another in eval; a module that is half in each does neither.

Also where the mode is right and not heard: `F.dropout(x)` drops in eval as well, because its `training` is True unless
it is told, and so does the `dropout_p` of fused attention.
"""

from typing import Any

import torch
from torch import nn

from pellucid.inspection.instrument.isolation import isolate, own_inputs
from pellucid.inspection.instrument.perturbation import is_beyond_rounding, largest_change, size_of
from pellucid.inspection.instrument.recording import InterceptOperators, Recorder, first_few, operator_name
from pellucid.inspection.instrument.specimen import is_fresh
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

_DROPS = ("native_dropout", "bernoulli", "bernoulli_", "alpha_dropout", "feature_dropout", "dropout", "dropout_")


def check(specimen: Specimen) -> Findings:
    found = [*_deaf(specimen), *_halves(specimen), *_drops_in_eval(specimen), *_of_norms(specimen), *_in_use(specimen)]
    yield from found
    if all(one.severity == "note" for one in found):
        modules = list(specimen.model.modules())
        n_training = sum(module.training for module in modules)
        before, after = (specimen.copy("eval").main_output(seed=seed) for seed in (0, 1))
        change = largest_change(before, after) if before is not None and after is not None else 0.0
        yield Finding.sound(
            "the model",
            f"{n_training} of {len(modules)} modules are in training, eval() reaches all, and in eval nothing is "
            f"dropped: two seeds differ by {change:.2g}",
            "the mode is heard everywhere",
        )


def _deaf(specimen: Specimen) -> Findings:
    """Parts that eval() does not reach, because a train() of their own does not pass it on."""
    model = specimen.copy().model.train().eval()
    left = [path or "the model" for path, module in model.named_modules() if module.training]
    if left:
        yield Finding.broken(
            left[0],
            f"after eval(), {len(left)} of {len(list(model.modules()))} modules are still in training: "
            f"{first_few(left)}",
            "evaluation drops units and moves batch statistics there",
            "call super().train(mode) in a train() of one's own, and return self",
            again="model.eval(); print([n for n, m in model.named_modules() if m.training])",
        )


def _halves(specimen: Specimen) -> Findings:
    """Parts in another mode than the whole."""
    model = specimen.model
    odd = [(path, module) for path, module in model.named_modules() if module.training != model.training]
    if not odd:
        return
    is_training = model.training
    kept = [path for path, module in odd if is_training and _is_kept_in_eval(module)]
    others = [path for path, _ in odd if path not in kept]
    # The answer as the modes are, and as they would be if all were that of the whole.
    as_is, as_one = (specimen.copy(mode).main_output() for mode in ("", "training" if is_training else "eval"))
    change = largest_change(as_is, as_one) if as_is is not None and as_one is not None else 0.0
    changes = f"outputs differ by up to {change:.3g} from those of one mode" if change else "outputs are 0 apart for it"
    yield Finding(
        "suspicious" if others and change else "note",
        (others or kept)[0],
        f"{len(odd)} of {len(list(model.modules()))} modules are in {'eval' if is_training else 'training'} and the "
        f"model in {'training' if is_training else 'eval'}: {first_few([path for path, _ in odd])}; {changes}",
        "part of it is evaluated while the rest is trained"
        if is_training
        else "it is evaluated with parts in training",
        f"call model.{'train' if is_training else 'eval'}() on the whole, unless these parts are frozen on purpose",
        again="print([(n, m.training) for n, m in model.named_modules()])",
    )


def _is_kept_in_eval(module: nn.Module) -> bool:
    """Batch norms and parts that do not learn often are, to leave them as they are."""
    return "Norm" in type(module).__name__ or not any(one.requires_grad for one in module.parameters())


def _drops_in_eval(specimen: Specimen) -> Findings:
    model = specimen.copy("eval").model
    if any(module.training for module in model.modules()):
        return
    heard: list[str] = []  # which part drew random numbers to drop units

    def hear(operator: Any, *_: object) -> None:
        if operator_name(operator) in _DROPS:
            heard.append(recorder.running)

    with isolate(), torch.no_grad(), Recorder(model) as recorder, InterceptOperators(hear):
        model(*own_inputs(specimen.inputs))
    first, second = (specimen.copy("eval").main_output(seed=seed) for seed in (0, 1))
    if not heard or first is None or second is None or not largest_change(first, second):
        return
    paths = list(dict.fromkeys(heard))
    yield Finding.suspicious(
        paths[0] or "the model",
        f"in eval, units are dropped in {len(heard)} places: "
        f"{first_few([path or 'the model' for path in paths])}; two seeds differ by up to "
        f"{largest_change(first, second):.3g}, outputs being of size {size_of(first):.3g}",
        "what is dropped in training is dropped in eval too, so answers are random",
        "write F.dropout(x, p, training=self.training), dropout_p=p if self.training else 0.0, or use nn.Dropout",
        again="model.eval(); print((model(x) - model(x)).abs().max())",
    )


def _of_norms(specimen: Specimen) -> Findings:
    """Batch norms whose running statistics are those of no data."""
    norms = [(path, one) for path, one in specimen.model.named_modules() if _keeps_statistics(one)]
    unmoved = [(path, one) for path, one in norms if bool((one.running_mean == 0).all() & (one.running_var == 1).all())]
    fed = [path for path, one in unmoved if int(one.num_batches_tracked) > 0]
    unfed = [path for path, one in unmoved if int(one.num_batches_tracked) == 0 and not one.training]
    if fed:
        n_batches = max(int(one.num_batches_tracked) for path, one in unmoved if path in fed)
        yield Finding.suspicious(
            fed[0],
            f"after {n_batches} batches, the running statistics of {first_few(fed)} are still 0 and 1",
            "in eval it norms by what was there before any data, and in training by the batch: two different functions",
            "give it a momentum above 0, or do not put them back",
            again="print(dict(model.named_buffers()))",
        )
    if unfed and specimen.optimizer is not None and not specimen.model.training:
        yield Finding.suspicious(
            unfed[0],
            f"{len(unfed)} batch norms are in eval and have seen 0 batches, while an optimizer is there: "
            f"{first_few(unfed)}",
            "if it is trained so, batch norm never norms anything",
            "call model.train() before training, and model.eval() before evaluating",
            again="print(model.training, dict(model.named_buffers()))",
        )


def _keeps_statistics(module: nn.Module) -> bool:
    return isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is not None


def _in_use(specimen: Specimen) -> Findings:
    """A model that was trained, is shown without anything to train it, and answers as in training."""
    if specimen.loss is not None or specimen.optimizer is not None or not specimen.model.training:
        return
    as_is, in_eval = (specimen.copy(mode).main_output() for mode in ("training", "eval"))
    if as_is is None or in_eval is None or not is_beyond_rounding(largest_change(as_is, in_eval), in_eval):
        return
    yield Finding(
        "note" if is_fresh(specimen) else "suspicious",
        "the model",
        f"as it is, in training mode, outputs differ by up to {largest_change(as_is, in_eval):.3g} from those in eval, "
        f"outputs being of size {size_of(in_eval):.3g}; there is no loss and no optimizer",
        "if it is used like this, its answers are those of training: with dropout, and normed by the batch",
        "call model.eval() before it is used",
        again="print((model(x) - model.eval()(x)).abs().max())",
    )


RULE = DoctorRule(
    name="wrong-mode",
    proves="part of a module is in another mode than the rest, or does not hear its mode",
    how="compares the modes of all parts, calls eval() on a copy, and listens for dropout in eval",
    check=check,
    cannot_see="modes that are switched inside forward",
)
