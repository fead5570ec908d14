"""A parameter that the loss does not lead to is never trained, however long it runs.

A layer that forward forgets, a head whose answer is thrown away, weights frozen before they learned anything. Weights
may start at zero and get no gradient at first, as in ReZero; so it is asked again with weights that were nudged.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from pellucid.inspection.patient import Patient, unchanged_randomness
from pellucid.inspection.rule import Rule
from pellucid.inspection.slopes import in_training, is_left_alone, jittered, learning, slopes_of, some_of
from pellucid.inspection.weight_age import is_as_drawn
from pellucid.records import Finding

AGAIN = "loss(model(x), y).backward(); print([n for n, p in model.named_parameters() if p.grad is None])"


def check(patient: Patient) -> Iterator[Finding]:
    yield from _frozen(patient.model)
    copied = in_training(patient)
    parameters = learning(copied.model)
    if not parameters:
        return
    found = slopes_of(copied, list(parameters.values()))
    if found is None:
        return
    if all(slope is None for slope in found):
        yield Finding(
            "broken",
            "loss",
            f"none of {len(parameters)} parameters gets a gradient",
            "the loss is cut off from the weights, so nothing can be learned",
            "look for detach(), .data, .item(), argmax, no_grad() or numpy between the weights and the loss",
            rule="no-gradient",
            again=AGAIN,
        )
        return
    silent = {path for path, slope in zip(parameters, found, strict=True) if slope is None or not slope.any()}
    for seed in (1, 2):
        if silent:
            jittered(copied.model, seed)
            again = slopes_of(copied, list(parameters.values())) or []
            silent -= {
                path for path, slope in zip(parameters, again, strict=False) if slope is not None and slope.any()
            }
    if not silent:
        norms = [float(slope.norm()) for slope in found if slope is not None]
        yield Finding(
            "sound",
            "the model",
            f"all {len(parameters)} parameters get a gradient; the norms reach from {min(norms):.2g} to "
            f"{max(norms):.2g}",
            "every weight is trained",
            "",
            rule="no-gradient",
        )
        return
    for is_meant in (False, True):
        paths = [path for path in parameters if path in silent and is_left_alone(patient, path) == is_meant]
        if paths:
            n_weights = sum(parameters[path].numel() for path in paths)
            yield Finding(
                "note" if is_meant else "suspicious",
                paths[0].rpartition(".")[0] or paths[0],
                f"{len(paths)} of {len(parameters)} parameters ({n_weights} weights) get no gradient under 3 sets of "
                f"weights: {some_of(paths)}",
                "nothing of the loss of this batch reaches them, so they stay as they were drawn",
                "use them in forward, or take them out; if they are for other batches, this is meant",
                rule="no-gradient",
                again=AGAIN,
            )


def _frozen(model: nn.Module) -> Iterator[Finding]:
    """Weights that ask for no gradient: meant where they were trained before, and a mistake where they were not."""
    frozen = {path: one for path, one in model.named_parameters() if not one.requires_grad}
    n_all = sum(1 for _ in model.parameters())
    if not frozen:
        return
    untrained = [path for path, one in frozen.items() if _is_random(model, path, one)]
    n_weights = sum(one.numel() for one in frozen.values())
    yield Finding(
        "suspicious" if untrained else "note",
        (untrained or list(frozen))[0].rpartition(".")[0] or "the model",
        f"{len(frozen)} of {n_all} parameters ({n_weights} weights) are frozen: {some_of(list(frozen))}"
        + (f"; {len(untrained)} of them still as torch draws them" if untrained else ""),
        "random weights are kept, and nothing will be learned there" if untrained else "they stay as they are",
        "call requires_grad_(True) on them, or load the weights that they should have",
        rule="no-gradient",
        again="print([n for n, p in model.named_parameters() if not p.requires_grad])",
    )


def _is_random(model: nn.Module, path: str, parameter: Tensor) -> bool:
    owner = model.get_submodule(path.rpartition(".")[0])
    is_drawn_so = isinstance(owner, nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d) and path.endswith("weight")
    return is_drawn_so and is_as_drawn(parameter, parameter[0].numel())


class _TwoHeads(nn.Module):
    """Has a second layer that forward uses, or forgets."""

    def __init__(self, is_used: bool) -> None:
        super().__init__()
        self.is_used = is_used
        self.first = nn.Linear(5, 8)
        self.second = nn.Linear(8, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, rows: Tensor) -> Tensor:
        hidden = self.first(rows).tanh()
        if self.is_used:
            hidden = self.second(hidden).tanh()
        scores: Tensor = self.head(hidden)
        return scores


def _patient(is_used: bool) -> Patient:
    with unchanged_randomness(0):
        return Patient(_TwoHeads(is_used), (torch.randn(9, 5),), torch.arange(9) % 3, nn.CrossEntropyLoss())


RULE = Rule(
    name="no-gradient",
    proves="parameters get no gradient from the loss of this batch, whatever their values",
    how="runs the loss backward for these weights and for two sets of nudged ones",
    check=check,
    sick=lambda: _patient(is_used=False),
    well=lambda: _patient(is_used=True),
)
