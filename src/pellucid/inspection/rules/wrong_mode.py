"""Dropout and batch norms do one thing in training and another in eval; a module that is half in each does neither.

Also where the mode is right and not heard: `F.dropout(x)` drops in eval as well, because its `training` is True unless
it is told, and so does the `dropout_p` of fused attention.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from pellucid.inspection.patient import Patient, unchanged_randomness
from pellucid.inspection.probes import answer, fresh, is_beyond_rounding, moved, probing, size_of
from pellucid.inspection.rule import Rule
from pellucid.inspection.slopes import some_of
from pellucid.inspection.weight_age import is_fresh
from pellucid.records import Finding

_DROPS = ("native_dropout", "bernoulli", "bernoulli_", "alpha_dropout", "feature_dropout", "dropout", "dropout_")


def check(patient: Patient) -> Iterator[Finding]:
    found = [*_deaf(patient), *_halves(patient), *_drops_in_eval(patient), *_of_norms(patient), *_in_use(patient)]
    yield from found
    if all(one.severity == "note" for one in found):
        modules = list(patient.model.modules())
        n_training = sum(module.training for module in modules)
        before, after = (answer(patient.copied().model.eval(), patient.inputs, seed) for seed in (0, 1))
        change = moved(before, after) if before is not None and after is not None else 0.0
        yield Finding(
            "sound",
            "the model",
            f"{n_training} of {len(modules)} modules are in training, eval() reaches all, and in eval nothing is "
            f"dropped: two seeds differ by {change:.2g}",
            "the mode is heard everywhere",
            "",
            rule="wrong-mode",
        )


def _deaf(patient: Patient) -> Iterator[Finding]:
    """Parts that eval() does not reach, because a train() of their own does not pass it on."""
    model = patient.copied().model.train().eval()
    left = [path or "the model" for path, module in model.named_modules() if module.training]
    if left:
        yield Finding(
            "broken",
            left[0],
            f"after eval(), {len(left)} of {len(list(model.modules()))} modules are still in training: {some_of(left)}",
            "evaluation drops units and moves batch statistics there",
            "call super().train(mode) in a train() of one's own, and return self",
            rule="wrong-mode",
            again="model.eval(); print([n for n, m in model.named_modules() if m.training])",
        )


def _halves(patient: Patient) -> Iterator[Finding]:
    """Parts in another mode than the whole."""
    model = patient.model
    odd = [(path, module) for path, module in model.named_modules() if module.training != model.training]
    if not odd:
        return
    is_training = model.training
    # Batch norms and parts that do not learn are often kept in eval, to leave them as they are.
    kept = [path for path, module in odd if is_training and (_is_norm(module) or not _learns(module))]
    others = [path for path, _ in odd if path not in kept]
    as_is, as_one = _in_both(patient)
    change = moved(as_is, as_one) if as_is is not None and as_one is not None else 0.0
    changes = f"outputs differ by up to {change:.3g} from those of one mode" if change else "outputs are 0 apart for it"
    yield Finding(
        "suspicious" if others and change else "note",
        (others or kept)[0],
        f"{len(odd)} of {len(list(model.modules()))} modules are in {'eval' if is_training else 'training'} and the "
        f"model in {'training' if is_training else 'eval'}: {some_of([path for path, _ in odd])}; {changes}",
        "part of it is evaluated while the rest is trained"
        if is_training
        else "it is evaluated with parts in training",
        f"call model.{'train' if is_training else 'eval'}() on the whole, unless these parts are frozen on purpose",
        rule="wrong-mode",
        again="print([(n, m.training) for n, m in model.named_modules()])",
    )


def _in_both(patient: Patient) -> tuple[Tensor | None, Tensor | None]:
    """The answer as the modes are, and as they would be if all were that of the whole."""
    copied = patient.copied().model
    one = answer(copied, patient.inputs)
    return one, answer(patient.copied().model.train(patient.model.training), patient.inputs)


def _is_norm(module: nn.Module) -> bool:
    return "Norm" in type(module).__name__


def _learns(module: nn.Module) -> bool:
    return any(parameter.requires_grad for parameter in module.parameters())


class _Listening(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Hears which part of a module throws dice to drop units."""

    def __init__(self, stack: list[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.stack = stack
        self.heard: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.__name__.split(".")[0] in _DROPS:
            self.heard.append(self.stack[-1])
        return func(*args, **(kwargs or {}))


def _drops_in_eval(patient: Patient) -> Iterator[Finding]:
    model = patient.copied().model.eval()
    if any(module.training for module in model.modules()):
        return
    stack = [""]
    for path, module in model.named_modules():
        module.register_forward_pre_hook(lambda _module, _inputs, path=path: stack.append(path))
        module.register_forward_hook(lambda _module, _inputs, _outputs: stack.pop() and None)
    listening = _Listening(stack)
    with probing(), torch.no_grad(), listening:
        model(*fresh(patient.inputs))
    first, second = (answer(patient.copied().model.eval(), patient.inputs, seed) for seed in (0, 1))
    if not listening.heard or first is None or second is None or not moved(first, second):
        return
    paths = list(dict.fromkeys(listening.heard))
    yield Finding(
        "suspicious",
        paths[0] or "the model",
        f"in eval, units are dropped in {len(listening.heard)} places: "
        f"{some_of([path or 'the model' for path in paths])}; two seeds differ by up to {moved(first, second):.3g}, "
        f"outputs being of size {size_of(first):.3g}",
        "what is dropped in training is dropped in eval too, so answers are random",
        "write F.dropout(x, p, training=self.training), dropout_p=p if self.training else 0.0, or use nn.Dropout",
        rule="wrong-mode",
        again="model.eval(); print((model(x) - model(x)).abs().max())",
    )


def _of_norms(patient: Patient) -> Iterator[Finding]:
    """Batch norms whose running statistics are those of no data."""
    norms = [(path, one) for path, one in patient.model.named_modules() if _keeps_statistics(one)]
    unmoved = [(path, one) for path, one in norms if bool((one.running_mean == 0).all() & (one.running_var == 1).all())]
    fed = [path for path, one in unmoved if int(one.num_batches_tracked) > 0]
    unfed = [path for path, one in unmoved if int(one.num_batches_tracked) == 0 and not one.training]
    if fed:
        n_batches = max(int(one.num_batches_tracked) for path, one in unmoved if path in fed)
        yield Finding(
            "suspicious",
            fed[0],
            f"after {n_batches} batches, the running statistics of {some_of(fed)} are still 0 and 1",
            "in eval it norms by what was there before any data, and in training by the batch: two different functions",
            "give it a momentum above 0, or do not put them back",
            rule="wrong-mode",
            again="print(dict(model.named_buffers()))",
        )
    if unfed and patient.optimizer is not None and not patient.model.training:
        yield Finding(
            "suspicious",
            unfed[0],
            f"{len(unfed)} batch norms are in eval and have seen 0 batches, while an optimizer is there: "
            f"{some_of(unfed)}",
            "if it is trained so, batch norm never norms anything",
            "call model.train() before training, and model.eval() before evaluating",
            rule="wrong-mode",
            again="print(model.training, dict(model.named_buffers()))",
        )


def _keeps_statistics(module: nn.Module) -> bool:
    return isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is not None


def _in_use(patient: Patient) -> Iterator[Finding]:
    """A model that was trained, is shown without anything to train it, and answers as in training."""
    if patient.loss is not None or patient.optimizer is not None or not patient.model.training:
        return
    as_is, in_eval = (answer(patient.copied().model.train(mode), patient.inputs) for mode in (True, False))
    if as_is is None or in_eval is None or not is_beyond_rounding(moved(as_is, in_eval), in_eval):
        return
    is_first = is_fresh(patient)
    yield Finding(
        "note" if is_first else "suspicious",
        "the model",
        f"as it is, in training mode, outputs differ by up to {moved(as_is, in_eval):.3g} from those in eval, "
        f"outputs being of size {size_of(in_eval):.3g}; there is no loss and no optimizer",
        "if it is used like this, its answers are those of training: with dropout, and normed by the batch",
        "call model.eval() before it is used",
        rule="wrong-mode",
        again="print((model(x) - model.eval()(x)).abs().max())",
    )


class _Dropping(nn.Module):
    """Drops units by a function, which is told the mode or not."""

    def __init__(self, is_told: bool) -> None:
        super().__init__()
        self.is_told = is_told
        self.first, self.second = nn.Linear(6, 12), nn.Linear(12, 3)

    def forward(self, rows: Tensor) -> Any:
        hidden = self.first(rows).relu()
        return self.second(functional.dropout(hidden, 0.5, training=self.training or not self.is_told))


def _patient(is_told: bool) -> Patient:
    with unchanged_randomness(0):
        return Patient(_Dropping(is_told), (torch.randn(8, 6),), torch.arange(8) % 3)


RULE = Rule(
    name="wrong-mode",
    proves="part of a module is in another mode than the rest, or does not hear its mode",
    how="compares the modes of all parts, calls eval() on a copy, and listens for dropout in eval",
    check=check,
    sick=lambda: _patient(is_told=False),
    well=lambda: _patient(is_told=True),
)
