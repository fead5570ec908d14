"""A flow must count by how much it stretches: −log p(x) = −log p(z) − log |det dz/dx|, with these signs and weights.

The determinant is measured: the Jacobian of what is put out by what is put in, row by row. Where a module puts it out,
too, the loss must fall with it, and by as much as it weighs the density of z. Squashing everything is cheap otherwise.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from pellucid.inspection.instrument.isolation import isolate, try_or_none
from pellucid.inspection.instrument.nests import map_tensors, tensors_in
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

MOST_WIDE = 64
SAME = 1e-3  # of the size of log-determinants
WEIGHT = 0.05  # by which their weight may be off that of the density
NORMAL = 0.01  # of the loss's slope along z, squared, that is not along z itself, where the density is a normal one
AGAIN = (
    "rows = [torch.autograd.functional.jacobian(lambda row: model(row[None])[0][0], row) for row in x[:4]]\n"
    "print(torch.linalg.slogdet(torch.stack(rows)).logabsdet, model(x[:4])[1])"
)


class Determinants(NamedTuple):
    """Those of a flow, and what its loss makes of them."""

    told: Tensor  # by the module, one a row
    measured: Tensor
    by_log: float  # the slope of the loss by one log-determinant: its mean over rows
    by_density: float  # times z, its slope along z; nan where z is not pulled to 0 as by a normal density


def check(specimen: Specimen) -> Findings:
    found = try_or_none(lambda: _measure(specimen))
    if found is None:
        return
    told, measured = found.told, found.measured
    size = float(measured.abs().mean() + measured.std() + 1e-6)
    is_same, is_minus = (float((told - sign * measured).abs().max()) <= SAME * size for sign in (1, -1))
    slope = found.by_log if is_same else -found.by_log
    if not (is_same or is_minus) or not slope:
        return  # what it puts out there may be anything
    seen = f"log |det dz/dx| is {measured[0]:.4g} in the first row, and the module tells {told[0]:.4g}"
    weight = -slope / found.by_density
    if slope > 0:
        yield Finding.broken(
            "loss",
            f"{seen}; the loss grows by {slope:.3g} with each log-determinant",
            "what is squashed together is rewarded: −log p(x) falls with log |det dz/dx|",
            "add the log-determinant to log p(z) before the minus, or turn its sign where the module computes it",
            again=AGAIN,
        )
    elif math.isfinite(weight) and abs(weight - 1) > WEIGHT:
        yield Finding.suspicious(
            "loss",
            f"{seen}; in the loss it weighs {weight:.4g} times as much as the density of z",
            "both belong to one likelihood: with another weight it is none",
            "give log p(z) and the log-determinant the same reduction over rows and numbers",
            again=AGAIN,
        )
    else:
        yield Finding.sound("loss", f"{seen}; the loss falls with it", "stretching counts as it should", again=AGAIN)


def _measure(specimen: Specimen) -> Determinants | None:
    copied = specimen.copy("eval").double()
    given = copied.inputs[0] if len(copied.inputs) == 1 else None
    if not isinstance(given, Tensor) or not given.is_floating_point() or given.dim() != 2:
        return None
    n_rows, width = given.shape
    if not 1 < width <= MOST_WIDE:
        return None
    x = given.detach().clone().requires_grad_()
    with isolate():
        outputs = copied.model(x)
        parts = tensors_in(outputs)
        z = next((one for one in parts if one.shape == x.shape and one.requires_grad), None)
        log = next((one for one in parts if one.shape == (n_rows,) and one.is_floating_point()), None)
        if z is None or log is None:
            return None
        rows = [torch.autograd.grad(z[:, at].sum(), x, retain_graph=True)[0] for at in range(width)]
        measured = torch.linalg.slogdet(torch.stack(rows, 1)).logabsdet
        free = {id(z): z.detach().requires_grad_(), id(log): log.detach().requires_grad_()}
        loss = copied.loss_of(map_tensors(lambda one: free.get(id(one), one.detach()), outputs))
        along_z, along_log = torch.autograd.grad(loss, list(free.values()), allow_unused=True)
    by_log = 0.0 if along_log is None else float(along_log.mean())
    by_density = math.nan if along_z is None else _pull(z.detach(), along_z)
    return Determinants(log.detach(), measured.detach(), by_log, by_density)


def _pull(z: Tensor, slope: Tensor) -> float:
    """The factor by which a slope is z; nan where it is not."""
    factor = float((slope * z).sum() / z.square().sum())
    left = float((slope - factor * z).norm() / slope.norm().clamp(min=1e-30))
    return factor if left * left < NORMAL and factor > 0 else math.nan


RULE = DoctorRule(
    name="log-determinant",
    proves="that the loss of a flow counts its log-determinants with the wrong sign or weight",
    how="measures the Jacobian of the outputs by the inputs, and the slopes of the loss by what is told of it",
    check=check,
    cannot_see="flows that do not put out both z and the log-determinant, or are wider than 64",
    needs=("targets", "loss"),
)
